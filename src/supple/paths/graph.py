"""The route with the fewest reconfigurations through configurations along a path.

A graph has layers: the known configurations at successive places of a path. From one layer to the
next the robot takes a continuous step; within a layer it may change its configuration: a
reconfiguration. The route with the fewest reconfigurations, and the least cost among these, is
found by dynamic programming (src/core/drivers/route.hpp).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple.kinematics import Robot
from supple.kinematics.configuration import unwound
from supple.motion.linearization import Array

Indices = NDArray[np.intp]


class Part(NamedTuple):
    """A continuous part of a route: successive layers (K,), and the column in each of them (K,)."""

    layers: Indices
    columns: Indices


class Cost(NamedTuple):
    """The cost of routes, which is minimized among routes with equally few reconfigurations.

    The cost is the joint motion (the sum of absolute displacements), or the mean of a cost of
    configurations (K, n) -> (K,).

    Attributes:
        of: The cost of configurations; None for the joint motion.
        turns: 2π for each joint whose 2π wraps are chosen later, else 0 (n,); None if displacements
            are final.
        units: Units of the joints in the joint motion (n,) [rad or m]; None if all are 1.
    """

    of: Callable[[Array], Array] | None = None
    turns: Array | None = None
    units: Array | None = None


@dataclass(frozen=True, eq=False)
class PathGraph:
    """Configurations in layers, and the continuous steps between successive layers.

    Attributes:
        x: Path parameter of each layer (L,).
        q: Configurations (L, P, n) [rad or m]; NaN where a layer has fewer than P.
        steps: For each layer but the last, the columns in which its steps begin and the columns of
            the next layer in which they end. None if every step stays in its column.
        cost: Cost of the steps and reconfigurations.
        robot: The robot, if a joint has a quaternion. The joint motion is then that of rotation
            vectors, which do not jump at half turns along a column.
    """

    x: Array
    q: Array
    steps: Sequence[tuple[Indices, Indices]] | None
    cost: Cost
    robot: Robot | None = None

    @cached_property
    def weights(self) -> Array | None:
        """The costs of the configurations (L, P); None if the cost is the joint motion alone."""
        if self.cost.of is None:
            return None
        made, there = np.full(self.q.shape[:2], np.nan), np.isfinite(self.q[..., 0])
        made[there] = self.cost.of(self.q[there])
        return made

    @cached_property
    def routes(self) -> _core.Routes:
        """The routes through the graph."""
        n = self.q.shape[2] if self.robot is None else self.robot.nv
        turns = np.zeros(n) if self.cost.turns is None else self.cost.turns
        units = np.ones(n) if self.cost.units is None else self.cost.units
        q = np.ascontiguousarray(self.q if self.robot is None else unwound(self.robot, self.q))
        made = _core.Routes(x=self.x, q=q, weights=self.weights, turns=turns, units=units)
        if self.steps is not None:
            ends = np.cumsum([len(a) for a, _ in self.steps], dtype=np.int32)
            a, b = (
                np.concatenate([np.empty(0), *(step[k] for step in self.steps)]) for k in (0, 1)
            )
            made.set_steps(ends, a.astype(np.int32), b.astype(np.int32))
        return made

    def with_near_steps(self, reach: Array) -> PathGraph:
        """Return the graph with steps on which no joint moves as far as its reach (n,)."""
        ends, a, b = (each.astype(np.intp) for each in self.routes.near_steps(reach))
        each = pairwise([0, *ends.tolist()])
        return replace(self, steps=[(a[i:j], b[i:j]) for i, j in each])

    def farthest(self, layer: int, column: int) -> tuple[int, int]:
        """Return the layer and column of the last configuration that continuous steps reach."""
        return self.routes.farthest(layer, column)

    def without(self, layer: int, a: Indices, b: Indices) -> PathGraph:
        """Return the graph without the steps from columns a of a layer to columns b of the next."""
        if self.steps is not None:
            steps = list(self.steps)
            before, after = steps[layer]
            keep = ~(np.isin(before, a) & np.isin(after, b))
            steps[layer] = before[keep], after[keep]
            return replace(self, steps=steps)
        columns = np.intersect1d(a, b)
        rest = np.full((self.q.shape[0], len(columns), self.q.shape[2]), np.nan)
        rest[layer + 1 :] = self.q[layer + 1 :, columns]
        q = np.concatenate([self.q, rest], axis=1)
        q[layer + 1 :, columns] = np.nan
        return replace(self, q=q)


def fewest_changes(graph: PathGraph, begin: Indices) -> list[Part]:
    """Return the parts of the route with the fewest reconfigurations.

    Among routes with equally few reconfigurations, the result has the least cost. It begins in the
    first layer and ends in the last layer, or before the first layer without configurations.

    Args:
        graph: Configurations along the path.
        begin: Columns of the first layer (K,) in which the route may begin; K >= 1.
    """
    parts = graph.routes.fewest_changes(begin.tolist())
    return [Part(np.arange(i, i + len(own)), own.astype(np.intp)) for i, own in parts]
