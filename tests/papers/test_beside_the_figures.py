"""What the papers say apart from their equations and figures, computed by a second method."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import numpy as np
import pytest
from supple.papers import Outcome
from supple.papers.buss import others, reach
from supple.papers.deo_walker import analytic
from supple.papers.maciejewski_klein import rotation
from supple.papers.wampler import noise
from supple.papers.wampler.arms import ARMS, ScaledArm

import supple

Ran = Callable[[str], Outcome]
Array = np.ndarray


def of(ran: Ran, name: str, words: str) -> bool | None:
    """Return the verdict on the only claim of an experiment whose text contains `words`."""
    (claim,) = (claim for claim in ran(name).claims if words in claim.paper and not claim.own)
    return claim.holds


# ---- W: a moving base ----------------------------------------------------------------------------


def base_at(t: float) -> Array:
    """Return the pose (4, 4) of a base that turns about z and moves along a curve."""
    pose = np.eye(4)
    c, s = np.cos(0.4 * t), np.sin(0.4 * t)
    pose[:2, :2] = [[c, -s], [s, c]]
    pose[:3, 3] = [0.1 * np.sin(t), 0.05 * t, 0.02 * np.sin(2 * t)]
    return pose


def twist_of_base(t: float, at: Array) -> Array:
    """Return v_t and ω_t (6,): the velocity, in the world, of a point that moves with the base, and
    the angular velocity of the base.
    """
    w = np.array([0.0, 0.0, 0.4])
    v = np.array([0.1 * np.cos(t), 0.05, 0.04 * np.cos(2 * t)])
    return np.r_[v + np.cross(w, at - base_at(t)[:3, 3]), w]


def test_the_velocity_of_a_moving_base_is_subtracted() -> None:
    """As in (3) and (7), v̂ = Ĵq̇ + [v_t; ω_t]: the twist of the tool in the world is the sum of
    the twist by the joints and the twist of the base.
    """
    robot = supple.load("puma560")
    rng = np.random.default_rng(1)
    q, qd, t, h = rng.uniform(-1, 1, 6), rng.uniform(-1, 1, 6), 0.7, 1e-6
    before, now, after = (
        robot.with_base(base_at(t + s * h)).fk(q + s * h * qd) for s in (-1, 0, 1)
    )
    change = (after - before) / (2 * h)
    turn = change[:3, :3] @ now[:3, :3].T
    measured = np.r_[change[:3, 3], turn[2, 1], turn[0, 2], turn[1, 0]]
    J = robot.with_base(base_at(t)).jacobian(q)
    np.testing.assert_allclose(J @ qd + twist_of_base(t, now[:3, 3]), measured, atol=1e-7)


@pytest.mark.parametrize("known", [True, False])
def test_a_servo_on_a_moving_base_keeps_its_hand_in_place(known: bool) -> None:
    """The hand stays where it is in the world if the velocity of the base is subtracted from the
    commanded velocity; with feedback alone, the hand lags behind.
    """
    robot, dt = supple.load("puma560"), 0.01
    q = np.radians([10.0, -30, 100, 20, 50, 0])
    place = robot.with_base(base_at(0.0)).fk(q)
    free, off = supple.Limits.none(robot), []
    exact = supple.steps.Pseudoinverse()
    servo = supple.Servo(robot, supple.PoseTask(), dt=dt, gain=5.0, step=exact, limits=free)
    for k in range(200):
        base = base_at(k * dt)
        inside = np.linalg.inv(base) @ place  # the target, as a pose in the frame of the base
        v = twist_of_base(k * dt, place[:3, 3])
        feed = -np.r_[base[:3, :3].T @ v[:3], base[:3, :3].T @ v[3:]] if known else np.zeros(6)
        q = servo(q, feed, inside)
        tool = base_at((k + 1) * dt) @ robot.fk(q)
        off.append(np.linalg.norm(tool[:3, 3] - place[:3, 3]))
    assert max(off) < 1e-3 if known else max(off) > 5e-3, max(off)


# ---- W: noise ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ARMS)
def test_at_a_singularity_the_sigma_of_measured_angles_is_below_the_bound_on_noise(
    ran: Ran, name: str
) -> None:
    """At a singular wrist, σ₆ of Ĵ at the measured angles is below the bound on ‖δĴ‖. With this
    bound as a threshold, the rank is that at the true angles.
    """
    arm, rng = ScaledArm.of(ARMS[name]), np.random.default_rng(2)
    q = arm.robot.random(50, seed=3)
    q[:, 4] = 0
    seen = q + rng.uniform(-1e-3, 1e-3, q.shape)
    bound = noise.change_of_jacobian(arm, seen, 1e-3)
    change = np.linalg.norm(arm.jacobian(seen) - arm.jacobian(q), ord=2, axis=(1, 2))
    assert (change <= bound).all()
    sigma = np.linalg.svd(arm.jacobian(seen), compute_uv=False)
    assert (sigma[:, -1] <= change).all()
    found = ran("w-noise").quantities
    assert found[f"{name}.share_below_bound"] == 1
    assert found[f"{name}.cut_max_speed"] < found[f"{name}.pinv_max_speed"] / 100
    assert of(ran, "w-noise", "threshold") is True


def test_noise_is_amplified_by_at_most_about_the_condition_number(ran: Ran) -> None:
    """The relative change of q̇ is at most 2κ times the relative change of Ĵ and v̂; at random
    configurations, the largest ratio of these changes is more than 0.3 κ.
    """
    J = np.diag([1.0, 0.1])
    kappa = np.sqrt((1 + noise.ALPHA**2) / (0.01 + noise.ALPHA**2))
    found, expected = noise.amplification(
        np.tile(J, (1, 1, 1)), np.array([[1.0, 0.0]]), 1e-3, np.random.default_rng(0)
    )
    assert found[0] == pytest.approx(kappa)
    assert expected[0] < 2 * kappa
    quantities = ran("w-noise").quantities
    for name in ARMS:
        assert 0.3 < quantities[f"{name}.largest_amplification_over_kappa"] < 2
        assert quantities[f"{name}.roundoff_matters_from"] >= 1e-4
    assert of(ran, "w-noise", "amplified") is True
    assert of(ran, "w-noise", "roundoff") is True


# ---- MK: subspaces and filters -------------------------------------------------------------------


def test_singular_subspaces_turn_by_less_than_wedins_bound(ran: Ran) -> None:
    """The plane of u₅ and u₆ turns little, although u₆ turns by 90° within this plane."""
    J = np.diag([2.0, 1.5, 1.0, 0.8, 0.1 + 1e-7, 0.1])[None]
    dJ = np.zeros((1, 6, 6))
    dJ[0, 4, 4] = -1e-6  # now σ₅ is smaller than σ₆
    assert rotation.turned(J, dJ, 1)[0] == pytest.approx(np.pi / 2)
    assert rotation.turned(J, dJ, 2)[0] < 1e-6
    dJ[0, 0, 5] = 1e-3
    angle = 1e-3 * 0.1 / (4 - 0.01)  # to first order: σ₆δ/(σ₁² − σ₆²)
    assert rotation.turned(J, dJ, 2)[0] == pytest.approx(angle, rel=1e-2)
    found = ran("mk-rotation").quantities
    assert found["largest_turn_over_bound"] <= 1
    assert found["vector.turn_at_least_gap"] > 60
    assert found["plane.largest_turn"] < 1
    assert of(ran, "mk-rotation", "perturbation") is True
    assert of(ran, "mk-rotation", "most rapid") is True


def test_the_gain_of_the_filter_is_between_those_of_pseudoinverse_and_truncation(ran: Ran) -> None:
    """In (27) with λ = 0, the gain along u₆ is σ₆/(σ₆² + α²); the other gains are those of J⁺."""
    near, far = rotation.cut(np.random.default_rng(4))
    gain = 1 / (1 + rotation.ALPHAS**2)  # in units of 1/σ₆
    np.testing.assert_allclose(near / near[0], gain / gain[0], rtol=1e-6)
    np.testing.assert_allclose(far / far[-1], (1 - gain) / (1 - gain[-1]), rtol=1e-6, atol=1e-9)
    assert of(ran, "mk-rotation", "truncated") is True


def test_each_method_with_more_information_follows_at_least_as_many_random_commands_well(
    ran: Ran,
) -> None:
    found = ran("mk-rotation").quantities
    order = ("constant", "variable", "filtered_as_printed", "filtered", "possible")
    shares = [found[f"{name}.followed_well"] for name in order]
    assert shares == sorted(shares)
    assert shares[0] < shares[1] < shares[2]
    assert of(ran, "mk-rotation", "workspaces") is True


# ---- DW: closed forms and cost -------------------------------------------------------------------


def test_singular_values_of_planar_arms_and_a_wrist_are_those_of_the_closed_formulas(
    ran: Ran,
) -> None:
    """This includes stretched arms."""
    rng = np.random.default_rng(5)
    for name, links in (("planar2", [1.1, 1.0]), ("planar3", [1.0, 0.5, 0.5])):
        robot, q = supple.load(name), rng.uniform(-3, 3, (50, len(links)))
        q[0] = 0
        found = analytic.planar(q, np.array(links))
        exact = robot.singular_values(q, rows=("x", "y"))
        np.testing.assert_allclose(found, exact, atol=1e-12)
    a, b = 1.1, 1.0
    q = np.array([[0.3, 0.8]])
    trace, det = a * a + 2 * a * b * np.cos(0.8) + 2 * b * b, (a * b * np.sin(0.8)) ** 2
    sigma = analytic.planar(q, np.array([a, b]))[0]
    assert (sigma**2).sum() == pytest.approx(trace)
    assert np.prod(sigma**2) == pytest.approx(det)
    np.testing.assert_allclose(analytic.wrist(np.array([0.0])), [[np.sqrt(2), 1, 0]], atol=1e-15)
    quantities = ran("dw-analytic").quantities
    for name in ("planar2", "planar3", "wrist"):
        assert quantities[f"{name}.largest_difference"] < 1e-12
    assert quantities["damped.largest_difference"] < 1e-10
    assert of(ran, "dw-analytic", "closed form") is True


def test_the_optimal_damping_factor_costs_more_operations(ran: Ran) -> None:
    """Each iteration of (18) needs another factorization and further operations."""
    cost = analytic.operations(6, 7, 3.0)
    once = analytic.operations(6, 7, 0.0)
    assert once["optimal"] == once["constant"] == 147 + 35 + 21 + 42 + 42
    assert cost["optimal"] > 2.5 * cost["constant"]
    assert cost["manipulability"] < 1.3 * cost["constant"]
    found = ran("dw-analytic").quantities
    assert found["m6.optimal_ratio"] > 2
    assert 2 <= found["m6.iterations"] <= 5
    assert of(ran, "dw-analytic", "expensive") is True


# ---- B: other methods, and the end of the reach --------------------------------------------------


@pytest.mark.parametrize("key", others.OTHERS)
def test_each_compared_method_decreases_the_distance_to_its_target(ran: Ran, key: str) -> None:
    """No iteration increases the sum of squared distances, and reachable targets are reached."""
    robot = supple.load("planar3")
    goal = robot.fk(np.array([0.4, 0.8, -0.5]))[None, :3, 3]
    problem = others.Problem(robot, goal)
    q = np.array([0.9, -0.6, 0.3])
    costs = [problem.cost(q)]
    costs += [problem.cost(x) for x in islice(others.METHODS[key](problem, q), 60)]
    assert (np.diff(costs) <= 1e-15).all()
    assert costs[-1] < 1e-6
    found = ran("buss-others").quantities
    assert found[f"arm.{key}_solved"] >= 0.8
    assert found[f"far.{key}_rises"] == 0
    assert of(ran, "buss-others", "cyclic") is True


def test_a_ccd_sweep_minimizes_over_one_joint_at_a_time() -> None:
    """When a joint is turned, no other angle of this joint has a smaller error. This also holds for
    two end effectors.
    """
    robot = supple.load("y")
    goals = robot.fk(np.full(7, 0.3), list(robot.tips))[:, :3, 3] + [[0.2, 0, 0], [0, 0.1, 0]]
    problem = others.Problem(robot, goals)
    q = next(others.cyclic_coordinate_descent(problem, np.zeros(7)))
    best = problem.cost(q)
    for angle in np.linspace(-np.pi, np.pi, 73):  # the first joint was turned last
        assert problem.cost(q + angle * np.eye(7)[0]) >= best - 1e-12


def test_transpose_and_dls_oscillate_alike_just_within_and_just_beyond_reach_and_pinv_does_not(
    ran: Ran,
) -> None:
    found = ran("buss-reach").quantities
    near, beyond = (
        {m: found[f"{m}.reversed_at_{x}"] for m in reach.NAMES} for x in ("0_999", "1_001")
    )
    for name in ("transpose", "dls", "dls_clamped"):
        assert abs(near[name] - beyond[name]) < 0.05
    assert near["transpose"] > 5 * found["transpose.reversed_at_0_7"]
    assert beyond["pinv"] > 10 * near["pinv"]
    assert of(ran, "buss-reach", "barely reachable") is True
    assert of(ran, "buss-reach", "same for the pseudoinverse") is False


def test_clamping_the_error_reduces_the_oscillation_of_sdls(ran: Ran) -> None:
    found = ran("buss-reach").quantities
    assert found["sdls.oscillation"] > 0.05
    assert found["sdls_clamped.oscillation"] < 0.01
    assert of(ran, "buss-reach", "SDLS") is True


def test_clamps_take_few_operations_compared_with_a_step(ran: Ran) -> None:
    """For J of size 6 × 7, half of JJᵀ takes 21 · 7 operations, its factor 35 + 21, two triangular
    systems 42 and Jᵀ 42. A clamp takes 8 for each of two end effectors.
    """
    assert reach.operations(6, 7, 2) == (147 + 35 + 21 + 42 + 42, 16)
    found = ran("buss-reach").quantities
    assert found["y.clamp_operations_share"] == pytest.approx(16 / 287)
    assert found["double_y.clamp_operations_share"] < 0.02
    assert of(ran, "buss-reach", "runtime") is True


def test_the_transpose_step_is_along_the_torques_of_a_virtual_force() -> None:
    """The step has the direction of the joint torques of a force e at the end effector."""
    robot = supple.load("iiwa14")
    rng = np.random.default_rng(6)
    for q in robot.random(5, seed=7):
        e = rng.normal(size=3)
        step = supple.steps.Transpose()(supple.Linearization(robot.jacobian(q)[:3], e))
        torques = robot.joint_torques(q, np.r_[e, 0, 0, 0])
        scale = (step @ torques) / (torques @ torques)
        assert scale > 0
        np.testing.assert_allclose(step, scale * torques, atol=1e-12)


def test_moving_toward_a_rest_position_increases_the_smallest_singular_value(ran: Ran) -> None:
    found = ran("buss-reach").quantities
    assert found["rest.mean_sigma"] > 2 * found["plain.mean_sigma"]
    assert of(ran, "buss-reach", "rest positions") is True
