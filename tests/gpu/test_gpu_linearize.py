"""Linearizations and steps of arrays in GPU memory agree with those of the CPU.

Tested on an emulated and on a real GPU:  pytest tests/gpu/test_gpu_linearize.py -m cuda
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import emulator
import supple
from emulator import there
from floating import floating_arm
from gpu_kernels import tree
from several_arms import arms
from supple import DLS, AxisTask, OrientationTask, PoseTask, PositionTask, damping, steps
from supple.errors import InputError
from supple.gpu import arrays
from supple.motion.linearization import Linearization

Array = np.ndarray
PANDA = supple.load("panda")
TREE = tree()
CASES: dict[str, tuple[supple.Robot, Any]] = {
    "a frame": (PANDA, PANDA.tips[0]),
    "some rows": (PANDA, PoseTask(rows=("x", "z", "ry"), axes="body")),
    "a cone": (PANDA, PoseTask(about="z", cone=0.3, tolerance={"x": 0.05, "y": (-0.1, 0.1)})),
    "several tasks": (
        TREE,
        (PositionTask(TREE.tips[0]), AxisTask(TREE.tips[1]), OrientationTask(TREE.tips[0])),
    ),
    "a floating base": (floating_arm(), PoseTask()),
}


def given(robot: supple.Robot, tasks: Any) -> tuple[Array, list[Array], list[Array]]:
    """Return configurations (3, 4, nq), and a target and a velocity of each task
    for each of them.
    """
    each = tasks if isinstance(tasks, tuple) else (tasks,)
    rng = np.random.default_rng(0)
    q, near = robot.random((3, 4), seed=1), robot.random((3, 4), seed=2)
    targets, velocities = [], []
    for one in each:
        task = PoseTask(one) if isinstance(one, str) else one
        T = robot.fk(near, task.frame or robot.tips[0])
        inner = task.target_shapes[0]
        shapes = {(4, 4): T, (3,): T[..., :3, 3], (3, 3): T[..., :3, :3]}
        targets.append(T[..., :3, 2] if isinstance(task, AxisTask) else shapes[inner])
        velocities.append(rng.normal(size=(3, 4, *task.velocity_shape)))
    return q, targets, velocities


STEPS = (
    DLS(damping.Constant(0.05)),
    DLS(damping.Optimal(0.7)),
    DLS(damping.SpeedBound(0.5), method="svd"),
    supple.steps.Transpose(),
    supple.steps.Pseudoinverse(),
    supple.steps.TruncatedSVD(0.05),
    steps.SDLS(),
    steps.AngleClamp(DLS(damping.Constant(0.05)), 0.1),
    steps.ErrorClamp(DLS(damping.Constant(0.05)), 0.05),
)


def load() -> None:
    for robot, tasks in CASES.values():
        for dtype in (np.float64, np.float32):
            supple.linearize(robot, tasks, there(robot.random(1, seed=0).astype(dtype)))
    found = supple.linearize(PANDA, PANDA.tips[0], there(PANDA.random(1, seed=0)))
    for step in STEPS:
        step(found)
    supple.linearize(PANDA, PositionTask(), there(PANDA.random(1, seed=0)))


device = emulator.emulated_and_real(load)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", CASES)
def test_linearizations_in_gpu_memory_are_those_of_the_cpu(name: str, dtype: Any) -> None:
    robot, tasks = CASES[name]
    q, targets, velocities = given(robot, tasks)
    q = q.astype(dtype)
    many = isinstance(tasks, tuple)
    close = {"rtol": 0, "atol": 1e-11 if dtype == np.float64 else 2e-5}
    for aimed in (True, False):
        for moving in (True, False):
            more: dict[str, Any] = {}
            if aimed:
                more["target"] = targets if many else targets[0]
            if moving:
                more["velocity"] = velocities if many else velocities[0]
            device: dict[str, Any] = {
                key: [there(one) for one in x] if many else there(x) for key, x in more.items()
            }
            found = supple.linearize(robot, tasks, there(q), **device)
            same = supple.linearize(robot, tasks, q, **more)
            assert isinstance(found, Linearization)
            assert found.batch_shape == (3, 4)
            assert found.rows == same.rows
            copy = found.numpy()  # type: ignore[attr-defined]
            assert copy.J.dtype == dtype
            np.testing.assert_allclose(copy.J, same.J, **close)
            np.testing.assert_allclose(copy.e, same.e, **close)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: type(step).__name__)
def test_steps_in_gpu_memory_are_those_of_the_cpu(step: Any) -> None:
    q, targets, _ = given(PANDA, PANDA.tips[0])
    targets[0][0, 0] = PANDA.fk(q[0, 0])  # e is zero
    found = supple.linearize(PANDA, PANDA.tips[0], there(q), there(targets[0]))
    same = supple.linearize(PANDA, PANDA.tips[0], q, targets[0])
    dq = step(found)
    assert dq.shape == (3, 4, 7)
    np.testing.assert_allclose(dq.numpy(), step(same), rtol=1e-7, atol=1e-9)


def test_single_configurations_and_broadcast_targets_in_gpu_memory_are_linearized() -> None:
    q, T = PANDA.random(5, seed=3), PANDA.fk(PANDA.random(seed=4))
    step = DLS(damping.Constant(0.05))
    one: Any = supple.linearize(PANDA, PANDA.tips[0], there(q[0]), there(T))
    assert (one.J.shape, one.e.shape, one.batch_shape) == ((6, 7), (6,), ())
    np.testing.assert_allclose(
        step(one).numpy(), step(supple.linearize(PANDA, PANDA.tips[0], q[0], T)), atol=1e-9
    )
    many: Any = supple.linearize(PANDA, PANDA.tips[0], there(q), there(T))
    same = supple.linearize(PANDA, PANDA.tips[0], q, T)
    np.testing.assert_allclose(many.numpy().e, same.e, rtol=0, atol=1e-11)
    empty: Any = supple.linearize(PANDA, PANDA.tips[0], there(q[:0]), there(T))
    assert step(empty).shape == (0, 7)


def test_nonfinite_rows_give_linearizations_of_zeros() -> None:
    q, T = PANDA.random(5, seed=5), PANDA.fk(PANDA.random(5, seed=6))
    q[1, 2], T[3, 0, 3] = np.nan, np.inf
    found: Any = supple.linearize(PANDA, PANDA.tips[0], there(q), there(T))
    for array in (found.J.numpy(), found.e.numpy(), STEPS[0](found).numpy()):
        assert not array[[1, 3]].any()
        assert array[[0, 2, 4]].any()


def test_arguments_and_uses_that_need_host_memory_raise_an_error() -> None:
    both = arms("planar3", "planar3")
    q, T = PANDA.random(5, seed=7), PANDA.fk(PANDA.random(5, seed=8))
    found: Any = supple.linearize(PANDA, PANDA.tips[0], there(q), there(T))
    for use in (
        lambda: found.sigma,
        lambda: found[0],
        lambda: found.rank,
        lambda: found.velocity,
        lambda: DLS(lambda each: 0.1 * each.sigma_min)(found),
        lambda: (
            steps.Estimated(DLS(damping.Constant(0.1)))(found)
            if hasattr(steps, "Estimated")
            else found.sigma
        ),
    ):
        with pytest.raises(InputError, match=r"memory|kernel"):
            use()
    assert "GPU memory: a batch (5,), 6 rows, 7 joints" in repr(found)
    for message, call in {
        "qd is for": lambda: supple.linearize(PANDA, PANDA.tips[0], there(q), qd=there(q)),
        "threads is for": lambda: supple.linearize(PANDA, PANDA.tips[0], there(q), threads=2),
        "batch axes of q": lambda: supple.linearize(PANDA, PANDA.tips[0], there(q), there(T[:3])),
        "must have the shape": lambda: supple.linearize(
            PANDA, PANDA.tips[0], there(q), there(T[:, :3])
        ),
        "one target for each": lambda: supple.linearize(
            both, both.tips, there(both.random(2)), [there(T)]
        ),
        "tasks of frames": lambda: supple.linearize(PANDA, supple.PostureTask(), there(q)),
        "q must be at most": lambda: supple.linearize(PANDA, PANDA.tips[0], there(q[:, :6])),
        "q must be in GPU memory": lambda: supple.linearize(PANDA, PANDA.tips[0], q, there(T)),
    }.items():
        with pytest.raises(InputError, match=message):
            call()


def test_repeated_calls_linearize_at_the_arrays_of_each_call(
    monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    """For arrays whose addresses can be read quickly, such as those of PyTorch, later calls reuse
    the kernel call that an earlier call has recorded.
    """
    if device == "real":
        pytest.skip("the arrays are in host memory")
    robot = supple.Robot(PANDA.description)

    def read(given: Any) -> Any:
        own = given.array
        return (own.dtype.char, own.shape, own.strides), own.ctypes.data, 0

    monkeypatch.setattr(arrays, "_reader", lambda kind: read if kind is emulator.There else None)
    for k, count in enumerate((5, 5, 3, 5)):
        q, T = robot.random(count, seed=k), robot.fk(robot.random(count, seed=10 + k))
        for tasks in (robot.tips[0], PositionTask()):
            target = T if isinstance(tasks, str) else T[:, :3, 3]
            found: Any = supple.linearize(robot, tasks, there(q), there(target))
            same = supple.linearize(robot, tasks, q, target)
            np.testing.assert_allclose(found.numpy().J, same.J, rtol=0, atol=1e-11)
            np.testing.assert_allclose(found.numpy().e, same.e, rtol=0, atol=1e-11)
            twist = np.ones((count, len(same.rows)))
            found = supple.linearize(robot, tasks, there(q), velocity=there(twist))
            same = supple.linearize(robot, tasks, q, velocity=twist)
            np.testing.assert_allclose(found.numpy().e, same.e, rtol=0, atol=1e-11)
    assert len(vars(robot)["_gpu_linearizations"]) == 8
