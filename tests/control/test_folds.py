"""With the default step, an arm stops at the end of its reach and leaves it without delay."""

from __future__ import annotations

import numpy as np
import pytest

from sizes import nightly
from supple import Limits, PositionTask, Robot, Servo, StepStatus, load

DT = 0.005


def straight(name: str) -> np.ndarray:
    """Return a stretched configuration of a robot."""
    return {"planar2": np.array([0.4, 0.0]), "ur5e": np.array([0.3, -1.2, 0, -1.1, 1.3, 0.2])}[name]


@pytest.mark.parametrize("acceleration", [None, 8.0, 60.0])
@pytest.mark.parametrize("beyond", [0.002, 0.05, 0.4])
def test_an_arm_stops_at_the_end_of_its_reach_without_reversing(
    beyond: float, acceleration: float | None
) -> None:
    """This holds for any distance of the target and any acceleration limit."""
    arm = load("planar2")
    reach = float(np.linalg.norm(arm.fk([0.0, 0.0])[:3, 3]))
    limits = Limits.for_robot(arm, max_speed=2.0, max_acceleration=acceleration)
    servo = Servo(arm, PositionTask(rows=("x", "y")), dt=DT, limits=limits)
    q, far = np.array([0.1, 0.9]), reach + beyond
    bend = []
    for _ in range(1500):
        q = servo(q, target=[far * np.cos(0.6), far * np.sin(0.6), 0])
        bend.append(q[1])
    assert min(bend) > -1e-3  # the elbow does not bend to the other side
    last = np.diff(bend[-200:])
    assert np.abs(last).max() < 1e-5
    assert StepStatus.OUT_OF_REACH in servo.status
    assert np.linalg.norm(arm.fk(q)[:2, 3]) == pytest.approx(reach, abs=1e-4)


def test_a_stretched_arm_follows_a_target_inwards_without_delay() -> None:
    """At the start σ_min = 0, and the target accelerates inwards; errors are below 0.2 mm."""
    arm = load("planar2")
    q, limits = straight("planar2"), Limits.for_robot(arm, max_acceleration=60.0)
    servo = Servo(arm, PositionTask(rows=("x", "y")), dt=DT, limits=limits)
    start = arm.fk(q)[:3, 3]
    unit, worst = start / np.linalg.norm(start), 0.0
    for k in range(200):
        t = k * DT
        inwards, speed = 0.1 * t * t, 0.2 * t
        q = servo(q, -speed * unit, start - inwards * unit)
        there = start - 0.1 * (t + DT) ** 2 * unit
        worst = max(worst, float(np.linalg.norm(arm.fk(q)[:3, 3] - there)))
    assert worst < 2e-4


def test_away_from_singularities_the_default_step_performs_the_command_exactly() -> None:
    arm = load("panda")
    q = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])
    servo = Servo(arm, dt=0.002, limits=Limits.for_robot(arm))
    twist = np.array([0.1, 0.05, -0.1, 0.1, 0, 0.2])
    servo(q, twist)
    np.testing.assert_allclose(servo.linearization.J @ servo.qd, twist, atol=1e-13)
    assert servo.status == StepStatus.FOLLOWING
    assert servo.lambda2 == 0
    assert not servo.lost.any() or np.abs(servo.lost).max() < 1e-13


def mean_twist(arm: Robot, q: np.ndarray, qd: np.ndarray, dt: float) -> np.ndarray:
    """Return the mean twist (6,) of the frame from q to q + dt q̇."""
    before, after = arm.fk(q), arm.fk(q + dt * qd)
    turn = after[:3, :3] @ before[:3, :3].T
    turned = 0.5 * np.array(
        [turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]]
    )
    return np.concatenate([after[:3, 3] - before[:3, 3], turned]) / dt


def test_the_reported_loss_is_the_part_of_the_command_that_damping_removes() -> None:
    """The frame moves as commanded, except for `lost`, to second order in dt."""
    arm, dt = load("ur5e"), 0.002
    q = straight("ur5e") + np.array([0, 0, 0.01, 0, 0, 0])
    servo = Servo(arm, dt=dt, limits=Limits.none(arm))
    rng, shares = np.random.default_rng(0), []
    weak = np.linalg.svd(arm.jacobian(q))[0][:, -1]
    for k in range(20):
        twist = rng.normal(size=6) * 0.3
        if k % 2:
            twist -= weak * (weak @ twist)  # such a command needs no damping
        servo.reset()
        servo(q, twist)
        e = servo.linearization.e
        size, lost = np.linalg.norm(e), float(np.linalg.norm(servo.lost))
        left = np.linalg.norm(e - servo.lost - mean_twist(arm, q, servo.qd, dt))
        # Upper bound on the effect of curvature.
        bent = servo._curvature * float(servo.qd @ servo.qd)
        assert left <= 0.002 * size + bent
        assert (StepStatus.DAMPED in servo.status) == (lost > 0.01 * np.linalg.norm(twist))
        assert servo.sigma_min == pytest.approx(servo.linearization.sigma_min, rel=1e-9)
        shares.append(lost / size)
    assert max(shares[::2]) > 0.3
    assert max(shares[1::2]) < 0.01


def reversals(servo: Servo, q: np.ndarray, target: np.ndarray, steps: int, last: int) -> int:
    """Return how many of the last steps have q̇ opposed to that of the step before."""
    for _ in range(steps - last):
        q = servo(q, target=target)
    before = [servo.qd]
    for _ in range(last):
        q = servo(q, target=target)
        before.append(servo.qd)
    qd = np.array(before)
    moves = np.abs(qd).max(axis=1) > 1e-6
    return int(((qd[1:] * qd[:-1]).sum(axis=1) < 0)[moves[1:] | moves[:-1]].sum())


@pytest.mark.parametrize("speed", [0.01, 0.05])
@pytest.mark.parametrize("factor", [1.5, 5.0])
def test_an_arm_does_not_oscillate_while_its_slide_moves_at_full_speed(
    factor: float, speed: float
) -> None:
    """Singularities are computed without the joint at its limit, so the arm does not reverse."""
    arm = load("puma560_rail")
    rest = np.clip(arm.neutral(), arm.lower, arm.upper)
    limits = Limits.for_robot(arm, max_speed=np.where(arm.prismatic, speed, arm.max_speed))
    turned = []
    for seed in range(nightly(8, 4)):
        target = arm.fk(arm.random(1, seed=seed)[0])
        target[:3, 3] *= factor
        turned.append(reversals(Servo(arm, dt=DT, limits=limits), rest, target, 2500, 200))
    assert not any(turned)


@pytest.mark.parametrize(("ahead", "leaves"), [(0.5, True), (0.9, True), (1.1, False), (10, False)])
def test_a_stretched_arm_starts_to_bend_before_its_returning_target_is_within_reach(
    ahead: float, leaves: bool
) -> None:
    """The arm starts when the target is speed/gain beyond the reach."""
    arm = load("planar2")
    q, limits = straight("planar2"), Limits.for_robot(arm, max_speed=2.0, max_acceleration=60.0)
    servo = Servo(arm, PositionTask(rows=("x", "y")), dt=DT, limits=limits)
    end, speed = arm.fk(q)[:3, 3], 0.2
    outward = end / np.linalg.norm(end)
    servo(q, -speed * outward, end + ahead * speed / servo.gain * outward)
    assert (abs(servo.qd[1]) > 1e-3) == leaves
