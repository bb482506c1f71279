"""Time one servo step of a Panda in several libraries, called from Python on one core.

    python bench/servo.py [ROUNDS]

A step computes the next q from q and a twist of the hand. Each library runs with its fastest fair
settings in its own process (`servo_peers.py`), on the same configurations and twists, in
interleaved rounds; `make bench-servo` makes their environments. Prints tables and writes them to
bench/results/.
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import measure
import supple as sp
from arms import bare
from servo_peers import DT, FRAME, LAMBDA2, MAX_SPEED
from worker import OWN, Worker

Array = NDArray[np.float64]

COUNT = 64  # number of configurations of a situation
NEAR = 1e-3  # distance from a singular configuration [rad]
MARGIN = 0.2  # distance from the limits in situations in which no limit should act [rad]
ENVIRONMENTS = {
    "supple": OWN,
    "Pinocchio + NumPy": OWN,
    "Pink": "qp",
    "Pink, FrameTask": "qp",
    "mink": "qp",
    "mink, FrameTask": "qp",
    "placo": "placo",
}
SITUATIONS = {
    "regular": "A regular configuration, limits far away; the pseudoinverse asks for 1 rad/s",
    "singular": f"{NEAR:g} rad from a singular configuration, a twist of unit size",
    "path": f"{COUNT} consecutive steps past a singular configuration, a twist of unit size",
    "limits": "A joint on its limit, which the pseudoinverse would pass at 0.3 rad/s or more",
}


def singular(robot: sp.Robot, rng: np.random.Generator) -> Array:
    """Return a singular configuration away from the limits."""
    h, eye = 1e-6, np.eye(robot.dof)

    def sigma(q: Array) -> Array:
        return robot.singular_values(q, FRAME, threads=1)

    while True:
        q = robot.random(seed=rng)
        for _ in range(200):  # gradient descent on the smallest singular value
            least = float(sigma(q)[-1])
            slope = (sigma(q + h * eye)[:, -1] - sigma(q - h * eye)[:, -1]) / (2 * h)
            if least < 1e-8 or slope @ slope < 1e-6:
                break
            q = np.clip(q - least * slope / (slope @ slope), robot.lower, robot.upper)
        inside = np.minimum(q - robot.lower, robot.upper - q).min() > MARGIN
        if inside and sigma(q)[-1] < 1e-6 and sigma(q)[-2] > 0.02:
            return q


def situation(robot: sp.Robot, kind: str, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return one configuration (7,) and one twist (6,) of a kind."""
    while True:
        direction = unit(rng.normal(size=robot.dof))
        if kind == "singular":
            return singular(robot, rng) + NEAR * direction, unit(rng.normal(size=6))
        q = np.clip(robot.random(seed=rng), robot.lower + MARGIN, robot.upper - MARGIN)
        if kind == "limits":
            joint = rng.integers(robot.dof)
            q[joint] = (robot.lower, robot.upper)[rng.integers(2)][joint]
        J = robot.jacobian(q, FRAME)
        inverse = np.linalg.pinv(J)
        shortest = inverse @ J @ direction
        twist = J @ shortest / np.linalg.norm(shortest)
        if robot.singular_values(q, FRAME)[-1] < 0.05:
            continue
        qd = inverse @ twist
        outward = np.where(q == robot.upper, qd, 0) - np.where(q == robot.lower, qd, 0)
        if kind == "regular" or outward.max() > 0.3:
            return q, twist


def situations(robot: sp.Robot, kind: str, rng: np.random.Generator) -> list[tuple[Array, Array]]:
    """Return COUNT configurations and twists of a kind: random, or along a path at 1 rad/s."""
    if kind != "path":
        return [situation(robot, kind, rng) for _ in range(COUNT)]
    middle, twist = situation(robot, "singular", rng)
    along = unit(rng.normal(size=robot.dof)) * DT
    return [(middle + (k - COUNT // 2) * along, twist) for k in range(COUNT)]


def unit(x: Array) -> Array:
    """Return the unit vector along x."""
    return x / np.linalg.norm(x)


def target(robot: sp.Robot, q: Array, twist: Array) -> Array:
    """Return the pose (4, 4) to which the twist leads in one step."""
    T = robot.fk(q, FRAME).copy()
    x, y, z = turn = twist[3:] * DT
    angle = np.linalg.norm(turn)
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]]) / angle
    T[:3, :3] = (np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K) @ T[:3, :3]
    T[:3, 3] += twist[:3] * DT
    return T


