"""Held tasks of a Servo have no error in every step in which the joint limits allow it."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.optimize import lsq_linear, nnls
from test_whole_body import drawn

import generated
import supple as sp
from generated import seeds
from mobile import mobile
from sizes import nightly
from supple.collision import Sphere

Array = np.ndarray
DT = 0.005
EXACT = 1e-9  # [m or rad]
PANDA = sp.load("panda")
READY = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])
ROWS = ("x", "y", "z", "rx", "ry", "rz")


def some_robot(seed: int) -> tuple[sp.Robot, np.random.Generator]:
    """Return a floating robot, a robot on a mobile base, a random robot or a Panda, by seed."""
    rng = np.random.default_rng([seed, 81])
    kind = seed % 4
    if kind == 0:
        return drawn(seed)[0], rng
    if kind == 1:
        return mobile(limit=None), rng
    if kind == 2:
        return generated.robot(rng, joints=int(rng.integers(6, 15)), size=1.0), rng
    return PANDA, rng


def some_task(robot: sp.Robot, rng: np.random.Generator, *, few: bool = False) -> Any:
    """Return a task that can be held: a pose, some of its rows, or an axis."""
    frame = str(rng.choice(robot.tips))
    others = [tip for tip in robot.tips if tip != frame]
    base = str(rng.choice(others)) if others and rng.random() < 0.3 else None
    kind = rng.integers(4)
    if kind == 0 and not few:
        return sp.PoseTask(frame, base=base)
    if kind == 1:
        return sp.AxisTask(frame, axis=tuple(rng.normal(size=3)), base=base)
    rows = rng.choice(6, size=int(rng.integers(1, 3 if few else 4)), replace=False)
    return sp.PoseTask(frame, rows=[ROWS[i] for i in sorted(rows)], base=base)


Errors = Callable[[Array], list[Array]]


def errors_from(robot: sp.Robot, tasks: list[Any], start: Array) -> Errors:
    """Return a function of q: the errors of tasks whose targets are their places at `start`."""
    rows = [task.on(robot) for task in tasks]
    targets = [one.reached(robot, start) for one in rows]
    return lambda q: [one.error(robot, q, at) for one, at in zip(rows, targets, strict=True)]


def slopes(robot: sp.Robot, errors: Errors, q: Array) -> Array:
    """Return minus the derivative of all errors (m, n), by central differences."""
    steps = 1e-5 * np.eye(robot.nv)
    before, after = (
        [np.concatenate(errors(one)) for one in robot.integrate(q, v)] for v in (-steps, steps)
    )
    return (np.array(before) - np.array(after)).T / 2e-5


def limits_of(robot: sp.Robot, rng: np.random.Generator) -> sp.Limits:
    acceleration = None if rng.random() < 0.3 else 10 ** rng.uniform(0.5, 1.5)
    speed = np.where(np.isfinite(robot.max_speed), robot.max_speed, 3.0)
    return sp.Limits.for_robot(robot, max_speed=speed, max_acceleration=acceleration)


def check_limits(limits: sp.Limits, before: Array, qd: Array, q: Array) -> None:
    assert (np.abs(qd) <= limits.max_speed * (1 + 1e-12)).all()
    assert (np.abs(qd - before) <= limits.max_acceleration * DT * (1 + 1e-9) + 1e-12).all()
    if len(q) == len(qd):
        assert (q <= limits.upper + 1e-12).all()
        assert (q >= limits.lower - 1e-12).all()


def reachable(robot: sp.Robot, limits: sp.Limits, q: Array, before: Array, errors: Errors) -> bool:
    """Return whether one step, well inside the limits, leads to a configuration without errors."""
    low = np.maximum(-limits.max_speed, before - limits.max_acceleration * DT)
    high = np.minimum(limits.max_speed, before + limits.max_acceleration * DT)
    if len(q) == len(before):  # stop in front of position limits, with half the deceleration
        brake = np.minimum(limits.max_acceleration, 1e3) / 2
        room = [np.maximum(x - 1e-3, 0) for x in (q - limits.lower, limits.upper - q)]
        down, up = (np.sqrt(2 * brake * r + (brake * DT) ** 2) - brake * DT for r in room)
        low, high = np.maximum(low, -down), np.minimum(high, up)
    low, high = np.maximum(low, -1e4), np.minimum(high, 1e4)
    low, high = low + 0.05 * (high - low), high - 0.05 * (high - low)
    if (low >= high).any():
        return False
    x, there = np.clip(before, low, high), q
    for _ in range(6):
        there = robot.integrate(q, DT * x)
        e = np.concatenate(errors(there))
        if np.abs(e).max() < EXACT:
            return True
        A = slopes(robot, errors, there)
        x = lsq_linear(A, A @ x + e / DT, (low, high), tol=1e-14).x
    return False


def test_held_tasks_have_no_error_wherever_the_limits_allow_it() -> None:
    """Commands are random and jump, robots are of every kind, and the limits always hold."""
    exact = missed = 0
    for seed in seeds(nightly(400, 32)):
        robot, rng = some_robot(seed)
        limits = limits_of(robot, rng)
        held = [some_task(robot, rng, few=bool(seed % 3))]
        if seed % 4 == 0:
            held.append(sp.PositionTask(robot.tips[0], rows=("x", "z")))
        servo = sp.Servo(robot, sp.PostureTask(), dt=DT, limits=limits, held=held)
        q = robot.random(seed=rng)
        errors, after = errors_from(robot, held, q), np.zeros(len(held))
        for k in range(60):
            if k % 15 == 0:
                goal = robot.random(seed=rng)
            before, at, then = servo.qd, q, after
            q = servo(q, target=goal)
            check_limits(limits, before, servo.qd, q)
            after = np.array([abs(e).max() for e in errors(q)])
            reported = sp.StepStatus.HELD_EXCEEDED in servo.status
            if not reported:
                assert after.max() <= EXACT, (seed, k)
                exact += 1
                continue
            missed += 1
            assert after.max() > 0.9 * EXACT, (seed, k)
            np.testing.assert_allclose(servo.held_error, after, atol=1e-11)
            if then.max() <= EXACT:
                assert not reachable(robot, limits, at, before, errors), (seed, k)
    assert exact > 20 * max(missed, nightly(400, 32))


def cost_rows(servo: sp.Servo, J: Array) -> Array:
    """Return J above λ I (m + n, n); a change x of a step costs the squared norm of its product."""
    lambda2 = max(servo.lambda2, 1e-12 * float((J**2).sum()))
    return np.vstack([J, np.sqrt(lambda2) * np.eye(J.shape[1])])


def test_a_step_with_held_tasks_satisfies_the_kkt_conditions() -> None:
    """The gradient of the cost is a combination of held rows and active limits."""
    held_joints = 0
    for seed in seeds(nightly(300, 16)):
        robot, tasks, rng = drawn(seed)
        held = [some_task(robot, rng, few=True), sp.PositionTask(robot.tips[0])]
        q = robot.random(seed=rng)
        size = 1e-7  # the effect of curvature is then below the tolerances
        goals = [robot.fk(robot.integrate(q, size * rng.normal(size=robot.nv)), robot.tips)]
        moved = robot.integrate(q, size * rng.normal(size=robot.nv))
        given = [*goals[0][: len(tasks) - 2], robot.center_of_mass(moved), moved[7:]]
        free = sp.Limits.none(robot)
        step = sp.DLS(sp.damping.Constant(float(10 ** rng.uniform(-6, -3))))
        plain = sp.Servo(robot, tasks, dt=DT, step=step, limits=free, held=held)
        plain(q, target=given)
        shares = ((0.4, 3), (0.1, 1))  # with the second share, most joints are at a limit
        most = [
            np.maximum(rng.uniform(*share, size=robot.nv) * np.abs(plain.qd), 1e-7)
            for share in shares
        ]
        for limits in (free, *(sp.Limits.for_robot(robot, max_speed=each) for each in most)):
            servo = sp.Servo(robot, tasks, dt=DT, step=step, limits=limits, held=held)
            servo(q, target=given)
            if sp.StepStatus.HELD_EXCEEDED in servo.status:
                continue
            x, lin = servo.qd, servo.linearization
            A = slopes(robot, errors_from(robot, held, q), q)
            noise = 1e-5 * np.abs(x).max()
            assert np.abs(A @ x).max() <= noise
            # ‖J x - e‖² + λ² ‖x‖² differs from the cost of the change x - x0 only by a constant.
            slope = lin.J.T @ (lin.J @ x - lin.e) + servo.lambda2 * x
            upper, lower = x >= limits.max_speed * (1 - 1e-6), x <= -limits.max_speed * (1 - 1e-6)
            eye = np.eye(robot.nv)
            signed = np.hstack([A.T, -A.T, -eye[:, upper], eye[:, lower]])
            _, left = nnls(signed, slope, maxiter=10_000)
            assert left <= 1e-4 * np.linalg.norm(lin.J.T @ lin.e), seed
            held_joints += int((upper | lower).sum())
    assert held_joints > nightly(300, 16)


def test_while_a_task_is_switched_its_rows_move_at_a_share_of_their_free_velocity() -> None:
    """The share changes gradually, so acceleration limits hold; others may act instead."""
    for seed in seeds(nightly(100, 8)):
        robot, rng = some_robot(seed)
        limits = limits_of(robot, rng)
        task = some_task(robot, rng, few=True)
        servo = sp.Servo(robot, sp.PostureTask(), dt=DT, limits=limits, held=[task])
        servo.release(0, over=0)
        q = robot.random(seed=rng)
        goal, switched, errors = robot.random(seed=rng), 0, errors_from(robot, [task], q)
        for k in range(90):
            if k == 10:
                servo.hold(0, over=0.1)
            if k == 60:
                servo.release(0, over=0.1)
            before, at = servo.qd, q
            if k < 30 or k >= 60:
                without = copy.copy(servo)
                without.release(0, over=0)
                without(q, target=goal)
            q = servo(q, target=goal)
            check_limits(limits, before, servo.qd, q)
            share = float(servo.held_share[0])
            assert (share == 0) == (k < 10 or k >= 79)
            assert (share == 1) == (29 <= k < 60)
            if share == 0:
                np.testing.assert_array_equal(servo.qd, without.qd)
            elif share == 1:
                errors = errors_from(robot, [task], at) if k == 29 else errors
                assert abs(errors(q)[0]).max() <= EXACT or (
                    sp.StepStatus.HELD_EXCEEDED in servo.status
                )
            else:
                A = slopes(robot, errors_from(robot, [task], at), at)
                wanted = (1 - share) * (A @ without.qd)
                close = np.abs(A @ servo.qd - wanted).max() < 1e-7 * (1 + np.abs(wanted).max())
                limited = (
                    np.abs(servo.qd - before).max() > 0.99 * limits.max_acceleration.min() * DT
                )
                limited |= bool(np.abs(servo.active).any())
                assert close or limited, (seed, k)
                switched += close
        assert switched > 3, seed


def test_with_all_held_tasks_released_a_motion_has_the_bits_of_one_without_held_tasks() -> None:
    rng = np.random.default_rng(4)
    plain = sp.Servo(PANDA, dt=DT)
    servo = sp.Servo(PANDA, dt=DT, held=[sp.PositionTask("panda_link5")])
    servo.release("panda_link5", over=0)
    q = READY
    for k in range(60):
        if k % 20 == 0:
            goal = PANDA.fk(PANDA.random(seed=rng))
        then = plain(q, target=goal)
        np.testing.assert_array_equal(servo(q, target=goal), then)
        assert servo.status == plain.status
        q = then


def test_copies_of_a_servo_hold_the_same_places() -> None:
    hand = sp.PositionTask("panda_link5", rows=("x", "z"))
    servo = sp.Servo(PANDA, sp.PostureTask(), dt=DT, held=[hand])
    q, goal = READY, READY + 0.4
    for _ in range(10):
        q = servo(q, target=goal)
    servo.release(hand, over=0.2)
    q = servo(q, target=goal)
    twins = [pickle.loads(pickle.dumps(servo)), copy.deepcopy(servo), copy.copy(servo)]
    for k in range(60):
        if k == 45:
            for one in (servo, *twins):
                one.hold("panda_link5", over=0.02)
        then = servo(q, target=goal)
        for twin in twins:
            np.testing.assert_array_equal(twin(q, target=goal), then)
            np.testing.assert_array_equal(twin.held_error, servo.held_error)
            np.testing.assert_array_equal(twin.held_share, servo.held_share)
        q = then


def test_a_given_target_is_approached_and_then_held() -> None:
    hand = sp.PoseTask("panda_hand_tcp")
    servo = sp.Servo(PANDA, sp.PostureTask(), dt=DT, held=[hand])
    servo.release(0, over=0)
    goal = PANDA.fk(READY + 0.1)
    q = servo(READY, target=READY)
    servo.hold(0, goal)
    for _ in range(200):
        before = servo.qd
        q = servo(q, target=READY)
        check_limits(servo.limits, before, servo.qd, q)
    np.testing.assert_allclose(PANDA.fk(q), goal, atol=EXACT)
    assert sp.StepStatus.HELD_EXCEEDED not in servo.status


def test_two_held_tasks_that_conflict_are_reported() -> None:
    left, right = (sp.PositionTask("panda_hand_tcp") for _ in range(2))
    other = sp.PositionTask("panda_hand_tcp", rows=("x",))
    servo = sp.Servo(PANDA, sp.PostureTask(), dt=DT, held=[left, other])
    q = servo(READY, target=READY)
    assert sp.StepStatus.HELD_EXCEEDED not in servo.status  # dependent rows, but no conflict
    servo.hold(other, PANDA.fk(READY)[:3, 3] + [0.1, 0, 0], over=0)
    for _ in range(50):
        q = servo(q, target=READY)
    assert np.isfinite(q).all()
    assert np.abs(servo.qd).max() < 1
    assert sp.StepStatus.HELD_EXCEEDED in servo.status
    assert "no motion of the joints meets all held tasks" in str(servo.explain())
    assert right == left


@pytest.mark.parametrize(
    ("held", "words"),
    [
        (sp.PoseTask("panda_hand_tcp", tolerance={"x": 0.1}), "no tolerance"),
        (sp.PoseTask("panda_hand_tcp", alternate=True), "alternate"),
        (sp.PoseTask("panda_hand_tcp", axes="body"), "axes='body'"),
        (sp.tasks.OpenTask(lambda q: q[:1]), "computed in Python"),
    ],
)
def test_tasks_that_cannot_be_held_are_refused(held: Any, words: str) -> None:
    with pytest.raises(sp.errors.InputError, match=words):
        sp.Servo(PANDA, dt=DT, held=held)


def test_bad_arguments_of_held_tasks_are_refused() -> None:
    servo = sp.Servo(PANDA, dt=DT, held=[sp.PoseTask("panda_link5"), sp.AxisTask("panda_link5")])
    with pytest.raises(sp.errors.InputError, match="several held tasks have the frame"):
        servo.release("panda_link5")
    with pytest.raises(sp.errors.UnknownNameError, match="panda_link5"):
        servo.hold("foot")
    with pytest.raises(sp.errors.InputError, match="names them"):
        sp.Servo(PANDA, dt=DT).hold("foot")
    with pytest.raises(sp.errors.InputError, match="over"):
        servo.hold(0, over=-1)
    limits = sp.Limits.for_robot(PANDA, mode="scale")
    with pytest.raises(sp.errors.InputError, match='mode "exact"'):
        sp.Servo(PANDA, dt=DT, limits=limits, held=sp.PoseTask())
    with pytest.raises(AttributeError, match="make a new Servo"):
        servo.held = ()  # type: ignore[misc]


class Slow:
    """Constraints q̇ <= 0.2 rad/s for all joints."""

    def rows(self, robot: sp.Robot, q: Array) -> tuple[Array, Array]:
        """Return the rows."""
        return -np.eye(robot.nv), np.full(robot.nv, -0.2)


def test_held_tasks_take_precedence_over_constraints_and_these_over_other_tasks() -> None:
    elbow = sp.PositionTask("panda_link5")
    servo = sp.Servo(PANDA, dt=DT, held=[elbow], constraints=[Slow()])
    q, place, acted = READY, PANDA.fk(READY, "panda_link5")[:3, 3], 0
    goal = PANDA.fk(READY + np.array([0, 0, 0, 0, 1, -1, 1]))
    for _ in range(60):
        q = servo(q, target=goal)
        np.testing.assert_allclose(PANDA.fk(q, "panda_link5")[:3, 3], place, atol=EXACT)
        assert servo.qd.max() <= 0.2 + 1e-9
        acted += sp.StepStatus.CONSTRAINT_LIMIT in servo.status
    assert acted > 10


def test_a_held_task_that_obstacles_prevent_is_reported() -> None:
    """Keeping the clearance takes precedence: the robot stops and reports HELD_EXCEEDED."""
    tip = PANDA.fk(READY)[:3, 3]
    links = {"panda_hand": Sphere(0.03, [0, 0, 0.1])}
    world = sp.World({"ball": Sphere(0.05, tip + np.array([0.18, 0.04, 0.05]))}, links=links)
    task = sp.PoseTask("panda_hand_tcp", rows=("y",))
    servo = sp.Servo(PANDA, sp.PositionTask("panda_hand_tcp"), dt=DT, held=[task], world=world)
    q, blocked = READY, 0
    for _ in range(150):
        q = servo(q, target=tip + np.array([0.4, 0.0, 0.1]))
        error = abs(PANDA.fk(q)[1, 3] - tip[1])
        assert error == pytest.approx(float(servo.held_error[0]), abs=1e-12)
        assert error <= EXACT or sp.StepStatus.HELD_EXCEEDED in servo.status
        assert servo.nearest is None or servo.nearest.distance >= 0.01 - 1e-9
        blocked += sp.StepStatus.COLLISION_LIMIT in servo.status
    assert blocked > 10


SMOOTH = sp.Limits.for_robot(PANDA, max_acceleration=10.0, max_jerk=500.0)
SHORT = sp.Limits.for_robot(PANDA, max_acceleration=10.0, max_norm=0.8)


@pytest.mark.parametrize(
    "options",
    [
        {"step": sp.DLS(sp.damping.Constant(1e-3))},
        {"step": sp.steps.SDLS()},
        {"step": sp.redundancy.Priority(sp.DLS(sp.damping.Constant(1e-4)))},
        {"step": lambda lin: np.linalg.pinv(lin.J, rcond=1e-3) @ lin.e},
        {"order": 2},
        {"limits": SMOOTH},
        {"limits": SHORT},
    ],
    ids=["dls", "sdls", "priority", "python", "acceleration", "jerk", "norm"],
)
def test_tasks_stay_held_with_every_kind_of_step_and_limits(options: dict[str, Any]) -> None:
    elbow = sp.PositionTask("panda_link5", rows=("x", "z"))
    servo = sp.Servo(PANDA, dt=DT, held=[elbow], **options)
    q, place, limits = READY, PANDA.fk(READY, "panda_link5")[[0, 2], 3], servo.limits
    rng, change = np.random.default_rng(1), np.zeros(7)
    for k in range(120):
        if k % 40 == 0:
            goal = PANDA.fk(READY + 0.3 * rng.normal(size=7))
        before = servo.qd
        q = servo(q, target=goal)
        np.testing.assert_allclose(PANDA.fk(q, "panda_link5")[[0, 2], 3], place, atol=EXACT)
        check_limits(limits, before, servo.qd, q)
        assert np.linalg.norm(servo.qd) <= limits.max_norm * (1 + 1e-9)
        jerk = np.abs(servo.qd - before - change) / DT**2
        assert (jerk <= limits.max_jerk * (1 + 1e-6)).all()
        change = servo.qd - before
