"""`solve` on every robot and instruction set: converged solutions meet targets inside limits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import supple
from cases import each
from oracles import Pinocchio
from sizes import nightly
from solving import solve
from supple import AxisTask, PoseTask, PositionTask, SolveStatus
from targets import apart, boundary, hold

GATES = [(1e-4, 1e-3), (1e-6, 1e-6)]
ARMS = ["panda", "ur5e", "iiwa14", "puma560", "stanford"]


def same(a: supple.Solution, b: supple.Solution) -> bool:
    return all(
        np.asarray(getattr(a, name)).tobytes() == np.asarray(getattr(b, name)).tobytes()
        for name in ("q", "status", "position_error", "rotation_error", "iterations", "restarts")
    )


@pytest.mark.parametrize("gate", GATES, ids=str)
@pytest.mark.parametrize("name", ARMS)
def test_every_reachable_target_is_solved(name: str, gate: tuple[float, float]) -> None:
    robot = supple.load(name)
    T = robot.fk(robot.random(2000, seed=7))
    found = solve(robot, T, position_tolerance=gate[0], rotation_tolerance=gate[1])
    assert found.success.all()
    hold(robot, T, found, *gate)


@pytest.mark.parametrize("name", ARMS)
def test_reachable_targets_are_solved_in_single_calls(name: str) -> None:
    robot = supple.load(name)
    T = robot.fk(robot.random(nightly(200, 80), seed=8))
    for target in T:
        found = solve(robot, target)
        assert found.status is SolveStatus.CONVERGED
        hold(robot, target, found)


def test_an_arm_of_five_joints_meets_a_position_and_a_tool_axis() -> None:
    robot = supple.load("youbot")
    (tip,) = robot.tips
    T = robot.fk(robot.random(2000, seed=9))
    for gate in GATES:
        found = solve(
            robot,
            [T[:, :3, 3], T[:, :3, 2]],
            tasks=[PositionTask(tip), AxisTask(tip)],
            position_tolerance=gate[0],
            rotation_tolerance=gate[1],
        )
        assert found.success.all()
        at = robot.fk(found.q)
        assert (np.linalg.norm(at[:, :3, 3] - T[:, :3, 3], axis=1) <= gate[0]).all()
        sine = np.linalg.norm(np.cross(at[:, :3, 2], T[:, :3, 2]), axis=1)
        assert (sine <= gate[1]).all()
        assert (np.einsum("bi,bi->b", at[:, :3, 2], T[:, :3, 2]) > 0).all()


def test_solutions_meet_their_targets_in_pinocchio(robot_files: Callable[[str, str], Path]) -> None:
    path = robot_files("frax", "assets/iiwa/iiwa14.urdf")
    robot = supple.urdf(path)
    frame = robot.tips[0]
    other = Pinocchio(path, robot.joint_names)
    T = robot.fk(robot.random(300, seed=10), frame)
    found = solve(robot, T, frame=frame)
    assert found.success.all()
    for q, target in zip(found.q, T, strict=True):
        other.at(q, np.zeros(robot.dof))
        far, off = apart(other.fk(frame), target)
        assert far <= 1e-6 + 1e-12
        assert off <= 1e-6 + 1e-12


def test_every_instruction_set_solves_the_same_targets(isa: str) -> None:
    robot = supple.load("panda")
    T = robot.fk(robot.random(500, seed=11))
    found = solve(robot, T)
    assert found.success.all()
    hold(robot, T, found)
    hold(robot, T[0], solve(robot, T[0]))


# ---- deterministic -------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [False, True], ids=["no q0", "q0"])
def test_a_solution_has_the_same_bits_whatever_the_other_targets_of_its_batch(start: bool) -> None:
    robot = supple.load("panda")
    T = robot.fk(robot.random(700, seed=12))
    T[::10, 2, 3] += 2.0  # every tenth target is out of reach
    q0 = robot.random(700, seed=13) if start else None
    whole = solve(robot, T, q0=q0, threads=1, max_seeds=24)
    assert not whole.success.all()
    for threads in (2, 3):
        assert same(whole, solve(robot, T, q0=q0, threads=threads, max_seeds=24))
    order = np.random.default_rng(0).permutation(700)
    mixed = solve(robot, T[order], q0=None if q0 is None else q0[order], max_seeds=24)
    assert (mixed.q == whole.q[order]).all()
    assert (mixed.iterations == whole.iterations[order]).all()
    for piece in (slice(0, 1), slice(5, 22), slice(100, 333)):
        part = solve(robot, T[piece], q0=None if q0 is None else q0[piece], max_seeds=24)
        assert (part.q == whole.q[piece]).all()


def test_the_same_call_gives_the_same_bits_again() -> None:
    robot = supple.load("ur5e")
    for target in robot.fk(robot.random(50, seed=14)):
        assert same(solve(robot, target), solve(robot, target))


def test_earlier_calls_do_not_change_a_result() -> None:
    # This also holds for max_seeds = 1, where the only start fails before packs of lanes run.
    robot = supple.load("panda")
    reachable = robot.fk(robot.random(20, seed=17))
    beyond = robot.fk(robot.random(seed=18))
    beyond[:3, 3] += 0.7
    first = [solve(robot, beyond, max_seeds=k) for k in (1, 2, 9)]
    for target in reachable:
        solve(robot, target)
        again = [solve(robot, beyond, max_seeds=k) for k in (1, 2, 9)]
        assert all(same(one, other) for one, other in zip(first, again, strict=True))


# ---- the edge of the workspace -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["panda", "ur5e", "iiwa14", "puma560"])
def test_targets_on_the_boundary_are_met_and_beyond_it_unreachable(name: str) -> None:
    robot = supple.load(name)
    _, T0, T5 = boundary(robot, nightly(200, 80))
    for gate in GATES:
        bounds = {"position_tolerance": gate[0], "rotation_tolerance": gate[1]}
        reached = solve(robot, T0, **bounds)
        hold(robot, T0, reached, *gate)
        assert reached.success.mean() >= 0.995
        assert np.mean([solve(robot, T, **bounds).success for T in T0]) >= 0.995
        beyond = solve(robot, T5, **bounds)
        hold(robot, T5, beyond, *gate)
        assert (beyond.status == SolveStatus.UNREACHABLE).all()
        far, off = apart(robot.fk(beyond.q), T0)
        nearer = np.hypot(beyond.position_error, beyond.rotation_error) < 0.05
        assert (((far < 1e-3) & (off < 1e-2)) | nearer).mean() >= 0.99


@pytest.mark.parametrize("name", ["panda", "ur5e"])
def test_the_closest_pose_moves_no_farther_than_the_target_out_of_reach(name: str) -> None:
    # The target moves from inside the reach to far outside in steps of 2 mm. Finding the closest
    # pose is nearly a projection, so the pose moves no farther than the target; joints jump only to
    # a branch that reaches farther.
    robot = supple.load(name)
    T = np.repeat(robot.fk(robot.random(seed=3))[None], 400, axis=0)
    out = T[0, :3, 3] - robot.base[:3, 3]
    T[:, :3, 3] += 0.002 * np.arange(400)[:, None] * out / np.linalg.norm(out)
    q, poses, q0 = [], [], None
    for target in T:
        found = solve(robot, target, q0=q0)
        hold(robot, target, found)
        q0 = found.q
        q.append(found.q)
        poses.append(robot.fk(found.q))
    far, off = apart(np.array(poses[1:]), np.array(poses[:-1]))
    assert found.status is SolveStatus.UNREACHABLE
    assert far.max() < 0.0025
    assert off.max() < 0.005
    assert (np.abs(np.diff(q, axis=0)).max(axis=1) > 0.5).sum() <= 2


def test_a_larger_weight_of_rotation_lowers_its_error_and_raises_the_position_error() -> None:
    robot = supple.load("panda")
    _, T0, _ = boundary(robot, 1)
    far = T0[0] @ np.diag([1.0, -1.0, -1.0, 1.0])  # at the edge, rotated by 180° about x
    far[:3, 3] = T0[0, :3, 3]
    near, between, straight = (
        solve(robot, far, tasks=supple.PoseTask(robot.tips[0], length=length))
        for length in (0.05, 0.5, 5.0)
    )
    assert near.position_error < between.position_error < straight.position_error
    assert near.rotation_error > between.rotation_error > straight.rotation_error


# ---- seeds and preferences -----------------------------------------------------------------------


@each("name", ["panda", "ur5e", "iiwa14"])
def test_solutions_along_a_path_do_not_jump_if_each_starts_from_the_previous_one(name: str) -> None:
    robot = supple.load(name)
    begin, end = 0.6 * robot.random(2, seed=15)
    course = begin + np.linspace(0, 1, 300)[:, None] * (end - begin)
    T = robot.fk(course)
    q = begin
    for target in T:
        found = solve(robot, target, q0=q)
        assert found.success
        assert np.abs(found.q - q).max() < 0.2
        q = found.q


def test_the_solution_found_with_q0_is_usually_the_nearest_of_many() -> None:
    robot = supple.load("puma560")
    count = nightly(100, 20)
    T = robot.fk(robot.random(count, seed=16))
    starts = robot.random(count, seed=17)
    batch = solve(robot, T, q0=starts)
    assert batch.success.all()
    better = 0
    for target, q0, q in zip(T, starts, batch.q, strict=True):
        every = solve(robot, target, solutions=32)
        moves = np.abs(every.q - q0).max(axis=1)
        assert (solve(robot, target, q0=q0).q == q).all()
        better += np.abs(q - q0).max() <= moves.min() + 1e-3
    # The nearest of the eight solutions that are computed may not be the nearest of all.
    assert better >= 0.75 * count


def test_several_solutions_are_distinct_and_verified() -> None:
    robot = supple.load("puma560")
    for target in robot.fk(robot.random(20, seed=18)):
        found = solve(robot, target, solutions=6)
        assert found.q.shape == (len(found.status), robot.dof)
        assert 1 <= len(found.q) <= 6
        assert found.success.all()
        hold(robot, target, found)
        apart_by = np.abs(found.q[:, None] - found.q[None]).max(axis=-1)
        assert (apart_by[~np.eye(len(found.q), dtype=bool)] > 0.01).all()
    assert len(solve(robot, robot.fk(robot.neutral() + 0.3), solutions=8).q) >= 4  # elbow, wrist


def test_a_preference_improves_its_measure_over_the_first_solution() -> None:
    robot = supple.load("panda")
    T = robot.fk(robot.random(60, seed=19))

    def bent(q: np.ndarray) -> float:
        return float(-abs(q[3]))

    fast = solve(robot, T)
    middle = (robot.lower + robot.upper) / 2, (robot.upper - robot.lower) / 2
    measures = {
        "manipulability": lambda q: -robot.manipulability(q),
        "limits": lambda q: (np.abs(q - middle[0]) / middle[1]).max(axis=-1),
        bent: lambda q: -np.abs(q[:, 3]),
    }
    for prefer, cost in measures.items():
        chosen = solve(robot, T, prefer=prefer)
        assert chosen.success.all()
        hold(robot, T, chosen)
        assert cost(chosen.q).mean() < cost(fast.q).mean()
        assert (solve(robot, T[0], prefer=prefer).q == chosen.q[0]).all()
    ranked = solve(robot, T[0], prefer="limits", solutions=5)
    assert (np.diff(measures["limits"](ranked.q)) >= 0).all()


@each("shape", [(), (3,), (2, 5), (0,), (1, 0, 2)], ids=str)
def test_results_of_solve_have_the_batch_shape_of_the_targets(shape: tuple[int, ...]) -> None:
    robot = supple.load("ur5e")
    found = solve(robot, robot.fk(robot.random(shape, seed=0)))
    assert found.q.shape == (*shape, robot.dof)
    for name in ("status", "position_error", "rotation_error", "iterations", "restarts", "success"):
        assert np.shape(getattr(found, name)) == shape


# ---- invariances ---------------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", [1e-6, 1e-3, 1e3, 1e6])
def test_reachable_targets_are_met_with_any_weights(ratio: float) -> None:
    robot = supple.load("panda")
    T = robot.fk(robot.random(200, seed=15))
    found = solve(robot, T, tasks=PoseTask(weight=[ratio] * 3 + [1.0] * 3))
    assert found.success.all()
    hold(robot, T, found)


@each("unit", [1e-3, 1.0, 1e3])
def test_the_unit_of_length_does_not_change_which_targets_are_met(unit: float) -> None:
    quarter = np.pi / 2
    table = [(0, 0, -quarter), (0.4318, 0.14909, 0), (-0.02032, 0, quarter)]
    table += [(0, 0.43307, -quarter), (0, 0, quarter), (0, 0.05625, 0)]
    robot = supple.dh([(a * unit, alpha, d * unit, 0.0) for a, d, alpha in table])
    T = robot.fk(robot.random(300, seed=16))
    found = solve(robot, T, position_tolerance=1e-6 * unit)
    assert found.success.all()
    assert found.restarts.mean() < 3


# ---- near a seed ---------------------------------------------------------------------------------


def test_the_nearest_solution_is_found_although_the_first_step_from_q0_passes_it() -> None:
    # The next solution beyond the nearest one is 1.3 rad away from q0.
    robot = supple.load("iiwa14")
    q0 = np.array([0.058, -0.4727, -1.0353, -0.5692, 1.5616, 0.3536, -3.0467])
    x = np.array([1.2252, -0.1554, -0.7743, 0.5813, -0.2789, 0.7251, -2.5215])
    assert np.abs(solve(robot, robot.fk(x), q0=q0).q - q0).max() < 0.3


def test_joints_do_not_jump_to_slightly_closer_poses_if_the_target_is_out_of_reach() -> None:
    # The target moves 30 cm beyond the boundary and along it; each solve starts from the previous
    # solution. Another branch may be slightly closer, which does not justify a jump to it.
    robot = supple.load("panda")
    _, T0, T5 = boundary(robot, 4, seed=2)
    u = (T5 - T0)[:, :3, 3] / 0.05
    for T, out in zip(T0, u, strict=True):
        side = np.cross(out, [0.3, -0.5, 0.8])
        q0, jumps = None, 0
        for k in range(100):
            target = T.copy()
            target[:3, 3] += 0.3 * out + 0.002 * k * side / np.linalg.norm(side)
            found = solve(robot, target, q0=q0)
            jumps += q0 is not None and np.abs(found.q - q0).max() > 0.6
            q0 = found.q
        assert jumps == 0
