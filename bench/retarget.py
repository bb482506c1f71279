"""Retargeting of holosoma's climbing sequences to a Unitree G1, judged by its own evaluation.

    python bench/retarget.py FOLDER [ROUNDS]

FOLDER has the unpacked wheel of holosoma-retargeting 0.1.0: five sequences of motion capture with
boxes, the robot, and the evaluation, which runs in an environment of its own ("holosoma": libigl,
mujoco, trimesh, tyro, smplx, torch, jinja2). All frames, 120 per second, are retargeted; the
evaluation takes every fourth one, as holosoma does. Times are CPU times of one core. Prints a table
and writes it to bench/results/.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import measure
import supple as sp
from supple.collision import Box
from supple.retargeting import PointMapping, Retargeted, default_limits
from supple.retargeting.points import names_of_points
from worker import Worker

SCALE = 1.32 / 1.78  # of holosoma's evaluation: heights of the robot and of the human [m]
FPS, EVERY = 120.0, 4


def box_of(file: Path) -> Box:
    """Return the box with the eight corners in an OBJ file, in the size of the robot."""
    lines = [line.split() for line in file.read_text().splitlines()]
    corners = np.array([line[1:4] for line in lines if line[:1] == ["v"]], dtype=float)
    ways = corners[1:] - corners[0]
    edges = min(
        (ways[list(three)] for three in itertools.combinations(range(7), 3)),
        key=lambda three: np.abs(three @ three.T - np.diag(np.diag(three @ three.T))).max(),
    )
    lengths = np.linalg.norm(edges, axis=1)
    T = np.eye(4)
    T[:3, :3] = (edges / lengths[:, None]).T
    T[:3, 2] *= np.sign(np.linalg.det(T[:3, :3]))
    T[:3, 3] = SCALE * corners.mean(axis=0)
    return Box(SCALE * lengths, T)


def jumps(found: Retargeted) -> tuple[float, float]:
    """Return the largest speed and acceleration of a joint, relative to their limits."""
    limits = default_limits(found.robot)
    qd = found.qd[:, 6:]
    qdd = np.diff(qd, axis=0) * found.fps
    return (
        float((np.abs(qd) / limits.max_speed[6:]).max()),
        float((np.abs(qdd) / limits.max_acceleration[6:]).max()),
    )


def main(folder: Path, rounds: int) -> None:
    """Retarget and judge all sequences, and print and write the table."""
    measure.one_core()
    package = folder / "holosoma_retargeting"
    robot = sp.mjcf(package / "models/g1/g1_29dof_spherehand.xml")
    judge = Worker("holosoma", "retarget_judge.py", (folder.resolve(),))
    rows, judged, frames, seconds = [], [], 0, 0.0
    for sequence in sorted((package / "demo_data/climb").iterdir()):
        positions = np.load(next(sequence.glob("*.npy")))
        motion = sp.retargeting.HumanMotion(names_of_points(53, "holosoma"), positions, FPS)
        boxes = {file.stem: box_of(file) for file in sorted(sequence.glob("box_models/*.obj"))}
        world = sp.World(boxes)
        times = []
        for _ in range(rounds):
            begin = time.process_time()
            mapping = PointMapping.guess(robot, motion, scale=SCALE)
            found = sp.retarget(robot, motion, mapping=mapping, world=world)
            times.append(time.process_time() - begin)
        took = statistics.median(times)
        frames, seconds = frames + len(motion), seconds + took
        speed, acceleration = jumps(found)
        slide = found.slide[found.contacts]
        rows.append(
            f"| {sequence.name[-1]} | {len(motion)} | {len(motion) / took:.0f} | "
            f"{1e3 * slide.max():.2f} | {100 * (slide > 1e-3).mean():.2f} % | {speed:.3f} | "
            f"{acceleration:.3f} |"
        )
        if judge.missing:
            continue
        with tempfile.TemporaryDirectory() as name:
            file = Path(name) / f"{sequence.name}_original.npz"
            np.savez(file, qpos=found.q[::EVERY], cost=0.0)
            said = judge.ask(ask="judge", sequence=sequence.name, file=str(file))
        for title, of in (("1 cm", said["own"]), ("1 mm", said["strict"])):
            judged.append(
                f"| {sequence.name[-1]} | {title} | {100 * of['penetrating']:.1f} % | "
                f"{1e3 * of['deepest']:.1f} | {100 * of['sliding']:.1f} % | "
                f"{1e3 * of['fastest']:.1f} |"
            )
    lines = [
        "# Retargeting of climbing sequences",
        "",
        "The five climbing sequences of holosoma-retargeting 0.1.0 onto its Unitree G1 with 29 "
        f"joints, from key points alone: {frames} frames at {FPS:g} frames/s, "
        f"{frames / seconds:.0f} frames per second of CPU time on one core, with measuring the "
        f"human; medians of {rounds} rounds. All links but standing feet are kept out of boxes and "
        "apart from each other.",
        measure.provenance(("supple", "numpy")),
        "",
        "Slide: the largest distance of a point of a standing foot's sole from where its stance "
        "began, over all frames with contact, and the share of these frames above 1 mm. Speeds and "
        "accelerations are the largest ones relative to their limits.",
        "",
        "| sequence | frames | frames/s | slide [mm] | above 1 mm | speed | acceleration |",
        "|---|---:|---:|---:|---:|---:|---:|",
        *rows,
        "",
        "## holosoma's evaluation",
        "",
        "Every fourth frame. Its own tolerances are 1 cm of penetration and 1 cm of sliding per "
        "frame, for feet whose toe moves by less than 1 cm per frame in the motion capture, at 30 "
        "frames/s: feet that move at up to 0.3 m/s count as standing. The same with 1 mm.",
        "",
        "| sequence | tolerance | frames that penetrate | deepest [mm] | standing frames that "
        "slide | fastest [mm/frame] |",
        "|---|---|---:|---:|---:|---:|",
        *judged,
        "",
        f"- {judge.line}" if judge.missing else "- judged by holosoma-retargeting 0.1.0",
        "",
    ]
    judge.close()
    print("\n".join(lines))
    print("written to", measure.write("retarget", "\n".join(lines)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3)
