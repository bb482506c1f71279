"""Laws of solve(device="cuda"), which are those of the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import supple
from solving import solve
from supple import AxisTask, PositionTask, SolveStatus
from supple.errors import InputError
from supple.gpu import devices
from targets import apart, boundary, hold

pytestmark = pytest.mark.cuda

GATES = [(1e-4, 1e-3), (1e-6, 1e-6)]
# Numbers of targets; a warp solves each of few, a thread each of many.
COUNTS = [1, 33, 2000, 20_000]


@pytest.mark.parametrize("gate", GATES, ids=str)
@pytest.mark.parametrize("name", ["panda", "ur5e", "iiwa14", "puma560", "stanford"])
def test_every_reachable_target_is_solved(name: str, gate: tuple[float, float]) -> None:
    robot = supple.load(name)
    for count in COUNTS:
        T = robot.fk(robot.random(count, seed=7))
        found = solve(
            robot, T, position_tolerance=gate[0], rotation_tolerance=gate[1], device="cuda"
        )
        assert found.success.all()
        hold(robot, T, found, *gate)


@pytest.mark.parametrize("count", [1, 5000])
def test_targets_that_take_hundreds_of_seeds_are_met_on_a_gpu(count: int) -> None:
    """Their solutions are nearly singular, with local minima nearby whose error is only 1e-4 m."""
    robot, gate = supple.load("panda"), (1e-6, 1e-6)
    T = robot.fk(robot.random(20_000, seed=1)[14_207 : 14_207 + count])
    found = solve(robot, T, position_tolerance=gate[0], rotation_tolerance=gate[1], device="cuda")
    assert found.success.all()
    hold(robot, T, found, *gate)


@pytest.mark.parametrize("count", [300, 12_000])
def test_reachable_and_unreachable_targets_are_solved_in_double_precision(count: int) -> None:
    robot = supple.load("ur5e")
    T = robot.fk(robot.random(count, seed=7))
    T[::100, 2, 3] += 3.0
    found = solve(robot, T, device="cuda", precision="double")
    again = solve(robot, T[::-1], device="cuda", precision="double")
    out = np.arange(count) % 100 == 0
    assert (found.status[~out] == SolveStatus.CONVERGED).all()
    assert (found.status[out] == SolveStatus.UNREACHABLE).all()
    hold(robot, T, found)
    assert (again.q[::-1] == found.q).all()


def test_a_single_target_is_solved_on_a_gpu() -> None:
    robot = supple.load("panda")
    T = robot.fk(robot.random(seed=8))
    found = solve(robot, T, device="cuda:0")
    assert found.status is SolveStatus.CONVERGED
    assert found.q.shape == (7,)
    hold(robot, T, found)


def test_an_arm_of_five_joints_meets_a_position_and_a_tool_axis() -> None:
    robot = supple.load("youbot")
    (tip,) = robot.tips
    T = robot.fk(robot.random(11_000, seed=9))
    tasks = [PositionTask(tip), AxisTask(tip)]
    found = solve(robot, [T[:, :3, 3], T[:, :3, 2]], tasks=tasks, device="cuda")
    assert found.success.all()
    at = robot.fk(found.q)
    assert (np.linalg.norm(at[:, :3, 3] - T[:, :3, 3], axis=1) <= 1e-6).all()
    assert (np.linalg.norm(np.cross(at[:, :3, 2], T[:, :3, 2]), axis=1) <= 1e-6).all()


@pytest.mark.parametrize("count", [300, 11_000])
def test_targets_of_both_hands_of_a_humanoid_are_met_as_often_as_on_the_cpu(
    count: int, robot_files: Callable[[str, str], Path]
) -> None:
    robot = supple.urdf(robot_files("frax", "assets/unitree_g1/g1_29dof_rev_1_0.urdf"))
    hands = ["left_wrist_yaw_link", "right_wrist_yaw_link"]
    q = robot.random(count, seed=14)
    T = [robot.fk(q, hand) for hand in hands]
    found = solve(robot, T, tasks=hands, device="cuda")
    few = solve(robot, [one[:300] for one in T], tasks=hands)
    assert found.success[:300].mean() >= few.success.mean() - 0.01
    far = np.array(
        [apart(robot.fk(found.q, hand), one) for hand, one in zip(hands, T, strict=True)]
    )
    np.testing.assert_allclose(far.max(axis=0)[0], found.position_error, rtol=1e-6, atol=1e-12)
    assert (far.max(axis=0)[:, found.success] <= 1e-6 + 1e-12).all()
    assert ((robot.lower <= found.q) & (found.q <= robot.upper)).all()


@pytest.mark.parametrize(
    "rule", [supple.damping.Optimal(0.3), supple.damping.Constant(0.02)], ids=lambda r: str(r)[:9]
)
def test_a_gpu_search_converges_with_optimal_or_constant_damping(
    rule: supple.damping.DampingRule,
) -> None:
    robot = supple.load("panda")
    T = robot.fk(robot.random(11_000, seed=10))
    found = solve(robot, T, damping=rule, device="cuda")
    assert found.success.mean() > 0.999
    hold(robot, T, found)


@pytest.mark.parametrize("count", [300, 12_000])
def test_for_targets_out_of_reach_a_gpu_returns_the_closest_pose(count: int) -> None:
    robot = supple.load("panda")
    _, _, T5 = boundary(robot, 12)
    T = np.tile(T5, (count // 12, 1, 1))
    found = solve(robot, T, device="cuda")
    near = solve(robot, T5, device="cpu")
    assert (found.status == SolveStatus.UNREACHABLE).all()
    hold(robot, T, found)
    here = np.hypot(found.position_error, found.rotation_error)[:12]
    there = np.hypot(near.position_error, near.rotation_error)
    np.testing.assert_array_less(here, there * 1.01 + 1e-9)


@pytest.mark.parametrize("count", [300, 11_000])
def test_nonfinite_targets_have_the_status_nonfinite_input_on_a_gpu(count: int) -> None:
    robot = supple.load("panda")
    T = robot.fk(robot.random(count, seed=11))
    T[7, 0, 3] = np.nan
    T[9, 1, 3] = 1e12
    found = solve(robot, T, device="cuda")
    bad = np.isin(np.arange(count), (7, 9))
    assert ((found.status == SolveStatus.NONFINITE_INPUT) == bad).all()
    assert (found.status[~bad] == SolveStatus.CONVERGED).all()
    assert np.isfinite(found.q).all()
    assert np.isinf(found.position_error[bad]).all()


def test_gpu_results_have_the_same_bits_in_every_call_and_order() -> None:
    robot = supple.load("panda")
    T = robot.fk(robot.random(11_000, seed=12))
    T[::50, 2, 3] += 2.0
    order = np.random.default_rng(0).permutation(len(T))
    for few in (slice(0, 500), slice(None)):
        one, again = solve(robot, T[few], device="cuda"), solve(robot, T[few], device="cuda")
        assert (one.q == again.q).all()
        assert (one.status == again.status).all()
    mixed = solve(robot, T[order], device="cuda")
    assert (mixed.q == one.q[order]).all()


@pytest.mark.parametrize("count", [64, 12_000])
def test_a_gpu_search_with_prefer_fast_usually_stays_near_a_nearby_q0(count: int) -> None:
    robot = supple.load("panda")
    q = 0.9 * robot.random(count, seed=13)
    near = np.clip(q + 0.02, robot.lower, robot.upper)
    found = solve(robot, robot.fk(q), q0=near, prefer="fast", device="cuda")
    assert found.success.all()
    if count > 10_000:  # a thread makes one start at a time, and first the one from q0
        assert np.mean(np.abs(found.q - q).max(axis=1) < 0.2) > 0.95


def test_an_empty_batch_of_targets_gives_an_empty_result() -> None:
    robot = supple.load("panda")
    assert solve(robot, np.empty((0, 4, 4)), device="cuda").q.shape == (0, 7)


def test_available_gpus_are_listed_in_the_error_of_an_unknown_one() -> None:
    first, *_ = devices()
    assert first.name == "cuda:0"
    assert first.architecture.startswith("sm_")
    with pytest.raises(
        supple.errors.DeviceError, match=r"'cuda:99' does not exist. Available: cuda:0"
    ):
        solve(supple.load("panda"), np.eye(4), device="cuda:99")


def test_arguments_for_the_cpu_alone_are_refused_on_a_gpu() -> None:
    robot = supple.load("panda")
    for name, given in {"timeout": 1.0, "explain": True, "threads": 2, "progress": print}.items():
        with pytest.raises(InputError, match=name):
            solve(robot, np.eye(4), device="cuda", **{name: given})
    with pytest.raises(InputError, match="several needs one target"):
        solve(robot, np.stack([np.eye(4)] * 2), solutions=3, device="cuda")
