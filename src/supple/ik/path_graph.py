"""The route with the fewest reconfigurations through configurations along a path.

A graph has layers: the known configurations at successive places of a path. From one layer to the
next the robot takes a continuous step; within a layer it may change its configuration (a
reconfiguration, or change). The route with the fewest changes, and the least cost among these, is
found by dynamic programming: round k computes the least cost of every configuration that can be
reached with k changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from supple.motion.linearization import Array

Indices = NDArray[np.intp]


class Part(NamedTuple):
    """A continuous part of a route: successive layers (K,), and the column in each of them (K,)."""

    layers: Indices
    columns: Indices


class Cost(NamedTuple):
    """The cost of routes, which is minimized among routes with equally few changes.

    It is the joint motion (the sum of absolute displacements), or the mean of a cost of
    configurations (K, n) -> (K,).

    Attributes:
        of: The cost of configurations; None for the joint motion.
        wrapped: Function that removes full turns from displacements, if 2π wraps are chosen later;
            None if displacements are final.
    """

    of: Callable[[Array], Array] | None = None
    wrapped: Callable[[Array], Array] | None = None

    def motion(self, change: Array) -> Array:
        """Return the joint motion (...) of displacements (..., n)."""
        plain = change if self.wrapped is None else self.wrapped(change)
        return np.asarray(np.abs(plain).sum(axis=-1))


@dataclass(frozen=True, eq=False)
class PathGraph:
    """Configurations in layers, and the continuous steps between successive layers.

    Attributes:
        x: Places on the path of the layers (L,).
        q: Configurations (L, P, n) [rad or m]; NaN where a layer has fewer than P.
        steps: For each of the L - 1 intervals, the columns where its steps begin and end. None if
            each column is a continuous curve over an interval of layers: a branch.
        cost: Cost of the steps and changes.
    """

    x: Array
    q: Array
    steps: Sequence[tuple[Indices, Indices]] | None
    cost: Cost

    @cached_property
    def weights(self) -> Array | None:
        """The costs of the configurations (L, P); None for the joint motion."""
        if self.cost.of is None:
            return None
        made, there = np.full(self.q.shape[:2], np.nan), np.isfinite(self.q[..., 0])
        made[there] = self.cost.of(self.q[there])
        return made

    def lengths(self, i: Indices | np.intp, a: Indices, b: Indices) -> Array:
        """Return the costs (...) of steps from column a of layer i to column b of layer i + 1."""
        if self.weights is None:
            return self.cost.motion(self.q[i + 1, b] - self.q[i, a])
        mean = (self.weights[i, a] + self.weights[i + 1, b]) / 2
        return np.asarray(mean * (self.x[i + 1] - self.x[i]))

    def continued(self, entry: Array) -> tuple[Array, Indices]:
        """Return the costs (L, P) of configurations that are reached without a change.

        The second array (L, P) has the column of the previous layer on the cheapest route, or -1
        where this route begins.

        Args:
            entry: Costs (L, P) of beginning a route in each configuration; infinite if impossible.
        """
        cost, came = entry.copy(), np.full(entry.shape, -1)
        if self.steps is None:
            own = np.arange(entry.shape[1])
            length = self.lengths(np.arange(len(self.x) - 1)[:, None], own, own)
            total = np.zeros(entry.shape)
            np.cumsum(np.where(np.isfinite(length), length, 0), axis=0, out=total[1:])
            least = np.minimum.accumulate(entry - total, axis=0)
            cost = np.where(np.isfinite(self.q[..., 0]), least + total, np.inf)
            later = least[1:] == least[:-1]
            came[1:] = np.where(later & np.isfinite(cost[1:]), own, -1)
            return cost, came
        for i, (a, b) in enumerate(self.steps):
            alive = np.isfinite(cost[i, a])
            a, b = a[alive], b[alive]
            if not len(a):
                continue
            through = cost[i, a] + self.lengths(np.intp(i), a, b)
            order = np.lexsort((through, b))
            first = np.append(True, np.diff(b[order]) > 0)
            a, b, through = a[order][first], b[order][first], through[order][first]
            better = through < cost[i + 1, b]
            cost[i + 1, b[better]], came[i + 1, b[better]] = through[better], a[better]
        return cost, came

    def closed(self) -> NDArray[np.bool_]:
        """Return a mask (L - 1,) of the intervals that no continuous step crosses."""
        if self.steps is not None:
            return np.array([not len(a) for a, _ in self.steps], dtype=bool)
        there = np.isfinite(self.q[..., 0])
        return np.asarray(~(there[1:] & there[:-1]).any(axis=1))

    def changed(
        self, cost: Array, known: NDArray[np.bool_]
    ) -> tuple[Array, tuple[Indices, Indices]]:
        """Return the costs (L, P) after one more reconfiguration, and the node before it.

        A node is given by its layer and its column. A reconfiguration crosses an interval only if
        no continuous step crosses it.

        Args:
            cost: Costs before this reconfiguration (L, P).
            known: Mask (L, P) of configurations that fewer reconfigurations reach; these are not
                considered again.
        """
        entry = np.full(cost.shape, np.inf)
        layer, column = np.full(cost.shape, -1), np.full(cost.shape, -1)
        closed = np.append(self.closed(), False)
        reached, there = np.isfinite(cost), np.isfinite(self.q[..., 0])
        for i in np.nonzero(reached.any(axis=1))[0]:
            u = np.nonzero(reached[i])[0]
            for to in (i, i + 1) if closed[i] else (i,):
                v = np.nonzero(there[to] & ~known[to])[0]
                if not len(v):
                    continue
                total = np.repeat(cost[i, u][:, None], len(v), axis=1)
                if self.cost.of is None:
                    total += self.cost.motion(self.q[to, v] - self.q[i, u][:, None])
                best = total.argmin(axis=0)
                made = total[best, np.arange(len(v))]
                better = made < entry[to, v]
                entry[to, v[better]] = made[better]
                layer[to, v[better]], column[to, v[better]] = i, u[best[better]]
        return entry, (layer, column)

    def farthest(self, layer: int, column: int) -> tuple[int, int]:
        """Return the layer and column of the last configuration reachable from a given one."""
        entry = np.full(self.q.shape[:2], np.inf)
        entry[layer, column] = 0.0
        last, cost = _last(self.continued(entry)[0])
        return last, int(cost.argmin())

    def without(self, layer: int, a: int, b: int) -> PathGraph:
        """Return the graph without the step from column a of a layer to column b of the next."""
        if self.steps is not None:
            steps = list(self.steps)
            before, after = steps[layer]
            keep = (before != a) | (after != b)
            steps[layer] = before[keep], after[keep]
            return replace(self, steps=steps)
        rest = np.full((*self.q.shape[:1], 1, *self.q.shape[2:]), np.nan)
        rest[layer + 1 :, 0] = self.q[layer + 1 :, a]
        q = np.concatenate([self.q, rest], axis=1)
        q[layer + 1 :, a] = np.nan
        return replace(self, q=q)


def fewest_changes(graph: PathGraph, begin: Indices) -> list[Part]:
    """Return the parts of the route with the fewest changes, from the first layer to the last.

    Among routes with equally few changes, it is the one of least cost. It ends before the last
    layer if the next layer has no configuration.

    Args:
        graph: Configurations along the path.
        begin: Columns of the first layer (K,) in which the route may begin; K >= 1.
    """
    entry = np.full(graph.q.shape[:2], np.inf)
    entry[0, begin] = 0.0
    origins: list[tuple[Indices, Indices]] = []
    rounds: list[Indices] = []
    known = np.zeros(entry.shape, dtype=bool)
    while True:
        cost, came = graph.continued(entry)
        rounds.append(came)
        known |= np.isfinite(cost)
        if np.isfinite(cost[-1]).any():
            last, final = len(cost) - 1, cost[-1]
            break
        entry, origin = graph.changed(cost, known)
        if not np.isfinite(entry).any():
            last, final = _last(cost)
            break
        origins.append(origin)
    i, p = last, int(final.argmin())
    parts: list[Part] = []
    while True:
        came = rounds[len(origins)]
        columns = [p]
        while came[i, p] >= 0:
            p = int(came[i, p])
            i -= 1
            columns.append(p)
        parts.append(Part(np.arange(i, i + len(columns)), np.array(columns[::-1])))
        if not origins:
            return parts[::-1]
        layer, column = origins.pop()
        i, p = int(layer[i, p]), int(column[i, p])


def _last(cost: Array) -> tuple[int, Array]:
    """Return the last layer with a finite cost, and the costs (P,) there."""
    last = int(np.nonzero(np.isfinite(cost).any(axis=1))[0][-1])
    return last, cost[last]
