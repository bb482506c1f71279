"""Batches of tasks in the kernel agree with their Python twins on every instruction set."""

from __future__ import annotations

import numpy as np
import pytest

import supple
from floating import floating_arm
from sizes import nightly
from some_tasks import Some, some_tasks
from supple import PoseTask, PositionTask, PostureTask
from supple.errors import InputError
from supple.motion.linearization import stacked
from supple.tasks.layout import compile_tasks

Array = np.ndarray
ROBOTS = ("panda", "puma560", "planar3")


@pytest.fixture(scope="module", params=ROBOTS)
def robot(request: pytest.FixtureRequest) -> supple.Robot:
    return supple.load(request.param)


def samples(robot: supple.Robot, count: int) -> list[Some]:
    rng = np.random.default_rng(7)
    return [some for _ in range(count) for some in some_tasks(robot, rng)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.usefixtures("isa")
def test_linearizations_of_the_kernel_agree_with_python(robot: supple.Robot, dtype: type) -> None:
    few = 200 * np.finfo(dtype).eps
    q = robot.random(5, seed=4).astype(dtype)
    for some in samples(robot, nightly(6, 2)):
        lin = supple.linearize(robot, some.task, q, some.target)
        J, e = lin.J, lin.e
        layout = compile_tasks(robot, (some.task,))
        velocities = np.broadcast_to(
            layout.velocities([some.velocity]), (5, layout.kernel.velocities)
        )
        command, bad = layout.kernel.command(q, np.ascontiguousarray(velocities, dtype), 1)
        assert J.dtype == e.dtype == command.dtype == dtype
        assert bad == -1
        for i in range(len(q)):
            twin = some.task.linearize(robot, q[i], some.target)
            assert abs(J[i] - twin.J).max() <= few
            assert (
                abs(command[i] - some.task.linearize(robot, q[i], velocity=some.velocity).e).max()
                <= few
            )
            # Near rotations by 180°, rotation vectors of both signs are correct.
            if np.linalg.norm(twin.e) < 3:
                assert abs(e[i] - twin.e).max() <= few


@pytest.mark.usefixtures("isa")
def test_a_batch_of_several_tasks_has_the_stacked_rows_of_all_tasks(robot: supple.Robot) -> None:
    some = samples(robot, 1)
    tasks, targets = [s.task for s in some], [s.target for s in some]
    q = robot.random(seed=2)
    lin = supple.linearize(robot, tasks, q, targets)
    J, e = lin.J, lin.e
    whole = stacked([s.task.linearize(robot, q, s.target) for s in some])
    assert compile_tasks(robot, tuple(tasks)).rows == whole.rows
    assert abs(J - whole.J).max() <= 1e-14
    assert abs(e - whole.e).max() <= 1e-13


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.usefixtures("isa")
def test_a_batch_of_linearizations_has_the_bits_of_single_linearizations(
    robot: supple.Robot, dtype: type
) -> None:
    some = samples(robot, 1)
    tasks, targets = [s.task for s in some], [s.target for s in some]
    q = robot.random(1200, seed=9).astype(dtype)
    many = supple.linearize(robot, tasks, q, targets, threads=2)
    once = supple.linearize(robot, tasks, q, targets, threads=1)
    rows = [supple.linearize(robot, tasks, q[i], targets) for i in (0, 1, 17, 600, 1199)]
    assert many.J.dtype == many.e.dtype == dtype
    for k in ("J", "e"):
        all_rows, again = getattr(many, k), getattr(once, k)
        assert np.array_equal(all_rows, again)
        each = np.array([getattr(row, k) for row in rows])
        assert np.array_equal(all_rows[[0, 1, 17, 600, 1199]], each)


def test_targets_have_the_axes_of_the_batch_or_broadcast_to_them() -> None:
    robot = supple.load("panda")
    q = robot.random((4, 5), seed=3)
    T = robot.fk(robot.random((4, 5), seed=5))
    lin = supple.linearize(robot, robot.tips[0], q, T)
    J, e = lin.J, lin.e
    assert J.shape == (4, 5, 6, 7)
    assert e.shape == (4, 5, 6)
    assert np.array_equal(e[2, 3], supple.linearize(robot, PoseTask(), q[2, 3], T[2, 3]).e)
    one = supple.linearize(robot, PoseTask(), q, T[0, 0]).e
    assert np.array_equal(one[2, 3], supple.linearize(robot, PoseTask(), q[2, 3], T[0, 0]).e)
    both = supple.linearize(robot, [PoseTask(), PostureTask()], q, [T[0], np.zeros(7)]).e
    assert both.shape == (4, 5, 13)
    assert np.array_equal(both[2, 3, 7:], -q[2, 3, 1:])
    assert supple.linearize(robot, PositionTask(), np.zeros((0, 7)), (1, 2, 3)).J.shape == (
        0,
        3,
        7,
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_linearize_adds_velocities_of_targets_to_the_errors(dtype: type) -> None:
    """The result equals that of `Task.linearize`, with a target, a velocity, both or neither."""
    robot = supple.load("panda")
    q, T = robot.random(5, seed=3).astype(dtype), robot.fk(robot.random(5, seed=4))
    twist = np.random.default_rng(5).normal(size=(5, 6))
    room = 1e-12 if dtype is np.float64 else 2e-5
    for task in (PoseTask(axes="body", weight=2.0), PoseTask("panda_link5", rows=["x", "rz"])):
        for target, velocity in ((T, None), (None, twist), (T, twist), (None, None)):
            lin = supple.linearize(robot, task, q, target, velocity=velocity)
            assert lin.J.dtype == lin.e.dtype == dtype
            for i in range(5):
                one = task.linearize(
                    robot,
                    q[i],
                    None if target is None else target[i],
                    velocity=None if velocity is None else velocity[i],
                )
                np.testing.assert_allclose(lin.e[i], one.e, rtol=0, atol=room)
                np.testing.assert_allclose(lin.J[i], one.J, rtol=0, atol=room)
    both = [PoseTask(), PostureTask()]
    mixed = supple.linearize(robot, both, q, [T, None], velocity=[None, np.ones(7)])
    np.testing.assert_allclose(mixed.e[:, :6], supple.linearize(robot, both[0], q, T).e, atol=room)
    np.testing.assert_array_equal(mixed.e[:, 6:], np.ones((5, 7)))
    with pytest.raises(InputError, match="2 tasks, PoseTask, PostureTask"):
        supple.linearize(robot, both, q, velocity=twist)


def test_with_qd_linearize_returns_the_velocity_and_the_bias_of_the_rows() -> None:
    """J q̇ and the bias J̇q̇ agree with differences along q̇, also in slices and stacks."""
    robot = supple.load("panda")
    tasks = [PoseTask(axes="body", weight=2.0), PositionTask("panda_link5")]
    rng = np.random.default_rng(6)
    q, qd, h = robot.random(4, seed=6), rng.normal(size=(4, 7)), 1e-5
    lin = supple.linearize(robot, tasks, q, qd=qd)
    assert not lin.e.any()
    np.testing.assert_allclose(lin.velocity, np.einsum("kij,kj->ki", lin.J, qd), atol=1e-12)
    ahead, behind = (supple.linearize(robot, tasks, q + s * qd, qd=qd).velocity for s in (h, -h))
    np.testing.assert_allclose(lin.bias_acceleration, (ahead - behind) / (2 * h), atol=1e-7)
    one = supple.linearize(robot, tasks, q[1], qd=qd[1])
    np.testing.assert_allclose(lin[1].bias_acceleration, one.bias_acceleration, atol=1e-14)
    np.testing.assert_allclose(lin[1:3].qd, qd[1:3])
    parts = [supple.linearize(robot, task, q[1], qd=qd[1]) for task in tasks]
    np.testing.assert_allclose(stacked(parts).bias_acceleration, one.bias_acceleration, atol=1e-14)
    with pytest.raises(InputError, match="velocity needs q̇"):
        _ = supple.linearize(robot, tasks, q).velocity
    with pytest.raises(InputError, match="qd must be finite"):
        supple.linearize(robot, tasks, q, qd=np.full(7, np.nan))


def test_errors_of_linearize_name_nonfinite_or_misshaped_input() -> None:
    robot = supple.load("panda")
    q = robot.random(40, seed=3)
    q[17, 2] = np.nan
    with pytest.raises(supple.errors.InputError, match=r"finite.*given: q\[17\] = "):
        supple.linearize(robot, PositionTask(), q, (1, 2, 3))
    with pytest.raises(supple.errors.InputError, match=r"finite.*given: q\[3\] = "):
        supple.linearize(
            robot, PositionTask(), np.zeros((7, 7), np.float32), np.eye(7, 3, -3) * 1e39
        )
    with pytest.raises(supple.errors.InputError, match=r"batch axes of q, \(40,\).*given: \(3,\)"):
        supple.linearize(robot, PositionTask(), robot.random(40, seed=3), np.ones((3, 3)))
    with pytest.raises(
        supple.errors.InputError, match=r"batch axes that broadcast; given: \(2,\), \(3,\)"
    ):
        supple.linearize(robot, [PositionTask()] * 2, q, [np.ones((2, 3)), np.ones((3, 3))])
    with pytest.raises(
        supple.errors.InputError,
        match=r"one target for each of 2 tasks, .*; given: \[\(1, 2, 3\)\]",
    ):
        supple.linearize(robot, [PositionTask(), PostureTask()], q, [(1, 2, 3)])
    with pytest.raises(supple.errors.InputError, match="target must be a sequence"):
        supple.linearize(robot, [PositionTask()], q, [1.0, 1.0, 1.0])
    np.testing.assert_array_equal(  # an array may be the target of the only task
        supple.linearize(robot, [PositionTask()], q[0], np.ones(3)).e,
        supple.linearize(robot, [PositionTask()], q[0], [np.ones(3)]).e,
    )


def test_velocities_and_rates_of_robots_with_quaternions_are_derivatives() -> None:
    robot, h, rng = floating_arm(), 1e-5, np.random.default_rng(6)
    q, qd = robot.random(4, seed=5), rng.normal(size=(4, robot.nv))
    task = PoseTask("link7", base="link1")
    lin = supple.linearize(robot, task, q, qd=qd)
    ahead, behind = (
        supple.linearize(robot, task, robot.integrate(q, sign * h * qd)) for sign in (1, -1)
    )
    rate = np.einsum("kij,kj->ki", (ahead.J - behind.J) / (2 * h), qd)
    np.testing.assert_allclose(lin.velocity, np.einsum("kij,kj->ki", lin.J, qd), atol=1e-12)
    np.testing.assert_allclose(lin.bias_acceleration, rate, atol=1e-6)
    one = supple.linearize(robot, task, q, qd=qd[0])
    np.testing.assert_array_equal(one.bias_acceleration[0], lin.bias_acceleration[0])  # type: ignore[index]
    with pytest.raises(InputError, match=r"qd must have the shape \(4, 16\)"):
        supple.linearize(robot, task, q, qd=qd[:3])
