"""Deo & Walker's figures are compared with the printed numbers and with a plain transcription."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from supple.papers import Outcome

from sizes import nightly

Ran = Callable[[str], Outcome]
Array = np.ndarray
MAX_SPEED = 5.0
START = np.radians([5.0, -175, 175])


# ---- the papers' equations in NumPy ------------------------------------------------------------


def planar(q: Array) -> tuple[Array, Array]:
    """Return the hand's position (2,) and J (2, 3) of links of 1, 0.5 and 0.5 m; each angle is
    relative to the link before.
    """
    a, length = np.cumsum(q), np.array([1, 0.5, 0.5])
    links = length * np.array([np.cos(a), np.sin(a)])
    beyond = np.cumsum(links[:, ::-1], axis=1)[:, ::-1]  # vectors from each joint to the hand
    return links.sum(axis=1), np.array([-beyond[1], beyond[0]])


def denavit_hartenberg(q: Array) -> tuple[Array, Array]:
    """Return the tool's position (3,) and J (6, 6) of the arm in Table I of Maciejewski & Klein."""
    table = [
        (0, -90, 0),
        (0.432, 0, 0.149),
        (-0.020, 90, 0),
        (0, -90, 0.433),
        (0, 90, 0),
        (0, 0, 0.056),
    ]
    T, axes, points = np.eye(4), [], []
    for (a, twist, d), theta in zip(table, q, strict=True):
        axes.append(T[:3, 2])
        points.append(T[:3, 3])
        c, s, ct, st = np.cos(theta), np.sin(theta), *_circle(twist)
        T = T @ np.array(
            [
                [c, -s * ct, s * st, a * c],
                [s, c * ct, -c * st, a * s],
                [0, st, ct, d],
                [0, 0, 0, 1],
            ]
        )
    columns = [np.r_[np.cross(z, T[:3, 3] - p), z] for z, p in zip(axes, points, strict=True)]
    return T[:3, 3], np.array(columns).T


def _circle(degrees: float) -> tuple[float, float]:
    return float(np.cos(np.radians(degrees))), float(np.sin(np.radians(degrees)))


def search(numerator: Array, squares: Array, tolerance: float, start: float = 0.0) -> tuple:
    """Solve ‖numerator/(squares + λ)‖ = Δ by (18); return λ and the number of iterations."""
    lam, steps = start, 0
    while True:
        phi = np.linalg.norm(numerator / (squares + lam))
        if abs(phi - MAX_SPEED) <= tolerance * MAX_SPEED:
            return lam, steps
        slope = -(numerator**2 / (squares + lam) ** 3).sum() / phi
        lam -= phi / MAX_SPEED * (phi - MAX_SPEED) / slope
        steps += 1


def optimally_damped(J: Array, v: Array, tolerance: float) -> tuple[Array, int]:
    """Return q̇ and the number of iterations of (18), which is 0 if the pseudoinverse keeps the
    bound.
    """
    plain = np.linalg.pinv(J) @ v
    if np.linalg.norm(plain) <= MAX_SPEED:
        return plain, 0
    U, sigma, _ = np.linalg.svd(J, full_matrices=False)
    lam, steps = search(sigma * (U.T @ v), sigma**2, tolerance)
    return J.T @ np.linalg.solve(J @ J.T + lam * np.eye(len(v)), v), steps


def rectangle(steps: int) -> Array:
    """Return targets (steps + 1, 2) of the hand along the rectangle."""
    corners = planar(START)[0] + np.array([[0, 0], [0.7, 0], [0.7, 0.9], [0, 0.9], [0, 0]])
    s = np.linspace(0, 3.2, steps + 1)
    along = [0, 0.7, 1.6, 2.3, 3.2]
    return np.stack([np.interp(s, along, corners[:, i]) for i in range(2)], axis=1)


# ---- Fig. 4, 5 and 6 ---------------------------------------------------------------------------


def test_the_planar_arm_has_the_speeds_and_iterations_of_the_paper(ran: Ran) -> None:
    """With the pseudoinverse, speeds have a peak; with damping, they are at most 5, in about 2
    iterations.
    """
    found = ran("dw-planar").quantities
    assert found["pinv_max_speed"] > 2 * MAX_SPEED
    assert found["optimal_max_speed"] <= MAX_SPEED
    assert found["reciprocal_iterations"] == pytest.approx(2, abs=0.5)
    assert found["reciprocal_iterations"] < found["newton_iterations"]
    assert all(claim.holds for claim in ran("dw-planar").claims)


