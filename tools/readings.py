"""Search for paths that fit the text's description of trajectories B and C of Maciejewski & Klein.

Maciejewski & Klein 1988 move the tool of a PUMA along trajectories whose coordinates are not
printed. The text describes the trajectories (B: a line past the shoulder singularity to a wrist
singularity; C: an arc through a configuration with three singularities) and their features: what
the errors, joint speeds and singular values along them look like. This script draws random paths of
the described kind, called readings, simulates the paper's methods along each, and prints how many
readings show each feature, and the readings that show the most. The paths in
`papers/maciejewski_klein/courses.py` were selected in this way.

    make dev                                                           # builds the package
    PYTHONPATH=build/dev .venv/bin/python tools/readings.py b --draws 80000   # simulates 260 lines
    PYTHONPATH=build/dev .venv/bin/python tools/readings.py c --draws 2000    # simulates 578 arcs

Each search takes some minutes of one core. The same seed draws the same paths.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
from supple.papers.maciejewski_klein import many, statements
from supple.papers.maciejewski_klein.courses import INTERVAL, MAX_GAIN, TRIPLE, Course, Runs
from supple.papers.maciejewski_klein.inverse import D2, D6, PUMA, branch_of, configurations
from supple.papers.style import Array

BATCH = {"b": 4000, "c": 100}  # paths that are drawn at a time
SIGNS = np.array([-1.0, 1.0])
Drawn = tuple[Array, Array, list[str]]  # starts (P, 6), poses (K + 1, P, 4, 4), descriptions

# Statements of the text about each trajectory: words, and a function of the simulated motions.
# If a statement about errors names no method, the method is constant damping.
FEATURES: dict[str, dict[str, Callable[[Runs], bool]]] = {
    "b": {
        "the error is nowhere near zero": statements.present,
        "filtering brings the error near zero away from singularities": statements.near_zero,
        "the error has a notch at the shoulder singularity": lambda runs: (
            statements.notched(runs)
            and abs(runs.notch("constant")[0][1] - statements.switch(runs).shoulder)
            < len(runs.course.poses) / 8
        ),
        "the error of filtering is along singular directions": statements.only_lost,
        "the error rises at the end, at the wrist singularity": statements.ends_at_wrist,
        "u6 turns from the shoulder's direction to the wrist's": statements.switches,
        "σ5 and σ6 are above 1/θ̇max when u6 turns": statements.twins_above,
        "filtering has a smaller error than variable damping": statements.better,
    },
    "c": {
        "the nominal error is 15 %, and larger near the singularity": statements.nominal,
        "the error is at least 10 % everywhere": statements.throughout,
        "filtering brings the error near zero away from singularities": statements.near_zero,
        "the error has a notch between two peaks": statements.notched,
        "the error of filtering is along singular directions": statements.only_lost,
        "σ4, σ5 and σ6 are smallest near the middle": statements.dips_in_the_middle,
        "σ6 belongs to the wrist, σ5 to the elbow, σ4 to the shoulder": statements.in_order,
        "σ4 is less than half of σ2": statements.fourth_is_small,
        "errors and speeds are within the axes of Fig. 8": statements.within_axes,
        "filtering has a smaller error than variable damping": statements.better,
    },
}
SHOWN = 10  # number of readings that are printed


def lines(rng: np.random.Generator, count: int) -> Drawn:
    """Draw `count` readings of trajectory B, and return those of the described kind.

    The readings are lines of 0.6 to 1.05 m. The wrist passes the cylinder around the shoulder's
    axis, on which the arm is singular, at 0.5 to 12 mm, and ends 0.3° to 12° from a wrist
    singularity. Lines that leave the reach are dropped, and so are those on which u6 does not turn
    from the shoulder's direction to the wrist's where σ6 is at least 0.17.
    """
    intervals = int(rng.choice([400, 500, 600, 700]))
    side, radius = rng.choice(SIGNS, count), D2 + rng.uniform(0.0005, 0.012, count)
    height = rng.uniform(-0.75, 0.75, count)
    climb = np.where(rng.random(count) < 0.5, 0, np.radians(rng.uniform(-50, 50, count)))
    part = rng.uniform(0.3, 0.7, count)
    along = np.stack([np.cos(climb), 0 * climb, np.sin(climb)], axis=1)
    nearest = np.stack([0 * radius, side * radius, height], axis=1)

    def wrists(places: int, some: Array) -> Array:
        distance = intervals * INTERVAL * (np.linspace(0, 1, places)[:, None] - part[some])
        return np.asarray(nearest[some] + distance[..., None] * along[some])

    every = np.arange(count)
    branch = rng.choice(SIGNS, (count, 3))
    last = np.tile(np.eye(4), (count, 1, 1))
    last[:, :3, 3] = wrists(2, every)[-1] + [0, 0, D6]
    end = configurations(last, branch)
    within = np.isfinite(end).all(axis=1)
    end = np.nan_to_num(end)
    end[:, 3] = rng.uniform(-np.pi, np.pi, count)
    end[:, 4], end[:, 5] = np.radians(rng.uniform(0.3, 12, count)) * branch[:, 2], 0

    def poses(places: int, some: Array) -> Array:
        pose = PUMA.fk(end[some])
        found = np.tile(pose, (places, 1, 1, 1))
        found[..., :3, 3] = wrists(places, some) + D6 * pose[:, :3, 2]
        return found

    coarse = poses(50, every)
    q = configurations(coarse.reshape(-1, 4, 4), np.tile(branch_of(end), (50, 1)))
    q = q.reshape(50, count, 6)
    within &= np.isfinite(q).all(axis=(0, 2))
    some = np.array([k for k in np.flatnonzero(within) if _switches(q[:, k], part[k])], dtype=int)
    full = poses(intervals + 1, some)
    starts = configurations(full[0], branch_of(end[some])) if len(some) else np.zeros((0, 6))
    told = [
        f"ends at {np.round(np.degrees(end[k]), 3).tolist()}°, climbs {np.degrees(climb[k]):.2f}°, "
        f"{intervals} intervals"
        for k in some
    ]
    return starts, full, told


def _switches(q: Array, part: float) -> bool:
    """Return whether u6 turns after the shoulder on the exact path (K, 6), as `lines` requires."""
    U, sigma, Vt = np.linalg.svd(PUMA.jacobian(q))
    share, u = statements.wrist_share(Vt)[:, -1], U[:, :, -1]
    shoulder = round(part * (len(q) - 1))
    if share[shoulder] > 0.5 or share[-1] < 0.6 or sigma[shoulder, -1] > 0.06:
        return False
    cosine = np.abs((u[1:] * u[:-1]).sum(axis=1))[shoulder:]
    at = shoulder + int(cosine.argmin())
    bent = np.abs(np.sin(q[:at, 4])).min() > np.sin(np.radians(12))
    return bool(cosine.min() <= 0.9 and sigma[at, -1] >= 0.17 and sigma[0, -1] >= 0.15 and bent)


def circles(rng: np.random.Generator, count: int) -> Drawn:
    """Draw `count` readings of trajectory C, and return those of the described kind.

    The readings are arcs of 0.75 to 1.35 m through the triple singularity, in planes at up to 45°
    to the x-z plane that lean by up to 30°. Arcs that start out of reach or with σ6 < 0.16 are
    dropped.
    """
    intervals = int(rng.choice([500, 650, 785, 900]))
    radius = rng.uniform(0.15, 0.45, count)
    plane = np.radians(rng.uniform(-45, 45, count)) + rng.choice([0, np.pi], count)
    lean = np.radians(rng.choice([0, 1], count) * rng.uniform(-30, 30, count))
    angle = INTERVAL * (np.arange(intervals + 1)[:, None] - intervals / 2) / radius
    ahead = np.stack([np.cos(plane), np.sin(plane), 0 * plane], axis=1)
    aside = np.stack([-np.sin(plane), np.cos(plane), 0 * plane], axis=1)
    up = np.cos(lean)[:, None] * [0.0, 0.0, 1.0] + np.sin(lean)[:, None] * aside
    poses = np.tile(PUMA.fk(TRIPLE), (intervals + 1, count, 1, 1))
    poses[..., :3, 3] += (radius * np.sin(angle))[..., None] * ahead
    poses[..., :3, 3] += (radius * (np.cos(angle) - 1))[..., None] * up
    starts = configurations(poses[0], rng.choice(SIGNS, (count, 3)))
    good = np.isfinite(starts).all(axis=1) & (np.abs(angle[0]) < 0.97 * np.pi)
    sigma = np.linalg.svd(PUMA.jacobian(np.where(good[:, None], starts, 0)), compute_uv=False)
    some = np.flatnonzero(good & (sigma[:, -1] >= 0.8 / MAX_GAIN))
    told = [
        f"radius {radius[k]:.3f} m, plane {np.degrees(plane[k]):.1f}°, leans "
        f"{np.degrees(lean[k]) + 0.0:.1f}°, {intervals} intervals, starts at "
        f"{np.round(np.degrees(starts[k]), 2).tolist()}°"
        for k in some
    ]
    return starts[some], poses[:, some], told


def judged(kind: str, drawn: Drawn) -> Iterator[tuple[str, dict[str, bool]]]:
    """Simulate the paper's methods along readings; yield each in words, with its features."""
    starts, poses, told = drawn
    if not told:
        return
    moved = {
        name: many.follow(starts, poses, step) for name, step in many.methods(MAX_GAIN).items()
    }
    for k, text in enumerate(told):
        course = Course(starts[k], poses[:, k], both_ends=kind == "c")
        runs = Runs(course, {name: motions.path(k) for name, motions in moved.items()}, MAX_GAIN)
        yield text, {name: holds(runs) for name, holds in FEATURES[kind].items()}


