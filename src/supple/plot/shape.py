"""The skeleton of a robot for drawing: segments between joints, joint axes and end effectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Matrix = NDArray[np.float64]
Integers = NDArray[np.intp]

_SAMPLES = 256  # number of configurations from which the extent of a robot is estimated
_PLANAR_HEIGHT = 1e-9  # height, relative to the size, below which a robot counts as planar


@dataclass(frozen=True, eq=False)
class Points:
    """Points fixed to links: indices of links (k,) and positions in their frames (k, 3) [m]."""

    link: Integers
    position: Matrix

    @staticmethod
    def of(points: list[tuple[int, Matrix]]) -> Points:
        """Return points from a list of links and positions."""
        return Points(
            np.array([link for link, _ in points], dtype=np.intp),
            np.array([position for _, position in points]).reshape(-1, 3),
        )

    def at(self, poses: Matrix) -> Matrix:
        """Return the positions (..., k, 3) for poses of all links (..., links, 4, 4)."""
        T = poses[..., self.link, :, :]
        return np.asarray((T[..., :3, :3] @ self.position[:, :, None])[..., 0] + T[..., :3, 3])


@dataclass(frozen=True, eq=False)
class Shape:
    """The skeleton of a robot.

    Attributes:
        links: Names of the links that have a part of the skeleton, and of the end effectors.
        ends: Both ends of each of the s segments.
        depth: Number of moving joints before each segment (s,).
        joints: Positions of the j moving joints, each in the frame of a link.
        axes: Directions of the joint axes (j, 3), in the frames of the links of `joints`.
        prismatic: Mask of the prismatic joints (j,).
        tips: Indices of the end effectors in `links`.
        center: Center of the workspace (3,) [m].
        size: Half the side of a cube around the workspace [m].
        flat: Whether all links move in the plane z = constant.
    """

    links: tuple[str, ...]
    ends: tuple[Points, Points]
    depth: Integers
    joints: Points
    axes: Matrix
    prismatic: NDArray[np.bool_]
    tips: Integers
    center: Matrix
    size: float
    flat: bool

    def poses(self, robot: Any, q: ArrayLike) -> Matrix:
        """Return the poses of all `links` (..., links, 4, 4) at configurations (..., n)."""
        return np.asarray(robot.fk(q, self.links), dtype=np.float64)

    def segments(self, poses: Matrix) -> Matrix:
        """Return both ends of each segment (..., s, 2, 3) [m]."""
        return np.stack([end.at(poses) for end in self.ends], axis=-2)

    def tip_positions(self, poses: Matrix) -> Matrix:
        """Return the positions of the end effectors (..., tips, 3) [m]."""
        return np.asarray(poses[..., self.tips, :, :][..., :3, 3])

    def joint_axes(self, poses: Matrix) -> Matrix:
        """Return the directions of the joints' axes in the world (..., j, 3)."""
        R = poses[..., self.joints.link, :3, :3]
        return np.asarray((R @ self.axes[:, :, None])[..., 0])


def shape_of(robot: Any) -> Shape:
    """Return the skeleton of a robot, without branches that have no moving joint and no tip."""
    described = robot.description
    wanted = _wanted(described, robot.tips)
    links = [link for link in described.links if link in wanted]
    links += [tip for tip in robot.tips if tip not in links]
    index = {name: i for i, name in enumerate(links)}
    enters: dict[str, Matrix] = {described.root: np.zeros(3)}
    depth = {described.root: 0}
    starts: list[tuple[int, Matrix]] = []
    stops: list[tuple[int, Matrix]] = []
    depths: list[int] = []
    joints: list[tuple[int, Matrix]] = []
    axes, prismatic = [], []

    def segment(a: tuple[int, Matrix], b: tuple[int, Matrix], deep: int) -> None:
        same = a[0] == b[0]
        if not same or np.linalg.norm(a[1] - b[1]) > 0:
            starts.append(a)
            stops.append(b)
            depths.append(deep)

    for joint in described.joints:
        if joint.child not in wanted:
            continue
        back = np.linalg.inv(joint.child_placement)  # pose of the moved joint frame in the child
        parent, child = index[joint.parent], index[joint.child]
        leaves, enter = joint.origin[:3, 3], back[:3, 3]
        depth[joint.child] = depth[joint.parent] + joint.moves
        enters[joint.child] = enter
        segment((parent, enters[joint.parent]), (parent, leaves), depth[joint.parent])
        if joint.moves:
            joints.append((child, enter))
            axes.append(back[:3, :3] @ joint.axis)
            prismatic.append(joint.kind == "prismatic")
            if joint.kind in ("prismatic", "screw"):
                segment((parent, leaves), (child, enter), depth[joint.parent])
    frames = {frame.name: frame for frame in described.frames}
    for tip in robot.tips:
        link, at = (frames[tip].link, frames[tip].placement) if tip in frames else (tip, np.eye(4))
        segment((index[link], enters[link]), (index[link], at[:3, 3]), depth[link])
    shape = Shape(
        links=tuple(links),
        ends=(Points.of(starts), Points.of(stops)),
        depth=np.array(depths, dtype=np.intp),
        joints=Points.of(joints),
        axes=np.array(axes).reshape(-1, 3),
        prismatic=np.array(prismatic, dtype=bool),
        tips=np.array([index[tip] for tip in robot.tips], dtype=np.intp),
        center=np.zeros(3),
        size=1.0,
        flat=False,
    )
    return _measured(shape, robot)


def _wanted(described: Any, tips: tuple[str, ...]) -> set[str]:
    """Return the links between the root and each end effector or moving joint."""
    above = {joint.child: joint.parent for joint in described.joints}
    frames = {frame.name: frame.link for frame in described.frames}
    wanted = {described.root}
    for link in [frames.get(tip, tip) for tip in tips] + [
        joint.child for joint in described.joints if joint.moves
    ]:
        while link not in wanted:
            wanted.add(link)
            link = above[link]
    return wanted


def _measured(shape: Shape, robot: Any) -> Shape:
    """Return the shape with its center, size and flatness, from random configurations."""
    poses = shape.poses(robot, robot.random(_SAMPLES, seed=0))
    points = np.concatenate(
        [shape.segments(poses).reshape(-1, 3), shape.joints.at(poses).reshape(-1, 3)]
    )
    points = np.concatenate([points, robot.base[None, :3, 3]])
    low, high = points.min(axis=0), points.max(axis=0)
    size = 0.5 * float((high - low).max()) or 1.0
    flat = bool(np.ptp(points[:, 2]) <= _PLANAR_HEIGHT * size)
    made = dict(vars(shape), center=0.5 * (low + high), size=size, flat=flat)
    return Shape(**made)
