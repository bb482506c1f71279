"""All solutions of 6-joint arms: supple, EAIK and ssik side by side, on one core.

    python bench/position_all.py                                          # a few minutes
    python bench/position_all.py --targets 1000000 --searched 100 --write # as in the results

The peers run in their own environment, `.venv-peers/position`. All libraries get the same random
targets and are timed in alternating rounds; the time of a round is the median of its calls, and the
median of all rounds counts. Times of batches are processor times.

A configuration counts as missed if a peer or one of the searches from 10,000 seeds finds it, or if
a target was made from it, and if it
  - is inside the joint limits, up to full turns, and
  - after Newton iterations reaches the target to 1e-9 (m, and entries of the rotation), and
  - differs from each solution of supple by more than 1e-3 rad in some joint, up to full turns.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import measure
from position_problem import Array
from worker import HERE, ONE_THREAD, interpreter

TURN = 2 * np.pi
NEAR = 1e-3  # difference below which solutions are equal [rad]
CHUNK = 20_000
TIMED, ROUNDS = 200, 15  # calls in a round; a slow peer gets fewer
SEEDS = 10_000
RANDOM_ARMS = 20
NO_WHEEL = {
    "aarch64": " (built from source, without its compiled C++ module). ik-geo is left out: it has "
    "no wheel for this machine."
}
MANIPULAPY = measure.FILES / "ManipulaPy/ManipulaPy_data"
# Rows a, alpha, d, theta of an arm with the lengths of an ABB IRB 2400, and its joint limits.
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
# Rows a, alpha, d, theta of an arm with the lengths of a Kinova Jaco; alpha of the wrist is 60°.
JACO = [
    (0.0, np.pi / 2, 0.2755, 0.0),
    (0.41, np.pi, 0.0, 0.0),
    (0.0, np.pi / 2, -0.0098, 0.0),
    (0.0, np.pi / 3, -0.25008, 0.0),
    (0.0, np.pi / 3, -0.085563, 0.0),
    (0.0, np.pi, -0.20278, 0.0),
]


def closed_form_arms() -> dict[str, Any]:
    """Return arms with a closed form."""
    import supple as sp

    irb = sp.dh(IRB, limits=[tuple(one) for one in IRB_LIMITS])
    return {"UR5e": sp.load("ur5e"), "PUMA 560": sp.load("puma560"), "IRB 2400": irb}


def general_arms() -> dict[str, list[Any]]:
    """Return arms without a closed form by name: one for each name, several for "random arms"."""
    import supple as sp

    rng = np.random.default_rng(0)
    tables = rng.uniform([-0.5, -2.5, -0.5, -3], [0.5, 2.5, 0.5, 3], (RANDOM_ARMS, 6, 4))
    return {
        "xArm6": [sp.urdf(MANIPULAPY / "xarm/xarm6_robot.urdf")],
        "CRX-10iA": [sp.urdf(MANIPULAPY / "fanuc_crx/crx10ia.urdf")],
        "Jaco, wrist with bends of 60°": [sp.dh(JACO)],
        "UR5e, 5 mm and 5 mrad off": [changed(sp.load("ur5e"), 5e-3)],
        "PUMA 560, 5 mm and 5 mrad off": [changed(sp.load("puma560"), 5e-3)],
        f"{RANDOM_ARMS} random arms": [sp.dh(table) for table in tables],
    }


def changed(robot: Any, by: float) -> Any:
    """Return a robot whose geometry has random errors with standard deviation `by` [m], [rad]."""
    import supple as sp

    rng = np.random.default_rng(1)
    joints = [
        replace(
            joint,
            origin=joint.origin
            @ sp.pose(by * rng.normal(size=3), rotation_vector=by * rng.normal(size=3)),
        )
        for joint in robot.description.joints
    ]
    return sp.Robot(replace(robot.description, joints=tuple(joints)))


# ---- peers, each in its own process --------------------------------------------------------------


def solver_of(peer: str, axes: Array, offsets: Array) -> Any:
    """Return two functions of a pose: one returns all exact solutions, and the other is timed."""
    if peer == "EAIK":
        from eaik.IK_HP import HPRobot

        arm = HPRobot(axes, offsets)

        def exact(T: Array) -> list[Array]:
            found = arm.IK(T)
            return [q for q, near in zip(found.Q, found.is_LS, strict=True) if not near]

        return exact, arm.IK
    from ssik import Manipulator

    arm = Manipulator.from_axes(axes, offsets)

    def every(T: Array) -> list[Array]:
        return [found.q for found in arm.solve(T, enumerate_windings=False)]

    return every, every


def serve(peer: str, folder: Path) -> None:
    """Solve targets, or time their solution, as requested by lines of JSON on stdin."""
    measure.one_core()
    arms: dict[str, Any] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        name = asked["arm"]
        if name not in arms:
            given = np.load(folder / f"{name}.npz")
            arms[name] = *solver_of(peer, given["axes"], given["offsets"]), given["home"]
        solve, call, home = arms[name]
        targets = np.load(folder / asked["targets"])
        targets[:, :3, :3] = targets[:, :3, :3] @ home.T
        if asked["timed"]:
            targets = targets[: asked["timed"]]
            print(json.dumps(timed([lambda T=T, f=call: f(T) for T in targets])), flush=True)
            continue
        found = [np.array(solve(T)).reshape(-1, 6) for T in targets]
        np.savez(folder / "found.npz", q=np.concatenate(found), count=[len(Q) for Q in found])
        print(json.dumps(version(peer)), flush=True)


def timed(calls: list[Any]) -> float:
    """Return the median time of a call [µs]."""
    times = []
    for call in calls:
        before = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - before)
    return median(times) / 1e3


class Peer:
    """Another library in its own process."""

    def __init__(self, name: str, folder: Path) -> None:
        python, needs = interpreter("position")
        command = [str(python), "-W", "ignore", str(HERE / "position_all.py"), "--peer", name]
        self.name, self.folder, self.version = name, folder, ""
        self.process = subprocess.Popen(
            [*command, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | ONE_THREAD | needs,
        )

    def _ask(self, **asked: object) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def time(self, arm: str, targets: str, calls: int) -> float:
        """Return the median time of a call [µs]."""
        return float(self._ask(arm=arm, targets=targets, timed=calls))

    def solve(self, arm: str, targets: Array) -> tuple[Array, Array]:
        """Return all solutions (S, 6), and the target (S,) of each."""
        np.save(self.folder / "some.npy", targets)
        self.version = self._ask(arm=arm, targets="some.npy", timed=0)
        found = np.load(self.folder / "found.npz")
        return found["q"], np.repeat(np.arange(len(targets)), found["count"])


def save_arm(folder: Path, name: str, robot: Any) -> None:
    """Write the axes of an arm for the peers."""
    structure = robot.structure
    points = np.array(structure.nominal_points if structure.form else structure.points)
    home = robot.fk(np.zeros(6))
    np.savez(
        folder / f"{name}.npz",
        axes=structure.nominal_axes if structure.form else structure.axes,
        offsets=np.diff(points, axis=0, prepend=np.zeros((1, 3)), append=home[None, :3, 3]),
        home=home[:3, :3],
    )


# ---- completeness --------------------------------------------------------------------------------


def missed(robot: Any, T: Array, q: Array, of: Array, ours: Any) -> int:
    """Return the number of solutions q (S, 6) of the targets `of` (S,) that `ours` lacks."""
    every = ours.padded()  # (B, k, 6)

    def away(q: Array, of: Array) -> Any:
        apart = every[of] - q[:, None]
        return ~(np.abs(apart - TURN * np.round(apart / TURN)).max(axis=2) < NEAR).any(axis=1)

    lost = away(q, of)
    q, of = q[lost], of[lost]
    for _ in range(10):
        error = T[of] @ np.linalg.inv(robot.fk(q)) - np.eye(4)
        turn = np.stack([error[:, 2, 1], error[:, 0, 2], error[:, 1, 0]], axis=1)
        shift = T[of][:, :3, 3] - robot.fk(q)[:, :3, 3]
        step = np.linalg.pinv(robot.jacobian(q), rcond=1e-12) @ np.hstack([shift, turn])[..., None]
        q = q + np.clip(step[..., 0], -0.1, 0.1)
    q = q + TURN * np.ceil((robot.lower - q) / TURN)
    counts = (q <= robot.upper).all(axis=1)
    counts &= np.abs(robot.fk(q) - T[of]).max(axis=(1, 2), initial=0.0) < 1e-9
    return int(away(q[counts], of[counts]).sum())


@dataclass
class Completeness:
    """Counts of targets and solutions of one arm."""

    targets: int = 0
    solutions: int = 0
    unsure: int = 0
    lost: int = 0  # missing configurations that targets were made from
    theirs: int = 0
    lost_theirs: int = 0
    searched: int = 0
    searches: int = 0
    lost_searched: int = 0

    def check(self, robot: Any, count: int, seed: int, name: str, peer: Peer | None) -> None:
        """Solve for poses of random q; count the q and the peer's solutions that supple lacks."""
        import supple as sp

        for first in range(0, count, CHUNK):
            q = robot.random(min(CHUNK, count - first), seed=seed + first)
            T = robot.fk(q)
            found = sp.Solver(robot, threads=1).all(T)
            self.targets += len(T)
            self.solutions += len(found.q)
            self.unsure += int((~found.complete).sum())
            self.lost += missed(robot, T, q, np.arange(len(T)), found)
            if peer is not None:
                theirs, of = peer.solve(name, T)
                self.theirs += len(theirs)
                self.lost_theirs += missed(robot, T, theirs, of, found)

    def search(self, robot: Any, count: int) -> None:
        """Search from many seeds; count the found solutions, and those of them that `all` lacks."""
        import supple as sp

        for i in range(count):
            T = robot.fk(robot.random(1, seed=1_000_000 + i))
            q0 = robot.random(SEEDS, seed=2_000_000 + i)
            each = np.repeat(T, SEEDS, axis=0)
            first = sp.Solver(robot, prefer="fast", max_seeds=1, threads=1)
            reached = first.batch(each, q0)
            q = reached.q[reached.success]
            found = sp.Solver(robot, threads=1).all(T)
            self.searches += 1
            self.searched += len(q)
            self.lost_searched += missed(robot, T, q, np.zeros(len(q), dtype=int), found)


