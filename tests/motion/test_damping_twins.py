"""Every damping rule gives the same λ² in Python and in the kernel, on every instruction set."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from supple._core import Rule

from cases import each
from rules import EVERY, key
from sizes import a_third
from spectra import ZERO, hard_spectra, history, of_spectrum, random_spectra
from supple import Linearization, _core
from supple.damping import (
    ConditionBound,
    Constant,
    Curvature,
    ErrorDamped,
    ErrorNorm,
    MayorgaCondition,
    MayorgaRank,
    Optimal,
    ResidualOptimal,
    SpeedBound,
    TrackingBound,
)
from supple.damping.rule import KernelRule

Array = np.ndarray
Batch = tuple[Array, Array, Array]  # sigma (c, k), gamma (c, k), history (c, 3)

precisions = pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
rules = pytest.mark.parametrize("rule", EVERY, ids=key)


@cache
def hard(k: int, dtype: type) -> tuple[tuple[Linearization, ...], Batch]:
    """Return linearizations with difficult spectra, and the same numbers as arrays."""
    scales = (1e150, 1e-300) if dtype is np.float64 else (1e12, 1e-15)
    lins = hard_spectra(k, *scales, dtype)
    columns = ([x.sigma for x in lins], [x.gamma for x in lins], [history(x) for x in lins])
    return lins, tuple(np.array(column, dtype) for column in columns)  # type: ignore[return-value]


def kernel(rule: KernelRule, batch: Batch) -> Array:
    sigma, gamma, past = batch
    values = sigma.shape[-1]
    return _core.lambda2(rule.kernel, sigma=sigma, gamma=gamma, history=past, values=values)


def in_rank(lin: Linearization, eps: float) -> Linearization:
    """Return a linearization without the singular values that are zero in precision `eps`."""
    sigma = np.where(lin.sigma > ZERO * eps * lin.sigma[0], lin.sigma, 0)
    return of_spectrum(sigma, lin.gamma, lin.e[-1])


def rounds(rule: KernelRule, lin: Linearization, here: float, eps: float) -> float:
    """Return the allowed difference of two evaluations of the formula of a rule.

    The difference is a few eps times the largest number that occurs in a subtraction.
    """
    p = rule.kernel.parameters
    if isinstance(rule, Constant | ErrorDamped | ErrorNorm | TrackingBound):
        large = here
    elif isinstance(rule, SpeedBound):
        large = p[0] ** -2
    elif isinstance(rule, Curvature):
        large = p[0] * float(np.linalg.norm(lin.e))
    elif isinstance(rule, ConditionBound):
        large = float(lin.sigma[0]) ** 2 / (p[0] - 1)
    elif isinstance(rule, MayorgaCondition | MayorgaRank):
        large = here + np.sqrt(here * p[0]) + 16 * eps * p[0]  # λ0² l (l - 1)
    else:
        large = max(p[::2])  # λ0² (1 - ...)
    return 16 * eps * large


def speed(lin: Linearization, lambda2: float) -> float:
    """Return ‖q̇‖, computed without overflow or underflow of σ² + λ²."""
    s, g = lin.sigma[lin.sigma > 0], lin.gamma[lin.sigma > 0]
    return float(np.linalg.norm(g / (s + lambda2 / s)))


def lost(lin: Linearization, lambda2: float) -> float:
    """Return the relative error that damping causes, without overflow or underflow of σ²."""
    s, g = lin.sigma[lin.sigma > 0], lin.gamma[lin.sigma > 0]
    g = g / np.abs(g).max()
    return float(np.linalg.norm(g / (1 + s / lambda2 * s)) / np.linalg.norm(g))


@rules
@precisions
@each("k", [1, 2, 6, 7])
def test_damping_rules_give_the_same_lambda2_in_kernel_and_python(
    rule: KernelRule, dtype: type, k: int, isa: str
) -> None:
    lins, batch = hard(k, dtype)
    there = kernel(rule, batch)
    assert there.dtype == dtype
    assert np.isfinite(there).all()
    assert (there >= 0).all()
    eps = float(np.finfo(dtype).eps)
    tiny = float(np.finfo(dtype).tiny)
    pairs = list(zip(lins, there.tolist(), strict=True))
    for lin, value in a_third(pairs, rule, dtype, k):
        ranked = rule.rule.name in ("OPTIMAL", "TRACKING_BOUND", "RESIDUAL_OPTIMAL")
        lin = in_rank(lin, eps) if ranked else lin
        here = rule(lin)
        if isinstance(rule, Optimal):
            # Both iterate until ‖q̇‖ is within a few eps of its bound, so ‖q̇‖ is
            # compared, not λ².
            if min(here, value) > 1e3 * tiny:
                assert speed(lin, value) == pytest.approx(speed(lin, here), rel=160 * eps)
            elif max(here, value) > 1e3 * tiny:  # the pseudoinverse is at the bound
                assert speed(lin, 0) == pytest.approx(rule.max_speed, rel=160 * eps)
            continue
        if isinstance(rule, ResidualOptimal):  # compare the error that damping causes, not λ²
            if min(here, value) > 1e3 * tiny:
                assert lost(lin, value) == pytest.approx(lost(lin, here), rel=160 * eps)
            else:
                assert max(here, value) <= 1e3 * tiny
            continue
        assert abs(value - here) <= rounds(rule, lin, here, eps) + tiny, (lin.sigma, lin.gamma)


@rules
@precisions
def test_lambda2_of_a_row_does_not_depend_on_size_or_order_of_its_batch(
    rule: KernelRule, dtype: type, isa: str
) -> None:
    # Results are equal bit for bit in batches of any size and order.
    _, batch = hard(6, dtype)
    whole = kernel(rule, batch)
    for size in (1, 2, 3, 5, 7, 8, 9, 15, 17, 33):
        for first in (0, 1, 100):
            part = tuple(x[first : first + size] for x in batch)
            assert kernel(rule, part).tobytes() == whole[first : first + size].tobytes()
    order = np.random.default_rng(3).permutation(len(whole))
    shuffled = kernel(rule, tuple(x[order] for x in batch))  # type: ignore[arg-type]
    assert shuffled.tobytes() == whole[order].tobytes()


@rules
@precisions
def test_lambda2_has_the_shape_of_the_batch_also_for_an_empty_batch(
    rule: KernelRule, dtype: type, isa: str
) -> None:
    empty = tuple(np.zeros((0, n), dtype) for n in (6, 6, 3))
    assert kernel(rule, empty).shape == (0,)
    sigma, gamma, past = (x[:24].reshape(2, 3, 4, -1) for x in hard(6, dtype)[1])
    assert kernel(rule, (sigma, gamma, past)).shape == (2, 3, 4)


@rules
def test_instruction_sets_give_the_same_lambda2_up_to_rounding(rule: KernelRule) -> None:
    # Some instruction sets use fused multiply-add, so λ² agrees only up to rounding errors.
    sigma, gamma = random_spectra(np.random.default_rng(5), 2000, 6)
    past = np.tile([0.0, 0.7, 0.1], (2000, 1))
    past[:, 0] = (gamma**2).sum(axis=1)
    before, results = _core.isa(), []
    for name in _core.isas():
        _core.use_isa(name)
        results.append(kernel(rule, (sigma, gamma, past)))
    _core.use_isa(before)
    for result in results[1:]:
        assert np.allclose(result, results[0], rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parameters": 5 * [1.0]}, "parameters must be at most 4 entries long; given: 5"),
        ({"values": 0}, "values must be at least 1; given: 0"),
        ({"values": 65}, "values must be at most 64; given: 65"),
        ({"gamma": np.ones((2, 2))}, "sigma and gamma must have .* given: 3 rows .* 2 rows"),
        ({"history": np.ones((2, 3))}, "sigma and history must have .* given: 3 rows .* 2 rows"),
    ],
)
def test_invalid_arguments_of_the_damping_kernel_are_refused(
    changes: dict[str, Any], message: str
) -> None:
    given = {"sigma": np.ones((3, 2)), "gamma": np.ones((3, 2)), "history": np.zeros((3, 3))}
    given |= {"parameters": [1.0], "values": 2} | changes
    spec = _core.DampingSpec(rule=Rule.CONSTANT, parameters=given.pop("parameters"))
    with pytest.raises(ValueError, match=message):
        _core.lambda2(spec, **given)
