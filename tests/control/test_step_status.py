"""The status and the damping that a Servo reports are those of its step."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from loops import Array, robot, somewhere
from supple import (
    DLS,
    Limits,
    Linearization,
    PoseTask,
    PostureTask,
    Servo,
    StepStatus,
    damping,
    simulate,
)
from supple.criteria import RestPosture
from supple.errors import InputError
from supple.redundancy import Augmented, NullSpace, Priority, WeightedCriterion
from supple.steps import (
    SDLS,
    AdaptiveErrorClamp,
    AngleClamp,
    ErrorClamp,
    EstimatedDLS,
    NumericalFilter,
    Pseudoinverse,
    StatefulStep,
    Transpose,
    TruncatedSVD,
    WeightedDLS,
)
from supple.steps.stateful import remembering
from supple.steps.step import BatchStep

DT = 0.01
TWIST = np.array([1.0, 0.2, -0.3, 0.1, 0.2, 0.3])
REST = RestPosture(np.full(7, 0.2))
W = np.array([5.0, 0.2, 1.0, 3.0, 0.5, 1.0, 2.0])
ROWS = np.array([1.0, 2.0, 0.5, 1.5, 0.7, 3.0])

# Steps that lose part of TWIST, each for a different reason.
GIVE_UP: tuple[Any, ...] = (
    SDLS(0.01),
    SDLS(0.01, soft=True),
    TruncatedSVD(0.9),
    TruncatedSVD(min_sigma=1.5),
    TruncatedSVD(rank=1),
    Transpose(),
    AngleClamp(Pseudoinverse(), 0.05),
    ErrorClamp(Pseudoinverse(), 0.05),
    ErrorClamp(ErrorClamp(Pseudoinverse(), 0.05), 0.5),
    NullSpace(AngleClamp(Pseudoinverse(), 0.05), REST),
    NumericalFilter(0.2),
    StatefulStep(NumericalFilter(0.2)),
    AngleClamp(NumericalFilter(100.0), 0.05),
    ErrorClamp(StatefulStep(NumericalFilter(100.0)), 0.05),
    DLS(damping.Constant(1.0)),
    WeightedCriterion(0.5, 0.5, REST, A=np.diag(W)),
    Priority(AngleClamp(Pseudoinverse(), 0.05)),
    lambda linearization: 0.5 * Pseudoinverse()(linearization),
)
# Steps that perform all of TWIST.
FOLLOW: tuple[Any, ...] = (
    Pseudoinverse(),
    TruncatedSVD(1e-4),
    TruncatedSVD(min_sigma=1e-4),
    TruncatedSVD(rank=6),
    SDLS(1e3),
    AngleClamp(Pseudoinverse(), 1e3),
    ErrorClamp(ErrorClamp(Pseudoinverse(), 1e3), 1e3),
    AdaptiveErrorClamp(Pseudoinverse(), 1e3),
    NullSpace(Pseudoinverse(), REST),
    WeightedDLS(damping.Constant(0.0), ROWS, W),
    Priority(Pseudoinverse()),
    Augmented(damping.Constant(0.0), [2.0]),
    lambda linearization: Pseudoinverse()(linearization),
)


def statuses(step: Any, q: Array, velocity: Any, tasks: Any = None) -> set[StepStatus]:
    """Return the statuses of a first step, as reported by a Servo and by `simulate`."""
    arm = robot("panda")
    servo = Servo(arm, tasks, dt=DT, step=step, limits=Limits.none(arm))
    servo(q, velocity)
    many = simulate(
        arm, q, tasks=tasks, velocity=lambda t: velocity, dt=DT, duration=DT, step=step,
        limits=Limits.none(arm),
    )  # fmt: skip
    return {servo.status, *(StepStatus(int(status)) for status in many.status)}


def batch_status(step: Any, q: Array, velocity: Array) -> StepStatus:
    """Return the status that `velocities` reports; check that both precisions have the same."""
    each = [
        step.velocities(robot("panda"), q.astype(kind), velocity.astype(kind), explain=True)
        for kind in (np.float64, np.float32)
    ]
    assert each[0].status == each[1].status
    return StepStatus(int(each[0].status))


@pytest.mark.parametrize("step", GIVE_UP, ids=lambda step: type(step).__name__)
def test_a_step_that_gives_up_part_of_the_command_is_reported_as_damped(step: Any) -> None:
    q = somewhere("panda", 1)
    assert statuses(step, q, TWIST) == {StepStatus.DAMPED}
    if isinstance(step, BatchStep):
        with suppress(InputError):  # the kernel does not have all of these steps
            assert batch_status(step, q, TWIST) is StepStatus.DAMPED


@pytest.mark.parametrize("step", FOLLOW, ids=lambda step: type(step).__name__)
def test_a_step_that_performs_the_command_is_reported_as_following(step: Any) -> None:
    q = somewhere("panda", 1)
    assert statuses(step, q, TWIST) == {StepStatus.FOLLOWING}
    if isinstance(step, BatchStep):
        assert batch_status(step, q, TWIST) is StepStatus.FOLLOWING


def test_following_is_reported_if_no_step_could_follow_more_closely() -> None:
    """The command cannot be performed in full, but the error of the step is the least possible."""
    q = somewhere("panda", 2)
    both = (PoseTask(), PostureTask())
    commands = (TWIST, np.linspace(-1, 1, 7))
    assert statuses(Pseudoinverse(), q, commands, both) == {StepStatus.FOLLOWING}
    assert statuses(Priority(Pseudoinverse()), q, commands, both) == {StepStatus.FOLLOWING}
    weighted = WeightedDLS(damping.Constant(0.0), np.linspace(1, 3, 13))
    assert statuses(weighted, q, commands, both) == {StepStatus.FOLLOWING}
    lower = Priority([Pseudoinverse(), AngleClamp(Pseudoinverse(), 0.01)])
    assert statuses(lower, q, commands, both) == {StepStatus.DAMPED}
    arm = robot("planar2")
    servo = Servo(arm, PoseTask(), dt=DT, step=Pseudoinverse(), limits=Limits.none(arm))
    servo([0.3, 0.5], np.ones(6))
    assert servo.status is StepStatus.FOLLOWING


def test_the_status_names_both_a_clamp_and_a_limit_that_act() -> None:
    """The clamp belongs to the step; the limit acts after the step."""
    arm = robot("panda")
    limits = Limits(*(np.full(7, s) for s in (-9.0, 9.0, 0.02, math.inf)))
    servo = Servo(arm, dt=DT, step=AngleClamp(Pseudoinverse(), 0.05), limits=limits)
    servo(somewhere("panda", 1), TWIST)
    assert servo.status == StepStatus.DAMPED | StepStatus.SPEED_LIMIT
    servo = Servo(arm, dt=DT, step=Pseudoinverse(), limits=limits)
    servo(somewhere("panda", 1), TWIST)
    assert servo.status is StepStatus.SPEED_LIMIT


def test_with_order_2_steps_are_reported_as_following_or_damped() -> None:
    arm = robot("panda")
    for step, expected in (
        (Pseudoinverse(), StepStatus.FOLLOWING),
        (AngleClamp(Pseudoinverse(), 0.05), StepStatus.DAMPED),
    ):
        servo = Servo(arm, dt=DT, step=step, limits=Limits.none(arm), order=2)
        q = somewhere("panda", 1)
        for _ in range(3):
            q = servo(q, TWIST)
            assert servo.status is expected


# ---- the damping used --------------------------------------------------------------------------


def by_error(linearization: Linearization) -> float:
    """Return λ² by a user's rule that depends on J, e and the last step."""
    lin = linearization
    return 0.1 * float(np.linalg.norm(lin.e)) + 0.05 * lin.sigma_min + 0.01 * lin.change


