"""`Solution.same_branch` is true if a motion without singularities leads from q0 to the solution.

The oracles compute J by finite differences of poses at dense samples of a motion.
"""

import numpy as np
import pytest

import supple as sp
from sizes import nightly
from solving import solve
from supple.ik.branches.same_branch import on_same_branch

NAMED = ["ur5e", "puma560"]
GENERAL = sp.dh(  # a, alpha, d, theta: no axes are parallel or intersect
    [
        (0.1, 1.2, 0.3, 0.0),
        (0.4, 0.4, 0.1, 0.0),
        (0.3, -1.0, 0.1, 0.0),
        (0.1, 1.3, 0.2, 0.0),
        (0.1, -1.4, 0.1, 0.0),
        (0.05, 0.3, 0.1, 0.0),
    ]
)


def numeric_jacobian(robot, q, frame=None, h=1e-6):
    """Return J (..., 6, n) by central differences of poses (..., 4, 4)."""
    frame = frame or robot.tips[0]
    J = np.empty((*q.shape[:-1], 6, robot.dof))
    at = robot.fk(q, frame)
    for j in range(robot.dof):
        step = h * np.eye(robot.dof)[j]
        d = (robot.fk(q + step, frame) - robot.fk(q - step, frame)) / (2 * h)
        turn = d[..., :3, :3] @ at[..., :3, :3].swapaxes(-1, -2)
        J[..., :3, j] = d[..., :3, 3]
        J[..., 3:, j] = np.stack([turn[..., 2, 1], turn[..., 0, 2], turn[..., 1, 0]], axis=-1)
    return J


def minors(J):
    """Return det J (..., 1), or the signed minors (..., 7) of J (..., 6, 7), a null vector."""
    n = J.shape[-1]
    if n == 6:
        return np.linalg.det(J)[..., None]
    every = [np.delete(J, j, axis=-1) for j in range(n)]
    return np.stack([(-1) ** j * np.linalg.det(part) for j, part in enumerate(every)], axis=-1)


def reversals(robot, motion):
    """Return the indices of a motion (K, n) at which det J or the null vector reverses."""
    N = minors(numeric_jacobian(robot, motion))
    return np.flatnonzero((N[1:] * N[:-1]).sum(axis=-1) < 0)


@pytest.mark.parametrize("name", NAMED)
def test_a_motion_without_a_singularity_ends_on_the_branch_on_which_it_starts(name):
    robot, rng = sp.load(name), np.random.default_rng(0)
    q0 = rng.uniform(-1.5, 1.5, (40, 6))
    typical = np.abs(minors(numeric_jacobian(robot, q0))).mean()
    start = minors(numeric_jacobian(robot, q0))[:, 0]
    q0, start = q0[np.abs(start) > 0.1 * typical], start[np.abs(start) > 0.1 * typical]
    q, heading = q0.copy(), rng.normal(size=q0.shape)
    for _ in range(300):
        heading = 0.95 * heading + 0.3 * rng.normal(size=q.shape)
        then = q + 0.02 * heading / np.linalg.norm(heading, axis=1, keepdims=True)
        now = minors(numeric_jacobian(robot, then))[:, 0]
        # The motion stays far enough from singularities that none lies between two samples.
        regular = (np.sign(now) == np.sign(start)) & (np.abs(now) > 0.03 * typical)
        good = regular & (np.abs(then - q0).max(axis=1) < np.pi)
        q[good] = then[good]
        heading[~good] *= -1
    assert len(q0) > 10
    assert np.abs(q - q0).max() > 1.5
    assert on_same_branch(robot, None, q0, q).all()


@pytest.mark.parametrize("name", NAMED)
def test_the_solutions_of_a_pose_are_on_different_branches(name):
    robot, compared = sp.load(name), 0
    for q in robot.random(10, seed=1):
        every = solve(robot, robot.fk(q), solutions="all").q
        assert len(every)
        compared += len(every) > 1
        same = on_same_branch(robot, None, every[:, None], every[None])
        assert (same == np.eye(len(every), dtype=bool)).all()
    assert compared > 5


