"""The status of a step names each limit that acts."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest

from loops import robot
from supple import DLS, Limits, PostureTask, Servo, StepStatus, simulate
from supple.damping import Constant
from supple.errors import InputError
from supple.motion.status_array import StatusArray

FREE = {"lower": [-1.0, -1.0], "upper": [1.0, 1.0]} | dict.fromkeys(
    ("max_speed", "max_acceleration"), (math.inf, math.inf)
)


@pytest.mark.parametrize(
    ("limits", "q", "velocity", "expected"),
    [
        ({}, [0.0, 0.0], [0.1, 0.1], StepStatus.FOLLOWING),
        ({}, [0.99, 0.0], [9.0, 0.0], StepStatus.POSITION_LIMIT),
        ({}, [1.2, 0.0], [0.0, 0.0], StepStatus.POSITION_LIMIT),
        ({"max_speed": [0.5, 9.0]}, [0.0, 0.0], [-2.0, 0.0], StepStatus.SPEED_LIMIT),
        ({"max_acceleration": [3.0, 3.0]}, [0.0, 0.0], [2.0, 0.0], StepStatus.ACCELERATION_LIMIT),
        (
            {"max_speed": [0.5, 9.0]},
            [0.0, 0.99],
            [2.0, 9.0],
            StepStatus.POSITION_LIMIT | StepStatus.SPEED_LIMIT,
        ),
        ({"max_norm": 0.2}, [0.0, 0.0], [1.0, 0.0], StepStatus.NORM_LIMIT),
        (
            {"max_speed": [0.1, 9.0], "max_norm": 0.2},
            [0.0, 0.0],
            [1.0, 1.0],
            StepStatus.SPEED_LIMIT | StepStatus.NORM_LIMIT,
        ),
    ],
)
def test_the_status_names_every_limit_that_acts(
    limits: Any, q: list[float], velocity: list[float], expected: StepStatus
) -> None:
    """A Servo and `simulate` report the same status. J is the identity here."""
    arm, bounds = robot("planar2"), Limits(**(FREE | limits))
    servo = Servo(arm, PostureTask(), dt=0.01, limits=bounds)
    servo(q, np.array(velocity))
    assert servo.status == expected
    report = servo.explain()
    named = {f"{held.limit}_limit" for held in report.held}
    if report.max_norm is not None:
        named.add("norm_limit")
    assert named == {str(cause) for cause in expected}
    for times in ([0.0, 0.01, 0.02], [0.0, 0.01, 0.03]):
        result = simulate(
            arm, q, velocity=velocity, tasks=PostureTask(), times=times, limits=bounds
        )
        assert result.status.dtype == np.int32
        assert result.status[0] == expected


def test_the_status_distinguishes_damping_from_a_bound_on_the_norm() -> None:
    """DAMPED refers to the damping rule; a bound on the norm that raises λ² is NORM_LIMIT."""
    arm = robot("planar2")
    free = Limits(**FREE)  # type: ignore[arg-type]
    tight = Limits(**(FREE | {"max_norm": 0.2, "max_speed": [0.1, 9.0]}))  # type: ignore[arg-type]
    damped, norm, speed = StepStatus.DAMPED, StepStatus.NORM_LIMIT, StepStatus.SPEED_LIMIT
    for lambda2, limits, expected in (
        (0.0, free, StepStatus.FOLLOWING),
        (0.01, free, damped),
        (0.0, tight, norm | speed),
        (0.01, tight, damped | norm | speed),
    ):
        step = DLS(Constant(lambda2))
        servo = Servo(arm, PostureTask(), dt=0.01, step=step, limits=limits)
        servo([0.0, 0.0], [1.0, 1.0])
        assert servo.status == expected


def test_the_text_of_a_status_names_all_its_causes() -> None:
    both = StepStatus.DAMPED | StepStatus.SPEED_LIMIT
    assert str(both) == f"{both}" == "damped, speed_limit"
    assert f"{both:>30}" == f"{'damped, speed_limit':>30}"
    assert list(both) == [StepStatus.DAMPED, StepStatus.SPEED_LIMIT]
    assert StepStatus.DAMPED.sentence in both.sentence
    assert StepStatus.SPEED_LIMIT.sentence in both.sentence
    assert not StepStatus.FOLLOWING
    each = list(StepStatus.__members__.values())
    assert [str(status) for status in each] == [name.lower() for name in StepStatus.__members__]
    assert len({status.sentence for status in each}) == len(each)


def test_statuses_of_a_motion_are_an_array_of_statuses() -> None:
    values = np.array([0, 1, 9, 1, 8], dtype=np.int32)
    statuses = StatusArray.of(StepStatus, values)
    assert list(statuses) == [StepStatus(int(value)) for value in values]
    assert statuses[2] is not None
    assert statuses[2] == StepStatus.DAMPED | StepStatus.SPEED_LIMIT
    assert [statuses.count(s) for s in (StepStatus.FOLLOWING, StepStatus.DAMPED)] == [1, 3]
    assert statuses[1:].count(StepStatus.SPEED_LIMIT) == 2
    assert type(statuses == 1) is type(statuses & 1) is np.ndarray
    assert repr(statuses) == (
        "<StepStatus (5,): 2 damped; 1 following; 1 speed_limit; 1 damped, speed_limit>"
    )
    for copied in (copy.copy(statuses), pickle.loads(pickle.dumps(statuses)), statuses.reshape(5)):
        assert copied[2] == statuses[2]


@pytest.mark.parametrize(("dt", "hint"), [(250, "0.004"), (8.0, "For 8 ms use 0.008")])
def test_a_time_step_that_is_not_in_seconds_is_refused(dt: float, hint: str) -> None:
    with pytest.raises(InputError, match=f"dt is in seconds.*{hint}"):
        Servo(robot("planar2"), dt=dt)
    with pytest.raises(InputError, match="in seconds"):
        simulate(robot("planar2"), [0.0, 0.0], velocity=np.zeros(6), dt=dt, duration=1000.0)


def test_servo_and_simulate_refuse_a_first_argument_that_is_not_a_robot() -> None:
    arm = robot("planar2")
    with pytest.raises(InputError, match=r"the robot is the first argument: Servo\(robot"):
        Servo(PostureTask(), arm, dt=0.01)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"the robot is the first argument: simulate\(robot"):
        simulate([0.0, 0.0], arm, velocity=np.zeros(6), dt=0.01)  # type: ignore[arg-type]
