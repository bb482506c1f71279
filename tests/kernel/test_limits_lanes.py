"""Steps inside a box and a norm bound: fast and slow path find the minimizer, and lanes are
independent.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from cases import each
from harness import LANES, Lane, same_bits
from matrices import orthonormal
from sizes import nightly

Array = np.ndarray
SHAPES = ((1, 1), (2, 3), (3, 3), (6, 7), (6, 6), (3, 7), (6, 12))
alone = pytest.mark.parametrize("lane", [x for x in LANES if x.width == 1], ids=str)
shapes = each("shape", SHAPES)


@cache
def problems(shape: tuple[int, int], dtype: np.dtype, count: int = 61) -> dict[str, Array]:
    """Return problems with regular and nearly singular J, and with various boxes
    and norm bounds.
    """
    m, n = shape
    k, rng = min(shape), np.random.default_rng(shape)
    least = np.resize([1.0, 0.3, 0.05, 1e-3, 0.0], count)
    J = np.empty((count, m, n))
    for i in range(count):
        sigma = np.append(np.linspace(2, 1, k - 1), least[i])
        J[i] = orthonormal(rng, m, k) * sigma @ orthonormal(rng, n, k).T
    low, high = -rng.exponential(0.4, (count, n)), rng.exponential(0.4, (count, n))
    low[2::7, 0] = high[2::7, 0]
    low[::5], high[1::5] = -np.inf, np.inf
    named = {"J": J, "e": rng.normal(size=(count, m)), "low": low, "high": high}
    named["lambda2"] = np.resize([0.0, 1e-3, 0.1], count)
    named["bound"] = np.resize([0.3, np.inf, 1.0, 0.8], count)
    return {name: x.astype(dtype).astype(float) for name, x in named.items()}


def damped(p: dict[str, Array]) -> Array:
    """Return the damped steps (count, n), before limits are applied."""
    n = p["J"].shape[2]
    A = p["J"].transpose(0, 2, 1) @ p["J"] + p["lambda2"][:, None, None] * np.eye(n)
    return np.einsum("bij,bj->bi", np.linalg.pinv(A), np.einsum("bmn,bm->bn", p["J"], p["e"]))


@pytest.mark.parametrize("lane", LANES, ids=str)
@shapes
def test_limited_steps_in_a_pack_have_the_bits_of_single_ones(
    shape: tuple[int, int], lane: Lane
) -> None:
    p = problems(shape, lane.dtype)
    lone, x0 = Lane(lane.isa, lane.dtype, 1), damped(p)
    rest = [p[name] for name in ("low", "high", "lambda2", "bound")]
    for mine, theirs in (
        (lane.limited(p["J"], x0, *rest), lone.limited(p["J"], x0, *rest)),
        (lane.bounded(p["J"], p["e"], *rest), lone.bounded(p["J"], p["e"], *rest)),
    ):
        for one, other in zip(mine, theirs, strict=True):
            assert same_bits(one, other)


@alone
@shapes
def test_the_fast_path_of_limited_steps_finds_the_minimizer(
    shape: tuple[int, int], lane: Lane
) -> None:
    """The KKT conditions hold: x is in the box and within the norm bound, the gradient is zero or
    points out of the box, and damping is added only where x is at the norm bound.
    """
    p = problems(shape, lane.dtype, nightly(600, 200))
    x, side, used, holds = (
        np.asarray(y, float)
        for y in lane.bounded(*(p[k] for k in ("J", "e", "low", "high", "lambda2", "bound")))
    )
    some = holds > 0
    assert np.isfinite(x).all()
    assert some.sum() > nightly(30, 10)
    eps = lane.eps
    size = np.linalg.norm(p["J"], axis=(1, 2))
    for i in np.flatnonzero(some):
        J, e, low, high = p["J"][i], p["e"][i], p["low"][i], p["high"][i]
        assert (x[i] >= low).all()
        assert (x[i] <= high).all()
        length = np.linalg.norm(x[i])
        assert length <= p["bound"][i] * (1 + 4 * eps)
        assert used[i] >= p["lambda2"][i]
        if used[i] > p["lambda2"][i] * (1 + 1e3 * eps):
            assert length >= p["bound"][i] * (1 - 1e3 * eps)
        gradient = J.T @ (J @ x[i] - e) + used[i] * x[i]
        noise = 1e6 * eps * (size[i] * (size[i] * length + np.linalg.norm(e)) + used[i])
        free = (x[i] != low) & (x[i] != high)
        wide = low < high
        assert (np.abs(gradient[free]) <= noise).all()
        assert (gradient[wide & (x[i] == low)] >= -noise).all()
        assert (gradient[wide & (x[i] == high)] <= noise).all()
        assert (side[i][free] == 0).all()


@alone
@shapes
def test_fast_and_slow_path_of_limited_steps_agree(shape: tuple[int, int], lane: Lane) -> None:
    """Where λ² > 0, the minimizer is unique, so both paths must give the same x."""
    if lane.dtype == np.float32:
        return
    p = problems(shape, lane.dtype, nightly(600, 200))
    p = p | {"lambda2": np.maximum(p["lambda2"], 1e-3)}
    rest = [p[k] for k in ("low", "high", "lambda2", "bound")]
    quick = lane.bounded(p["J"], p["e"], *rest)
    slow = lane.limited(p["J"], damped(p), *rest)
    some = quick[3] > 0
    np.testing.assert_allclose(quick[0][some], slow[0][some], atol=1e-6)