def test_the_planar_experiment_equals_its_transcription(ran: Ran) -> None:
    found = ran("dw-planar").quantities
    path, dt = rectangle(2000), 4 / 2000
    for damped, name in ((False, "pinv_"), (True, "")):
        q, speeds, away, counts = START, [], [], []
        for here, there in itertools.pairwise(path):
            J, v = planar(q)[1], (there - here) / dt
            qd, steps = np.linalg.pinv(J) @ v, 0
            if damped:
                qd, steps = optimally_damped(J, v, 1e-12)
            q = q + dt * qd
            speeds.append(np.linalg.norm(qd))
            away.append(np.linalg.norm(planar(q)[0] - there))
            counts += [steps] if steps else []
        key = "optimal_max_speed" if damped else "pinv_max_speed"
        np.testing.assert_allclose(max(speeds), found[key], rtol=2e-12)
        np.testing.assert_allclose(max(away), found[f"{name}max_deviation"], rtol=1e-6)
        if damped:
            assert len(counts) == found["damped_steps"]
            assert np.mean(counts) == pytest.approx(found["reciprocal_iterations"], abs=0.2)


def test_the_puma_has_the_speeds_and_iterations_of_the_paper(ran: Ran) -> None:
    """With the pseudoinverse, speeds are very high; with damping, they are at most 5, in 3
    iterations.
    """
    found = ran("dw-puma").quantities
    assert found["pinv_max_speed"] > 10 * MAX_SPEED
    assert found["optimal_max_speed"] <= MAX_SPEED
    assert found["reciprocal_iterations"] == pytest.approx(3, abs=0.5)
    assert all(claim.holds for claim in ran("dw-puma").claims)


def test_the_puma_experiment_equals_its_transcription(ran: Ran) -> None:
    found = ran("dw-puma").quantities
    v, dt = np.array([0, 0.5, 0, 0, 0, 0]), 0.002
    start = np.radians([0, -60, 34.27, 0, 60, 0])
    begin, q = denavit_hartenberg(start)[0], start
    np.testing.assert_allclose(
        np.linalg.norm(np.linalg.pinv(denavit_hartenberg(q)[1]) @ v),
        found["pinv_max_speed"],
        rtol=1e-9,
    )
    speeds, away, counts = [], [], []
    for k in range(200):
        qd, steps = optimally_damped(denavit_hartenberg(q)[1], v, 1e-12)
        q = q + dt * qd
        speeds.append(np.linalg.norm(qd))
        away.append(np.linalg.norm(denavit_hartenberg(q)[0] - begin - (k + 1) * dt * v[:3]))
        counts += [steps] if steps else []
    np.testing.assert_allclose(max(speeds), found["optimal_max_speed"], rtol=2e-12)
    np.testing.assert_allclose(max(away), found["max_deviation"], rtol=1e-6)
    assert len(counts) == found["damped_steps"]
    assert np.mean(counts) == pytest.approx(found["reciprocal_iterations"], abs=0.2)


# ---- section 3.1 -------------------------------------------------------------------------------


def test_newton_iterations_grow_near_singularities_for_phi_but_not_for_1_over_phi(ran: Ran) -> None:
    found = ran("dw-newton").quantities
    for m in ("m2", "m6"):
        newton = np.array([found[f"{m}.newton_{k}"] for k in range(1, 9)])
        reciprocal = np.array([found[f"{m}.reciprocal_{k}"] for k in range(1, 9)])
        assert (np.diff(newton) > 2.5).all()
        assert found[f"{m}.newton_per_decade"] == pytest.approx(np.log2(10), rel=0.1)
        assert np.ptp(reciprocal[2:]) < 0.5
        assert (reciprocal < newton).all()
    # "usually 2-3 iterations" holds for the motions in the paper, but not for random spectra. For
    # (17), the number depends on the start and the tolerance, which the paper does not state.
    assert [claim.holds for claim in ran("dw-newton").claims] == [True, None, False, True, True]
    assert found["planar.reciprocal"] == ran("dw-planar").quantities["reciprocal_iterations"]
    assert found["spatial.reciprocal"] == ran("dw-puma").quantities["reciprocal_iterations"]


