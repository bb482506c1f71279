"""`servo.explain()` reports speeds and damping of the last step, and the limits that acted."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from loops import Array, robot, somewhere
from sizes import nightly
from supple import DLS, Limits, PoseTask, PostureTask, Report, Servo, StepStatus, damping
from supple.control.diagnostics import Direction
from supple.criteria import RestPosture
from supple.redundancy import Augmented, NullSpace, Priority
from supple.steps import NumericalFilter, Pseudoinverse, StatefulStep, WeightedDLS

Q = somewhere("panda")
STEPS: dict[str, Any] = {
    "default": None,
    "optimal": DLS(damping.Optimal(0.5)),
    "constant": DLS(damping.Constant(0.02)),
    "rank": DLS(damping.MayorgaRank(0.1, 0.1)),
    "rate": DLS(damping.ManipulabilityRate(0.1, 0.99, 0.01, 0.1)),
    "weighted": WeightedDLS(damping.Constant(0.01), None, np.linspace(0.5, 2, 7)),
    "undamped": Pseudoinverse(),
    "filtered": NumericalFilter(3.0),
    "remembering": StatefulStep(NumericalFilter(3.0)),
    "criterion": NullSpace(DLS(damping.Constant(0.01)), RestPosture(Q)),
    "priority": Priority(DLS(damping.Constant(0.01))),
    "augmented": Augmented(damping.Constant(0.1), [1.0]),
    "own": lambda lin: lin.J.T @ lin.e,
    "own rule": DLS(lambda lin: 0.01 + lin.change),
}
LIMITS = {
    "own": Limits.for_robot(robot("panda")),
    "slow": Limits.for_robot(robot("panda"), speed_factor=0.1),
    "gentle": Limits.for_robot(robot("panda"), max_acceleration=3.0),
    "norm": Limits.for_robot(robot("panda"), max_norm=0.2),
    "all": Limits.for_robot(robot("panda"), max_acceleration=3.0, speed_factor=0.2, max_norm=0.3),
    "scaled": Limits.for_robot(robot("panda"), speed_factor=0.1, mode="scale"),
}


def check(servo: Servo, report: Report, before: Array, order: int, dt: float) -> None:
    """Compare the report with the last step, computed independently."""
    lin = servo.linearization
    done = servo.qd if order == 1 else (servo.qd - before) / dt + servo._rest_gain * before
    assert report.speed == pytest.approx(np.linalg.norm(servo.qd), rel=1e-12)
    assert report.lambda2 in (servo.lambda2, None)
    assert report.lambda2 is not None or servo.lambda2 == 0
    left = np.linalg.norm(lin.e - lin.J @ done)
    assert report.missed == pytest.approx(left / np.linalg.norm(lin.e), rel=1e-9, abs=1e-12)
    U = np.linalg.svd(lin.J)[0]
    for i, direction in enumerate(report.directions):
        u = U[:, i] * np.sign(U[:, i] @ lin.e) * np.sign(direction.commanded)
        assert abs(direction.commanded) == pytest.approx(abs(u @ lin.e), rel=1e-6, abs=1e-12)
        if direction.missed is not None and abs(direction.commanded) > 1e-3:
            share = 1 - u @ lin.J @ done / (u @ lin.e)
            assert direction.missed == pytest.approx(share, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("order", [1, 2])
def test_the_report_of_a_servo_has_the_numbers_of_its_last_step(
    name: str, limits: str, order: int
) -> None:
    dt = 0.01
    servo = Servo(
        robot("panda"), PoseTask(), dt=dt, step=STEPS[name], limits=LIMITS[limits], order=order
    )
    rng, q = np.random.default_rng(4), Q
    for _ in range(nightly(12, 3)):
        before = servo.qd
        q = servo(q, rng.normal(size=6) * rng.choice([0.01, 1.0]))
        check(servo, servo.explain(), before, order, dt)


def test_without_limits_a_servo_and_supple_explain_report_the_same() -> None:
    """Both reports are for the same step."""
    from supple import explain

    servo = Servo(robot("ur5e"), dt=0.01, step=DLS(damping.Constant(0.05)))
    servo(somewhere("ur5e"), [0.05, 0, 0, 0, 0.1, 0])
    taken, planned = servo.explain(), explain(servo.linearization, servo.step)  # type: ignore[arg-type]
    assert taken.held == ()
    assert taken.max_norm is None
    assert taken.reason == planned.reason
    for mine, theirs in zip(taken.directions, planned.directions, strict=True):
        assert mine.missed == pytest.approx(theirs.missed, abs=1e-9)
    assert taken.lambda2 == planned.lambda2 == 0.05


def free(**more: Any) -> Limits:
    wide = dict.fromkeys(("max_speed", "max_acceleration"), np.full(2, math.inf))
    return Limits(**({"lower": np.full(2, -1.0), "upper": np.full(2, 1.0)} | wide | more))


@pytest.mark.parametrize(
    ("limits", "q", "commanded", "expected"),
    [
        (free(), [0.99, 0.0], [9.0, 0.0], {0: ("position", 1, 1.0)}),
        (free(), [0.0, -0.99], [0.0, -9.0], {1: ("position", -1, -1.0)}),
        (free(max_speed=np.array([0.5, 9])), [0, 0], [2.0, 0], {0: ("speed", 1, 0.5)}),
        (free(max_speed=np.array([9, 0.5])), [0, 0], [0, -2.0], {1: ("speed", -1, -0.5)}),
        (free(max_acceleration=np.full(2, 3.0)), [0, 0], [2.0, 0],
         {0: ("acceleration", 1, 3.0)}),
        (free(), [1.2, 0.0], [0.0, 0.0], {0: ("position", 1, 1.0)}),
        (free(max_speed=np.array([0.5, 9])), [0, 0.99], [2.0, 9.0],
         {0: ("speed", 1, 0.5), 1: ("position", 1, 1.0)}),
        (free(), [0.0, 0.0], [0.1, -0.1], {}),
    ],
)  # fmt: skip
def test_the_report_names_each_joint_that_a_limit_holds(
    limits: Limits, q: list[float], commanded: list[float], expected: dict[int, tuple[Any, ...]]
) -> None:
    arm = robot("planar2")
    servo = Servo(arm, PostureTask(), dt=0.01, limits=limits)  # J is the identity
    servo(q, np.array(commanded, dtype=float))
    report = servo.explain()
    found = {held.joint: (held.limit, held.end, held.value) for held in report.held}
    assert found == {arm.joint_names[j]: what for j, what in expected.items()}
    assert [j for j in range(2) if servo.active[j]] == list(expected)
    for held in report.held:
        assert held.exceeds == 1
        assert f"{held.joint} is held by its" in str(report)
        assert f"limit of {held.limit}" in str(report)


def test_the_report_names_joints_that_cannot_stop_in_time_and_their_acceleration() -> None:
    servo = Servo(robot("planar2"), dt=0.01, limits=free(max_acceleration=np.full(2, 1.0)))
    servo.reset([2.0, 0.0])
    servo([0.9, 0.0], np.zeros(6))
    held = servo.explain().held[0]
    assert (held.joint, held.limit, held.end) == (robot("planar2").joint_names[0], "position", 1)
    assert held.exceeds == pytest.approx(abs(servo.qd[0] - 2.0) / 0.01)
    assert f"{held.exceeds:.3g} times its limit of acceleration" in str(held)


@pytest.mark.parametrize("order", [1, 2])
def test_mode_scale_reports_its_factor(order: int) -> None:
    """The step taken is the factor times the step without limits; mode "exact" has no factor."""
    arm, dt = robot("panda"), 0.01
    step = DLS(damping.Constant(0.02))
    for mode in ("scale", "exact"):
        limits = Limits.for_robot(arm, speed_factor=0.02, mode=mode)  # type: ignore[arg-type]
        free = Servo(arm, dt=dt, step=step, limits=Limits.none(arm), order=order)
        servo = Servo(arm, dt=dt, step=step, limits=limits, order=order)
        for one in (free, servo):
            one(Q, np.full(6, 0.2))
        report = servo.explain()
        assert report.mode == mode
        if mode == "exact":
            assert report.factor is None
            continue
        assert 0 < report.factor < 1
        np.testing.assert_allclose(servo.qd, report.factor * free.qd, rtol=1e-9)
        said = f'slowed down to {report.factor:.1%} of the unlimited step (mode="scale")'
        assert f"all joints are {said}" in str(report)
        assert free.explain().mode is None


def test_no_scale_factor_is_reported_if_the_direction_is_not_kept() -> None:
    """It is not kept if a joint cannot brake fast enough, and unknown for steps with memory."""
    arm = robot("panda")
    braking = Limits.for_robot(arm, speed_factor=0.1, max_acceleration=1.0, mode="scale")
    servo = Servo(arm, dt=0.01, step=DLS(damping.Constant(0.02)), limits=braking)
    servo.reset([0.1, 0, 0, 0, 0, 0, 0])
    servo(Q, np.array([0, 0.5, 0, 0, 0, 0.0]))
    remembering = StatefulStep(NumericalFilter(3.0))
    other = Servo(arm, dt=0.01, step=remembering, limits=LIMITS["scaled"])
    other(Q, np.ones(6))
    for one in (servo, other):
        report = one.explain()
        assert report.mode == "scale"
        assert report.factor is None
        assert 'the joints are slowed down (mode="scale")' in str(report)


@pytest.mark.parametrize("name", ["default", "undamped", "constant"])
@pytest.mark.parametrize("limits", LIMITS)
def test_the_status_names_the_same_causes_as_the_report(name: str, limits: str) -> None:
    """This holds also for joints that start too fast."""
    servo = Servo(robot("panda"), dt=0.01, step=STEPS[name], limits=LIMITS[limits])
    rng, seen = np.random.default_rng(9), StepStatus.FOLLOWING
    for _ in range(nightly(60, 20)):
        servo.reset(rng.normal(size=7) * rng.choice([0.0, 0.1, 3.0]))
        near = rng.choice([0.0, 1.0], 7)
        q = near * (servo.limits.upper - 1e-3) + (1 - near) * Q
        servo(q, rng.normal(size=6) * rng.choice([0.01, 1.0]))
        report, status = servo.explain(), servo.status
        limited = {f"{held.limit}_limit" for held in report.held}
        assert {str(cause) for cause in status if cause & 0b11100} == limited
        assert (StepStatus.ACCELERATION_EXCEEDED in status) == any(
            h.exceeds > 1 for h in report.held
        )
        damped = servo._chosen_lambda2 > 0 and servo.lambda2 > 0
        if servo._yields:
            damped = np.linalg.norm(servo.lost) > 0.01 * np.linalg.norm(servo._command)
        assert (StepStatus.DAMPED in status) == damped
        if StepStatus.NORM_LIMIT in status:
            assert report.max_norm is not None
        seen |= status
    assert StepStatus.POSITION_LIMIT in seen


def test_the_report_prints_missed_parts_of_the_size_of_rounding_errors_as_zero() -> None:
    """The report of a step that performs its command exactly never contains "-0.0%"."""
    arm = robot("panda")
    servo = Servo(arm, dt=0.01, step=Pseudoinverse(), limits=Limits.for_robot(arm))
    rng = np.random.default_rng(0)
    for _ in range(50):
        servo(Q, rng.normal(size=6) * 0.1)
        report = servo.explain()
        assert report.missed == 0
        assert all(direction.missed == 0 for direction in report.directions)
        servo(Q, np.array([0, 0, 0.1, 0, 0, 0]))
        assert "-0.0%" not in str(servo.explain())
        assert "e-1" not in str(servo.explain())


@pytest.mark.parametrize(
    ("missed", "text"),
    [
        (None, ""),
        (-1e-9, "0.0%"),
        (0.25, "25.0%"),
        (1.00001, "100.0%"),
        (2.762, "against"),
        (-0.766, "beyond"),
    ],
)
def test_a_missed_part_below_0_or_above_100_percent_is_printed_as_a_word(
    missed: float | None, text: str
) -> None:
    assert Direction("x", 1.0, 0.1, None, missed).missed_text == text


def test_the_report_says_that_a_step_moves_against_the_command() -> None:
    """A user's step moves backward, three times as fast as commanded, so e - J q̇ = 4 e."""
    arm = robot("panda")
    backward = Servo(arm, dt=0.01, step=lambda lin: -3 * (np.linalg.pinv(lin.J) @ lin.e))
    backward(Q, np.array([1e-3, 0, 0, 0, 0, 0]))
    text = str(backward.explain())
    assert "off by 4 times the task" in text
    assert " against " in text
    assert not re.search(r"-\d[\d.]*%|[1-9]\d\d\.\d%(?<!100\.0%)", text)


def test_the_report_names_a_norm_bound_that_acts() -> None:
    arm = robot("panda")
    servo = Servo(arm, dt=0.01, limits=Limits.for_robot(arm, max_norm=0.1))
    servo(Q, np.full(6, 1e-3))
    assert servo.explain().max_norm is None
    servo(Q, np.full(6, 0.2))
    assert servo.explain().max_norm == 0.1
    assert "norm of all joint speeds is held by its limit, 0.1" in str(servo.explain())
    assert "limits raise lambda2 from 0 to" in servo.explain().reason
