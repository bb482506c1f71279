"""Convex shapes in NumPy, an oracle of the distances between them, and collision models."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray

import generated
import supple
from supple import _core

Array = NDArray[np.float64]
SPHERE, CAPSULE, BOX, CYLINDER, HALF_SPACE, HULL = range(6)
KINDS = (SPHERE, CAPSULE, BOX, CYLINDER, HALF_SPACE, HULL)
PAIRS_OF_KINDS = [(a, b) for a in KINDS for b in KINDS if (a, b) != (HALF_SPACE, HALF_SPACE)]


@dataclass(frozen=True, eq=False)
class Shape:
    """A shape of the kernel: `size` as in `_core.CollisionModel`."""

    kind: int
    size: Array = field(default_factory=lambda: np.zeros(3))
    radius: float = 0.0
    pose: Array = field(default_factory=lambda: np.eye(4))
    points: Array = field(default_factory=lambda: np.zeros((0, 3)))

    @property
    def around(self) -> float:
        """The distance [m] from the core to the surface of the shape."""
        return self.size[0] if self.kind in (SPHERE, CAPSULE) else self.radius

    @property
    def core(self) -> Array:
        """The corners of the core (k, 3), in the shape's frame."""
        if self.kind in (SPHERE, HALF_SPACE):
            return np.zeros((1, 3))
        if self.kind == CAPSULE:
            return np.array([[0, 0, -0.5], [0, 0, 0.5]]) * self.size[1]
        if self.kind == BOX:
            signs = np.stack(np.meshgrid(*[[-0.5, 0.5]] * 3), axis=-1).reshape(-1, 3)
            return signs * self.size
        return self.points

    def extent(self, directions: Array) -> Array:
        """Return the support function of the shape for unit vectors (k, 3)."""
        local = directions @ self.pose[:3, :3]
        if self.kind == CYLINDER:
            along = np.hypot(local[:, 0], local[:, 1]) * self.size[0]
            along = along + np.abs(local[:, 2]) * self.size[1] / 2
        else:
            along = (local @ self.core.T).max(axis=1)
        return along + directions @ self.pose[:3, 3] + self.around

    def outside(self, point: Array) -> float:
        """Return a lower bound of the distance from a point to the shape, zero if it is inside."""
        x = self.pose[:3, :3].T @ (point - self.pose[:3, 3])
        if self.kind in (SPHERE, CAPSULE):
            half = self.size[1] / 2 if self.kind == CAPSULE else 0.0
            away = float(np.linalg.norm(x - [0, 0, np.clip(x[2], -half, half)])) - self.around
        elif self.kind == BOX:
            away = float((np.abs(x) - self.size / 2).max())
        elif self.kind == CYLINDER:
            away = float(max(np.hypot(x[0], x[1]) - self.size[0], abs(x[2]) - self.size[1] / 2))
        elif self.kind == HALF_SPACE:
            away = float(x[2])
        else:
            directions = sphere_directions(500)
            gap = directions @ (point - self.pose[:3, 3]) - (
                self.extent(directions) - directions @ self.pose[:3, 3]
            )
            away = float(gap.max())
        return max(away, 0.0)


def separation(first: Shape, second: Shape, normals: Array) -> Array:
    """Return the separation (k,) of two shapes along normals (k, 3), from `second` to `first`.

    The signed distance is the maximum over all normals.
    """
    if second.kind == HALF_SPACE:
        return -first.extent(-normals) - normals @ second.pose[:3, 3]
    if first.kind == HALF_SPACE:
        return normals @ first.pose[:3, 3] - second.extent(normals)
    return -first.extent(-normals) - second.extent(normals)


@cache
def sphere_directions(count: int) -> Array:
    """Return unit vectors that are spread over the sphere (count, 3)."""
    k = np.arange(count) + 0.5
    z, angle = 1 - 2 * k / count, np.pi * (1 + 5**0.5) * k
    across = np.sqrt(1 - z * z)
    return np.stack([across * np.cos(angle), across * np.sin(angle), z], axis=1)


def best_separation(first: Shape, second: Shape, rng: np.random.Generator) -> float:
    """Return the signed distance by a search over all directions, from many starts."""
    axes = [s.pose[:3, :3].T * sign for s in (first, second) for sign in (-1, 1)]
    at = np.concatenate([sphere_directions(2000), *axes])
    value = separation(first, second, at)
    scale = 0.1
    for keep in (16, 6):
        best = np.argsort(-value)[:keep]
        at, value = at[best], value[best]
        for _ in range(10 if keep == 16 else 45):
            tries = at[:, None] + scale * rng.normal(size=(keep, 30, 3))
            tries /= np.linalg.norm(tries, axis=2, keepdims=True)
            found = separation(first, second, tries.reshape(-1, 3)).reshape(keep, 30)
            which = found.argmax(axis=1)
            most = found[np.arange(keep), which]
            better = most > value
            at[better] = tries[np.arange(keep), which][better]
            value = np.maximum(value, most)
            scale *= 0.65
    return float(value.max())


