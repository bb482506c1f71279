"""Maciejewski & Klein's claims about paths of the PUMA, tested on many random paths."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from supple.papers import Outcome
from supple.papers.maciejewski_klein import (
    courses,
    families,
    inverse,
    many,
    paths,
    statements,
)

# The literal transcription of the filter is also used by the tests in tests/motion.
from sizes import nightly

Array = np.ndarray
Ran = Callable[[str], Outcome]
METHODS = ("constant", "variable", "filtered_as_printed", "filtered")


def test_inverse_kinematics_of_the_puma_meets_the_pose_on_every_branch() -> None:
    rng = np.random.default_rng(2)
    q = rng.uniform(-np.pi, np.pi, (300, 6))
    poses = courses.PUMA.fk(q)
    back = inverse.configurations(poses, inverse.branch_of(q))
    np.testing.assert_allclose((back - q + np.pi) % (2 * np.pi) - np.pi, 0, atol=1e-7)
    for signs in np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1).T:
        other = inverse.configurations(poses, np.tile(signs, (300, 1)))
        reached = np.isfinite(other).all(axis=1)
        np.testing.assert_allclose(courses.PUMA.fk(other[reached]), poses[reached], atol=1e-7)
        np.testing.assert_array_equal(
            inverse.branch_of(other[reached]), signs[None].repeat(reached.sum(), 0)
        )


@pytest.fixture(scope="module")
def few() -> dict[str, families.Family]:
    rng = np.random.default_rng(3)
    return {kind: paths.draw_family(kind, 3, rng, 5.0) for kind in ("b", "c")}


@pytest.mark.parametrize("kind", ["b", "c"])
def test_the_motion_along_a_path_is_the_same_in_a_batch_and_alone(
    few: dict[str, families.Family], kind: str
) -> None:
    family = few[kind]
    alone = courses.followed_by_all(family.course(1)).moved
    for name, step in many.methods(5.0).items():
        together = many.follow(family.start, family.poses, step).path(1)
        np.testing.assert_allclose(together.q, alone[name].q, atol=1e-7)
        np.testing.assert_allclose(together.command, alone[name].command, atol=1e-9)


def test_random_paths_have_the_properties_described_in_the_paper(
    few: dict[str, families.Family],
) -> None:
    """Paths start away from singularities and have intervals of 1.5 mm. Path B passes within 10 mm
    of the cylinder around the shoulder's axis, and path C passes through the triple singularity.
    """
    for kind, family in few.items():
        np.testing.assert_allclose(courses.PUMA.fk(family.start), family.poses[0], atol=1e-9)
        sigma = np.linalg.svd(courses.PUMA.jacobian(family.start), compute_uv=False)
        assert (sigma[:, -1] >= families.AWAY).all()
        at = family.poses[..., :3, 3]
        steps = np.linalg.norm(np.diff(at, axis=0), axis=-1)
        assert np.abs(steps - 0.0015).max() < 1e-6
        wrist = at - 0.056 * family.poses[..., :3, 2]
        if kind == "b":
            closest = np.linalg.norm(wrist[..., :2], axis=-1).min(axis=0)
            assert (closest < 0.149 + 0.0101).all()
        else:
            top = courses.PUMA.fk(courses.TRIPLE)[:3, 3]
            assert np.linalg.norm(at - top, axis=-1).min(axis=0).max() < 0.0008


def test_the_share_of_paths_with_a_property_is_the_mean_of_the_verdicts_on_each_path(
    ran: Ran,
) -> None:
    outcome = ran("mk-paths")
    assert len(outcome.curves["path"]) >= nightly(500, 24)
    for name, share in outcome.quantities.items():
        verdicts = outcome.curves[name]
        assert set(verdicts) <= {0.0, 1.0}
        assert share == pytest.approx(verdicts.mean(), abs=1e-12)
    b = outcome.curves
    better = b["b.filtered_as_printed.integral_error"] < b["b.variable.integral_error"]
    np.testing.assert_array_equal(better, b["b.filtering_is_better"])
    for claim, share in zip(outcome.claims, outcome.quantities.values(), strict=True):
        assert claim.own
        assert claim.holds is ({0.0: False, 1.0: True}.get(share))


def test_the_share_of_avoidable_error_is_smallest_with_the_filter(ran: Ran) -> None:
    """Avoidable is the error along directions with σ ≥ 1/θ̇max. On each path, its share is smallest
    with the filter and largest with a constant factor.
    """
    runs = courses.followed_by_all(courses.course_c())
    moved, total = runs.moved["constant"], 0.0
    for k, q in enumerate(moved.q[:-1]):
        U, sigma, _ = np.linalg.svd(courses.PUMA.jacobian(q))
        strong = U[:, sigma >= 0.2]
        lost = moved.command[k] - moved.velocity[k]
        total += np.linalg.norm(strong.T @ lost) / np.linalg.norm(moved.command[k])
    assert runs.avoidable("constant") == pytest.approx(total, rel=1e-9)
    for course in (courses.course_a(), courses.course_b(), courses.course_c()):
        each = courses.followed_by_all(course)
        share = {m: each.avoidable(m) / each.errors(m).sum() for m in METHODS}
        assert share["filtered_as_printed"] < share["variable"] < share["constant"]
    assert statements.only_lost(runs)


def test_on_trajectory_b_u6_turns_from_shoulder_to_wrist(ran: Ran) -> None:
    """u₆ turns from the direction that the shoulder loses to that of the wrist, in the interval in
    which u₆ turns most after the shoulder singularity; there, σ₅ and σ₆ exceed 1/θ̇max.
    """
    runs = courses.followed_by_all(courses.course_b())
    q = runs.moved["filtered_as_printed"].q[:-1]
    U, sigma, _ = np.linalg.svd(courses.PUMA.jacobian(q))
    u = U[..., -1]  # the left singular vector of the smallest singular value
    wrist = courses.PUMA.fk(q, "link4")[:, :3, 3]
    across = np.stack([-np.sin(q[:, 0]), np.cos(q[:, 0]), 0 * q[:, 0]], axis=1)
    beside = np.linalg.norm(wrist - 0.149 * across, axis=1) ** 2 - wrist[:, 2] ** 2
    shoulder = 87 + beside[87:-87].argmin()  # the wrist is nearest to the shoulder's axis
    turn = np.abs((u[:-1] * u[1:]).sum(axis=1))
    at = shoulder + np.argmin(turn[shoulder:])
    found = statements.switch(runs)
    assert (found.shoulder, found.at) == (shoulder, at)
    free = [np.linalg.svd(courses.PUMA.jacobian(q[k]))[2][-1] ** 2 for k in (shoulder, -1)]
    assert free[0][[3, 5]].sum() < 0.3  # joints 1 to 3 move without effect over the shoulder
    assert free[1][[3, 5]].sum() > 0.9  # joints 4 and 6 at the wrist's singularity
    assert abs(u[at - 20] @ u[at + 20]) < np.cos(np.radians(60))
    assert sigma[at, -1] >= 0.2
    (notch, _), around = runs.notch("constant"), range(shoulder - 100, shoulder + 100)
    assert all(k in around for k in notch)
    assert [c.paper for c in ran("mk-puma-b").claims if not c.holds] == [
        "numerical filtering tracks better than a variable damping factor (integral error)"
    ]


def test_on_trajectory_c_small_singular_values_belong_to_wrist_elbow_and_shoulder(ran: Ran) -> None:
    """Near the triple singularity, v₆, v₅ and v₄ are mostly motions of wrist, elbow and shoulder,
    in this order. Errors and speeds are within the axes of Fig. 8.
    """
    curves = ran("mk-puma-c").curves
    for method in ("constant", "filtered_as_printed"):
        assert curves[f"{method}.error"].max() <= 0.6
        assert curves[f"{method}.joint_speed"].max() <= 0.01
    sigma, q = (curves[f"filtered_as_printed.{name}"] for name in ("sigma", "q"))
    closest = sigma[:, 3:].sum(axis=1).argmin()
    counted = np.zeros(3)
    for k in range(closest - 50, closest + 50):
        free = np.linalg.svd(courses.PUMA.jacobian(q[k]))[2] ** 2
        counted += [free[5, [3, 5]].sum() > 0.5, free[4, [1, 2, 4]].sum() > 0.5, free[3, 0] > 0.5]
    assert (counted > 50).all()
    assert all(claim.holds for claim in ran("mk-puma-c").claims)


def test_the_share_of_the_wrist_joints_identifies_the_singularity() -> None:
    """At q₅ = 0, only wrist joints move without effect; with the wrist above the shoulder, mostly
    other joints do.
    """
    from supple.papers.maciejewski_klein import configurations as cf

    for q, share in ((courses.WRIST, 1.0), (cf.over_shoulder(-1.0), None)):
        Vt = np.linalg.svd(courses.PUMA.jacobian(q))[2]
        found = statements.wrist_share(Vt)[-1]
        assert found == pytest.approx(1.0) if share else found < 0.5


def test_the_cost_of_filtering_is_the_counted_operations(ran: Ran) -> None:
    """For n joints, J Jᵀ takes n²(n + 1)/2 operations, the Cholesky factor n(n² - 1)/6 + n(n +
    1)/2, a solution n² + n, and Jᵀz n²; the estimate adds a solution and 2n + 2.
    """
    outcome = ran("mk-cost")
    curves, n = outcome.curves, outcome.curves["joints"]
    damped = n * n * (n + 1) / 2 + n * (n * n - 1) / 6 + n * (n + 1) / 2 + n * n + n + n * n
    np.testing.assert_allclose(curves["damped.operations"], damped)
    np.testing.assert_allclose(curves["estimated.operations"], damped + n * n + n + 2 * n + 2)
    added = curves["filtered.operations"] - curves["estimated.operations"]
    assert np.abs(np.diff(added, 3)).max() == 0  # a polynomial in n of degree 2 at most
    assert outcome.quantities["max_difference"] < 1e-10
    six = {name: curves[f"{name}.operations"][4] for name in ("damped", "estimated", "filtered")}
    found = outcome.quantities
    assert found["n6.added"] == pytest.approx(six["filtered"] / six["estimated"] - 1)
    assert found["n6.added_beside_damping"] == pytest.approx(six["filtered"] / six["damped"] - 1)
    overall = (six["filtered"] - six["estimated"]) / (six["estimated"] + 136)
    assert found["n6.added_overall"] == pytest.approx(overall)
    assert [claim.holds for claim in outcome.claims if not claim.own] == [None, True]