def test_a_full_turn_stays_on_the_branch_only_if_no_singularity_is_on_the_way():
    robot = sp.load("ur5e")
    q = np.array([-0.4, -1.2, 1.5, -0.5, 1.0, 0.3])
    turns = q + 2 * np.pi * np.diag([1, 1, -1, 0, -1, -1])
    # Shoulder lift, elbow and wrist 2 pass their singularities; base and flange have none.
    expected = [True, False, False, True, False, True]
    assert on_same_branch(robot, None, q, turns).tolist() == expected


@pytest.mark.parametrize("name", ["general", "panda", "iiwa14"])
def test_same_branch_of_arms_without_branch_signs_is_judged_on_the_straight_joint_motion(name):
    robot, rng = GENERAL if name == "general" else sp.load(name), np.random.default_rng(2)
    low, high = np.maximum(robot.lower, -2.5), np.minimum(robot.upper, 2.5)
    count = nightly(60, 30)
    q0, q = low + rng.random((2, count, robot.dof)) * (high - low)
    q = q0 + 0.4 * (q - q0)
    share = np.linspace(0, 1, 1201)[:, None]
    compared = crossed = 0
    for a, b, same in zip(q0, q, on_same_branch(robot, None, q0, q), strict=True):
        reverses = reversals(robot, a + share * (b - a))
        spread = np.abs(b - a).max() / 1200
        if len(reverses) > 1 and np.diff(reverses).min() * spread < 0.05:
            continue  # between two samples, the motion crosses two singularities
        # Near a singularity, the null vector may turn quickly; in steps that are small enough it
        # reverses only where a singularity is crossed.
        finer = [a + (k + share) / 1200 * (b - a) for k in reverses]
        crosses = any(len(reversals(robot, motion)) for motion in finer)
        assert same == (not crosses)
        compared += 1
        crossed += crosses
    assert compared > 5 / 6 * count
    assert crossed > 3 or name == "panda"  # the limits of the Panda keep its elbow bent


def test_configurations_around_a_singular_q0_can_be_on_its_branch():
    for name, frame in [("ur5e", None), ("panda", None)]:
        robot = sp.load(name)
        q0 = np.zeros(robot.dof)
        near = q0 + 0.1 * np.random.default_rng(3).normal(size=(20, robot.dof))
        assert on_same_branch(robot, frame, q0, near).sum() >= 10
        assert on_same_branch(robot, frame, q0, q0)
    # A motion crosses a singularity even if a sample lies exactly on it.
    planar = sp.dh([(1.0, 0, 0, 0), (1.0, 0, 0, 0)])
    hand = sp.PositionTask(rows=["x", "y"])
    ends = np.array([[0.3, 0.5], [0.3, -0.5]])
    assert not on_same_branch(planar, hand, *ends)
    assert on_same_branch(planar, hand, ends[0], np.array([1.3, 0.8]))


def test_a_row_that_no_joint_moves_does_not_make_a_task_singular():
    planar = sp.load("planar3")
    hand = sp.PositionTask()  # the third row, z, is always zero
    bent = np.array([0.3, 0.5, 0.6])
    assert on_same_branch(planar, hand, bent, bent + 0.2)
    assert not on_same_branch(planar, hand, bent, np.array([0.3, -0.5, -0.6]))
    robot = sp.load("ur5e")  # a task of five rows
    tasks = [sp.PositionTask("tool0"), sp.AxisTask("tool0")]
    q = np.array([-0.4, -1.2, 1.5, -0.5, 1.0, 0.3])
    assert on_same_branch(robot, tasks, q, q + np.array([0.1, 0.1, 0.1, 0.1, 0.1, 2.0]))
    assert not on_same_branch(robot, tasks, q, q - np.array([0, 0, 3.0, 0, 0, 0]))


def continued(robot, q, target, parts=60):
    """Return q after a straight motion of the tool to a target, and det J along this motion."""
    way = sp.poses.interpolate(robot.fk(q), target, np.linspace(0, 1, parts + 1)[1:])
    dets = [minors(numeric_jacobian(robot, q))[0]]
    for pose in way:
        for _ in range(6):
            at = robot.fk(q)
            turn = pose[:3, :3] @ at[:3, :3].T
            axis = 0.5 * np.array(
                [turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]]
            )
            e = np.concatenate([pose[:3, 3] - at[:3, 3], axis])
            q = q + np.linalg.solve(numeric_jacobian(robot, q), e)
        dets.append(minors(numeric_jacobian(robot, q))[0])
    return q, np.array(dets)