def _rotation(rng: np.random.Generator, angle: float) -> Array:
    axis = rng.normal(size=3)
    x, y, z = axis / np.linalg.norm(axis)
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.asarray(np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K)


def random_pose(rng: np.random.Generator, how: int) -> Array:
    """Return a pose: general (0), axis-aligned (1), almost so (2) or at the origin (3)."""
    T = np.eye(4)
    if how == 0:
        T[:3, :3] = _rotation(rng, rng.uniform(0, np.pi))
        T[:3, 3] = rng.normal(size=3) * rng.choice([0.05, 0.2, 0.5])
    if how in (1, 2):
        order = rng.permutation(3)
        R = np.eye(3)[order] * rng.choice([-1, 1], size=3)[:, None]
        T[:3, :3] = R * np.linalg.det(R)
        T[:3, 3] = rng.integers(-3, 4, size=3) * 0.1
    if how == 2:
        T[:3, :3] = T[:3, :3] @ _rotation(rng, 10 ** rng.uniform(-14, -3))
        T[:3, 3] += rng.normal(size=3) * 10 ** rng.uniform(-16, -5)
    if how == 3 and rng.random() < 0.5:
        T[:3, :3] = _rotation(rng, rng.uniform(0, np.pi))
    return T


def random_shape(rng: np.random.Generator, kind: int, pose: Array) -> Shape:
    size = rng.uniform(0.02, 0.4, size=3)
    if rng.random() < 0.3:
        size = np.round(size, 1) + 0.1
    if kind == SPHERE:
        return Shape(kind, np.array([size[0], 0, 0]), pose=pose)
    if kind in (CAPSULE, CYLINDER):
        return Shape(kind, np.array([size[0], 2 * size[1], 0]), pose=pose)
    if kind == BOX:
        return Shape(kind, 2 * size, pose=pose)
    if kind == HALF_SPACE:
        return Shape(kind, pose=pose)
    points = rng.normal(size=(rng.integers(1, 30), 3)) * size
    if rng.random() < 0.2:
        points = np.round(points, 1)  # many corners in one plane
    if rng.random() < 0.1:
        points[:, 2] = 0
    return Shape(kind, radius=rng.choice([0, size[0] / 4]), pose=pose, points=points)


def sliding_chain() -> _core.Chain:
    """Return a chain of one prismatic joint along x with a frame on it."""
    turned = [0.0, 0.0, -1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0]  # columns; z is the world's x
    back = [0.0, 0.0, 1.0, 0.0, 1.0, 0.0, -1.0, 0.0, 0.0]
    joint = _core.JointSpec(
        parent=-1,
        motion=_core.Motion.PRISMATIC,
        placement=_core.Placement.ROOT,
        q_index=0,
        v_index=0,
        scale=1.0,
        offset=0.0,
        phase=[1.0, 0.0],
        rotation=turned,
        position=[0.0, 0.0, 0.0],
    )
    frame = _core.FrameSpec(joint=0, rotation=back, position=[0.0, 0.0, 0.0])
    return _core.Chain(
        nv=1, balls=[], joints=[joint], frames=[frame], outputs=1, stack=False, axes=-1, rows=[0]
    )


def model_of(
    chain: _core.Chain,
    shapes: list[Shape],
    frames: list[int],
    pairs: list[tuple[int, int]],
    speeds: list[float] | None = None,
) -> _core.CollisionModel:
    """Return the collision model of shapes that are fixed to frames of a chain (-1: the world)."""
    first = np.cumsum([0, *[len(s.points) for s in shapes]])
    return _core.CollisionModel(
        chain,
        kind=np.array([s.kind for s in shapes], dtype=np.int32),
        frame=np.array(frames, dtype=np.int32),
        pose=np.array([s.pose for s in shapes], dtype=float).reshape(-1, 4, 4),
        size=np.array([s.size for s in shapes], dtype=float).reshape(-1, 3),
        radius=np.array([s.around for s in shapes], dtype=float),
        vertices=np.concatenate([np.zeros((0, 3)), *[s.points for s in shapes]]),
        first_vertex=first.astype(np.int32),
        speed=np.array(speeds or [0.0] * len(shapes)),
        pairs=np.array(pairs, dtype=np.int32).reshape(-1, 2),
    )


