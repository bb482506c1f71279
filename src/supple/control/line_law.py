"""Time-optimal motion along a straight line under limits of jerk, in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from supple.control.spline import Spline
from supple.motion.linearization import Array

if TYPE_CHECKING:
    from supple.control.timing import Bounds

_STRAIGHT = 1e-13  # deviation from a line, relative to the coordinates, due to rounding errors
_MARGIN = 1e-9  # relative distance that is kept from the limits, larger than rounding errors


@dataclass(frozen=True, eq=False)
class LineLaw:
    """A motion from rest to rest along a line, with a constant jerk in each of seven phases.

    The second half mirrors the first one, which has four phases: the acceleration increases, is
    constant, decreases, is zero.

    Attributes:
        first: Start of the line (n,).
        rise: Difference between its end and its start (n,).
        t: Times at which the phases of the first half begin, and at which it ends (5,) [s].
        states: Traveled fraction of the line and its first three derivatives, at the beginning of
            each of these phases (4, 4).
    """

    first: Array
    rise: Array
    t: Array
    states: Array

    @staticmethod
    def fastest(spline: Spline, bounds: Bounds) -> LineLaw | None:
        """Return the fastest motion along a path; None if it has no closed form.

        The path must be a straight line on which all limits are constant.
        """
        if bounds.tool is not None or not _straight(spline):
            return None
        first, last = spline(spline.s[[0, -1]])
        rise = last - first
        size = np.abs(rise[rise != 0])
        speed, acceleration, jerk = (
            float((limit[rise != 0] / size).min()) / (1 + _MARGIN)
            for limit in (bounds.speed, bounds.acceleration, bounds.jerk)
        )
        speed = min(speed, bounds.norm / float(np.linalg.norm(rise)) / (1 + _MARGIN))
        peak = min(speed, _peak_speed(acceleration, jerk))
        growing = min(acceleration / jerk, np.sqrt(peak / jerk))
        flat = max(0.0, peak / (jerk * growing) - growing)
        cruising = max(0.0, 1 / peak - flat - 2 * growing)
        t = np.cumsum([0.0, growing, flat, growing, cruising / 2])
        state, states = np.zeros(4), []
        for duration, third in zip(np.diff(t), (jerk, 0.0, -jerk, 0.0), strict=True):
            state[3] = third
            states.append(state)
            state = _after(state, duration)
        return LineLaw(first, rise, t, np.array(states))

    @property
    def duration(self) -> float:
        """Duration of the motion [s]."""
        return 2 * float(self.t[-1])

    def at(self, t: Array) -> tuple[Array, Array, Array, Array]:
        """Return q, q̇, q̈ and the third derivative (K, n) at times (K,)."""
        late = t > self.t[-1]
        mirrored = np.clip(np.where(late, self.duration - t, t), 0, self.t[-1])
        phase = np.clip(np.searchsorted(self.t, mirrored, side="right") - 1, 0, 3)
        x = _after(self.states[phase].T, mirrored - self.t[phase])
        x[0], x[2] = np.where(late, 1 - x[0], x[0]), np.where(late, -x[2], x[2])
        q, first, second, third = np.multiply.outer(x, self.rise)
        return self.first + q, first, second, third


def _after(state: Array, t: Array | float) -> Array:
    """Return a value and its first three derivatives (4, ...) after times t with constant jerk."""
    x, v, a, j = state
    return np.stack([x + t * (v + t * (a / 2 + t * j / 6)), v + t * (a + t * j / 2), a + t * j, j])


def _peak_speed(acceleration: float, jerk: float) -> float:
    """Return the largest speed in a motion over a distance of 1 without a speed limit."""
    peak = np.cbrt(jerk / 4)  # the acceleration is never constant: 2 peak √(peak/jerk) = 1
    growing = acceleration / jerk
    if peak <= acceleration * growing:
        return float(peak)
    # peak (peak/acceleration + growing) = 1
    return float(2 / (growing + np.sqrt(growing**2 + 4 / acceleration)))


def _straight(spline: Spline) -> bool:
    """Return whether a path is a straight line, on which q' is constant."""
    _, slope, second, third = spline.coefficients
    h = np.diff(spline.s)[:, None]
    first, last = spline(spline.s[[0, -1]])
    mean = (last - first) / (spline.s[-1] - spline.s[0])
    bent = np.abs([(slope - mean) * h, second * h**2, third * h**3])
    size = max(np.abs(first).max(), np.abs(last).max(), np.abs(last - first).max())
    return bool(bent.max() <= _STRAIGHT * size)
