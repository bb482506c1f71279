"""Wampler's numbers, each computed by a second, independent method."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from supple.papers import Outcome
from supple.papers.wampler.arms import ARMS, ScaledArm
from supple.papers.wampler.counts import JOINTS
from supple.papers.wampler.decomposition import ALPHAS, SAMPLES, differences
from supple.papers.wampler.rank import without_row
from supple.papers.wampler.recursion import Arm, Counted, Tally, values
from supple.papers.wampler.solvers import Cost, householder, normal_equations

Ran = Callable[[str], Outcome]
Array = np.ndarray


def test_the_gain_of_one_link_is_largest_at_sigma_equal_to_alpha(ran: Ran) -> None:
    """As in (46), the maximum of σ/(σ² + α²) is 1/(2α)."""
    found = ran("w-one-link").quantities
    for name, alpha in (("0_10", 0.1), ("0_15", 0.15), ("0_20", 0.2)):
        np.testing.assert_allclose(found[f"alpha_{name}.peak"], 1 / (2 * alpha), rtol=1e-6)
        np.testing.assert_allclose(found[f"alpha_{name}.sin_theta_at_peak"], alpha, atol=2e-4)
    assert found["speed_at_singularity"] == 0
    assert all(claim.holds for claim in ran("w-one-link").claims)


# ---- counts ------------------------------------------------------------------------------------


def test_operation_counts_of_the_jacobian_in_the_tool_frame_are_those_of_the_paper(
    ran: Ran,
) -> None:
    found = ran("w-counts").quantities
    for n in JOINTS:
        assert found[f"n{n}.multiplications"] == 26 * n - 20
        assert found[f"n{n}.multiplications_without_ones"] == 22 * n - 16
        assert found[f"n{n}.additions"] == 13 * n - 10
        # The costs of each joint, as in tests/kinematics/test_operations.py, plus those of the
        # tool's pose.
        assert found[f"n{n}.kernel_multiplications"] == 30 * n + 24
        assert found[f"n{n}.kernel_additions"] == 18 * n + 21
    assert found["max_difference"] < 1e-14
    printed = [claim for claim in ran("w-counts").claims if "Stanford" not in claim.paper]
    assert all(claim.holds for claim in printed)


def test_operation_counts_in_the_base_frame_and_of_conversions_are_those_of_the_paper(
    ran: Ran,
) -> None:
    """In the base's frame, J of n > 2 joints takes 26n - 31 multiplications and 13n - 19 additions,
    most of them for the pose. The claims about the Stanford arm are undecided, because the paper
    does not say what its counts include.
    """
    found = ran("w-counts").quantities
    for n in JOINTS[1:]:
        assert found[f"n{n}.base_multiplications"] == 26 * n - 31
        assert found[f"n{n}.base_additions"] == 13 * n - 19
        # (27) takes at most 6 multiplications and 3 additions for each joint but the first.
        columns = found[f"n{n}.base_operations"] - found[f"n{n}.pose_operations"]
        assert 9 * (n - 1) - 3 <= columns <= 9 * n
        assert found[f"n{n}.pose_operations"] > found[f"n{n}.base_operations"] / 2
    assert found["conversion.multiplications"] == 8
    assert found["conversion.additions"] == 4
    assert found["columns.saved"] == pytest.approx(0.7)
    stanford = [claim.holds for claim in ran("w-counts").claims if "Stanford" in claim.paper]
    assert stanford == [None] * 3


def test_products_with_zero_are_not_counted_and_products_with_one_are_counted_separately() -> None:
    tally = Tally()
    zero, one, x, y = (Counted(value, tally) for value in (0.0, -1.0, 2.0, 3.0))
    assert (x * y + x).value == 8
    assert (tally.multiplications, tally.by_one, tally.additions) == (1, 0, 1)
    assert (one * x).value == -2
    assert (tally.multiplications, tally.by_one, tally.additions) == (1, 1, 1)
    assert (zero * x + y).value == 3
    assert (-x).value == -2
    assert (tally.multiplications, tally.by_one, tally.additions) == (1, 1, 1)


@pytest.mark.parametrize("n", [2, 4, 9])
def test_the_recursion_gives_the_jacobian(n: int) -> None:
    """The recursion's J equals finite differences of the tool's pose, in the tool's axes."""
    rng = np.random.default_rng(n)
    arm, q = Arm.random(rng, "R" * n), rng.uniform(-3, 3, n)
    robot, h = arm.robot(), 1e-6
    T, J = robot.fk(q), np.empty((6, n))
    for j in range(n):
        after, before = (robot.fk(q + step * np.eye(n)[j]) for step in (h, -h))
        change = (after - before) / (2 * h)
        turn = T[:3, :3].T @ change[:3, :3]
        J[:, j] = *(T[:3, :3].T @ change[:3, 3]), turn[2, 1], turn[0, 2], turn[1, 0]
    found = values(arm.motion(q).jacobian("tool")).T
    np.testing.assert_allclose(found, J, atol=1e-8)


