"""The configurations among which a path is searched, as layers of a graph.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from supple.kinematics.configuration import difference
from supple.motion.linearization import Array
from supple.paths.graph import Indices, Part, PathGraph
from supple.paths.problem import PathProblem, Track

SEEDS = 256  # number of seeds after which a target without a known solution is out of reach
_SAME = 1e-4  # distance, in units of the joints, of configurations that count as equal


class Layers(ABC):
    """Configurations along a path, as layers of a graph.

    Attributes:
        path: The path.
        start: Configuration at the first target (n,); None for any configuration.
        layers: Index of the target of each layer (L,).
        graph: The configurations and the steps between them.
        count: Number of targets before the first one that is out of reach.
        exact: Index of the first target that only solutions with larger errors reach; None if
            there is none.
    """

    count: int
    exact: int | None = None

    def __init__(
        self, path: PathProblem, start: Array | None, layers: Indices, graph: PathGraph
    ) -> None:
        self.path, self.start, self.layers, self.graph = path, start, layers, graph
        self.count = int(layers[-1]) + 1 if len(layers) else 0

    @property
    def begin(self) -> Indices:
        """The columns of the first layer in which a route may begin."""
        first = np.isfinite(self.graph.q[0, :, 0])
        if self.start is not None:
            away = np.abs(
                difference(self.path.robot, self.graph.q[0], self.start) / self.path.units
            ).max(axis=1)
            first &= away < _SAME
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
        self.graph = self.graph.without(layer, before, after)

    def _equal(self, layer: int, column: int) -> Indices:
        """Return the columns of a layer whose configurations equal that of a column."""
        q = self.graph.q[layer]
        away = np.abs(difference(self.path.robot, q, q[column]) / self.path.units)
        return np.nonzero(away.max(axis=1) < _SAME)[0]

    def searched(self, at: int, seeds: int) -> Array:
        """Return a solution (1, n) of a target that a search finds, or none (0, n).

        Errors may become larger (`loosened`).
        """
        closest = self.path.closest(at)  # fewer seeds suffice if it is within the tolerances
        if self.loosened(at):
            closest = self.path.closest(at)
        return closest.q if closest.success[0] else self.path.searched(at, 1, seeds)

    def loosened(self, at: int) -> bool:
        """Allow larger errors of solutions if only then a target has any; return whether it has.

        The configurations that are known remain solutions.
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
            parts: The route with the fewest changes so far.
        """
