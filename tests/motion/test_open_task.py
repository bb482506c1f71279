"""Open tasks, whose rows a user defines, work in every function that takes a task."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import supple
import supple as sp
from solving import solve
from supple import DLS, Limits, PositionTask, PostureTask, Servo, damping, linearize
from supple.errors import InputError, UnknownNameError
from supple.redundancy import Priority
from supple.steps import NumericalFilter, Pseudoinverse
from supple.tasks import OpenTask

Array = np.ndarray
PANDA = supple.load("panda")
Q = np.array([0.1, 0.3, 0.2, -1.8, 0.2, 2.0, 0.5])
STEP = DLS(damping.Constant(1e-3))


def value(q: Array) -> Array:
    """Return a vector (2,) that depends on all seven joints."""
    return np.array([np.sin(q[0]) * q[1] + q[6], q[2] * q[3] + np.cos(q[4] - q[5])])


def slopes(q: Array) -> Array:
    """Return the Jacobian of `value`, derived by hand."""
    J = np.zeros((2, 7))
    J[0, [0, 1, 6]] = np.cos(q[0]) * q[1], np.sin(q[0]), 1.0
    s = np.sin(q[4] - q[5])
    J[1, [2, 3, 4, 5]] = q[3], q[2], -s, s
    return J


def both(q: Array) -> tuple[Array, Array]:
    """Return the value and the Jacobian."""
    return value(q), slopes(q)


OPEN = {"with J": OpenTask(both), "by differences": OpenTask(value)}
WEIGHTED = OpenTask(both, weight=(2.0, 0.5), rows=("a", "b"))
each_form = pytest.mark.parametrize("task", OPEN.values(), ids=OPEN)


@each_form
def test_rows_of_an_open_task_are_those_of_its_function(task: OpenTask) -> None:
    """This holds for a batch and for one configuration."""
    q = Q + 0.1 * np.arange(6).reshape(2, 3, 1)
    target = np.array([0.3, -0.2])
    lin = linearize(PANDA, [PositionTask(), task], q, [np.zeros(3), target])
    for i in np.ndindex(2, 3):
        np.testing.assert_allclose(lin.J[i][3:], slopes(q[i]), atol=1e-9)
        np.testing.assert_allclose(lin.e[i][3:], target - value(q[i]), atol=1e-15)
    one = task.linearize(PANDA, Q, target, velocity=[1.0, 2.0])
    np.testing.assert_allclose(one.J, slopes(Q), atol=1e-9)
    np.testing.assert_allclose(one.e, target - value(Q) + [1.0, 2.0], atol=1e-15)


@each_form
def test_the_bias_acceleration_of_an_open_task_is_the_derivative_of_j_q_dot(task: OpenTask) -> None:
    """The bias J̇q̇ is compared with differences of J q̇ along a line."""
    qd = np.array([0.3, -0.5, 0.2, 0.7, -0.1, 0.4, 0.6])
    lin = linearize(PANDA, task, Q, qd=qd)
    h = 1e-6
    expected = (slopes(Q + h * qd) - slopes(Q - h * qd)) @ qd / (2 * h)
    np.testing.assert_allclose(lin.bias_acceleration, expected, atol=1e-6)


@pytest.mark.parametrize("first", [True, False])
@each_form
def test_a_servo_with_an_open_task_and_a_frame_steps_by_their_stacked_rows(
    task: OpenTask, first: bool
) -> None:
    """In either order of the tasks, q̇ = Jᵀ(JJᵀ + λ²I)⁻¹(ẋ + gain e)."""
    tasks = [task, PositionTask()] if first else [PositionTask(), task]
    target, p = np.array([0.3, -0.2]), np.array([0.4, 0.1, 0.5])
    targets = [target, p] if first else [p, target]
    speeds = [np.array([0.1, 0.2]), np.array([0.0, 0.1, 0.0])][:: 1 if first else -1]
    servo = Servo(PANDA, tasks, dt=0.01, step=STEP, gain=2.0, limits=Limits.none(PANDA))
    servo(Q, speeds, targets)
    frame = linearize(PANDA, PositionTask(), Q, p)
    parts = [(slopes(Q), target - value(Q)), (frame.J, frame.e)][:: 1 if first else -1]
    J = np.vstack([J for J, _ in parts])
    e = np.concatenate([v + 2.0 * e for v, (_, e) in zip(speeds, parts, strict=True)])
    expected = J.T @ np.linalg.solve(J @ J.T + 1e-3 * np.eye(5), e)
    np.testing.assert_allclose(servo.qd, expected, atol=1e-8)
    np.testing.assert_allclose(servo.linearization.J, J, atol=1e-9)
    assert servo.lambda2 == 1e-3
    assert servo.status == supple.StepStatus.DAMPED


def test_weights_of_an_open_task_multiply_its_rows() -> None:
    """The squares of the weights therefore appear in the cost."""
    servo = Servo(PANDA, WEIGHTED, dt=0.01, step=STEP, limits=Limits.none(PANDA))
    servo(Q, [0.1, 0.2])
    W = np.diag([2.0, 0.5])
    J = W @ slopes(Q)
    expected = J.T @ np.linalg.solve(J @ J.T + 1e-3 * np.eye(2), W @ [0.1, 0.2])
    np.testing.assert_allclose(servo.qd, expected, atol=1e-12)
    assert WEIGHTED.rows_of(PANDA) == ("a", "b")
    rows = WEIGHTED.on(PANDA)
    np.testing.assert_allclose(rows.jacobian(PANDA, Q), J, atol=1e-12)
    np.testing.assert_allclose(rows.error(PANDA, Q, np.ones(2)), W @ (1 - value(Q)), atol=1e-12)


def test_an_open_task_with_value_q_moves_as_a_posture_task() -> None:
    """This holds with order=1 and order=2, inside limits."""
    target = Q + np.array([0.5, -0.3, 2.0, 0.4, 0.1, 0.2, -0.6])
    limits = Limits.for_robot(PANDA, max_speed=0.5, max_acceleration=4.0)
    for order in (1, 2):
        ends = []
        for task in (PostureTask(), OpenTask(lambda q: (q, np.eye(7)))):
            servo = Servo(PANDA, task, dt=0.01, step=STEP, limits=limits, order=order)
            q = Q
            for _ in range(100):
                q = servo(q, target=target)
            ends.append(q)
        np.testing.assert_allclose(ends[1], ends[0], atol=1e-9)


def test_a_servo_with_an_open_task_keeps_limits_and_minimizes_its_cost_inside_them() -> None:
    """Limits hold in each step, and the step is the minimizer of the cost inside them."""
    limits = Limits.for_robot(PANDA, max_speed=0.3)
    servo = Servo(PANDA, [OpenTask(both), PositionTask()], dt=0.01, step=STEP, limits=limits)
    servo(Q, [np.array([3.0, -2.0]), np.array([0.2, 0.3, -0.2])])
    low, high = limits.box(Q, np.zeros(7), 0.01)
    assert (servo.qd >= low - 1e-12).all()
    assert (servo.qd <= high + 1e-12).all()
    lin = servo.linearization
    best = limits.applied(STEP(lin), lin.J, 1e-3, low, high)[0]
    np.testing.assert_allclose(servo.qd, best, atol=1e-9)
    assert supple.StepStatus.SPEED_LIMIT in servo.status


def test_a_lower_task_does_not_change_the_motion_of_an_open_task() -> None:
    """The step is `Priority`."""
    tasks = [OpenTask(both), PositionTask()]
    servo = Servo(PANDA, tasks, dt=0.01, step=Priority(STEP), limits=Limits.none(PANDA))
    servo(Q, [np.array([0.3, -0.2]), np.array([5.0, 0.3, -0.2])])
    alone = STEP(OpenTask(both).linearize(PANDA, Q, velocity=[0.3, -0.2]))
    np.testing.assert_allclose(slopes(Q) @ servo.qd, slopes(Q) @ alone, atol=1e-12)


def test_a_filter_and_the_default_step_bring_an_open_task_to_its_target() -> None:
    """The filter is `NumericalFilter`."""
    target = [np.array([0.5, -0.3]), np.array([0.4, 0.1, 0.5])]
    for step in (NumericalFilter(2.0), None):
        motion = supple.simulate(
            PANDA,
            Q,
            target=lambda t: target,
            tasks=[OpenTask(both), PositionTask()],
            dt=0.01,
            duration=3.0,
            step=step,
        )
        assert np.abs(motion.error[-1]).max() < 1e-6
        np.testing.assert_allclose(value(motion.q[-1]), target[0], atol=1e-6)


def test_velocities_of_open_tasks_are_the_first_step_of_a_servo() -> None:
    """This holds with and without limits."""
    tasks = (OpenTask(both), PositionTask())
    q = Q + 0.1 * np.arange(4)[:, None]
    asked = [np.array([1.0, -0.2]), np.array([0.1, 0.3, -0.2])]
    fast = Limits.for_robot(PANDA, max_speed=0.4)
    for limits in (None, fast):
        dt = None if limits is None else 0.01
        found = STEP.velocities(PANDA, q, asked, tasks, limits=limits, dt=dt)
        for one, qd in zip(q, found, strict=True):
            servo = Servo(PANDA, tasks, dt=0.01, step=STEP, limits=limits or Limits.none(PANDA))
            servo(one, asked)
            np.testing.assert_allclose(qd, servo.qd, atol=1e-9)
    told = STEP.velocities(PANDA, q, asked, tasks, limits=fast, dt=0.01, explain=True)
    assert told.status.count(supple.StepStatus.SPEED_LIMIT) == 0 or told.active.any()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: OpenTask(3), "must be a function of q; given: 3"),
        (lambda: OpenTask(value, rows=0), "rows must be at least 1"),
        (lambda: OpenTask(value, unit="mm"), "Available: 'm', 'rad'"),
        (lambda: OpenTask(value, rows=2, weight=(1, 2, 3)), "2 such numbers"),
        (lambda: OpenTask(lambda q: np.zeros((2, 2))).on(PANDA), r"a number or \(k,\)"),
        (lambda: OpenTask(lambda q: np.zeros(8)).on(PANDA), "at most 7 rows"),
        (lambda: OpenTask(lambda q: (1.0, np.ones((1, 3)))).on(PANDA), r"J of shape \(1, 7\)"),
        (lambda: linearize(PANDA, OpenTask(lambda q: 0 * q[0] / 0.0 * np.nan), Q), "finite"),
        (lambda: linearize(PANDA, OpenTask(value, rows=3), Q), r"\(3,\); given: \(2,\)"),
        (lambda: linearize(PANDA, OpenTask(value), Q, [1.0]), r"\(\.\.\., 2\)"),
        (lambda: Servo(PANDA, OpenTask(value), dt=0.01)(Q, target=[0, np.inf]), "finite"),
        (lambda: solve(PANDA, [1.0], tasks=OpenTask(value)), r"\(\.\.\., 2\)"),
    ],
)
def test_wrong_arguments_of_open_tasks_are_named(make: object, words: str) -> None:
    """The error says what was given and what is expected."""
    with np.errstate(all="ignore"), pytest.raises((InputError, UnknownNameError), match=words):
        make()  # type: ignore[operator]


def test_an_error_in_the_function_of_an_open_task_leaves_the_servo_unchanged() -> None:
    """The next step equals that of a Servo without the error."""
    broken = [False]

    def fragile(q: Array) -> float:
        if broken[0]:
            raise RuntimeError("sensor lost")
        return float(q[0])

    servo = Servo(PANDA, OpenTask(fragile), dt=0.01, step=Pseudoinverse())
    servo(Q, [0.1])
    before = servo.qd
    broken[0] = True
    with pytest.raises(RuntimeError, match="sensor lost"):
        servo(Q, [0.2])
    np.testing.assert_array_equal(servo.qd, before)
    broken[0] = False
    other = copy.copy(servo)
    np.testing.assert_array_equal(other(Q, [0.3]), servo(Q, [0.3]))


def test_solve_meets_reachable_targets_of_open_tasks() -> None:
    """Targets are met inside limits: of one task, together with frames, and in batches."""
    rng = np.random.default_rng(1)
    q = rng.uniform(PANDA.lower + 0.3, PANDA.upper - 0.3, (5, 7))
    x, p = np.array([value(one) for one in q]), PANDA.fk(q)[:, :3, 3]
    for tasks, targets in (
        (OpenTask(both), x),
        ((PositionTask(), OpenTask(value)), [p, x]),
        ((OpenTask(both, unit="rad"), PositionTask()), [x, p]),
    ):
        found = solve(PANDA, targets, tasks=tasks)
        assert found.success.all(), found
        assert (found.q >= PANDA.lower).all()
        assert (found.q <= PANDA.upper).all()
        for one, goal in zip(found.q, x, strict=True):
            np.testing.assert_allclose(value(one), goal, atol=1e-6)
    one = solve(PANDA, [p[0], x[0]], tasks=(PositionTask(), OpenTask(both)), q0=q[0] + 0.1)
    again = solve(PANDA, [p, x], tasks=(PositionTask(), OpenTask(both)), q0=q + 0.1)
    np.testing.assert_array_equal(again[0].q, one.q)


def test_an_open_target_that_cannot_be_met_is_not_called_unreachable() -> None:
    """A failed search does not prove that an open target cannot be met: NOT_CONVERGED."""
    task = OpenTask(lambda q: np.sin(q[0]))
    found = solve(PANDA, [1.5], tasks=task, max_seeds=2)
    assert found.status == supple.SolveStatus.NOT_CONVERGED
    assert "not converged" in str(found)
    assert found.position_error == pytest.approx(1.5 - np.sin(found.q[0]), abs=1e-12)
    assert found.position_error < 0.51  # the values of the sine end 0.5 before the target
    assert found.restarts == 1


def test_open_tasks_work_on_robots_with_a_floating_base() -> None:
    """J, given or by differences, has a column for each velocity; J̇q̇ is the derivative of J q̇."""
    arm = sp.load("panda").with_base("floating")
    q, qd = arm.random(seed=3), np.random.default_rng(4).normal(size=arm.nv)

    def hand(q: np.ndarray) -> np.ndarray:
        return arm.fk(q)[:3, 3]

    def with_jacobian(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return hand(q), arm.jacobian(q)[:3]

    exact = sp.linearize(arm, sp.PositionTask(), q).J
    ahead, behind = (arm.jacobian(arm.integrate(q, h * qd))[:3] @ qd for h in (1e-5, -1e-5))
    for function in (hand, with_jacobian):
        task = OpenTask(function)
        np.testing.assert_allclose(sp.linearize(arm, task, q).J, exact, atol=1e-8)
        np.testing.assert_allclose(
            task.on(arm).bias(q, qd), (ahead - behind) / 2e-5, rtol=1e-4, atol=1e-4
        )