def times(robot: Any, name: str, folder: Path, peers: dict[Peer, int], batch: int) -> Any:
    """Return the times of all libraries for one pose, and of supple in a batch [µs]."""
    import supple as sp

    targets = robot.fk(robot.random(TIMED, seed=0))
    np.save(folder / "timed.npy", targets)
    many = robot.fk(robot.random(batch, seed=1))

    def in_batch() -> float:
        before = time.process_time_ns()  # ignores other programs
        alone.all(many)
        return (time.process_time_ns() - before) / batch / 1e3

    solver, alone = sp.Solver(robot), sp.Solver(robot, threads=1)
    contenders: dict[str, Any] = {
        "one": lambda: timed([lambda T=T: solver.all(T) for T in targets]),
        "batch": in_batch,
    }
    for peer, calls in peers.items():
        contenders[peer.name] = lambda p=peer, c=calls: p.time(name, "timed.npy", c)
    return measure.medians(measure.interleaved(contenders, ROUNDS))


def main() -> None:
    """Measure all arms; print the results and, with `--write`, write them to bench/results/."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", type=int, default=20_000, help="per arm with a closed form")
    parser.add_argument("--general", type=int, default=2_000, help="per kind without closed form")
    parser.add_argument("--slow", type=int, default=50, help="targets that ssik solves; 0 omits it")
    parser.add_argument("--searched", type=int, default=2, help="searched from many seeds")
    parser.add_argument("--write", action="store_true", help="write bench/results")
    given = parser.parse_args()
    measure.one_core()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ssik = Peer("ssik", folder) if given.slow and _is_installed("ssik") else None
        text = report(given, Peer("EAIK", folder), ssik)
    print(text)
    if given.write:
        measure.write("position_all", text)


def _is_installed(name: str) -> bool:
    """Return whether the peers' environment has a package; ssik is not on every machine."""
    python, _ = interpreter("position")
    return (
        subprocess.run([str(python), "-c", f"import {name}"], stderr=subprocess.DEVNULL).returncode
        == 0
    )


