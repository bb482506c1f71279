"""Time-optimal motion along a path, under limits of speed, acceleration and jerk.

The path q(s) is traversed by s = σ(u), where σ' vanishes at both ends like u (acceleration limits)
or u² (jerk limits). A motion from rest to rest then has a finite, nonzero u̇ everywhere, and its
square b(u) is a spline whose coefficients are optimized (`src/core/drivers/timing.hpp`).

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple.control.spline import Spline
from supple.motion.linearization import Array

CELLS = 300  # least number of cells of b(u)
RAMP = 0.25  # fraction of u in which the motion starts from rest, and in which it stops
_STEEPEST = 30.0  # largest slope of log b(u) in the initial guess of the optimization
_FINE = 1.004  # value of `_excess` above which a cell is divided
_ROUNDS = 14  # maximum number of divisions
_CHECKS = np.array([0.0, 0.25, 0.5, 0.75, 1.0])  # where limits are verified, from 0 to 1 in a cell
_MARGIN = 1e-9  # relative distance that is kept from the limits, larger than rounding errors


class Bounds(NamedTuple):
    """Limits that apply along a path; infinite for quantities without a limit.

    Attributes:
        speed: Joint speed limits (n,) [rad/s or m/s].
        acceleration: Joint acceleration limits (n,).
        jerk: Joint jerk limits (n,).
        norm: Bound on the norm of all joint speeds.
        tool: Function of q and q̇ (K, n): the speed of the tool divided by its limit (K,).
    """

    speed: Array
    acceleration: Array
    jerk: Array
    norm: float = np.inf
    tool: Callable[[Array, Array], Array] | None = None

    def speeds(self, q: Array, qd: Array) -> Array:
        """Return the largest ratio (K,) of a speed to its limit, at q (K, n) with q̇ (K, n)."""
        worst = np.maximum(
            np.abs(qd / self.speed).max(axis=1), np.linalg.norm(qd, axis=1) / self.norm
        )
        return np.asarray(worst if self.tool is None else np.maximum(worst, self.tool(q, qd)))


@dataclass(frozen=True, eq=False)
class TimeLaw:
    """The motion of a path parameter u from rest to rest; in each cell, u̇² is quadratic in u.

    Attributes:
        spline: The path q(s).
        grading: The map from u to s.
        u: Ends of the cells (M + 1,), from 0 to 1.
        piece: Piece of the spline in which each cell lies (M,).
        squared: Coefficients of u̇² in each cell (M, 3), in powers of u - u[i], lowest first.
        t: Times at the ends of the cells (M + 1,) [s].
    """

    spline: Spline
    grading: Grading
    u: Array
    piece: NDArray[np.intp]
    squared: Array
    t: Array

    @property
    def duration(self) -> float:
        """Duration of the motion [s]."""
        return float(self.t[-1])

    def at(self, t: Array) -> tuple[Array, Array, Array, Array]:
        """Return q, q̇, q̈ and the third derivative (K, n) at times (K,)."""
        cell = np.clip(np.searchsorted(self.t, t, side="right") - 1, 0, len(self.piece) - 1)
        x = _travelled(self.squared[cell], t - self.t[cell])
        x = np.clip(x, 0, self.u[cell + 1] - self.u[cell])
        return self.state(cell, x)

    def state(self, cell: NDArray[np.intp], x: Array) -> tuple[Array, Array, Array, Array]:
        """Return q and its first three time derivatives at u[cell] + x."""
        q, q1, q2, q3 = _in_u(self.spline, self.grading, self.u[cell] + x, self.piece[cell])
        b, b1, b2 = (each[:, None] for each in _values(self.squared[cell], x))
        rate = np.sqrt(np.maximum(b, 0))
        return (
            q,
            q1 * rate,
            q2 * b + q1 * b1 / 2,
            (q3 * b + 1.5 * q2 * b1 + 0.5 * q1 * b2) * rate,
        )


def time_law(spline: Spline, bounds: Bounds) -> TimeLaw:
    """Return the fastest motion along a path, from rest to rest."""
    jerky, accelerated = (
        bool(np.isfinite(each).any()) for each in (bounds.jerk, bounds.acceleration)
    )
    grading = Grading(float(spline.s[0]), float(spline.s[-1]), 3 if jerky else 1 + accelerated)
    u, piece = _cells(spline, grading)
    for _ in range(_ROUNDS):
        squared = _squared_speed(spline, grading, u, piece, bounds, jerky)
        law = TimeLaw(spline, grading, u, piece, squared, np.zeros(len(u)))
        excess = _excess(law, bounds)
        if excess.max() <= _FINE:
            break
        u, piece = _divided(u, piece, excess > _FINE)
    squared = law.squared / (excess.max() * (1 + _MARGIN))
    t = np.concatenate([[0.0], np.cumsum(_durations(squared, np.diff(law.u)))])
    return replace(law, squared=squared, t=t)


def _squared_speed(
    spline: Spline, grading: Grading, u: Array, piece: NDArray[np.intp], bounds: Bounds, jerky: bool
) -> Array:
    """Return coefficients (M, 3) of the largest u̇² that keeps the limits at the ends of cells."""
    degree, cells, h = 2 if jerky else 1, len(piece), np.diff(u)
    cell, x = np.repeat(np.arange(cells), 2), np.stack([0 * h, h], 1).ravel()
    q, q1, q2, q3 = _in_u(spline, grading, u[cell] + x, piece[cell])
    slow = bounds.speeds(q, q1) ** 2
    first, basis = _basis(u, cell, x, degree)
    n = q1.shape[1]
    acceleration = np.stack([q1, q2], -1) / bounds.acceleration[:, None]
    jerk = np.stack([q1, q2, q3], -1) / bounds.jerk[:, None] if jerky else None
    need = np.maximum(slow, np.abs(acceleration[..., 1]).max(axis=1))
    if jerk is not None:
        need = np.maximum(need, np.cbrt(np.abs(jerk[..., 2]).max(axis=1)) ** 2)
    c = _core.squared_speed(
        first=first.tolist(),
        basis=basis.reshape(len(x), -1),
        weight=np.repeat(h / 2, 2),
        speed=slow,
        acceleration=np.ascontiguousarray(acceleration.reshape(len(x), 2 * n)),
        jerk=None if jerk is None else np.ascontiguousarray(jerk.reshape(len(x), 3 * n)),
        start=_start(u, need.reshape(cells, 2).max(axis=1), degree),
        joints=n,
        degree=degree,
    )
    own = c[first[::2, None] + np.arange(degree + 1)]
    return np.asarray(np.einsum("idk,ik->id", basis[::2], own) * [1, 1, 0.5])


# ---- from u to the path --------------------------------------------------------------------------


@dataclass(frozen=True)
class Grading:
    """The map s = σ(u) of [0, 1] onto [first, last]; near an end, σ' ~ (distance)^(order - 1)."""

    first: float
    last: float
    order: int

    def __call__(self, u: Array) -> tuple[Array, Array, Array, Array]:
        """Return σ, σ', σ'' and σ''' at u."""
        if self.order == 1:
            one, zero = np.full_like(u, self.last - self.first), np.zeros_like(u)
            return self.first + one * u, one, zero, zero
        begin, end = u < RAMP, u > 1 - RAMP
        x = np.where(begin, u, np.where(end, 1 - u, RAMP)) / RAMP
        area, g, g1, g2 = _ramp(x, self.order)
        whole = _ramp(np.ones(1), self.order)[0][0]
        k = (self.last - self.first) / (2 * RAMP * whole + 1 - 2 * RAMP)
        far = self.last - k * RAMP * area
        s = np.where(end, far, self.first + k * (RAMP * area + np.where(begin, 0, u - RAMP)))
        side, ramp = np.where(end, -1, 1), begin | end
        return (
            s,
            k * g,
            np.where(ramp, k * side * g1 / RAMP, 0),
            np.where(ramp, k * g2, 0) / RAMP**2,
        )

    def inverse(self, s: Array) -> Array:
        """Return u for each s, by bisection in the ramps, where σ' may vanish."""
        if self.order == 1:
            return np.asarray((s - self.first) / (self.last - self.first))
        begin, end = (float(self(np.array([u]))[0][0]) for u in (RAMP, 1 - RAMP))
        made = RAMP + (s - begin) * ((1 - 2 * RAMP) / (end - begin))
        for there, low, high in ((s < begin, 0.0, RAMP), (s > end, 1 - RAMP, 1.0)):
            least, most = np.full(there.sum(), low), np.full(there.sum(), high)
            for _ in range(50):
                middle = (least + most) / 2
                above = self(middle)[0] > s[there]
                least, most = np.where(above, least, middle), np.where(above, middle, most)
            made[there] = (least + most) / 2
        return made


