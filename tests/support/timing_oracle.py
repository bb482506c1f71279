"""The fastest motion along a path, computed by linear programs on a fine grid.

The method is independent of supple's: the unknowns are values of b = ṡ² at nodes of the path
parameter s, derivatives are differences of these values, and HiGHS solves the programs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.optimize import linprog
from scipy.sparse import coo_matrix, diags, vstack

Array = NDArray[np.float64]


def chord_spline(q: Array) -> CubicSpline:
    """Return a spline through q (N, n); its parameter is the accumulated chord length."""
    s = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(q, axis=0), axis=1)))
    return CubicSpline(s, q)


def duration_by_acceleration(
    path: CubicSpline, speed: Array, acceleration: Array, nodes: int = 1500
) -> float:
    """Return the shortest duration under limits on speed and acceleration [s].

    The unknown is b = ṡ² at the nodes. One feasible b is the largest at all nodes, so the linear
    program that maximizes the sum of b finds it.
    """
    s = graded(path.x[0], path.x[-1], nodes, 2)
    h = np.diff(s)
    q1, q2 = path(s, 1), path(s, 2)
    highest = 1 / np.maximum((q1 / speed) ** 2, 1e-12).max(axis=1)
    highest[[0, -1]] = 0
    rows = []
    for end in (0, 1):  # b' = (b[i+1] - b[i])/h in an interval, at both of its ends
        here = slice(end, nodes - 1 + end)
        first, second = q1[here] / acceleration, q2[here] / acceleration
        for j in range(q1.shape[1]):
            slope = first[:, j] / (2 * h)
            left, right = -slope + (end == 0) * second[:, j], slope + (end == 1) * second[:, j]
            rows.append(band(nodes, [left, right]))
    A = vstack(rows).tocsr()
    found = linprog(
        -np.ones(nodes),
        A_ub=vstack([A, -A]),
        b_ub=np.ones(2 * A.shape[0]),
        bounds=np.stack([np.zeros(nodes), highest], axis=1),
        method="highs",
    )
    assert found.status == 0, found.message
    root = np.sqrt(np.maximum(found.x, 0))
    return float(np.sum(2 * h / (root[1:] + root[:-1])))


def duration_by_jerk(
    path: CubicSpline,
    speed: Array,
    acceleration: Array,
    jerk: Array,
    nodes: int = 500,
    slow: float = 0.2,
    rounds: int = 40,
) -> float:
    """Return a locally shortest duration under limits on speed, acceleration and jerk [s].

    Successive linear programs are solved for b = ṡ²; in each, b may change by a limited factor.
    `slow` scales the initial profile.
    """
    s = graded(path.x[0], path.x[-1], nodes, 3)
    middle = s[1:-1]
    q1, q2, q3 = (path(middle, k)[:, :, None] for k in (1, 2, 3))
    h0, h1 = np.diff(s)[:-1], np.diff(s)[1:]
    # Three-point formulas of the derivatives at inner nodes.
    d1 = np.stack([-h1 / h0, h1 / h0 - h0 / h1, h0 / h1], -1) / (h0 + h1)[:, None]
    d2 = 2 * np.stack([h1, -(h0 + h1), h0], -1) / (h0 * h1 * (h0 + h1))[:, None]
    d0 = np.tile([0.0, 1.0, 0.0], (len(middle), 1))
    forms = {
        "acceleration": q2 * d0[:, None] + q1 * d1[:, None] / 2,
        "jerk": q3 * d0[:, None] + 1.5 * q2 * d1[:, None] + 0.5 * q1 * d2[:, None],
    }
    highest = np.append(np.append(0, 1 / ((q1[:, :, 0] / speed) ** 2).max(axis=1)), 0)
    profile = np.minimum(s - s[0], s[-1] - s) / (s[-1] - s[0])
    b = slow * np.minimum(profile ** (4 / 3), 0.3)
    n = q1.shape[1]

    def matrix(form: Array, limit: Array) -> coo_matrix:
        return vstack(
            [band(nodes, [form[:, j, k] / limit[j] for k in range(3)]) for j in range(n)]
        ).tocsr()

    by_acceleration = matrix(forms["acceleration"], acceleration)
    by_jerk = matrix(forms["jerk"], jerk)
    # From rest, the largest jerk j gives s = j t³/6; no motion reaches the first node faster.
    ends = []
    for node, rest, sign in ((1, 0, 1.0), (nodes - 2, nodes - 1, -1.0)):
        j = float((jerk / np.abs(path(s[node], 1))).min())
        t = (6 * abs(s[node] - s[rest]) / j) ** (1 / 3)
        highest[node] = min(highest[node], (j * t * t / 2) ** 2)
        ends.append((node, sign * d1[node - 1] / 2 / (j * t)))
    starting = coo_matrix(
        (
            np.concatenate([row for _, row in ends]),
            (np.repeat([0, 1], 3), np.concatenate([node + np.arange(-1, 2) for node, _ in ends])),
        ),
        shape=(2, nodes),
    )
    by_acceleration = vstack([by_acceleration, starting]).tocsr()

    for _ in range(100):  # slow down until all limits are kept
        worst = max(
            (b[1:-1] / highest[1:-1]).max(),
            np.abs(by_acceleration @ b).max(),
            (np.abs(by_jerk @ b) * np.tile(np.sqrt(b[1:-1]), n)).max() ** (2 / 3),
        )
        if worst <= 1:
            break
        b = b / worst * 0.99

    def duration(b: Array) -> float:
        root = np.sqrt(b)
        return float(np.sum(2 * np.diff(s) / (root[1:] + root[:-1])))

    width = np.append(np.append(s[1] - s[0], (h0 + h1) / 2), s[-1] - s[-2])
    trust, best = 4.0, duration(b)
    for _ in range(rounds):
        # The unknowns are b divided by the previous b, because b spans many orders of magnitude.
        inner, scale = b[1:-1], diags(np.where(b > 0, b, 1.0))
        rate = diags(np.tile(np.sqrt(inner), n)) @ by_jerk @ scale
        tangent = band_diagonal(np.full(n * len(inner), 0.5), nodes, n)  # 1/√x >= 1.5 - x/2
        speeding = by_acceleration @ scale
        found = linprog(
            np.append(np.append(0, -0.5 * width[1:-1] / np.sqrt(inner)), 0),
            A_ub=vstack([speeding, -speeding, tangent + rate, tangent - rate]).tocsr(),
            b_ub=np.repeat([1.0, 1.5], [2 * speeding.shape[0], 2 * rate.shape[0]]),
            bounds=np.stack(
                [
                    np.where(b > 0, 1 / trust, 0),
                    np.where(b > 0, np.minimum(trust, highest / np.where(b > 0, b, 1)), 0),
                ],
                axis=1,
            ),
            method="highs",
        )
        if found.status != 0:
            trust = 1 + (trust - 1) / 2
            continue
        then = duration(b * found.x)
        if then < best:
            improved = best - then
            b, best = b * found.x, then
            if improved < 1e-4 * best:
                break
        else:
            trust = 1 + (trust - 1) / 3
    return best


def limit_by_jerk(
    path: CubicSpline, speed: Array, acceleration: Array, jerk: Array, nodes: int = 300
) -> float:
    """Return the duration that `duration_by_jerk` approaches with more nodes [s].

    Its error is inversely proportional to their number.
    """
    coarse, fine = (
        duration_by_jerk(path, speed, acceleration, jerk, nodes=n) for n in (nodes, 2 * nodes)
    )
    return 2 * fine - coarse


def graded(first: float, last: float, nodes: int, power: int) -> Array:
    """Return nodes that are dense at both ends, like positions at equal times of a motion."""
    x = np.linspace(-1, 1, nodes)
    s = np.sign(x) * (1 - (1 - np.abs(x)) ** power)
    return first + (last - first) * (s + 1) / 2


def band(nodes: int, columns: list[Array]) -> coo_matrix:
    """Return a matrix with columns[k][i] in row i and column i + k."""
    count = len(columns[0])
    rows = np.arange(count)
    return coo_matrix(
        (
            np.concatenate(columns),
            (np.tile(rows, len(columns)), np.concatenate([rows + k for k in range(len(columns))])),
        ),
        shape=(count, nodes),
    )


def band_diagonal(values: Array, nodes: int, repeats: int) -> coo_matrix:
    """Return `repeats` stacked matrices with nonzero entries in row i and column i + 1."""
    inner = nodes - 2
    rows = np.arange(inner * repeats)
    return coo_matrix(
        (values, (rows, np.tile(np.arange(1, nodes - 1), repeats))), shape=(len(rows), nodes)
    )


def line_duration(speed: float, acceleration: float, jerk: float) -> float:
    """Return the shortest duration of a motion from rest to rest over a distance of 1 [s].

    Its peak speed is found by bisection; up to seven phases have constant jerk.
    """

    def ramp(peak: float) -> float:
        """Return the duration from rest to the peak speed; its mean speed is half of the peak."""
        constant = peak * jerk >= acceleration**2
        return (
            peak / acceleration + acceleration / jerk
            if constant
            else 2 * float(np.sqrt(peak / jerk))
        )

    if speed * ramp(speed) <= 1:
        return ramp(speed) + 1 / speed
    least, most = 0.0, speed
    for _ in range(200):
        middle = (least + most) / 2
        least, most = (middle, most) if middle * ramp(middle) < 1 else (least, middle)
    return 2 * ramp(least)


def turning_duration(
    there: float, back: float, speed: float, acceleration: float, jerk: float
) -> float:
    """Return the shortest duration of a motion over a distance `there` and then `back` [s].

    The motion is at rest at both ends. The acceleration at the turning point is the best of 40
    values on each of three ever finer grids, and the phases are integrated one by one.
    """

    def rise(peak: Array, start: Array) -> tuple[Array, Array]:
        """Return the time and distance from rest, at acceleration `start`, to a peak speed."""
        top = np.minimum(acceleration, np.sqrt(jerk * peak + start**2 / 2))
        ramps = (top - start) / jerk, top / jerk
        gained = (top**2 - start**2 + top**2) / (2 * jerk)
        x = v = t = np.zeros(len(peak))
        a = start
        for j, duration in ((jerk, ramps[0]), (0.0, (peak - gained) / top), (-jerk, ramps[1])):
            x = x + duration * (v + duration * (a / 2 + duration * j / 6))
            v = v + duration * (a + duration * j / 2)
            a = a + duration * j
            t = t + duration
        return t, x

    def leg(distance: float, end: Array) -> Array:
        """Return the durations from rest to rest over a distance, for final accelerations (k,)."""
        rest = np.zeros(len(end))
        least, most = end**2 / (2 * jerk) + 1e-12 * speed, np.full(len(end), speed)
        never = (least > speed) | (rise(least, rest)[1] + rise(least, end)[1] > distance)
        for _ in range(60):
            peak = (least + most) / 2
            near = rise(peak, rest)[1] + rise(peak, end)[1] <= distance
            least, most = np.where(near, peak, least), np.where(near, most, peak)
        (t0, x0), (t1, x1) = rise(least, rest), rise(least, end)
        return np.where(never, np.inf, t0 + t1 + (distance - x0 - x1) / least)

    low, high = 0.0, acceleration
    for _ in range(3):
        trials = np.linspace(low, high, 40)
        durations = leg(there, trials) + leg(back, trials)
        best = int(np.argmin(durations))
        low, high = trials[max(best - 1, 0)], trials[min(best + 1, 39)]
    return float(durations.min())
