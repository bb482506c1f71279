"""Spheres that are proven to contain a mesh.

A ball is convex: it contains a triangle if it contains the triangle's corners. Triangles are
divided into small parts, and each part is assigned to one sphere, whose radius then reaches all
corners of its parts. No point of the mesh is outside all spheres.

Centers are on the medial axis of the mesh: each is the center of the largest ball inside the mesh
that touches the surface at a given point. For a given distance, a greedy choice finds few spheres
that stick out by at most this distance; bisection finds the smallest distance for which there are
not too many.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from supple._arrays.checks import number
from supple.describe._meshes import read_mesh
from supple.describe._pose import Array
from supple.describe.shapes import Mesh, Shape, Sphere
from supple.errors import DescriptionError
from supple.kinematics import Robot
from supple.kinematics.robot import check_robot

DEFAULT_SPHERE_COUNT = 64
_MAX_PARTS = 40_000  # number of parts of triangles above which none is divided
_PER_SPHERE = 300  # number of parts for each sphere
_BALL_SAMPLES = 600  # number of surface points at which inner balls are computed
_SURFACE_SAMPLES = 3000  # number of surface points for choosing among these balls
_ORIENTATION_BALLS = 9  # number of balls by which triangles are found to face outward or inward
_MAX_SHRINKS = 12  # maximum number of iterations for an inner ball
_BISECTIONS = 9
_ROUNDING = 1e-12  # margin for rounding errors, relative to the size of the mesh


class SphereCover(NamedTuple):
    """Spheres that contain a mesh.

    Attributes:
        spheres: The spheres, in the frame of the mesh's pose.
        padding: Largest distance by which a sphere sticks out of the mesh [m], if the mesh is
            closed and all its triangles face the same way.
    """

    spheres: tuple[Sphere, ...]
    padding: float


def spheres_of(mesh: Mesh, *, count: int = DEFAULT_SPHERE_COUNT) -> SphereCover:
    """Return spheres that are proven to contain all triangles of a mesh.

    Unlike a convex hull, they follow concave parts of the mesh, and the kernel compares several of
    them with another shape at a time.

    Args:
        mesh: The mesh, whose file is read.
        count: Maximum number of spheres, at least 4.

    Raises:
        DescriptionError: The file is missing or cannot be read.
        MissingExtraError: The format needs the package trimesh, which is not installed.
    """
    most = int(number(count, "count", least=4, most=1000))
    points, faces = read_mesh(mesh.file)
    corners = np.ascontiguousarray(points[faces] * mesh.scale)
    if np.prod(mesh.scale) < 0:  # a reflection turns triangles inside out
        corners = np.ascontiguousarray(corners[:, ::-1])
    if not np.ptp(corners.reshape(-1, 3), axis=0).any():
        raise DescriptionError(f"the mesh {mesh.file!r} has no size.")
    centers, radii, padding = _cover(corners.tobytes(), most)
    placed = centers @ mesh.pose[:3, :3].T + mesh.pose[:3, 3]
    spheres = tuple(Sphere(float(r), c) for c, r in zip(placed, radii, strict=True))
    return SphereCover(spheres, padding)


def sphere_links(
    robot: Robot, *, count: int = DEFAULT_SPHERE_COUNT
) -> dict[str, tuple[Shape, ...]]:
    """Return the shapes of a robot's links, with spheres instead of meshes.

        World(obstacles, links=sphere_links(robot))

    Args:
        robot: The robot.
        count: Maximum number of spheres for each mesh.
    """
    check_robot(robot)
    made: dict[str, tuple[Shape, ...]] = {}
    for link, shapes in robot.shapes.items():
        every: list[Shape] = []
        for shape in shapes:
            if isinstance(shape, Mesh):
                every += spheres_of(shape, count=count).spheres
            else:
                every.append(shape)
        made[link] = tuple(every)
    return made


@lru_cache(maxsize=256)
def _cover(data: bytes, most: int) -> tuple[Array, Array, float]:
    """Return centers (k, 3), radii (k,) and the padding for triangles (f, 3, 3)."""
    parts = _divided(np.frombuffer(data).reshape(-1, 3, 3), most)
    size = float(np.ptp(parts.reshape(-1, 3), axis=0).max())
    rng = np.random.default_rng(0)
    normal = np.cross(parts[:, 1] - parts[:, 0], parts[:, 2] - parts[:, 0])
    area = np.linalg.norm(normal, axis=1)
    there = np.flatnonzero(area > 0)
    if not len(there):
        there, area = np.arange(len(parts)), np.ones(len(parts))
    outward = normal[there] / np.maximum(area[there, None], 1e-300)
    weights = area[there] / area[there].sum()
    middle = parts.mean(axis=1)
    some = rng.choice(there, min(_SURFACE_SAMPLES, 4 * len(there)), p=weights)
    share = rng.dirichlet((1, 1, 1), len(some))
    inner = np.einsum("kc,kcx->kx", share, parts[some])
    surface = np.concatenate([inner, middle[there][:_SURFACE_SAMPLES]])
    at = rng.choice(len(there), min(_BALL_SAMPLES, len(there)), replace=False, p=_spread(weights))
    centers, inside = _balls_inside(middle[there][at], outward[at], surface, size)
    if not _is_inside(centers[:_ORIENTATION_BALLS], parts).mean() > 0.5:  # triangles face inward
        centers, inside = _balls_inside(middle[there][at], -outward[at], surface, size)
    chosen = _chosen(centers, inside, surface, most)
    centers, inside = centers[chosen], inside[chosen]
    radii = _reaching(centers, inside, parts)
    used = radii > 0
    padding = float((radii - inside)[used].max())
    return centers[used], radii[used] + _ROUNDING * size, max(padding, 0.0) + _ROUNDING * size


def _spread(weights: Array) -> Array:
    """Return probabilities, half by area and half uniform, so that small parts are chosen too."""
    mixed = 0.5 * weights + 0.5 / len(weights)
    return np.asarray(mixed / mixed.sum())


def _divided(triangles: Array, most: int) -> Array:
    """Return the triangles (f, 3, 3) in parts that are small in comparison to the spheres."""
    area = np.linalg.norm(
        np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]), axis=1
    ).sum()
    longest = 2 * np.sqrt(area / (_PER_SPHERE * most))
    done: list[Array] = []
    left, count = triangles, 0
    while len(left):
        edges = np.linalg.norm(left - np.roll(left, 1, axis=1), axis=2).max(axis=1)
        small = edges <= longest
        if count + 4 * len(left) > _MAX_PARTS:
            small[:] = True
        done.append(left[small])
        count += len(done[-1])
        a, b, c = left[~small].transpose(1, 0, 2)
        ab, bc, ca = (a + b) / 2, (b + c) / 2, (c + a) / 2
        four = [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
        left = np.concatenate([np.stack(each, axis=1) for each in four])
    return np.concatenate(done)


def _balls_inside(at: Array, outward: Array, surface: Array, size: float) -> tuple[Array, Array]:
    """Return the centers and radii of the largest balls inside that touch the surface at points.

    A ball shrinks until no point of the surface is inside it (Ma, Bae & Choi 2012).
    """
    radius, left = np.full(len(at), size), np.arange(len(at))
    for _ in range(_MAX_SHRINKS):
        own, out = at[left], outward[left]
        away = own - surface[_nearest(own - radius[left, None] * out, surface)]
        across = 2 * (away * out).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            smaller = (away**2).sum(axis=1) / across
        shrinks = (across > 1e-9 * size) & (smaller < 0.999 * radius[left])
        left = left[shrinks]
        if not len(left):
            break
        radius[left] = np.maximum(smaller[shrinks], 1e-4 * size)
    center = at - radius[:, None] * outward
    near = np.linalg.norm(center - surface[_nearest(center, surface)], axis=1)
    return center, np.minimum(radius, near)


def _nearest(points: Array, among: Array) -> NDArray[np.intp]:
    squares = (among**2).sum(axis=1) - 2 * points @ among.T
    return np.asarray(squares.argmin(axis=1))


def _chosen(centers: Array, inside: Array, surface: Array, most: int) -> NDArray[np.intp]:
    """Return the indices of at most `most` balls that stick out little and reach the surface."""
    squares = (centers**2).sum(axis=1)[:, None] + (surface**2).sum(axis=1) - 2 * centers @ surface.T
    far = np.sqrt(np.maximum(squares, 0)) - inside[:, None]
    low, high = 0.0, float(far.max(axis=1).min())
    best = _greedy(far, high, most)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        found = _greedy(far, middle, most)
        low, high = (middle, high) if found is None else (low, middle)
        best = best if found is None else found
    assert best is not None  # one ball suffices for the largest distance
    return best


def _greedy(far: Array, reach: float, most: int) -> NDArray[np.intp] | None:
    """Return balls that, enlarged by `reach`, contain all points; None if `most` do not suffice."""
    reached = far <= reach
    if not reached.any(axis=0).all():
        return None
    numbers = reached.astype(np.float32)  # products of float32 are faster
    left = np.ones(far.shape[1], dtype=np.bool_)
    chosen: list[int] = []
    while left.any():
        if len(chosen) == most:
            return None
        best = int((numbers @ left.astype(np.float32)).argmax())
        chosen.append(best)
        left &= ~reached[best]
    return np.array(chosen, dtype=np.intp)


def _is_inside(points: Array, triangles: Array) -> NDArray[np.bool_]:
    """Return whether points (k, 3) are inside a closed mesh, by its winding number around them."""
    made = np.zeros(len(points))
    for i, point in enumerate(points):
        a, b, c = (triangles - point).transpose(1, 0, 2)
        la, lb, lc = (np.linalg.norm(each, axis=1) for each in (a, b, c))
        volume = np.einsum("kx,kx->k", a, np.cross(b, c))
        dots = [np.einsum("kx,kx->k", u, v) for u, v in ((a, b), (b, c), (c, a))]
        below = la * lb * lc + dots[0] * lc + dots[1] * la + dots[2] * lb
        made[i] = 2 * np.arctan2(volume, below).sum() / (4 * np.pi)
    return np.asarray(np.abs(made) > 0.5)


def _reaching(centers: Array, inside: Array, parts: Array) -> Array:
    """Return radii (k,) with which each part of a triangle (f, 3, 3) is inside some ball.

    A part is assigned to the ball that then sticks out least; balls without parts have radius zero.
    """
    radii = np.zeros(len(centers))
    for begin in range(0, len(parts), 4096):
        own = parts[begin : begin + 4096]
        apart = [np.linalg.norm(own[:, None, k] - centers, axis=2) for k in range(3)]
        far = np.maximum(np.maximum(apart[0], apart[1]), apart[2])
        which = (far - inside).argmin(axis=1)
        np.maximum.at(radii, which, far[np.arange(len(own)), which])
    return radii
