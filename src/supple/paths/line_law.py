"""Time-optimal motion along a straight line, which may turn back, in closed form.

Between two points where the motion turns back it gains speed, moves at a constant speed and slows
down. At a turning point the speed is zero but the acceleration is not: the accelerations at turning
points are the only unknowns, and are chosen to minimize the duration.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from supple.kinematics.configuration import Layout, coordinate_difference, integrate
from supple.motion.linearization import Array
from supple.paths.speed_grid import turning_points
from supple.paths.spline import Spline

if TYPE_CHECKING:
    from supple.paths.timing import Bounds

_LINE_TOLERANCE = 1e-13  # deviation due to rounding errors, relative to the coordinates
_LIMIT_MARGIN = 1e-9  # relative distance that is kept from the limits, larger than rounding errors
_TRIAL_ACCELERATIONS = 33  # number of accelerations compared at a turning point
_COMPARISON_LEVELS = 4  # comparisons, each in a sixteenth of the interval of the previous one
_MAX_SWEEPS = 10  # maximum number of sweeps over all turning points
_MIN_ROUND_GAIN = 1e-5  # fraction of the duration that a round must gain
_COARSE_BISECTIONS = 22  # bisections for a peak speed that only serves to compare accelerations
_EXACT_BISECTIONS = 52  # bisections for a peak speed of the result
# Duration of a jump of speed or acceleration, relative to that of the next phase.
_JUMP_DURATION_RATIO = 1e-8


@dataclass(frozen=True, eq=False)
class LineLaw:
    """A motion from rest to rest along a line, with a constant jerk in each phase.

    Attributes:
        first: Start of the line (n,).
        rise: Joint motion (n,) per unit of position: at position x on the line, the joints have
            moved by x · rise from `first`.
        t: Times at which the phases begin, and at which the motion ends (P + 1,) [s].
        states: Position on the line and its first three derivatives, at the beginning of each phase
            (P, 4).
        layout: The robot, or its coordinates, if a joint has a quaternion.
    """

    first: Array
    rise: Array
    t: Array
    states: Array
    layout: Layout = None

    @staticmethod
    def fastest(spline: Spline, bounds: Bounds) -> LineLaw | None:
        """Return the fastest motion along a path; None if it has no closed form.

        The path must be a straight line on which all limits are constant, and may turn back.
        """
        line = None if bounds.tool is not None else _line(spline)
        if line is None:
            return None
        rise, turns = line
        size = np.abs(rise[rise != 0])
        speed, acceleration, jerk = (
            float((limit[rise != 0] / size).min()) / (1 + _LIMIT_MARGIN)
            for limit in (bounds.speed, bounds.acceleration, bounds.jerk)
        )
        speed = min(speed, bounds.norm / float(np.linalg.norm(rise)) / (1 + _LIMIT_MARGIN))
        distances = np.abs(np.diff(turns))
        if not np.isfinite(jerk):
            if not np.isfinite(acceleration):
                acceleration = speed**2 / (_JUMP_DURATION_RATIO * distances.max())
            longest = min(speed / acceleration, float(np.sqrt(distances.max() / acceleration)))
            jerk = acceleration / (_JUMP_DURATION_RATIO * longest)
        limits = _Limits.of(speed, acceleration, jerk, distances)
        first = spline(spline.s[:1])[0]
        return LineLaw(first, rise, *_phases(turns, limits), spline.layout)

    @property
    def duration(self) -> float:
        """Duration of the motion [s]."""
        return float(self.t[-1])

    def at(self, t: Array) -> tuple[Array, Array, Array, Array]:
        """Return q, q̇, q̈ and the third derivative (K, n) at times (K,)."""
        t = np.clip(t, 0, self.t[-1])
        phase = np.clip(np.searchsorted(self.t, t, side="right") - 1, 0, len(self.states) - 1)
        x = _after(self.states[phase].T, t - self.t[phase])
        moved, first, second, third = np.multiply.outer(x, self.rise)
        return integrate(self.layout, self.first, moved), first, second, third


class _Limits(NamedTuple):
    """Finite limits of speed, acceleration and jerk on a line."""

    speed: float
    acceleration: float
    jerk: float

    @staticmethod
    def of(speed: float, acceleration: float, jerk: float, distances: Array) -> _Limits:
        """Return limits whose speed and acceleration are not beyond what the distances allow."""
        speed = min(speed, float(np.cbrt(distances.max() ** 2 * jerk)))
        return _Limits(speed, min(acceleration, float(np.sqrt(2 * jerk * speed))), jerk)

    def rise(self, peak: Array, start: Array) -> tuple[Array, Array, Array, Array]:
        """Return a motion from rest, with the acceleration `start`, to the speed `peak`.

        Returns:
            The durations of its phases, in which the acceleration increases, is constant and
            decreases to zero, and its distance.
        """
        most, j = self.acceleration, self.jerk
        top = np.maximum(np.minimum(np.sqrt(j * peak + start**2 / 2), most), start)
        flat = np.maximum(0.0, peak - (2 * top**2 - start**2) / (2 * j)) / most
        growing, shrinking = (top - start) / j, top / j
        slow = growing * (start + top) / 2
        distance = growing**2 * (start / 2 + j * growing / 6) + flat * (slow + top * flat / 2)
        distance += shrinking * (slow + top * flat + top * shrinking / 3)
        return growing, flat, shrinking, distance

    def legs(
        self, distance: Array, start: Array, end: Array, bisections: int = _EXACT_BISECTIONS
    ) -> tuple[Array, Array]:
        """Return durations and peak speeds of motions between two turning points.

        `start` and `end` are the magnitudes of the accelerations at the two points, which point
        into the leg. The duration is infinite if the distance is too short for these accelerations.
        """
        least = np.maximum(start, end) ** 2 / (2 * self.jerk)
        low, high = (
            np.broadcast_to(least, distance.shape).copy(),
            np.full_like(distance, self.speed),
        )

        def length(peak: Array) -> Array:
            return self.rise(peak, start)[3] + self.rise(peak, end)[3]

        possible = length(low) <= distance * (1 + 1e-12)
        fast = length(high) <= distance
        low = np.where(fast, high, low)
        for _ in range(bisections):
            middle = (low + high) / 2
            fits = length(middle) <= distance
            low, high = np.where(fits, middle, low), np.where(fits, high, middle)
        first, second = self.rise(low, start), self.rise(low, end)
        t = sum(first[:3]) + sum(second[:3]) + np.maximum(0, distance - length(low)) / low
        return np.where(possible, t, np.inf), low


def _turning_accelerations(distances: Array, limits: _Limits) -> Array:
    """Return the accelerations (K + 1,) at the ends of K motions that minimize their duration."""
    count, most = len(distances), limits.acceleration
    found, before = np.zeros(count + 1), np.inf
    grid = np.linspace(0, 1, _TRIAL_ACCELERATIONS)
    for _ in range(_MAX_SWEEPS):
        # every second turning point at a time: these do not depend on each other
        for turns in (np.arange(1, count, 2), np.arange(2, count, 2)):
            low, high = np.zeros(len(turns)), np.full(len(turns), most)
            for level in range(_COMPARISON_LEVELS if len(turns) else 0):
                trial = low[:, None] + (high - low)[:, None] * grid
                if level == 0:
                    trial[:, 0] = found[turns]
                t = np.zeros_like(trial)
                for leg, other in ((turns - 1, turns - 1), (turns, turns + 1)):
                    distance = np.repeat(distances[leg, None], _TRIAL_ACCELERATIONS, axis=1)
                    t += limits.legs(distance, trial, found[other, None], _COARSE_BISECTIONS)[0]
                best = trial[np.arange(len(turns)), np.argmin(t, axis=1)]
                step = (high - low) / (_TRIAL_ACCELERATIONS - 1)
                low, high = np.maximum(best - step, 0), np.minimum(best + step, most)
                found[turns] = best
        duration = float(limits.legs(distances, found[:-1], found[1:])[0].sum())
        if count <= 2 or duration > before * (1 - _MIN_ROUND_GAIN):
            break
        before = duration
    return found


def _phases(turns: Array, limits: _Limits) -> tuple[Array, Array]:
    """Return the times (P + 1,) and states (P, 4) of the phases through turning points (K,)."""
    distances, signs = np.abs(np.diff(turns)), np.sign(np.diff(turns))
    turning = _turning_accelerations(distances, limits)
    t, states = [0.0], []
    for k, (sign, distance) in enumerate(zip(signs, distances, strict=True)):
        _, peak = limits.legs(distances[k : k + 1], turning[k : k + 1], turning[k + 1 : k + 2])
        rise, fall = (limits.rise(peak, turning[i : i + 1]) for i in (k, k + 1))
        cruising = max(0.0, (distance - float(rise[3][0] + fall[3][0])) / float(peak[0]))
        lengths = [*(float(each[0]) for each in rise[:3]), cruising]
        lengths += [float(each[0]) for each in fall[2::-1]]
        j = sign * limits.jerk
        state = np.array([turns[k], 0.0, sign * turning[k], 0.0])
        for duration, third in zip(lengths, (j, 0.0, -j, 0.0, -j, 0.0, j), strict=True):
            state[3] = third
            states.append(state)
            t.append(t[-1] + duration)
            state = _after(state, duration)
    return np.array(t), np.array(states)


def _after(state: Array, t: Array | float) -> Array:
    """Return a value and its first three derivatives (4, ...) after times t with constant jerk."""
    x, v, a, j = state
    return np.stack([x + t * (v + t * (a / 2 + t * j / 6)), v + t * (a + t * j / 2), a + t * j, j])


def _line(spline: Spline) -> tuple[Array, Array] | None:
    """Return the direction of a line (n,), and the positions of its ends and turning points.

    The positions are relative to the first end, in units of the direction. The result is None if
    the path does not stay on a straight line.
    """
    if spline.anchors is not None:
        return _rotation(spline)
    q = spline(spline.s)
    size = float(np.abs(q).max()) or 1.0
    far = coordinate_difference(q, q[0])
    rise = far[np.abs(far).max(axis=1).argmax()]
    joint = int(np.abs(rise).argmax())
    if rise[joint] == 0:
        return None
    powers = np.diff(spline.s)[:, None] ** np.arange(1, 4)[:, None, None]
    moves = spline.coefficients[1:] * powers
    deviation = moves - moves[..., joint : joint + 1] / rise[joint] * rise
    if np.abs(deviation).max() > _LINE_TOLERANCE * size:
        return None
    # All joints turn back where this one does, but rounding errors may hide it in the others.
    alone = Spline(spline.s, spline.coefficients[..., joint : joint + 1])
    at = np.concatenate([spline.s[:1], turning_points(alone), spline.s[-1:]])
    x = coordinate_difference(alone(at)[:, 0], q[0, joint]) / rise[joint]
    while True:  # remove points that are passed without turning back, and those due to rounding
        step = np.diff(x)
        passed = np.flatnonzero(step[1:] * step[:-1] >= 0)
        if len(passed):
            x = np.delete(x, passed[0] + 1)
            continue
        short = np.flatnonzero(np.abs(step) <= _LINE_TOLERANCE * size / abs(rise[joint]))
        if len(x) == 2 and x[0] == x[1]:  # there and back within rounding errors
            return rise, np.array([0.0, 1.0, 0.0])
        if len(short) == 0 or len(x) == 2:
            return rise, x
        x = np.delete(x, short[0] if short[0] else 1)


def _rotation(spline: Spline) -> tuple[Array, Array] | None:
    """Return the direction and the ends of a path of one piece on which all joints move evenly."""
    if len(spline.s) != 2:
        return None
    slope, *bends = spline.coefficients[1:, 0] * np.diff(spline.s)[0] ** np.arange(1, 4)[:, None]
    size = float(np.abs(slope).max())
    if size == 0 or np.abs(bends).max() > _LINE_TOLERANCE * size:
        return None
    return slope, np.array([0.0, 1.0])
