"""The geometry of an arm: its joint axes, and pairs of axes that are parallel or intersect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from supple.kinematics.chain import WORLD, FixedFrame, Matrix, MovingJoint
from supple.kinematics.rotation import cross

if TYPE_CHECKING:
    from supple.kinematics.robot import Robot

Relation = Literal["parallel", "intersecting", "coincident", "skew"]
Form = Literal["spherical", "parallel"]

# Largest distance at which axes count as intersecting, relative to the length of the arm. Axes in
# public files of real robots are misaligned by up to 0.4 mm.
DISTANCE_TOLERANCE = 1e-3
# Largest angle at which axes count as parallel [rad]. Files round π/2 to 1.57 and π to 3.14.
ANGLE_TOLERANCE = 2e-3
# Smallest sine of the angle between neighboring axes of a wrist that counts as spherical although
# its axes are misaligned: the smaller this sine, the more a misalignment changes the joint angles.
MIN_SINE = 0.2
EXACT_TOLERANCE = 1e-9  # largest relative distance, and angle [rad], that is a rounding error


@dataclass(frozen=True, eq=False, repr=False)
class Structure:
    """The joint axes of an arm and their relations; `str()` describes them in words.

    If three consecutive axes of six revolute joints intersect in one point or are parallel, the
    solutions of a pose have a closed form: they follow from polynomials of degree at most 4 (Pieper
    1968). Axes that are misaligned by less than 0.1 % of the arm's length and 2 mrad count as
    aligned, except almost parallel axes of a wrist; `nominal_axes` and `nominal_points` are the
    nearest lines with exact relations.

    Attributes:
        joints: Names of the joints between the world and the end effector, from the base on.
        axes: Directions (k, 3) of the joint axes at q = 0, unit vectors in the world.
        points: A point on each axis (k, 3) at q = 0 in the world [m]: the origin of the joint.
        relations: Relation of each axis to the next (k - 1): "parallel", "intersecting",
            "coincident" or "skew".
        form: "spherical" if the closed form uses three intersecting axes, "parallel" if it uses
            three parallel axes, None if there is no closed form.
        first: Index of the first of these three joints; -1 without a closed form.
        reason: The reason why there is no closed form; empty if there is one.
        six_revolute: Whether the joints are six independent revolute joints.
        nominal_axes: Directions (k, 3) of the nominal axes, unit vectors in the world.
        nominal_points: A point on each nominal axis (k, 3) in the world [m].
        misalignment: Largest distance of a nominal point from the axis in the file [m].
        tilt: Largest angle between a nominal axis and the axis in the file [rad].
        length: Sum of the distances between successive joint origins, and from the last one to the
            frame [m].
    """

    joints: tuple[str, ...]
    axes: Matrix
    points: Matrix
    relations: tuple[Relation, ...]
    form: Form | None
    first: int
    reason: str
    six_revolute: bool
    nominal_axes: Matrix
    nominal_points: Matrix
    misalignment: float
    tilt: float
    length: float

    @property
    def exact(self) -> bool:
        """Whether the axes in the file have the `relations` exactly, up to rounding."""
        return self.misalignment <= EXACT_TOLERANCE * self.length and self.tilt <= EXACT_TOLERANCE

    def __str__(self) -> str:
        words = [f"{self.joints[0]}"] if self.joints else []
        for relation, name in zip(self.relations, self.joints[1:], strict=True):
            words.append(f"{_SIGNS[relation]} {name}")
        lines = [" ".join(words)]
        if self.form is None:
            lines.append(f"no closed form: {self.reason}")
        else:
            three = ", ".join(self.joints[self.first : self.first + 3])
            what = "intersect in a point" if self.form == "spherical" else "are parallel"
            lines.append(f"closed form: {three} {what}")
        if not self.exact:
            lines.append(
                f"misaligned by up to {1e3 * self.misalignment:.2g} mm and "
                f"{1e3 * self.tilt:.2g} mrad"
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Structure of {len(self.joints)} joints, closed form: {self.form or 'none'}>"


_SIGNS = {"parallel": "∥", "intersecting": "×", "coincident": "≡", "skew": "–"}


def structure_of(robot: Robot, frame: str) -> Structure:
    """Return the structure of the joints that move a frame."""
    chain = _moving_joints(robot._tree.joints, robot._tree.frames[frame])
    return _structure(robot, chain, robot._tree.frames[frame].placement)[0]


def frozen_structure(robot: Robot, frame: str, name: str, value: float) -> tuple[Structure, Matrix]:
    """Return the structure of an arm with a joint fixed at a value, and the pose of the frame.

    The pose (4, 4) is that at q = 0 of the other joints. The results are the same as for the robot
    that `Robot.freeze` returns, but computed faster. No other joint may mimic this one.
    """
    chain = _moving_joints(robot._tree.joints, robot._tree.frames[frame])
    tip = robot._tree.frames[frame].placement
    i = [robot.joint_names[joint.coordinate] for joint in chain].index(name)
    still = chain.pop(i)
    fixed = still.placement @ _moved(replace(still, offset=still.scale * value + still.offset))
    if i == len(chain):
        tip = fixed @ tip
    else:
        chain[i] = replace(chain[i], placement=fixed @ chain[i].placement)
    return _structure(robot, chain, tip)


def _structure(robot: Robot, chain: Sequence[MovingJoint], tip: Matrix) -> tuple[Structure, Matrix]:
    """Return the structure of joints that move a frame at `tip` (4, 4), and its pose at q = 0."""
    names = tuple(robot.joint_names[joint.coordinate] for joint in chain)
    axes, points, end = _lines(chain)
    home = end @ tip
    stations = np.vstack([points, home[:3, 3]])
    length = float(np.linalg.norm(np.diff(stations, axis=0), axis=1).sum()) or 1.0
    reason = _unsuitable(chain)
    six_revolute = not reason
    pairs = [_relation(axes, points, i, length) for i in range(len(chain) - 1)]
    form, first = (None, -1) if reason else _closed_form(axes, points, pairs, length)
    if not reason and form is None:
        reason = "no three consecutive axes intersect in a point or are parallel"
    new_axes, new_points = _nominal(axes, points, pairs, form, first)
    made = Structure(
        joints=names,
        axes=axes,
        points=points,
        relations=tuple(pairs),
        form=form,
        first=first,
        reason=reason,
        six_revolute=six_revolute,
        nominal_axes=new_axes,
        nominal_points=new_points,
        misalignment=float(
            np.linalg.norm(cross(axes, new_points - points), axis=1).max(initial=0.0)
        ),
        tilt=float(np.linalg.norm(new_axes - axes, axis=1).max(initial=0.0)),
        length=length,
    )
    return made, home


def _moving_joints(joints: Sequence[MovingJoint], frame: FixedFrame) -> list[MovingJoint]:
    """Return the joints between the world and a frame, from the base on."""
    found = []
    j = frame.joint
    while j != WORLD:
        found.append(joints[j])
        j = joints[j].parent
    return found[::-1]


def _lines(chain: Sequence[MovingJoint]) -> tuple[Matrix, Matrix, Matrix]:
    """Return the directions and points (k, 3) of the axes of joints, and the pose of the last body.

    All are in the world, at q = 0.
    """
    at = np.eye(4)
    axes, points = np.empty((len(chain), 3)), np.empty((len(chain), 3))
    for i, joint in enumerate(chain):
        at = at @ joint.placement
        axes[i], points[i] = at[:3, :3] @ joint.axis, at[:3, 3]
        if joint.offset:
            at = at @ _moved(joint)
    return axes / np.linalg.norm(axes, axis=1, keepdims=True), points, at


def _moved(joint: MovingJoint) -> Matrix:
    """Return the displacement (4, 4) of a joint by its offset."""
    moved = np.eye(4)
    if joint.prismatic:
        moved[:3, 3] = joint.offset * joint.axis
        return moved
    x, y, z = joint.axis
    K = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    s, c = np.sin(joint.offset), np.cos(joint.offset)
    moved[:3, :3] = np.eye(3) + s * K + (1.0 - c) * (K @ K)
    return moved


def _unsuitable(chain: Sequence[MovingJoint]) -> str:
    """Return the reason why a chain is not six independent revolute joints; empty if it is."""
    if any(joint.prismatic for joint in chain):
        return "a joint is prismatic"
    if any(joint.is_part_of_ball for joint in chain):
        return "a joint is a ball joint"
    if len({joint.coordinate for joint in chain}) != len(chain) or any(
        joint.scale != 1.0 for joint in chain
    ):
        return "a joint mimics another one"
    if len(chain) != 6:
        return f"the arm has {len(chain)} joints, not 6"
    return ""


def _relation(axes: Matrix, points: Matrix, i: int, length: float) -> Relation:
    """Return the relation of axis i to the next one."""
    normal = cross(axes[i], axes[i + 1])
    sine = float(np.linalg.norm(normal))
    between = points[i + 1] - points[i]
    if sine <= ANGLE_TOLERANCE:
        distance = np.linalg.norm(cross(axes[i], between))
        return "coincident" if distance <= DISTANCE_TOLERANCE * length else "parallel"
    distance = abs(between @ normal) / sine
    return "intersecting" if distance <= DISTANCE_TOLERANCE * length else "skew"


def _closed_form(
    axes: Matrix, points: Matrix, pairs: Sequence[Relation], length: float
) -> tuple[Form | None, int]:
    """Return the closed form, or None, and the index of the first of its three joints.

    Intersecting axes near the hand are preferred. If neighbors among three axes intersect, the
    three axes need not have a common point; the function checks whether they do. Coincident axes do
    not count, because they act as one joint.
    """
    for first in (3, 2, 1, 0):
        two = pairs[first : first + 2]
        if two == ["intersecting", "intersecting"]:
            three = slice(first, first + 3)
            point = _common_point(axes[three], points[three])
            gaps = np.linalg.norm(cross(axes[three], point - points[three]), axis=1)
            sines = np.linalg.norm(cross(axes[three][:2], axes[three][1:]), axis=1)
            within = DISTANCE_TOLERANCE if sines.min() >= MIN_SINE else EXACT_TOLERANCE
            if gaps.max() <= within * length:
                return "spherical", first
    for first in (1, 2, 0, 3):
        if pairs[first : first + 2] == ["parallel", "parallel"]:
            return "parallel", first
    return None, -1


def _common_point(axes: Matrix, points: Matrix) -> Matrix:
    """Return the point (3,) with the least sum of squared distances from k lines."""
    across = np.eye(3) - axes[:, :, None] * axes[:, None, :]
    point: Matrix = np.linalg.solve(across.sum(axis=0), np.einsum("kij,kj->i", across, points))
    return point


def _nominal(
    axes: Matrix, points: Matrix, pairs: Sequence[Relation], form: Form | None, first: int
) -> tuple[Matrix, Matrix]:
    """Return directions and points (k, 3) of lines with exact relations, near the given lines.

    Parallel axes get their mean direction. The lines are then shifted so that they intersect, by
    the least-norm solution of linear equations in the shifts and in the common point of three axes.
    """
    count = len(axes)
    new_axes = axes.copy()
    start = 0
    for i in range(count):  # groups of parallel neighbors
        if i + 1 < count and pairs[i] in ("parallel", "coincident"):
            continue
        if i > start:
            signs = np.sign(axes[start : i + 1] @ axes[start])[:, None]
            mean = (signs * axes[start : i + 1]).mean(axis=0)
            new_axes[start : i + 1] = signs * (mean / np.linalg.norm(mean))
        start = i + 1
    rows, right = [], []
    new_points = points.copy()
    spherical = range(first, first + 3) if form == "spherical" else range(0)
    if spherical:
        # Move the points of the three joints along their axes, as close as possible to the common
        # point.
        three = slice(first, first + 3)
        point = _common_point(new_axes[three], points[three])
        along = np.einsum("ij,ij->i", new_axes[three], point - points[three])
        new_points[three] += along[:, None] * new_axes[three]
        for i in spherical:
            for axis in range(3):
                row = np.zeros(3 * count + 3)
                row[3 * i + axis], row[3 * count + axis] = 1.0, -1.0
                rows.append(row)
                right.append(point[axis] - new_points[i, axis])
    for i, pair in enumerate(pairs):
        if pair == "intersecting" and not (i in spherical and i + 1 in spherical):
            normal = cross(new_axes[i], new_axes[i + 1])
            normal /= np.linalg.norm(normal)
            row = np.zeros(3 * count + 3)
            row[3 * i : 3 * i + 3], row[3 * i + 3 : 3 * i + 6] = -normal, normal
            rows.append(row)
            right.append(-normal @ (new_points[i + 1] - new_points[i]))
    moved = new_points
    if rows:
        shifts = np.linalg.lstsq(np.array(rows), np.array(right), rcond=None)[0]
        moved = new_points + shifts[: 3 * count].reshape(count, 3)
    return new_axes, moved
