"""With a `PostureTask`, the solution is locally nearest to the posture.

No direction that keeps the target and respects the limits brings the joints nearer: these are the
conditions of Karush, Kuhn and Tucker, checked for every set of joints that may be held at limits.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import supple
from sizes import nightly
from solving import solve
from supple import PoseTask, PositionTask, PostureTask, Robot

AT_LIMIT = 1e-9


def improvement(robot: Robot, q: np.ndarray, J: np.ndarray, pull: np.ndarray) -> float:
    """Return the largest pull·d over unit vectors d with J d = 0 along which joints stay inside the
    limits.

    For every set of joints held at limits, the projection of `pull` onto the null space of the
    other columns of J is a candidate; the result is the length of the longest feasible candidate.
    """
    low, high = q <= robot.lower + AT_LIMIT, q >= robot.upper - AT_LIMIT
    edge = np.flatnonzero(low | high)
    best = 0.0
    for size in range(len(edge) + 1):
        for held in itertools.combinations(edge, size):
            free = np.setdiff1d(np.arange(len(q)), held)
            null = np.linalg.svd(J[:, free])[2][np.linalg.matrix_rank(J[:, free]) :]
            d = np.zeros(len(q))
            d[free] = null.T @ (null @ pull[free])
            if (d[low] < -1e-12).any() or (d[high] > 1e-12).any():
                continue
            best = max(best, float(np.linalg.norm(d)))
    return best


@pytest.mark.parametrize(
    ("name", "task"), [("panda", PoseTask()), ("iiwa14", PoseTask()), ("ur5e", PositionTask())]
)
def test_no_small_self_motion_brings_a_solution_nearer_to_its_posture(
    name: str, task: supple.PoseTask
) -> None:
    robot = supple.load(name)
    count, bound, drawn = 0, 0, nightly(150, 60)
    for k in range(drawn):
        T, rest = robot.fk(robot.random(seed=1000 + k)), robot.random(seed=5000 + k)
        target = T if isinstance(task, PoseTask) else T[:3, 3]
        found = solve(robot, [target, rest], tasks=[task, PostureTask()])
        if not found.success:
            continue
        rows = slice(0, 6 if isinstance(task, PoseTask) else 3)
        J = robot.jacobian(found.q, robot.tips[0])[rows]
        if np.linalg.svd(J, compute_uv=False)[-1] < 1e-2:
            continue  # at a singular pose, the null space of J is larger than that of the task
        left = improvement(robot, found.q, J, rest - found.q)
        count += 1
        bound += left > 2e-3 * max(1.0, float(np.linalg.norm(rest - found.q)))
    assert count > 2 / 3 * drawn
    assert bound == 0, f"{bound} of {count}"