@dataclass(frozen=True, eq=False)
class Scene:
    """A robot with shapes on its frames, among obstacles."""

    robot: supple.Robot
    model: _core.CollisionModel
    shapes: list[Shape]
    frames: list[int]  # of the shapes, in the order of robot.frames; -1 for the world
    pairs: list[tuple[int, int]]

    def in_world(self, shape: int, q: Array) -> Shape:
        """Return a shape with its pose in the world at a configuration."""
        own, frame = self.shapes[shape], self.frames[shape]
        if frame < 0:
            return own
        pose = self.robot.fk(q, frame=self.robot.frames[frame]) @ own.pose
        return Shape(own.kind, own.size, own.radius, pose, own.points)


def drawn_scene(
    seed: int,
    obstacles: int = 8,
    share: float = 0.9,
    joints: int | None = None,
    per_frame: int = 5,
) -> Scene:
    """Return a random robot of about 1 m with shapes on all frames, mostly spheres, and obstacles.

    Args:
        seed: Seed of the random numbers.
        obstacles: Number of obstacles, besides a half-space below the robot.
        share: Share of all admissible pairs that are checked.
        joints: Number of joints; by default it is random.
        per_frame: Largest number of shapes on a frame.
    """
    rng = np.random.default_rng(seed)
    robot = generated.robot(rng, joints=joints, size=1.0)
    names = list(robot.frames)
    Q = rng.uniform(np.maximum(robot.lower, -1), np.minimum(robot.upper, 1), size=(2, robot.dof))
    poses = [np.array([robot.fk(q, frame=name) for name in names]) for q in Q]

    def moves(a: int, b: int) -> bool:
        at = [T[a] if b < 0 else np.linalg.solve(T[b], T[a]) for T in poses]
        return bool(np.abs(at[0] - at[1]).max() > 1e-9)

    shapes: list[Shape] = []
    frames: list[int] = []
    for index in range(len(names)):
        for _ in range(rng.integers(1, per_frame + 1)):
            kind = int(rng.choice([SPHERE, SPHERE, SPHERE, CAPSULE, BOX, CYLINDER, HULL]))
            made = random_shape(rng, kind, random_pose(rng, 0))
            pose = made.pose.copy()
            pose[:3, 3] *= 0.1
            shapes.append(Shape(kind, made.size * 0.2, made.radius * 0.2, pose, made.points * 0.2))
            frames.append(index)
    ground = np.eye(4)
    ground[2, 3] = -0.5
    for kind in [*rng.choice([SPHERE, CAPSULE, BOX, CYLINDER, HULL], obstacles), HALF_SPACE]:
        pose = random_pose(rng, 0)
        pose[:3, 3] = rng.normal(size=3) * 0.6
        shapes.append(random_shape(rng, int(kind), ground if kind == HALF_SPACE else pose))
        frames.append(-1)
    pairs = [
        (i, j) if rng.random() < 0.5 else (j, i)
        for i in range(len(shapes))
        for j in range(i + 1, len(shapes))
        if frames[i] >= 0 and moves(frames[i], frames[j]) and rng.random() < share
    ]
    rng.shuffle(pairs)
    model = model_of(robot._chain(names), shapes, frames, pairs)
    return Scene(robot, model, shapes, frames, pairs)


def free_scene(seed: int, least: float, obstacles: int = 6) -> tuple[Scene, Array]:
    """Return a scene and a configuration at which all pairs are at least `least` [m] apart."""
    joints = int(np.random.default_rng(seed).choice([2, 3, 6, 6, 7, 7, 8, 12]))
    scene = drawn_scene(seed, obstacles, share=1.0, joints=joints, per_frame=2)
    robot = scene.robot
    lower = np.where(np.isfinite(robot.lower), robot.lower, -3)
    upper = np.where(np.isfinite(robot.upper), robot.upper, 3)
    q = lower + np.random.default_rng(seed).uniform(0.1, 0.9, robot.dof) * (upper - lower)
    distance = scene.model.distances(q)[0]
    pairs = [pair for pair, d in zip(scene.pairs, distance, strict=True) if d > least]
    chain = scene.robot._chain(list(scene.robot.frames))
    model = model_of(chain, scene.shapes, scene.frames, pairs)
    return Scene(scene.robot, model, scene.shapes, scene.frames, pairs), q
