"""All solutions of a pose: `solve(..., solutions="all")`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.conftest import RobotFiles

import supple as sp
from all_solutions import TURN, check_solutions, contain, contains, difference
from cases import each
from sizes import nightly
from solving import solve
from supple.describe.joint import Joint
from supple.ik.branches.arms import GRID_VALUES
from supple.ik.solutions import Solutions

Array = NDArray[np.float64]
IRB = ("ManipulaPy", "ManipulaPy_data/abb/irb2400.urdf")


def random_arm(form: str, first: int, seed: int) -> sp.Robot:
    """Return a random arm without limits, with three parallel or intersecting axes from `first`."""
    rng = np.random.default_rng(seed)
    table = rng.uniform([-0.5, -2.5, -0.5, -3], [0.5, 2.5, 0.5, 3], (6, 4))
    if form == "spherical":
        table[first : first + 2, 0] = table[first + 1, 2] = 0.0
    else:
        table[first : first + 2, 1] = 0.0
    return sp.dh(table)


ARMS = [(form, first) for form in ("spherical", "parallel") for first in range(4)]


def sensitivity(robot: sp.Robot, q: Array) -> Array:
    """Return 1 / σ_min, the largest change of q for a unit change of the pose."""
    return np.asarray(1 / np.linalg.svd(robot.jacobian(q), compute_uv=False)[..., -1])


def check_round_trip(robot: sp.Robot, q: Array) -> Solutions:
    """Check that the solutions of the poses at q (B, n) are complete and contain q."""
    T = robot.fk(q)
    found = solve(robot, T, solutions="all")
    assert type(found) is Solutions
    assert len(found) == found.count.sum()
    assert found.complete.all()
    within = 1e-9 * sensitivity(robot, q) + 1e-9
    assert contain(found, q, within).all()
    check_solutions(robot, T, found)
    return found


@pytest.mark.parametrize("name", ["ur5e", "puma560", "puma560_mk"])
def test_all_solutions_of_the_pose_at_a_configuration_include_this_configuration(name: str) -> None:
    robot = sp.load(name)
    found = check_round_trip(robot, robot.random(1000, seed=1))
    assert found.count.max() == 8


def test_all_solutions_are_found_for_an_arm_from_a_urdf_file(robot_files: RobotFiles) -> None:
    robot = sp.urdf(robot_files(*IRB))
    check_round_trip(robot, robot.random(1000, seed=2))


@pytest.mark.parametrize(("form", "first"), ARMS)
def test_all_solutions_are_found_for_random_spherical_and_parallel_arms(
    form: str, first: int
) -> None:
    for seed in range(nightly(10, 4)):
        robot = random_arm(form, first, seed)
        assert (robot.structure.form, robot.structure.first) == (form, first)
        check_round_trip(robot, robot.random(100, seed=seed))


def test_all_solutions_are_found_if_parallel_axes_point_in_opposite_directions() -> None:
    rng = np.random.default_rng(1)
    for twists in ((np.pi, 0.0), (0.0, np.pi), (np.pi, np.pi)):
        table = rng.uniform([-0.5, -2.5, -0.5, -3], [0.5, 2.5, 0.5, 3], (6, 4))
        table[1:3, 1] = twists
        robot = sp.dh(table)
        assert (robot.structure.form, robot.structure.first) == ("parallel", 1)
        check_round_trip(robot, robot.random(100, seed=1))


def test_all_solutions_are_found_with_a_tool_and_a_moved_base() -> None:
    robot = sp.load("ur5e").with_tool(sp.pose([0.1, -0.05, 0.2], rpy=[0.3, 0.2, 0.1]))
    robot = robot.with_base(sp.pose([1.0, 2.0, 0.5], rpy=[0.3, -0.2, 1.1]))
    check_round_trip(robot, robot.random(100, seed=3))


@pytest.mark.parametrize("name", ["ur5e", "puma560"])
def test_the_pose_at_each_solution_has_the_same_solutions_again(name: str) -> None:
    robot = sp.load(name)
    for q in robot.random(20, seed=4):
        found = solve(robot, robot.fk(q), solutions="all")
        for one in found.q:
            again = solve(robot, robot.fk(one), solutions="all")
            assert len(again) == len(found)
            assert all(contains(again.q, other, 1e-6) for other in found.q)


def searched(robot: sp.Robot, T: Array) -> Array:
    """Return the solutions (s, n) that a long search from 10,000 seeds finds, to 1e-11."""
    tight = {"position_tolerance": 1e-11, "rotation_tolerance": 1e-11}
    found = solve(robot, T, solutions=200, max_seeds=10_000, **tight)
    return found.q[found.success]


@pytest.mark.parametrize(
    "robot",
    [
        sp.load("ur5e"),
        sp.load("puma560"),
        random_arm("spherical", 3, 7),
        random_arm("spherical", 1, 8),
        random_arm("parallel", 0, 9),
    ],
    ids=["ur5e", "puma560", "spherical3", "spherical1", "parallel0"],
)
def test_a_long_numerical_search_finds_no_further_solutions(robot: sp.Robot) -> None:
    for q in robot.random(3, seed=5):
        T = robot.fk(q)
        found = solve(robot, T, solutions="all")
        seeds = searched(robot, T)
        assert len(seeds) >= 1
        assert all(contains(found.q, one, 1e-5) for one in seeds)


def test_solutions_outside_the_joint_limits_are_left_out() -> None:
    wide = sp.load("ur5e")
    narrow = wide.with_limits(lower=np.full(6, -1.5), upper=np.full(6, 2.0))
    for q in narrow.random(50, seed=6):
        T = wide.fk(q)
        every = difference(solve(wide, T, solutions="all").q, np.zeros(6))
        inside = every[((every >= -1.5) & (every <= 2.0)).all(axis=1)]
        found = solve(narrow, T, solutions="all")
        assert len(found) == len(inside) >= 1
        assert all(contains(found.q, one, 1e-6) for one in inside)


def test_errors_are_those_of_the_returned_configurations() -> None:
    """A solution up to 1e-9 rad outside a limit is moved to the limit before its
    error is computed.
    """
    robot = sp.load("ur5e")
    q = np.array([0.4, -1.1, 1.3, 0.3, 0.9, -0.7])
    T = robot.fk(q)
    for joint in range(6):
        upper = np.array(robot.upper)
        upper[joint] = q[joint] - 5e-10
        tight = robot.with_limits(upper=upper)
        found = solve(tight, T, solutions="all")
        check_solutions(tight, T, found)
        distance = np.linalg.norm(tight.fk(found.q)[:, :3, 3] - T[:3, 3], axis=1)
        np.testing.assert_allclose(found.position_error, distance, atol=2e-15)
        assert contains(found.q, q, 1e-8)


def test_with_wraps_solutions_include_all_full_turns_inside_the_limits() -> None:
    robot = sp.load("ur5e").with_limits(
        lower=[-TURN, -4, -np.pi, -1, -9, 0], upper=[TURN, 4, np.pi, 1, 9, 5]
    )
    for q in robot.random(10, seed=7):
        T = robot.fk(q)
        plain = solve(robot, T, solutions="all")
        wrapped = solve(robot, T, solutions="all", wraps=True)
        expected = 0
        for one in plain.q:
            turns = [one[j] + TURN * np.arange(-4, 5) for j in range(6)]
            inside = [
                ((robot.lower[j] <= t) & (t <= robot.upper[j])).sum() for j, t in enumerate(turns)
            ]
            expected += int(np.prod(inside))
        assert len(wrapped) == expected
        assert len(np.unique(np.round(wrapped.q, 6), axis=0)) == expected
        reached = robot.fk(wrapped.q)
        np.testing.assert_allclose(reached, np.broadcast_to(T, reached.shape), atol=1e-9)
        assert ((robot.lower <= wrapped.q) & (wrapped.q <= robot.upper)).all()
        assert np.abs(wrapped.q - q).max(axis=1).min() < 1e-6


def test_the_nearest_solution_comes_first() -> None:
    robot = sp.load("ur5e")
    q0 = robot.random(seed=8)
    T = robot.fk(robot.random(20, seed=9))
    for target, found in zip(T, solve(robot, T, q0=q0, solutions="all").split(), strict=True):
        far = np.abs(found.q - q0).max(axis=1)
        assert (np.diff(far) >= 0).all()
        # Of all 2π wraps inside the limits, each joint has the one nearest to q0.
        for shift in (-TURN, TURN):
            inside = (found.q + shift >= robot.lower) & (found.q + shift <= robot.upper)
            nearer = np.abs(found.q + shift - q0) < np.abs(found.q - q0) - 1e-9
            assert not (inside & nearer).any()
        one = solve(robot, target, q0=q0, solutions="all")
        np.testing.assert_array_equal(one.q, found.q)


def test_all_solutions_are_ordered_by_the_cost_of_a_preference() -> None:
    robot = sp.load("puma560")
    T = robot.fk(robot.random(5, seed=10))
    for prefer, cost in (
        ("manipulability", lambda q: -robot.manipulability(q)),
        (lambda q: float(q[0]), lambda q: q[:, 0]),
        ("limits", lambda q: np.abs(2 * q - robot.lower - robot.upper) / np.ptp(LIMITS, axis=0)),
    ):
        for found in solve(robot, T, solutions="all", prefer=prefer).split():
            value = cost(found.q)
            value = value.max(axis=1) if value.ndim > 1 else value
            assert (np.diff(value) >= -1e-12).all()


LIMITS = np.array([sp.load("puma560").lower, sp.load("puma560").upper])


# ---- targets without solutions, other robots, arguments ------------------------------------------


def test_an_unreachable_target_has_no_solutions() -> None:
    robot = sp.load("ur5e")
    found = solve(robot, sp.pose([2.0, 0.0, 0.0]), solutions="all")
    assert len(found) == 0
    assert found.complete
    assert str(found) == "no solution"


def test_targets_of_a_batch_that_are_not_finite_have_no_solutions() -> None:
    robot = sp.load("ur5e")
    T = np.stack([robot.fk(np.ones(6)), np.full((4, 4), np.nan), robot.fk(np.ones(6))])
    found = solve(robot, T, solutions="all")
    assert found.count.tolist() == [8, 0, 8]
    assert found.complete.tolist() == [True, False, True]


def test_a_batch_has_the_solutions_of_each_target() -> None:
    robot = sp.load("puma560")
    T = robot.fk(robot.random((3, 40), seed=12))
    found = solve(robot, T, solutions="all", threads=2)
    assert found.count.shape == (3, 40)
    assert found.shape == (found.count.sum(),)
    padded = found.padded()
    for i in np.ndindex(3, 40):
        one = solve(robot, T[i], solutions="all")
        np.testing.assert_array_equal(one.q, found.of(i).q)
        np.testing.assert_array_equal(padded[i][: len(one)], one.q)
        assert np.isnan(padded[i][len(one) :]).all()
    np.testing.assert_array_equal(np.bincount(found.target, minlength=120), found.count.ravel())
    assert "120 targets, 120 of them complete" in str(found)


def test_a_selection_of_solutions_is_not_called_complete() -> None:
    robot = sp.load("ur5e")
    found = solve(robot, robot.fk(np.ones(6)), solutions="all")
    assert found.complete
    assert found.reason == ""
    part = found[found.q[:, 0] > 0]
    assert isinstance(part, Solutions)
    assert not part.complete
    assert part.free.shape == part.q.shape
    assert len(part.sampled) == len(part)


def test_joints_that_do_not_move_the_end_effector_stay_at_q0() -> None:
    arm = sp.load("ur5e").description
    finger = Joint("finger", "prismatic", arm.links[3], "pad", lower=0.0, upper=0.1)
    robot = sp.Robot(replace(arm, joints=(*arm.joints, finger), tips=arm.leaves))
    assert robot.dof == 7
    q = robot.random(seed=13)
    others = [j for j, name in enumerate(robot.joint_names) if name == "finger"]
    found = solve(robot, robot.fk(q), q0=q, solutions="all")
    assert found.complete
    np.testing.assert_array_equal(found.q[:, others], np.broadcast_to(q[others], (8, len(others))))
    assert np.abs(found.q[0] - q).max() < 1e-6


@pytest.mark.parametrize("name", ["panda", "iiwa14", "puma560_rail"])
def test_solutions_of_redundant_arms_are_those_with_one_joint_on_a_grid(name: str) -> None:
    """For each value of the grid, the solutions are those of the arm with this joint frozen."""
    robot = sp.load(name)
    T = robot.fk(robot.random(nightly(30, 12), seed=14))
    found = solve(robot, T, solutions="all")
    assert not found.complete.any()
    assert (found.count > 0).all()
    assert found.count.mean() > 20
    assert found.sampled.all()
    joint = robot.joint_names.index(found.reason.split()[-1])
    check_solutions(robot, T, found, 1e-6)
    for target, solutions in zip(T[:3], found.split(), strict=False):
        for value in np.unique(np.round(solutions.q[:, joint], 6))[:5]:
            part = np.abs(solutions.q[:, joint] - value) < 1e-5
            frozen = robot.freeze({robot.joint_names[joint]: float(solutions.q[part][0, joint])})
            assert len(solve(frozen, target, solutions="all")) == part.sum()
    one = solve(robot, T[0], solutions="all")
    np.testing.assert_array_equal(one.q, found.of(0).q)


def test_all_joints_of_a_redundant_arm_are_free_but_an_elbow_between_spherical_joints() -> None:
    """The iiwa14 has such an elbow, joint 4; the Panda has none."""
    for name, still in (("iiwa14", [3]), ("panda", [])):
        robot = sp.load(name)
        found = solve(robot, robot.fk(robot.random(seed=15)), solutions="all")
        moves = ~np.isin(np.arange(7), still)
        assert (found.free == moves).all(axis=1).mean() > 0.9


def test_solutions_of_robots_without_a_closed_form_are_found_by_a_search() -> None:
    robot = sp.load("youbot")
    found = solve(robot, robot.fk(robot.random(2, seed=16)), solutions="all")
    assert not found.complete.any()
    assert "the arm has 5 joints" in found.reason
    assert "search" in found.reason
    assert (found.count > 0).all()


@each("link", [(0.3, 0.0, 0.0, 0.0), (0.0, np.pi / 2, 0.0, 0.0), (0.0, 0.0, 0.1, 0.0)])
def test_arms_that_cannot_move_in_all_directions_have_no_complete_solutions(
    link: tuple[float, ...],
) -> None:
    """Arms whose axes are all parallel, or all meet in one point, have incomplete solutions."""
    robot = sp.dh([link] * 6)
    T = robot.fk(np.linspace(0.1, 0.9, 6))
    found = solve(robot, T, solutions="all")
    assert len(found) >= 1
    check_solutions(robot, T, found, 1e-6)
    assert not found.complete
    assert "do not move the frame in all directions" in found.reason


def test_all_solutions_of_positions_are_not_complete() -> None:
    robot = sp.load("ur5e")
    tasks = sp.PositionTask()
    found = solve(robot, [0.4, 0.2, 0.3], tasks=tasks, solutions="all")
    assert not found.complete
    assert found.reason.startswith("3 rows for 6 joints have infinitely many solutions")
    elbow = sp.dh([(1.0, 0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0)])
    both = solve(elbow, [1.2, 0.5, 0.0], tasks=sp.PositionTask(rows=("x", "y")), solutions="all")
    assert len(both) == 2
    assert not both.complete
    assert "not the pose of one frame" in both.reason
    with pytest.raises(sp.errors.InputError, match="free is for all solutions of poses"):
        _ = found.free


def misaligned(name: str, seed: int) -> sp.Robot:
    """Return an arm with random errors of about 0.1 mm and 0.1 mrad in the pose of each joint."""
    rng = np.random.default_rng(seed)
    arm = sp.load(name).description
    joints = []
    for joint in arm.joints:
        by = sp.pose(6e-5 * rng.normal(size=3), rotation_vector=6e-5 * rng.normal(size=3))
        joints.append(replace(joint, origin=joint.origin @ by))
    return sp.Robot(replace(arm, joints=tuple(joints)))


@pytest.mark.parametrize("name", ["ur5e", "puma560"])
def test_all_solutions_of_slightly_misaligned_arms_reach_the_target(name: str) -> None:
    """Solutions of the poses at q reach them with the misaligned axes; complete ones contain q."""
    robot = misaligned(name, 1)
    assert not robot.structure.exact
    q = robot.random(500, seed=15)
    T = robot.fk(q)
    found = solve(robot, T, solutions="all")
    assert found.complete.mean() > 0.99
    assert contain(found, q, 1e-6)[found.complete].all()
    for k in np.flatnonzero(~found.complete):
        assert "misaligned" in found.of(int(k)).reason
    check_solutions(robot, T, found, 1e-6)


@pytest.mark.parametrize("name", ["panda", "iiwa14"])
@pytest.mark.parametrize("seed", [1, 2])
def test_all_solutions_of_misaligned_redundant_arms_reach_the_target(name: str, seed: int) -> None:
    """One of the seven joints is fixed at each of at most GRID_VALUES values."""
    robot = misaligned(name, seed)
    T = robot.fk(robot.random(nightly(20, 8), seed=seed))
    found = solve(robot, T, solutions="all")
    assert len(found.q) > 8 * len(T)
    grids = [len(np.unique(joint.round(9))) for joint in found.q.T]
    assert min(grids) <= GRID_VALUES
    check_solutions(robot, T, found, 1e-6)


def test_the_error_for_a_wrong_argument_of_all_solutions_has_a_hint() -> None:
    robot = sp.load("ur5e")
    T = robot.fk(np.ones(6))
    own: Any = sp.solve
    for moved in ({"wraps": True}, {"solutions": "all"}):
        with pytest.raises(sp.errors.UnknownNameError, match=r"Solver\(robot\)\.all\(target"):
            own(robot, T, **moved)
    solver: Any = sp.Solver(robot)
    with pytest.raises(TypeError, match="explain"):
        solver.all(T, explain=True)
