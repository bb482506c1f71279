"""Weights and damping of augmented tasks that vary with the distance from singularities."""

from __future__ import annotations

import numpy as np
import pytest

from spectra import orthonormal
from supple import Linearization
from supple.damping import Constant, VaryingWeights
from supple.errors import InputError
from supple.redundancy import Augmented

Array = np.ndarray
HOW = VaryingWeights(lambda2_max=1e-4, size=0.2, min_weight=0.01)


def pair(angle: float) -> tuple[Linearization, Linearization]:
    """Return a main task of full rank and a constraint that conflicts with it at angle 0."""
    main = np.eye(2, 3)
    constraint = np.array([[np.cos(angle), 0.0, np.sin(angle)]])
    return Linearization(main, [0.3, -0.2]), Linearization(constraint, [-0.5])


def stacked_sigma(parts: tuple[Linearization, ...]) -> float:
    return float(np.linalg.svd(np.vstack([x.J for x in parts]))[1][-1])


@pytest.mark.parametrize("angle", [0.0, 1e-6, 1e-3, 0.05, 0.2, 0.281, 0.3, 1.0])
def test_varying_weights_and_damping_are_the_published_formulas(angle: float) -> None:
    parts = pair(angle)
    depth = max(0.0, 1 - (stacked_sigma(parts) / 0.2) ** 2)
    found = HOW(parts)
    assert found.weights[0] == 1
    assert found.weights[1] == pytest.approx(1 - 0.99 * np.sqrt(depth), abs=1e-6)
    assert found.lambda2 == pytest.approx(1e-4 * depth, abs=1e-15)


def test_varying_lambda2_is_below_every_weight() -> None:
    """λ² < w as Egeland et al. require; w is continuous, and w and λ² are monotone."""
    found = [HOW(pair(angle)) for angle in np.linspace(0, 0.6, 2001)]
    w, lambda2 = np.array([(f.weights[1], f.lambda2) for f in found]).T
    assert (lambda2 < w).all()
    assert (np.diff(w) >= -1e-12).all()
    assert (np.diff(lambda2) <= 1e-16).all()
    assert np.abs(np.diff(w)).max() < 0.05  # w = 1 - 0.99 √depth is steep at the edge of the region
    assert w[0] == pytest.approx(0.01)
    assert w[-1] == 1
    assert lambda2[-1] == 0


def test_at_a_conflict_of_tasks_varying_weights_keep_the_error_of_the_main_task_small() -> None:
    """The error is of the order of the weight w; with equal weights, the error is large."""
    parts = pair(1e-4)
    found = HOW(parts)
    varied = Augmented(Constant(found.lambda2), found.weights)(parts)
    equal = Augmented(Constant(found.lambda2), (1.0, 1.0))(parts)
    errors = [float(np.linalg.norm(parts[0].e - parts[0].J @ dq)) for dq in (varied, equal)]
    assert errors[0] < 0.02
    assert errors[1] > 0.3
    assert np.linalg.norm(varied) < 2  # the step is bounded although the tasks conflict


def test_tasks_with_more_rows_than_joints_have_the_weights_of_a_conflict() -> None:
    rng = np.random.default_rng(0)
    parts = [Linearization(orthonormal(rng, 3, 3), np.ones(3)) for _ in range(3)]
    found = HOW(parts)
    assert found.weights == (1.0, pytest.approx(0.01), pytest.approx(0.01))
    assert found.lambda2 == pytest.approx(1e-4)


def test_the_damping_of_a_singular_main_task_is_added_to_that_of_conflicts() -> None:
    how = VaryingWeights(1e-4, 0.2, 0.01, main_lambda2_max=0.04, main_size=0.1)
    for least in (0.2, 0.05, 0.0):
        main = Linearization(np.diag([1.0, least, 0.0])[:2], [0.3, 0.2])
        depth = max(0.0, 1 - (least / 0.1) ** 2)
        found = how([main, Linearization([[0.0, 0.0, 1.0]], [0.1])])
        own = HOW([main, Linearization([[0.0, 0.0, 1.0]], [0.1])]).lambda2
        assert found.lambda2 == pytest.approx(own + 0.04 * depth, rel=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda: VaryingWeights(0.02, 0.2, 0.01),
        lambda: VaryingWeights(1e-4, 0.0),
        lambda: VaryingWeights(1e-4, 0.1, 0.0),
        lambda: VaryingWeights(-1.0, 0.1),
        lambda: HOW([]),
    ],
)
def test_varying_weights_refuse_bad_input(make: object) -> None:
    with pytest.raises(InputError, match="given"):
        make()  # type: ignore[operator]
