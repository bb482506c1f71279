"""Time a reachability map of a UR5e, and count the poses that coarse grids and few seeds miss.

    python bench/reach.py [--spacing 0.025] [--orientations 64] [--both]
    python bench/reach.py --both --device cuda       # on a machine with an NVIDIA GPU
    python bench/reach.py --seeds            # compare numbers of seeds, at a spacing of 10 cm

Prints a table and writes it to bench/results/ (with --device cuda to reach_gpu).
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

import measure
import supple as sp
from supple.cluster import maps, reachability

SEEDS = ((512, 512), (8, 8), (8, 32), (8, 64), (16, 64), (32, 32))
PUBLISHED = "about 800 hours, as users of a published tool report for its map of a UR5e"


def main(spacing: float, orientations: int, device: str | None, levels: int, both: bool) -> None:
    """Compute a map; print its time and counts, and write them to bench/results/."""
    robot = sp.load("ur5e")
    if device is not None:  # first compile the program for the GPU
        T = robot.fk(robot.random(100_000, seed=0))
        for seeds in (8, 32):
            sp.Solver(robot, device=device, max_seeds=seeds).batch(T)
    rows = [
        "| values | seconds | processor time [s] | poses per second | solved | reached |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for values in (False, True) if both else (True,):
        place = Path(tempfile.mkdtemp())
        began, before = time.perf_counter(), time.process_time()
        found = reachability(
            robot,
            place,
            spacing=spacing,
            orientations=orientations,
            device=device,
            levels=levels,
            values=values,
        )
        took, used = time.perf_counter() - began, time.process_time() - before
        counts = json.loads((place / "poses/_summary.json").read_text())["counts"]
        size = sum(path.stat().st_size for path in place.rglob("*.parquet")) / 1e6
        shutil.rmtree(place)
        what = "reach, manipulability, σ" if values else "reach"
        rows.append(
            f"| {what} | {took:.1f} | {used:.1f} | {counts['poses'] / took:,.0f} | "
            f"{100 * counts['solved'] / counts['poses']:.1f} % | "
            f"{100 * counts['reached'] / counts['poses']:.1f} % |"
        )
    shape = " × ".join(map(str, found.dexterity.shape))
    lines = [
        f"# A map of a UR5e{' on a GPU' if device else ''}",
        "",
        f"{shape} voxels of {100 * spacing:g} cm, {orientations} orientations: "
        f"{counts['poses']:,} poses, {levels} coarser grids, {size:.0f} MB. "
        f"Published: {PUBLISHED}.",
        measure.provenance(("supple", "numpy", "pyarrow")),
        "",
        *rows,
        "",
    ]
    print("\n".join(lines))
    print("written to", measure.write("reach_gpu" if device else "reach", "\n".join(lines)))


def seeds() -> None:
    """Compare numbers of seeds, at a spacing of 10 cm with two orientations."""
    robot = sp.load("ur5e")
    grid = maps.grid_around(robot, "tool0", 0.1, 0, None)
    job = maps.ReachJob(
        robot, "tool0", grid, maps.uniform_orientations(64)[[3, 30]], 0, False, None
    )
    expected = np.empty(0)
    for few, more in SEEDS:
        maps._FEW_SEEDS, maps._MORE_SEEDS = few, more
        began = time.process_time()
        reached = job.explore(job.orientations).reached
        took = time.process_time() - began
        expected = expected if expected.size else reached
        wrong = int((reached != expected).sum())
        print(f"{few:4} {more:4} seeds: {took:6.2f} s, {wrong} of {reached.size} poses differ")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spacing", type=float, default=0.025)
    parser.add_argument("--orientations", type=int, default=64)
    parser.add_argument("--levels", type=int, default=2)
    parser.add_argument("--device")
    parser.add_argument("--both", action="store_true", help="also map without manipulability")
    parser.add_argument("--seeds", action="store_true")
    given = parser.parse_args()
    if given.seeds:
        seeds()
    else:
        main(given.spacing, given.orientations, given.device, given.levels, given.both)
