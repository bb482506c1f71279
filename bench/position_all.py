"""All solutions of arms with a closed form: supple and EAIK side by side, on one core.

    python bench/position_all.py                        # times, and 2,000 targets of each arm
    python bench/position_all.py --targets 1000000      # compare with all solutions of EAIK
    python bench/position_all.py --searched 100         # compare with searches from 10,000 seeds

EAIK runs in its own environment, `.venv-peers/position`. Both libraries get the same random targets
and are timed in alternating rounds; the time of a round is the median of its calls, and the median
of all rounds is printed. A solution of EAIK counts if it reaches the target inside the limits,
modulo 2π wraps; supple has found it if one of supple's solutions is within 1e-3 rad.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import measure
from position_problem import Array
from worker import HERE, interpreter

TURN = 2 * np.pi
NEAR = 1e-3  # largest joint difference of two solutions that count as the same [rad]
CHUNK = 20_000
TIMED, ROUNDS = 200, 15
SEEDS = 10_000
# Denavit-Hartenberg rows (a, alpha, d, theta) with the lengths of an ABB IRB 2400, and its limits.
IRB = [
    (0.1, -np.pi / 2, 0.615, 0.0),
    (0.705, 0.0, 0.0, -np.pi / 2),
    (0.135, -np.pi / 2, 0.0, 0.0),
    (0.0, np.pi / 2, 0.755, 0.0),
    (0.0, -np.pi / 2, 0.0, 0.0),
    (0.0, 0.0, 0.085, np.pi),
]
IRB_LIMITS = np.deg2rad(
    [(-180, 180), (-100, 110), (-60, 65), (-200, 200), (-120, 120), (-400, 400)]
)


def robots() -> dict[str, Any]:
    """Return the arms."""
    import supple as sp

    irb = sp.dh(IRB, limits=[tuple(one) for one in IRB_LIMITS])
    return {"ur5e": sp.load("ur5e"), "puma560": sp.load("puma560"), "irb2400": irb}


# ---- EAIK, in its own process --------------------------------------------------------------------


def eaik(folder: Path) -> None:
    """Solve or time the targets of arms, as lines of JSON request it."""
    from eaik.IK_HP import HPRobot

    measure.one_core()
    arms: dict[str, Any] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        name = asked["arm"]
        if name not in arms:
            given = np.load(folder / f"{name}.npz")
            arms[name] = HPRobot(given["axes"], given["offsets"]), given["home"]
        arm, home = arms[name]
        targets = np.load(folder / asked["targets"])
        targets[:, :3, :3] = targets[:, :3, :3] @ home.T
        if asked["timed"]:
            print(json.dumps(timed([lambda T=T, arm=arm: arm.IK(T) for T in targets])), flush=True)
            continue
        found = [arm.IK(T) for T in targets]
        exact = [
            np.array([q for q, near in zip(one.Q, one.is_LS, strict=True) if not near]).reshape(
                -1, 6
            )
            for one in found
        ]
        np.savez(folder / "found.npz", q=np.concatenate(exact), count=[len(Q) for Q in exact])
        print(json.dumps(0.0), flush=True)


def timed(calls: list[Any]) -> float:
    """Return the median time of a call [µs]."""
    times = []
    for call in calls:
        before = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - before)
    return median(times) / 1e3


class Eaik:
    """EAIK in its own process."""

    def __init__(self, folder: Path) -> None:
        python, needs = interpreter("position")
        command = [str(python), str(HERE / "position_all.py"), "--eaik", str(folder)]
        self.folder = folder
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=needs or None
        )

    def _ask(self, **asked: object) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return float(json.loads(self.process.stdout.readline()))

    def time(self, arm: str, targets: str) -> float:
        """Return the median time of a call [µs]."""
        return self._ask(arm=arm, targets=targets, timed=True)

    def solve(self, arm: str, targets: Array) -> tuple[Array, Array]:
        """Return all solutions (S, 6), and the target (S,) of each."""
        np.save(self.folder / "some.npy", targets)
        self._ask(arm=arm, targets="some.npy", timed=False)
        found = np.load(self.folder / "found.npz")
        return found["q"], np.repeat(np.arange(len(targets)), found["count"])


# ---- supple --------------------------------------------------------------------------------------


def missing(robot: Any, T: Array, q: Array, of: Array, ours: Any) -> int:
    """Return how many of the other solver's solutions q (S, 6) inside the limits supple misses."""
    q = q + TURN * np.ceil((robot.lower - q) / TURN)
    inside = (q <= robot.upper).all(axis=1)
    q, of = q[inside], of[inside]
    reached = np.abs(robot.fk(q) - T[of]).max(axis=(1, 2)) < 1e-6
    q, of = q[reached], of[reached]
    every = ours.padded()  # (B, k, 6)
    away = every[of] - q[:, None]
    away = np.abs(away - TURN * np.round(away / TURN)).max(axis=2)
    return int((~(away < NEAR).any(axis=1)).sum())