def test_same_branch_is_false_where_solutions_along_a_line_jump():
    robot, rng = sp.load("ur5e"), np.random.default_rng(4)
    jumps = joined = 0
    lines = nightly(25, 15)
    for _ in range(lines):
        q, end = rng.uniform(-2, 2, (2, 6))
        line = sp.poses.interpolate(robot.fk(q), robot.fk(end), np.linspace(0, 1, 101)[1:])
        for target in line:
            found = solve(robot, target, q0=q)
            if not found:
                break
            assert found.moved == np.abs(found.q - q).max()
            if found.moved > 0.5:
                jumps += not found.same_branch
                if found.same_branch:  # large, but the line of the tool leads to it
                    there, dets = continued(robot, q, target)
                    assert np.abs(there - found.q).max() < 1e-3
                    assert (dets > 0).all() or (dets < 0).all()
                    joined += 1
            elif found.moved < 0.1:
                joined += found.same_branch
            q = found.q
    assert jumps > 3
    assert joined > 20 * lines


def test_results_for_one_target_batches_and_several_solutions_have_same_branch():
    robot = sp.load("ur5e")
    q = np.array([-0.4, -1.2, 1.5, -0.5, 1.0, 0.3])
    near = robot.fk(q + 0.05)
    every = solve(robot, near, solutions="all", q0=q)
    assert every.same_branch.tolist() == [True] + [False] * 7
    one = solve(robot, near, q0=q)
    assert one.same_branch
    assert one.moved == pytest.approx(0.05, abs=1e-5)
    start = q.copy()
    list_of_tasks = [sp.PoseTask()]
    kept = solve(robot, [near], q0=start, tasks=list_of_tasks)
    start[:] = 0.0  # results do not share the caller's arrays
    list_of_tasks.clear()
    assert kept.moved == one.moved
    assert kept.same_branch
    batch = np.array([near, robot.fk(every.q[3])])
    seeds = np.array([q, q])
    found = solve(robot, batch, q0=seeds, prefer="fast")
    assert found.moved.shape == found.same_branch.shape == (2,)
    seeds[:] = 0.0
    assert found[0].moved == found.moved[0]
    assert (found[0].q0 == q).all()
    assert found[found.success].same_branch.tolist() == found.same_branch[found.success].tolist()
    shared = solve(robot, batch, q0=q)
    assert shared[1].same_branch == shared.same_branch[1]
    several = solve(robot, near, q0=q, solutions=4)
    assert several.same_branch[0]
    assert several.moved[0] < 0.06
    with pytest.raises(sp.errors.InputError, match="moved needs q0="):
        _ = solve(robot, near).moved
    with pytest.raises(sp.errors.InputError, match="same_branch needs q0="):
        _ = solve(robot, batch).same_branch


def test_a_q0_that_is_not_finite_is_on_no_branch():
    robot = sp.load("ur5e")
    q = np.array([-0.4, -1.2, 1.5, -0.5, 1.0, 0.3])
    seeds = np.array([q, q])
    seeds[1, 2] = np.nan
    found = solve(robot, robot.fk(np.array([q, q])), q0=seeds)
    assert found.same_branch.tolist() == [True, False]


def test_same_branch_is_reported_by_a_search_with_a_step():
    robot = sp.load("ur5e")
    q = np.array([-0.4, -1.2, 1.5, -0.5, 1.0, 0.3])
    one = solve(robot, robot.fk(q + 0.1), q0=q, step=sp.steps.Pseudoinverse())
    assert one.same_branch
    assert one.moved == pytest.approx(0.1, abs=1e-4)
    batch = solve(
        robot, robot.fk(q + np.array([[0.1], [0.2]])), q0=q, step=sp.steps.Pseudoinverse()
    )
    assert batch.same_branch.all()
