"""A long run of the GPU solver: a billion random targets, with a check of every solution.

python bench/gpu_soak.py [MILLIONS] draws random configurations on the GPU, computes the poses that
they reach, solves for these poses (1000 million by default) and checks on the GPU that each
solution has no NaN, is inside the limits, and meets the target if its status says so. Poses and
checks use an independent forward kinematics: products of 4 x 4 matrices from the robot's
description, in double precision, with CuPy. One target in a thousand is moved out of reach. Prints
a table and writes it to bench/results/; the exit status is 1 if anything is wrong.
"""

from __future__ import annotations

import math
import sys
import time
from types import ModuleType
from typing import Any

import numpy as np

import measure
import supple as sp
from supple.gpu import devices

GATES = ((1e-4, 1e-3), (1e-6, 1e-6))  # pairs of position and rotation tolerances [m], [rad]
SHARES = {"panda": 0.7, "ur5e": 0.15, "iiwa14": 0.15}
BATCH = 1 << 22
FAR = 1000  # one target in this many is moved out of reach
AWAY = 3.0  # distance by which these targets are moved [m]
ROUNDING = 1e-12  # allowed difference between two computations of a pose [m], [rad]
NAMES = ("targets", "met", "not met", "moved away", "of those called unreachable")
WRONGS = ("not finite", "outside the limits", "converged but not there")


class SlowFK:
    """The pose of a robot's end effector by products of matrices, from its description."""

    def __init__(self, robot: sp.Robot, xp: ModuleType) -> None:
        self.xp = xp
        parts = robot.description
        (tip,) = robot.tips
        held = {frame.name: frame for frame in parts.frames}
        last = held[tip].placement if tip in held else np.eye(4)
        link = held[tip].link if tip in held else tip
        above = {joint.child: joint for joint in parts.joints}
        order = [j.name for j in parts.joints if j.kind != "fixed" and j.mimic is None]
        # T = A_1(q) A_2(q) ... L,  A(q) = C (I + sin q K + (1 - cos q) K²)  by Rodrigues' formula,
        # with C and L constant and K the cross-product matrix of the axis
        chain: list[tuple[int, Any, Any, Any]] = []
        while link in above:
            joint = above[link]
            last = joint.child_placement @ last
            if joint.kind != "fixed":
                x, y, z = joint.axis
                K = np.zeros((4, 4))
                K[:3, :3] = [[0, -z, y], [z, 0, -x], [-y, x, 0]]
                chain.append((order.index(joint.name), np.eye(4), K, last))
                last = np.eye(4)
            last = joint.origin @ last
            link = joint.parent
        self.first = xp.asarray(last)
        self.chain = [
            (j, *(xp.asarray(M @ after) for M in (still, K, K @ K)))
            for j, still, K, after in reversed(chain)
        ]

    def __call__(self, q: Any) -> Any:
        """Return poses (B, 4, 4) at configurations (B, n)."""
        T = self.first
        for j, still, sine, versine in self.chain:
            angle = q[:, j, None, None]
            T = T @ (still + self.xp.sin(angle) * sine + (1 - self.xp.cos(angle)) * versine)
        return T


def soaked(robot: sp.Robot, fk: SlowFK, q: Any, gate: tuple[float, float], solve: Any) -> Any:
    """Solve for the poses at configurations (B, n); return the counts named NAMES and WRONGS."""
    xp = fk.xp
    T = fk(q)
    T[::FAR, 2, 3] += AWAY
    away = xp.arange(len(q)) % FAR == 0
    found, status = solve(T, gate)
    lower, upper = xp.asarray(robot.lower), xp.asarray(robot.upper)
    at = fk(found)
    far = xp.sqrt(((at[:, :3, 3] - T[:, :3, 3]) ** 2).sum(axis=1))
    # This formula is accurate for small angles: |R - S| = 2 sqrt(2) sin(angle / 2).
    turned = xp.sqrt(((at[:, :3, :3] - T[:, :3, :3]) ** 2).sum(axis=(1, 2)) / 2)
    good = status == int(sp.SolveStatus.CONVERGED)
    there = (far <= gate[0] + ROUNDING) & (turned <= gate[1] + ROUNDING)  # false for NaN
    each = (
        ~away,
        good & ~away,
        ~good & ~away,
        away,
        away & (status == int(sp.SolveStatus.UNREACHABLE)),
        ~xp.isfinite(found).all(axis=1),
        ((found < lower) | (found > upper)).any(axis=1),
        good & ~there,
    )
    return xp.stack([one.sum() for one in each])


def main(millions: int) -> None:
    """Solve and check `millions` of random problems; print the counts and write the report."""
    import cupy

    def solve(robot: sp.Robot) -> Any:
        def run(T: Any, gate: tuple[float, float]) -> tuple[Any, Any]:
            solver = sp.Solver(robot, position_tolerance=gate[0], rotation_tolerance=gate[1])
            found = solver.batch(T)
            return cupy.asarray(found.q), cupy.asarray(found.status)

        return run

    lines = [f"| robot | tolerances | {' | '.join((*NAMES, *WRONGS))} |"]
    lines.append("|---|---|" + "---:|" * len(NAMES + WRONGS))
    total = np.zeros(len(NAMES + WRONGS), np.int64)
    start = time.perf_counter()
    for name, share in SHARES.items():
        robot = sp.load(name)
        fk, run = SlowFK(robot, cupy), solve(robot)
        lower, upper = cupy.asarray(robot.lower), cupy.asarray(robot.upper)
        one = robot.random(100, seed=0)
        np.testing.assert_allclose(fk(cupy.asarray(one)).get(), robot.fk(one), atol=1e-12)
        batches = math.ceil(share * millions * 1e6 / len(GATES) / BATCH)
        for i, gate in enumerate(GATES):
            random = cupy.random.default_rng(17 * i + 1)
            counts = cupy.zeros(len(total), cupy.int64)
            for _ in range(batches):
                q = lower + (upper - lower) * random.random((BATCH, robot.dof))
                counts += soaked(robot, fk, q, gate, run)
            numbers = counts.get()
            total += numbers
            told = " | ".join(f"{int(x):,}" for x in numbers)
            lines.append(f"| {name} | {gate[0]:g} m, {gate[1]:g} rad | {told} |")
            print(lines[-1], flush=True)
    took = time.perf_counter() - start
    wrong = int(total[len(NAMES) :].sum())
    lines.append(f"| all | | {' | '.join(f'{int(x):,}' for x in total)} |")
    text = "\n".join(
        [
            "# A soak of position inverse kinematics on a GPU",
            "",
            f"{devices()[0]}. {int(total[0] + total[3]):,} problems made, solved and checked in "
            f"{took:.0f} s. Poses are computed, and answers checked, by an independent forward "
            f"kinematics: products of matrices in double. Answers that are wrong: {wrong:,}.",
            "",
            *lines,
            "",
            measure.provenance(["numpy", "cuda-core", "cuda-bindings"]),
            "",
        ]
    )
    print(text)
    print("written:", measure.write("gpu_soak", text))
    sys.exit(int(wrong > 0))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
