"""The configurations among which a path is searched, as layers of a graph.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from supple.kinematics.configuration import difference
from supple.motion.linearization import Array
from supple.paths.graph import Indices, Part, PathGraph
from supple.paths.obstacles import without_steps
from supple.paths.problem import PathProblem, Track

MAX_SEEDS = 256  # number of seeds after which a target without a known solution is out of reach
FIRST_SEEDS = 16  # number of first tracks; also of seeds that decide whether a target is in reach
AT_ONCE = 8  # number of targets in each batch of the search for the first one out of reach
_EQUAL_DISTANCE = 1e-4  # distance, in units of the joints, of configurations that count as equal


class Layers(ABC):
    """Configurations along a path, as layers of a graph.

    Attributes:
        path: The path.
        start: Configuration at the first target (n,); None for any configuration.
        layers: Index of the target of each layer (L,).
        count: Number of targets before the first one that is out of reach.
        exact: Index of the first target that only solutions with larger errors reach; None if
            there is none.
    """

    count: int
    exact: int | None = None
    is_free = False  # whether configurations of new graphs are known to keep the clearance

    def __init__(
        self, path: PathProblem, start: Array | None, layers: Indices, graph: PathGraph
    ) -> None:
        self.path, self.start, self.layers, self.graph = path, start, layers, graph
        self.count = int(layers[-1]) + 1 if len(layers) else 0
        self.passed: set[int] = set()  # targets whose reach `ending` has tested

    @property
    def graph(self) -> PathGraph:
        """The configurations that keep the clearance, and the steps between them."""
        return self._graph_of_layers

    @graph.setter
    def graph(self, graph: PathGraph) -> None:
        obstacles = None if self.is_free else self.path.obstacles
        self._graph_of_layers = graph if obstacles is None else obstacles.free_graph(graph)

    def without_collisions(self, parts: list[Part]) -> bool:
        """Remove the steps of a route that collide on the way; return whether there were any."""
        if self.path.obstacles is None or self.is_free:
            return False
        found = self.path.obstacles.colliding_steps(self.graph, parts)
        self._graph_of_layers = without_steps(self.graph, found)
        return bool(found)

    @property
    def begin(self) -> Indices:
        """The columns of the first layer in which a route may begin."""
        first = np.isfinite(self.graph.q[0, :, 0])
        if self.start is not None:
            away = np.abs(
                difference(self.path.robot, self.graph.q[0], self.start) / self.path.units
            ).max(axis=1)
            first &= away < _EQUAL_DISTANCE
        return np.nonzero(first)[0]

    def track(self, part: Part) -> Track:
        """Return the configurations of a part of a route."""
        return Track(self.graph.x[part.layers], self.graph.q[part.layers, part.columns])

    def cut(self, part: Part, x: float) -> None:
        """Remove from a part the step between the two layers on either side of the parameter x.

        Equal steps of other columns are removed as well: tracks that slide along joint limits often
        meet, and would leave the path at the same place.
        """
        i = int(np.searchsorted(self.graph.x[part.layers], x, side="right")) - 1
        i = min(i, len(part.layers) - 2)
        layer = int(part.layers[i])
        before, after = (self._equal(layer + k, int(part.columns[i + k])) for k in (0, 1))
        self._graph_of_layers = self.graph.without(layer, before, after)

    def _equal(self, layer: int, column: int) -> Indices:
        """Return the columns of a layer with the same configuration as a given column."""
        q = self.graph.q[layer]
        away = np.abs(difference(self.path.robot, q, q[column]) / self.path.units)
        return np.nonzero(away.max(axis=1) < _EQUAL_DISTANCE)[0]

    def ending(self, part: Part, x: float) -> int | None:
        """Return the last target at or before x if the next one is out of reach, else None.

        The reach of each target is tested only once.
        """
        at = int(np.searchsorted(self.path.targets.x, x, side="right"))
        if at in self.passed or at >= self.count:
            return None
        self.passed.add(at)
        i = int(np.searchsorted(self.layers[part.layers], at)) - 1
        q = self.graph.q[part.layers[i], part.columns[i]]
        return None if self.first_out_of_reach(np.array([at]), q)[0] else at - 1

    def in_reach(self, reached: int, q: Array) -> Indices:
        """Return the layers in reach, plus the last target before the first one out of reach.

        Args:
            reached: Index of a layer that a route reaches.
            q: The configuration of this route there (n,).
        """
        layers, end = self.layers, reached
        while end + 1 < len(layers):
            between = np.arange(layers[end] + 1, layers[end + 1] + 1)
            inside, q = self.first_out_of_reach(between, q)
            if inside < len(between):
                return np.append(layers[: end + 1], between[inside - 1 : inside])
            more, q = self.first_out_of_reach(layers[end + 2 :], q, few=True)
            end += 1 + more
        return layers

    def first_out_of_reach(self, at: Indices, q: Array, few: bool = False) -> tuple[int, Array]:
        """Return the index in `at` of the first target out of reach, or `len(at)`.

        The second result is the configuration (n,) found for the target before the returned one:
        the given `q` if the first target of `at` is out of reach. Near the end of the reach, a
        search from that configuration often succeeds where a few random seeds do not.

        Args:
            at: Targets (K,).
            q: Configuration at the target before the first of `at` (n,).
            few: Whether few seeds decide; otherwise a search from more seeds follows.
        """
        for begin in range(0, len(at), AT_ONCE):
            part = at[begin : begin + AT_ONCE]
            found, good = self.path.found(part, FIRST_SEEDS)
            for i, target in enumerate(part.tolist()):
                if not good[i]:
                    near, there = self.path.near(self.path.targets.x[[target]], q[None])
                    if not there[0] and not few:
                        near = self.searched(target, MAX_SEEDS)
                        there = np.ones(len(near), dtype=np.bool_)
                    if not there.any():
                        return begin + i, q
                    found[i] = near[0]
                q = found[i]
        return len(at), q

    def searched(self, at: int, seeds: int) -> Array:
        """Return a solution (1, n) of a target that a search finds, or none (0, n).

        Errors may become larger (`loosened`).
        """
        closest = self.path.closest(at)  # takes fewer seeds, which suffice if it succeeds
        if self.loosened(at):
            closest = self.path.closest(at)
        known = closest.success[0] and self.path.obstacles is None
        return closest.q if known else self.path.searched(at, 1, seeds)

    def loosened(self, at: int) -> bool:
        """Return whether a target has solutions only with larger errors; if so, allow such errors.

        The configurations that are already known remain solutions.
        """
        looser = self.path.loosened(at)
        if looser is None:
            return False
        self.path, self.exact = looser, at
        return True

    @abstractmethod
    def improved(self, parts: list[Part]) -> bool:
        """Add configurations or steps where a route changes or ends; return whether any were added.

        Args:
            parts: The route with the fewest reconfigurations in the present graph.
        """
