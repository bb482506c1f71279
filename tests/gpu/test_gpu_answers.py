"""Which solutions of a target a GPU returns: the nearest to q0, the best, or all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import supple
from solving import solve
from supple import PoseTask, PostureTask, SolveStatus
from supple.errors import InputError
from targets import boundary, hold

pytestmark = pytest.mark.cuda

COUNTS = [60, 11_000]  # numbers of targets: a warp solves each of 60, a thread each of 11,000
FEW = 60  # number of targets that are compared with the CPU
Array = np.ndarray


def moves(found: supple.Solution, q0: Array) -> Array:
    """Return the largest joint displacement from q0 for each target."""
    return np.abs(found.q[:FEW] - q0[:FEW]).max(axis=1)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", ["panda", "ur5e"])
def test_if_q0_is_close_to_a_solution_a_gpu_returns_a_solution_near_q0(
    name: str, count: int
) -> None:
    robot = supple.load(name)
    q = 0.9 * robot.random(count, seed=13)
    q0 = np.clip(q + 0.02, robot.lower, robot.upper)
    T = robot.fk(q)
    found = solve(robot, T, q0=q0, device="cuda")
    assert found.success.all()
    hold(robot, T, found)
    assert np.mean(np.abs(found.q - q0).max(axis=1) <= 0.5) >= 0.98
    # Solutions are as near to q0 as on the CPU, except near singular poses, where rounding in
    # float32 may lead to another solution.
    here, there = moves(found, q0), moves(solve(robot, T[:FEW], q0=q0[:FEW]), q0)
    assert np.mean(np.abs(here - there) <= 1e-3) >= 0.9
    assert (here[there <= 0.5] <= 0.5).all()


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", ["panda", "ur5e"])
def test_a_gpu_returns_solutions_as_near_to_q0_as_the_cpu(name: str, count: int) -> None:
    robot = supple.load(name)
    T, q0 = robot.fk(robot.random(count, seed=14)), robot.random(count, seed=15)
    found = solve(robot, T, q0=q0, device="cuda")
    assert found.success.all()
    hold(robot, T, found)
    near, far = solve(robot, T[:FEW], q0=q0[:FEW]), solve(robot, T[:FEW])
    assert moves(found, q0).mean() <= 1.1 * moves(near, q0).mean() < moves(far, q0).mean()
    again = solve(robot, T[::-1], q0=q0[::-1], device="cuda")
    assert (again.q[::-1] == found.q).all()
    one_for_all = solve(robot, T[:FEW], q0=q0[0], device="cuda")
    each = solve(robot, T[:FEW], q0=np.tile(q0[0], (FEW, 1)), device="cuda")
    assert (one_for_all.q == each.q).all()


def test_a_gpu_returns_the_2_pi_wrap_nearest_to_q0() -> None:
    robot = supple.load("ur5e")  # all joints have the limits ±2π
    at = np.array([-0.4, -1.2, 1.5, -0.5, 1.0, 0.3])
    turned = at + 2 * np.pi * np.array([1, 0, 0, 0, -1, 0])
    found = solve(robot, robot.fk(at), q0=turned, device="cuda")
    assert np.abs(found.q - turned).max() < 1e-5
    assert len(solve(robot, robot.fk(at), solutions=100, device="cuda").q) == 8


def test_gpu_solutions_along_a_path_do_not_jump() -> None:
    robot = supple.load("panda")
    target = robot.fk(np.array([0.3, -0.5, 0.2, -2.0, 0.1, 1.6, 0.8]))
    q = solve(robot, target, device="cuda").q
    for _ in range(50):
        target[2, 3] += 0.001
        found = solve(robot, target, q0=q, device="cuda")
        assert found.success
        assert np.abs(found.q - q).max() < 0.05
        q = found.q


@pytest.mark.parametrize("prefer", ["manipulability", "limits", lambda q: float(abs(q[0]))])
def test_a_preference_reduces_its_mean_cost_on_a_gpu_nearly_as_much_as_on_the_cpu(
    prefer: Any,
) -> None:
    robot = supple.load("panda")
    T = robot.fk(robot.random(200, seed=16))
    found = solve(robot, T, prefer=prefer, device="cuda")
    assert found.success.all()
    hold(robot, T, found)
    same, first = solve(robot, T, prefer=prefer), solve(robot, T)

    def cost(q: Array) -> float:
        if callable(prefer):
            return float(np.mean([prefer(one) for one in q]))
        if prefer == "limits":
            low, high = robot.lower, robot.upper
            return float((np.abs(2 * q - low - high) / (high - low)).max(axis=1).mean())
        return float(-np.linalg.svd(robot.jacobian(q), compute_uv=False).prod(axis=-1).mean())

    here, there, any_one = (cost(x.q) for x in (found, same, first))
    assert here < any_one
    assert abs(here - there) < 0.3 * abs(any_one - there)


def test_several_solutions_of_a_gpu_are_distinct() -> None:
    robot = supple.load("puma560")
    T = robot.fk(robot.neutral() + 0.3)
    found = solve(robot, T, solutions=16, device="cuda")
    assert found.success.all()
    assert len(found.q) == len(solve(robot, T, solutions=16).q)
    far = np.abs(found.q[:, None] - found.q[None]).max(axis=-1)
    assert (far + np.eye(len(found.q)) > 1e-2).all()
    tasks = [PoseTask(), PostureTask()]
    drawn = solve(robot, [T, robot.neutral()], tasks=tasks, solutions=16, device="cuda")
    far = np.abs(drawn.q[:, None] - drawn.q[None]).max(axis=-1)
    assert (far + np.eye(len(drawn.q)) > 1e-2).all()
    none = T.copy()
    none[2, 3] += 3
    assert solve(robot, none, solutions=4, device="cuda").status.tolist() == [
        SolveStatus.UNREACHABLE
    ]


@pytest.mark.parametrize("name", ["panda", "ur5e", "iiwa14", "puma560"])
def test_a_gpu_finds_the_closest_pose_at_and_beyond_the_reach(name: str) -> None:
    robot = supple.load(name)
    _, T0, T5 = boundary(robot, 60)
    for count, q0 in ((60, None), (60, robot.random(60, seed=3)), (12_000, None)):
        more = np.tile(T5, (count // 60, 1, 1))
        found = solve(robot, more, q0=q0, device="cuda")
        hold(robot, more, found)
        assert (found.status == SolveStatus.UNREACHABLE).all()
        # The closest pose is T0, at a distance of 5 cm; it must be found to a millimeter and 0.01
        # rad.
        good = (np.abs(found.position_error - 0.05) <= 1e-3) & (found.rotation_error <= 0.01)
        nearer = np.hypot(found.position_error, found.rotation_error) <= 0.05
        assert (good | nearer).mean() >= 0.98
        assert solve(robot, T0, q0=q0, device="cuda").success.mean() >= 0.98


def test_prefer_nearest_without_q0_is_refused_on_a_gpu() -> None:
    robot = supple.load("panda")
    with pytest.raises(InputError, match='"nearest" needs q0'):
        solve(robot, np.eye(4), prefer="nearest", device="cuda")
