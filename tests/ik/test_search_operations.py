"""The number of operations of an iteration, counted in the kernel, agrees with formulas."""

from __future__ import annotations

import numpy as np
import pytest

import supple
from supple import PoseTask, PositionTask
from supple.ik.problem import compile_problem


def arm(n: int) -> supple.Robot:
    return supple.dh([(0.4, np.pi / 2, 0.3, 0.0)] * n)


@pytest.mark.parametrize(("task", "m"), [(PoseTask(), 6), (PositionTask(), 3)])
@pytest.mark.parametrize("n", [3, 6, 9])
def test_an_additional_joint_adds_the_operations_of_the_formula(
    task: supple.Task, m: int, n: int
) -> None:
    """These are its kinematics, m weights, its terms of J Jᵀ, Jᵀe and Jᵀz, and q + scale dq."""
    small, large = (np.array(compile_problem(arm(k), task).kernel.operations()) for k in (n, n + 1))
    joint = np.array(arm(n + 1).operations()) - arm(n).operations()
    gram = m * (m + 1) // 2
    expected = joint + np.array([m + gram + 2 * m + 1, m + gram + 2 * (m - 1) + 1])
    assert (large - small)[:2].tolist() == expected.tolist()
    assert (large - small)[2] == 2  # a sine and a cosine


def test_each_joint_adds_a_product_and_a_sum_to_the_longest_chain_of_dependent_operations() -> None:
    depths = [compile_problem(arm(n), None).kernel.operations()[3] for n in (5, 25)]
    assert depths[1] - depths[0] >= 2 * 20


def test_subproblems_need_fewer_operations_than_the_whole_problem() -> None:
    """They need less than half, because many entries of the J of the whole problem are zero."""
    from several_arms import arms
    from supple.ik.subproblems import subproblems_of

    problem = compile_problem(arms("ur5e", "panda"), None)
    parts = [part.problem.kernel.operations() for part in subproblems_of(problem)]
    assert 2 * sum(sum(part[:2]) for part in parts) < sum(problem.kernel.operations()[:2])