# ---- Fig. 7 ------------------------------------------------------------------------------------


def with_obstacle(factor: float, tolerance: float = 1e-12) -> tuple[list[float], list[int], Array]:
    """Follow the rectangle by (20) where this keeps the bound, else by (25), with ∇h times
    `factor`.

    Return the speeds, the iterations of (18) from λ = T = 0.0001, and the positions (count, 2, 2)
    of elbow and hand on the last side.
    """
    path, dt, reference = rectangle(4000), 4 / 4000, np.radians([-30.0, 0, 0])
    q, speeds, counts, places = START, [], [], []
    for k, (here, there) in enumerate(itertools.pairwise(path)):
        hand, J = planar(q)
        v = (there - here) / dt + 2.5 * (here - hand)
        inverse, gradient = np.linalg.pinv(J), q - reference
        qd = inverse @ v - 3 * (gradient - inverse @ (J @ gradient))
        if np.linalg.norm(qd) > MAX_SPEED:
            U, sigma, Vt = np.linalg.svd(J)
            beta = Vt @ gradient
            numerator = np.r_[sigma * (U.T @ v), 0] - factor * beta
            lam, steps = search(numerator, np.r_[sigma**2, 0], tolerance, start=1e-4)
            qd = Vt.T @ (numerator / (np.r_[sigma**2, 0] + lam))
            counts.append(steps)
        q = q + dt * qd
        speeds.append(float(np.linalg.norm(qd)))
        if k >= 4000 * 2.3 / 3.2:
            places.append([[np.cos(q[0]), np.sin(q[0])], planar(q)[0]])
    return speeds, counts, np.array(places)


def is_up(places: Array) -> Array:
    """Return a mask (count,) of the places with the elbow above the line from shoulder to hand."""
    elbow, hand = places[:, 0], places[:, 1]
    return hand[:, 0] * elbow[:, 1] - hand[:, 1] * elbow[:, 0] > 0


def test_the_obstacle_experiment_behaves_as_in_the_paper(ran: Ran) -> None:
    """Speeds are at most 5, q̇ jumps where the equation of the step changes, and the elbow is up on
    the last side of the path. The search for λ takes 3 iterations from a lower bound, and more from
    the initial λ of the paper.
    """
    found = ran("dw-obstacle").quantities
    assert found["max_speed"] <= MAX_SPEED < found["undamped_max_speed"]
    assert found["elbow_up"] == 1
    assert found["elbow_up_without_subtask"] == 0
    assert found["iterations"] == pytest.approx(3, abs=0.5)
    assert found["end_error"] < 1e-3
    assert found["max_switch_jump"] > 100 * found["max_switch_jump_without_subtask"] > 0
    (fails,) = (claim for claim in ran("dw-obstacle").claims if not claim.holds)
    assert "3 iterations" in fails.paper


def test_no_single_tolerance_gives_all_iteration_counts_of_the_paper(ran: Ran) -> None:
    """The paper reports 2 iterations for the planar arm, 3 for the spatial arm and 3 with the
    obstacle. For each count, some tolerance of the search gives this count to within 0.5, but no
    tolerance gives all three. If each search starts from the λ of the previous step, the motion
    past the obstacle takes 2 iterations.
    """
    counts = [
        ran("dw-planar").curves["reciprocal.iterations"],
        ran("dw-puma").curves["reciprocal.iterations"],
        ran("dw-obstacle").curves["printed.iterations"],
    ]
    fits = [np.abs(x - said) <= 0.5 for x, said in zip(counts, (2, 3, 3), strict=True)]
    assert all(each.any() for each in fits)
    assert not np.logical_and.reduce(fits).any()
    assert ran("dw-obstacle").quantities["iterations_warm"] == pytest.approx(2, abs=0.5)


