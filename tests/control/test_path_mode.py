"""Mode "path": the tool stays on its path, every limit holds, and only the timing changes."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest

from sizes import a_third, nightly
from supple import (
    DLS,
    Limits,
    PositionTask,
    Robot,
    Servo,
    StepStatus,
    damping,
    errors,
    load,
    simulate,
)

DT = 0.002


@cache
def past_the_wrist(miss: float) -> tuple[Robot, np.ndarray, np.ndarray]:
    """Return a UR5e, a start q0, and targets on a line from there past a wrist singularity."""
    arm = load("ur5e")
    middle = arm.fk([0.3, -1.2, 1.4, -1.1, miss, 0.2])
    targets = np.repeat(middle[None], 501, axis=0)
    targets[:, :3, 3] += np.linspace(-0.1, 0.1, 501)[:, None] * middle[:3, 0]
    q = np.array([0.3, -1.2, 1.4, -1.1, miss, 0.2])
    for target in np.concatenate([np.linspace(middle, targets[0], 200), targets[:1].repeat(50, 0)]):
        q = Servo(arm, dt=1.0, gain=1.0, limits=Limits.none(arm))(q, target=target)
    return arm, q, targets


def distances(arm: Robot, q: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return the distance of the tool at each q from the line through the targets."""
    x, a, b = arm.fk(q)[..., :3, 3], targets[0, :3, 3], targets[-1, :3, 3]
    along = (b - a) / np.linalg.norm(b - a)
    off = (x - a) - ((x - a) @ along)[:, None] * along
    return np.asarray(np.linalg.norm(off, axis=1))


@pytest.mark.parametrize("jerk", [None, 400.0])
@pytest.mark.parametrize("miss", [0.4, 0.02])
def test_in_mode_path_the_tool_stays_on_its_line_and_all_limits_hold(
    miss: float, jerk: float | None
) -> None:
    arm, q0, targets = past_the_wrist(miss)
    limits = Limits.for_robot(arm, max_acceleration=10.0, max_jerk=jerk, mode="path")
    motion = simulate(arm, q0, target=targets, dt=DT, limits=limits)
    assert distances(arm, motion.q, targets).max() < 1e-5
    np.testing.assert_allclose(motion.q[0], q0, atol=1e-9)
    np.testing.assert_allclose(arm.fk(motion.q[-1]), targets[-1], atol=1e-6)
    assert np.abs(motion.error).max() < 1e-5
    second = np.diff(motion.qd, axis=0, prepend=0) / DT
    assert np.abs(motion.qd).max() <= arm.max_speed.max() * (1 + 1e-6)
    assert np.abs(second).max() <= 10.0 * (1 + 1e-6)
    if jerk is not None:
        assert np.abs(np.diff(second, axis=0)).max() / DT <= jerk * (1 + 1e-6)
    assert not any(StepStatus.OUT_OF_REACH in one for one in motion.status)


def test_in_mode_path_a_path_within_the_limits_takes_little_more_than_its_time() -> None:
    """Only starting and stopping take more time; the tool never exceeds the commanded speed."""
    arm, q0, targets = past_the_wrist(0.4)
    limits = Limits.for_robot(arm, max_acceleration=40.0, mode="path")
    motion = simulate(arm, q0, target=targets, dt=DT, limits=limits)
    asked = np.linalg.norm(np.diff(targets[:, :3, 3], axis=0), axis=1).max() / DT
    speeds = np.linalg.norm(np.diff(arm.fk(motion.q)[:, :3, 3], axis=0), axis=1) / DT
    assert speeds.max() <= asked * (1 + 1e-3)
    assert 1.0 <= motion.t[-1] < 1.15


def test_in_mode_path_the_tool_stops_before_the_path_leaves_the_reach() -> None:
    arm, q0, targets = past_the_wrist(0.4)
    away = targets.copy()
    away[:, :3, 3] = targets[0, :3, 3] * np.linspace(1, 3, 501)[:, None]
    motion = simulate(
        arm,
        q0,
        target=away,
        dt=DT,
        limits=Limits.for_robot(arm, max_acceleration=10.0, mode="path"),
    )
    reach = np.linalg.norm(arm.fk(motion.q[-1])[:3, 3] - away[0, :3, 3])
    assert 0.1 < reach < np.linalg.norm(away[-1, :3, 3] - away[0, :3, 3])
    assert np.abs(motion.qd[-1]).max() < 0.05
    assert np.abs(motion.error).max() < 1e-4
    assert StepStatus.OUT_OF_REACH in motion.status[-1]


def test_in_mode_path_a_robot_that_cannot_begin_its_path_stays_at_rest() -> None:
    """A planar arm whose targets leave its plane rests at q0 and reports OUT_OF_REACH."""
    arm = load("planar2")
    q0 = np.array([0.4, 0.8])
    targets = np.repeat(arm.fk(q0)[None], 50, axis=0)
    targets[:, 2, 3] += np.linspace(0, 0.1, 50)  # out of the arm's plane
    limits = Limits.for_robot(arm, max_speed=2.0, max_acceleration=10.0, mode="path")
    motion = simulate(arm, q0, target=targets, dt=DT, limits=limits)
    np.testing.assert_array_equal(motion.q, np.repeat(q0[None], len(motion.q), axis=0))
    assert StepStatus.OUT_OF_REACH in motion.status[-1]


