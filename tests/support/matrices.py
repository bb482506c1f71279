"""Hard matrices: built from a chosen spectrum, of deficient rank, very large or very small."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from harness import Lane

# Identities must hold up to an error of BOUND * max(m, n) * eps relative to the norm. The largest
# error measured with these matrices is 1.9 max(m, n) eps (orthogonality of U), including the errors
# of the check.
BOUND = 4

# The values of sigma_min / sigma_max of the matrices that are built from a spectrum.
SMALLEST = (1.0, 1e-3, 1e-6, 1e-9, 1e-15, 0.0)
SHAPES = (
    (1, 1),
    (1, 7),
    (7, 1),
    (2, 2),
    (3, 5),
    (5, 3),
    (6, 6),
    (6, 7),
    (12, 6),
    (3, 64),
    (20, 20),
)
LARGEST = (64, 64)


def orthonormal(rng: np.random.Generator, m: int, k: int) -> np.ndarray:
    """Return a random matrix (m, k) with orthonormal columns."""
    q, r = np.linalg.qr(rng.standard_normal((m, k)))
    return q * np.copysign(1.0, np.diagonal(r))


def from_spectrum(rng: np.random.Generator, m: int, n: int, sigma: np.ndarray) -> np.ndarray:
    """Return U diag(sigma) V^T with random U and V."""
    k = len(sigma)
    return orthonormal(rng, m, k) * sigma @ orthonormal(rng, n, k).T


def spectra(k: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yield (name, spectrum (k,)): one small value, one large value, spread values, equal pairs."""
    for smallest in SMALLEST:
        yield f"one {smallest:g}", np.append(np.linspace(2, 1, k - 1), smallest)
        yield f"others {smallest:g}", np.append(1.0, np.full(k - 1, smallest))
    yield "spread", np.logspace(0, -12, k)
    yield "pairs", np.repeat(np.linspace(2, 1, (k + 1) // 2), 2)[:k]


@cache
def hard(m: int, n: int, dtype: np.dtype, seed: int = 0) -> dict[str, np.ndarray]:
    """Return matrices (m, n) by name: easy ones, and numerically hard ones."""
    rng = np.random.default_rng((seed, m, n))
    info = np.finfo(dtype)
    row, column = np.arange(m)[:, None], np.arange(n)
    plain = from_spectrum(rng, m, n, np.linspace(2, 1, min(m, n)))
    outer = np.outer(rng.standard_normal(m), rng.standard_normal(n))
    subnormal = rng.integers(-5, 6, (m, n)) * float(info.smallest_subnormal)
    big, small = (1e150, 1e-150) if dtype == np.float64 else (1e18, 1e-18)
    # Scales whose squares are normal numbers, and scales whose squares are partly subnormal.
    grade = float(info.minexp // 2 + 30)
    far = 2.0**-1016 if dtype == np.float64 else 2.0**-122

    matrices = {name: from_spectrum(rng, m, n, s) for name, s in spectra(min(m, n))}
    matrices |= {
        "zero": np.zeros((m, n)),
        "plain": plain,
        "minus zero": np.full((m, n), -0.0),
        "identity": np.eye(m, n),
        "reversed": np.eye(m, n)[:, ::-1] * (column + 1),
        "ones": np.ones((m, n)),
        "large alike": np.full((m, n), 1.999) * rng.choice([-1.0, 1.0], (m, 1)),
        "one entry": np.where((row == m - 1) & (column == n - 1), -3.0, 0.0),
        "rank one": outer,
        "zero row": plain * (row != m // 2),
        "zero column": plain * (column != n // 2),
        "zero first column": plain * (column != 0),
        "last row alone": plain * (row == m - 1),
        "repeated columns": plain[:, column // 2],
        "repeated rows": plain[np.arange(m) // 2],
        "big": plain * big,
        "small": plain * small,
        "big rank one": outer * big,
        "graded rows": plain * np.exp2(np.linspace(0, grade, m))[:, None],
        "graded rows, upwards": plain * np.exp2(np.linspace(grade, 0, m))[:, None],
        "graded columns": plain * np.exp2(np.linspace(0, grade, n)),
        "far rows": plain * np.where(row < (m + 1) // 2, 1, far) * 2.0**20,
        "subnormal": subnormal,
        "half subnormal": plain * float(info.tiny),
        "one subnormal": np.where(row == m - 1, subnormal, plain),
    }
    return {name: np.asarray(a, dtype) for name, a in matrices.items()}


def normalized(a: np.ndarray, *results: np.ndarray) -> tuple[np.ndarray, ...]:
    """Convert each a[i], and results of the same magnitude, to float64 and multiply them by the
    power of two that makes the largest entry of a[i] about 1. Checks then neither overflow nor
    underflow.
    """
    exponent = np.frexp(np.abs(a).max(axis=(1, 2)))[1]
    return tuple(
        np.ldexp(x.astype(np.float64), -exponent.reshape(-1, *[1] * (x.ndim - 1)))
        for x in (a, *results)
    )


def tolerance(lane: Lane, a: np.ndarray) -> np.ndarray:
    """Return the error (c,) allowed in the norm of results as large as `normalized(a)`.

    The bound is a rounding error relative to the norm of a[i]; for subnormal results, it includes
    half of the smallest number in every entry.
    """
    m, n = a.shape[1:]
    (unit,) = normalized(a)
    exponent = np.frexp(np.abs(a).max(axis=(1, 2)))[1]
    grid = np.ldexp(float(np.finfo(lane.dtype).smallest_subnormal), -exponent)
    relative = BOUND * max(m, n) * lane.eps * np.linalg.norm(unit, axis=(1, 2))
    return relative + np.where(unit.any(axis=(1, 2)), max(m, n) * grid, 0)


def not_orthonormal(q: np.ndarray) -> float:
    """Return the largest magnitude of an entry of Q^T Q - I."""
    q = q.astype(np.float64)
    return float(np.max(np.abs(q.swapaxes(-1, -2) @ q - np.eye(q.shape[-1]))))
