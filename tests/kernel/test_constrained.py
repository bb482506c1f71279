"""Steps with a box, a bound on the norm and rows of constraints are those of
independent solvers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from constrained_oracle import Problem, certificate, enumerated
from generated import CASES, FIRST
from harness import LANES, Lane
from sizes import nightly

Array = np.ndarray
GIVEN_UP = 3  # `RowState::given_up`
LANE = next(lane for lane in LANES if lane.width == 1 and lane.dtype == np.float64)


def drawn(seed: int, n: int | None = None, rows: int | None = None) -> Problem:
    """Return a random problem, which may be degenerate or infeasible."""
    rng = np.random.default_rng([seed, 29])
    n = n or int(rng.integers(1, 4))
    m = int(rng.integers(1, n + 2))
    k = rows if rows is not None else int(rng.integers(1, 5))
    J = rng.normal(size=(m, n))
    kind = rng.integers(6)
    if kind == 0:
        J[-1] = J[0]  # singular
    elif kind == 1:
        J[:, 0] = 0
    elif kind == 2:
        J *= 10.0 ** rng.integers(-3, 4)
    elif kind == 3 and rng.random() < 0.3:
        J[:] = 0
    lambda2 = float(rng.choice([0.0, 1e-6, 1e-2, 1.0]))
    x0 = rng.normal(size=n) * rng.choice([0.3, 1.0, 3.0])
    low, high = -rng.exponential(0.7, n), rng.exponential(0.7, n)
    moving = rng.random() < 0.3
    if moving:  # speeds of moving joints: the box does not contain zero
        low, high = low + 1.0, high + 1.0
    equal = rng.random(n) < 0.1
    low[equal] = high[equal]
    if rng.random() < 0.2:
        low[rng.random(n) < 0.5] = -np.inf
    if rng.random() < 0.2:
        high[rng.random(n) < 0.5] = np.inf
    G = rng.normal(size=(k, n))
    if rng.random() < 0.3:
        G = np.round(G)  # rows of whole numbers: some are zero or along an axis
    h = rng.normal(size=k) * rng.choice([0.0, 0.3, 1.0, 3.0])
    for i in range(1, k):
        how = rng.integers(8)
        j = int(rng.integers(i))
        if how == 0:  # a duplicate of another row
            G[i], h[i] = G[j], h[j]
        elif how == 1:  # parallel to another row
            G[i] = G[j] * rng.choice([2.0, 0.3])
        elif how == 2:  # opposite to another row
            G[i] = -G[j] * rng.choice([1.0, 7.0])
        elif how == 3 and rng.random() < 0.3:
            G[i] = 0
    bound = float(rng.choice([np.inf, np.inf, 0.5, 1.0, 2.0]))
    return Problem(J, x0, low, high, lambda2, bound, G, h)


def solved(p: Problem, lane: Lane = LANE) -> tuple[Array, Array, Array]:
    """Return x, the active set and the states of the rows."""
    numbers = np.array([p.lambda2]), np.array([p.bound])
    x, side, state, _ = lane.constrained(
        p.J[None], p.x0[None], p.low[None], p.high[None], *numbers, p.G[None], p.h[None]
    )
    return x[0], side[0], state[0]


def difference(p: Problem, x: Array, y: Array) -> float:
    """Return the relative difference of two steps, in the norm defined by the cost.

    Without damping, several steps may have the least cost within a bound on the norm: then costs
    are compared.
    """
    R, size = p.cost_rows, 1 + np.linalg.norm(y) + np.linalg.norm(p.x0)
    if p.lambda2 == 0 and np.linalg.norm(y) >= p.bound * (1 - 1e-9):
        costs = [float(np.linalg.norm(p.J @ (each - p.x0)) ** 2) for each in (x, y)]
        return (costs[0] - costs[1]) / (np.linalg.norm(p.J) ** 2 * size**2 + 1e-300)
    return float(np.linalg.norm(R @ (x - y)) / np.linalg.norm(R) / size)


def check_limits(p: Problem, x: Array) -> None:
    """Check that x is in the box exactly, and within the bound on the norm if a point of the box
    is.
    """
    assert np.isfinite(x).all()
    assert (x >= p.low).all()
    assert (x <= p.high).all()
    most = max(p.bound, float(np.linalg.norm(p.nearest())))
    assert np.linalg.norm(x) <= most * (1 + 2e-16)


def test_constrained_steps_are_those_found_by_enumerating_all_active_sets() -> None:
    missing = active = 0
    cases = nightly(4 * CASES, CASES)
    for seed in range(FIRST, FIRST + cases):
        p = drawn(seed)
        x, _, state = solved(p)
        check_limits(p, x)
        theirs, missed = enumerated(p)
        G, h = p.unit_rows
        size = 1 + np.abs(h).max() + np.linalg.norm(theirs)
        mine = np.maximum(h - G @ x, 0)
        np.testing.assert_allclose(mine, missed, atol=1e-12 * size, err_msg=str(seed))
        assert ((state == GIVEN_UP) == (missed > 1e-11)).all(), seed
        # Without active rows, x is the step inside the box, which Cholesky computes if pivots are
        # above 1e-4.
        assert difference(p, x, theirs) <= (1e-12 if (state > 1).any() else 1e-11), seed
        missing, active = missing + int((missed > 0).any()), active + int((state > 1).any())
    assert min(missing, active) > cases // 8  # many problems have active or missed rows


def lattice(seed: int, n: int, rows: int) -> Problem:
    """Return a problem of small integers, in which many constraints are active at the same time."""
    rng = np.random.default_rng([seed, n, 30])
    J, G = rng.integers(-2, 3, (int(rng.integers(1, n + 2)), n)), rng.integers(-1, 2, (rows, n))
    low, high, x0 = (rng.integers(a, b, n) for a, b in ((-2, 1), (0, 3), (-3, 4)))
    h = rng.integers(-2, 3, rows) * rng.integers(2)
    J, x0, low, high, G, h = (each.astype(float) for each in (J, x0, low, high, G, h))
    return Problem(J, x0, low, high, float(rng.choice([0.0, 1e-6, 1.0])), np.inf, G, h)


@pytest.mark.parametrize("tidy", [False, True])
@pytest.mark.parametrize("n", [4, 7, 12, 30])
def test_constrained_steps_of_any_size_satisfy_the_kkt_conditions(n: int, tidy: bool) -> None:
    """The gradient is in the cone of the active constraints, and no row that is missed could be
    raised.
    """
    missing = 0
    for seed in range(FIRST, FIRST + nightly(CASES, CASES // 3)):
        rows = int(np.random.default_rng(seed).choice([1, 3, 8, 25]))
        p = lattice(seed, n, rows) if tidy else replace(drawn(seed, n, rows), bound=np.inf)
        x, side, state = solved(p)
        check_limits(p, x)
        off, missed = certificate(p, x)
        assert off <= (1e-12 if (state > 1).any() else 1e-9), seed  # looser without active rows
        assert ((state == GIVEN_UP) == missed).all(), seed
        assert (x[side < 0] == p.low[side < 0]).all()
        assert (x[side > 0] == p.high[side > 0]).all()
        missing += int(missed.any())
    assert missing  # some of the problems are infeasible


def test_constraints_that_the_step_inside_the_box_meets_change_no_bit() -> None:
    for seed in range(FIRST, FIRST + CASES):
        p = drawn(seed, 7)
        numbers = np.array([p.lambda2]), np.array([p.bound])
        box = [each[None] for each in (p.J, p.x0, p.low, p.high)]
        theirs, *_ = LANE.limited(*box, *numbers)
        h = (p.G @ theirs[0]) - np.random.default_rng(seed).exponential(0.1, len(p.h)) - 1e-9
        x, _, state = solved(replace(p, h=h, bound=np.inf))
        if np.isinf(p.bound):
            assert (x == theirs[0]).all(), seed
            assert (state == 1).all()


@pytest.mark.parametrize("n", [1, 3, 7])
def test_with_zeros_huge_and_tiny_numbers_steps_are_finite_and_in_the_box(n: int) -> None:
    """The search for the active set also ends."""
    for seed in range(FIRST, FIRST + nightly(4, 1) * CASES):
        rng = np.random.default_rng([seed, n])
        p = drawn(seed, n)
        sizes = np.array([0.0, 1.0, 1e-300, 1e-30, 1e-9, 1e9, 1e30])
        G = p.G * rng.choice(sizes, size=(len(p.h), 1))
        h = p.h * rng.choice([*sizes, 1e300], size=len(p.h))
        h[rng.random(len(h)) < 0.1] = -np.inf
        J = p.J * rng.choice([0.0, 1.0, 1e-100, 1e100])
        low, high = np.maximum(p.low, -1e3), np.minimum(p.high, 1e3)
        hostile = replace(p, J=J, G=G, h=h, low=low, high=high)
        check_limits(hostile, solved(hostile)[0])
