"""bench/optimum.py finds motions within the limits that no law in the comparison beats."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize

import supple as sp
from banded_qp import Bounds, minimizer
from cases import each
from optimum import Basis, best_motion, inverse_kinematics, keeps_limits, pose_rms
from passages import Passage, motion, passage
from sizes import a_third

RNG = np.random.default_rng


def drawn(robot: sp.Robot, kind: str, seed: int) -> Passage:
    """Return a random passage of a robot; `kind` is a kind of bench/singularities."""
    rng = RNG(seed)
    return next(one for _ in range(100) if (one := passage(robot, kind, rng)) is not None)


@each("seed", range(6))
def test_the_banded_minimizer_is_at_least_as_good_as_a_general_solver(seed: int) -> None:
    rng, N, n = RNG(seed), 7, 2
    root = rng.normal(size=(2 * N, N * n)) * (1 if seed % 2 else 0.3)
    for k in range(N):  # control points more than three places apart are not coupled
        root[2 * k : 2 * k + 2, : max(0, k - 3) * n] = 0
        root[2 * k : 2 * k + 2, (k + 1) * n :] = 0
    H, g = root.T @ root, rng.normal(size=N * n)
    blocks = np.zeros((4, N, n, n))
    for k in range(N):
        for o in range(min(4, N - k)):
            blocks[o, k] = H[(k + o) * n : (k + o + 1) * n, k * n : (k + 1) * n]
    shape = (N, n)
    lower, upper = -rng.uniform(0.1, 1, shape), rng.uniform(0.1, 1, shape)
    bounds = Bounds(lower, upper, rng.uniform(0.1, 0.6, n), rng.uniform(0.05, 0.5, n))
    found = minimizer(blocks, g.reshape(shape), bounds, np.zeros(shape))
    assert bounds.violation(found) < 1e-7

    each = np.eye(N * n).reshape(N * n, N, n)
    A = np.array([bounds.times(one).ravel() for one in each]).T
    best = minimize(
        lambda y: (0.5 * y @ H @ y + g @ y, H @ y + g),
        np.zeros(N * n),
        jac=True,
        method="SLSQP",
        constraints=LinearConstraint(A, bounds.least.ravel()),
        options={"ftol": 1e-12, "maxiter": 500},
    )
    y = found.ravel()
    assert 0.5 * y @ H @ y + g @ y <= best.fun + 1e-7


@each(("periods", "dt"), [(50, 0.01), (37, 0.001), (900, 0.004)])
def test_a_spline_keeps_the_limits_that_its_control_points_keep(periods: int, dt: float) -> None:
    """The largest differences of a spline do not exceed those of its control points, for any dt."""
    basis, rng, n = Basis.of(periods, dt), RNG(periods), 3
    c = rng.normal(size=(basis.count, n))
    h = basis.every * dt
    for order in (1, 2):
        most = np.abs(np.diff(c, n=order, axis=0, prepend=np.zeros((order, n)))).max(axis=0)
        q = basis.motion(c)
        moved = np.abs(np.diff(q, n=order, axis=0, prepend=np.zeros((order, n)))).max(axis=0)
        assert (moved / dt**order <= most / h**order * (1 + 1e-9)).all()
    values = rng.normal(size=(periods, n))  # `gathered` is the transpose of `motion`
    assert (values * basis.motion(c)).sum() == pytest.approx((basis.gathered(values) * c).sum())
    squares = np.einsum("ki,kj->kij", values, values)
    blocks = basis.blocks(squares)
    twice = 2 * sum(
        np.einsum("ki,kij,kj->", c[o:], blocks[o, : len(c) - o], c[: len(c) - o]) for o in range(4)
    ) - np.einsum("ki,kij,kj->", c, blocks[0], c)
    assert ((values * basis.motion(c)).sum(axis=1) ** 2).sum() == pytest.approx(twice)


@pytest.mark.parametrize(
    ("kind", "seed"), a_third([("touch", 2), ("through", 3), ("dwell", 1)], "optimum")
)
def test_the_optimum_is_within_limits_and_never_worse_than_the_default_step(
    kind: str, seed: int
) -> None:
    here = drawn(sp.load("ur5e"), kind, seed)
    own = motion(here, None)
    best = best_motion(here, [own, *inverse_kinematics(here)])
    assert keeps_limits(here, best)
    np.testing.assert_array_equal(best[0], here.q0)
    assert pose_rms(here, best) <= pose_rms(here, own)


def test_the_optimum_has_no_error_for_poses_that_a_motion_within_limits_reaches() -> None:
    """The search starts from another motion, which has a large error."""
    robot = sp.load("ur5e")
    here = drawn(robot, "ordinary", 5)
    t = np.arange(len(here.twists) + 1) * here.dt
    wave = np.outer(1 - np.cos(1.5 * t), RNG(1).uniform(-0.15, 0.15, robot.dof))
    poses = robot.fk(here.q0 + wave)
    exact = Passage(robot, "exact", here.dt, here.limits, here.q0, poses, here.twists, poses)
    still = np.repeat(here.q0[None], len(t), axis=0)
    assert keeps_limits(exact, here.q0 + wave)
    assert pose_rms(exact, still) > 10
    assert pose_rms(exact, best_motion(exact, [still])) < 0.01
