"""In mode "halt", an arm slows down and stops between two given condition numbers.

SUPPLE_MOTIONS sets the number of random motions.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from generated import seeds
from loops import Array, robot
from supple import DLS, Limits, Linearization, PositionTask, Robot, Servo, StepStatus, damping
from supple.errors import InputError

MOTIONS = int(os.environ.get("SUPPLE_MOTIONS", "24"))
# Seeds of motions that pass the second threshold unless the stop is planned ahead.
HARD = (259, 379, 475, 510, 571, 1126, 1702)
DT = 0.01
ACCELERATION = 10.0


def condition(servo: Servo) -> float:
    """Return the condition number of J at the beginning of the last step."""
    sigma = np.linalg.svd(servo._J, compute_uv=False)
    return float(sigma[0] / sigma[-1])


def condition_at(arm: Robot, q: Array, rows: int) -> float:
    return float(np.linalg.cond(arm.jacobian(q)[:rows]))


def a_start(arm: Robot, rng: np.random.Generator, rows: int, most: float) -> Array:
    """Return a configuration inside the limits whose condition number is below `most`."""
    while True:
        q = 0.6 * arm.random(seed=rng)
        inside = (q > arm.lower + 0.1).all() and (q < arm.upper - 0.1).all()
        if inside and condition_at(arm, q, rows) < most:
            return np.asarray(q)


@pytest.mark.parametrize("seed", sorted({*seeds(MOTIONS), *HARD}))
def test_an_arm_slows_down_and_stops_between_the_two_condition_numbers(seed: int) -> None:
    """The speed factor is linear in the condition number, which never exceeds the second value."""
    rng = np.random.default_rng((3, seed))
    arm = robot(("ur5e", "panda", "puma560")[seed % 3])
    rows = (6, 6, 3)[seed % 3]
    slow = (17.0, float(rng.uniform(6, 40)))[seed % 2]
    halt = (30.0, slow * float(rng.uniform(1.1, 4)))[seed % 2]
    a = (ACCELERATION, np.inf, 2.0, ACCELERATION)[seed % 4]
    jerk = 200.0 if seed % 8 == 3 else np.inf
    limits = Limits.for_robot(arm, max_acceleration=a, max_jerk=jerk, mode="halt",
                              slow_condition=slow, halt_condition=halt)  # fmt: skip
    task = PositionTask() if rows == 3 else None
    servo = Servo(arm, task, dt=DT, limits=limits)
    q = a_start(arm, rng, rows, halt)
    begin = condition_at(arm, q, rows)
    twist = rng.normal(size=rows) * 0.2
    before, highest, slowest = np.zeros(arm.dof), 0.0, 0.0
    for k in range(250):
        q = servo(q, twist)
        here = condition(servo)
        highest = max(highest, here)
        assert (np.abs(servo.qd - before) <= a * DT * (1 + 1e-9)).all()
        assert StepStatus.DAMPED not in servo.status
        factor = min(max((halt - here) / (halt - slow), 0.0), 1.0)
        along = float(servo._J @ servo.qd @ twist) / float(twist @ twist)
        if StepStatus.HALTING in servo.status:
            assert along <= max(factor, slowest) + 1e-9
        if not servo._held:  # no limit acts
            assert (StepStatus.HALTING in servo.status) <= (here > slow)
            full = factor if StepStatus.HALTING in servo.status else 1.0
            np.testing.assert_allclose(servo._J @ servo.qd, full * twist, atol=1e-9)
        if k == 0 and here < 0.9 * halt:
            assert servo.qd.any(), (begin, slow, halt)
        # Limits may prevent a step from being slower than the last one.
        before, slowest = servo.qd, along
    assert max(highest, condition_at(arm, q, rows)) <= halt * (1 + 1e-9)


def test_by_default_an_arm_slows_down_from_condition_17_and_stops_at_30() -> None:
    """On the way back, the arm moves at full speed."""
    arm = robot("ur5e")
    limits = Limits.for_robot(arm, max_acceleration=ACCELERATION, mode="halt")
    assert limits.conditions == (17.0, 30.0)
    servo = Servo(arm, dt=DT, limits=limits)
    q, twist = np.radians([0, -70, 100, -120, -40, 0.0]), np.array([0.1, 0, 0, 0, 0, 0])
    speeds = {}
    for _ in range(1500):
        q = servo(q, twist)
        speeds[condition(servo)] = float(np.linalg.norm(servo._J @ servo.qd))
    assert speeds[min(speeds, key=lambda c: abs(c - 16.9))] == pytest.approx(0.1, rel=1e-3)
    assert speeds[min(speeds, key=lambda c: abs(c - 23.5))] == pytest.approx(0.05, rel=0.02)
    assert 29.9 < max(speeds) <= 30
    assert np.abs(servo.qd).max() < 1e-5
    assert StepStatus.HALTING in servo.status
    for _ in range(100):
        q = servo(q, -twist)
    np.testing.assert_allclose(servo._J @ servo.qd, -twist, atol=1e-9)


@pytest.mark.parametrize("start", [19.2, 22.4, 27.2])
def test_an_arm_that_starts_between_the_two_condition_numbers_moves(start: float) -> None:
    arm = robot("ur5e")
    angles = np.linspace(0.05, 0.6, 2000)
    wrists = [np.array([0.0, -1.2, 1.7, -2.0, -angle, 0.0]) for angle in angles]
    q = min(wrists, key=lambda q: abs(condition_at(arm, q, 6) - start))
    servo = Servo(arm, dt=DT, limits=Limits.for_robot(arm, mode="halt"))
    for twist in np.vstack([np.eye(6), -np.eye(6)]):
        servo.reset()
        servo(q, 0.01 * twist)
        assert servo.qd.any()


def test_steps_in_python_halt_like_those_of_the_kernel() -> None:
    """A step that a user writes in Python stops the arm at the same configurations."""
    arm = robot("ur5e")
    limits = Limits.for_robot(arm, mode="halt")

    def own(linearization: Linearization) -> Array:
        return np.linalg.pinv(linearization.J) @ linearization.e

    servos = [
        Servo(arm, dt=DT, limits=limits, step=step) for step in (own, DLS(damping.Constant(0)))
    ]
    q = [np.radians([0, -70, 100, -120, -40, 0.0])] * 2
    for _ in range(400):
        q = [servo(at, [0.1, 0, 0, 0, 0, 0]) for servo, at in zip(servos, q, strict=True)]
    assert StepStatus.HALTING in servos[0].status
    np.testing.assert_allclose(q[0], q[1], atol=1e-9)
    assert 17 < condition(servos[0]) <= 30


@pytest.mark.parametrize(("slow", "halt"), [(0.5, 30.0), (17.0, 17.0), (np.nan, 30.0), (17.0, "x")])
def test_bad_condition_numbers_are_refused(slow: float, halt: float) -> None:
    with pytest.raises(InputError, match="condition"):
        Limits.for_robot(robot("ur5e"), mode="halt", slow_condition=slow, halt_condition=halt)
