"""Count the random lines and arcs that `plan_path` follows without a jump, and time the calls.

    python bench/paths.py --paths 1000 --write

An exhaustive search decides which paths have a continuous branch: solutions of the first, the
middle and the last pose from many seeds, each tracked along the path by NumPy's least squares in
small steps, with and without a pull toward the middle of the joint ranges. Every followed path is
then sampled 100 times more densely than its poses.
"""

from __future__ import annotations

import argparse
import platform
import time
from pathlib import Path

import numpy as np

import supple as sp
from measure import FILES, one_core, provenance, write
from supple.kinematics.rotation import exp, log

RESULTS = Path(__file__).resolve().parent / "results"
XARM7 = "cmeel.prefix/share/example-robot-data/robots/xarm_description/urdf/xarm7.urdf"
POSES = 500
MANY = 3000  # number of seeds after which a pose is called out of reach
Array = np.ndarray


def robots() -> dict[str, sp.Robot]:
    """Return the robots of the benchmark; the xArm7 only if its file is available."""
    made = {name: sp.load(name) for name in ("ur5e", "panda", "iiwa14")}
    if (FILES / XARM7).exists():
        made["xarm7"] = sp.urdf(FILES / XARM7)
    return made


def random_path(robot: sp.Robot, rng: np.random.Generator) -> Array:
    """Return a line or an arc of 500 poses that starts at a random configuration."""
    T = robot.fk(rng.uniform(0.9 * robot.lower, 0.9 * robot.upper))
    T = T.reshape(-1, 4, 4)[0]
    s = np.linspace(0, 1, POSES)
    made = np.tile(T, (POSES, 1, 1))
    a, b = np.linalg.qr(rng.normal(size=(3, 2)))[0].T
    if rng.random() < 0.5:
        made[:, :3, 3] += rng.uniform(0.1, 0.5) * s[:, None] * a
    else:
        radius, angle = rng.uniform(0.05, 0.3), rng.uniform(1, 2 * np.pi) * s[:, None]
        made[:, :3, 3] += radius * (np.sin(angle) * a + (1 - np.cos(angle)) * b)
    if rng.random() < 0.5:
        turn = rng.uniform(0, 1) * s[:, None] * a
        made[:, :3, :3] = made[:, :3, :3] @ exp(turn)
    return made


# ---- an exhaustive search, in NumPy --------------------------------------------------------------


def error(robot: sp.Robot, q: Array, T: Array) -> Array:
    """Return the errors (K, 6) of configurations (K, n) to a pose, in world axes [m, rad]."""
    now = robot.fk(q).reshape(-1, 4, 4)
    turn = log(T[:3, :3] @ now[:, :3, :3].swapaxes(1, 2))
    return np.concatenate([T[:3, 3] - now[:, :3, 3], turn], axis=1)


def stepped(robot: sp.Robot, q: Array, T: Array, pull: float) -> tuple[Array, Array]:
    """Search near q (K, n) for solutions of a pose; return them, and a mask (K,) of success."""
    low, high = robot.lower, robot.upper
    middle = np.where(np.isfinite(low + high), (low + high) / 2, q)
    start = q
    for i in range(8):
        e = error(robot, q, T)
        J = robot.jacobian(q).reshape(len(q), 6, -1)
        gram = J @ J.swapaxes(1, 2) + 1e-10 * np.eye(6)
        rest = pull * (middle - q) * (i == 0)
        move = rest + np.einsum(
            "kmn,km->kn",
            J,
            np.linalg.solve(gram, (e - np.einsum("kmn,kn->km", J, rest))[..., None])[..., 0],
        )
        q = np.clip(q + np.clip(move, -0.2, 0.2), low, high)
    good = np.abs(error(robot, q, T)).max(axis=1) < 1e-5
    return q, good & (np.abs(q - start).max(axis=1) < 0.2)


def survives(robot: sp.Robot, start: Array, poses: Array, pull: float) -> Array:
    """Return a mask (K,) of the configurations (K, n) that can be tracked along all poses.

    Joints with a range of 2π or more are tracked without limits, and wrapped by 2π afterwards.
    """
    turns = robot.upper - robot.lower >= 2 * np.pi
    free = robot.with_limits(
        lower=np.where(turns, -50, robot.lower), upper=np.where(turns, 50, robot.upper)
    )
    made, q, index = np.zeros(len(start), dtype=bool), start, np.arange(len(start))
    low, high = start.copy(), start.copy()
    for T in poses[1:]:
        if not len(index):
            return made
        q, good = stepped(free, q, T, pull)
        q, index = q[good], index[good]
        low, high = np.minimum(low[good], q), np.maximum(high[good], q)
    k = 2 * np.pi * np.arange(-3, 4)[:, None, None]
    inside = ((low + k >= robot.lower) & (high + k <= robot.upper)).any(axis=0)
    made[index] = (inside | ~turns).all(axis=1)
    return made


