"""Obstacles along a path: configurations that keep a clearance, and certified motions.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from supple.collision.certificate import (
    Certificate,
    Curve,
    curve_certificate,
    polygon_certificate,
)
from supple.ik.world_check import WorldCheck
from supple.kinematics import Robot
from supple.kinematics.configuration import (
    difference,
    from_kernel,
    in_balls,
    integrate,
    to_kernel,
    uniform_rotation,
)
from supple.motion.linearization import Array
from supple.paths.graph import Indices, Part, PathGraph
from supple.paths.joint_path import JointPath
from supple.paths.spline import Spline

_TESTED_PLACES = np.arange(1, 8) / 8  # places of a route's step that are tested for collisions
SAMPLES = 1000  # default number of configurations of a search for a motion around obstacles
_MAX_DISPLACEMENT = 0.8  # largest step of a search, as a norm [rad or m]
_SLIDE_MARGIN = 1.0  # how far such a search moves slides without limits beyond start and end [m]
_SHORTCUTS = 60  # number of times that a motion around obstacles is shortened
_SEED = 0
_EQUAL_WITHIN = 1e-9  # joint displacement up to which configurations count as equal [rad or m]


@dataclass(frozen=True, eq=False)
class Obstacles:
    """The clearance that a path must keep.

    Attributes:
        check: The robot in its world, and the clearance.
        lower, upper: Ranges of the joints in which motions around obstacles are searched (n,);
            infinite for slides without limits.
        samples: Number of random configurations of such a search.
    """

    check: WorldCheck
    lower: Array
    upper: Array
    samples: int = SAMPLES

    @staticmethod
    def of(check: WorldCheck | None, samples: int = SAMPLES) -> Obstacles | None:
        """Return the obstacles of a check; None without one."""
        if check is None:
            return None
        robot = check.model.robot
        turn = np.where(robot.prismatic, np.inf, np.pi)
        lower, upper = np.maximum(robot.lower, -turn), np.minimum(robot.upper, turn)
        return Obstacles(check, lower, upper, samples)

    def free(self, q: Array) -> Array:
        """Return configurations (..., n); any that does not keep the clearance becomes NaN."""
        made, there = np.array(q), np.isfinite(q[..., 0])
        own = made[there]
        own[~self.check.free(own)] = np.nan
        made[there] = own
        return made

    def free_graph(self, graph: PathGraph) -> PathGraph:
        """Return a graph without the configurations that do not keep the clearance."""
        q, steps = self.free(graph.q), graph.steps
        if steps is not None:
            there, kept = np.isfinite(q[..., 0]), []
            for i, (a, b) in enumerate(steps):
                both = there[i, a] & there[i + 1, b]
                kept.append((a[both], b[both]))
            steps = kept
        return replace(graph, q=q, steps=steps)

    def colliding_steps(self, graph: PathGraph, parts: list[Part]) -> list[tuple[int, int, int]]:
        """Return the steps (layer, column, next column) of a route that collide on the way.

        Few places are tested, on straight lines between configurations. The test only serves to
        discard routes early: the joint path that is made from a route is certified afterwards.
        """
        robot, found = self.check.model.robot, []
        for layers, columns in parts:
            q = graph.q[layers, columns]
            change = difference(robot, q[1:], q[:-1])
            if graph.cost.turns is not None:  # full turns are chosen later
                full = graph.cost.turns > 0
                change[:, full] -= 2 * np.pi * np.rint(change[:, full] / (2 * np.pi))
            on_way = integrate(robot, q[:-1, None], change[:, None] * _TESTED_PLACES[:, None])
            bad = ~self.check.free(on_way).all(axis=1)
            found += [
                (int(layers[i]), int(columns[i]), int(columns[i + 1])) for i in np.nonzero(bad)[0]
            ]
        return found

    def along(self, path: JointPath, *, first: bool = False) -> Certificate:
        """Return the certificate of a joint path."""
        model, clearance = self.check.model, self.check.clearance
        if len(path) == 1:
            return polygon_certificate(model, clearance, path.s, path.q, first=first)
        return curve_certificate(model, clearance, [curve_of(path.spline)], first=first)

    def line(self, q: Array, *, first: bool = False) -> Certificate:
        """Return the certificate of straight motions through configurations (K, n)."""
        t = np.arange(len(q), dtype=np.float64)
        return polygon_certificate(self.check.model, self.check.clearance, t, q, first=first)

    def text(self, q: Array) -> str | None:
        """Return as text the pairs that are too close at a configuration (n,); None without any."""
        pairs = self.check.blocking(q)
        if not pairs:
            return None
        return f"{pairs[0][0]} and {pairs[0][1]} would be closer than the clearance"

    def around(self, start: Array, end: Array) -> tuple[Array, str]:
        """Return configurations (K, n) through which straight motions lead from start to end.

        The search lets two trees of random configurations grow toward each other (RRT-Connect).
        There are no configurations (K = 0) if the straight motion keeps the clearance, if start or
        end does not keep it, or if the search finds no motion. The second result says what was
        searched if the search failed.

        References:
            Kuffner & LaValle 2000.
        """
        none = np.empty((0, len(start)))
        if self._connects(start, end) or not self.check.free(np.stack([start, end])).all():
            return none, ""
        robot = self.check.model.robot
        both = to_kernel(robot, np.stack([start, end]))
        low, high = both.min(axis=0), both.max(axis=0)
        low = np.where(np.isfinite(self.lower), np.minimum(self.lower, low), low - _SLIDE_MARGIN)
        high = np.where(np.isfinite(self.upper), np.maximum(self.upper, high), high + _SLIDE_MARGIN)
        rng = np.random.default_rng(_SEED)
        trees = [_Tree(robot, start), _Tree(robot, end)]
        for k in range(self.samples):
            one, other = trees[k % 2], trees[1 - k % 2]
            new = self._extended(one, _drawn(robot, rng, low, high))
            if new is None:
                continue
            met = self._reached(other, one.q[new])
            if met is not None:
                ways = [one.way(new), other.way(met)]
                first, last = ways if k % 2 == 0 else ways[::-1]
                return self._shortened(np.array(first[::-1] + last[1:]), rng)[1:-1], ""
        grown = " and ".join(str(len(tree.q)) for tree in trees)
        return none, (
            f"no motion around obstacles was found with {self.samples} random configurations, of "
            f"which {grown} are reached from the two ends"
        )

    def _connects(self, a: Array, b: Array) -> bool:
        if np.abs(difference(self.check.model.robot, b, a)).max() <= _EQUAL_WITHIN:
            return True
        return self.line(np.stack([a, b]), first=True).certified

    def _extended(self, tree: _Tree, toward: Array) -> int | None:
        """Add a configuration in the direction of another one; return its index, or None."""
        near = tree.nearest(toward)
        robot = self.check.model.robot
        away = difference(robot, toward, tree.q[near])
        far = float(np.linalg.norm(away))
        share = min(1.0, _MAX_DISPLACEMENT / far) if far > 0 else 1.0
        to = integrate(robot, tree.q[near], share * away)
        return tree.add(to, near) if self._connects(tree.q[near], to) else None

    def _reached(self, tree: _Tree, goal: Array) -> int | None:
        """Extend a tree toward a configuration until it is reached; return its index, or None."""
        while True:
            new = self._extended(tree, goal)
            if new is None:
                return None
            if np.abs(difference(tree.robot, goal, tree.q[new])).max() <= _EQUAL_WITHIN:
                return new

    def _shortened(self, q: Array, rng: np.random.Generator) -> Array:
        """Return a motion (K, n) without configurations that are not needed."""
        for _ in range(_SHORTCUTS):
            if len(q) < 3:
                break
            i, j = sorted(rng.choice(len(q), 2, replace=False).tolist())
            if j > i + 1 and self._connects(q[i], q[j]):
                q = np.delete(q, range(i + 1, j), axis=0)
        return q


class _Tree:
    """Configurations, each connected to an earlier one."""

    def __init__(self, robot: Robot, root: Array) -> None:
        self.robot, self.q, self.parent = robot, [root], [-1]

    def nearest(self, q: Array) -> int:
        away = difference(self.robot, np.array(self.q), q)
        return int(np.argmin((away**2).sum(axis=1)))

    def add(self, q: Array, parent: int) -> int:
        self.q.append(q)
        self.parent.append(parent)
        return len(self.q) - 1

    def way(self, node: int) -> list[Array]:
        """Return the configurations from a node to the root."""
        made = []
        while node >= 0:
            made.append(self.q[node])
            node = self.parent[node]
        return made


def curve_of(spline: Spline) -> Curve:
    """Return a spline as a curve of the kernel's coordinates."""
    if spline.anchors is None:
        return Curve(spline.s, spline.coefficients)
    assert spline.layout is not None
    anchors = np.where(in_balls(spline.layout), to_kernel(spline.layout, spline.anchors), 0.0)
    return Curve(spline.s, spline.coefficients, anchors)


def _drawn(robot: Robot, rng: np.random.Generator, low: Array, high: Array) -> Array:
    """Return a random configuration (nq,), uniform between bounds (n,) and in all orientations."""
    x = rng.uniform(low, high)
    for ball in robot._balls:
        x[ball : ball + 3] = uniform_rotation(rng.random(3))
    return np.asarray(from_kernel(robot, x))


def without_steps(graph: PathGraph, steps: list[tuple[int, int, int]]) -> PathGraph:
    """Return a graph without some steps (layer, column, next column)."""
    for layer, a, b in steps:
        graph = graph.without(layer, _one(a), _one(b))
    return graph


def _one(column: int) -> Indices:
    return np.array([column], dtype=np.intp)
