"""All solutions of a UR5e: EAIK in closed form compared with `solve(solutions=16)`, one core.

    python bench/position_all.py

EAIK runs in its own environment, `.venv-peers/position`. Both libraries get the same random
targets. Solutions are compared modulo 2π wraps; an exact solution of EAIK counts as found if one of
supple's is within 1e-3 rad. The time to select one of EAIK's solutions inside the limits in NumPy
(`position_analytic.chosen`) is printed separately; no other benchmark counts it as EAIK's time.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import fmean

import numpy as np

import measure
from position_analytic import TURN, axes_and_offsets, chosen
from position_problem import Array, Problem
from worker import HERE, interpreter

COUNT = 200
ROUNDS = 5
NEAR = 1e-3  # joint distance within which two solutions are the same [rad]


def timed(calls: list[object]) -> float:
    """Return the mean time of a call [µs] in the best round."""
    best = []
    for _ in range(ROUNDS):
        times = []
        for call in calls:
            before = time.perf_counter_ns()
            call()  # type: ignore[operator]
            times.append(time.perf_counter_ns() - before)
        best.append(fmean(times) / 1e3)
    return min(best)


def eaik(folder: Path) -> None:
    """Write all exact solutions, and the times of EAIK's call and of the selection, to a folder."""
    from eaik.IK_HP import HPRobot

    measure.one_core()
    problem = Problem.read(folder)
    axes, offsets, R = axes_and_offsets(problem)
    robot = HPRobot(axes, offsets)
    targets = np.load(folder / "all.npy")
    targets[:, :3, :3] = targets[:, :3, :3] @ R.T
    found = [robot.IK(T) for T in targets]
    exact = [
        np.array([q for q, near in zip(one.Q, one.is_LS, strict=True) if not near]) for one in found
    ]
    own = timed([lambda T=T: robot.IK(T) for T in targets])
    choice = timed([lambda Q=Q: chosen(problem, Q, None) for Q in exact if len(Q)])
    counts = np.array([len(Q) for Q in exact])
    every = np.concatenate([Q.reshape(-1, 6) for Q in exact])
    np.savez(folder / "eaik.npz", q=every, counts=counts, times=[own, choice])


def apart(q: Array, others: Array) -> float:
    """Return the distance of a configuration to the nearest other one, modulo 2π wraps [rad]."""
    if not len(others):
        return float("inf")
    difference = others - q
    return float(np.abs(difference - TURN * np.round(difference / TURN)).max(axis=1).min())


def main() -> None:
    """Measure both libraries."""
    import arms
    import supple as sp
    from position import prepared

    measure.one_core()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        arm = arms.arms()["ur5e"]
        prepared("ur5e", arm, folder, 4)
        robot = sp.load("ur5e")
        targets = robot.fk(robot.random(COUNT, seed=0))
        np.save(folder / "all.npy", targets)
        python, needs = interpreter("position")
        command = [str(python), str(HERE / "position_all.py"), "--eaik", name]
        subprocess.run(command, check=True, env=needs or None)
        theirs = np.load(folder / "eaik.npz")
    ours = [sp.solve(robot, T, solutions=16) for T in targets]
    took = timed([lambda T=T: sp.solve(robot, T, solutions=16) for T in targets])
    one = timed([lambda T=T: sp.solve(robot, T) for T in targets])
    parts = np.split(theirs["q"], np.cumsum(theirs["counts"])[:-1])
    found = sum(
        apart(q, answers.q[answers.success]) < NEAR
        for Q, answers in zip(parts, ours, strict=True)
        for q in Q
    )
    own, choice = theirs["times"]
    print(f"EAIK, all solutions: {own:.1f} µs; choosing one of them in NumPy: {choice:.1f} µs more")
    print(f"supple, one solution: {one:.1f} µs; solutions=16: {took:.0f} µs")
    print(f"of EAIK's {len(theirs['q'])} solutions supple found {found}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--eaik"]:
        eaik(Path(sys.argv[2]))
    else:
        main()