@dataclass
class Asked:
    """A rule that records the value of λ² that it returns to the step."""

    used: float = math.nan

    def __call__(self, linearization: Linearization) -> float:
        self.used = by_error(linearization)
        return self.used


@pytest.mark.parametrize(
    "wrap",
    [
        lambda rule: DLS(rule),
        lambda rule: ErrorClamp(DLS(rule), 0.3),
        lambda rule: ErrorClamp(AngleClamp(ErrorClamp(DLS(rule), 0.2, 2), 0.5), 0.4),
        lambda rule: AdaptiveErrorClamp(DLS(rule), 0.1),
        lambda rule: StatefulStep(AdaptiveErrorClamp(ErrorClamp(DLS(rule), 0.2), 0.1)),
        lambda rule: WeightedDLS(rule, ROWS, np.diag(W)),
        lambda rule: ErrorClamp(WeightedDLS(rule, None, W), 0.3),
        lambda rule: NullSpace(ErrorClamp(DLS(rule), 0.3), REST),
    ],
)
def test_the_reported_damping_is_that_of_the_rule_in_the_step(wrap: Any) -> None:
    arm, rule = robot("panda"), Asked()
    servo = Servo(arm, dt=DT, step=wrap(rule), limits=Limits.none(arm))
    for k in range(3):
        servo(somewhere("panda", k), TWIST)
        reported, _ = servo.lambda2, servo.explain()
        twin = remembering(wrap(again := Asked()))
        before = None
        for j in range(k + 1):
            lin = PoseTask().linearize(arm, somewhere("panda", j), velocity=TWIST)
            before = lin = Linearization(
                lin.J, lin.e, before=before, q=lin.q, effectors=lin.effectors
            )
            twin(lin)
        assert reported == pytest.approx(again.used, rel=1e-9)


