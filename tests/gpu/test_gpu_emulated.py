"""Laws of the CUDA kernels on an emulated GPU, which runs the CUDA sources on the CPU.

Most problems are those of a planar arm. If there are few, a warp solves each of them; if there are
many, a thread does. Tests marked `cuda` run on a real GPU.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

import emulator
import supple
from gpu_kernels import LEFT, RIGHT, screw, tree
from several_arms import HEAD, arms
from solving import solve
from supple import (
    AxisTask,
    OrientationTask,
    PoseTask,
    PositionTask,
    PostureTask,
    Solutions,
    SolveStatus,
    _core,
    poses,
)
from supple.describe import Description, Joint
from supple.errors import InputError
from supple.gpu.arrays import GpuArray
from supple.gpu.queue import Queue
from supple.ik.gpu import position, solvers, subproblems
from supple.ik.gpu.request import Request, SolutionPointers
from supple.ik.problem import compile_problem
from supple.tasks import CenterOfMassTask
from targets import apart
from tolerances import angle_between, box_distance, pose_at

Array = np.ndarray
HAND = PositionTask(rows=("x", "y"))
COUNT = 40


@pytest.fixture(params=["a warp for each", "a thread for each"], autouse=True)
def strategy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "a thread for each":
        monkeypatch.setattr(position, "FEW", COUNT // 2)
        monkeypatch.setattr(position, "FEW_LARGE", COUNT // 2)


ARM = supple.dh([(1.0, 0, 0, 0), (0.8, 0, 0, 0), (0.5, 0, 0, 0)], limits=[(-2.5, 2.5)] * 3)
FRAMES = (
    PositionTask(ARM.frames[-2], rows=("x", "y")),
    PositionTask(ARM.frames[-1], rows=("x",)),
)
NEAR = (HAND, PostureTask())  # the solution is as near as possible to a posture
POSE = PoseTask(rows=("x", "y", "rz"))
LINE = (PositionTask(rows=("x",)), AxisTask(axis=(1, 0, 0)))
TURN = OrientationTask(rows=("rz",))
CENTER = CenterOfMassTask(rows=("x", "y"))
YOUBOT, CONE, BOX = supple.load("youbot"), 0.2, 0.02  # [rad], [m]
RANGES = PoseTask(about="z", cone=CONE, tolerance={"x": BOX, "y": BOX, "z": (-BOX, BOX)})
PANDA, PLANAR = supple.load("panda"), supple.load("planar2")
BOTH = arms("planar3", "planar3")
HANDS = tuple(PositionTask(tip, rows=("x", "y")) for tip in BOTH.tips)


@cache
def heavy_arm() -> supple.Robot:
    """Return the planar arm with masses."""
    arm = ARM
    for k, link in enumerate(sorted({joint.child for joint in ARM.description.joints})):
        arm = arm.with_inertia(link, 1.0 + k, (-0.2, 0.05, 0.0), np.eye(3))
    return arm


def load() -> None:
    p, q, T = (emulator.There(one[None]) for one in (np.ones(3), np.ones(3), np.eye(4)))
    for robot, given, tasks in (
        *((ARM, p, HAND), (ARM, [p, p], FRAMES), (ARM, [p, p], LINE), (ARM, T, TURN)),
        *((ARM, [p, q], NEAR), (heavy_arm(), p, CENTER), (screw(), p, PositionTask())),
        *((YOUBOT, T, RANGES), (PANDA, T, PoseTask()), (BOTH, [p, p], HANDS)),
    ):
        solve(robot, given, tasks=tasks)
    solve(ARM, p, tasks=HAND, q0=q)
    solve(ARM, T, tasks=POSE, solutions=2)
    solve(PLANAR, p, tasks=HAND, q0=emulator.There(np.ones((1, 2))))
    solve(BOTH, [p, p], tasks=HANDS, q0=emulator.There(np.ones((1, BOTH.nv))))


@pytest.fixture(scope="module", autouse=True)
def emulated() -> Iterator[emulator.Device]:
    with pytest.MonkeyPatch.context() as patch:
        solvers.gpu_solver.cache_clear()
        yield emulator.install(patch, load)
    solvers.gpu_solver.cache_clear()


def targets(seed: int) -> tuple[Array, Array]:
    """Return random configurations (COUNT, n) and the hand positions that they reach (COUNT, 3)."""
    q = ARM.random(COUNT, seed=seed)
    return q, ARM.fk(q)[:, :3, 3]


def hold(p: Array, found: supple.Solution) -> None:
    """Check that solutions are inside the limits and that reported errors are those of `fk` on the
    CPU.
    """
    assert ((ARM.lower <= found.q) & (found.q <= ARM.upper)).all()
    far = np.linalg.norm((ARM.fk(found.q)[:, :3, 3] - p)[:, :2], axis=1)
    np.testing.assert_allclose(found.position_error, far, rtol=1e-6, atol=1e-12)
    assert (far[found.success] <= 1e-6).all()


def test_gpu_solutions_do_not_depend_on_the_order_of_targets() -> None:
    _, p = targets(1)
    found = solve(ARM, p, tasks=HAND, device="cuda")
    assert found.success.all()
    hold(p, found)
    back = solve(ARM, p[::-1], tasks=HAND, device="cuda")
    assert (back.q[::-1] == found.q).all()


def test_gpu_solutions_of_several_frames_do_not_depend_on_the_order_of_targets() -> None:
    q = ARM.random(200, seed=8)  # more targets than a block has threads
    p = [ARM.fk(q, task.frame)[:, :3, 3] for task in FRAMES]
    found = solve(ARM, p, tasks=FRAMES, device="cuda")
    assert found.success.all()
    for task, goal in zip(FRAMES, p, strict=True):
        off = (ARM.fk(found.q, task.frame)[:, :3, 3] - goal)[:, : len(task.rows or ())]
        assert np.abs(off).max() <= 1e-6
    back = solve(ARM, [one[::-1] for one in p], tasks=FRAMES, device="cuda")
    assert (back.q[::-1] == found.q).all()


def test_targets_of_the_center_of_mass_are_met_as_on_the_cpu() -> None:
    arm = heavy_arm()
    c = arm.center_of_mass(arm.random(40, seed=4))
    found = solve(arm, c, tasks=CENTER, device="cuda")
    assert found.success.all()
    assert np.abs(arm.center_of_mass(found.q) - c)[:, :2].max() <= 1e-6


def test_iterations_linked_separately_agree_with_the_cpu(
    emulated: emulator.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a large problem, the code of the iterations is compiled and linked separately."""
    monkeypatch.setattr(emulated, "linked", True)
    robot = tree()
    tasks = tuple(PoseTask(frame) for frame in (LEFT, RIGHT))
    q = robot.random(24, seed=9)
    T = [robot.fk(q, task.frame) for task in tasks]
    T[0][3, 2, 3] += 4.0  # out of reach
    found, same = (solve(robot, T, tasks=tasks, device=device) for device in ("cuda", "cpu"))
    assert (found.status == same.status).all()
    assert found.success.sum() == 23
    far, off = np.stack(
        [apart(robot.fk(found.q, LEFT), T[0]), apart(robot.fk(found.q, RIGHT), T[1])]
    ).max(axis=0)
    np.testing.assert_allclose(found.position_error, far, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(found.rotation_error, off, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.position_error, same.position_error, atol=1e-3)


def test_gpu_solutions_meet_allowed_ranges() -> None:
    """The ranges, for an arm of five joints, are a cone around the tool's axis and a box of
    positions.
    """
    robot = YOUBOT
    T = robot.fk(robot.random(COUNT, seed=10))
    T[:, :3, 3] += np.random.default_rng(1).uniform(-BOX, BOX, (COUNT, 3))
    found = solve(robot, T, tasks=RANGES, device="cuda")
    assert found.success.all()
    for q, target in zip(found.q, T, strict=True):
        at = pose_at(robot, q)
        off = box_distance(at[:3, 3] - target[:3, 3], -BOX, BOX)
        assert np.linalg.norm(off) <= 1e-6 + 1e-12
        assert angle_between(at[:3, 2], target[:3, 2]) <= CONE + 1e-6 + 1e-9
    assert ((robot.lower <= found.q) & (found.q <= robot.upper)).all()


def test_a_robot_with_a_screw_joint_is_solved_on_a_gpu() -> None:
    robot = screw()
    p = robot.fk(robot.random(COUNT, seed=3))[:, :3, 3]
    found = solve(robot, p, tasks=PositionTask(), device="cuda")
    assert found.success.all()
    assert np.linalg.norm(robot.fk(found.q)[:, :3, 3] - p, axis=1).max() <= 1e-6
    assert ((robot.lower <= found.q) & (found.q <= robot.upper)).all()


def test_unreachable_and_nonfinite_targets_have_the_same_status_as_on_the_cpu() -> None:
    _, p = targets(2)
    p[3] = 3 * p[3] / np.linalg.norm(p[3])
    p[5] = np.nan
    p[7] = 5.0, 0.0, 0.0
    found = solve(ARM, p, tasks=HAND, device="cuda")
    same = solve(ARM, p, tasks=HAND)
    assert (found.status == same.status).all()
    assert found.status[[3, 5, 7]].tolist() == [
        SolveStatus.UNREACHABLE,
        SolveStatus.NONFINITE_INPUT,
        SolveStatus.UNREACHABLE,
    ]
    np.testing.assert_allclose(found.position_error, same.position_error, rtol=1e-6, atol=1e-6)
    assert abs(found.position_error[7] - 2.7) < 1e-6  # with the arm stretched out


def test_the_search_for_a_target_proven_unreachable_ends_before_all_starts() -> None:
    T = PANDA.fk(PANDA.random(30, seed=5))
    T[:, 2, 3] += 2.0
    found = solve(PANDA, T, device="cuda")
    assert (found.status == SolveStatus.UNREACHABLE).all()
    assert found.restarts.max() < 160  # without the proof, half of the targets take all 256
    closest = solve(PANDA, T)
    for kind in ("position_error", "rotation_error"):
        np.testing.assert_allclose(getattr(found, kind), getattr(closest, kind), atol=1e-3)


@pytest.mark.parametrize("near", [True, False])
def test_an_emulated_gpu_returns_the_solution_nearest_to_q0(near: bool) -> None:
    q, p = targets(3)
    q0 = np.clip(q + 0.05, ARM.lower, ARM.upper) if near else ARM.random(COUNT, seed=4)
    found, same = (solve(ARM, p, tasks=HAND, q0=q0, device=d) for d in ("cuda", "cpu"))
    assert found.success.all()
    hold(p, found)
    moved, there = (np.abs(x.q - q0).max(axis=1) for x in (found, same))
    first = np.abs(solve(ARM, p, tasks=HAND).q - q0).max(axis=1)
    assert moved.mean() <= 1.1 * there.mean() < first.mean()
    if near:  # a solution found from q0 ends the search
        assert (found.restarts == 0).mean() >= 0.9


def test_an_emulated_gpu_meets_targets_with_joints_near_a_posture() -> None:
    _, p = targets(5)
    rest = np.full(3, 0.4)
    found, same = (solve(ARM, [p, rest], tasks=NEAR, device=d) for d in ("cuda", "cpu"))
    assert found.success.all()
    hold(p, found)
    far, there = (np.linalg.norm(x.q - rest, axis=1) for x in (found, same))
    np.testing.assert_allclose(np.sort(far)[: COUNT // 2], np.sort(there)[: COUNT // 2], atol=1e-3)


def test_several_solutions_are_distinct_and_ordered_by_cost() -> None:
    _, p = targets(6)

    def cost(q: Any) -> float:
        return float(abs(q[0]))

    found = solve(ARM, p[0], tasks=HAND, solutions=20, prefer=cost, device="cuda")
    costs = [cost(q) for q in found.q]
    assert len(costs) == 20  # the redundant arm has at least 20 solutions
    assert costs == sorted(costs)
    assert found.success.all()
    # Without redundancy there are two solutions, one for each bend of the elbow.
    T = ARM.fk(np.array([0.3, 0.7, -0.4]))
    both = solve(ARM, T, tasks=POSE, solutions=20, max_seeds=128, device="cuda")
    assert both.success.all()
    np.testing.assert_allclose(np.sort(both.q[:, 1]), [-0.7, 0.7], atol=1e-5)


def test_solutions_that_differ_by_full_turns_are_returned_once() -> None:
    """This holds for full turns of a revolute joint, and for rotation vectors of a ball joint with
    the same orientation.

    A displacement of a prismatic joint by 2π m is not a full turn: it gives another solution.
    """
    kinds = [("turn", "revolute", 9.0), ("slide", "prismatic", 9.0), ("ball", "ball", np.inf)]
    joints = tuple(
        Joint(name, kind, f"l{i}", f"l{i + 1}", lower=-end, upper=end)
        for i, (name, kind, end) in enumerate(kinds)
    )
    robot = supple.Robot(Description("r", joints))
    problem = compile_problem(robot, PositionTask())
    axis = np.array([0.6, 0.0, 0.8])
    base = np.concatenate([[0.1, 0.2], np.pi * axis])
    q = np.tile(base, (6, 1))
    q[1, 0] += 2 * np.pi
    q[2, 1] += 2 * np.pi
    q[3, 2:] = -(np.pi - 1e-9) * axis
    q[4, 2:] = -(np.pi - 0.1) * axis
    q[5, 2:] = -(np.pi + 1e-9) * axis
    arrays = {
        "q": q.copy(),
        "outcome": np.zeros(6, np.int8),
        "error": np.zeros((6, 2)),
        "effort": np.arange(12, dtype=np.int32),
        "solutions": np.array([6], np.int32),
    }
    pointers = {name: x.ctypes.data for name, x in arrays.items()}
    request = Request(**pointers, count=1, max_solutions=6)
    solver = solvers.gpu_solver(problem, "cuda", "mixed", True)
    Queue(position.open_device(0), 0).launch(solver.kernels["drop"], 1, 128, request)
    assert arrays["solutions"].tolist() == [3]
    np.testing.assert_array_equal(arrays["q"][:3], q[[0, 2, 4]])
    assert arrays["effort"][:6].tolist() == [0, 1, 4, 5, 8, 9]


def test_an_emulated_gpu_reads_strided_and_float32_arrays() -> None:
    _, p = targets(7)
    same = solve(ARM, p, tasks=HAND, device="cuda")

    def solved(array: Array) -> Array:
        found: Any = solve(ARM, emulator.There(array), tasks=HAND)
        q = np.empty(found.q.shape)
        found.q.memory.device.download(q, found.q.pointer, 0)
        copied = found.numpy()
        assert type(found) is type(copied) is Solutions
        assert type(found.q) is GpuArray
        assert type(copied.q) is np.ndarray
        assert (copied.q == q).all()
        assert copied.success.all()
        assert found.shape == copied.shape == array.shape[:-1]
        return q

    for array in (p, np.asfortranarray(p), np.repeat(p, 2, axis=0)[::2], p.reshape(4, 10, 3)):
        assert (solved(array).reshape(-1, 3) == same.q).all()
    at = ARM.fk(solved(p.astype(np.float32)))[:, :3, 3]
    assert np.abs(at - p.astype(np.float32)).max() <= 1e-6


def test_the_length_of_a_direction_in_gpu_memory_does_not_matter() -> None:
    """The solutions are those of unit vectors in host memory."""
    q, p = targets(8)
    x = ARM.fk(q)[:, :3, 0]
    same = solve(ARM, [p, x], tasks=LINE, device="cuda").q
    for length in (2.0**-40, 1.0, 8.0):
        there = [emulator.There(given) for given in (p, length * x)]
        found: Any = solve(ARM, there, tasks=LINE)
        q = np.empty(found.q.shape)
        found.q.memory.device.download(q, found.q.pointer, 0)
        np.testing.assert_allclose(q, same, rtol=0, atol=1e-6)


def test_a_solution_is_not_wrapped_if_rounding_would_spoil_it() -> None:
    """Solutions converge near q0 = 1e8 rad, where rounding a 2π wrap would exceed the tolerance."""
    tolerance = 1e-9
    p = PLANAR.fk(PLANAR.random(COUNT, seed=9))[:, :3, 3]
    near = {"tasks": HAND, "device": "cuda", "position_tolerance": tolerance}
    for turns in (0.0, 1e8):
        found = solve(PLANAR, p, q0=np.array([turns, -turns]), **near)
        assert found.success.all()
        off = (PLANAR.fk(found.q)[:, :3, 3] - p)[:, :2]
        assert np.linalg.norm(off, axis=1).max() <= tolerance * (1 + 1e-6)


# ---- tasks that share no joint -------------------------------------------------------------------


@pytest.mark.parametrize("arm", [0, 1])
def test_the_solutions_of_two_arms_are_merged_if_one_cannot_reach_its_target(arm: int) -> None:
    """The other arm reaches its target, and the head, which no task moves, stays where it is."""
    q = BOTH.random(COUNT, seed=7)
    p = [BOTH.fk(q, tip)[:, :3, 3] for tip in BOTH.tips]
    p[arm][3] += 100.0
    q0 = BOTH.random(seed=8)
    for start in ({}, {"q0": q0, "prefer": "fast"}):
        found = solve(BOTH, p, tasks=HANDS, device="cuda", **start)
        missed = np.arange(COUNT) == 3
        assert (
            found.status == np.where(missed, SolveStatus.UNREACHABLE, SolveStatus.CONVERGED)
        ).all()
        assert ((BOTH.lower <= found.q) & (found.q <= BOTH.upper)).all()
        far = [
            np.linalg.norm((BOTH.fk(found.q, tip)[:, :3, 3] - one)[:, :2], axis=1)
            for tip, one in zip(BOTH.tips, p, strict=True)
        ]
        np.testing.assert_allclose(found.position_error, np.max(far, axis=0), rtol=1e-6, atol=1e-12)
        assert far[1 - arm].max() <= 1e-6
        head = BOTH.joint_names.index(HEAD)
        rests = np.clip(q0[head] if start else 0.0, BOTH.lower[head], BOTH.upper[head])
        assert (found.q[:, head] == rests).all()


def test_joints_that_move_no_task_stay_at_q0_or_at_zero_if_q0_is_not_finite() -> None:
    """A q0 outside the limits is clipped to them."""
    gpu = position.open_device(0)
    q0 = np.array([[0.3, 9.0, -2.0], [np.nan, -np.inf, 0.1]])
    limits = np.array([[-np.inf, -1.0, -np.inf], [np.inf, 1.0, np.inf]])
    q, error = np.full((2, 3), 7.0), np.full((2, 2), 7.0)
    effort, outcome = np.full((2, 2), 7, np.intc), np.full(2, 7, np.int8)
    arrays = {"q": q, "error": error, "effort": effort, "outcome": outcome}
    whole = SolutionPointers.among({k: x.ctypes.data for k, x in arrays.items()})
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (q0, limits)]
    given = (pointers[0], ctypes.c_int(3), pointers[1], ctypes.c_int(3))
    begin = subproblems._kernels(gpu, "emulated")["begin"]
    gpu.launch(begin, 1, 32, 0, *given, whole, ctypes.c_int(2))
    np.testing.assert_array_equal(q, [[0.3, 1.0, -2.0], [0.0, 0.0, 0.1]])
    assert outcome.tolist() == [SolveStatus.CONVERGED, SolveStatus.NONFINITE_INPUT]
    np.testing.assert_array_equal(error, [[0.0, 0.0], [np.inf, np.inf]])
    assert not effort.any()


def test_a_nonfinite_target_of_one_arm_gives_the_status_nonfinite_input() -> None:
    p = [BOTH.fk(BOTH.random(COUNT, seed=7), tip)[:, :3, 3] for tip in BOTH.tips]
    p[1][5] = np.nan
    found, same = (solve(BOTH, p, tasks=HANDS, device=device) for device in ("cuda", "cpu"))
    for one in (found, same):
        assert one.status[5] == SolveStatus.NONFINITE_INPUT
        assert one.success.sum() == COUNT - 1
        assert (one.q[5] == BOTH.neutral()).all()
        assert np.isinf([one.position_error[5], one.rotation_error[5]]).all()
        assert one.iterations[5] == one.restarts[5] == 0


# ---- rotations that are not quite orthonormal ----------------------------------------------------


def off_by(T: Array, residual: float) -> Array:
    """Return sheared poses in which the largest entry of |RᵀR - I| is the residual."""
    sheared = T.copy()
    sheared[..., :3, 1] += residual * T[..., :3, 0]
    return sheared


def on_device(given: Array, tasks: Any) -> Solutions:
    found: Any = solve(ARM, emulator.There(given), tasks=tasks)
    return found.numpy()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rotations_are_corrected_as_on_the_cpu(dtype: Any) -> None:
    """A matrix that is not quite orthonormal is replaced by the nearest rotation."""
    T = ARM.fk(ARM.random(COUNT, seed=9))
    rough = off_by(T, 5e-4).astype(dtype)
    U, _, Vt = np.linalg.svd(rough[:, :3, :3].astype(np.float64))
    nearest = np.tile(np.eye(4), (COUNT, 1, 1))
    nearest[:, :3, :3] = U @ Vt
    for found in (on_device(rough, TURN), solve(ARM, rough, tasks=TURN, device="cuda")):
        assert found.success.all()
        error = ARM.fk(found.q)[:, :3, :3] @ nearest[:, :3, :3].swapaxes(1, 2)
        assert np.abs(error - np.eye(3)).max() <= 2e-6  # the tolerance of a rotation
    exact = solve(ARM, nearest, tasks=TURN)
    np.testing.assert_allclose(solve(ARM, rough, tasks=TURN).q, exact.q, rtol=0, atol=1e-9)


def test_an_invalid_rotation_in_a_host_array_is_refused_as_on_the_cpu() -> None:
    """If the array is in GPU memory, its status is NONFINITE_INPUT instead of an error."""
    T = ARM.fk(ARM.random(COUNT, seed=9))
    wrong, mirrored = T.copy(), T.copy()
    wrong[3] = off_by(T[3], 5e-3)
    mirrored[3, :3, 0] *= -1
    for given in (wrong, mirrored):
        said = set()
        for device in ("cuda", "cpu"):
            with pytest.raises(InputError) as error:
                solve(ARM, given, tasks=TURN, device=device)
            said.add(str(error.value))
        assert len(said) == 1
        found = on_device(given, TURN)
        assert found.status[3] == SolveStatus.NONFINITE_INPUT
        assert found.success.sum() == COUNT - 1


@pytest.mark.parametrize(("residual", "taken"), [(0.999e-3, True), (1.001e-3, False)])
def test_cpu_and_gpu_accept_rotations_with_the_same_tolerance(residual: float, taken: bool) -> None:
    T = off_by(ARM.fk(ARM.random(COUNT, seed=9)), residual)
    assert (on_device(T, TURN).success == taken).all()
    assert (_core.pose_numbers(T, 1) is not None) == taken
    if taken:
        poses.orthonormalize(T)
    else:
        with pytest.raises(InputError):
            poses.orthonormalize(T)
