"""The skeleton of a robot is rigid and connected, and moves about its joint axes."""

from __future__ import annotations

import numpy as np

import supple as sp
from cases import each
from supple.describe import builtin_names
from supple.plot.shape import shape_of

ROBOTS = builtin_names()


@each("name", ROBOTS)
def test_segments_connect_the_base_to_every_tip_and_joint(name: str) -> None:
    robot = sp.load(name)
    shape = shape_of(robot)
    for q in robot.random(3, seed=0):
        poses = shape.poses(robot, q)
        ends = shape.segments(poses)
        reached = np.array([robot.base[:3, 3]])
        for _ in range(len(ends)):
            touches = np.array([[near(reached, p) for p in each] for each in ends])
            reached = np.concatenate([reached, ends[touches.any(axis=1)].reshape(-1, 3)])
        wanted = [*poses[shape.tips, :3, 3], *shape.joints.at(poses)]
        assert all(near(reached, point) for point in wanted)
        np.testing.assert_allclose(
            poses[shape.tips], np.reshape(robot.fk(q), (-1, 4, 4)), atol=1e-14
        )


def near(points: np.ndarray, point: np.ndarray) -> bool:
    return bool(np.linalg.norm(points - point, axis=1).min() < 1e-9)


@each("name", ROBOTS)
def test_segments_keep_their_lengths_unless_a_joint_slides(name: str) -> None:
    robot = sp.load(name)
    shape = shape_of(robot)
    ends = shape.segments(shape.poses(robot, robot.random(20, seed=0)))
    spread = np.ptp(np.linalg.norm(np.diff(ends, axis=-2)[..., 0, :], axis=-1), axis=0)
    same_link = shape.ends[0].link == shape.ends[1].link
    assert (spread[same_link] < 1e-12).all()
    assert (~same_link).sum() == shape.prismatic.sum()


@each("name", ROBOTS)
def test_a_joint_moves_its_body_about_or_along_its_axis(name: str) -> None:
    """For the child's point at the joint, the joint's column of J is along the joint's axis."""
    robot = sp.load(name)
    shape = shape_of(robot)
    q = robot.random(seed=3)
    poses = shape.poses(robot, q)
    moving = [joint for joint in robot.description.joints if joint.moves]
    places, axes = shape.joints.at(poses), shape.joint_axes(poses)
    for k, joint in enumerate(moving):
        if joint.mimic is not None:
            continue
        J = robot.jacobian(q, joint.child)[:, robot.joint_names.index(joint.name)]
        arm = places[k] - robot.fk(q, joint.child)[:3, 3]
        at_place = J[:3] + np.cross(J[3:], arm)
        if shape.prismatic[k]:
            np.testing.assert_allclose(at_place, axes[k], atol=1e-12)
        else:
            np.testing.assert_allclose(at_place, 0, atol=1e-12)
            np.testing.assert_allclose(J[3:], axes[k], atol=1e-12)


@each("name", ROBOTS)
def test_the_view_of_a_robot_contains_most_of_its_workspace(name: str) -> None:
    robot = sp.load(name)
    shape = shape_of(robot)
    tips = shape.tip_positions(shape.poses(robot, robot.random(200, seed=9)))
    inside = (np.abs(tips - shape.center) <= 1.15 * shape.size).all(axis=-1)
    assert inside.mean() > 0.95
    assert shape.flat == name.startswith("planar")


def test_links_that_lead_to_no_joint_or_tip_are_left_out() -> None:
    text = """<robot name="r"><link name="base"/><link name="a"/><link name="camera"/>
      <link name="tool"/>
      <joint name="j" type="revolute"><parent link="base"/><child link="a"/></joint>
      <joint name="c" type="fixed"><origin xyz="0 0 9"/><parent link="a"/><child link="camera"/>
      </joint>
      <joint name="t" type="fixed"><origin xyz="1 0 0"/><parent link="a"/><child link="tool"/>
      </joint></robot>"""
    shape = shape_of(sp.urdf(text, tips="tool"))
    assert shape.links == ("base", "a", "tool")
