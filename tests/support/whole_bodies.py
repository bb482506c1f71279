"""Random robots that float, with tasks and targets for their whole body."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import lru_cache

import numpy as np

import supple as sp
from supple.describe import Mimic
from supple.kinematics.configuration import to_kernel

Array = np.ndarray
BASES = ("floating", "planar", "ball")


def numbers(values: object) -> str:
    return " ".join(f"{x:.17g}" for x in np.ravel(values))


def limb(rng: np.random.Generator, name: str, joints: int) -> str:
    """Return an MJCF body with hinges in a row, each with a mass."""
    text = ""
    for k in reversed(range(joints)):
        place = f'pos="{numbers(0.3 * rng.normal(size=3))}" quat="{numbers(rng.normal(size=4))}"'
        mass = f'<inertial pos="{numbers(0.1 * rng.normal(size=3))}" mass="{rng.uniform(0.1, 2)}" '
        hinge = f'<joint name="{name}j{k}" axis="{numbers(rng.normal(size=3))}" range="-170 170"/>'
        text = f'<body name="{name}{k}" {place}>{hinge}{mass} diaginertia="1 1 1"/>{text}</body>'
    return text


def with_followers(robot: sp.Robot, count: int, rng: np.random.Generator) -> sp.Robot:
    """Return the robot with `count` hinges changed to mimic other hinges of any limb."""
    joints = {joint.name: joint for joint in robot.description.joints}
    hinges = rng.permutation([name for name, one in joints.items() if one.kind == "revolute"])
    for follower, leader in zip(hinges[:count], rng.choice(hinges[count:], count), strict=True):
        ratio = float(rng.choice([-1, 1]) * rng.uniform(0.3, 1.5))
        joints[follower] = replace(joints[follower], mimic=Mimic(str(leader), ratio, 0.1))
    return sp.Robot(replace(robot.description, joints=tuple(joints.values())))


def drawn(
    seed: int, base: str = "floating", followers: int = 0
) -> tuple[sp.Robot, list[sp.tasks.Task], np.random.Generator]:
    """Return a random robot on a moving base, and tasks with more rows than there are joints."""
    robot, tasks, rng = _drawn(seed, base, followers)
    return robot, list(tasks), deepcopy(rng)


@lru_cache(maxsize=256)
def _drawn(
    seed: int, base: str, followers: int
) -> tuple[sp.Robot, tuple[sp.tasks.Task, ...], np.random.Generator]:
    rng = np.random.default_rng([seed, 71])
    limbs = int(rng.integers(2, 5))
    bodies = "".join(limb(rng, f"limb{k}_", int(rng.integers(5, 8))) for k in range(limbs))
    joint = {"floating": '<freejoint name="base"/>', "ball": '<joint name="base" type="ball"/>'}
    root = f'{joint.get(base, "")}<inertial pos="0 0 0" mass="3" diaginertia="1 1 1"/>{bodies}'
    robot = sp.mjcf(f"<mujoco><worldbody><body name='hip'>{root}</body></worldbody></mujoco>")
    if followers:
        robot = with_followers(robot, followers, rng)
    if base == "planar":
        robot = robot.with_base("planar")
    tips = robot.tips[: int(rng.integers(1, 3))]
    tasks = [sp.PoseTask(tip, weight=float(10 ** rng.uniform(0, 2))) for tip in tips]
    center = sp.tasks.CenterOfMassTask(("x", "y"), weight=float(rng.uniform(0.5, 5)))
    # A posture has a row for each hinge, so with a pose there are more rows than joints.
    return robot, (*tasks, center, sp.PostureTask(weight=float(10 ** rng.uniform(-3, 0)))), rng


def first_hinge(robot: sp.Robot) -> int:
    """Return the number of velocities of the base, which is the index of the first hinge."""
    return int(np.argmax(np.isfinite(robot.lower)))


def targets_near(robot: sp.Robot, q: Array, size: float, rng: np.random.Generator) -> list[Array]:
    """Return targets a step away from q: poses of all tips, the center of mass, and a posture."""
    there = robot.integrate(q, size * rng.normal(size=robot.nv))
    posture = to_kernel(robot, there)[list(sp.PostureTask().on(robot).picked)]
    return [*robot.fk(there, robot.tips), robot.center_of_mass(there), posture]


def command(tasks: list[sp.tasks.Task], near: list[Array]) -> list[Array]:
    return [*near[: len(tasks) - 2], *near[-2:]]


def drawn_batch(
    seed: int, size: float, count: int = 5, base: str = "floating", followers: int = 0
) -> tuple[sp.Robot, list[sp.tasks.Task], Array, list[Array], np.random.Generator]:
    """Return a random robot, its tasks, configurations (count, nq), and targets for each of them.

    Some joints are at the ends of their ranges.
    """
    robot, tasks, rng = drawn(seed, base, followers)
    q = robot.random(count, seed=rng)
    ends = (robot.upper if seed % 2 else robot.lower)[first_hinge(robot) :]
    places = slice(robot.nq - len(ends), None)
    q[:, places] = np.where(rng.random(len(ends)) < 0.2, ends, q[:, places])
    each = [command(tasks, targets_near(robot, row, size, rng)) for row in q]
    return robot, tasks, q, [np.array(one) for one in zip(*each, strict=True)], rng


def slow_limits(robot: sp.Robot, rng: np.random.Generator) -> sp.Limits:
    """Return the robot's limits with speeds that many steps exceed."""
    hinges = np.arange(robot.nv) >= first_hinge(robot)
    speeds = np.where(hinges, 0.5 * 10 ** rng.uniform(0, 2), np.inf)
    return sp.Limits.for_robot(robot, max_speed=speeds)
