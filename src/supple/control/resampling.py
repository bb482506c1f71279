"""Resample motions with other time steps, on cubic B-splines whose control points are samples."""

from __future__ import annotations

import numpy as np

from supple.kinematics.configuration import (
    Layout,
    difference,
    integrate,
    interpolated,
    mirrored,
)
from supple.motion.linearization import Array


def rested(layout: Layout, t: Array, q: Array) -> tuple[Array, Array]:
    """Add a step of rest before a motion that begins at rest, and after one that ends at rest.

    A motion counts as beginning at rest if its second step is over a third faster than its first.

    Args:
        layout: The robot, or its coordinates.
        t: Times (K + 1,) [s].
        q: Configurations (K + 1, nq) [rad or m].
    """
    if len(t) < 4 or not _even(t):
        return t, q
    speeds = np.linalg.norm(difference(layout, q[1:], q[:-1]), axis=1)
    h = (t[-1] - t[0]) / (len(t) - 1)
    if speeds[0] < 0.75 * speeds[1]:
        t, q = np.append(t[0] - h, t), np.concatenate([q[:1], q])
    if speeds[-1] < 0.75 * speeds[-2]:
        t, q = np.append(t, t[-1] + h), np.concatenate([q, q[-1:]])
    return t, q


def resampled_at(layout: Layout, t: Array, q: Array, at: Array) -> Array:
    """Return configurations (L, nq) at times `at` (L,).

    The result is on a cubic B-spline; if t is uneven, it is linear between the samples.

    Args:
        layout: The robot, or its coordinates.
        t: Times of the samples (K + 1,) [s].
        q: Samples (K + 1, nq) [rad or m].
        at: Times (L,), from the first to the last sample [s].
    """
    if not _even(t):
        return np.asarray(interpolated(layout, t, q, at))
    # one more point at either end, mirrored: the spline begins and ends at the samples
    points = np.concatenate([[mirrored(layout, q[1], q[0])], q, [mirrored(layout, q[-2], q[-1])]])
    place = (at - t[0]) * ((len(t) - 1) / (t[-1] - t[0]))
    k = np.clip(place.astype(int), 0, len(t) - 2)
    x = (place - k)[:, None]
    if layout is not None and layout.nq != layout.nv:
        return _cumulative(layout, points, k, x)
    a, b, c, d = (points[k + i] for i in range(4))
    y = 1 - x
    return np.asarray(
        (a * y**3 + d * x**3 + b * (4 - 6 * x**2 + 3 * x**3) + c * (4 - 6 * y**2 + 3 * y**3)) / 6
    )


def _cumulative(layout: Layout, points: Array, k: Array, x: Array) -> Array:
    """Return a cubic B-spline (L, nq), computed from displacements between control points.

    The weight (share) of a displacement is the sum of the basis functions of all later points.

    References:
        Kim, Kim & Shin 1995.
    """
    shares = 1 - (1 - x) ** 3 / 6, (1 + 3 * x + 3 * x**2 - 2 * x**3) / 6, x**3 / 6
    made = points[k]
    for i, share in enumerate(shares):
        step = difference(layout, points[k + i + 1], points[k + i])
        made = integrate(layout, made, share * step)
    return np.asarray(made)


def _even(t: Array) -> bool:
    return np.allclose(np.diff(t), (t[-1] - t[0]) / (len(t) - 1), rtol=1e-6, atol=0)
