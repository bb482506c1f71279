"""Laws of optimally damped steps of a batch: equal to the SVD in Python, ‖q̇‖ <= Δ."""

from __future__ import annotations

import numpy as np
import pytest

import damping_paper as papers
from batch_steps import in_kernel
from sizes import nightly
from spectra import EPS, SHAPES, orthonormal, random_spectra, samples
from supple import DLS, Linearization, _core
from supple.damping import Optimal

BOUNDS = (1e-3, 0.5, 20.0)


@pytest.mark.parametrize("isa", _core.isas())
@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_optimally_damped_steps_of_a_batch_agree_with_python(
    shape: tuple[int, int], bound: float, isa: str
) -> None:
    step, cases = DLS(Optimal(bound)), samples(shape)
    chosen = _core.isa()
    _core.use_isa(isa)
    try:
        dq, _ = in_kernel(step, np.array([s.J for s in cases]), np.array([s.e for s in cases]))
    finally:
        _core.use_isa(chosen)
    for sample, there in zip(cases, dq, strict=True):
        lin = Linearization(sample.J, sample.e)
        here, lambda2 = step(lin), step.rule(lin)
        # J has rounding errors, as in test_optimal_damping_is_the_root_found_by_bisection.
        blur = float(papers.measures(sample.J, sample.e, None).blur)
        least = lambda2 + (lin.sigma[max(lin.rank, 1) - 1]) ** 2
        size, speed = np.linalg.norm(sample.e), np.linalg.norm(here)
        slack = blur * (size / least + speed / np.sqrt(least)) if least > 0 else 0.0
        assert np.linalg.norm(there - here) <= slack + 128 * EPS * speed, sample.name


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
def test_many_optimally_damped_steps_keep_the_bound(dtype: type) -> None:
    rng = np.random.default_rng(4)
    few = 128 * np.finfo(dtype).eps
    for m, n in ((6, 7), (6, 6), (3, 7), (2, 3), (6, 9)):
        U = np.stack([orthonormal(rng, m, m) for _ in range(100)])
        V = np.stack([orthonormal(rng, n, m) for _ in range(100)])
        count, decades = nightly(100_000, 20_000), 9 if dtype is np.float64 else 5
        sigma, gamma = random_spectra(rng, count, m, decades)
        sigma, gamma = sigma.reshape(-1, 100, m), gamma.reshape(-1, 100, m)
        J = ((U * sigma[:, :, None]) @ V.swapaxes(1, 2)).astype(dtype)
        e = (U @ gamma[..., None])[..., 0].astype(dtype)
        for bound in (0.5, 20.0):
            dq, lambda2 = in_kernel(DLS(Optimal(bound)), J, e)
            # The rounding error of this norm is far smaller than the margin to the bound.
            speed = np.sqrt((dq.astype(np.float64) ** 2).sum(axis=-1))
            assert (speed <= bound).all()
            assert (speed[lambda2 > 0] >= bound * (1 - few)).all()
            assert (lambda2 > 0).any()
            assert (lambda2 == 0).any()


def test_the_methods_of_dls_agree_and_auto_takes_the_svd_only_where_needed() -> None:
    rng = np.random.default_rng(6)
    J, e = rng.normal(size=(50, 6, 7)), rng.normal(size=(50, 6))
    J[7, 3] = J[7, 2]  # rank-deficient
    rule = Optimal(0.1)
    auto, fast, svd = (in_kernel(DLS(rule, way), J, e) for way in ("auto", "cholesky", "svd"))  # type: ignore[arg-type]
    assert auto[0].tobytes() == fast[0].tobytes()
    assert auto[0][7].tobytes() == svd[0][7].tobytes()
    assert auto[0].tobytes() != svd[0].tobytes()
    plain = Optimal(0.1, newton=True)
    ways = {in_kernel(DLS(plain, way), J, e)[0].tobytes() for way in ("auto", "cholesky", "svd")}  # type: ignore[arg-type]
    assert len(ways) == 1
