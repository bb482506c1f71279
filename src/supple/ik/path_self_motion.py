"""Sampled self-motion along a path, for arms of seven joints.

At some targets (the layers), all solutions are computed for each value of a grid of one joint.
Steps lead to solutions of the next layer at the same or a neighboring value. Tracks of a few
solutions of the first target are tried before the grid, because their curves are smoother.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from supple.ik.arms import RedundantArm
from supple.ik.path_graph import Indices, Part, PathGraph
from supple.ik.path_layers import Layers
from supple.ik.path_problem import JUMP, PathProblem, Track
from supple.ik.path_tracks import FEW, coarse, tracked
from supple.motion.linearization import Array

_SLIDING = 32  # number of solutions at or near joint limits that are added to a layer
_APART = 0.05  # distance between such solutions below which only one is added [rad or m]
_SEEDS = 256  # number of seeds after which a target without a known solution is out of reach


class SelfMotion(Layers):
    """Solutions on a grid of one joint of an arm of seven joints."""

    def __init__(self, path: PathProblem, start: Array | None) -> None:
        assert isinstance(path.arm, RedundantArm)
        self.path, self.start, self.arm = path, start, path.arm
        self.known: dict[int, Array] = {}
        self.widened = False
        layers = self._reachable(coarse(len(path.targets.x)))
        self.sampled = bool(len(layers)) and layers[-1] < len(path.targets.x) - 1
        graph = self._grid(layers) if self.sampled or not len(layers) else self._tracks(layers)
        super().__init__(path, start, layers, graph)

    def track(self, part: Part) -> Track:
        """Return the configurations of a part of a route, with 2π wraps inside the limits."""
        track = super().track(part)
        q = track.q[0] + np.append(
            np.zeros((1, track.q.shape[1])),
            np.cumsum(self.path.wrapped(np.diff(track.q, axis=0)), axis=0),
            axis=0,
        )
        robot = self.path.robot
        for j in np.nonzero(self.path.turns)[0]:
            for shift in 2 * np.pi * np.array([0, -1, 1]):
                moved = q[:, j] + shift
                kept = self.start is None or abs(shift) == 0 or part.layers[0] > 0
                if kept and (robot.lower[j] <= moved).all() and (moved <= robot.upper[j]).all():
                    q[:, j] = moved
                    break
        return track._replace(q=q)

    def improved(self, parts: list[Part]) -> bool:
        """Replace tracks by the grid, or add layers where parts end, or solutions at limits."""
        layers = self.layers
        if self.sampled:
            for part in parts:
                end, _ = self.graph.farthest(int(part.layers[0]), int(part.columns[0]))
                if end < len(self.layers) - 1:
                    between = np.arange(self.layers[end], self.layers[end + 1] + 1)
                    layers = np.union1d(layers, between)
            if len(layers) == len(self.layers):
                if self.widened:
                    return False
                self._widen(layers)
            self._solve(layers)
            layers = layers[: self._first_empty(layers)]
            self.count = min(self.count, int(layers[-1]) + 1)
        self.sampled = True
        self.layers, self.graph = layers, self._grid(layers)
        return True

    def _reachable(self, layers: Indices) -> Indices:
        """Return the layers before the first target out of reach.

        All targets from the last of these layers up to that target are added as layers.
        """
        self._solve(layers)
        end = self._first_empty(layers)
        if end == len(layers):
            return layers
        if end == 0:
            return layers[:0]
        between = np.arange(layers[end - 1] + 1, layers[end] + 1)
        self._solve(between)
        last = between[: self._first_empty(between)]
        return np.append(layers[:end], last)

    def _first_empty(self, layers: Indices) -> int:
        """Return the index in `layers` of the first target out of reach, or `len(layers)`."""
        before = None
        for i, at in enumerate(layers.tolist()):
            if not len(self.known[at]):
                near = np.empty((0, self.path.robot.dof)) if before is None else self.known[before]
                then, good = self.path.near(np.full(len(near), self.path.targets.x[at]), near)
                self.known[at] = then[good & (np.abs(then - near).max(axis=1, initial=0) < JUMP)]
            if not len(self.known[at]):
                self.known[at] = self.path.searched(at, 1, _SEEDS)
            if not len(self.known[at]):
                return i
            before = at
        return len(layers)

    def _solve(self, layers: Indices) -> None:
        """Compute the solutions of the targets in `layers` whose solutions are not known."""
        new = np.array([at for at in layers.tolist() if at not in self.known], dtype=np.intp)
        if not len(new):
            return
        path = self.path
        found = self.arm.solve(path.problem, path.targets.numbers[new], None, path.spec)
        ends = np.cumsum(found[4])
        for at, end, count in zip(new.tolist(), ends, found[4], strict=True):
            self.known[at] = found[0][end - count : end]

    def _widen(self, layers: Indices) -> None:
        """Add solutions at and near joint limits, which lie between the values of the grid.

        Damped least squares slides along the limits from the solutions of one layer to the next.
        """
        self.widened = True
        path, robot = self.path, self.path.robot
        for order in (layers, layers[::-1]):
            for before, at in pairwise(order.tolist()):
                q = self.known[before]
                then, good = path.near(np.full(len(q), path.targets.x[at]), q)
                then = then[good & (np.abs(then - q).max(axis=1) < JUMP)]
                room = np.minimum(then - robot.lower, robot.upper - then).min(axis=1)
                then = then[np.argsort(room, kind="stable")]
                _, first = np.unique(np.rint(then / _APART), axis=0, return_index=True)
                more = then[np.sort(first)[:_SLIDING]]
                self.known[at] = np.concatenate([self.known[at], more])

    def _tracks(self, layers: Indices) -> PathGraph:
        """Return the tracks of a few solutions of the first target, one in each column."""
        x = self.path.targets.x[layers]
        first = self.known[0] if self.start is None else self.start[None]
        few = first[:: max(1, len(first) // FEW)]
        return PathGraph(x, tracked(self.path, few, x), None, self.path.cost)

    def _grid(self, layers: Indices) -> PathGraph:
        """Return the solutions of all layers, with steps between neighboring values of the grid."""
        path, dof = self.path, self.path.robot.dof
        self._solve(layers)
        nodes = [self.known[at] for at in layers.tolist()]
        if self.start is not None and len(nodes):
            nodes[0] = self.start[None]
        counts = np.array([len(each) for each in nodes], dtype=np.intp)
        flat = np.concatenate([np.empty((0, dof)), *nodes])
        layer = np.repeat(np.arange(len(layers)), counts)
        column = np.arange(len(flat)) - np.repeat(np.cumsum(counts) - counts, counts)
        q = np.full((len(layers), max(1, int(counts.max(initial=0))), dof), np.nan)
        q[layer, column] = flat
        values, joint = self.arm.values, self.arm.coordinate
        value = np.rint((flat[:, joint] - values[0]) / (values[1] - values[0])).astype(np.intp)
        cyclic = bool(path.turns[joint])
        value = value % len(values) if cyclic else np.clip(value, -1, len(values)) + 2
        size = len(values) if cyclic else len(values) + 4
        pairs = []
        key = layer * size + value
        order = np.argsort(key, kind="stable")
        for shift in (-1, 0, 1):
            to = value + shift
            goal = (layer + 1) * size + (to % size if cyclic else to)
            first = np.searchsorted(key[order], goal, side="left")
            count = np.searchsorted(key[order], goal, side="right") - first
            a = np.repeat(np.arange(len(flat)), count)
            within = np.arange(len(a)) - np.repeat(np.cumsum(count) - count, count)
            pairs.append(np.stack([a, order[np.repeat(first, count) + within]]))
        a, b = np.concatenate(pairs, axis=1)
        near = np.abs(path.wrapped(flat[b] - flat[a])).max(axis=1, initial=0.0) < JUMP
        a, b = a[near], b[near]
        order = np.argsort(layer[a], kind="stable")
        a, b = a[order], b[order]
        ends = np.searchsorted(layer[a], np.arange(len(layers)))
        steps = [(column[a[i:j]], column[b[i:j]]) for i, j in pairwise(ends)]
        cost = path.cost._replace(wrapped=path.wrapped)
        return PathGraph(path.targets.x[layers], q, steps, cost)
