"""Joints that follow others stay within their limits; leaders are limited only as needed."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import supple as sp
from cases import each
from supple.describe import Description, Joint, Mimic
from supple.errors import DescriptionError
from warned import warned

RATES = ("max_speed", "max_acceleration", "max_jerk")


def drawn_followers(rng: np.random.Generator) -> tuple[Description, dict[str, Joint]]:
    """Return a leader with chains of followers; one configuration is within all limits."""
    at = rng.uniform(-1, 1)
    positions, joints = {"j0": at}, []
    for i in range(rng.integers(2, 6)):
        mimic = None
        if i:
            followed = f"j{rng.integers(i)}"
            mimic = Mimic(followed, rng.choice((-1, 1)) * 10 ** rng.uniform(-1, 1), rng.normal())
            at = mimic.multiplier * positions[followed] + mimic.offset
            positions[f"j{i}"] = at
        low, high = at - rng.uniform(0.1, 2, 2) * (1, -1)
        limits = {key: rng.choice((math.inf, rng.uniform(0.1, 9))) for key in RATES}
        if rng.random() < 0.3:
            low = -math.inf
        joint = Joint(f"j{i}", "revolute", f"l{i}", f"l{i + 1}", lower=low, upper=high, mimic=mimic)
        joints.append((joint, limits))
    made = [
        Joint(j.name, j.kind, j.parent, j.child, lower=j.lower, upper=j.upper, mimic=j.mimic, **own)
        for j, own in joints
    ]
    return Description("chain", tuple(made)), {j.name: j for j in made}


@each("seed", range(40))
def test_at_each_limit_of_a_leader_one_joint_is_at_its_limit_and_none_beyond(seed: int) -> None:
    """The oracle computes the position and speed of each follower from those of its leader."""
    described, given = drawn_followers(np.random.default_rng(seed))
    robot = sp.Robot(described)

    def state(q: float, qd: float) -> dict[str, tuple[float, float]]:
        known = {}
        for name, joint in given.items():  # leaders come before their followers
            if joint.mimic is None:
                known[name] = q, qd
            else:
                x, v = known[joint.mimic.joint]
                known[name] = (
                    joint.mimic.multiplier * x + joint.mimic.offset,
                    joint.mimic.multiplier * v,
                )
        return known

    for end in (robot.lower[0], robot.upper[0]):
        if math.isfinite(end):
            room = [
                min(given[name].upper - x, x - given[name].lower)
                for name, (x, _) in state(end, 0.0).items()
            ]
            assert abs(min(room)) < 1e-12
        else:
            assert all(
                math.isinf(joint.lower) or math.isinf(joint.upper) for joint in given.values()
            )
    for key in RATES:
        most = getattr(robot, key)[0]
        limits = [getattr(joint, key) for joint in given.values()]
        if math.isinf(most):
            assert all(map(math.isinf, limits))
        else:
            used = [abs(v) for _, v in state(0.0, most).values()]
            assert max(u / limit for u, limit in zip(used, limits, strict=True)) == pytest.approx(1)


@each("read", ["urdf", "mjcf"])
def test_a_follower_in_a_file_narrows_its_leader(read: str) -> None:
    urdf = """<robot name="r"><link name="a"/><link name="b"/><link name="c"/>
      <joint name="lead" type="continuous"><parent link="a"/><child link="b"/>
        <limit velocity="3" effort="1"/></joint>
      <joint name="tail" type="revolute"><parent link="b"/><child link="c"/>
        <limit lower="-1" upper="0.5" velocity="1" effort="1" acceleration="8" jerk="10"/>
        <mimic joint="lead" multiplier="-2" offset="0.25"/></joint></robot>"""
    mjcf = """<mujoco><compiler angle="radian"/><worldbody>
      <body name="b"><joint name="lead"/><body name="c"><joint name="tail" range="-1 0.5"/></body>
      </body></worldbody>
      <equality><joint joint1="tail" joint2="lead" polycoef="0.25 -2 0 0 0"/></equality></mujoco>"""
    robot = sp.urdf(urdf) if read == "urdf" else sp.mjcf(mjcf)
    assert (robot.lower[0], robot.upper[0]) == (-0.125, 0.625)
    if read == "urdf":
        rates = robot.max_speed[0], robot.max_acceleration[0], robot.max_jerk[0]
        assert rates == (0.5, 4.0, 5.0)
    assert robot.description.joints[0].kind == "revolute"


def test_limits_given_by_with_limits_replace_those_of_followers() -> None:
    joints = (
        Joint("lead", "prismatic", "a", "b", lower=0, upper=1),
        Joint("tail", "prismatic", "b", "c", lower=0, upper=1, max_speed=2, mimic=Mimic("lead", 4)),
    )
    robot = sp.Robot(Description("r", joints))
    assert (robot.upper[0], robot.max_speed[0]) == (0.25, 0.5)
    assert robot.with_tips("b").upper[0] == 0.25
    assert robot.with_limits(margin=0.05).upper[0] == 0.2
    wider = robot.with_limits(upper=0.75)
    assert (wider.upper[0], wider.max_speed[0]) == (0.75, 0.5)


def test_position_limits_that_leave_no_range_are_ignored_with_a_warning() -> None:
    """In public grippers, a follower of the opposite direction has the range of its leader."""
    joints = (
        Joint("lead", "revolute", "a", "b", lower=0, upper=0.8, max_speed=2),
        Joint("good", "revolute", "b", "c", lower=0, upper=0.7, mimic=Mimic("lead")),
        Joint(
            "bad", "revolute", "b", "d", lower=0, upper=0.8, max_speed=1, mimic=Mimic("lead", -1)
        ),
    )
    with warned("'bad' follows 'lead'"):
        robot = sp.Robot(Description("gripper", joints))
    assert (robot.lower[0], robot.upper[0], robot.max_speed[0]) == (0, 0.7, 1)
    with warnings.catch_warnings():  # variants of the robot must not repeat the warning
        warnings.simplefilter("error")
        assert robot.with_base(np.eye(4)).with_tips("d").upper[0] == 0.7


def test_a_follower_that_does_not_move_narrows_nothing() -> None:
    still = Joint("b", "revolute", "1", "2", lower=3, upper=4, max_speed=1, mimic=Mimic("a", 0.0))
    robot = sp.Robot(Description("r", (Joint("a", "revolute", "0", "1", upper=2), still)))
    assert (robot.lower[0], robot.upper[0], robot.max_speed[0]) == (-math.inf, 2, math.inf)


def test_the_error_about_a_cycle_of_mimics_names_its_joints() -> None:
    joints = [
        Joint(name, "revolute", f"{i}", f"{i + 1}", mimic=Mimic(followed))
        for i, (name, followed) in enumerate(zip("abc", "bca", strict=True))
    ]
    with pytest.raises(DescriptionError, match="cycle: 'a', 'b', 'c'"):
        Description("r", (*joints, Joint("free", "revolute", "3", "4")))