def table(
    robot: sp.Robot,
    key: str,
    q: Array,
    twist: Array,
    workers: dict[str, Worker],
    took: dict[str, float],
) -> list[str]:
    """Return the table of one situation: times, speeds, limits, distance from the pseudoinverse."""
    first = next(iter(took))
    lines = [
        f"## {SITUATIONS[key]}",
        "",
        f"| | µs per step | against {first} | largest ‖q̇‖ [rad/s] | past a limit [rad] "
        "| from the pseudoinverse [rad/s] |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    J = robot.jacobian(q, FRAME)
    exact = np.stack([np.linalg.pinv(j) @ x for j, x in zip(J, twist, strict=True)])
    for name, ns in took.items():
        moved = np.array(workers[name].ask(**{"ask": "moves", "in": key}))
        qd = (moved - q) / DT
        past = np.maximum(moved - robot.upper, robot.lower - moved).max()
        off = np.linalg.norm(qd - exact, axis=1).max() if key == "regular" else None
        lines.append(
            f"| {name} | {ns / 1e3:.2f} | {ns / took[first]:.1f} "
            f"| {np.linalg.norm(qd, axis=1).max():.3g} | {max(past, 0.0):.1g} "
            f"| {'' if off is None else f'{off:.1e}'} |"
        )
    return [*lines, ""]


def main(rounds: int) -> None:
    """Measure all libraries, compare their results, and print and write the tables."""
    measure.one_core()
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        urdf, file = Path(folder) / "panda.urdf", Path(folder) / "situations.npz"
        urdf.write_text(bare(measure.PANDA))
        robot = sp.urdf(urdf)
        arrays = {}
        for key in SITUATIONS:
            pairs = situations(robot, key, rng)
            arrays[f"{key} q"] = np.array([q for q, _ in pairs])
            arrays[f"{key} twist"] = np.array([twist for _, twist in pairs])
            arrays[f"{key} target"] = np.array([target(robot, *pair) for pair in pairs])
        np.savez(file, **arrays)
        everyone = {
            name: Worker(environment, "servo_peers.py", (name, urdf, file))
            for name, environment in ENVIRONMENTS.items()
        }
        workers = {name: worker for name, worker in everyone.items() if not worker.missing}
        tables, notes = [], []
        for key in SITUATIONS:
            question = {"ask": "time", "in": key}
            asked = {name: partial(w.ask, **question) for name, w in workers.items()}
            took = measure.medians(measure.interleaved(asked, rounds))
            given = arrays[f"{key} q"], arrays[f"{key} twist"]
            tables += table(robot, key, *given, workers, took)
        for name, worker in everyone.items():
            notes.append(f"- {name}: {worker.line}")
            worker.close()
    lines = [
        "# One servo step of a Panda",
        "",
        f"q, twist → next q, one call from Python, dt = {DT:g} s, float64, one core, {rounds} "
        f"interleaved rounds over {COUNT} configurations, medians of processor time. Commands are "
        "prepared before the clock starts: the twist, or the pose it leads to. All but Pinocchio + "
        f"NumPy hold limits of position and speed. supple: optimal damping with Δ = {MAX_SPEED} "
        f"rad/s; others: λ² = {LAMBDA2:g}. A FrameTask takes the logarithm of the pose, which "
        "differs from the twist in proportion to dt.",
        measure.provenance(("supple", "pin", "numpy")),
        "",
        *tables,
        *notes,
        "",
    ]
    print("\n".join(lines))
    print("written to", measure.write("servo", "\n".join(lines)))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 21)