def _ramp(x: Array, order: int) -> tuple[Array, Array, Array, Array]:
    """Return ∫g, g, g' and g'' at x, where g(0) = 0, g(1) = 1 and g'(1) = 0."""
    if order == 2:
        return x * x * (1 - x / 3), x * (2 - x), 2 - 2 * x, np.full_like(x, -2.0)
    return (
        x**3 * (2 - 2 * x + 0.6 * x * x),
        x * x * (6 - 8 * x + 3 * x * x),
        12 * x * (1 - x) ** 2,
        12 * (1 - x) * (1 - 3 * x),
    )


def _cells(spline: Spline, grading: Grading) -> tuple[Array, NDArray[np.intp]]:
    """Divide the pieces of a spline into cells.

    Returns:
        Ends of the cells in u (M + 1,), and the index of the piece that contains each cell (M,).
    """
    ends = grading.inverse(spline.s)
    ends[0], ends[-1] = 0.0, 1.0
    parts = np.maximum(1, np.ceil(np.diff(ends) * CELLS - 1e-9)).astype(int)
    piece = np.repeat(np.arange(len(parts)), parts)
    rank = np.arange(len(piece)) - np.repeat(np.cumsum(parts) - parts, parts)
    u = ends[piece] + np.diff(ends)[piece] * rank / parts[piece]
    return np.append(u, 1.0), piece


