"""J and e at one configuration, and what they tell on demand."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.errors import InputError, short_repr
from supple.kinematics.arrays import ReadOnlyArrays, as_doubles, names_of, real_numbers
from supple.motion.words import in_words

Array = NDArray[np.float64]

EPSILON = float(np.finfo(np.float64).eps)
TINY = float(np.finfo(np.float64).tiny)
RANK_FLOOR = 16 * EPSILON  # a singular value is zero if it is not above this times the largest,
# or not a normal number


@dataclass(frozen=True, eq=False)
class Linearization(ReadOnlyArrays):
    """A task near one configuration:  e ≈ J q̇ dt,  or  ẋ = J q̇.

    Everything that damping rules and steps look at: the singular value decomposition
    J = U diag(sigma) Vᵀ, computed when first asked for, and what follows from it.

    Attributes:
        J: Task Jacobian (m, n).
        e: Task error or velocity (m,), in the units of J's rows.
        before: The linearization one step before, for the rules that compare; None at the start.
        rows: A name for each row, as "x of hand"; empty if there are none.
        q: The configuration (n,) it was made at [rad or m]; None if it is not known.
    """

    J: Array
    e: Array
    before: Linearization | None = None
    rows: tuple[str, ...] = ()
    q: Array | None = None

    def __post_init__(self) -> None:
        J, e = numbers_of(self.J, "J"), numbers_of(self.e, "e")
        if J.ndim != 2 or 0 in J.shape or e.shape != J.shape[:1]:
            raise InputError(
                f"J must be (m, n) and e (m,) with m, n >= 1; given: {J.shape} and {e.shape}"
            )
        if type(self.rows) is not tuple:
            object.__setattr__(self, "rows", names_of(self.rows, "rows"))
        if self.rows and len(self.rows) != len(e):
            raise InputError(f"rows must name {len(e)} rows; given: {short_repr(self.rows)}")
        q = None if self.q is None else numbers_of(self.q, "q")
        if q is not None and q.shape != J.shape[1:]:
            raise InputError(f"q must be {J.shape[1:]}, as J has columns; given: {q.shape}")
        before: object = self.before
        if before is not None:
            shape = before.J.shape if isinstance(before, Linearization) else None
            if shape != J.shape:
                said = f"before must be a linearization with a J of shape {J.shape}"
                raise InputError(f"{said}; given: {short_repr(shape or before)}")
            # What came before that is not kept: a chain of them would never end.
            before = copy.copy(before)
            object.__setattr__(before, "before", None)
        for name, value in (("J", J), ("e", e), ("before", before), ("q", q)):
            object.__setattr__(self, name, value)

    @cached_property
    def _svd(self) -> tuple[Array, Array, Array]:
        U, sigma, Vt = np.linalg.svd(self.J, full_matrices=False)
        return _read_only(U), _read_only(sigma), _read_only(Vt.T)

    @property
    def U(self) -> Array:
        """Left singular vectors (m, k), k = min(m, n): directions of the task."""
        return self._svd[0]

    @property
    def sigma(self) -> Array:
        """Singular values (k,), largest first."""
        return self._svd[1]

    @property
    def V(self) -> Array:
        """Right singular vectors (n, k): directions of the joints."""
        return self._svd[2]

    @cached_property
    def gamma(self) -> Array:
        """Components of e along the left singular vectors (k,): Uᵀe."""
        return _read_only(self.U.T @ self.e)

    @property
    def sigma_min(self) -> float:
        """The smallest singular value; zero at a singularity."""
        return float(self.sigma[-1])

    @property
    def rank(self) -> int:
        """How many singular values are not zero to working precision."""
        return int((self.sigma > max(RANK_FLOOR * self.sigma[0], TINY)).sum())

    @property
    def manipulability(self) -> float:
        """The product of the singular values: sqrt(det(J Jᵀ)) where m <= n."""
        # The smallest first: zero times infinity cannot be.
        return float(math.prod(self.sigma[::-1].tolist()))

    @property
    def condition(self) -> float:
        """The largest singular value over the smallest; infinite at a singularity."""
        return math.inf if self.sigma_min == 0 else float(self.sigma[0]) / self.sigma_min

    @property
    def change(self) -> float:
        """How far J is from the one before, in the Frobenius norm; zero at the start."""
        return 0.0 if self.before is None else float(np.linalg.norm(self.J - self.before.J))

    @property
    def lost_direction(self) -> str:
        """In words, the direction of the task that the robot can do least: U's last column.

        As "translation along world x"; `supple.explain` says how nearly it is lost.
        """
        return in_words(self.U[:, -1], self.rows)


def numbers_of(given: ArrayLike, name: str) -> Array:
    """A copy of what was given as an array of finite numbers that cannot be written to."""
    array = as_doubles(real_numbers(given, f"{name} must be an array of numbers"))
    if not np.isfinite(array).all():
        raise InputError(f"{name} must be finite; given: {short_repr(given)}")
    return _read_only(array)


def _read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array


def stacked(parts: Sequence[Linearization]) -> Linearization:
    """Several tasks of the same robot as one: rows below each other."""
    if not parts:
        raise InputError("at least one linearization is needed; given: none")
    columns = {part.J.shape[1] for part in parts}
    if len(columns) > 1:
        raise InputError(f"every J must have the same columns; given: {sorted(columns)}")
    before = [part.before for part in parts if part.before is not None]
    named = all(part.rows for part in parts)
    return Linearization(
        J=np.concatenate([part.J for part in parts]),
        e=np.concatenate([part.e for part in parts]),
        before=stacked(before) if len(before) == len(parts) else None,
        rows=tuple(row for part in parts for row in part.rows) if named else (),
        q=next((part.q for part in parts if part.q is not None), None),
    )
