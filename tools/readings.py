"""Search for readings of Maciejewski & Klein's trajectories B and C.

The paths cannot be read in print. This script draws paths that the text allows, follows them with
the paper's methods and counts what each one shows of the text's description. The best readings are
the constants of `papers/maciejewski_klein/courses.py`.

python tools/readings.py b --draws 80000    # 260 followed; minutes of one core
python tools/readings.py c --draws 2000     # about 900 followed
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

FEATURES: dict[str, dict[str, Callable[[Runs], bool]]] = {
    "b": {
        "error throughout": statements.present,
        "near zero filtered": statements.near_zero,
        "notch at the shoulder": lambda runs: (
            statements.notched(runs)
            and abs(runs.notch("constant")[0][1] - statements.switch(runs).shoulder)
            < len(runs.course.poses) / 8
        ),
        "only lost": statements.only_lost,
        "peak at the end": statements.ends_at_wrist,
        "switch to the wrist": statements.switches,
        "twins above the threshold": statements.twins_above,
        "better than variable": statements.better,
    },
    "c": {
        "15 % away": statements.nominal,
        "15 % throughout": statements.throughout,
        "near zero filtered": statements.near_zero,
        "notch": statements.notched,
        "only lost": statements.only_lost,
        "dips in the middle": statements.dips_in_the_middle,
        "wrist, elbow, shoulder": statements.in_order,
        "fourth is small": statements.fourth_is_small,
        "within the axes of Fig. 8": statements.within_axes,
        "better than variable": statements.better,
    },
}


def lines(rng: np.random.Generator, count: int) -> Drawn:
    """Return lines of 0.6 to 1.05 m whose wrist passes the cylinder over the shoulder at up to
    12 mm, and that end up to 12° off a wrist singularity: those within reach on which u6 turns from
    the shoulder's direction to the wrist's where σ6 is at least 0.17.
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
    """Whether u6 turns after the shoulder, on the exact path (K, 6), as `lines` requires."""
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
    """Return arcs of 0.75 to 1.35 m through the triple singularity, in planes at up to 45° to the
    x-z plane and leaning by up to 30°, that start within reach with σ6 ≥ 0.16.
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
        f"{np.degrees(lean[k]):.1f}°, {intervals} intervals, starts at "
        f"{np.round(np.degrees(starts[k]), 2).tolist()}°"
        for k in some
    ]
    return starts[some], poses[:, some], told


def judged(kind: str, drawn: Drawn) -> Iterator[tuple[str, dict[str, bool]]]:
    """Follow paths with the paper's methods, and yield what each of them shows."""
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
    """Draw paths, follow those of the described kind, and print the counts and the best."""
    shown: Counter[str] = Counter()
    found: list[tuple[int, str, list[str]]] = []
    for _ in range(draws // BATCH[kind]):
        for text, verdicts in judged(kind, (lines if kind == "b" else circles)(rng, BATCH[kind])):
            shown.update(name for name, holds in verdicts.items() if holds)
            lacks = [name for name, holds in verdicts.items() if not holds]
            found.append((sum(verdicts.values()), text, lacks))
    print(f"{draws} drawn, {len(found)} followed")
    for name in FEATURES[kind]:
        print(f"  {name}: {shown[name]}")
    for score, text, lacks in sorted(found, reverse=True)[:10]:
        print(f"{score} of {len(FEATURES[kind])}: {text}; lacks {lacks}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("kind", choices=("b", "c"))
    parser.add_argument("--draws", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    search(given.kind, given.draws, np.random.default_rng(given.seed))
