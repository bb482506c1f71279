"""`plan_path` keeps one branch along a path if one exists, reports jumps, and gives reasons."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

import supple as sp
from drawn_paths import interpolated
from sizes import nightly
from solving import solve
from supple import errors
from supple.kinematics.rotation import exp, log

Array = NDArray[np.float64]

UR5E = sp.load("ur5e")
PANDA = sp.load("panda")
HOME = np.array([0.3, -1.2, 1.6, -0.4, 1.1, 0.2])


def line(robot: sp.Robot, q: Array, move: Array, turn: Array, count: int = 60) -> Array:
    """Return poses on a straight line from the pose at q, with a constant angular velocity."""
    s = np.linspace(0, 1, count)[:, None]
    T = np.tile(robot.fk(q), (count, 1, 1))
    T[:, :3, 3] += s * move
    T[:, :3, :3] = T[:, :3, :3] @ exp(s * turn)
    return T


def off_path(robot: sp.Robot, poses: Array, found: sp.paths.PlannedPath, times: int = 100) -> Array:
    """Return the largest deviations from a path in position [m] and rotation [rad], at `times`
    points per pose.
    """
    worst = np.zeros(2)
    for piece in found.pieces:
        if len(piece) == 1:
            continue
        x = np.arange(piece.s[0], piece.s[-1], 1 / times)
        wanted, now = interpolated(poses, x), robot.fk(piece.at(x))
        away = np.linalg.norm(now[:, :3, 3] - wanted[:, :3, 3], axis=1).max(initial=0.0)
        turns = wanted[:, :3, :3].swapaxes(1, 2) @ now[:, :3, :3]
        worst = np.maximum(worst, [away, Rotation.from_matrix(turns).magnitude().max(initial=0.0)])
    return worst


def tracked(robot: sp.Robot, q: Array, paths: Array, parts: int = 20) -> NDArray[np.bool_]:
    """Return a mask (K,): whether Newton's method can follow paths (K, count, 4, 4) from solutions
    (K, n) inside the limits.
    """
    good = np.ones(len(q), bool)
    for A, B in pairwise(paths.swapaxes(0, 1)):
        turn = log(A[:, :3, :3].swapaxes(1, 2) @ B[:, :3, :3])
        for f in np.arange(1, parts + 1) / parts:
            R = A[:, :3, :3] @ exp(f * turn)
            p, before = (1 - f) * A[:, :3, 3] + f * B[:, :3, 3], q
            for _ in range(6):
                now = robot.fk(q)
                turns = log(R @ now[:, :3, :3].swapaxes(1, 2))
                e = np.concatenate([p - now[:, :3, 3], turns], axis=1)
                J = robot.jacobian(q)
                JJt = J @ J.swapaxes(1, 2) + 1e-12 * np.eye(6)
                q = q + (J.swapaxes(1, 2) @ np.linalg.solve(JJt, e[..., None]))[..., 0]
            good &= ((robot.lower <= q) & (q <= robot.upper)).all(axis=1)
            good &= np.abs(e).max(axis=1) <= 1e-6
            good &= np.abs(q - before).max(axis=1) <= 0.3
            q = np.where(good[:, None], q, before)
    return good


def test_lines_that_one_branch_can_follow_are_followed_without_a_jump() -> None:
    lines, starts, count = [], [], nightly(8, 4)
    for seed in range(count):
        rng = np.random.default_rng(seed)
        q = rng.uniform(-2, 2, 6)
        move, turn = rng.uniform(-0.25, 0.25, 3), rng.uniform(-0.5, 0.5, 3)
        lines.append(line(UR5E, q, move, turn, 40))
        every = solve(UR5E, lines[-1][0], solutions=100)
        starts.append(every.q[every.success])
    of = np.repeat(np.arange(count), [len(q) for q in starts])
    branches = tracked(UR5E, np.concatenate(starts), np.array(lines)[of])
    for seed, poses in enumerate(lines):
        found = sp.plan_path(UR5E, poses)
        if branches[of == seed].any():
            assert found.continuous, seed
        if found.continuous:
            np.testing.assert_allclose(UR5E.fk(found.q), poses, atol=1e-6, err_msg=str(seed))
        assert (off_path(UR5E, poses, found, 20) <= [1e-4, 1e-3]).all(), seed


@pytest.mark.parametrize("name", ["ur5e", "panda", "iiwa14"])
def test_the_tool_stays_on_the_path_between_the_samples_of_q(name: str) -> None:
    robot = sp.load(name)
    q = HOME if robot.dof == 6 else np.array([0.2, 0.5, 0.1, -1.6, 0.2, 1.5, 0.3])
    poses = line(robot, q, np.array([0.1, -0.2, 0.1]), np.array([0.2, 0.1, -0.2]), 25)
    found = sp.plan_path(robot, poses)
    assert found.continuous
    off = off_path(robot, poses, found)
    assert (off <= [1e-4, 1e-3]).all()
    assert (off <= 1.3 * np.array([found.position_deviation, found.rotation_deviation])).all()
    assert ((robot.lower <= found.q) & (found.q <= robot.upper)).all()


def test_plan_path_adds_samples_near_a_singularity() -> None:
    near = np.radians([0, -70, 100, -120, 1.7, 0])  # the wrist is singular where joint 5 is at 0
    first, last = UR5E.fk(near), UR5E.fk(near)
    first[1, 3] -= 0.2
    last[1, 3] += 0.2
    poses = sp.poses.interpolate(first, last, np.linspace(0, 1, 40))
    start = solve(UR5E, poses[0], q0=near).q + 2 * np.pi * np.eye(6)[3]
    found = sp.plan_path(UR5E, poses, q0=start)
    assert found.continuous
    assert np.abs(np.diff(found.q, axis=0)).max() > 0.2
    assert len(found.pieces[0]) > len(poses)
    assert (off_path(UR5E, poses, found) <= [1e-4, 1e-3]).all()


@pytest.mark.parametrize("count", [2, 21, 100, 101])
@pytest.mark.parametrize(
    "degrees", [(0, -70, 100, -120, 0, 0), (0, -60, 80, -100, 0, 0), (30, -80, 110, -60, 0, 20)]
)
def test_a_line_through_a_singular_target_is_followed_without_a_jump(
    degrees: tuple[float, ...], count: int
) -> None:
    """With an odd number of targets, the middle one is singular and has a continuum of solutions,
    of which only samples are known. The motion passes between these samples.
    """
    robot = sp.load("ur5e")
    singular = np.radians(np.array(degrees, dtype=float))
    across = np.array([-np.sin(singular[0]), np.cos(singular[0]), 0.0])
    poses = np.tile(robot.fk(singular), (count, 1, 1))
    poses[:, :3, 3] += np.linspace(-0.1, 0.1, count)[:, None] * across
    start = solve(robot, poses[0], q0=singular).q
    found = sp.plan_path(robot, poses, q0=start)
    assert found.continuous, str(found)
    assert np.sign(found.q[0, 4]) != np.sign(found.q[-1, 4])  # the wrist passes its singularity
    np.testing.assert_allclose(robot.fk(found.q), poses, atol=1e-6)
    assert np.abs(np.diff(found.pieces[0].q, axis=0)).max() < 0.3


@pytest.mark.parametrize("name", ["ur5e", "panda"])
def test_a_path_whose_first_target_is_out_of_reach_ends_there(name: str) -> None:
    far = np.stack([sp.pose([2.4, y, 0.4], rpy=[np.pi, 0, 0]) for y in (-0.1, 0.0, 0.1)])
    found = sp.plan_path(sp.load(name), far)
    assert not found.success
    assert np.isnan(found.q).all()
    assert "at 0: the target is out of reach" in str(found)


def test_the_branch_with_the_least_motion_is_chosen() -> None:
    poses = line(UR5E, HOME, np.array([0.1, 0.15, -0.1]), np.zeros(3))
    found = sp.plan_path(UR5E, poses)
    own = np.abs(np.diff(found.q, axis=0)).sum()
    every = solve(UR5E, poses[0], solutions="all").q
    others = [sp.plan_path(UR5E, poses, q0=q) for q in every]
    motions = [np.abs(np.diff(each.q, axis=0)).sum() for each in others if each.continuous]
    assert own <= min(motions) * (1 + 1e-6)
    assert max(motions) > 1.05 * own


def test_plan_path_chooses_the_branch_with_the_smallest_cost() -> None:
    poses = line(UR5E, HOME, np.array([0.05, 0.05, 0.0]), np.zeros(3))
    up = sp.plan_path(UR5E, poses, prefer=lambda q: -q[2])
    down = sp.plan_path(UR5E, poses, prefer=lambda q: q[2])
    assert up.q[:, 2].min() > 0 > down.q[:, 2].max()


def test_plan_path_begins_at_the_given_q0() -> None:
    poses = line(UR5E, HOME, np.array([0.1, 0.1, 0.0]), np.zeros(3))
    turned = HOME + 2 * np.pi * np.array([-1, 0, 0, 0, 0, -1])
    found = sp.plan_path(UR5E, poses, q0=turned)
    np.testing.assert_allclose(found.q[0], turned, atol=1e-6)
    assert found.continuous
    with pytest.raises(errors.InputError, match="q0 must be at the first target"):
        sp.plan_path(UR5E, poses, q0=HOME + 0.1)


@pytest.mark.parametrize("beyond", [1e-3, 0.1, 6.0])
@pytest.mark.parametrize("name", ["ur5e", "panda"])
def test_joints_that_start_outside_their_limits_first_return_inside(
    name: str, beyond: float
) -> None:
    """After this first motion, as in a Servo, the joints stay inside their limits."""
    robot = sp.load(name)
    q0 = HOME.copy() if robot.dof == 6 else np.array([0.2, 0.5, 0.1, -1.6, 0.2, 1.5, 0.3])
    q0[0] = robot.upper[0] + beyond
    poses = line(robot, q0, np.array([0.05, 0.05, 0.0]), np.zeros(3), 20)
    found = sp.plan_path(robot, poses, q0=q0)
    assert found.success
    back = found.reconfigurations[0]
    assert back.at == 0
    assert robot.joint_names[0] in back.reason
    np.testing.assert_array_equal(back.before, q0)
    np.testing.assert_array_equal(back.after, found.q[0])
    assert ((robot.lower <= found.q) & (found.q <= robot.upper)).all()
    motion = found.timed(dt=0.01)
    np.testing.assert_array_equal(motion.q[0], q0)
    outside = ((motion.q < robot.lower) | (motion.q > robot.upper)).any(axis=1)
    assert not outside[int(np.argmin(outside)) :].any()
    np.testing.assert_allclose(motion.q[-1], found.q[-1], atol=1e-9)


def test_a_path_starts_where_the_joint_limits_allow_the_whole_motion() -> None:
    """The path turns the last joint by 3.5 rad, so the joint must start far enough
    from its limit.
    """
    s = np.linspace(0, 1, 80)
    q = HOME + np.outer(s, [0, 0, 0, 0, 0, 3.5]) + [0, 0, 0, 0, 0, 2.0]
    found = sp.plan_path(UR5E, UR5E.fk(q))
    assert found.continuous
    assert np.abs(np.diff(found.q, axis=0)).max() < 0.1


def narrow(q: Array, joint: int, room: float) -> sp.Robot:
    low, high = UR5E.lower.copy(), UR5E.upper.copy()
    low[:], high[:] = q - 1.0, q + 1.0
    high[joint] = q[joint] + room
    return UR5E.with_limits(lower=low, upper=high)


def test_plan_path_names_the_joint_limit_that_ends_a_path() -> None:
    s = np.linspace(0, 1, 50)[:, None]
    poses = UR5E.fk(HOME + s * [0, 0, 0, 0, 0.8, 0])
    found = sp.plan_path(narrow(HOME, 4, 0.4), poses)
    assert not found.success
    assert found.obstacle is not None
    assert "out of reach" in found.obstacle or "wrist_2_joint is at its limit" in found.obstacle
    reached = np.isfinite(found.q[:, 0]).sum()
    assert reached == 25  # half of the poses: 0.4 of 0.8 rad


def test_plan_path_names_the_first_pose_out_of_reach() -> None:
    poses = line(UR5E, HOME, np.array([0.0, 0.0, 2.0]), np.zeros(3))
    found = sp.plan_path(UR5E, poses)
    assert not found
    reached = int(np.isfinite(found.q[:, 0]).sum())
    assert f"at {reached}: the target is out of reach" in str(found)
    assert not solve(UR5E, poses[reached])
    assert solve(UR5E, poses[reached - 1])
    with pytest.raises(errors.InputError, match="followed to its end"):
        found.timed()


def test_a_reconfiguration_is_reported_and_timed() -> None:
    """Where the last joint would exceed its limit, the motion continues after a turn by 2π."""
    low, high = UR5E.lower.copy(), UR5E.upper.copy()
    low[5], high[5] = -3.3, 3.3
    robot = UR5E.with_limits(lower=low, upper=high)
    s = np.linspace(0, 1, 120)
    q = HOME + np.outer(s, [0, 0, 0, 0, 0, 9.0]) - [0, 0, 0, 0, 0, 2.0]
    poses = UR5E.fk(q)
    found = sp.plan_path(robot, poses)
    assert found.success
    assert len(found.reconfigurations) == 1
    change = found.reconfigurations[0]
    assert "wrist_3_joint is at its limit" in change.reason
    at = int(change.at)
    for each in (change.before, change.after):
        np.testing.assert_allclose(robot.fk(each), poses[at], atol=1e-6)
    motion = found.timed(dt=0.002)
    assert np.abs(np.diff(motion.q, axis=0)).max() < 0.05
    np.testing.assert_allclose(motion.q[-1], found.q[-1], atol=1e-9)


def test_arms_without_a_closed_form_also_reconfigure_along_a_path() -> None:
    """The path goes around the base one and a half times, more than the range of joint 1."""
    arm = sp.dh([(0.4, 0, 0, 0), (0.3, 0, 0, 0), (0.2, 0, 0, 0)], limits=[(-2, 2)] * 3)
    a = np.linspace(0, 3 * np.pi, 200)
    circle = np.stack([0.5 * np.cos(a), 0.5 * np.sin(a), 0 * a], axis=1)
    found = sp.plan_path(arm, circle, tasks=sp.PositionTask())
    assert found.success
    assert 1 <= len(found.reconfigurations) <= 2
    np.testing.assert_allclose(arm.fk(found.q)[:, :3, 3], circle, atol=1e-6)


def test_repeated_targets_do_not_slow_down_the_motion() -> None:
    poses = line(UR5E, HOME, np.array([0.05, 0.05, 0.0]), np.zeros(3), 20)
    limits = sp.Limits.for_robot(UR5E, max_acceleration=10.0)
    once, twice = (sp.plan_path(UR5E, poses[np.repeat(np.arange(20), k)]) for k in (1, 2))
    assert twice.q.shape == (40, 6)
    np.testing.assert_array_equal(twice.q[::2], once.q)
    np.testing.assert_array_equal(twice.q[1::2], once.q)
    assert twice.timed(limits).t[-1] == once.timed(limits).t[-1]


def test_plan_path_follows_poses_given_by_a_function_of_the_path_length() -> None:
    T = UR5E.fk(HOME)

    def circle(s: float) -> Array:
        made = T.copy()
        made[:3, 3] += 0.1 * np.array([np.sin(s / 0.1), np.cos(s / 0.1) - 1, 0])
        return made

    found = sp.plan_path(UR5E, circle, length=0.6)
    assert found.continuous
    for s in np.linspace(0, 0.6, 500):
        off = np.linalg.norm(UR5E.fk(found.pieces[0].at(s))[:3, 3] - circle(s)[:3, 3])
        assert off <= 1e-4
    with pytest.raises(errors.InputError, match="needs length="):
        sp.plan_path(UR5E, circle)


def test_plan_path_follows_positions_and_axes() -> None:
    s = np.linspace(0, 1, 30)[:, None]
    p = UR5E.fk(HOME)[:3, 3] + s * [0.1, 0.1, -0.1]
    found = sp.plan_path(UR5E, p, tasks=sp.PositionTask())
    assert found.continuous
    np.testing.assert_allclose(UR5E.fk(found.q)[:, :3, 3], p, atol=1e-6)
    axes = np.tile(UR5E.fk(HOME)[:3, 2], (30, 1))
    found = sp.plan_path(UR5E, [p, axes], tasks=[sp.PositionTask(), sp.AxisTask()])
    assert found.continuous
    np.testing.assert_allclose(UR5E.fk(found.q)[:, :3, 2], axes, atol=1e-6)


def test_plan_path_follows_tasks_with_tolerances() -> None:
    poses = line(UR5E, HOME, np.array([0.1, 0.1, 0.0]), np.zeros(3), 30)
    found = sp.plan_path(UR5E, poses, tasks=sp.PoseTask(about="z"))
    assert found.continuous
    np.testing.assert_allclose(UR5E.fk(found.q)[:, :3, 2], poses[:, :3, 2], atol=1e-5)


def test_bad_targets_of_plan_path_are_named() -> None:
    with pytest.raises(errors.InputError, match="one leading axis"):
        sp.plan_path(UR5E, UR5E.fk(HOME))
    with pytest.raises(errors.InputError, match="finite"):
        sp.plan_path(UR5E, np.full((3, 4, 4), np.nan))
    with pytest.raises(errors.InputError, match="prefer must be"):
        sp.plan_path(UR5E, line(UR5E, HOME, np.zeros(3) + 0.01, np.zeros(3)), prefer="best")  # type: ignore[arg-type]
