"""Rotations of many frames at once, and smooth transitions."""

from __future__ import annotations

import numpy as np

from supple.motion.linearization import Array

_TINY = 1e-9


def unit(v: Array) -> Array:
    """Return vectors (..., 3) of length 1; zero stays zero."""
    size = np.sqrt(np.einsum("...i,...i->...", v, v))[..., None]
    return np.asarray(v / np.maximum(size, _TINY))


def cross(a: Array, b: Array) -> Array:
    """Return the cross products of vectors (..., 3); `np.cross` takes longer for few of them."""
    ax, ay, az, bx, by, bz = (v[..., k] for v in (a, b) for k in range(3))
    return np.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], axis=-1)


def times(R: Array, by: Array) -> Array:
    """Return the products of rotations (T, 3, 3) with one matrix (3, 3) or vector (3,)."""
    return np.asarray((R.reshape(-1, 3) @ by).reshape(len(R), 3, *by.shape[1:]))


def frames_of(left: Array, up: Array) -> Array:
    """Return rotations (..., 3, 3): y along `left`, z as close to `up` as possible."""
    y = unit(left)
    x = unit(cross(y, up))
    return np.stack([x, y, cross(x, y)], axis=-1)


def orthonormal(R: Array) -> Array:
    """Return the rotations with the y axis and nearly the z axis of matrices (..., 3, 3)."""
    return frames_of(R[..., 1], R[..., 2])


def smooth(x: Array) -> Array:
    """Return a smooth rise from 0 to 1 over [0, 1], without acceleration at the ends."""
    x = np.clip(x, 0.0, 1.0)
    return np.asarray(x**3 * (10 - 15 * x + 6 * x**2))