def _in_u(
    spline: Spline, grading: Grading, u: Array, piece: NDArray[np.intp]
) -> tuple[Array, Array, Array, Array]:
    """Return q (K, n) and its first three derivatives with respect to u, each (K, n)."""
    s, *rates = grading(u)
    s1, s2, s3 = (each[:, None] for each in rates)
    q, q1, q2, q3 = spline.derivatives(s, piece)
    return (
        q,
        q1 * s1,
        q2 * s1**2 + q1 * s2,
        q3 * s1**3 + 3 * q2 * s1 * s2 + q1 * s3,
    )


# ---- the spline of u̇² ----------------------------------------------------------------------------


def _basis(
    u: Array, cell: NDArray[np.intp], x: Array, degree: int
) -> tuple[NDArray[np.intp], Array]:
    """Return the B-splines that are not zero in given cells.

    Returns:
        Index (K,) of the first coefficient that each point depends on, and the contributions of
        the coefficients to b, b' and b'' at each point (K, 3, degree + 1). A quadratic spline is
        linear in the first and the last cell, where nothing else would determine its curvature.
    """
    made = np.zeros((len(x), 3, degree + 1))
    h = u[cell + 1] - u[cell]
    y = h - x
    if degree == 1:
        made[:, 0] = np.stack([y, x], -1) / h[:, None]
        made[:, 1] = np.stack([-1 / h, 1 / h], -1)
        return cell, made
    before = h + u[cell] - u[np.maximum(cell - 1, 0)]
    after = h + u[np.minimum(cell + 2, len(u) - 1)] - u[cell + 1]
    for row, (left, right) in enumerate(
        [
            (y * y / (before * h), x * x / (after * h)),
            (-2 * y / (before * h), 2 * x / (after * h)),
            (2 / (before * h), 2 / (after * h)),
        ]
    ):
        made[:, row] = np.stack([left, (row == 0) - left - right, right], -1)
    # b'' = 0 at the ends eliminates the first and the last coefficient
    for there, out in ((cell == 0, 0), (cell == len(u) - 2, 2)):
        end = made[there]
        end += end[:, :, out, None] * (-end[:, 2] / end[:, 2, out, None])[:, None]
        end[:, :, out] = 0
        made[there] = np.roll(end, -1 if out == 0 else 1, axis=2)
    return np.clip(cell - 1, 0, len(u) - 4), made


def _start(u: Array, need: Array, degree: int) -> Array:
    """Return coefficients of a smooth b at or below 1/need in each cell; `need` is (M,)."""
    middle = (u[1:] + u[:-1]) / 2 * _STEEPEST
    low = -np.log(np.maximum(need, 1e-300))
    low = middle + np.minimum.accumulate(low - middle)
    low = -middle + np.minimum.accumulate((low + middle)[::-1])[::-1]
    b = np.exp(low)
    if degree == 2:
        return b
    return np.concatenate([b[:1], np.minimum(b[1:], b[:-1]), b[-1:]])


