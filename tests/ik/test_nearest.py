"""How the solution nearest to q0 is selected and refined."""

from __future__ import annotations

import numpy as np
import pytest

import supple
from cases import each
from sizes import nightly
from solving import solve
from supple import AxisTask, PositionTask, damping
from targets import fields_of

Array = np.ndarray
HAND = PositionTask(rows=("x", "y"))


@each("length", [2.0**-20, 0.5, 4.0, 2.0**25])
@each("pinned", [False, True])
def test_the_length_of_an_axis_target_does_not_matter(pinned: bool, length: float) -> None:
    """Solutions have the same bits if the vector of an axis target is multiplied by
    a power of two.
    """
    robot = supple.load("panda")
    axis, position = AxisTask("panda_link8", (1, 0, 0)), PositionTask("panda_link8")
    for T in robot.fk(robot.random(20, seed=41), "panda_link8"):
        x, p = T[:3, 0].copy(), T[:3, 3].copy()
        one, same = (
            solve(robot, [p, d], tasks=(position, axis)) if pinned else solve(robot, d, tasks=axis)
            for d in (length * x, x)
        )
        assert one.success
        assert (one.q == same.q).all()
        assert fields_of(one, "status") == fields_of(same, "status")


def test_a_solution_close_to_q0_is_returned_without_restarts() -> None:
    robot = supple.load("panda")
    for q in 0.6 * robot.random(20, seed=45):
        found = solve(robot, robot.fk(q), q0=q + 0.02)
        assert found.success
        assert found.restarts == 0
        assert np.abs(found.q - q).max() < 0.2


@pytest.mark.parametrize(("name", "joint"), [("ur5e", 2), ("panda", 5)])
def test_a_singular_target_near_q0_is_reached_without_restarts(name: str, joint: int) -> None:
    """Where the damped search stalls, Newton's method continues from the same q,
    without a restart.
    """
    robot, rng, slow = supple.load(name), np.random.default_rng(42), damping.Constant(0.1)
    for q in 0.6 * robot.random(60, seed=43):
        q[joint] = 0.0
        q = np.clip(q, robot.lower, robot.upper)
        q0 = np.clip(q + rng.normal(scale=0.02, size=robot.dof), robot.lower, robot.upper)
        found = solve(robot, robot.fk(q), q0=q0, damping=slow)
        assert found.success
        assert found.restarts == 0
        assert np.abs(found.q - q0).max() < 0.2


def test_for_targets_out_of_reach_the_pose_found_from_q0_is_nearly_the_closest() -> None:
    """Its squared error is at most 1.2 times that of the closest pose found without q0."""
    robot, hand = supple.load("panda"), PositionTask("panda_link8")
    p = robot.fk(robot.random(40, seed=46))[:, :3, 3]
    p *= (1.5 / np.linalg.norm(p, axis=1))[:, None]
    near, closest = (
        solve(robot, p, tasks=hand, q0=robot.random(40, seed=47)),
        solve(robot, p, tasks=hand),
    )
    assert not near.success.any()
    assert (near.position_error <= 1.2**0.5 * closest.position_error + 1e-4).all()


def drawn(robot: supple.Robot, q: Array, p: Array, q0: Array) -> Array:
    """Move q along the self-motion toward a local minimum of ‖q - q0‖, in NumPy."""
    for _ in range(2000):
        J = robot.jacobian(q)[:2]
        back = np.linalg.pinv(J) @ (p - robot.fk(q)[:3, 3])[:2]
        along = np.linalg.svd(J)[2][2]
        move = along * (along @ (q0 - q))
        q = q + back + 0.05 * move
        if np.linalg.norm(move) < 1e-6:
            break
    return q


def test_no_self_motion_brings_the_nearest_solution_closer_to_q0() -> None:
    """Only solutions that the search found after a restart, so not from q0 itself, are compared."""
    robot = supple.dh([(1.0, 0, 0, 0), (0.8, 0, 0, 0), (0.5, 0, 0, 0)])
    rng, count, drawn_pairs = np.random.default_rng(44), 0, nightly(40, 16)
    for q, q0 in rng.uniform(-2.5, 2.5, (drawn_pairs, 2, 3)):
        p = robot.fk(q)[:3, 3].copy()
        found = solve(robot, p, tasks=HAND, q0=q0)
        assert found.success
        if found.restarts == 0:
            continue
        count += 1
        nearer = drawn(robot, found.q, p, q0)
        assert np.abs(nearer - q0).max() > np.abs(found.q - q0).max() - 1e-2
    assert count > drawn_pairs // 2