def has_branch(robot: sp.Robot, poses: Array, seeds: int, found: sp.paths.PlannedPath) -> bool:
    """Return whether the exhaustive search can track a solution along the whole path.

    The result is False if the first pose that `plan_path` did not reach has no solution.
    """
    left = int(np.isfinite(found.q[:, 0]).sum())
    if left < len(poses) and not sp.Solver(robot, max_seeds=MANY)(poses[left]):
        return False
    middle = len(poses) // 2
    for origin in (0, len(poses) - 1, middle):
        every = sp.Solver(robot, prefer="limits").several(poses[origin], seeds)
        start = every.q[every.success]
        if not len(start):
            return False
        for pull in (0.0, 0.02) if robot.dof > 6 else (0.0,):
            ahead = survives(robot, start, poses[origin:], pull)
            behind = survives(robot, start[ahead], poses[origin::-1], pull)
            if behind.any():
                return True
    return False


# ---- the benchmark -------------------------------------------------------------------------------


def densest(robot: sp.Robot, poses: Array, result: sp.paths.PlannedPath) -> Array:
    """Return the largest deviation from the path [m], [rad], at 100 points per pose."""
    worst = np.zeros(2)
    for piece in result.pieces:
        x = np.arange(piece.s[0], piece.s[-1], 0.01)
        i = np.minimum(x.astype(int), len(poses) - 2)
        f = (x - i)[:, None]
        now = robot.fk(piece.at(x)).reshape(-1, 4, 4)
        p = (1 - f) * poses[i, :3, 3] + f * poses[i + 1, :3, 3]
        R = poses[:, :3, :3]
        turns = log(R[:-1].swapaxes(1, 2) @ R[1:])
        between = R[i] @ exp(f * turns[i]) if np.abs(turns).max() > 1e-12 else R[i]
        chord = np.linalg.norm((between - now[:, :3, :3]).reshape(-1, 9), axis=1)
        turn = 2 * np.arcsin(np.minimum(chord / np.sqrt(8), 1))
        far = np.linalg.norm(now[:, :3, 3] - p, axis=1), turn
        worst = np.maximum(worst, [far[0].max(initial=0), far[1].max(initial=0)])
    return worst


def run(name: str, robot: sp.Robot, count: int, seeds: int) -> str:
    """Follow random paths of a robot; return its row of the table."""
    rng = np.random.default_rng(0)
    times, ended = [], []
    continuous, changed, obstructed, missed, unreported = 0, 0, 0, [], 0
    largest, worst = 0.0, np.zeros(2)
    sp.plan_path(robot, random_path(robot, np.random.default_rng(1)), threads=1)  # warm up
    for i in range(count):
        poses = random_path(robot, rng)
        began = time.process_time()
        found = sp.plan_path(robot, poses, threads=1)
        (times if found else ended).append(time.process_time() - began)
        continuous += found.continuous
        changed += found.success and not found.continuous
        obstructed += not found.success
        off = densest(robot, poses, found)
        worst = np.maximum(worst, off)
        unreported += bool((off > [1e-4, 1e-3]).any())
        for piece in found.pieces:
            largest = max(largest, np.abs(np.diff(piece.q, axis=0)).max(initial=0))
        if not found.continuous and seeds and has_branch(robot, poses, seeds, found):
            missed.append(i)
    t, u = (np.array(each or [0.0]) * 1e3 for each in (times, ended))
    lost = f"{len(missed)}: no. {', '.join(map(str, missed))}" if missed else "0"
    return (
        f"| {name} | {count} | {continuous} | {changed} | {obstructed} | {lost} "
        f"| {unreported} | {worst[0] * 1e3:.3f} mm, {worst[1] * 1e3:.3f} mrad "
        f"| {largest:.3f} | {np.median(t):.1f} | "
        f"{np.quantile(t, 0.95):.1f} | {t.max():.0f} | {np.median(u):.0f} |"
    )


COLUMNS = (
    "robot",
    "paths",
    "one branch",
    "reconfigured",
    "out of reach",
    "missed",
    "deviating",
    "largest deviation",
    "largest step [rad]",
    "median [ms]",
    "95 % [ms]",
    "largest [ms]",
    "out of reach: median [ms]",
)
TIMES = "Processor times of one call each, on one core of a busy machine."
HEAD = "| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS)


def main() -> None:
    """Measure all robots; print the table and, with `--write`, write it to bench/results/."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--paths", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=100, help="of the exhaustive search; 0: none")
    parser.add_argument("--only", help="name of one robot")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    one_core()
    print(HEAD)
    rows = {}
    for name, robot in robots().items():
        if given.only in (None, name):
            rows[name] = run(name, robot, given.paths, given.seeds)
            print(rows[name], flush=True)
    if given.write:
        save(rows)


def save(rows: dict[str, str]) -> None:
    """Write the rows of these robots to the results file, and keep its rows for other robots."""
    file = RESULTS / f"paths.{platform.machine()}.md"
    lines = file.read_text().splitlines() if file.exists() else []
    kept = {line.split(" | ")[0][2:]: line for line in lines if line.startswith("| ")}
    made = [(kept | rows)[name] for name in robots() if name in kept | rows]
    write("paths", "\n".join(["# Paths", "", provenance(["numpy"]), TIMES, "", HEAD, *made, ""]))


if __name__ == "__main__":
    main()
