"""Convex hulls of meshes with few points, rounded so that they are proven to contain the mesh.

Let P be some of a mesh's points and δ an upper bound of the distance of every other point from
conv P. The set of all points within δ of conv P is convex and contains every point of the mesh, and
therefore its triangles and everything that they enclose.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from supple import _core
from supple._arrays.checks import number
from supple.describe._meshes import read_mesh
from supple.describe._pose import Array
from supple.describe.shapes import ConvexHull, Mesh
from supple.errors import DescriptionError

_SUFFICIENT_PADDING = 1e-3  # padding at which the hull is not refined, relative to the mesh size
_ROUNDING = 1e-12  # margin for rounding errors, relative to the size of the mesh
MAX_POINTS = 64
# The first corners are the farthest ones along axes and diagonals.
_SIGNS = np.array([[x, y, z] for x in (-1, 0, 1) for y in (-1, 0, 1) for z in (-1, 0, 1)])
_DIRECTIONS = _SIGNS[np.abs(_SIGNS).sum(axis=1).argsort(kind="stable")][1:]


def hull_of(mesh: Mesh, *, max_points: int = MAX_POINTS) -> ConvexHull:
    """Return a rounded convex hull that contains a mesh.

    `ConvexHull.radius` is the padding: no point of the hull is farther than this from the convex
    hull of the mesh.

    Args:
        mesh: The mesh, whose file is read.
        max_points: Maximum number of points of the hull, at least 8. More points give a smaller
            padding, but the time for a distance to the hull is proportional to the number of
            points.

    Raises:
        DescriptionError: The file is missing or cannot be read.
        MissingExtraError: The format needs the package trimesh, which is not installed.
    """
    count = int(number(max_points, "max_points", least=8))
    points, _ = read_mesh(mesh.file)
    chosen, radius = _rounded(points.tobytes(), tuple(mesh.scale.tolist()), count)
    if radius == 0 and not np.ptp(chosen, axis=0).any():
        raise DescriptionError(f"the mesh {mesh.file!r} has no extent: all its points coincide.")
    return ConvexHull(chosen, radius, mesh.pose)


@lru_cache(maxsize=128)
def _rounded(data: bytes, scale: tuple[float, ...], most: int) -> tuple[Array, float]:
    points = np.frombuffer(data).reshape(-1, 3) * scale
    return rounded_hull(points, most)


def rounded_hull(points: Array, most: int) -> tuple[Array, float]:
    """Return some of the points (v, 3), and a bound of the distance of every point from their hull.

    Args:
        points: All points.
        most: Maximum number of points that are kept.
    """
    size = float(np.ptp(points, axis=0).max())
    points = np.ascontiguousarray(points, dtype=np.float64)
    kept = list(dict.fromkeys(np.argmax(points @ _DIRECTIONS.T, axis=0).tolist()))[:most]
    # Relative to the middle of the points, rounding errors are relative to the size of the mesh.
    middle = points.mean(axis=0)
    chosen, padding = _core.rounded_hull(points - middle, kept, most, _SUFFICIENT_PADDING * size)
    if padding > 0:
        padding += _ROUNDING * (size + float(np.abs(middle).max()))
    return points[chosen], padding
