"""Names of branches: signs that differ among solutions and change only at singularities."""

from __future__ import annotations

import numpy as np
import pytest

import supple as sp
from supple.errors import InputError
from supple.kinematics.branch import branch_signs

ARMS = ("ur5e", "puma560")


@pytest.mark.parametrize("name", ARMS)
def test_solutions_of_a_pose_have_different_signs(name: str) -> None:
    robot = sp.load(name)
    free = robot.with_limits(lower=-np.pi, upper=np.pi)
    counts = []
    for T in free.fk(free.random(30, seed=0)):
        found = sp.solve(free, T, solutions="all")
        signs = found.branch
        assert signs.shape == (len(found), 3)
        assert (signs != 0).all()
        assert len(np.unique(signs, axis=0)) == len(found)
        counts.append(len(found))
    assert max(counts) == 8


@pytest.mark.parametrize("name", ARMS)
def test_their_product_is_the_sign_of_the_determinant(name: str) -> None:
    robot = sp.load(name)
    q = robot.random(200, seed=1)
    signs = branch_signs(robot, q, robot.tips[0])
    np.testing.assert_array_equal(
        signs.prod(axis=1), np.sign(np.linalg.det(robot.jacobian(q, robot.tips[0])))
    )


@pytest.mark.parametrize(("joint", "which"), [(2, 1), (4, 2)])
def test_elbow_and_wrist_change_where_they_are_straight(joint: int, which: int) -> None:
    ur5e = sp.load("ur5e")
    q = np.tile([0.1, -1.0, 0.0, 0.3, 0.0, 0.2], (2, 1))
    q[:, [2, 4]] = 0.7
    q[:, joint] = 0.4, -0.4
    elbow_up, elbow_down = branch_signs(ur5e, q, ur5e.tips[0])
    changed = np.nonzero(elbow_up != elbow_down)[0]
    assert which in changed
    assert 3 - which not in changed


def test_other_arms_have_none() -> None:
    panda = sp.load("panda")
    with pytest.raises(InputError, match="names of branches need"):
        branch_signs(panda, panda.neutral(), panda.tips[0])
