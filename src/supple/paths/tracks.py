"""Tracks of sampled solutions along a path, for tasks with infinitely many solutions.

A solution is tracked by damped least squares, which slides along the limits of the joints. Tracks
start at the first target. If no track reaches the end of the path, tracks also start at the last
target, at the middle target, and wherever the farthest track ends.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np

from supple.kinematics.configuration import difference
from supple.motion.linearization import Array
from supple.paths.graph import Indices, Part, PathGraph
from supple.paths.layers import MAX_SEEDS, Layers
from supple.paths.problem import PathProblem

TRACK_STEPS = 32  # number of steps in which sampled solutions are tracked, before refinement
SAMPLED_SOLUTIONS = 48  # number of solutions that are sampled at one target
_JOIN_DISTANCE = 0.05  # distance, in units of the joints, at which a track continues another one
_MAX_HALVINGS = 2  # maximum number of times that a step of a track is halved


def coarse(count: int) -> Indices:
    """Return the targets (L,) at which solutions of a path of `count` targets are sampled."""
    if not count:
        return np.empty(0, dtype=np.intp)
    return np.unique(np.linspace(0, count - 1, min(TRACK_STEPS, count - 1) + 1).astype(int))


def tracks(path: PathProblem, x: Array, samples: Mapping[int, Array]) -> PathGraph:
    """Return the tracks of sampled configurations, one in each column.

    Args:
        path: The path.
        x: Places of the layers (L,).
        samples: Configurations (K, n) by the index of the layer that they are at.
    """
    columns = [np.empty((len(x), 0, path.robot.nq))]
    columns += [_both_ways(path, x, at, q) for at, q in samples.items()]
    return PathGraph(x, np.concatenate(columns, axis=1), None, path.cost, path.turning)


def _both_ways(path: PathProblem, x: Array, at: int, q: Array) -> Array:
    """Return the tracks (L, K, n) of configurations (K, n) at layer `at`, forward and backward."""
    made = np.full((len(x), *q.shape), np.nan)
    for way in (slice(at, None, -1), slice(at, None)):
        made[way] = path.tracked(q, path.course(x[None, way], _MAX_HALVINGS), _MAX_HALVINGS)
    return made


def continued(path: PathProblem, graph: PathGraph, layers: Indices) -> PathGraph:
    """Return the tracks of a graph at other layers (L,); leading layers that agree are copied."""
    x = path.targets.x[layers]
    shared = int(np.logical_and.accumulate(np.isin(x, graph.x)).sum())
    q = np.full((len(x), *graph.q.shape[1:]), np.nan)
    q[:shared] = graph.q[:shared]
    last = np.isfinite(q[shared - 1, :, 0])
    course = path.course(x[None, shared - 1 :], _MAX_HALVINGS)
    q[shared - 1 :, last] = path.tracked(q[shared - 1, last], course, _MAX_HALVINGS)
    return replace(graph, x=x, q=q)


class Tracks(Layers):
    """Tracks of sampled solutions, for tasks whose solutions are found by a search."""

    def __init__(self, path: PathProblem, start: Array | None) -> None:
        self.path, self.start, self.origins, self.shortened = path, start, [0], False
        count = len(path.targets.x)
        self.samples: dict[int, Array] = {}
        self.tracks: dict[int, Array] = {}  # from each origin, in the layers `tracked_in`
        self.tracked_in = np.empty(0, dtype=np.intp)
        if not len(self._samples(0)) and self.loosened(0):
            self.samples.clear()
        if not len(self._samples(0)):
            count = 0
        layers = coarse(count)
        super().__init__(self.path, start, layers, self._graph(layers))

    def improved(self, parts: list[Part]) -> bool:
        """Shorten the path to its part in reach, once; then take more tracks or smaller steps.

        Returns whether anything has changed.
        """
        if not self.shortened:
            self.shortened = True
            last = int(parts[-1].layers[-1])
            inside = self.in_reach(last, self.graph.q[last, parts[-1].columns[-1]])
            if inside[-1] + 1 < self.count:
                self._end_at(int(inside[-1]))
                return True
        layers, origins = self.layers, list(self.origins)
        if len(origins) == 1:
            self.origins = [0, self.count - 1, int(layers[len(layers) // 2])]
        else:
            for part in parts:
                end, _ = self.graph.farthest(int(part.layers[0]), int(part.columns[0]))
                if end == len(self.layers) - 1:
                    continue
                between = np.arange(self.layers[end], self.layers[end + 1] + 1)
                if len(between) > 2:
                    layers = np.union1d(layers, between)
                elif int(between[0]) not in self.origins:
                    self.origins.append(int(between[0]))
            if len(layers) == len(self.layers) and self.origins == origins:
                return False
        self.layers, self.graph = layers, self._graph(layers)
        return True

    def cut(self, part: Part, x: float) -> None:
        """End the path at x if the next target is out of reach, or remove the step there."""
        last = self.ending(part, x)
        if last is None:
            super().cut(part, x)
        else:
            self._end_at(last)

    def _end_at(self, last: int) -> None:
        """End the path at target `last`; continue the tracks from the first target to it."""
        self.count = last + 1
        self.layers = self.tracked_in = np.union1d(self.layers[self.layers < last], [last])
        self.origins = [each for each in self.origins if each <= last]
        self.graph = continued(self.path, self.graph, self.layers)
        self.tracks = {0: self.graph.q}

    def _samples(self, at: int) -> Array:
        """Return sampled solutions (K, n) of a target."""
        if at == 0 and self.start is not None:
            return self.start[None]
        if at not in self.samples:
            self.samples[at] = self.path.searched(at, SAMPLED_SOLUTIONS, MAX_SEEDS if at else 0)
        return self.samples[at]

    def _graph(self, layers: Indices) -> PathGraph:
        """Return the tracks from all origins, one in each column."""
        x = self.path.targets.x[layers]
        if not np.array_equal(layers, self.tracked_in):
            self.tracks = {each: self._with_layers(each, layers) for each in self.tracks}
            self.tracked_in = layers
        for each in self.origins if len(layers) else []:
            if each not in self.tracks:
                at = int(np.searchsorted(layers, each))
                self.tracks[each] = _both_ways(self.path, x, at, self._samples(each))
        none = np.empty((len(x), 0, self.path.robot.nq))
        q = np.concatenate([none, *self.tracks.values()], axis=1)
        return PathGraph(x, q, None, self.path.cost, self.path.turning)

    def _with_layers(self, origin: int, layers: Indices) -> Array:
        """Return the tracks (L, K, n) from an origin in more layers.

        The configurations are tracked again through the new layers. If a track then arrives at
        another configuration than before, it is also tracked again beyond these layers.
        """
        q, at = self.tracks[origin], np.searchsorted(layers, self.tracked_in)
        made = np.full((len(layers), *q.shape[1:]), np.nan)
        made[at] = q
        first = int(np.searchsorted(layers, origin))
        x = self.path.targets.x[layers]
        for way in (1, -1):  # away from the origin, forward and backward
            for begin, end in pairwise(at[::way].tolist()):
                if (begin - first) * way < 0 or abs(end - begin) == 1:
                    continue
                own = np.isfinite(made[begin, :, 0])
                inner, rest = (slice(k, stop, way) for k, stop in ((begin, end), (end, None)))
                places = np.append(x[inner], x[end])
                then = self.path.tracked(
                    made[begin, own], self.path.course(places[None], _MAX_HALVINGS), _MAX_HALVINGS
                )
                made[inner, own] = then[:-1]
                away = difference(self.path.robot, then[-1], made[end, own]) / self.path.units
                other = ~(np.abs(away).max(axis=1) < _JOIN_DISTANCE)
                course = self.path.course(x[None, rest], _MAX_HALVINGS)
                made[rest, np.nonzero(own)[0][other]] = self.path.tracked(
                    then[-1, other], course, _MAX_HALVINGS
                )
        return made