def test_the_obstacle_experiment_equals_its_transcription(ran: Ran) -> None:
    found = ran("dw-obstacle").quantities
    speeds, counts, places = with_obstacle(1.0)
    np.testing.assert_allclose(max(speeds), found["max_speed"], rtol=2e-12)
    assert len(counts) == found["damped_steps"]
    assert np.mean(counts) == pytest.approx(found["iterations_as_printed"], abs=0.1)
    curves = ran("dw-obstacle").curves
    for tolerance in nightly((1e-4, 1e-8), (1e-4,)):
        (k,) = np.flatnonzero(np.isclose(curves["tolerance"], tolerance, rtol=1e-6, atol=0))
        _, counts, _ = with_obstacle(1.0, tolerance)
        assert np.mean(counts) == pytest.approx(curves["printed.iterations"][k], abs=0.1)
    assert is_up(places).all()
    end = np.linalg.norm(places[-1, 1] - rectangle(1)[-1])
    np.testing.assert_allclose(end, found["end_error"], rtol=1e-3)


def test_with_a_small_factor_of_the_obstacle_criterion_the_elbow_stays_down() -> None:
    assert not is_up(with_obstacle(1 / 3000)[2]).any()


# ---- Fig. 1, 2 and 3, section 4 ----------------------------------------------------------------


def test_rules_that_use_only_j_also_damp_harmless_velocities(ran: Ran) -> None:
    """For links bent by 1°, the errors along y equal those of a computation in NumPy."""
    q = np.radians([-0.5, 0.5])  # angles relative to the x axis
    x, y = np.array([1.1, 1.0]) * np.cos(q), np.array([1.1, 1.0]) * np.sin(q)
    J = np.array([[-y.sum(), -y[1]], [x.sum(), x[1]]])
    v = np.array([0.0, 0.5])
    off = v - J @ J.T @ np.linalg.solve(J @ J.T + 0.05**2 * np.eye(2), v)
    found = ran("dw-choice").quantities
    assert found["constant.error_y"] == pytest.approx(np.linalg.norm(off) / 0.5, rel=1e-6)
    assert found["optimal.error_y"] < 1e-12
    assert found["filter.error_y"] < 1e-5 < found["constant.error_y"]
    assert np.linalg.norm(np.linalg.solve(J, v[::-1])) == pytest.approx(found["pinv.speed_x"])
    assert all(claim.holds for claim in ran("dw-choice").claims)


def test_the_curves_of_phi_and_of_the_norm_over_shifted_lambda_equal_their_formulas(
    ran: Ran,
) -> None:
    outcome = ran("dw-phi")
    lam, sigma = outcome.curves["lambda"], np.array([1.2, 0.05])
    phi = np.sqrt(((sigma * 0.6 / (sigma**2 + lam[:, None])) ** 2).sum(axis=1))
    np.testing.assert_allclose(outcome.curves["phi"], phi, rtol=1e-9)
    root = outcome.quantities["root"]
    assert np.sqrt(((sigma * 0.6 / (sigma**2 + root)) ** 2).sum()) == pytest.approx(5, rel=1e-9)
    beta, shifted = np.array([0.3, -0.2]), lam + 1e-4
    inside = (sigma * 0.6 - beta) / (sigma**2 + shifted[:, None])
    total = np.sqrt((inside**2).sum(axis=1) + (0.4 / shifted) ** 2)
    np.testing.assert_allclose(outcome.curves["shifted_total"], total, rtol=1e-9)
    assert all(claim.holds for claim in outcome.claims)


def test_where_tasks_conflict_augmentation_damps_the_main_task_and_projection_does_not(
    ran: Ran,
) -> None:
    """The error with augmentation is the weighted error of (19)."""
    found, curves = ran("dw-augmentation").quantities, ran("dw-augmentation").curves
    J, C, v = planar(np.radians([30.0, 60, 0]))[1], np.eye(3)[:1], np.array([-0.3, 0.3])
    A = J.T @ J + 0.01 * C.T @ C + 0.001 * np.eye(3)
    dq = np.linalg.solve(A, J.T @ v + 0.01 * C[0])
    off = np.linalg.norm(v - J @ dq) / np.linalg.norm(v)
    assert curves["three_links.weighted_error"][-1] == pytest.approx(off, rel=1e-6)
    assert found["projected.largest_error"] < 1e-12 < found["weighted.largest_error"]
    assert found["augmented.largest_error"] > 0.05
    assert all(claim.holds for claim in ran("dw-augmentation").claims)
