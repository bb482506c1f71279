"""Curves of self-motion keep the pose; they end at limits or are closed."""

from __future__ import annotations

import numpy as np
import pytest

import supple as sp
from sizes import nightly
from supple.describe import Description, Joint
from supple.errors import InputError
from supple.redundancy import self_motion


@pytest.mark.parametrize("name", ["panda", "iiwa14"])
@pytest.mark.parametrize("seed", range(nightly(3, 1)))
def test_self_motion_keeps_the_pose_until_a_joint_limit(name: str, seed: int) -> None:
    robot = sp.load(name)
    q = robot.random(seed=seed)
    curve = self_motion(robot, q, step=0.05)
    assert (curve.q[curve.start] == q).all()
    assert np.abs(robot.fk(curve.q) - robot.fk(q)).max() < 1e-9
    assert ((robot.lower <= curve.q) & (curve.q <= robot.upper)).all()
    steps = np.linalg.norm(np.diff(curve.q, axis=0), axis=1)
    assert steps.max() < 0.0501
    if not curve.closed:
        assert steps[1:-1].min() > 0.02
        for row, joint in zip(curve.q[[0, -1]], curve.ends, strict=True):
            i = robot.joint_names.index(joint)
            assert row[i] in (robot.lower[i], robot.upper[i])


def test_in_self_motion_the_elbow_of_an_iiwa_moves_on_a_circle() -> None:
    """Shoulder and wrist stay in place, so the elbow keeps its distances from them."""
    arm = sp.load("iiwa14")
    free = arm.with_limits(lower=-20.0, upper=20.0)
    q = arm.random(seed=4)
    step = nightly(0.02, 0.06)
    curve = self_motion(free, q, step=step)
    assert curve.closed
    assert curve.ends == ("", "")
    elbow = free.fk(curve.q, free.frames[4])[:, :3, 3]
    flat = elbow - elbow.mean(axis=0)
    _, sigma, Vt = np.linalg.svd(flat, full_matrices=False)
    assert sigma[2] < 1e-8 * sigma[0]  # the circle is in a plane
    x = flat @ Vt[:2].T
    A, b = np.column_stack([2 * x, np.ones(len(x))]), (x * x).sum(axis=1)
    center = np.linalg.lstsq(A, b)[0]
    # All places have one distance from the center.
    np.testing.assert_allclose(A @ center, b, atol=1e-9)
    angle = np.sort(np.arctan2(*(x - center[:2]).T))
    assert np.diff(angle).max() < 5 * step  # the elbow moves around the whole circle
    away = curve.q[0] - curve.q[-1]
    away -= 2 * np.pi * np.round(away / (2 * np.pi))
    assert np.linalg.norm(away) < 1.05 * step


def test_self_motion_of_a_straight_wrist_turns_only_joints_4_and_6_oppositely() -> None:
    """The arm is a PUMA 560."""
    puma = sp.load("puma560")
    q = np.array([0.3, -0.5, 0.4, 0.2, 0.0, 0.1])
    curve = self_motion(puma, q, step=0.1)
    moved = curve.q - q
    np.testing.assert_allclose(moved[:, [0, 1, 2, 4]], 0.0, atol=1e-9)
    np.testing.assert_allclose(moved[:, 3], -moved[:, 5], atol=1e-9)


def test_self_motion_without_a_free_dimension_or_outside_the_limits_is_refused() -> None:
    ur5e = sp.load("ur5e")
    with pytest.raises(InputError, match="one dimension; given: 0"):
        self_motion(ur5e, np.array([0.1, -1.0, 1.2, 0.3, 0.8, 0.2]))
    with pytest.raises(InputError, match="inside the limits"):
        self_motion(ur5e, np.full(6, 100.0))
    with pytest.raises(InputError, match="step must be positive"):
        self_motion(ur5e, np.zeros(6), step=0.0)


def spherical(seed: int) -> sp.Robot:
    """Return an arm with a ball joint as shoulder, an elbow and a ball joint as wrist."""
    rng = np.random.default_rng(seed)
    elbow, end = sp.pose([0.5, 0.0, 0.1]), sp.pose([0.4, 0.1, 0.0])
    joints = (
        Joint("shoulder", "ball", "base", "upper", origin=sp.pose(rng.normal(size=3))),
        Joint("elbow", "revolute", "upper", "lower", origin=elbow, axis=np.array([0.0, 0.0, 1.0])),
        Joint("wrist", "ball", "lower", "hand", origin=end),
    )
    return sp.Robot(Description("spherical", joints))


def test_in_self_motion_the_elbow_between_two_ball_joints_moves_on_a_circle() -> None:
    """The upper arm turns about the line from shoulder to wrist, which stay in place."""
    for seed in range(2):
        arm = spherical(seed)
        q = arm.random(seed=seed)
        flipped = q.copy()
        flipped[:4] *= -1
        curve, other = (self_motion(arm, each, step=0.15) for each in (q, flipped))
        assert curve.closed
        assert np.abs(arm.fk(curve.q) - arm.fk(q)).max() < 1e-9
        np.testing.assert_allclose(np.linalg.norm(curve.q[:, :4], axis=1), 1, atol=1e-12)
        steps = arm.difference(curve.q[1:], curve.q[:-1])
        np.testing.assert_allclose(np.linalg.norm(steps, axis=1), 0.15, atol=0.01)
        assert np.abs(curve.q[:, 4] - q[4]).max() < 1e-9
        np.testing.assert_allclose(arm.difference(other.q, curve.q), 0, atol=1e-9)
        away = arm.fk(curve.q, "lower")[:, :3, 3] - arm.fk(q, "hand")[:3, 3]
        length = np.linalg.norm(away, axis=1)
        np.testing.assert_allclose(length, length[0], atol=1e-9)


def test_a_ball_joint_that_does_not_move_the_frame_does_not_move_in_self_motion() -> None:
    """The other joints move as they do in a robot without this ball joint."""
    arm = sp.load("panda")
    far = Joint("other", "ball", arm.description.root, "extra")
    robot = sp.Robot(Description("both", (far, *arm.description.joints)))
    assert robot.nq == arm.nq + 4
    q, aside = arm.random(seed=1), robot.random(seed=2)[:4]
    frame = arm.description.leaves[0]
    alone = self_motion(arm, q, frame=frame)
    curve = self_motion(robot, np.concatenate([aside, q]), frame=frame)
    np.testing.assert_allclose(curve.q[:, 4:], alone.q, atol=1e-7)
    np.testing.assert_allclose(curve.q[:, :4], np.tile(aside, (len(curve), 1)), atol=1e-15)
    assert curve.ends == alone.ends