def test_in_mode_path_a_motion_begins_at_a_q0_within_the_tolerance_of_the_path() -> None:
    arm, q0, targets = past_the_wrist(0.4)
    near = q0 + 2e-5
    limits = Limits.for_robot(arm, max_acceleration=10.0, mode="path")
    motion = simulate(arm, near, target=targets, dt=DT, limits=limits)
    np.testing.assert_array_equal(motion.q[0], near)
    assert np.abs(np.diff(motion.qd, axis=0, prepend=0)).max() / DT <= 10.0 * (1 + 1e-6)


def test_servos_and_velocities_refuse_mode_path() -> None:
    arm, q, _ = past_the_wrist(0.4)
    limits = Limits.for_robot(arm, mode="path")
    servo, step = Servo(arm, dt=DT), DLS(damping.Constant(1e-6))
    given = {"tasks": arm.tips[0], "limits": limits, "dt": DT}
    for call in (
        lambda: Servo(arm, dt=DT, limits=limits),
        lambda: setattr(servo, "limits", limits),
        lambda: step.velocities(arm, q, np.zeros(6), **given),
        lambda: step.velocities(arm, q, target=arm.fk(q), **given),
    ):
        with pytest.raises(errors.InputError, match=r'mode="path" are only for supple\.simulate'):
            call()


def test_simulate_in_mode_path_refuses_arguments_that_it_does_not_support() -> None:
    arm, q0, targets = past_the_wrist(0.4)
    limits = Limits.for_robot(arm, mode="path")
    with pytest.raises(errors.InputError, match="needs a target at each time"):
        simulate(arm, q0, velocity=np.zeros(6), dt=DT, duration=1.0, limits=limits)
    with pytest.raises(
        errors.InputError, match="takes no step, gains, constraints, held tasks or initial speeds"
    ):
        simulate(arm, q0, target=targets, dt=DT, limits=limits, gain=3.0)
    with pytest.raises(errors.InputError, match="needs q0 at the first target"):
        simulate(arm, q0 + 0.1, target=targets, dt=DT, limits=limits)
    turned = targets.copy()
    turned[250:, :3, 3] += 0.05
    with pytest.raises(errors.InputError, match="close enough together"):
        simulate(arm, q0, target=turned, dt=DT, limits=limits)


@pytest.mark.parametrize("jerk", [None, 40.0])
@pytest.mark.parametrize("seed", range(nightly(6, 3)))
def test_in_mode_path_limits_hold_where_a_redundant_joint_reaches_its_position_limit(
    seed: int, jerk: float | None
) -> None:
    """The first joint reaches its position limit; the other three then perform the motion alone."""
    arm = load("planar4")
    rng = np.random.default_rng(seed)
    q0 = np.array([0.2, 1.4, -1.6, 1.5]) + rng.uniform(-0.1, 0.1, 4)
    q = q0 + np.linspace(0, 1, 80)[:, None] * np.array([0.9, 0.2, 0.1, -0.2])
    end = np.array([q0[0] + rng.uniform(0.4, 0.6), *[np.inf] * 3])
    limits = Limits(
        np.full(4, -np.inf),
        end,
        np.full(4, 2.0),
        np.full(4, 5.0),
        np.full(4, np.inf if jerk is None else jerk),
        mode="path",
    )
    motion = simulate(
        arm,
        q0,
        target=arm.fk(q)[:, :3, 3],
        tasks=PositionTask(rows=("x", "y")),
        dt=0.005,
        limits=limits,
        tolerance=1e-3,
    )
    assert StepStatus.OUT_OF_REACH not in motion.status[-1]
    assert end[0] - 0.02 < motion.q[:, 0].max() <= end[0]
    speed = np.vstack([np.zeros(4), motion.qd, np.zeros(4)])
    change = np.diff(speed, axis=0)
    assert np.abs(change).max() <= 5.0 * 0.005 * (1 + 1e-6)
    if jerk is not None:
        assert np.abs(np.diff(change, axis=0)).max() <= jerk * 0.005**2 * (1 + 1e-6)


def strong(arm: Robot, jerk: float | None) -> Limits:
    return Limits.for_robot(arm, max_acceleration=40.0, max_jerk=jerk, mode="path")


@cache
def duration_past_the_wrist(jerk: float | None) -> float:
    arm, q0, targets = past_the_wrist(0.4)
    return float(simulate(arm, q0, target=targets, dt=DT, limits=strong(arm, jerk)).t[-1])


@pytest.mark.parametrize(
    ("where", "jerk"),
    a_third(list(product(("begin", "end", "middle", "both"), (None, 400.0))), "at rest"),
)
def test_in_mode_path_pauses_in_the_targets_last_as_long_as_commanded(
    where: str, jerk: float | None
) -> None:
    """The motion takes the time without pauses, the pauses, and the time to stop and start."""
    arm, q0, targets = past_the_wrist(0.4)
    rest = nightly(400, 100)
    begin, end = targets[:1].repeat(rest, 0), targets[-1:].repeat(rest, 0)
    parts = {
        "begin": [begin, targets],
        "end": [targets, end],
        "middle": [targets[:250], targets[249:250].repeat(rest, 0), targets[250:]],
        "both": [begin, targets, end],
    }[where]
    limits = strong(arm, jerk)
    without = duration_past_the_wrist(jerk)
    motion = simulate(arm, q0, target=np.concatenate(parts), dt=DT, limits=limits)
    rests = DT * (sum(len(part) for part in parts) - len(targets))
    late = 0.3 if where == "middle" else 0.05  # stopping in the middle and starting again take time
    assert without + rests - 0.05 <= motion.t[-1] <= without + rests + late
    np.testing.assert_allclose(arm.fk(motion.q[-1]), targets[-1], atol=1e-6)
