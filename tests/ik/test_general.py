"""All solutions of 6-joint arms of any geometry, by eigenvalues."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.conftest import RobotFiles

import supple as sp
from all_solutions import check_solutions, contain, contains, difference
from solving import solve
from supple import _core
from supple.ik.branches.general import general_arm, numbers_of

Array = NDArray[np.float64]
DATA = "ManipulaPy_data"
# Arms with offset wrists, which have no closed form.
FILES = (f"{DATA}/xarm/xarm6_robot.urdf", f"{DATA}/fanuc_crx/crx10ia.urdf")
INFINITE = 0.7 + np.pi  # the angle of q3 [rad] whose half-angle tangent is infinite


def any_arm(seed: int) -> sp.Robot:
    """Return an arm with random link lengths and twists, without limits."""
    rng = np.random.default_rng(seed)
    return sp.dh(rng.uniform([-0.5, -2.5, -0.5, -3], [0.5, 2.5, 0.5, 3], (6, 4)))


def numbered(robot: sp.Robot, start: int) -> _core.GeneralSpec:
    """Return the arm with its joints numbered cyclically from `start` on."""
    arm = general_arm(robot, robot.tips[0])
    if arm is None:
        structure = robot.structure
        arm = _core.GeneralSpec(
            starts=[],
            coordinates=list(range(6)),
            axes=structure.axes.ravel().tolist(),
            points=structure.points.ravel().tolist(),
            home=numbers_of(robot.fk(np.zeros(6))).tolist(),
            length=structure.length,
        )
    return arm.replace(starts=[start])


def products(*factors: Array) -> Array:
    """Return all products (B, 3^k, 1) of k factors (B, 3); the last factor varies fastest."""
    made = np.ones((len(factors[0]), 1))
    for one in factors:
        made = (made[:, :, None] * one[:, None]).reshape(len(one), -1)
    return made[..., None]


@pytest.mark.parametrize("start", range(6))
def test_the_eliminated_equations_hold_at_a_solution(start: int) -> None:
    """Both sides of the equations are equal for each joint from which joints may be numbered."""
    robot = any_arm(1)
    arm = numbered(robot, start)
    q = robot.random(20, seed=2)
    sides = [_core.general_equations(arm, one) for one in numbers_of(robot.fk(q))]
    left, right = (np.array([pair[i] for pair in sides]) for i in range(2))
    own = q[:, (np.arange(6) + start) % 6]
    a, b, c, d, e = np.stack([np.ones_like(own), np.cos(own), np.sin(own)])[..., :5].transpose(
        2, 1, 0
    )
    np.testing.assert_allclose(left @ products(c, d, e), right @ products(a, b), atol=1e-11)


def check_complete(robot: sp.Robot, q: Array, share: float) -> None:
    """Check that all solutions reach the targets, that those called complete contain q, and that at
    least a share of them is complete.
    """
    T = robot.fk(q)
    found = solve(robot, T, solutions="all")
    assert found.complete.mean() >= share
    check_solutions(robot, T, found, 1e-6)
    sensitivity = 1 / np.linalg.svd(robot.jacobian(q), compute_uv=False)[:, -1]
    assert contain(found, q, 1e-9 * sensitivity + 1e-9)[found.complete].all()
    for k in np.flatnonzero(~found.complete):
        assert "eigenvalues" in found.of(int(k)).reason


@pytest.mark.parametrize("seed", range(5))
def test_all_solutions_are_found_for_six_joint_arms_of_any_geometry(seed: int) -> None:
    robot = any_arm(seed)
    assert robot.structure.form is None
    check_complete(robot, robot.random(200, seed=seed), 0.97)


@pytest.mark.parametrize("file", FILES, ids=lambda file: Path(file).stem)
def test_all_solutions_are_found_for_arms_of_robot_files(
    file: str, robot_files: RobotFiles
) -> None:
    robot = sp.urdf(robot_files("ManipulaPy", file))
    check_complete(robot, robot.random(300, seed=1), 0.97)


def test_hidden_angles_with_an_infinite_tangent_are_found() -> None:
    """If q3, the hidden angle, is π from its zero, tan(θ/2) is infinite: another zero is used."""
    robot = any_arm(0)
    arm = general_arm(robot, robot.tips[0])
    assert arm is not None
    q = robot.random(20, seed=4)
    q[:, (arm.starts[0] + 2) % 6] = INFINITE
    targets, best = numbers_of(robot.fk(q)), arm.replace(starts=arm.starts[:1])
    assert not _core.general_candidates(best, targets, 1)[2].any()
    candidates, count, complete = _core.general_candidates(best, targets, _core.GENERAL_ZERO_SETS)
    assert complete.all()
    ends = np.cumsum(count)
    for i in range(20):
        assert contains(candidates[ends[i] - count[i] : ends[i]], q[i], 1e-6)


def test_solutions_of_a_nearly_degenerate_numbering_contain_q_if_they_are_called_complete(
    robot_files: RobotFiles,
) -> None:
    """With such a numbering of joints, large entries of the matrix make eigenvalues inaccurate."""
    robot = sp.urdf(robot_files("ManipulaPy", FILES[0]))
    q = np.array([-0.20675491, -1.07070052, -3.22237854, -0.05372969, -0.12294555, 1.96301948])
    q = q + 1e-5 * np.random.default_rng(1).normal(size=(50, 6))
    targets = numbers_of(robot.fk(q))
    for start in (2, 4, 5):
        arm = numbered(robot, start)
        candidates, count, complete = _core.general_candidates(arm, targets, 1)
        ends = np.cumsum(count)
        for i in np.nonzero(complete)[0]:
            assert contains(candidates[ends[i] - count[i] : ends[i]], q[i], 1e-3)
    check_complete(robot, q, 0.97)


def test_dependent_equations_are_reported_as_incomplete() -> None:
    """With this numbering of joints, only five of the six equations are independent."""
    robot = sp.load("puma560")
    targets = numbers_of(robot.fk(robot.random(20, seed=0)))
    assert not _core.general_candidates(numbered(robot, 1), targets, _core.GENERAL_ZERO_SETS)[
        2
    ].any()


def near_folds(robot: sp.Robot, count: int, away: float) -> Array:
    """Return configurations (count, 6) at a distance of `away` [rad] from singular ones."""
    a, b = robot.random((2, 400), seed=6)
    sign = np.sign(np.linalg.det(robot.jacobian(a)))
    change = sign != np.sign(np.linalg.det(robot.jacobian(b)))
    a, b, sign = a[change][:count], b[change][:count], sign[change][:count]
    for _ in range(50):
        middle = 0.5 * (a + b)
        same = np.sign(np.linalg.det(robot.jacobian(middle))) == sign
        a[same], b[~same] = middle[same], middle[~same]
    # The null vector of J, along which solutions on the two sides of the fold separate.
    moving = np.linalg.svd(robot.jacobian(a))[2][:, -1]
    return np.asarray(a + away * moving)


@pytest.mark.parametrize("away", [1e-3, 1e-4, 3e-5, 1e-6, 0.0])
def test_two_solutions_near_a_fold_are_found_or_reported_incomplete(away: float) -> None:
    """Both solutions, at +away and -away from the fold, are found, or `complete` is False.

    Solutions closer than 1e-5 rad may be reported as one.
    """
    robot = any_arm(1)
    q = near_folds(robot, 100, away)
    for one, found in zip(q, solve(robot, robot.fk(q), solutions="all").split(), strict=True):
        near = np.abs(difference(found.q, one)).max(axis=1) < 10 * away + 1e-4
        assert near.any()
        if found.complete and away > 1e-5:
            assert near.sum() == 2
            # A pose error of 1e-10 may come from an error of q as large as this.
            least = np.linalg.svd(robot.jacobian(one), compute_uv=False)[-1]
            assert contains(found.q, one, min(max(0.3 * away, 1e-10 / least), 0.9 * away))


def test_a_long_numerical_search_finds_no_further_solutions() -> None:
    for seed in range(3):
        robot = any_arm(seed)
        T = robot.fk(robot.random(seed=seed))
        found = solve(robot, T, solutions="all")
        tight = {"position_tolerance": 1e-11, "rotation_tolerance": 1e-11}
        searched = solve(robot, T, solutions=200, max_seeds=10_000, **tight)
        assert found.complete
        assert searched.success.any()
        for one in searched.q[searched.success]:
            assert contains(found.q, one, 1e-5)


@pytest.mark.parametrize("name", ["ur5e", "puma560"])
def test_closed_form_and_eigenvalues_give_the_same_solutions(name: str) -> None:
    robot = sp.load(name).with_limits(lower=np.full(6, -np.pi), upper=np.full(6, np.pi))
    T = robot.fk(robot.random(100, seed=3))
    closed = solve(robot, T, solutions="all")
    best = general_arm(robot, robot.tips[0])
    arm = numbered(robot, best.starts[0] if best else 2)
    candidates, count, _ = _core.general_candidates(arm, numbers_of(T), 1)
    ends = np.cumsum(count)
    for i, solutions in enumerate(closed.split()):
        own = candidates[ends[i] - count[i] : ends[i]]
        assert all(contains(own, q, 1e-3) for q in solutions.q)
        reached = robot.fk(own)
        good = np.abs(reached - T[i]).max(axis=(1, 2)) < 1e-6
        assert all(contains(solutions.q, q, 1e-4) for q in own[good])


def test_nonfinite_or_unreachable_targets_have_no_solutions() -> None:
    robot = any_arm(0)
    T = np.stack([robot.fk(np.ones(6)), np.full((4, 4), np.nan), sp.pose([9.0, 0.0, 0.0])])
    found = solve(robot, T, solutions="all")
    assert found.count[0] >= 1
    assert found.count[1:].tolist() == [0, 0]
    assert found.complete.tolist() == [True, False, True]
