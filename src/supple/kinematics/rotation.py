"""Rotations as matrices (..., 3, 3), unit quaternions (w, x, y, z) and rotation vectors [rad]."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.kinematics.chain import Matrix

_FOUR = np.arange(4)


def _quaternion_products() -> tuple[Matrix, Matrix]:
    """Return A (9, 16) and b (16,) with 4 q qᵀ = R A + b, where R and q qᵀ are flattened."""
    A, b = np.zeros((3, 3, 4, 4)), np.eye(4)
    for i, sign in enumerate(([1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1])):
        A[_FOUR[:3], _FOUR[:3], i, i] = sign  # 4 w², 4 x², 4 y², 4 z²
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        A[k, j, 0, i + 1] = A[k, j, i + 1, 0] = 1  # 4 w x = R_zy - R_yz
        A[j, k, 0, i + 1] = A[j, k, i + 1, 0] = -1
        A[i, j, i + 1, j + 1] = A[i, j, j + 1, i + 1] = 1  # 4 x y = R_xy + R_yx
        A[j, i, i + 1, j + 1] = A[j, i, j + 1, i + 1] = 1
    return A.reshape(9, 16), b.ravel()


_PRODUCTS, _CONSTANT = _quaternion_products()


def quaternion(R: Matrix) -> Matrix:
    """Return unit quaternions (..., 4), scalar first, of rotations (..., 3, 3); w is not negative.

    At a half turn (w = 0) the sign is such that the entry of largest magnitude (the first of
    several) is positive.
    """
    q = _scaled_quaternion(R)
    return np.asarray(q / np.linalg.norm(q, axis=-1, keepdims=True))


def _scaled_quaternion(R: Matrix) -> Matrix:
    """Return quaternions (..., 4) that are not normalized, accurate at every angle.

    4 q qᵀ is linear in R, and the row of its largest diagonal entry is q up to a factor.
    """
    products = R.reshape(-1, 9) @ _PRODUCTS + _CONSTANT
    largest = products[:, ::5].argmax(axis=1)  # every fifth entry is on the diagonal
    q = products.reshape(-1, 4, 4)[np.arange(len(products)), largest]
    np.negative(q, out=q, where=q[:, :1] < 0)
    return np.asarray(q.reshape(*R.shape[:-2], 4))


def from_quaternion(wxyz: Matrix, out: Matrix | None = None) -> Matrix:
    """Return rotations (..., 3, 3) of nonzero quaternions (..., 4), scalar first, of any length.

    Args:
        wxyz: The quaternions.
        out: Array for the result.
    """
    # One array for each component: NumPy sums over an axis of length 4 more slowly.
    w, x, y, z = np.moveaxis(wxyz, -1, 0)
    largest = np.maximum(np.maximum(abs(w), abs(x)), np.maximum(abs(y), abs(z)))
    w, x, y, z = w / largest, x / largest, y / largest, z / largest  # avoids overflow of squares
    length = np.sqrt(w * w + x * x + y * y + z * z)
    w, x, y, z = w / length, x / length, y / length, z / length
    R = np.empty((*wxyz.shape[:-1], 3, 3)) if out is None else out
    xx, yy, zz = x * x, y * y, z * z
    for i, diagonal in enumerate((yy + zz, xx + zz, xx + yy)):
        R[..., i, i] = 1 - 2 * diagonal
    for (i, j), plus, minus in (
        ((1, 0), x * y, w * z),
        ((0, 2), x * z, w * y),
        ((2, 1), y * z, w * x),
    ):
        R[..., i, j], R[..., j, i] = 2 * (plus + minus), 2 * (plus - minus)
    return R


def log(R: Matrix) -> Matrix:
    """Return rotation vectors (..., 3), axis times angle, of rotations (..., 3, 3) [rad].

    The angle is in [0, π], and accurate near both ends. At a half turn, the axis has the sign for
    which its entry of largest magnitude (the first of several) is positive.
    """
    q = _scaled_quaternion(R)
    w, v = q[..., :1], q[..., 1:]
    size = np.sqrt((v * v).sum(axis=-1, keepdims=True))
    small = size < 1e-150  # mask where angle = 2 size / w to working precision
    angle = 2 * np.arctan2(size, w)
    if small.any():
        scale = np.where(small, 2 / np.where(small, w, 1), angle / np.where(small, 1, size))
    else:
        scale = angle / size
    return np.asarray(scale * v)


def exp(r: Matrix) -> Matrix:
    """Return the rotations (..., 3, 3) of rotation vectors (..., 3) [rad], the inverse of `log`."""
    half = np.linalg.norm(r, axis=-1)[..., None, None] / 2
    k = np.sinc(half / np.pi)  # sin(half)/half
    K = cross_matrix(r)
    return np.asarray(np.eye(3) + k * np.cos(half) * K + k**2 / 2 * (K @ K))


def cross_matrix(r: Matrix) -> Matrix:
    """Return [r]× (..., 3, 3), the matrices with [r]× x = r × x, for vectors r (..., 3)."""
    r = np.asarray(r, np.float64)
    x, y, z = r[..., 0], r[..., 1], r[..., 2]
    K = np.zeros((*r.shape[:-1], 3, 3))
    K[..., 0, 1], K[..., 0, 2] = -z, y
    K[..., 1, 0], K[..., 1, 2] = z, -x
    K[..., 2, 0], K[..., 2, 1] = -y, x
    return K


def cross(a: NDArray[Any], b: NDArray[Any]) -> Matrix:
    """Return the cross products (..., 3) of vectors; for few of them faster than `np.cross`."""
    (x, y, z), (u, v, w) = ([each[..., k] for k in range(3)] for each in (a, b))
    return np.moveaxis(np.array([y * w - z * v, z * u - x * w, x * v - y * u]), 0, -1)