# ---- condition ---------------------------------------------------------------------------------


def test_damped_condition_numbers_exceed_the_1200_of_the_paper(ran: Ran) -> None:
    found, claims = ran("w-conditioning").quantities, ran("w-conditioning").claims
    assert [claim.holds for claim in claims] == [False, False, True, True]
    for name in ARMS:
        assert found[f"{name}.max_condition"] > 1200
        assert found[f"{name}.min_largest_sigma"] > found["largest_sigma_for_1200"]
        assert found[f"{name}.max_residual"] < found["residual_bound"]
    assert found["largest_sigma_for_1200"] == pytest.approx(1.04, abs=0.002)
    assert found["residual_bound"] == pytest.approx(0.08, abs=0.003)


@pytest.mark.parametrize("name", ARMS)
def test_the_damped_condition_number_is_at_least_1334_at_singularities(name: str) -> None:
    """If Σσ² >= 6 and σ_6 = 0, then σ_1² >= 1.2, so the number is at least (1.2 + α²)/α² = 1334."""
    arm = ScaledArm.of(ARMS[name])
    q = arm.robot.random(200, seed=5)
    q[:, 4] = 0  # the wrist axes lie in one plane
    for J in arm.jacobian(q):
        assert (np.linalg.norm(J, axis=0) >= 1 - 1e-12).all()
        assert np.linalg.cond(J.T @ J + 0.03**2 * np.eye(6)) >= (1.2 + 0.03**2) / 0.03**2


def test_the_bound_of_wamplers_theorem_3_holds_and_is_reached(ran: Ran) -> None:
    found = ran("w-conditioning").quantities
    for rank in ("full", "lower"):
        assert 1 - 1e-6 < found[f"theorem_3.{rank}_rank"] < 1 + 1e-9


# ---- the wrist ---------------------------------------------------------------------------------


def damped(J: Array, v: Array, alpha: float) -> Array:
    """Return the damped solutions (k, n) for J (k, m, n) and v (k, m)."""
    gram = J.transpose(0, 2, 1) @ J + alpha**2 * np.eye(J.shape[2])
    return np.linalg.solve(gram, np.einsum("kmn,km->kn", J, v)[..., None])[..., 0]


def in_two_parts(J: Array, v: Array, tool: Array, alpha: float) -> Array:
    """Solve the damped problem for the first three joints at the wrist's center, then for the last
    three joints.
    """
    center = J[:, :3] - np.cross(J[:, 3:], tool[..., None], axis=1)
    first = damped(center[..., :3], v[:, :3] - np.cross(v[:, 3:], tool), alpha)
    left = v[:, 3:] - np.einsum("kmn,kn->km", J[:, 3:, :3], first)
    return np.concatenate([first, damped(J[:, 3:, 3:], left, alpha)], axis=1)


