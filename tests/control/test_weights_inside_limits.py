"""Weighted steps are optimal inside limits; weights are vectors or matrices."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

from loops import Array, robot, somewhere
from supple import (
    Limits,
    Servo,
    damping,
)
from supple.criteria import RestPosture
from supple.redundancy import WeightedCriterion
from supple.steps import (
    AngleClamp,
    WeightedDLS,
)

DT = 0.01
TWIST = np.array([1.0, 0.2, -0.3, 0.1, 0.2, 0.3])
REST = RestPosture(np.full(7, 0.2))
W = np.array([5.0, 0.2, 1.0, 3.0, 0.5, 1.0, 2.0])
ROWS = np.array([1.0, 2.0, 0.5, 1.5, 0.7, 3.0])


def best_inside(H: Array, g: Array, box: float, norm: float) -> Array:
    """Return the minimizer of xᵀHx - 2 gᵀx with |x_j| <= box and ‖x‖ <= norm.

    All sets of entries at bounds of the box are tried. For each set, a root search finds the
    multiplier of the bound on the norm.
    """
    n, eye = len(g), np.eye(len(g))
    sets = np.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=n)))
    free = sets == 0

    def inside(more: float) -> Array:
        A = H + more * eye
        both = free[:, :, None] & free[:, None, :]
        fixed = box * sets
        right = np.where(free, g - fixed @ A, fixed)
        x = np.linalg.solve(np.where(both, A, eye), right[..., None])[..., 0]
        cost = np.einsum("ki,ij,kj->k", x, A, x) - 2 * x @ g
        best: Array = x[
            np.where((np.abs(x) <= box * (1 + 1e-9)).all(axis=1), cost, np.inf).argmin()
        ]
        return best

    x = inside(0.0)
    if np.linalg.norm(x) <= norm:
        return x
    return inside(brentq(lambda more: np.linalg.norm(inside(more)) - norm, 0.0, 1e3, xtol=1e-12))


LAMBDA2 = 0.05
WEIGHTED: dict[str, tuple[Any, Array, Array]] = {
    "vectors": (WeightedDLS(damping.Constant(LAMBDA2), ROWS, W), np.diag(ROWS), np.diag(W)),
    "matrices": (
        WeightedDLS(damping.Constant(LAMBDA2), np.diag(ROWS), np.diag(W)),
        np.diag(ROWS),
        np.diag(W),
    ),
    "coupled": (
        WeightedDLS(damping.Constant(LAMBDA2), None, np.diag(W) + 0.1),
        np.eye(6),
        np.diag(W) + 0.1,
    ),
    "clamped": (
        AngleClamp(WeightedDLS(damping.Constant(LAMBDA2), None, np.diag(W) + 0.1), 1e6),
        np.eye(6),
        np.diag(W) + 0.1,
    ),
    "a user's rule": (WeightedDLS(lambda lin: LAMBDA2, None, W), np.eye(6), np.diag(W)),
    "a criterion": (
        WeightedCriterion(0.0, math.sqrt(LAMBDA2), REST, A=np.diag(W) + 0.1),
        np.eye(6),
        np.diag(W) + 0.1,
    ),
}


@pytest.mark.parametrize("norm", [math.inf, 0.5])
@pytest.mark.parametrize("name", WEIGHTED)
def test_a_weighted_step_inside_limits_has_the_least_cost(name: str, norm: float) -> None:
    """The cost is (Jx - e)ᵀW₁(Jx - e) + λ² xᵀW₂x, within a box and a bound on ‖x‖."""
    arm, (step, W1, W2) = robot("panda"), WEIGHTED[name]
    wide = np.full(7, 9.0)
    limits = Limits(-wide, wide, np.full(7, 0.3), np.full(7, math.inf), max_norm=norm)
    acted = 0
    for k in range(2):
        servo = Servo(arm, dt=DT, step=step, limits=limits)
        servo(somewhere("panda", k), TWIST)
        lin = servo.linearization
        H, g = lin.J.T @ W1 @ lin.J + LAMBDA2 * W2, lin.J.T @ W1 @ lin.e
        best = best_inside(H, g, 0.3, norm)
        np.testing.assert_allclose(servo.qd, best, rtol=0, atol=1e-7)
        acted += int(np.abs(best).max() > 0.2999)
    assert acted


def test_a_diagonal_weight_matrix_acts_as_the_vector_of_its_diagonal() -> None:
    """Both give the same motion, statuses and damping."""
    arm = robot("panda")
    wide = np.full(7, 9.0)
    for lambda2, norm in ((LAMBDA2, math.inf), (LAMBDA2, 0.5), (0.0, math.inf)):
        limits = Limits(-wide, wide, np.full(7, 0.3), np.full(7, math.inf), max_norm=norm)
        rule = damping.Constant(lambda2)
        steps = WeightedDLS(rule, ROWS, W), WeightedDLS(rule, np.diag(ROWS), np.diag(W))
        one, other = (Servo(arm, dt=DT, step=step, limits=limits) for step in steps)
        for k in range(6):
            q = somewhere("panda", k)
            np.testing.assert_allclose(one(q, TWIST), other(q, TWIST), rtol=0, atol=1e-9)
            assert one.lambda2 == pytest.approx(other.lambda2, rel=1e-6, abs=1e-9)
            assert one.status is other.status
