"""Conversion between configurations of a robot with frozen joints and of the full robot."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from supple._arrays.checks import FloatArray, coordinates, like


@dataclass(frozen=True)
class FullConfiguration:
    """The joints of a robot before some of them were frozen.

    Attributes:
        names: Names of the N positions, as in `Robot.position_names`.
        frozen: The frozen positions [rad or m], by name.
    """

    names: tuple[str, ...]
    frozen: dict[str, float]

    @cached_property
    def _free(self) -> list[int]:
        """Indices of the n positions that are not frozen, in ascending order."""
        return [i for i, name in enumerate(self.names) if name not in self.frozen]

    @cached_property
    def _fixed(self) -> list[int]:
        """Indices of the frozen positions, in the order of `frozen`."""
        return [self.names.index(name) for name in self.frozen]

    def full(self, q: ArrayLike) -> FloatArray:
        """Convert reduced configurations (..., n) to full ones (..., N)."""
        at = coordinates(q, len(self._free), "q")
        full = np.empty((*at.shape[:-1], len(self.names)), at.dtype)
        full[..., self._free] = at
        full[..., self._fixed] = list(self.frozen.values())
        return like(q, full)  # type: ignore[no-any-return]

    def reduced(self, q: ArrayLike) -> FloatArray:
        """Convert full configurations (..., N) to reduced ones (..., n)."""
        at = coordinates(q, len(self.names), "q")
        return like(q, at[..., self._free])  # type: ignore[no-any-return]