def report(given: Any, eaik: Peer, ssik: Peer | None) -> str:
    """Return all results as a page; without ssik, the columns of ssik are empty."""
    speed = ["| | supple | in a batch, each | EAIK | ssik |", "|---|---:|---:|---:|---:|"]
    count = [
        "| | targets | solutions | not certain | own q missed | missed of EAIK's | of ssik's | "
        "of searches |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    folder = eaik.folder
    for name, robot in closed_form_arms().items():
        save_arm(folder, name, robot)
        took = times(robot, name, folder, {eaik: TIMED} | ({ssik: 5} if ssik else {}), CHUNK)
        slow = f"{took['ssik'] / 1e3:.1f} ms" if ssik else ""
        speed.append(
            f"| {name} | {took['one']:.1f} µs | {took['batch']:.1f} µs | {took['EAIK']:.1f} µs | "
            f"{slow} |"
        )
        every, of_ssik = Completeness(), Completeness()
        every.check(robot, given.targets, 0, name, eaik)
        if ssik:
            of_ssik.check(robot, given.slow, 3_000_000, name, ssik)
        every.search(robot, given.searched)
        count.append(row(name, every, of_ssik))
        print(speed[-1], count[-1], sep="\n", file=sys.stderr, flush=True)
    for name, robots in general_arms().items():
        every, of_ssik = Completeness(), Completeness()
        took = times(robots[0], name, folder, {}, 500)
        speed.append(f"| {name} | {took['one'] / 1e3:.2f} ms | {took['batch'] / 1e3:.2f} ms | | |")
        for robot in robots:
            every.check(robot, -(-given.general // len(robots)), 0, name, None)
            every.search(robot, -(-given.searched // len(robots)))
        count.append(row(name, every, of_ssik))
        print(speed[-1], count[-1], sep="\n", file=sys.stderr, flush=True)
    return "\n".join(
        [
            "# All solutions of 6-joint arms",
            "",
            f"One core, {ROUNDS} interleaved rounds of {TIMED} poses, medians. "
            f"EAIK {eaik.version}"
            + (f", ssik {ssik.version}{NO_WHEEL.get(platform.machine(), '')}" if ssik else "."),
            measure.provenance(("supple", "numpy")),
            "",
            *speed,
            "",
            "## Completeness",
            "",
            f"Random targets. `not certain`: `complete` is false. Own q: the configuration that a "
            f"target was made from. ssik solved {given.slow} targets of each arm; a search runs "
            f"from {SEEDS} seeds. `bench/position_all.py` says when a solution counts as missed.",
            "",
            *count,
            "",
        ]
    )


def row(name: str, every: Completeness, slow: Completeness) -> str:
    """Return a line of the table of completeness."""
    of_eaik = f"{every.lost_theirs} of {every.theirs}" if every.theirs else ""
    of_ssik = f"{slow.lost_theirs} of {slow.theirs}" if slow.theirs else ""
    return (
        f"| {name} | {every.targets} | {every.solutions} | {every.unsure} | {every.lost} | "
        f"{of_eaik} | {of_ssik} | {every.lost_searched} of {every.searched} "
        f"({every.searches} targets) |"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        serve(sys.argv[2], Path(sys.argv[3]))
    else:
        main()