def complete(robot: Any, name: str, peer: Eaik, count: int) -> str:
    """Return the solutions of EAIK that supple does not find, in words."""
    import supple as sp

    lost = total = ours = uncertain = 0
    for first in range(0, count, CHUNK):
        T = robot.fk(robot.random(min(CHUNK, count - first), seed=first))
        found = sp.solve(robot, T, solutions="all", threads=1)
        q, of = peer.solve(name, T)
        lost += missing(robot, T, q, of, found)
        total, ours = total + len(q), ours + len(found.q)
        uncertain += int((~found.complete).sum())
    return (
        f"{count} targets: {ours} solutions, EAIK {total}; missing {lost} of EAIK's inside the "
        f"limits; targets that are not certain to be complete: {uncertain}"
    )


def searched(robot: Any, count: int) -> str:
    """Return the solutions that searches from many seeds find and supple does not, in words."""
    import supple as sp

    lost = total = 0
    for i in range(count):
        T = robot.fk(robot.random(1, seed=1_000_000 + i))
        q0 = robot.random(SEEDS, seed=2_000_000 + i)
        each = np.repeat(T, SEEDS, axis=0)
        reached = sp.solve(robot, each, q0=q0, prefer="fast", max_seeds=1, threads=1)
        q = reached.q[reached.success]
        found = sp.solve(robot, T, solutions="all", threads=1)
        lost += missing(robot, T, q, np.zeros(len(q), dtype=int), found)
        total += len(q)
    return f"{count} targets from {SEEDS} seeds: missing {lost} of {total} solutions found"


def main() -> None:
    """Measure both libraries."""
    import supple as sp

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", type=int, default=2_000)
    parser.add_argument("--searched", type=int, default=2)
    parser.add_argument("--arms", nargs="*", default=None)
    given = parser.parse_args()
    measure.one_core()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        peer = Eaik(folder)
        for arm, robot in robots().items():
            if given.arms and arm not in given.arms:
                continue
            structure = robot.structure
            points = np.array(structure.nominal_points)
            home = robot.fk(np.zeros(6))
            np.savez(
                folder / f"{arm}.npz",
                axes=structure.nominal_axes,
                offsets=np.diff(points, axis=0, prepend=np.zeros((1, 3)), append=home[None, :3, 3]),
                home=home[:3, :3],
            )
            targets = robot.fk(robot.random(TIMED, seed=0))
            np.save(folder / "timed.npy", targets)
            batch = robot.fk(robot.random(CHUNK, seed=1))
            rounds: list[tuple[float, float, float]] = []
            for _ in range(ROUNDS):
                theirs = peer.time(arm, "timed.npy")
                own = timed([lambda T=T, r=robot: sp.solve(r, T, solutions="all") for T in targets])
                before = time.process_time_ns()  # other processes may interrupt
                sp.solve(robot, batch, solutions="all", threads=1)
                each = (time.process_time_ns() - before) / CHUNK / 1e3
                rounds.append((theirs, own, each))
            theirs, own, each = (median(column) for column in zip(*rounds, strict=True))
            print(
                f"{arm}: EAIK {theirs:.1f} µs, supple {own:.1f} µs, in a batch {each:.1f} µs each"
            )
            print(f"  {complete(robot, arm, peer, given.targets)}")
            print(f"  {searched(robot, given.searched)}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--eaik"]:
        eaik(Path(sys.argv[2]))
    else:
        main()
