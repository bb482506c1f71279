"""Resolved velocity, acceleration and jerk; inertia weights; damped condition numbers."""

from __future__ import annotations

import numpy as np
import pytest

import supple
from supple import DLS, Linearization
from supple.damping import Constant, Optimal, damped_condition
from supple.errors import InputError
from supple.steps import Pseudoinverse, WeightedDLS, resolved_motion

Array = np.ndarray
AXES = ("world", "body", "spatial", "link2")


@pytest.fixture(scope="module")
def arm() -> supple.Robot:
    return supple.load("puma560")


@pytest.mark.parametrize("axes", AXES)
def test_resolved_speeds_accelerations_and_jerks_give_the_command(
    arm: supple.Robot, axes: str
) -> None:
    # The frame has the commanded derivative if q(t) has the solution as its highest derivative.
    rng, h = np.random.default_rng(1), 1e-5
    q, qd, qdd = arm.random(seed=rng), *rng.normal(size=(2, 6))
    twist, acceleration, jerk = rng.normal(size=(3, 6))
    solve = Pseudoinverse()
    kept = {"axes": axes}

    speed = solve(resolved_motion(arm, twist, q, **kept))
    np.testing.assert_allclose(arm.jacobian(q, **kept) @ speed, twist, atol=1e-10)

    found = solve(resolved_motion(arm, acceleration, q, qd, **kept))

    def velocity(t: float) -> Array:
        return arm.jacobian(q + qd * t + found * t**2 / 2, **kept) @ (qd + found * t)

    np.testing.assert_allclose((velocity(h) - velocity(-h)) / (2 * h), acceleration, atol=1e-5)

    third = solve(resolved_motion(arm, jerk, q, qd, qdd, **kept))

    def accelerated(t: float) -> Array:
        at = q + qd * t + qdd * t**2 / 2 + third * t**3 / 6
        rates = qd + qdd * t + third * t**2 / 2
        J = arm.jacobian(at, **kept)
        return J @ (qdd + third * t) + arm.bias_acceleration(at, rates, **kept)

    difference = (accelerated(h) - accelerated(-h)) / (2 * h)
    np.testing.assert_allclose(difference, jerk, atol=1e-4 * max(1, abs(third).max()))


def test_damped_solutions_for_velocity_acceleration_and_jerk_have_the_same_bound(
    arm: supple.Robot,
) -> None:
    # At a singular wrist, all three have the same J, and the norm of a solution is <= ‖e‖/(2 λ).
    rng, lambda2 = np.random.default_rng(2), 0.01
    q = np.array([0.3, -0.8, 2.5, 0.7, 0.0, 0.4])
    qd, qdd, command = rng.normal(size=(3, 6))
    for rates in ((), (qd,), (qd, qdd)):
        linear = resolved_motion(arm, command, q, *rates)
        np.testing.assert_allclose(linear.J, arm.jacobian(q))
        found = DLS(Constant(lambda2))(linear)
        assert np.linalg.norm(found) <= np.linalg.norm(linear.e) / (2 * np.sqrt(lambda2))
        limited = DLS(Optimal(1.0))(linear)
        assert np.linalg.norm(limited) <= 1.0


def test_commanding_the_jerk_of_a_line_moves_the_tool_along_this_line() -> None:
    # The line is 0.1 m along y in 1 s, by a polynomial of order 5 with rest at both ends.
    arm, n = supple.load("puma560"), 1000
    q, qd, qdd = np.array([0.2, -1.0, 2.3, 0.4, 0.9, 0.1]), np.zeros(6), np.zeros(6)
    start, dt, step = arm.fk(q), 1 / n, DLS(Constant(1e-10))
    for k in range(n):
        s = (k + 0.5) * dt
        jerk = np.zeros(6)
        jerk[1] = 0.1 * (60 - 360 * s + 360 * s**2)
        # With the bias in the middle of the interval, errors are of second order in dt.
        half = q + qd * dt / 2 + qdd * dt**2 / 8, qd + qdd * dt / 2, qdd
        third = step(resolved_motion(arm, jerk, *half))
        q = q + qd * dt + qdd * dt**2 / 2 + third * dt**3 / 6
        qd = qd + qdd * dt + third * dt**2 / 2
        qdd = qdd + third * dt
    moved = arm.fk(q)
    np.testing.assert_allclose(moved[:3, 3] - start[:3, 3], [0, 0.1, 0], atol=2e-4)
    np.testing.assert_allclose(moved[:3, :3], start[:3, :3], atol=2e-3)
    assert abs(arm.jacobian(q) @ qd).max() < 2e-3


