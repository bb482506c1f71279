"""Tasks with allowed ranges: an arm rests inside, and moves to the boundary from outside."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

import supple
from sizes import nightly
from supple import AxisTask, Limits, PoseTask, PositionTask, PostureTask, Servo
from supple.kinematics.rotation import exp, log
from supple.steps import Pseudoinverse
from tolerances import angle_between, box_distance, pose_at

Array = np.ndarray
INF = math.inf
DT, GAIN = 0.002, 10.0
Q = np.array([0.2, 0.1, -0.1, -1.9, 0.1, 2.0, 0.6])
PANDA = supple.load("panda")
FREE = Limits.none(PANDA)


def moved(T: Array, shift: tuple[float, ...], turn: tuple[float, ...] = (0, 0, 0)) -> Array:
    to = T.copy()
    to[:3, 3] += shift
    to[:3, :3] = exp(np.array(turn, dtype=float)) @ T[:3, :3]
    return to


def loop(servo: Servo, q: Array, targets: list[Array] | Array, steps: int = 0) -> Array:
    """Return q, one row per step, of a motion toward one target or along a sequence of targets."""
    each = [targets] * steps if steps else targets
    way = [q]
    for target in each:
        way.append(servo(way[-1], target=target))
    return np.array(way)


# ---- inside --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "shift", "turn"),
    [
        (PoseTask(tolerance={"x": 0.02, "ry": 0.1}), (0.019, 0, 0), (0, -0.09, 0)),
        (PositionTask(tolerance=0.02), (0.019, -0.019, 0.01), (0, 0, 0)),
        (PositionTask(tolerance={"z": (0.0, INF)}), (0, 0, -3.0), (0, 0, 0)),
        (PoseTask(about="z"), (0, 0, 0), None),
        (PoseTask(about="z", cone=0.3), (0, 0, 0), (0.2, 0.1, 0.0)),
    ],
    ids=["pose", "box", "half-space", "free axis", "cone"],
)
def test_an_arm_inside_its_allowed_range_does_not_move(
    task: PoseTask, shift: tuple[float, ...], turn: tuple[float, ...] | None
) -> None:
    T = PANDA.fk(Q)
    spin = tuple(2.5 * T[:3, 2]) if turn is None else turn
    target = moved(T, shift, spin)
    given = target[:3, 3] if isinstance(task, PositionTask) else target
    servo = Servo(PANDA, task, dt=DT, gain=GAIN)
    way = loop(servo, Q, given, steps=100)
    assert abs(way - Q).max() < 1e-12


def test_an_arm_whose_axis_is_inside_its_cone_does_not_move() -> None:
    T = PANDA.fk(Q)
    servo = Servo(PANDA, AxisTask(cone=0.3), dt=DT, gain=GAIN)
    np.testing.assert_array_equal(servo(Q, target=exp(0.29 * T[:3, 0]) @ T[:3, 2]), Q)


# ---- outside -------------------------------------------------------------------------------------


def test_from_outside_a_box_the_tool_moves_to_its_nearest_side() -> None:
    T = PANDA.fk(Q)
    target = moved(T, (0.1, 0.005, -0.2), (0, 0, 0.4))
    ranges = {"x": 0.02, "y": 0.01, "z": (-INF, 0.05), "rz": 0.1}
    servo = Servo(PANDA, PoseTask(tolerance=ranges), dt=DT, gain=GAIN, limits=FREE)
    way = loop(servo, Q, target, steps=2000)
    poses = np.array([pose_at(PANDA, q) for q in way[::20]])
    off = poses[:, :3, 3] - target[:3, 3]
    # x and z move from outside to the nearest bound; meanwhile, y stays inside.
    far = [box_distance(off[:, 0], -0.02, 0.02), box_distance(off[:, 2], -INF, 0.05)]
    for one in far:
        assert (np.diff(abs(one)) <= 1e-9).all()
        assert abs(one[-1]) < 1e-9
    assert off[-1, 0] == pytest.approx(-0.02, abs=1e-8)
    assert off[-1, 2] == pytest.approx(0.05, abs=1e-8)
    assert abs(off[:, 1]).max() <= 0.01 + 1e-6
    turn = log(poses[-1, :3, :3] @ target[:3, :3].T)
    np.testing.assert_allclose(turn, [0, 0, -0.1], atol=1e-7)


@pytest.mark.parametrize("about", ["x", "y", "z"])
def test_from_outside_a_cone_the_tool_axis_moves_to_its_rim(about: str) -> None:
    k, cone = "xyz".index(about), 0.2
    T = PANDA.fk(Q)
    aside = T[:3, (k + 1) % 3]
    target = moved(T, (0.05, 0, 0), tuple(0.7 * aside))
    servo = Servo(PANDA, PoseTask(about=about, cone=cone), dt=DT, gain=GAIN, limits=FREE)
    way = loop(servo, Q, target, steps=2000)
    angles = [angle_between(pose_at(PANDA, q)[:3, k], target[:3, k]) for q in way[::20]]
    assert (np.diff(angles) <= 1e-9).all()
    assert angles[0] == pytest.approx(0.7)
    assert angles[-1] == pytest.approx(cone, abs=1e-8)
    np.testing.assert_allclose(pose_at(PANDA, way[-1])[:3, 3], target[:3, 3], atol=1e-8)


def test_the_distance_from_an_allowed_range_decays_exponentially_at_the_gain() -> None:
    """The distance is that at the start times exp(-gain t), up to first order in dt."""
    T = PANDA.fk(Q)
    target = T[:3, 3] + [0.1, 0.0, 0.0]
    servo = Servo(
        PANDA, PositionTask(tolerance=0.03), step=Pseudoinverse(), dt=1e-4, gain=GAIN, limits=FREE
    )
    way = loop(servo, Q, target, steps=1000)
    left = [target[0] - 0.03 - pose_at(PANDA, q)[0, 3] for q in (way[0], way[-1])]
    assert left[1] / left[0] == pytest.approx(math.exp(-GAIN * 0.1), rel=2e-3)


# ---- the law of a step, by enumeration -----------------------------------------------------------


def least_norm(J: Array, low: Array, high: Array) -> Array:
    """Return the shortest q̇ with low <= J q̇ <= high, by trying all sets of active rows."""
    m, n = J.shape
    best = None
    equal = [i for i in range(m) if low[i] == high[i]]
    ranged = [i for i in range(m) if low[i] < high[i]]
    for count in range(len(ranged) + 1):
        for chosen in combinations(ranged, count):
            for sides in np.ndindex(*(2,) * count):
                rows = [*equal, *chosen]
                ends = [low[i] for i in equal]
                ends += [(low, high)[side][i] for i, side in zip(chosen, sides, strict=True)]
                if not np.isfinite(ends).all():
                    continue
                qd = np.linalg.pinv(J[rows]) @ np.array(ends) if rows else np.zeros(n)
                rate = J @ qd
                if (rate < low - 1e-10).any() or (rate > high + 1e-10).any():
                    continue
                if best is None or np.linalg.norm(qd) < np.linalg.norm(best):
                    best = qd
    assert best is not None
    return best


def test_a_step_with_ranges_is_the_shortest_that_meets_all_intervals() -> None:
    """Rows with a range: k(o + lower) <= J q̇ - v <= k(o + upper), with gain k, velocity v of
    the target, and o = target - position."""
    rng = np.random.default_rng(3)
    acted, trials = 0, nightly(300, 100)
    for trial in range(trials):
        q = Q + rng.uniform(-0.4, 0.4, 7)
        T = moved(pose_at(PANDA, q), tuple(rng.uniform(-0.05, 0.05, 3)))
        rows = rng.permutation(3)[: 1 + trial % 3]
        ends = rng.uniform(0.0, 0.06, (3, 2)) * [-1, 1]
        ranges = {"xyz"[i]: tuple(ends[i]) for i in rows}
        v = rng.uniform(-0.5, 0.5, 6)
        servo = Servo(
            PANDA, PoseTask(tolerance=ranges), step=Pseudoinverse(), dt=DT, gain=GAIN, limits=FREE
        )
        qd = (servo(q, target=T, velocity=v) - q) / DT
        is_at, J = pose_at(PANDA, q), PANDA.jacobian(q)
        o = np.append(T[:3, 3] - is_at[:3, 3], log(T[:3, :3] @ is_at[:3, :3].T))
        low, high = v + GAIN * o, v + GAIN * o
        low[rows] = (v + GAIN * (o + np.append(ends[:, 0], [0, 0, 0])))[rows]
        high[rows] = (v + GAIN * (o + np.append(ends[:, 1], [0, 0, 0])))[rows]
        expected = least_norm(J, low, high)
        np.testing.assert_allclose(qd, expected, atol=1e-7 * max(1.0, abs(expected).max()))
        rate = J @ expected
        acted += int(((abs(rate - low) < 1e-9) | (abs(rate - high) < 1e-9))[rows].any())
    assert trials // 5 < acted < trials


# ---- at the boundary -----------------------------------------------------------------------------


def pushed(dt: float, task: PoseTask, far: float = 0.15) -> tuple[Array, Array]:
    """Return q and q̇ while the target moves away beyond the allowed range, and back."""
    T, count = PANDA.fk(Q), round(2.0 / dt)
    t = np.arange(count) * dt
    out = far * np.sin(np.pi * t / 2.0) ** 2
    targets = np.tile(T, (count, 1, 1))
    targets[:, :3, 3] += np.outer(out, [0.3, 1.0, 0.0])
    targets[:, :3, :3] = exp(np.outer(out, [0.0, 2.0, 0.0])) @ T[:3, :3]
    servo = Servo(PANDA, task, step=Pseudoinverse(), dt=dt, gain=GAIN, limits=FREE)
    q = loop(servo, Q, targets)
    return q, np.diff(q, axis=0) / dt


@pytest.mark.parametrize(
    "task",
    [
        PoseTask(tolerance={"y": 0.05}),
        PoseTask(tolerance={"x": 0.01, "y": 0.05, "ry": 0.1}),
        PoseTask(about="z", cone=0.1),
        PoseTask(about="x", cone=0.1, tolerance={"y": (-0.02, 0.03)}),
    ],
    ids=["side", "corner", "cone", "cone and side"],
)
def test_joint_speeds_are_continuous_across_the_boundary_of_a_range(task: PoseTask) -> None:
    """Differences of q̇ between steps shrink with dt, as jumps would not; q̇ does not oscillate."""
    largest = []
    for dt in (4e-3, 1e-3):
        _, qd = pushed(dt, task)
        largest.append(abs(np.diff(qd, axis=0)).max())
    assert largest[1] < 0.35 * largest[0]
    bends = np.diff(qd[:, np.argmax(abs(qd).max(axis=0))])
    turns = (np.sign(bends[1:]) != np.sign(bends[:-1])) & (abs(bends[1:]) > 1e-9)
    assert turns.sum() < 20


def test_the_tool_follows_the_boundary_of_a_range_that_moves_away() -> None:
    q, _ = pushed(1e-3, PoseTask(tolerance={"y": 0.05}))
    T = PANDA.fk(Q)
    t = np.arange(len(q) - 1) * 1e-3
    out = 0.15 * np.sin(np.pi * t / 2.0) ** 2
    off = np.array([pose_at(PANDA, one)[1, 3] for one in q[1::10]]) - T[1, 3] - out[::10]
    assert -0.075 < off.min() < -0.05  # the frame lags by speed/gain
    assert 0.05 < off.max() < 0.075


# ---- complete motions ----------------------------------------------------------------------------


def test_five_joints_follow_a_pose_with_a_free_tool_axis() -> None:
    robot = supple.load("youbot")
    rng = np.random.default_rng(5)
    q0 = np.array([0.3, 0.6, -1.2, -0.7, 0.4])
    ends = q0 + rng.uniform(-0.3, 0.3, 5)
    way = [robot.fk(q0 + s * (ends - q0)) for s in np.linspace(0, 1, 1000)]
    spun = [T @ moved(np.eye(4), (0, 0, 0), (0, 0, 3 * s)) for s, T in enumerate(way)]
    servo = Servo(robot, PoseTask(about="z"), dt=DT, gain=30.0)
    q = loop(servo, q0, spun + [spun[-1]] * 500)
    last = pose_at(robot, q[-1])
    np.testing.assert_allclose(last[:3, 3], way[-1][:3, 3], atol=1e-6)
    assert angle_between(last[:3, 2], way[-1][:3, 2]) < 1e-6


@pytest.mark.parametrize("mode", ["exact", "scale"])
def test_allowed_ranges_and_joint_limits_hold_together(mode: str) -> None:
    rng = np.random.default_rng(6)
    limits = Limits.for_robot(PANDA, max_acceleration=20.0, mode=mode)
    task = PoseTask(about="z", cone=0.2, tolerance={"x": 0.05})
    servo = Servo(PANDA, task, dt=DT, gain=GAIN, limits=limits)
    q, before = Q, np.zeros(7)
    for k in range(4000):
        if k % 100 == 0 and k < 2000:
            target = moved(PANDA.fk(Q), tuple(rng.uniform(-0.2, 0.2, 3)), tuple(rng.normal(size=3)))
        if k == 2000:
            target = moved(PANDA.fk(Q), (0.1, 0.0, 0.0))
        then = servo(q, target=target)
        qd = (then - q) / DT
        assert np.isfinite(then).all()
        assert (abs(qd) <= PANDA.max_speed * (1 + 1e-9)).all()
        assert (abs(qd - before) <= 20.0 * DT * (1 + 1e-6) + 1e-9).all()
        q, before = then, qd
    off = pose_at(PANDA, q)[:3, 3] - target[:3, 3]
    assert abs(off[0]) <= 0.05 + 1e-6


def test_with_order_2_the_tool_stops_at_the_boundary_of_a_range() -> None:
    target = moved(PANDA.fk(Q), (0.1, 0, 0))
    task = PoseTask(tolerance={"x": 0.03})
    servo = Servo(PANDA, task, dt=DT, order=2, limits=FREE)
    q = loop(servo, Q, target, steps=4000)
    off = pose_at(PANDA, q[-1])[:3, 3] - target[:3, 3]
    assert off[0] == pytest.approx(-0.03, abs=1e-5)


def test_a_posture_within_a_range_leaves_the_joints_free() -> None:
    T = moved(PANDA.fk(Q), (0.05, 0.05, 0))
    alone = Servo(PANDA, dt=DT, gain=GAIN)
    both = Servo(PANDA, [PoseTask(), PostureTask(tolerance=2.0)], dt=DT, gain=GAIN)
    q, other = Q, Q
    for _ in range(50):
        q, other = alone(q, target=T), both(other, target=[T, Q])
    np.testing.assert_allclose(q, other, atol=1e-12)
    held = Servo(PANDA, [PoseTask(), PostureTask(weight=0.01)], dt=DT, gain=GAIN)
    third = Q
    for _ in range(50):
        third = held(third, target=[T, Q])
    assert abs(third - q).max() > 1e-6  # a posture without a range does move the joints


def test_two_equal_servos_make_equal_steps_toward_an_allowed_range() -> None:
    T = moved(PANDA.fk(Q), (0.1, 0, 0))
    task = PoseTask(tolerance={"x": 0.03})
    one, other = (Servo(PANDA, task, dt=DT, gain=GAIN) for _ in range(2))
    a = loop(one, Q, T, steps=50)
    np.testing.assert_array_equal(a, loop(other, Q, T, steps=50))