def search(kind: str, draws: int, rng: np.random.Generator) -> None:
    """Draw readings, simulate those of the described kind, and print their features."""
    shown: Counter[str] = Counter()
    found: list[tuple[int, str, list[str]]] = []
    for _ in range(draws // BATCH[kind]):
        for text, verdicts in judged(kind, (lines if kind == "b" else circles)(rng, BATCH[kind])):
            shown.update(name for name, holds in verdicts.items() if holds)
            lacks = [name for name, holds in verdicts.items() if not holds]
            found.append((sum(verdicts.values()), text, lacks))
    print(f"Trajectory {kind.upper()}: {draws} paths drawn, {len(found)} of the described kind.")
    print("Number of them that show what the text says:")
    for name in FEATURES[kind]:
        print(f"  {shown[name]:5d}  {name}")
    print(f"Those that show the most, at most {SHOWN}:")
    for score, text, lacks in sorted(found, reverse=True)[:SHOWN]:
        print(f"  {score} of {len(FEATURES[kind])} features: {text}")
        for name in lacks:
            print(f"      not shown: {name}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=("b", "c"), help="the trajectory")
    parser.add_argument(
        "--draws",
        type=int,
        required=True,
        help="number of paths drawn, at least "
        + " or ".join(f"{n} ({kind})" for kind, n in BATCH.items()),
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the random paths (default 1)")
    given = parser.parse_args()
    if given.draws < BATCH[given.kind]:
        parser.error(f"--draws must be at least {BATCH[given.kind]}; given: {given.draws}")
    rounded = given.draws - given.draws % BATCH[given.kind]
    search(given.kind, rounded, np.random.default_rng(given.seed))
