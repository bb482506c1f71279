"""J and e of a task, at one configuration or a batch, and quantities derived from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple._arrays.checks import ReadOnlyArrays, as_doubles, names_of, real_numbers
from supple.errors import InputError, join_names, short_repr
from supple.motion.direction_text import direction_text

Array = NDArray[np.float64]

EPSILON = float(np.finfo(np.float64).eps)
TINY = float(np.finfo(np.float64).tiny)
# Singular values below this fraction of the largest one, and denormal numbers, count as zero.
RANK_FLOOR = 16 * EPSILON
_MAX_LISTED = 6  # maximum number of rows in a repr


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Linearization(ReadOnlyArrays):
    """A task linearized at one configuration or at a batch:  e ≈ J q̇ dt,  or  ẋ = J q̇.

    The class contains everything that damping rules and steps depend on: J, e, the singular value
    decomposition J = U diag(sigma) Vᵀ, computed on first use, and derived quantities.

    Leading axes of J and e are batch axes. A step called with a batch returns q̇ (..., n). Indexing
    a batch (`batch[3]`) returns one linearization or a smaller batch. The arrays of a batch are not
    copied, and float32 stays float32; the arrays of one linearization are copied to float64.

    Attributes:
        J: Task Jacobian (..., m, n).
        e: Task error or velocity (..., m), in the units of J's rows.
        before: The previous linearization, for rules that compare with it; None at the first step
            and for a batch.
        rows: Names of the rows, for example "x of hand"; empty if unnamed.
        q: The configuration (..., n) [rad or m]; None if unknown.
        qd: The joint velocities at q (..., n) [rad/s or m/s]; None if unknown.
        bias_acceleration: J̇q̇ (..., m), the acceleration of the rows at constant q̇; None if unknown.
        effectors: The end effector that each row belongs to (m,), numbered from 0; empty if
            unknown. The position rows and the rotation rows of a task count as two end effectors.
    """

    J: Array
    e: Array
    before: Linearization | None
    rows: tuple[str, ...]
    q: Array | None
    qd: Array | None
    bias_acceleration: Array | None
    effectors: tuple[int, ...]

    def __init__(
        self,
        J: ArrayLike,
        e: ArrayLike,
        before: Linearization | None = None,
        rows: str | Sequence[str] = (),
        q: ArrayLike | None = None,
        qd: ArrayLike | None = None,
        bias_acceleration: ArrayLike | None = None,
        effectors: Sequence[int] = (),
    ) -> None:
        J, e = _numbers(J, "J"), _numbers(e, "e")
        if J.ndim < 2 or 0 in J.shape[-2:] or e.shape != J.shape[:-1]:
            raise InputError(
                "J must be (..., m, n) and e (..., m) with m, n >= 1; "
                f"given: {J.shape} and {e.shape}"
            )
        joints, each = (*J.shape[:-2], J.shape[-1]), {}
        given = {
            "q": (q, joints),
            "qd": (qd, joints),
            "bias_acceleration": (bias_acceleration, e.shape),
        }
        for name, (array, expected) in given.items():
            if array is not None:
                each[name] = array = _numbers(array, name)
                # A configuration is longer than a velocity by one number for each quaternion.
                longer = array.shape[-1:] > expected[-1:] and name == "q"
                if array.shape != expected and not (longer and array.shape[:-1] == expected[:-1]):
                    raise InputError(
                        f"{name} must have shape {expected} to match J; given: {array.shape}"
                    )
        names = rows if type(rows) is tuple else names_of(rows, "rows")
        if names and len(names) != J.shape[-2]:
            raise InputError(f"rows must name {J.shape[-2]} rows; given: {short_repr(names)}")
        if J.ndim > 2:
            single = J.dtype == np.float32 and e.dtype == np.float32
            kind = np.dtype(np.float32 if single else np.float64)
            J, e = _frozen_view(J, kind), _frozen_view(e, kind)
            at = {name: _frozen_view(array, array.dtype) for name, array in each.items()}
        else:
            J, e = _finite_copy(J, "J"), _finite_copy(e, "e")
            at = {name: _finite_copy(array, name) for name, array in each.items()}
        values = {"J": J, "e": e, "before": _previous(before, J), "rows": names}
        values["effectors"] = _effectors(effectors, J.shape[-2])
        for name, value in {**dict.fromkeys(given), **values, **at}.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        (m, n), lead = self.J.shape[-2:], self.batch_shape
        sizes = f"{m} rows, {n} joints"
        if lead:
            names = f": {join_names(self.rows)}" if self.rows else ""
            return f"<Linearization of a batch {lead}, {self.J.dtype}: {sizes}{names}>"
        rows = self.rows or tuple(f"row {i}" for i in range(m))
        entries = [f"{name} {value:.4g}" for name, value in zip(rows, self.e, strict=True)]
        more = [f"and {m - _MAX_LISTED} more"] * (m > _MAX_LISTED)
        return (
            f"<Linearization: {sizes}, singular values {self.sigma_max:.3g} to "
            f"{self.sigma_min:.3g}; e: {', '.join(entries[:_MAX_LISTED] + more)}>"
        )

    def with_e(self, e: ArrayLike) -> Linearization:
        """Return the same task with another e (..., m); a decomposition of J is kept."""
        given = _numbers(e, "e")
        if given.shape != self.e.shape:
            raise InputError(f"e must have shape {self.e.shape}; given: {given.shape}")
        made = self._copy()
        vars(made).pop("gamma", None)
        frozen = _finite_copy(given, "e") if self.J.ndim == 2 else _frozen_view(given, self.e.dtype)
        object.__setattr__(made, "e", frozen)
        return made

    def _copy(self) -> Linearization:
        """Return a shallow copy, faster than `copy.copy`."""
        made = object.__new__(type(self))
        vars(made).update(vars(self))
        return made

    @property
    def velocity(self) -> Array:
        """The velocity of the rows, J q̇ (..., m).

        Raises:
            InputError: The linearization has no q̇.
        """
        if self.qd is None:
            raise InputError("velocity needs q̇, as in linearize(..., qd=...); given: none")
        return _read_only(np.einsum("...ij,...j->...i", self.J, self.qd))

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The batch axes; () for one linearization."""
        return self.J.shape[:-2]

    def single(self) -> Linearization:
        """Return this linearization, or raise an error if it is a batch."""
        if self.J.ndim > 2:
            raise InputError(
                "one linearization is needed; given: a batch of the shape "
                f"{self.batch_shape}. Index it, or call a step or `DLS.lambda2` with it"
            )
        return self

    def __getitem__(self, index: Any) -> Linearization:
        """Return the part of a batch that an index into its batch axes selects."""
        lead, (m, n) = self.batch_shape, self.J.shape[-2:]
        rows = np.arange(math.prod(lead)).reshape(lead)[index]
        parts = {
            name: None if array is None else array.reshape(-1, array.shape[-1])[rows]
            for name in ("q", "qd", "bias_acceleration")
            for array in (getattr(self, name),)
        }
        return Linearization(
            self.J.reshape(-1, m, n)[rows],
            self.e.reshape(-1, m)[rows],
            rows=self.rows,
            effectors=self.effectors,
            **parts,
        )

    @cached_property
    def _svd(self) -> tuple[Array, Array, Array]:
        if self.J.ndim > 2 and not np.isfinite(self.J).all():
            raise InputError("J must be finite; given: a batch with entries that are not finite")
        U, sigma, Vt = np.linalg.svd(self.J, full_matrices=False)
        return _read_only(U), _read_only(sigma), _read_only(Vt.swapaxes(-1, -2))

    @property
    def U(self) -> Array:
        """Left singular vectors (..., m, k), k = min(m, n): directions of the task."""
        return self._svd[0]

    @property
    def sigma(self) -> Array:
        """Singular values (..., k), largest first."""
        return self._svd[1]

    @property
    def V(self) -> Array:
        """Right singular vectors (..., n, k): directions of the joints."""
        return self._svd[2]

    @cached_property
    def gamma(self) -> Array:
        """Components of e along the left singular vectors, Uᵀe (..., k)."""
        if self.J.ndim > 2:
            return _read_only(np.einsum("...ij,...i->...j", self.U, self.e))
        return _read_only(self.U.T @ self.e)

    @property
    def sigma_max(self) -> float:
        """The largest singular value."""
        return float(self.single().sigma[0])

    @property
    def sigma_min(self) -> float:
        """The smallest singular value; zero at a singularity."""
        return float(self.single().sigma[-1])

    @property
    def rank(self) -> int:
        """Number of singular values that are nonzero to working precision."""
        sigma = self.single().sigma
        return int((sigma > max(RANK_FLOOR * sigma[0], TINY)).sum())

    @property
    def manipulability(self) -> float:
        """The product of the singular values: sqrt(det(J Jᵀ)) where m <= n."""
        # Beginning with the smallest, the product never becomes zero times infinity.
        return float(math.prod(self.single().sigma[::-1].tolist()))

    @property
    def condition(self) -> float:
        """The largest singular value divided by the smallest; infinite at a singularity."""
        return math.inf if self.sigma_min == 0 else self.sigma_max / self.sigma_min

    def damped_condition(self, lambda2: ArrayLike) -> Array | float:
        """Return the condition numbers (...) of JᵀJ + λ²I, as `damping.damped_condition` does.

        Args:
            lambda2: λ², one number for all linearizations of a batch, or an array (...).
        """
        m, n = self.J.shape[-2:]
        smallest = self.sigma[..., -1] if m >= n else 0.0
        found = damped_condition(self.sigma[..., 0], smallest, lambda2)
        return found if self.J.ndim > 2 else float(found)

    @property
    def change(self) -> float:
        """Distance of J from the previous J in the Frobenius norm; zero at the first step."""
        before = self.single().before
        return 0.0 if before is None else float(np.linalg.norm(self.J - before.J))

    @property
    def singular_direction(self) -> str:
        """The direction of the task with the smallest singular value (U's last column), as text.

        For example "translation along world x". `supple.explain` reports its singular value and the
        effect of a step on it.
        """
        return direction_text(self.single().U[:, -1], self.rows)