@pytest.mark.parametrize(("name", "length"), [("puma", 0.05625), ("stanford", 0.263)])
def test_the_decomposed_damped_solution_differs_from_the_full_one(
    ran: Ran, name: str, length: float
) -> None:
    found = ran("w-wrist").quantities
    arm, rng = ScaledArm.of(ARMS[name]), np.random.default_rng(3)
    q = arm.robot.random(SAMPLES, seed=rng)
    J, v = arm.jacobian(q), rng.normal(size=(SAMPLES, 6))
    tools = length / arm.reach * arm.robot.fk(q)[:, :3, 2]  # vectors from the wrist's center
    for alpha in ALPHAS:
        whole, parts = damped(J, v, alpha), in_two_parts(J, v, tools, alpha)
        off = np.linalg.norm(parts - whole, axis=1) / np.linalg.norm(whole, axis=1)
        moved = np.einsum("kmn,kn->km", J, parts - whole)
        twist = np.linalg.norm(moved, axis=1) / np.linalg.norm(v, axis=1)
        some = slice(0, SAMPLES, 8)  # the experiment's medians and quantiles are over all samples
        ours = differences(J[some], v[some], alpha)
        np.testing.assert_allclose(ours, [off[some], twist[some]], rtol=1e-6, atol=1e-9)
        key = f"{alpha:g}".replace(".", "_")
        for quantity, value in {
            "median": np.median(off),
            "p90": np.quantile(off, 0.9),
            "twist_median": np.median(twist),
        }.items():
            np.testing.assert_allclose(found[f"{name}.{quantity}_{key}"], value, rtol=1e-6)
    medians = [found[f"{name}.median_{a:g}".replace("0.", "0_")] for a in ALPHAS]
    assert medians == sorted(medians)  # the difference grows with the damping
    assert medians[1] < 0.1 < medians[2]
    assert [claim.holds for claim in ran("w-wrist").claims] == [False, True]


# ---- solvers and rank --------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 4, 6, 7, 12])
def test_cholesky_and_qr_factor_the_same_damped_matrix(n: int) -> None:
    """RᵀR = ĴᵀĴ + α²I, and the counted operations agree with formulas."""
    J = np.random.default_rng(n).normal(size=(6, n))
    normal, qr = Cost(), Cost()
    L = normal_equations(J, 0.1, normal)
    R, order = householder(J, 0.1, qr)
    np.testing.assert_allclose(L.T @ L, J.T @ J + 0.01 * np.eye(n), atol=1e-12)
    np.testing.assert_allclose(
        R.T @ R, (J.T @ J)[np.ix_(order, order)] + 0.01 * np.eye(n), atol=1e-12
    )
    assert (np.abs(np.diag(R))[:-1] >= np.abs(np.diag(R))[1:] - 1e-12).all()  # because of pivoting
    assert 6 * normal.count == n**3 + 21 * n**2 + 14 * n
    assert qr.count == 15 * n * (n - 1) // 2 + 15 * n


def test_cholesky_and_qr_take_equally_many_operations_at_about_30_joints(ran: Ran) -> None:
    found = ran("w-solvers").quantities
    n = found["printed_crossing"]
    assert n**3 / 6 + 3.5 * n**2 + 7 / 3 * n == pytest.approx(8 * n**2 + 19 * n, rel=1e-12)
    assert n == pytest.approx(30, abs=0.5)
    assert all(claim.holds for claim in ran("w-solvers").claims)


def test_removing_a_row_can_reverse_the_velocity(ran: Ran) -> None:
    """Two links stretched at 45° can move their end only along (-1, 1). If (1, 1) is commanded, row
    x alone gives (1, -1), and row y alone gives (-1, 1).
    """
    J = np.array([[-1.0, -0.5], [1.0, 0.5]])
    without_y, without_x = (J @ without_row(J, np.ones(2), row) for row in (1, 0))
    np.testing.assert_allclose(without_y, [1, -1], atol=1e-12)
    np.testing.assert_allclose(without_x, [-1, 1], atol=1e-12)
    found = ran("w-rank").quantities
    assert found["two_links.largest_angle"] == pytest.approx(180, abs=1e-3)
    for name in ARMS:
        assert found[f"{name}.damped_max_speed"] <= 1 / (2 * 0.03) < found[f"{name}.pinv_max_speed"]
    assert all(claim.holds for claim in ran("w-rank").claims)
