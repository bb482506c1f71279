"""Spheres and capsules, and the closest points between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supple._arrays.checks import ReadOnlyArrays, number_field
from supple.errors import InputError, short_repr
from supple.motion.linearization import EPSILON, Array, numbers_of


@dataclass(frozen=True, eq=False)
class Capsule(ReadOnlyArrays):
    """All points within `radius` of the segment from `start` to `end`.

    Attributes:
        start: One end of the segment (3,) [m], in the axes of `frame`.
        end: The other end (3,) [m], which may coincide with the first.
        radius: Radius, not negative [m].
        frame: Name of the robot's frame that the capsule is fixed to; None for the world.
    """

    start: Array
    end: Array
    radius: float
    frame: str | None = None

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            object.__setattr__(self, name, _point(getattr(self, name), f"Capsule: {name}"))
        _check(self)

    @property
    def segment(self) -> Array:
        """Start and end of the axis (2, 3)."""
        return np.stack([self.start, self.end])


@dataclass(frozen=True, eq=False)
class Sphere(ReadOnlyArrays):
    """All points within `radius` of `center`.

    Attributes:
        center: The center (3,) [m], in the axes of `frame`.
        radius: Radius, not negative [m].
        frame: Name of the robot's frame that the sphere is fixed to; None for the world.
    """

    center: Array
    radius: float
    frame: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "center", _point(self.center, "Sphere: center"))
        _check(self)

    @property
    def segment(self) -> Array:
        """The center, twice (2, 3): a sphere is a capsule of length zero."""
        return np.stack([self.center, self.center])


Shape = Capsule | Sphere


def closest_points(one: Array, other: Array) -> tuple[Array, Array]:
    """Return the closest points (..., 3) on each of two segments (..., 2, 3).

    They are the closest of five candidate pairs: the closest points of the two lines, clamped to
    the segments, and each of the four ends with the closest point of the other segment. Parallel
    segments and segments of length zero need no special case. If several pairs are equally close
    (parallel segments), the first one is returned.
    """
    one, other = np.broadcast_arrays(one, other)
    a, c = one[..., 0, :], other[..., 0, :]
    u, w = one[..., 1, :] - a, other[..., 1, :] - c
    uu, ww, uw = (np.sum(x * y, axis=-1) for x, y in ((u, u), (w, w), (u, w)))
    between = a - c
    # ‖u × w‖²; if it is zero up to rounding, the lines are parallel, and only the ends are used.
    across = uu * ww - uw * uw
    skew = across > EPSILON * uu * ww
    numerator = uw * np.sum(w * between, axis=-1) - ww * np.sum(u * between, axis=-1)
    inside = np.clip(np.where(skew, numerator, 0.0) / np.where(skew, across, 1.0), 0.0, 1.0)

    def onto(point: Array, start: Array, along: Array, length2: Array) -> Array:
        """Return the parameter, from 0 to 1, of the segment's point closest to a point."""
        some = length2 > 0
        share = np.sum((point - start) * along, axis=-1) / np.where(some, length2, 1.0)
        return np.clip(np.where(some, share, 0.0), 0.0, 1.0)

    candidates = [(s, onto(a + s[..., None] * u, c, w, ww)) for s in (inside, 0 * uu, 0 * uu + 1)]
    candidates += [(onto(c + t[..., None] * w, a, u, uu), t) for t in (0 * uu, 0 * uu + 1)]
    s = np.stack([s for s, _ in candidates])[..., None]
    t = np.stack([t for _, t in candidates])[..., None]
    on_one, on_other = a + s * u, c + t * w
    nearest = np.argmin(np.sum((on_one - on_other) ** 2, axis=-1), axis=0)[None, ..., None]
    return _select(on_one, nearest), _select(on_other, nearest)


def _select(candidates: Array, which: NDArray[np.intp]) -> Array:
    return np.asarray(np.take_along_axis(candidates, which, axis=0)[0])


def _point(given: object, name: str) -> Array:
    point = numbers_of(given, name)  # type: ignore[arg-type]
    if point.shape != (3,):
        raise InputError(f"{name} must be a point (3,); given: {short_repr(given)}")
    return point


def _check(shape: Shape) -> None:
    name = type(shape).__name__
    number_field(shape, "radius", least=0.0)
    if shape.frame is not None and not isinstance(shape.frame, str):
        raise InputError(f"{name}: frame must be a name or None; given: {short_repr(shape.frame)}")
