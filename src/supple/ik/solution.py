"""What a solve came to."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from supple.control.trajectory import Status
from supple.ik.report import SolveReport
from supple.motion.linearization import Array

STATUS = tuple(Status)  # by value
_LISTED = 20  # answers, in words


class Solution(NamedTuple):
    """A configuration that meets a target, or comes closest; of a batch, arrays of them.

    Everything is measured again in double precision at the q that is returned. `str()` of it is a
    sentence. A tuple, for it is made in a tenth of the time that other objects take: so it is
    always true in a condition, and `success` is what to ask. Of targets in a GPU's
    memory all are arrays there (`GpuArray`), and nothing has been waited for.

    Attributes:
        q: Coordinates (..., n) [rad or m], inside the limits; (s, n) if several were asked for.
        status: A `Status`; of a batch its values (...), int8.
        position_error: The largest of all tasks [m]; infinite where nothing was solved.
        rotation_error: Likewise [rad].
        iterations: Of the search.
        restarts: Starts beyond the first; those that ran side by side are counted.
        story: How it went, in words, where `explain` was asked for; else None.
    """

    q: Array
    status: Status | NDArray[np.int8]
    position_error: float | Array
    rotation_error: float | Array
    iterations: int | NDArray[np.int32]
    restarts: int | NDArray[np.int32]
    story: SolveReport | None = None

    @property
    def success(self) -> bool | NDArray[np.bool_]:
        """Where a target is met within the tolerances."""
        return self.status == Status.CONVERGED

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self)

    def __str__(self) -> str:
        if isinstance(self.status, Status):
            return _sentence(self)
        if _elsewhere(self.status):
            return f"{math.prod(self.status.shape)} targets, solved in a GPU's memory"
        counts = [(status, int((self.status == status).sum())) for status in Status]
        lines = [f"{self.status.size} targets"]
        lines += [f"  {n:>6} {s.name.lower()}: {s.sentence}" for s, n in counts if n]
        return "\n".join(lines)


class Answers(Solution):
    """Several answers to one target, best first: q (s, n) and arrays (s,)."""

    __slots__ = ()

    def __str__(self) -> str:
        count = int(np.sum(self.success))
        lines = [f"{count} answer{'s' * (count != 1)} to one target"]
        for i in range(min(len(self.q), _LISTED)):
            one = Solution(*(part[i] for part in self[:6]))  # type: ignore[index]
            lines.append(f"  {_sentence(one._replace(status=STATUS[int(one.status)]))}")
        more = len(self.q) - _LISTED
        return "\n".join(lines + [f"  and {more} more"] * (more > 0))


def _elsewhere(status: object) -> bool:
    """Whether numbers are in a GPU's memory."""
    return not isinstance(status, np.ndarray)


def _sentence(found: Solution) -> str:
    position, rotation = float(found.position_error), float(found.rotation_error)
    if found.status == Status.CONVERGED:
        errors = f"{_scaled(position, 'm')}, {_scaled(rotation, 'rad')}"
        return f"converged in {found.iterations} iterations, {errors}"
    away = f"{1e3 * position:.1f} mm and {1e3 * rotation:.1f} mrad away"
    if found.status == Status.UNREACHABLE:
        return f"unreachable: the closest pose found is {away}"
    return f"timeout: the best pose so far is {away}"


def _scaled(value: float, unit: str) -> str:
    """A small number with a prefix: 3 µm."""
    for size, prefix in ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"), (1e-12, "p")):
        if value >= size:
            return f"{value / size:.0f} {prefix}{unit}"
    return f"0 {unit}"