def test_resolved_motion_of_a_batch_equals_that_of_each_row(arm: supple.Robot) -> None:
    rng = np.random.default_rng(3)
    q, qd, qdd = rng.normal(size=(3, 4, 6))
    command = rng.normal(size=6)
    linear = resolved_motion(arm, command, q, qd, qdd, axes="body")
    assert linear.batch_shape == (4,)
    assert linear.rows[3] == "rx of link6 in axes of link6"
    for i in range(4):
        one = resolved_motion(arm, command, q[i], qd[i], qdd[i], axes="body")
        np.testing.assert_allclose(linear.e[i], one.e, rtol=1e-12, atol=1e-12)
    assert "spatial coordinates" in resolved_motion(arm, command, q[0], axes="spatial").rows[0]


def test_resolved_motion_refuses_missing_rates_and_commands_of_wrong_shape(
    arm: supple.Robot,
) -> None:
    with pytest.raises(InputError, match="qdd without qd"):
        resolved_motion(arm, np.zeros(6), np.zeros(6), qdd=np.zeros(6))
    with pytest.raises(InputError, match="command must be finite"):
        resolved_motion(arm, np.zeros(5), np.zeros(6))
    with pytest.raises(InputError, match=r"batch axes of q, \(2,\)"):
        resolved_motion(arm, np.zeros((3, 6)), np.zeros((2, 6)))


def inertia_of(arm: supple.Robot, q: np.ndarray) -> np.ndarray:
    """Return M (n, n) of the kinetic energy ½ q̇ᵀM q̇, summed over all links."""
    M = np.zeros((arm.dof, arm.dof))
    for each in arm.description.inertias:
        R, J = arm.fk(q, each.link)[:3, :3], arm.jacobian(q, each.link)
        center = J[:3] + np.cross(J[3:], (R @ each.center)[:, None], axis=0)
        M += each.mass * center.T @ center + J[3:].T @ R @ each.matrix @ R.T @ J[3:]
    return M


def test_the_step_weighted_by_the_inertia_has_the_least_kinetic_energy() -> None:
    rng = np.random.default_rng(4)
    arm = supple.load("puma560_roll")
    for k, link in enumerate(arm.description.links[1:]):
        arm = arm.with_inertia(link, 5.0 / (k + 1), (0.05, 0.02, 0.1), 0.05 * np.eye(3))
    q, twist = arm.random(seed=rng), rng.normal(size=6)
    M, J = arm.inertia_matrix(q), arm.jacobian(q)
    np.testing.assert_allclose(M, inertia_of(arm, q), atol=1e-12)
    found = WeightedDLS(Constant(0.0), joint_weight=M)(Linearization(J, twist))
    np.testing.assert_allclose(J @ found, twist, atol=1e-9)
    # M q̇ is orthogonal to the null space, so no self-motion reduces the kinetic energy.
    null = np.linalg.svd(J)[2][-1]
    assert abs(null @ M @ found) < 1e-9 * np.linalg.norm(M @ found)
    shortest = np.linalg.pinv(J) @ twist
    assert found @ M @ found < shortest @ M @ shortest


@pytest.mark.parametrize("shape", [(6, 6), (6, 7), (7, 6), (2, 3)])
def test_the_damped_condition_is_that_of_jtj_plus_lambda2_times_identity(
    shape: tuple[int, int],
) -> None:
    rng = np.random.default_rng(5)
    m, n = shape
    J = rng.normal(size=(20, m, n))
    linear = Linearization(J, np.zeros((20, m)))
    for lambda2 in (1e-4, 0.03**2, 1.0):
        expected = [np.linalg.cond(each.T @ each + lambda2 * np.eye(n)) for each in J]
        np.testing.assert_allclose(linear.damped_condition(lambda2), expected, rtol=1e-9)
        one = Linearization(J[0], np.zeros(m)).damped_condition(lambda2)
        assert isinstance(one, float)
        assert one == pytest.approx(expected[0], rel=1e-9)


def test_the_damped_condition_at_zero_sigma_zero_lambda2_and_huge_values_is_its_limit() -> None:
    assert damped_condition(1.04, 0.0, 0.03**2) == pytest.approx((1.04**2 + 9e-4) / 9e-4)
    assert damped_condition(2.0, 0.5, 0.0) == pytest.approx(16.0)
    assert damped_condition(2.0, 0.0, 0.0) == np.inf
    assert damped_condition(0.0, 0.0, 0.0) == 1.0
    assert damped_condition(2.0, 0.5, 1e12) == pytest.approx(1.0)
    assert damped_condition(1e200, 1e199, 0.0) == pytest.approx(100.0)
    np.testing.assert_allclose(damped_condition([2.0, 1.0], 0.5, [0.0, 0.75]), [16.0, 1.75])
    with pytest.raises(InputError, match="sigma_min must not be negative"):
        damped_condition(1.0, -1.0, 0.1)
