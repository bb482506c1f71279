"""Matrices that are hard on purpose: built from a chosen spectrum, without rank, out of scale."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

# sigma_min / sigma_max of the matrices built from a spectrum: a singularity is an input.
SMALLEST = (1.0, 1e-3, 1e-6, 1e-9, 1e-15, 0.0)
SHAPES = ((1, 1), (1, 7), (7, 1), (2, 2), (3, 5), (5, 3), (6, 6), (6, 7), (12, 6), (3, 64), (20, 20))
LARGEST = (64, 64)


def orthonormal(rng: np.random.Generator, m: int, k: int) -> np.ndarray:
    """A random (m, k) with orthonormal columns."""
    q, r = np.linalg.qr(rng.standard_normal((m, k)))
    return q * np.copysign(1.0, np.diagonal(r))


def from_spectrum(rng: np.random.Generator, m: int, n: int, sigma: np.ndarray) -> np.ndarray:
    """U diag(sigma) V^T with random U and V."""
    k = len(sigma)
    return orthonormal(rng, m, k) * sigma @ orthonormal(rng, n, k).T


def spectra(k: int) -> Iterator[tuple[str, np.ndarray]]:
    """Singular values, downwards: one small, all equal but one, evenly spread in size, in pairs."""
    for smallest in SMALLEST:
        yield f"one {smallest:g}", np.append(np.linspace(2, 1, k - 1), smallest)
        yield f"others {smallest:g}", np.append(1.0, np.full(k - 1, smallest))
    yield "spread", np.logspace(0, -12, k)
    yield "pairs", np.repeat(np.linspace(2, 1, (k + 1) // 2), 2)[:k]


def hard(m: int, n: int, dtype: np.dtype, seed: int = 0) -> dict[str, np.ndarray]:
    """Hard m x n matrices by name, easy and hard ones beside each other."""
    rng = np.random.default_rng((seed, m, n))
    info = np.finfo(dtype)
    sigma = np.linspace(2, 1, min(m, n))
    plain = from_spectrum(rng, m, n, sigma)
    big, small = (1e150, 1e-150) if dtype == np.float64 else (1e18, 1e-18)
    # From the largest row to the smallest: as far apart as a square still is a normal number.
    grades = np.ldexp(1.0, np.linspace(0, info.minexp // 2 + 30, m).astype(int))
    signs = rng.choice([-1.0, 1.0], (m, n))
    subnormal = rng.integers(-5, 6, (m, n)) * float(info.smallest_subnormal)

    matrices = {name: from_spectrum(rng, m, n, s) for name, s in spectra(min(m, n))}
    matrices |= {
        "zero": np.zeros((m, n)),
        "plain": plain,
        "minus zero": np.full((m, n), -0.0),
        "identity": np.eye(m, n),
        "reversed": np.eye(m, n)[:, ::-1] * np.arange(1, n + 1),
        "ones": np.ones((m, n)),
        "largest entries alike": np.full((m, n), 1.999) * signs[:, :1],
        "rank one": np.outer(rng.standard_normal(m), rng.standard_normal(n)),
        "zero row": plain * (np.arange(m) != m // 2)[:, None],
        "zero column": plain * (np.arange(n) != n // 2),
        "zero first column": plain * (np.arange(n) != 0),
        "last row alone": plain * (np.arange(m) == m - 1)[:, None],
        "repeated columns": plain[:, np.arange(n) // 2],
        "repeated rows": plain[np.arange(m) // 2],
        "big": plain * big,
        "small": plain * small,
        "big rank one": np.outer(rng.standard_normal(m), rng.standard_normal(n)) * big,
        "graded rows": plain * grades[:, None],
        "graded rows, upwards": plain * grades[::-1, None],
        "graded columns": plain.T[:m, :n] if m == n else plain,
        "subnormal": subnormal,
        "half subnormal": plain * float(info.tiny),
        "one subnormal": np.where((np.arange(m) == m - 1)[:, None], subnormal, plain),
        "one entry": np.where(np.arange(m * n).reshape(m, n) == m * n - 1, -3.0, 0.0),
    }
    column_grades = np.ldexp(1.0, np.linspace(0, info.minexp // 2 + 30, n).astype(int))
    matrices["graded columns"] = plain * column_grades
    return {name: np.asarray(a, dtype) for name, a in matrices.items()}
