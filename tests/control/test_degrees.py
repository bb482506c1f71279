"""Every function that takes joint coordinates refuses values that are probably in degrees."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import generated
from sizes import nightly
from solving import solve
from supple import Limits, Robot, Servo, load, plan_path, simulate
from supple.cli.group import cli
from supple.errors import InputError

Array = np.ndarray
ROBOTS = int(os.environ.get("SUPPLE_DEGREES_ROBOTS", nightly("30", "10")))
DEGREES = np.array([0.0, -45.0, 0.0, -135.0, 0.0, 90.0, 45.0])


def takers(robot: Robot) -> dict[str, Callable[[Array], Any]]:
    T = robot.fk(robot.random(3, seed=1), robot.tips[0])
    frame = robot.tips[0]
    return {
        "solve": lambda q: solve(robot, T[0], frame=frame, q0=q),
        "a list": lambda q: solve(robot, T[0].tolist(), frame=frame, q0=q.tolist()),
        "a batch": lambda q: solve(robot, T, frame=frame, q0=q),
        "a q0 for each": lambda q: solve(robot, T, frame=frame, q0=np.stack([0 * q, q, q])),
        "all": lambda q: solve(robot, T[0], frame=frame, q0=q, solutions="all"),
        "Servo": lambda q: Servo(robot, frame=frame, dt=0.01)(q, target=T[0]),
        "simulate": lambda q: simulate(robot, q, target=T[0], frame=frame, dt=0.01, duration=0.02),
        "plan_path": lambda q: plan_path(robot, T[:1], frame=frame, q0=q),
    }


@pytest.mark.parametrize("name", takers(load("panda")))
def test_joint_coordinates_in_degrees_are_refused(name: str) -> None:
    with pytest.raises(
        InputError, match=r"must be in radians; given: q0?\[.*'panda_joint2', whose"
    ):
        takers(load("panda"))[name](DEGREES)


def test_degrees_are_rejected_on_the_command_line() -> None:
    given = ",".join(f"{x:g}" for x in DEGREES)
    command = ["solve", "panda", "--position", "0.4", "0", "0.4", "--q0", given]
    result = CliRunner().invoke(cli, command)
    assert result.exit_code != 0
    words = " ".join(result.output.split())
    assert "--q0 must be in radians, but -45 for the joint panda_joint2" in words


def test_a_servo_without_limits_accepts_angles_of_many_turns() -> None:
    robot = load("panda")
    free = Servo(robot, dt=0.01, limits=Limits.none(robot))
    assert np.isfinite(free(DEGREES, target=robot.fk(robot.neutral()))).all()


def test_every_plausible_coordinate_is_accepted() -> None:
    """Angles up to two turns or within the limits, lengths, and angles of unlimited joints."""
    for seed in range(ROBOTS):
        robot = generated.robot(seed)
        inside = generated.configurations(robot, 1, seed)[0]
        bounded = np.isfinite(robot.lower) & np.isfinite(robot.upper) & ~robot.prismatic
        far = np.where(bounded, np.clip(1e3, robot.lower, robot.upper), 1e3)
        for q in (inside, np.where(robot.prismatic, inside, 4 * math.pi), far):
            if np.isfinite(robot.lower).all() or (q <= 4 * math.pi).all():
                solve(robot, robot.fk(inside), q0=q, max_seeds=1)
        limited = np.flatnonzero(~robot.prismatic & (robot.upper < 13) & np.isfinite(robot.upper))
        for j in limited[:2]:
            wrong = inside.copy()
            wrong[j] = 13.0
            with pytest.raises(InputError, match="must be in radians"):
                solve(robot, robot.fk(inside), q0=wrong, max_seeds=1)