@dataclass(frozen=True)
class Estimating:
    """A step with memory that reports its damping by `estimates`, as `NumericalFilter` does."""

    def start(self, linearization: Linearization) -> float:
        return 0.25

    def step(self, linearization: Linearization, memory: float) -> tuple[Array, float]:
        return DLS(damping.Constant(memory))(linearization), memory / 2

    def estimates(self, linearization: Linearization, memory: float) -> Any:
        return type("Estimates", (), {"lambda2": memory})


def test_a_step_with_memory_reports_the_damping_of_its_last_call() -> None:
    """Inside limits, the motion equals that of a step with the reported damping."""
    arm = robot("panda")
    tight = Limits(*(np.full(7, s) for s in (-9.0, 9.0, 0.2, math.inf)))
    servo = Servo(arm, dt=DT, step=Estimating(), limits=tight)
    for k in range(4):
        lambda2, q = 0.25 / 2**k, somewhere("panda", k)
        twin = Servo(arm, dt=DT, step=ErrorClamp(DLS(damping.Constant(lambda2)), 1e9), limits=tight)
        np.testing.assert_allclose(servo(q, TWIST), twin(q, TWIST), rtol=0, atol=1e-12)
        assert servo.lambda2 == pytest.approx(lambda2, rel=1e-9)


# ---- memory inside other steps -----------------------------------------------------------------


@pytest.mark.parametrize(
    "wrap",
    [
        lambda step: step,
        lambda step: AngleClamp(step, 1e6),
        lambda step: ErrorClamp(AngleClamp(step, 1e6), 1e6),
        lambda step: NullSpace(step, REST, gain=0.0),
        lambda step: Priority([step]),
    ],
)
@pytest.mark.parametrize("inner", [NumericalFilter(2.0), EstimatedDLS(damping.SpeedBound(2.0))])
def test_two_servos_with_one_clamped_step_have_separate_memories_of_the_inner_step(
    wrap: Any, inner: Any
) -> None:
    """The clamp never acts, so each Servo moves as with the inner step alone."""
    arm = robot("panda")
    servos = [Servo(arm, dt=DT, step=wrap(inner), limits=Limits.none(arm)) for _ in range(2)]
    twin = StatefulStep(inner)
    q = somewhere("panda", 3)
    for k in range(6):
        lin = PoseTask().linearize(arm, q, velocity=TWIST)
        expected = q + DT * twin(lin)
        np.testing.assert_allclose(servos[0](q, TWIST), expected, rtol=0, atol=1e-9)
        servos[1](somewhere("panda", k), -TWIST)  # must not change the memory of servos[0]
        q = expected


@pytest.mark.parametrize("inner", [NumericalFilter(2.0), EstimatedDLS(damping.SpeedBound(2.0))])
def test_inside_limits_steps_with_memory_agree_in_the_kernel_and_python(inner: Any) -> None:
    """Motion and reported damping are equal."""
    arm = robot("panda")
    limits = Limits(*(np.full(7, s) for s in (-9.0, 9.0, 0.2, math.inf)))
    kernel, python = (
        Servo(arm, dt=DT, step=step, limits=limits) for step in (inner, StatefulStep(inner))
    )
    q, held = somewhere("panda", 3), 0
    for _ in range(8):
        after = kernel(q, TWIST)
        np.testing.assert_allclose(python(q, TWIST), after, rtol=0, atol=1e-9)
        assert python.lambda2 == pytest.approx(kernel.lambda2, rel=1e-6, abs=1e-12)
        held, q = held + int(kernel.active.any()), after
    assert held


def test_the_memory_of_a_clamp_inside_a_clamp_is_copied_and_reset() -> None:
    arm = robot("panda")
    servo = Servo(arm, dt=DT, step=AngleClamp(AdaptiveErrorClamp(Pseudoinverse(), 0.1), 1e6),
                  limits=Limits.none(arm))  # fmt: skip
    q = somewhere("panda")
    first = servo(q, TWIST)  # the first step is not clamped
    again = servo.__copy__()
    second = servo(q, TWIST)
    assert np.linalg.norm(second - q) < 0.5 * np.linalg.norm(first - q)
    np.testing.assert_array_equal(again(q, TWIST), second)
    servo.reset()
    np.testing.assert_array_equal(servo(q, TWIST), first)
