"""Rotations of many frames at once, and smooth transitions.

Products are written as sums of components, because the rounding of a matrix library may depend on
the number of frames. Results have the frames innermost in memory, so that loops over the frames are
fast.
"""

from __future__ import annotations

import numpy as np

from supple.kinematics.rotation import cross
from supple.motion.linearization import Array

_TINY = 1e-9


def unit(v: Array) -> Array:
    """Return vectors (..., 3) of length 1; zero stays zero."""
    size = np.sqrt(v[..., 0] * v[..., 0] + v[..., 1] * v[..., 1] + v[..., 2] * v[..., 2])
    return np.asarray(v / np.maximum(size, _TINY)[..., None])


def times(R: Array, by: Array) -> Array:
    """Return the products of rotations (T, 3, 3) with one matrix (3, 3) or vector (3,)."""
    x, y, z = (R[..., k] for k in range(3))
    made = [x * a + y * b + z * c for a, b, c in by.reshape(3, -1).T]
    return made[0] if by.ndim == 1 else np.moveaxis(np.stack(made), 0, -1)


def frames_of(left: Array, up: Array) -> Array:
    """Return rotations (..., 3, 3): y along `left`, z as close to `up` as possible."""
    y = unit(left)
    x = unit(cross(y, up))
    made = np.empty((3, 3, *y.shape[:-1]))
    for k, axis in enumerate((x, y, cross(x, y))):
        made[:, k] = np.moveaxis(axis, -1, 0)
    return np.moveaxis(made, (0, 1), (-2, -1))


def orthonormal(R: Array) -> Array:
    """Return the rotations with the y axis and nearly the z axis of matrices (..., 3, 3)."""
    return frames_of(R[..., 1], R[..., 2])


def smooth(x: Array) -> Array:
    """Return a smooth rise from 0 to 1 over [0, 1], without acceleration at the ends."""
    x = np.clip(x, 0.0, 1.0)
    return np.asarray(x**3 * (10 - 15 * x + 6 * x**2))
