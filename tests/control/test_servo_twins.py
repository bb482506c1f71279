"""A Servo moves by dt times the velocity that its `step` returns for its tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from loops import Array, robot, somewhere
from rules import EVERY, key
from supple import DLS, Limits, Linearization, PoseTask, PositionTask, PostureTask, Servo, damping
from supple.control.controller import make_controller
from supple.criteria import RestPosture
from supple.motion.linearization import stacked
from supple.redundancy import (
    Augmented,
    GradientProjection,
    NullSpace,
    Priority,
    TotalSpeed,
    WeightedCriterion,
)
from supple.steps import (
    SDLS,
    AngleClamp,
    ErrorClamp,
    NumericalFilter,
    Pseudoinverse,
    StatefulStep,
    Transpose,
    TruncatedSVD,
    WeightedDLS,
)
from supple.tasks import as_tasks
from supple.tasks.layout import compile_tasks

DT = 0.01
REST = RestPosture(np.full(7, 0.2))
WEIGHTS = np.array([1.0, 2.0, 0.5, 1.5, 0.7, 3.0])
JOINTS = np.array([1.0, 4.0, 0.3, 1.0, 2.0, 0.6, 1.7])

# All steps of the kernel without priorities.
STEPS: tuple[Any, ...] = (
    *(DLS(rule) for rule in EVERY),
    *(
        DLS(rule, method)
        for rule in (damping.Constant(0.04), damping.Optimal(0.5), damping.Curvature(0.5))
        for method in ("svd", "cholesky", "qr")
    ),
    DLS(damping.Region(0.04, 5.0, direction=(0.0, 0.0, 1.0, 0.0, 0.0, 0.0), min_weight=0.2)),
    Pseudoinverse(),
    TruncatedSVD(0.1),
    Transpose(),
    SDLS(0.3),
    SDLS(0.3, soft=True),
    ErrorClamp(DLS(damping.Constant(0.04)), 0.2),
    AngleClamp(SDLS(0.3), 0.05),
    AngleClamp(ErrorClamp(Pseudoinverse(), 0.2), 0.1),
    *(
        WeightedDLS(rule, task, joint)
        for rule in EVERY
        for task, joint in ((WEIGHTS, None), (None, JOINTS), (WEIGHTS, JOINTS))
    ),
    NullSpace(DLS(damping.Constant(0.04)), REST),
    NullSpace(DLS(damping.ManipulabilityRate(0.04, 0.99, 0.01, 0.1)), REST),
    NullSpace(WeightedDLS(damping.MayorgaRank(0.01, 0.04), WEIGHTS, JOINTS), REST, 2.0),
    NullSpace(WeightedDLS(damping.ManipulabilityRate(0.04, 1.5, 0.01, 9.0), WEIGHTS), REST),
    GradientProjection(damping.Constant(0.04), REST, 0.5),
    GradientProjection(damping.MayorgaRank(0.01, 0.04), REST, 0.5, alpha1=0.1),
    GradientProjection(damping.ManipulabilityRate(0.04, 1.5, 0.01, 9.0), REST),
    WeightedCriterion(0.1, 0.2, REST),
    TotalSpeed(0.6, REST),
    TotalSpeed(0.6, REST, switch=True),
)


def parts_of(tasks: Sequence[Any], q: Array, velocity: Sequence[Array]) -> list[Linearization]:
    """Return the linearizations of tasks, computed in Python, with e = velocity."""
    return [
        task.linearize(robot("panda"), q, velocity=v)
        for task, v in zip(tasks, velocity, strict=True)
    ]


def twist(k: int) -> Array:
    """Return the command of step k, different in every step."""
    return np.array([0.3, -0.2, 0.1 * k, 0.4, -0.1 * k, 0.2])


@pytest.mark.parametrize("step", STEPS, ids=key)
def test_a_servo_moves_by_dt_times_the_velocity_of_its_step(step: Any) -> None:
    """The step is computed in Python, also for rules that depend on the last step."""
    arm, task = robot("panda"), PoseTask()
    assert make_controller(step, compile_tasks(arm, (task,))).python_step is None
    servo = Servo(arm, dt=DT, step=step, limits=Limits.none(arm))
    before = None
    for k in range(5):
        q = somewhere("panda", k)  # far from the last q, so that rules that depend on it act
        lin = task.linearize(arm, q, velocity=twist(k))
        lin = Linearization(lin.J, lin.e, before=before, q=q)
        expected = q + DT * step(lin)
        np.testing.assert_allclose(servo(q, twist(k)), expected, rtol=0, atol=1e-10)
        before = lin


@pytest.mark.parametrize("elbow", [1.4, 0.03])  # with 0.03, elbow and wrist are singular
@pytest.mark.parametrize("printed", [False, True])
def test_a_servo_with_the_numerical_filter_of_the_kernel_moves_as_with_the_filter_in_python(
    printed: bool, elbow: float
) -> None:
    arm, task, step = robot("ur5e"), PoseTask(), NumericalFilter(6.0, printed=printed)
    assert make_controller(step, compile_tasks(arm, (task,))).python_step is None
    servo = Servo(arm, dt=DT, step=step, limits=Limits.none(arm))
    twin = StatefulStep(step)
    q = np.array([0.3, -1.2, elbow, -0.5, 0.25 if elbow > 1 else 0.03, 0.2])
    for again in range(2):
        for k in range(25):
            expected = q + DT * twin(task.linearize(arm, q, velocity=twist(k % 3)))
            q = servo(q, twist(k % 3))
            np.testing.assert_allclose(q, expected, rtol=0, atol=1e-9)
        if not again:
            servo.reset()
            twin.reset()


PAIR = (PositionTask("panda_hand_tcp", weight=2.0), PostureTask())
TRIPLE = (PositionTask("panda_hand_tcp"), PositionTask("panda_link4", rows=("z",)), PostureTask())
VELOCITIES = (np.array([0.2, -0.1, 0.3]), np.array([0.05, 0.1, 0.4]), np.linspace(-0.3, 0.3, 7))


@pytest.mark.parametrize(
    "step",
    [
        Priority(Pseudoinverse()),
        Priority(DLS(damping.Constant(0.04))),
        Priority([DLS(damping.Optimal(0.2)), TruncatedSVD(0.05), SDLS(0.3)]),
        Priority(DLS(damping.MayorgaRank(0.01, 0.04))),
        Priority(DLS(damping.ManipulabilityRate(0.04, 1.5, 0.01, 9.0))),
        Priority([WeightedDLS(damping.MayorgaRank(0.01, 0.04), WEIGHTS[:3]), *[Transpose()] * 2]),
        Augmented(damping.Constant(0.04), [1.0, 0.1, [0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07]]),
        Augmented(damping.MayorgaRank(0.01, 0.04), [1.0, 2.0, 0.5]),
        Augmented(damping.ManipulabilityRate(0.04, 1.5, 0.01, 9.0), [1.0, 2.0, 0.5]),
    ],
    ids=key,
)
def test_priority_and_augmented_steps_agree_in_the_kernel_and_python(step: Any) -> None:
    arm = robot("panda")
    assert make_controller(step, compile_tasks(arm, TRIPLE)).python_step is None
    servo = Servo(arm, TRIPLE, dt=DT, step=step, limits=Limits.none(arm))
    before: list[Linearization | None] = [None] * 3
    for k in range(4):
        q = somewhere("panda", k)
        parts = [
            Linearization(part.J, part.e, before=old, q=q, effectors=part.effectors)
            for part, old in zip(parts_of(TRIPLE, q, VELOCITIES), before, strict=True)
        ]
        expected = q + DT * step(parts)
        np.testing.assert_allclose(servo(q, VELOCITIES), expected, rtol=0, atol=1e-11)
        before = list(parts)


def test_several_tasks_without_priorities_move_as_one_task_with_their_stacked_rows() -> None:
    arm, step = robot("panda"), DLS(damping.Constant(0.01))
    servo = Servo(arm, PAIR, dt=DT, step=step, limits=Limits.none(arm))
    q = somewhere("panda")
    both = stacked(parts_of(PAIR, q, (VELOCITIES[0], VELOCITIES[2])))
    np.testing.assert_allclose(
        servo(q, (VELOCITIES[0], VELOCITIES[2])), q + DT * step(both), rtol=0, atol=1e-13
    )


def in_python(step: Any) -> Any:
    """Return a Python function that calls a step; the kernel cannot run the function."""
    return lambda linearization: step(linearization)


@pytest.mark.parametrize(
    "step",
    [
        DLS(damping.Optimal(0.5)),
        DLS(damping.MayorgaRank(0.01, 0.04)),
        DLS(damping.ManipulabilityRate(0.04, 1.5, 0.01, 9.0)),
        NullSpace(DLS(damping.Constant(0.04)), REST),
        ErrorClamp(SDLS(0.3), 0.2),
        Priority(DLS(damping.Constant(0.04))),
        Priority(DLS(damping.MayorgaRank(0.01, 0.04))),
    ],
    ids=key,
)
@pytest.mark.parametrize("order", [1, 2])
def test_a_step_in_python_gives_the_same_motion_as_that_step_in_the_kernel(
    step: Any, order: int
) -> None:
    """This holds with order 1 and with order 2."""
    arm = robot("panda")
    own: Any = Priority(in_python(step.steps)) if isinstance(step, Priority) else in_python(step)
    several = isinstance(step, Priority)
    tasks: Any = TRIPLE if several else PoseTask()
    assert make_controller(own, compile_tasks(arm, as_tasks(tasks))).python_step is not None
    servos = [
        Servo(arm, tasks, dt=DT, step=one, limits=Limits.none(arm), order=order)
        for one in (step, own)
    ]
    start = np.linspace(-0.2, 0.3, 7)
    for servo in servos:
        servo.reset(start)
    for k in range(6):
        velocity: Any = VELOCITIES if several else twist(k)
        kernel, python = (servo(somewhere("panda", k), velocity) for servo in servos)
        np.testing.assert_allclose(kernel, python, rtol=0, atol=1e-10)


def test_a_damping_rule_written_by_a_user_acts_like_a_built_in_one() -> None:
    arm = robot("panda")
    rule = damping.Optimal(0.5)
    # Acceleration limits, which are left out, might act differently in the two loops.
    own = Limits.for_robot(arm)
    mine = Servo(arm, dt=DT, step=DLS(lambda lin: rule(lin)), limits=own)
    kernel = Servo(arm, dt=DT, step=DLS(rule), limits=own)
    q = p = somewhere("panda")
    for k in range(10):
        q, p = mine(q, twist(k)), kernel(p, twist(k))
        np.testing.assert_allclose(q, p, rtol=0, atol=1e-12)
        assert mine.lambda2 == pytest.approx(kernel.lambda2, rel=1e-6, abs=1e-12)


def test_a_reset_clears_the_memory_of_damping_rules() -> None:
    arm = robot("panda")
    for rule in (damping.MayorgaRank(0.01, 0.04), damping.ManipulabilityRate(0.04, 1.5, 0.01, 9.0)):
        for step in (DLS(rule), in_python(DLS(rule))):
            servo = Servo(arm, dt=DT, step=step, limits=Limits.none(arm))
            q = somewhere("panda")
            first = servo(q, twist(0))
            # This q is far from the last one, so a rule with memory gives another step.
            servo(arm.random(seed=3), twist(1))
            servo.reset()
            np.testing.assert_array_equal(servo(q, twist(0)), first)