def _values(squared: Array, x: Array) -> tuple[Array, Array, Array]:
    """Return b = u̇² and its derivatives b' and b'' in each cell, at distance x from its start."""
    b0, b1, b2 = squared.T
    return b0 + x * (b1 + x * b2), b1 + 2 * x * b2, 2 * b2


def _excess(law: TimeLaw, bounds: Bounds) -> Array:
    """Return the factor by which to divide b in each cell (M,) so that all limits hold."""
    cells = len(law.piece)
    cell = np.repeat(np.arange(cells), len(_CHECKS))
    x = np.outer(np.diff(law.u), _CHECKS).ravel()
    q, first, second, third = law.state(cell, x)

    def peak(ratio: Array) -> Array:
        each = ratio.reshape(cells, len(_CHECKS), -1)
        # Between the checks, a parabola through three neighbors exceeds them by at most an eighth
        # of their second difference; twice that also covers a second difference that varies.
        bend = np.abs(np.diff(each, 2, axis=1)).max(axis=1) / 4
        return np.asarray((np.abs(each).max(axis=1) + bend).max(axis=1))

    slow, by_acceleration = peak(bounds.speeds(q, first)), peak(second / bounds.acceleration)
    by_jerk = np.cbrt(peak(third / bounds.jerk)) ** 2
    return np.asarray(np.maximum(np.maximum(slow**2, by_acceleration), by_jerk))


def _divided(
    u: Array, piece: NDArray[np.intp], where: NDArray[np.bool_]
) -> tuple[Array, NDArray[np.intp]]:
    """Divide the cells marked in `where` (M,), and their neighbors, into three each."""
    near = where.copy()
    near[1:] |= where[:-1]
    near[:-1] |= where[1:]
    parts = np.where(near, 3, 1)
    cell = np.repeat(np.arange(len(piece)), parts)
    rank = np.arange(len(cell)) - np.repeat(np.cumsum(parts) - parts, parts)
    return np.append(u[cell] + np.diff(u)[cell] * rank / parts[cell], 1.0), piece[cell]


# ---- time ----------------------------------------------------------------------------------------


def _travelled(squared: Array, t: Array) -> Array:
    """Return the distance x traveled in each cell after times t: ẍ = b'/2 is linear in x."""
    b0, b1, b2 = squared.T
    z = b2 * t * t
    root = np.sqrt(np.abs(z))
    small = np.abs(z) < 1e-2
    safe = np.where(small, 1.0, root)
    growing = z > 0
    capped = np.minimum(safe, 700.0)
    sine = np.where(growing, np.sinh(capped), np.sin(safe)) / safe
    cosine = np.where(growing, np.cosh(capped) - 1, 1 - np.cos(safe)) / safe**2
    # sinh(√z)/√z and (cosh(√z) - 1)/z; five terms are exact to rounding if |z| < 1e-2
    sine = np.where(small, 1 + z / 6 * (1 + z / 20 * (1 + z / 42 * (1 + z / 72))), sine)
    cosine = np.where(small, 0.5 + z / 24 * (1 + z / 30 * (1 + z / 56 * (1 + z / 90))), cosine)
    return np.asarray(np.sqrt(np.maximum(b0, 0)) * t * sine + b1 / 2 * t * t * cosine)


def _durations(squared: Array, h: Array) -> Array:
    """Return the durations t (M,) of cells of lengths h.

    h = (√b(0) + √b(h)) tanh(√b₂ t/2)/√b₂       with tan for negative b₂
    """
    y = h / (np.sqrt(squared[:, 0]) + np.sqrt(_values(squared, h)[0]))
    w = squared[:, 2] * y * y
    small = np.abs(w) < 1e-3
    root = np.sqrt(np.where(small, 1.0, np.abs(w)))
    ratio = np.where(w > 0, np.arctanh(np.where(small | (w < 0), 0, root)), np.arctan(root)) / root
    series = 1 + w * (1 / 3 + w * (1 / 5 + w * (1 / 7 + w * (1 / 9 + w / 11))))
    return np.asarray(2 * y * np.where(small, series, ratio))
