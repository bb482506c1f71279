"""Jacobians built from a chosen spectrum, so that singularities do not depend on chance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from sizes import NIGHTLY
from supple import Linearization

Array = np.ndarray
EPS = np.finfo(float).eps

SHAPES = ((2, 2), (2, 3), (6, 6), (6, 7), (6, 5), (3, 7), (12, 25))
SMALLEST = (1.0, 0.5, 0.1, 1e-2, 1e-4, 1e-6, 1e-9, 1e-12, 0.0)
ZERO = 16  # singular values below this multiple of eps times the largest count as zero


def is_drawn(row: int, column: int, which: int) -> bool:
    """Return whether the suite draws a pair: a third of them, and others for the next `which`."""
    return NIGHTLY or (row + column + which) % 3 == 0


def orthonormal(rng: np.random.Generator, m: int, k: int) -> Array:
    """Return a random matrix (m, k) with orthonormal columns."""
    return np.linalg.qr(rng.standard_normal((m, k)))[0]


def spectra(k: int) -> dict[str, Array]:
    """Return descending spectra (k,) by name, with one or more small, equal or zero values."""
    named = {f"least {least:g}": np.append(np.linspace(2, 1, k - 1), least) for least in SMALLEST}
    named["others 1e-6"] = np.append(1.5, np.full(k - 1, 1e-6))
    named["all alike"] = np.full(k, 0.7)
    named["pairs"] = np.repeat(np.linspace(2, 0.05, (k + 1) // 2), 2)[:k]
    named["two lost"] = np.append(np.linspace(2, 1, k), [0.0, 0.0])[2:]
    named["graded"] = np.logspace(0, -9, k)
    named["zero"] = np.zeros(k)
    return named


@dataclass(frozen=True)
class Sample:
    """A linearization with a name: J, e, and the previous J or None."""

    name: str
    J: Array
    e: Array
    before: Array | None

    @cached_property  # decomposed once for all rules and steps
    def linearization(self) -> Linearization:
        before = None if self.before is None else Linearization(self.before, self.e)
        return Linearization(self.J, self.e, before)


def tasks(U: Array) -> dict[str, Array]:
    """Return task vectors (m,) by name, among them one along the last column of U."""
    some = np.cos(np.arange(len(U)))
    return {
        "along": U[:, -1],
        "across": U[:, :-1].sum(axis=1),
        "anywhere": some,
        "none": np.zeros(len(U)),
        "tiny": 1e-12 * some,
        "huge": 1e9 * some,
    }


@cache
def samples(shape: tuple[int, int]) -> tuple[Sample, ...]:
    """Return samples with pairs of a spectrum and a task vector, and various previous J.

    The suite has a third of the pairs for each shape; each pair occurs with one of three shapes.
    """
    m, n = shape
    k = min(m, n)
    found = []
    for row, (name, sigma) in enumerate(spectra(k).items()):
        rng = np.random.default_rng((m, n, 6 * row))
        U, V = orthonormal(rng, m, k), orthonormal(rng, n, k)
        J = U * sigma @ V.T
        nearer, farther = (U * np.append(sigma[:-1], sigma[-1] * f) @ V.T for f in (0.5, 1.05))
        histories = (None, nearer, farther, J, J + 1e-3 * V[:, 0], np.zeros_like(J))
        pairs = zip(tasks(U).items(), histories, strict=True)
        for column, ((task, e), before) in enumerate(pairs):
            if is_drawn(row, column, m + n):
                found.append(Sample(f"{name}, {task}", J, e, before))
    return tuple(found)


def of_spectrum(
    sigma: Array, gamma: Array, beside: float = 0.0, before: float = -1.0, change: float = 0.0
) -> Linearization:
    """Return a linearization with exactly these singular values (descending) and γ = Uᵀe.

    `beside` is the length of the part of e outside the range of J; `before` is the manipulability
    at the previous step, negative if there was none; `change` is the norm of the change of J.
    """
    k = len(sigma)
    J, e = np.eye(k + 1, k) * sigma, np.append(gamma, beside)
    past = None
    if before >= 0:
        past = Linearization(J + change * (np.arange(k + 1) == k)[:, None] * np.eye(k)[0], e)
        past.__dict__["_svd"] = (np.eye(k + 1, k), np.append(before, np.ones(k - 1)), np.eye(k))
    lin = Linearization(J, e, past)
    lin.__dict__["_svd"] = (np.eye(k + 1, k), np.asarray(sigma, float), np.eye(k))
    return lin


def history(lin: Linearization) -> tuple[float, float, float]:
    """Return ‖e‖², the previous manipulability (-1 if none) and the change of J, for the kernel."""
    before = -1.0 if lin.before is None else lin.before.manipulability
    return float(lin.e @ lin.e), before, lin.change


def random_spectra(
    rng: np.random.Generator, count: int, k: int, decades: float = 9
) -> tuple[Array, Array]:
    """Return singular values (count, k) and task components (count, k), spread over decades.

    Singular values are descending, and some are zero or repeated.
    """
    sigma = 10 ** rng.uniform(-decades, 0.5, (count, k))
    sigma[::7, -1] = 0
    sigma[1::7, 0] = sigma[1::7, -1]
    sigma[2::7] = np.linspace(2, 1, k) * rng.uniform(0.1, 1, (len(sigma[2::7]), 1))
    sigma[2::7, -1] = 10 ** rng.uniform(-decades, 0, len(sigma[2::7]))
    gamma = rng.standard_normal((count, k)) * 10 ** rng.uniform(-3, 1, (count, 1))
    gamma[3::7, -1] = 0
    gamma[4::7, :-1] *= 1e-9
    return -np.sort(-sigma, axis=1), gamma


@cache
def hard_spectra(k: int, huge: float, small: float, dtype: type) -> tuple[Linearization, ...]:
    """Return linearizations for combinations of spectra and tasks, with various previous J.

    The suite has a third of the combinations. The numbers have sizes from `small` to `huge`, and
    the dtype represents them exactly.
    """
    sigmas = [s * scale for s in spectra(k).values() for scale in (1, huge, small)]
    sigmas += [np.logspace(np.log10(huge), np.log10(small), k)]
    gammas = [np.cos(np.arange(k)) * scale for scale in (1, 1e-6, 1e3, huge, small)]
    gammas += [np.zeros(k), np.eye(k)[-1], np.eye(k)[0], 1 - np.eye(k)[-1]]
    found = []
    for row, sigma in enumerate(sigmas):
        for column, gamma in enumerate(gammas):
            if not is_drawn(row, column, k):
                continue
            i = len(gammas) * row + column
            before = (-1.0, 0.0, 1e-3, 0.7, 2.0)[i % 5]
            change = (0.0, 1e-4, 0.0, 0.3, 0.02, 3.0, 1.0)[i % 7] if before >= 0 else 0.0
            numbers = (sigma, gamma, (0.0, 0.5, 0.0)[i % 3], before, change)
            # The values are float64 numbers that the dtype represents exactly.
            found.append(of_spectrum(*(np.asarray(x).astype(dtype).astype(float) for x in numbers)))
    return tuple(found)
