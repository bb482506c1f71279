"""Sampled self-motion along a path, for arms of seven joints.

A few solutions of the first target are tracked, then also some of the last and the middle one. If
no track spans the path, all solutions at some targets are computed for each value of a grid of one
joint. Steps lead to solutions of the next layer at the same or a neighboring value.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from supple import _core
from supple.ik.branches.arms import RedundantArm
from supple.kinematics.configuration import integrate_coordinate
from supple.motion.linearization import Array
from supple.paths.graph import Indices, Part, PathGraph
from supple.paths.layers import FIRST_SEEDS, MAX_SEEDS, Layers
from supple.paths.problem import MAX_JUMP, PathProblem, Track
from supple.paths.tracks import coarse, continued, tracks

# Distance, in units of the joints, below which a solution is not a new one.
_MIN_SOLUTION_DISTANCE = 0.05


class SelfMotion(Layers):
    """Solutions on a grid of one joint of an arm of seven joints."""

    def __init__(self, path: PathProblem, start: Array | None) -> None:
        assert isinstance(path.arm, RedundantArm)
        self.path, self.start, self.arm = path, start, path.arm
        self.known: dict[int, Array] = {}
        self.shortened = self.tracked = self.sampled = self.widened = False
        layers = coarse(len(path.targets.x))
        self._solve(layers[:1])
        layers = layers if self._first_empty(layers[:1], MAX_SEEDS) else layers[:0]
        tracks = self._tracks(layers, [0][: len(layers)], FIRST_SEEDS)
        super().__init__(self.path, start, layers, tracks)

    def track(self, part: Part) -> Track:
        """Return the configurations of a part of a route, with 2π wraps inside the limits.

        Steps lead to the nearest wraps, so a joint may leave its limits along the way. With the
        wraps that are chosen, it stays inside as long as possible.
        """
        track = super().track(part)
        q = self.path.unwound(track.q)
        robot = self.path.robot
        for j in np.nonzero(self.path.turns)[0]:
            free = self.start is None or part.layers[0] > 0
            turns = 2 * np.pi * np.array([0, -1, 1] if free else [0])[:, None]
            moved = integrate_coordinate(q[:, j], turns)
            inside = (robot.lower[j] <= moved) & (moved <= robot.upper[j])
            q[:, j] = moved[np.logical_and.accumulate(inside, axis=1).sum(axis=1).argmax()]
        return track._replace(q=q)

    def improved(self, parts: list[Part]) -> bool:
        """Add more tracks, the grid, layers where parts end, or solutions at joint limits."""
        if not self.shortened:
            self.shortened = True
            last = int(parts[-1].layers[-1])
            layers = self.in_reach(last, self.graph.q[last, parts[-1].columns[-1]])
            if layers[-1] + 1 < self.count:
                self._end(layers)
                return True
        if not self.tracked:
            self.tracked = True
            last = len(self.layers) - 1
            others = self._tracks(self.layers, sorted({last // 2, last} - {0}), FIRST_SEEDS)
            every = np.concatenate([self.graph.q, others.q], axis=1)
            self.graph = PathGraph(others.x, every, None, self.path.cost)
            return True
        layers = self.layers
        if not self.sampled:
            self.sampled = True
            self._solve(layers)
            for at, q in zip(layers.tolist(), self.graph.q, strict=True):
                more = self._apart(q[np.isfinite(q[:, 0])], self.known[at])
                self.known[at] = np.concatenate([self.known[at], more])
        else:
            for part in parts:
                end, _ = self.graph.farthest(int(part.layers[0]), int(part.columns[0]))
                if end < len(self.layers) - 1:
                    between = np.arange(self.layers[end], self.layers[end + 1] + 1)
                    layers = np.union1d(layers, between)
            if len(layers) == len(self.layers):
                if self.widened:
                    return False
                self._widen(layers)
            layers = self._solved(layers)
        self.layers, self.graph = layers, self._grid(layers)
        return True

    def cut(self, part: Part, x: float) -> None:
        """End the path at x, add layers at the targets on either side, or remove the step there."""
        last = None if self.sampled else self.ending(part, x)
        i = int(np.searchsorted(self.path.targets.x, x, side="right"))
        layers = np.union1d(self.layers, [i - 1, min(i, self.count - 1)])
        if last is not None:
            self._end(np.union1d(self.layers[self.layers < last], [last]))
        elif not self.sampled or len(layers) == len(self.layers):
            super().cut(part, x)
        else:
            self.layers = self._solved(layers)
            self.graph = self._grid(self.layers)

    def _end(self, layers: Indices) -> None:
        """End the path at the last of some layers, and continue the tracks to it."""
        self.layers, self.count = layers, int(layers[-1]) + 1
        self.graph = continued(self.path, self.graph, layers)

    def _solved(self, layers: Indices) -> Indices:
        """Return the layers before the first one without solutions, where the path then ends."""
        self._solve(layers)
        layers = layers[: self._first_empty(layers, MAX_SEEDS)]
        self.count = min(self.count, int(layers[-1]) + 1)
        return layers

    def _first_empty(self, layers: Indices, seeds: int) -> int:
        """Return the index in `layers` of the first target out of reach, or `len(layers)`.

        A target without a known solution is searched for from `seeds` seeds.
        """
        before = None
        for i, at in enumerate(layers.tolist()):
            if not len(self.known[at]) and before is not None:
                x = self.path.targets.x[None, [before, at]]
                self.known[at] = self._slid(self.known[before], self.path.course(x, 0))
            if not len(self.known[at]) and seeds:
                self.known[at] = self.searched(at, seeds)
            if not len(self.known[at]):
                return i
            before = at
        return len(layers)

    def _slid(self, q: Array, course: Array) -> Array:
        """Return the solutions that one step of damped least squares leads to from q (K, n)."""
        then = self.path.tracked(q, course, 0)[1]
        return np.asarray(then[np.isfinite(then[:, 0])])

    def _apart(self, q: Array, known: Array) -> Array:
        """Return the configurations (K, n) that differ from each other and from known ones."""
        units = self.path.units
        return q[_core.apart(q / units, known / units, self.path.turns, _MIN_SOLUTION_DISTANCE)]

    def _solve(self, layers: Indices) -> None:
        """Compute the solutions of the targets in `layers` whose solutions are not known."""
        new = np.array([at for at in layers.tolist() if at not in self.known], dtype=np.intp)
        if not len(new):
            return
        path = self.path
        found = self.arm.solve(path.problem, path.targets.numbers[new], None, path.spec)
        ends = np.cumsum(found[4])
        for at, end, count in zip(new.tolist(), ends, found[4], strict=True):
            self.known[at] = self._free(at, found[0][end - count : end])

    def _free(self, at: int, q: Array) -> Array:
        """Return the solutions that keep the clearance; if there are none, search for others."""
        if self.path.obstacles is None or not len(q):
            return q
        free = q[self.path.obstacles.check.free(q)]
        return free if len(free) else self.path.searched(at, FIRST_SEEDS, MAX_SEEDS)

    def _widen(self, layers: Indices) -> None:
        """Add solutions at and near joint limits, which lie between the values of the grid.

        From solutions without a step to the next layer, or to the one before, damped least squares
        slides along the limits until it meets known solutions.
        """
        self.widened = True
        x, there = self.path.targets.x[layers], np.isfinite(self.graph.q[..., 0])
        ahead, behind = there.copy(), there.copy()  # configurations without a step
        for i, (leaving, arriving) in enumerate(self.graph.steps or []):
            ahead[i, leaving] = behind[i + 1, arriving] = False
        for way, stuck in ((1, ahead), (-1, behind)):
            order = np.arange(len(layers))[::way]
            courses = self.path.course(np.stack([x[order[:-1]], x[order[1:]]], axis=1), 0)
            fresh = self.graph.q[0, :0]
            for course, (before, at) in zip(courses, pairwise(order.tolist()), strict=True):
                start = np.concatenate([self.graph.q[before, stuck[before]], fresh])
                if len(start):
                    known = self.known[int(layers[at])]
                    fresh = self._apart(self._slid(start, course[None]), known)
                    self.known[int(layers[at])] = np.concatenate([known, fresh])

    def _tracks(self, layers: Indices, origins: list[int], most: int) -> PathGraph:
        """Return the tracks of up to `most` solutions of some layers, one in each column."""
        samples = {}
        self._solve(layers[origins])
        for origin in origins:
            every = self.known[int(layers[origin])]
            samples[origin] = every[:: -(-len(every) // most)] if len(every) else every
        if self.start is not None and 0 in samples:
            samples[0] = self.start[None]
        return tracks(self.path, self.path.targets.x[layers], samples)

    def _grid(self, layers: Indices) -> PathGraph:
        """Return the solutions of all layers, with steps between neighboring values of the grid."""
        path, dof = self.path, self.path.robot.dof
        nodes = [self.known[at] for at in layers.tolist()]
        if self.start is not None:
            nodes[0] = self.start[None]
        counts = np.array([len(each) for each in nodes])
        q = np.full((len(layers), counts.max(), dof), np.nan)
        q[np.arange(q.shape[1]) < counts[:, None]] = np.concatenate(nodes)
        reach = MAX_JUMP * path.units
        reach[self.arm.coordinate] = 1.5 * (self.arm.values[1] - self.arm.values[0])
        cost = path.cost._replace(turns=path.turns)
        return PathGraph(path.targets.x[layers], q, None, cost).with_near_steps(reach)
