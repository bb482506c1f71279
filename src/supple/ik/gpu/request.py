"""The arguments of a search on a GPU."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from supple.ik.gpu.world import GpuCheck


class Request(ctypes.Structure):
    """Mirrors `Request` of problem.hpp: the same members in the same order."""

    _fields_ = (
        *(
            (name, ctypes.c_void_p)
            for name in (
                "target",
                "q0",
                "table",
                "packed",
                "seeds",
                "reach",
                "q",
                "outcome",
                "error",
                "effort",
                "near",
                "aim",
                "rough",
                "left",
                "counter",
            )
        ),
        ("position", ctypes.c_double),
        ("rotation", ctypes.c_double),
        ("rough_position", ctypes.c_float),
        ("rough_rotation", ctypes.c_float),
        ("count", ctypes.c_int),
        ("entries", ctypes.c_int),
        ("directions", ctypes.c_int),
        ("probes", ctypes.c_int),
        ("max_seeds", ctypes.c_int),
        ("q0_stride", ctypes.c_int),
        ("nearest", ctypes.c_int),
        ("max_solutions", ctypes.c_int),
        ("tries", ctypes.c_int),
        ("solutions", ctypes.c_void_p),
        *((name, ctypes.c_void_p) for name in ("world", "joint", "still", "blocked", "before")),
        ("clearance", ctypes.c_double),
        ("max_rejected", ctypes.c_int),
    )


class SolutionPointers(ctypes.Structure):
    """Mirrors `SolutionArrays` of policy.hpp: the same members in the same order."""

    _fields_ = (
        ("capacity", ctypes.c_int),
        *((name, ctypes.c_void_p) for name in ("q", "outcome", "error", "effort", "found")),
    )

    @classmethod
    def among(cls, at: dict[str, int], capacity: int = 1) -> SolutionPointers:
        """Return pointers to arrays with room for `capacity` solutions, given their addresses."""
        names = ("q", "outcome", "error", "effort", "solutions")
        return cls(capacity, *(at.get(name) or None for name in names))


@dataclass(frozen=True)
class SearchOptions:
    """Options of a search.

    Attributes:
        position: Position tolerance [m].
        rotation: Rotation tolerance [rad].
        max_seeds: Maximum number of seeds of a target; 0 for the default.
        nearest: Whether the solution nearest to q0 is returned.
        max_solutions: Maximum number of distinct solutions of a target.
        check: The clearance that solutions must keep; None without a world.
        order: The preference by which the solutions are sorted, one of `ranking.COSTS`; None if
            they stay in the order in which they were found.
        kept: Number of solutions that are kept after sorting; 0 for all.
    """

    position: float
    rotation: float
    max_seeds: int
    nearest: bool = False
    max_solutions: int = 1
    check: GpuCheck | None = None
    order: str | None = None
    kept: int = 0

    @property
    def rows(self) -> int:
        """Number of solutions of a target for which the results have room."""
        return self.kept if self.order is not None and self.kept else self.max_solutions

    @property
    def several(self) -> bool:
        """Whether several solutions are compared, instead of returning the first."""
        return self.nearest or self.max_solutions > 1
