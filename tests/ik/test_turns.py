"""Of the 2π wraps of a joint, the nearest is returned; wraps are not distinct solutions."""

from __future__ import annotations

import numpy as np
import pytest

import supple
from calls import mimicking
from cases import each
from sizes import nightly
from solving import solve
from supple import PoseTask, PositionTask, PostureTask, Robot, SolveStatus
from supple.describe import Description, Joint, Mimic
from targets import boundary, hold

Array = np.ndarray
TURN = 2 * np.pi


def nearer_by_turns(robot: Robot, q: Array, q0: Array) -> Array:
    """Return a mask of the coordinates with a 2π wrap inside the limits that is nearer to q0."""
    nearer = np.zeros(np.broadcast_shapes(q.shape, q0.shape), dtype=bool)
    for k in range(-8, 9):
        turned = q + k * TURN
        inside = (robot.lower <= turned) & (turned <= robot.upper) & ~robot.prismatic
        nearer |= inside & (np.abs(turned - q0) < np.abs(q - q0) - 1e-9)
    return nearer


@pytest.mark.parametrize("name", ["ur5e", "puma560"])
def test_no_full_turn_inside_the_limits_brings_a_joint_of_a_solution_nearer_to_q0(
    name: str,
) -> None:
    robot = supple.load(name)
    assert (robot.upper - robot.lower >= TURN).any()
    T, q0 = robot.fk(robot.random(150, seed=31)), robot.random(150, seed=32)
    q0[::3] = robot.upper  # at a limit, wraps are possible in one direction only
    q0[1::3] = robot.lower - 1.0
    batch = solve(robot, T, q0=q0)
    assert batch.success.all()
    hold(robot, T, batch)
    assert not nearer_by_turns(robot, batch.q, q0).any()
    for target, start, q in zip(T[:20], q0, batch.q, strict=False):
        assert (solve(robot, target, q0=start).q == q).all()
        chosen = solve(robot, target, q0=start, prefer="nearest", solutions=4)
        assert not nearer_by_turns(robot, chosen.q, start).any()
    fast = solve(robot, T, q0=q0, prefer="fast")
    assert nearer_by_turns(robot, fast.q, q0).any()  # so the test can fail


def test_at_the_closest_pose_joints_have_the_2_pi_wraps_nearest_to_q0() -> None:
    robot = supple.load("ur5e")
    _, _, T5 = boundary(robot, 20)
    q0 = robot.random(20, seed=33)
    found = solve(robot, T5, q0=q0)
    assert (found.status == SolveStatus.UNREACHABLE).all()
    hold(robot, T5, found)
    assert not nearer_by_turns(robot, found.q, q0).any()


@pytest.mark.parametrize("q0", [None, [4.0, -4.0, 1.0, -5.0, 3.0, -3.0]], ids=["no q0", "q0"])
@pytest.mark.parametrize("one", [False, True])
def test_with_a_posture_joints_have_the_2_pi_wraps_nearest_to_the_posture(
    one: bool, q0: list[float] | None
) -> None:
    """The wraps nearest to q0 are other ones."""
    robot = supple.load("ur5e")
    T, rest = robot.fk(robot.random(60, seed=34)), robot.random(seed=35)
    tasks = [PoseTask(), PostureTask()]
    if one:
        q = np.array([solve(robot, [target, rest], tasks=tasks, q0=q0).q for target in T])
    else:
        q = solve(robot, [T, rest], tasks=tasks, q0=q0).q
    assert not nearer_by_turns(robot, q, rest).any()