def damped_condition(sigma_max: ArrayLike, sigma_min: ArrayLike, lambda2: ArrayLike) -> Array:
    """Return the condition numbers κ² (...) of JᵀJ + λ²I: bounds on the amplification of errors.

        κ² = (σ₁² + λ²)/(σ_n² + λ²)

    It tends to 1 as λ grows. The stacked matrix [J; λI], which the QR method factors, has the
    condition number κ. If J has fewer rows than columns, σ_n of the n × n matrix JᵀJ is zero. The
    result is infinite if σ_n and λ are zero, but 1 if σ₁ is zero as well. Singular values may be
    estimates.

    Args:
        sigma_max: The largest singular values σ₁ (...), not negative.
        sigma_min: The smallest singular values σ_n (...), not negative; zero if m < n.
        lambda2: λ² (...), not negative.

    References:
        Wampler 1986, eq. (42).
    """
    numbers = {"sigma_max": sigma_max, "sigma_min": sigma_min, "lambda2": lambda2}
    largest, smallest, damping = (numbers_of(x, name) for name, x in numbers.items())
    for name, x in (("sigma_max", largest), ("sigma_min", smallest), ("lambda2", damping)):
        if (x < 0).any():
            raise InputError(f"{name} must not be negative; given: {short_repr(numbers[name])}")
    # Dividing by the largest value prevents overflow of squares, and underflow of all of them.
    scale = np.maximum(np.maximum(largest, smallest), np.sqrt(damping))
    scale = np.where(scale > 0, scale, 1.0)
    damped = (np.sqrt(damping) / scale) ** 2
    above, below = (largest / scale) ** 2 + damped, (smallest / scale) ** 2 + damped
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(above == below, 1.0, above / below))


