"""Parameters of damping rules that `for_robot` derives from a robot."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

import supple
from supple import Linearization
from supple.damping import (
    RULES,
    ConditionBound,
    Constant,
    Curvature,
    ErrorDamped,
    ErrorNorm,
    Manipulability,
    MayorgaCondition,
    MayorgaRank,
    Optimal,
    Region,
    SpeedBound,
)
from supple.damping.rule import KernelRule
from supple.damping.scale import Scale
from supple.describe import builtin_names
from supple.describe.dh import dh

POSITION = ("x", "y", "z")
ONLY_POSITIONS = ("planar2", "planar3", "y", "double_y")
TABLE = [
    (0.0, -math.pi / 2, 0.5, 0.0),
    (0.4, 0.0, 0.1, 0.0),
    (0.3, math.pi / 2, 0.0, 0.0),
    (0.1, 0.0, 0.2, 0.0),
]


def rows_of(name: str) -> tuple[tuple[str, ...] | None, ...]:
    """Return the rows that a built-in robot can control."""
    return (POSITION,) if name in ONLY_POSITIONS else (None, POSITION, ("rx", "ry", "rz"))


@cache
def one(name: str) -> supple.Robot:
    return supple.load(name)


@cache
def another(name: str) -> supple.Robot:
    """Return an equal robot without cached results."""
    return supple.load(name)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", builtin_names())
def test_every_rule_has_parameters_for_every_built_in_robot(
    name: str, rule: type[KernelRule]
) -> None:
    robot = one(name)
    for rows in rows_of(name):
        made = rule.for_robot(robot, rows=rows)
        assert type(made) is rule
        numbers = made.kernel.parameters
        assert all(0 < number < math.inf for number in numbers)
        assert made == rule.for_robot(robot, rows=rows)
        assert made == rule.for_robot(another(name), rows=rows)
        # The robots are about a meter large, so smaller parameters would be rounding errors.
        assert all(1e-9 < number < 1e9 for number in numbers), numbers


@pytest.mark.parametrize("name", builtin_names())
def test_rules_for_a_robot_damp_a_tenth_of_its_configurations(name: str) -> None:
    robot = supple.load(name)
    # For a planar arm, only rows in its plane are used: the other rows are always zero.
    rows = ("x", "y") if name.startswith("planar") else rows_of(name)[0]
    J = robot.jacobian(robot.random(400, seed=1))
    J = J.reshape(400, -1, J.shape[-1])
    if rows is not None:
        names = ["x", "y", "z", "rx", "ry", "rz"] * (J.shape[1] // 6)
        J = J[:, [i for i, row in enumerate(names) if row in rows]]
    lins = [Linearization(each, np.ones(len(each))) for each in J]
    for rule in (Manipulability, SpeedBound, Region):
        made = rule.for_robot(robot, rows=rows)
        share = np.mean([made(lin) > 0 for lin in lins])
        assert 0.04 <= share <= 0.17, rule  # 0.1 ± four standard deviations of 400 samples


@pytest.mark.parametrize("s", [0.01, 3.0, 1000.0])
def test_parameters_of_rules_scale_with_the_size_of_the_robot(s: float) -> None:
    # Singular values of position rows are lengths.
    robot, scaled = (
        supple.Robot(dh([(f * a, alpha, f * d, theta) for a, alpha, d, theta in TABLE]))
        for f in (1.0, s)
    )
    for rule, powers in {
        Constant: (2,),
        Manipulability: (2, 3),
        ErrorDamped: (0,),
        ErrorNorm: (1,),
        SpeedBound: (-1,),
        ConditionBound: (0,),
        Region: (2, 1),
        MayorgaCondition: (2, 0, 2),
        MayorgaRank: (2, 2),
    }.items():
        one = np.array(rule.for_robot(robot, rows=POSITION).kernel.parameters)
        other = np.array(rule.for_robot(scaled, rows=POSITION).kernel.parameters)
        assert other == pytest.approx(one * s ** np.array(powers), rel=1e-9), rule
    assert Scale.for_robot(scaled, rows=POSITION).reach == pytest.approx(
        s * Scale.for_robot(robot, rows=POSITION).reach, rel=1e-12
    )


@pytest.mark.parametrize("rule", RULES)
def test_rules_made_with_dt_damp_velocities_like_the_displacements_of_a_step(
    rule: type[KernelRule],
) -> None:
    """A rule made with dt gives velocities e the λ² that a rule made without dt gives to dt e."""
    robot, dt = supple.load("panda"), 0.01
    lin = supple.PoseTask().linearize(robot, robot.random(seed=5), velocity=np.full(6, 0.3))
    at_speed = rule.for_robot(robot, dt=dt)
    if rule in (ErrorDamped, ErrorNorm, Curvature):
        moved = Linearization(lin.J, dt * lin.e)
        assert at_speed(lin) == pytest.approx(rule.for_robot(robot)(moved), rel=1e-12)
        assert at_speed != rule.for_robot(robot)
    else:
        assert at_speed == rule.for_robot(robot)


def test_parameters_of_rules_depend_on_the_given_frames_and_rows() -> None:
    robot = supple.load("panda")
    assert Scale.for_robot(robot) != Scale.for_robot(robot, "panda_link4")
    assert Scale.for_robot(robot) == Scale.for_robot(robot, "panda_hand_tcp")
    assert Scale.for_robot(robot) != Scale.for_robot(robot, rows=POSITION)
    assert Scale.for_robot(robot, ["panda_link4", "panda_hand_tcp"], POSITION).sigma > 0


def test_the_default_bound_of_optimal_damping_is_the_smallest_speed_limit_or_1() -> None:
    assert Optimal.for_robot(supple.load("panda")).max_speed == 2.175
    assert Optimal.for_robot(supple.load("planar2")).max_speed == 1.0  # no speed limits
