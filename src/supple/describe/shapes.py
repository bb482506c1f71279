"""Shapes for collision checking, each at a pose in the frame that it is fixed to."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from supple.describe._numbers import as_doubles, real_numbers
from supple.describe._pose import (
    POSE_TOLERANCE,
    ROUNDING,
    Array,
    orthonormalized,
    rotation_residual,
)
from supple.describe.joint import PickledByFields
from supple.errors import InputError, short_repr

_MAX_SIZE = 1e6  # largest length of a shape [m]: larger ones are errors of units
_MAX_POINTS = 100_000


def _identity() -> Array:
    return np.eye(4)


@dataclass(frozen=True, eq=False)
class Sphere(PickledByFields):
    """All points within `radius` of the origin of `pose`.

    Attributes:
        radius: Radius, above zero [m].
        pose: Pose (4, 4) in the link, frame or world that the shape is fixed to, or only its
            position (3,) [m].
    """

    radius: float
    pose: Array = field(default_factory=_identity)

    if TYPE_CHECKING:

        def __init__(self, radius: float, pose: npt.ArrayLike = ...) -> None: ...

    def __post_init__(self) -> None:
        _set_length(self, "radius", above=0)
        _set_pose(self)


@dataclass(frozen=True, eq=False)
class Capsule(PickledByFields):
    """All points within `radius` of a segment along z, centered at the origin of `pose`.

    Attributes:
        radius: Radius, above zero [m].
        length: Distance between the centers of the two end spheres, zero or more [m].
        pose: Pose (4, 4) in the link, frame or world that the shape is fixed to, or only its
            position (3,) [m].
    """

    radius: float
    length: float
    pose: Array = field(default_factory=_identity)

    if TYPE_CHECKING:

        def __init__(self, radius: float, length: float, pose: npt.ArrayLike = ...) -> None: ...

    def __post_init__(self) -> None:
        _set_length(self, "radius", above=0)
        _set_length(self, "length", least=0)
        _set_pose(self)


@dataclass(frozen=True, eq=False)
class Box(PickledByFields):
    """A solid box, centered at the origin of `pose`, with edges along its axes.

    Attributes:
        size: Lengths of the edges along x, y and z (3,), above zero [m].
        pose: Pose (4, 4) in the link, frame or world that the shape is fixed to, or only its
            position (3,) [m].
    """

    size: Array
    pose: Array = field(default_factory=_identity)

    if TYPE_CHECKING:

        def __init__(self, size: npt.ArrayLike, pose: npt.ArrayLike = ...) -> None: ...

    def __post_init__(self) -> None:
        size = _lengths(self.size, (3,), "Box: size")
        if not (size > 0).all():
            raise InputError(f"Box: size must be above zero; given: {short_repr(size.tolist())}")
        _set_array(self, "size", size)
        _set_pose(self)


@dataclass(frozen=True, eq=False)
class Cylinder(PickledByFields):
    """A solid cylinder along z, centered at the origin of `pose`, with flat ends.

    Attributes:
        radius: Radius, above zero [m].
        length: Length along z, above zero [m].
        pose: Pose (4, 4) in the link, frame or world that the shape is fixed to, or only its
            position (3,) [m].
    """

    radius: float
    length: float
    pose: Array = field(default_factory=_identity)

    if TYPE_CHECKING:

        def __init__(self, radius: float, length: float, pose: npt.ArrayLike = ...) -> None: ...

    def __post_init__(self) -> None:
        _set_length(self, "radius", above=0)
        _set_length(self, "length", above=0)
        _set_pose(self)


@dataclass(frozen=True, eq=False)
class HalfSpace(PickledByFields):
    """All points with z <= 0 in the frame of `pose`: a floor, a wall or a ceiling.

    Attributes:
        pose: Pose (4, 4) in the link, frame or world that the shape is fixed to, or only its
            position (3,) [m]; its z axis points out of the solid.
    """

    pose: Array = field(default_factory=_identity)

    if TYPE_CHECKING:

        def __init__(self, pose: npt.ArrayLike = ...) -> None: ...

    def __post_init__(self) -> None:
        _set_pose(self)


@dataclass(frozen=True, eq=False)
class ConvexHull(PickledByFields):
    """All points within `radius` of the convex hull of some points.

    Attributes:
        points: Points (k, 3) in the frame of `pose` [m]; points inside the hull are allowed.
        radius: Rounding radius, zero or more [m].
        pose: Pose (4, 4) in the link, frame or world that the shape is fixed to, or only its
            position (3,) [m].
    """

    points: Array
    radius: float = 0.0
    pose: Array = field(default_factory=_identity)

    if TYPE_CHECKING:

        def __init__(
            self, points: npt.ArrayLike, radius: float = 0.0, pose: npt.ArrayLike = ...
        ) -> None: ...

    def __post_init__(self) -> None:
        points = _lengths(self.points, None, "ConvexHull: points")
        if not 1 <= len(points) <= _MAX_POINTS:
            raise InputError(
                f"ConvexHull: points must be 1 to {_MAX_POINTS} points (k, 3); given: {len(points)}"
            )
        _set_array(self, "points", points)
        _set_length(self, "radius", least=0)
        if self.radius == 0 and not np.ptp(points, axis=0).any():
            raise InputError("ConvexHull: all points are the same and the radius is zero")
        _set_pose(self)


@dataclass(frozen=True, eq=False)
class Mesh(PickledByFields):
    """A mesh file, read when the shape is first used; collision checks use its convex hull.

    `supple.collision.hull_of` returns the hull.

    Attributes:
        file: Path of the file: STL or OBJ; other formats need the package trimesh.
        scale: Factors along x, y and z (3,), not zero.
        pose: Pose (4, 4) of the mesh in the link, frame or world that it is fixed to, or only its
            position (3,) [m].
    """

    file: str
    scale: Array = field(default_factory=lambda: np.ones(3))
    pose: Array = field(default_factory=_identity)

    if TYPE_CHECKING:

        def __init__(
            self, file: str, scale: npt.ArrayLike = ..., pose: npt.ArrayLike = ...
        ) -> None: ...

    def __post_init__(self) -> None:
        file: object = self.file
        if not isinstance(file, str) or not file:
            raise InputError(f"Mesh: file must be a path; given: {short_repr(file)}")
        scale = _lengths(self.scale, (3,), "Mesh: scale")
        if not scale.all():
            raise InputError(f"Mesh: scale must not be zero; given: {short_repr(scale.tolist())}")
        _set_array(self, "scale", scale)
        _set_pose(self)


Shape: TypeAlias = Sphere | Capsule | Box | Cylinder | HalfSpace | ConvexHull | Mesh
SHAPES = (Sphere, Capsule, Box, Cylinder, HalfSpace, ConvexHull, Mesh)


def _set_length(shape: object, name: str, *, above: float = -1.0, least: float = 0.0) -> None:
    """Convert a field to a float after checking that it is a length within its bounds."""
    value, what = getattr(shape, name), f"{type(shape).__name__}: {name}"
    bound = "above zero" if above == 0 else "zero or more"
    expected = f"{what} must be a length [m], {bound} and at most {_MAX_SIZE:g}"
    array = real_numbers(value, expected)
    good = array.ndim == 0 and math.isfinite(array) and above < array <= _MAX_SIZE
    if not (good and least <= array):
        raise InputError(f"{expected}; given: {short_repr(value)}")
    object.__setattr__(shape, name, float(array))


def _lengths(given: object, shape: tuple[int, ...] | None, what: str) -> Array:
    """Return numbers after checking that they are finite and of a given shape, or (k, 3)."""
    expected = f"{what} must be finite numbers of shape {shape or '(k, 3)'}, at most {_MAX_SIZE:g}"
    array = as_doubles(real_numbers(given, expected))
    right = array.shape == shape if shape else array.ndim == 2 and array.shape[1] == 3
    if not right:
        raise InputError(f"{expected}; given: an array of shape {array.shape}")
    if not (np.abs(array) <= _MAX_SIZE).all():
        raise InputError(f"{expected}; given: {short_repr(array.tolist())}")
    return array


def _set_array(shape: object, name: str, array: Array) -> None:
    array.flags.writeable = False
    object.__setattr__(shape, name, array)


def placed(shape: Shape, pose: Array) -> Shape:
    """Return a copy of a shape at another pose (4, 4), already checked by `shape_pose`."""
    made = object.__new__(type(shape))
    pose.flags.writeable = False
    vars(made).update(vars(shape), pose=pose)
    return made


def _set_pose(shape: object) -> None:
    """Convert the field `pose` to a pose (4, 4) with an orthonormal rotation."""
    _set_array(shape, "pose", shape_pose(getattr(shape, "pose"), f"{type(shape).__name__}: pose"))  # noqa: B009


def _is_exact_pose(T: list[list[float]]) -> bool:
    """Return whether a matrix is a pose up to rounding, without slow operations on arrays."""
    (a, b, c, x), (d, e, f, y), (g, h, i, z), last = T
    if last != [0, 0, 0, 1] or not max(abs(x), abs(y), abs(z)) <= _MAX_SIZE:
        return False
    off = (
        abs(a * a + d * d + g * g - 1),
        abs(b * b + e * e + h * h - 1),
        abs(c * c + f * f + i * i - 1),
        abs(a * b + d * e + g * h),
        abs(a * c + d * f + g * i),
        abs(b * c + e * f + h * i),
    )
    determinant = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)
    return max(off) <= ROUNDING and determinant > 0


def shape_pose(given: npt.ArrayLike, what: str) -> Array:
    """Return a pose (4, 4) with an orthonormal rotation, given a pose (4, 4) or a position (3,).

    Raises:
        InputError: The matrix is not a pose, or not finite.
    """
    expected = f"{what} must be a pose (4, 4) or a position (3,) [m]"
    array = as_doubles(real_numbers(given, expected))
    if array.shape == (3,):
        T = np.eye(4)
        T[:3, 3] = array
    elif array.shape == (4, 4):
        T = array
    else:
        raise InputError(f"{expected}; given: an array of shape {array.shape}")
    if _is_exact_pose(T.tolist()):
        return T
    if not (np.abs(T) <= _MAX_SIZE).all():
        raise InputError(f"{expected}; given: {short_repr(array.tolist())}")
    R = T[:3, :3]
    residual = rotation_residual(R)
    turned = residual <= POSE_TOLERANCE and np.linalg.det(R) > 0
    if not turned or (np.abs(T[3] - (0, 0, 0, 1)) > 1e-6).any():
        raise InputError(
            f"{expected}; given: a matrix that is not a pose, {short_repr(T.tolist())}"
        )
    T[:3, :3] = orthonormalized(R, residual)
    T[3] = 0, 0, 0, 1
    return T
