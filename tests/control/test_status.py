"""Statuses of steps tell which limit acts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from loops import robot
from supple import Limits, PostureTask, Servo, StepStatus, track
from supple.errors import InputError

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
        # Of several the largest: the position of one joint, the speed of the other.
        ({"max_speed": [0.5, 9.0]}, [0.0, 0.99], [2.0, 9.0], StepStatus.POSITION_LIMIT),
        ({"max_norm": 0.2}, [0.0, 0.0], [1.0, 0.0], StepStatus.DAMPED),
    ],
)
def test_a_step_names_the_limit_that_acts(
    limits: Any, q: list[float], velocity: list[float], expected: StepStatus
) -> None:
    """In a Servo and in a track; J is the identity."""
    arm, bounds = robot("planar2"), Limits(**(FREE | limits))
    servo = Servo(arm, PostureTask(), dt=0.01, limits=bounds)
    servo(q, np.array(velocity))
    assert servo.status is expected
    assert str(servo.status) == f"{servo.status}" == expected.name.lower()
    named = {held.limit for held in servo.explain().held}
    assert (f"{expected}".removesuffix("_limit") in named) == ("limit" in str(expected))
    for times in ([0.0, 0.01, 0.02], [0.0, 0.01, 0.03]):
        result = track(arm, q, velocity=velocity, tasks=PostureTask(), times=times, limits=bounds)
        assert result.status.dtype == np.int8
        assert StepStatus(int(result.status[0])) is expected


def test_every_status_has_a_sentence() -> None:
    assert len({status.sentence for status in StepStatus}) == len(StepStatus)


@pytest.mark.parametrize(("dt", "hint"), [(250, "0.004"), (8.0, "8 ms are 0.008")])
def test_a_step_in_other_units_is_refused(dt: float, hint: str) -> None:
    with pytest.raises(InputError, match=f"dt is in seconds.*{hint}"):
        Servo(robot("planar2"), dt=dt)
    with pytest.raises(InputError, match="in seconds"):
        track(robot("planar2"), [0.0, 0.0], velocity=np.zeros(6), dt=dt, duration=1000.0)


def test_the_robot_comes_first() -> None:
    arm = robot("planar2")
    with pytest.raises(InputError, match=r"the robot is the first argument: Servo\(robot"):
        Servo(PostureTask(), arm, dt=0.01)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"the robot is the first argument: track\(robot"):
        track([0.0, 0.0], arm, velocity=np.zeros(6), dt=0.01)  # type: ignore[arg-type]