def test_solutions_that_differ_by_full_turns_are_not_distinct() -> None:
    # An arm with six joints, three of them with parallel axes, has at most eight solutions.
    robot = supple.load("ur5e")
    counts = []
    q = robot.random(nightly(30, 12), seed=36)
    q[2 * len(q) // 3 :, 0] = np.pi  # half a turn from the middle: rounding decides the side
    for target in robot.fk(q):
        found = solve(robot, target, solutions=40)
        hold(robot, target, found)
        away = found.q[:, None] - found.q[None]
        away -= TURN * np.round(away / TURN)
        other = ~np.eye(len(found.q), dtype=bool)
        assert (np.abs(away).max(axis=-1)[other] > 0.01).all()
        middle = (robot.lower + robot.upper) / 2
        assert not nearer_by_turns(robot, found.q, middle).any()
        counts.append(len(found.q))
    assert max(counts) == 8


def test_a_joint_without_limits_moves_at_most_half_a_turn_from_q0() -> None:
    robot = supple.load("y")  # joints without limits
    assert np.isinf(robot.upper).any()
    q0 = robot.random(seed=37) + 40.0
    tasks = [PositionTask(tip) for tip in robot.tips]
    goals = [T[:3, 3] for T in robot.fk(robot.random(seed=38))]
    found = solve(robot, goals, tasks=tasks, q0=q0)
    assert found.success
    assert np.abs(found.q - q0).max() <= np.pi + 1e-9


@pytest.mark.parametrize("batch", [False, True])
def test_a_solution_is_not_wrapped_if_rounding_would_spoil_it(batch: bool) -> None:
    """Angles far from zero have rounding errors that are larger than the tolerance."""
    robot, hand = geared(None), PositionTask("tip")
    p, q0 = robot.fk(robot.random(20, seed=40))[:, :3, 3].copy(), np.array([1e8, -1e8])
    tolerance = 1e-9
    if batch:
        q = solve(robot, p, tasks=hand, q0=q0, position_tolerance=tolerance).q
    else:
        each = [solve(robot, one, tasks=hand, q0=q0, position_tolerance=tolerance) for one in p]
        assert all(found.success for found in each)
        q = np.array([found.q for found in each])
    assert np.linalg.norm(robot.fk(q)[:, :3, 3] - p, axis=1).max() <= tolerance * (1 + 1e-6)


def test_positions_of_a_long_prismatic_joint_are_not_wrapped() -> None:
    """On a prismatic joint of 40 m, the closest point is found although q0 is at an end."""
    joint = Joint("slide", "prismatic", "base", "tip", axis=(1, 0, 0), lower=-20.0, upper=20.0)
    robot = Robot(Description("slide", (joint,)))
    target = np.array([5.0, 1.0, 0.0])
    found = solve(robot, target, tasks=PositionTask("tip"), q0=np.array([-19.0]))
    assert found.status is SolveStatus.UNREACHABLE
    np.testing.assert_allclose(found.q, [5.0], atol=1e-6)


def geared(ratio: float | None) -> Robot:
    """Return a planar arm with two links and no limits; its second joint may mimic the first."""
    along = np.eye(4)
    along[0, 3] = 1.0
    joints = (
        Joint("shoulder", "continuous", "base", "upper", axis=(0, 0, 1)),
        Joint(
            "elbow", "continuous", "upper", "fore", origin=along, axis=(0, 0, 1),
            mimic=None if ratio is None else Mimic("shoulder", ratio, 0.2),
        ),
        Joint("hand", "fixed", "fore", "tip", origin=along),
    )  # fmt: skip
    return Robot(Description("geared", joints))


@each("ratio", [2.0, -1.0, 0.5, 1 / 3])
def test_a_joint_is_not_wrapped_if_a_joint_that_mimics_it_would_move_the_frame(
    ratio: float,
) -> None:
    robot = geared(ratio)
    for target in robot.fk(np.linspace(-3, 3, 7)[:, None]):
        found = solve(robot, target[:3, 3], tasks=PositionTask("tip"), q0=[60.0], max_seeds=64)
        if found.success:
            np.testing.assert_allclose(robot.fk(found.q)[:3, 3], target[:3, 3], atol=1e-6)
    if ratio == round(ratio):
        assert np.abs(found.q - 60.0).max() <= np.pi + 1e-9
    # The closest pose is stationary. It would not be after a turn of one joint by 2π, which turns
    # the joint that mimics it by a fraction of 2π.
    far = np.array([9.0, 4.0, 0.0])
    found = solve(robot, far, tasks=PositionTask("tip"), q0=[60.0], max_seeds=64)
    assert found.status is SolveStatus.UNREACHABLE
    off = robot.fk(found.q)[:3, 3] - far
    assert abs(robot.jacobian(found.q)[:3, 0] @ off) < 1e-4


def test_robots_with_mimic_and_prismatic_joints_are_solved_near_q0() -> None:
    robot = mimicking()
    assert robot.prismatic.any()
    tasks = [PositionTask(tip) for tip in robot.tips]
    T = robot.fk(robot.random(100, seed=39))
    goals = [T[:, k, :3, 3] for k in range(len(tasks))]
    near = robot.random(100, seed=39) + 0.01
    found = solve(robot, goals, tasks=tasks, q0=near)
    assert found.success.all()
    for k in range(len(tasks)):
        assert np.abs(robot.fk(found.q)[:, k, :3, 3] - goals[k]).max() <= 1e-6
    assert np.abs(found.q - near).max() < 1.0
    assert solve(robot, goals, tasks=tasks).success.mean() > 0.9