def numbers_of(given: ArrayLike, name: str) -> Array:
    """Return a read-only float64 copy of an array of finite numbers."""
    return _finite_copy(_numbers(given, name), name)


def _numbers(given: ArrayLike, name: str) -> NDArray[Any]:
    return real_numbers(given, f"{name} must be an array of numbers")


def _finite_copy(array: NDArray[Any], name: str) -> Array:
    doubles = as_doubles(array)
    if not np.isfinite(doubles).all():
        raise InputError(f"{name} must be finite; given: {short_repr(array)}")
    return _read_only(doubles)


def _previous(before: object, J: Array) -> Linearization | None:
    """Return a copy of `before` without its own `before`, so that no chain of steps grows."""
    if before is None:
        return None
    if J.ndim > 2:
        raise InputError(f"before must be None for a batch; given: {short_repr(before)}")
    if not isinstance(before, Linearization) or before.J.shape != J.shape:
        shape = before.J.shape if isinstance(before, Linearization) else short_repr(before)
        raise InputError(
            f"before must be a linearization with a J of shape {J.shape}; given: {shape}"
        )
    before = before._copy()
    object.__setattr__(before, "before", None)
    return before


def _effectors(given: object, rows: int) -> tuple[int, ...]:
    """Return the end effector of each row after checking it."""
    each = tuple(given) if isinstance(given, Sequence) else (None,)
    if not each:
        return ()
    if any(type(one) is not int or not 0 <= one < rows for one in each) or len(each) != rows:
        raise InputError(
            f"effectors must be {rows} integers from 0 to {rows - 1}; given: {short_repr(given)}"
        )
    return each


def joined_effectors(parts: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the end effectors of the stacked rows of several tasks, numbered consecutively."""
    joined: list[int] = []
    for part in parts:
        first = max(joined, default=-1) + 1
        joined += [first + one for one in part]
    return tuple(joined)


def _frozen_view(array: NDArray[Any], dtype: Any) -> Array:
    """Return a read-only, contiguous view of an array, or a copy if a view is not possible."""
    with np.errstate(over="ignore"):  # the kernel reports entries that become infinite
        return _read_only(np.ascontiguousarray(array, dtype).view())


def _read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array


def stacked(parts: Sequence[Linearization]) -> Linearization:
    """Stack the rows of several linearizations of the same robot into one linearization."""
    if not parts:
        raise InputError("at least one linearization is needed; given: none")
    columns = {part.J.shape[1] for part in parts}
    if len(columns) > 1:
        counts = sorted(columns)
        raise InputError(f"every J must have the same number of columns; given: {counts}")
    before = [part.before for part in parts if part.before is not None]
    named = all(part.rows for part in parts)
    bias = (part.bias_acceleration for part in parts)
    biases = [one for one in bias if one is not None]
    return Linearization(
        J=np.concatenate([part.J for part in parts]),
        e=np.concatenate([part.e for part in parts]),
        before=stacked(before) if len(before) == len(parts) else None,
        rows=tuple(row for part in parts for row in part.rows) if named else (),
        q=next((part.q for part in parts if part.q is not None), None),
        qd=next((part.qd for part in parts if part.qd is not None), None),
        bias_acceleration=np.concatenate(biases) if len(biases) == len(parts) else None,
        effectors=joined_effectors([part.effectors for part in parts])
        if all(part.effectors for part in parts)
        else (),
    )
