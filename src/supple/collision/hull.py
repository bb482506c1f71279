"""Convex hulls of meshes with few points, rounded so that they are proven to contain the mesh.

Let P be some of a mesh's points and δ an upper bound of the distance of every other point from
conv P. The set of all points within δ of conv P is convex and contains every point of the mesh, and
therefore its triangles and everything that they enclose.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from supple._arrays.checks import number
from supple.describe._meshes import read_mesh
from supple.describe._pose import Array
from supple.describe.shapes import ConvexHull, Mesh
from supple.errors import DescriptionError

_ADDED = 8  # number of points that are added at a time
_CLOSE = 1e-3  # padding at which no more points are added, relative to the size of the mesh
_ROUNDS = 300  # maximum number of iterations for the distances
_SLACK = 0.02  # relative difference of upper and lower bounds that ends the iteration
_ROUNDING = 1e-12  # margin for rounding errors, relative to the size of the mesh
MAX_POINTS = 64


def hull_of(mesh: Mesh, *, max_points: int = MAX_POINTS) -> ConvexHull:
    """Return a rounded convex hull that contains a mesh.

    `ConvexHull.radius` is the padding: no point of the hull is farther than this from the convex
    hull of the mesh.

    Args:
        mesh: The mesh, whose file is read.
        max_points: Maximum number of points of the hull, at least 8. Distances to the hull take
            time in proportion to it; the padding falls with it.

    Raises:
        DescriptionError: The file is missing or cannot be read.
        MissingExtraError: The format needs the package trimesh, which is not installed.
    """
    count = int(number(max_points, "max_points", least=8))
    points, _ = read_mesh(mesh.file)
    chosen, radius = _rounded(points.tobytes(), tuple(mesh.scale.tolist()), count)
    if radius == 0 and not np.ptp(chosen, axis=0).any():
        raise DescriptionError(f"the mesh {mesh.file!r} has no size.")
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
    points = np.unique(points, axis=0)
    size = float(np.ptp(points, axis=0).max())
    signs = np.array([[x, y, z] for x in (-1, 0, 1) for y in (-1, 0, 1) for z in (-1, 0, 1)])
    directions = signs[np.abs(signs).sum(axis=1).argsort(kind="stable")][1:]
    kept = list(dict.fromkeys(np.argmax(points @ directions.T, axis=0).tolist()))[:most]
    while True:
        far = distances_to_hull(points, points[kept])
        worst = float(far.max())
        if worst <= _CLOSE * size or len(kept) >= most:
            break
        order = np.argsort(-far, kind="stable")[: min(_ADDED, most - len(kept))]
        kept += order[far[order] > 0].tolist()
    padding = 0.0 if worst == 0 else worst + _ROUNDING * size
    return points[kept], padding


def distances_to_hull(points: Array, corners: Array) -> Array:
    """Return upper bounds (v,) of the distances of points (v, 3) from the hull of corners (k, 3).

    Gilbert's method moves a point x of the hull toward the corner that is farthest in the direction
    of a given point p. Every x gives an upper bound ‖p - x‖ and a lower bound of p's distance.
    Points whose upper bound is below the largest lower bound do not decide, and are left there.
    """
    first = ((corners**2).sum(axis=1) - 2 * points @ corners.T).argmin(axis=1)
    x = corners[first].copy()
    bound: Array = np.linalg.norm(points - x, axis=1)
    active = np.flatnonzero(bound > 0)
    for _ in range(_ROUNDS):
        if not len(active):
            break
        away = points[active] - x[active]
        length = np.linalg.norm(away, axis=1)
        support = away @ corners.T
        best = support.argmax(axis=1)
        ahead = support[np.arange(len(active)), best]
        with np.errstate(divide="ignore", invalid="ignore"):
            least = np.where(length > 0, ((points[active] * away).sum(axis=1) - ahead) / length, 0)
        edge = corners[best] - x[active]
        squares = (edge**2).sum(axis=1)
        gain = (edge * away).sum(axis=1)
        share = np.clip(np.divide(gain, squares, out=np.zeros_like(gain), where=squares > 0), 0, 1)
        x[active] += share[:, None] * edge
        bound[active] = np.minimum(
            bound[active], np.linalg.norm(points[active] - x[active], axis=1)
        )
        undecided = (bound[active] > least.max(initial=0.0)) & (gain > 1e-12 * length**2)
        undecided &= bound[active] - np.maximum(least, 0) > _SLACK * bound[active]
        active = active[undecided]
    return bound
