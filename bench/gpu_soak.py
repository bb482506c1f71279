"""A soak of the GPU's solver: random reachable targets by the million, every answer checked.

python bench/gpu_soak.py [MILLIONS] [ROBOT] solves as many random Panda targets (100 million if left
out), and checks each answer by the CPU's forward kinematics: no NaN, inside the limits, and what
is called converged is. Exit status 1 if any is not.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import supple as sp

BATCH = 1_000_000
GATES = ((1e-4, 1e-3), (1e-6, 1e-6))


def main(millions: int, name: str) -> None:
    """Solve, check, and tell."""
    robot = sp.load(name)
    met = nan = outside = wrong = 0
    start = time.perf_counter()
    for i in range(millions):
        position, rotation = GATES[i % 2]
        T = robot.fk(robot.random(1000 + i, BATCH))
        found = sp.solve(
            robot, T, position_tolerance=position, rotation_tolerance=rotation, device="cuda"
        )
        at = robot.fk(found.q)
        far = np.linalg.norm(at[:, :3, 3] - T[:, :3, 3], axis=1)
        # of small angles: |R - S| = 2 sqrt(2) sin(angle / 2)
        turned = np.linalg.norm(at[:, :3, :3] - T[:, :3, :3], axis=(1, 2)) / np.sqrt(2)
        good = found.status == sp.Status.CONVERGED
        met += int(good.sum())
        nan += int((~np.isfinite(found.q).all(axis=1)).sum())
        outside += int(((found.q < robot.lower) | (found.q > robot.upper)).any(axis=1).sum())
        wrong += int((good & ((far > position + 1e-12) | (turned > rotation + 1e-12))).sum())
    took = time.perf_counter() - start
    count = millions * BATCH
    print(
        f"{name}: {count:,} targets in {took:.0f} s; met {met:,} ({100 * met / count:.5f} %), "
        f"not finite {nan}, outside the limits {outside}, converged but not there {wrong}"
    )
    sys.exit(int(nan + outside + wrong > 0))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100, *(sys.argv[2:] or ["panda"]))
