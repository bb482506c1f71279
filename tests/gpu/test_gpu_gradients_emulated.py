"""Gradients computed by CUDA kernels on an emulated GPU agree with those of the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import emulator
import supple
from floating import floating_arm, rescaled
from gpu_kernels import tree
from supple.ik.adjoints import DAMPING, DifferentiableFrames, DifferentiableSolver
from supple.ik.gpu.gradients import run

Array = np.ndarray


class Tensor:
    """A NumPy array with those members of a PyTorch tensor that `run` uses."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.shape, self.dtype, self.device = array.shape, array.dtype, SimpleNamespace(index=0)

    def detach(self) -> Tensor:
        return self

    def contiguous(self) -> Tensor:
        return Tensor(np.ascontiguousarray(self.array))

    def numel(self) -> int:
        return self.array.size

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def new_empty(self, shape: tuple[int, ...]) -> Tensor:
        return Tensor(np.full(shape, np.nan, self.dtype))


def on_gpu(frames: DifferentiableFrames, name: str, q: Array, *shapes: Any, **given: Any) -> Any:
    """Return the results of the CUDA kernel `name` as NumPy arrays."""
    tensors = {
        key: Tensor(one) if isinstance(one, np.ndarray) and key != "scale" else one
        for key, one in given.items()
    }
    found = run(frames, name, Tensor(q), shapes, 0, **tensors)
    return [None if one is None else one.array for one in found]


def close(found: Array, expected: Array, dtype: Any) -> None:
    assert found.dtype == expected.dtype == dtype
    room = 1e-12 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(found, expected, rtol=room, atol=room * np.abs(expected).max())


def panda() -> supple.Robot:
    """Return a new robot, so that no code is cached for the GPUs of other tests."""
    return supple.Robot(supple.load("panda").description)


ROBOTS: dict[str, Callable[[], supple.Robot]] = {
    "panda": panda,
    "tree": lambda: supple.Robot(tree().description),
    "floating": floating_arm,
}
CASES = [
    ("panda", np.float64),
    ("panda", np.float32),
    ("tree", np.float64),
    ("floating", np.float64),
]


def solver_of(robot: supple.Robot, positions: bool) -> DifferentiableSolver:
    task = supple.PositionTask if positions else supple.PoseTask
    return DifferentiableSolver.of(supple.Solver(robot, [task(tip) for tip in robot.tips]))


def load() -> None:
    for name, dtype in CASES:
        q = ROBOTS[name]().neutral().astype(dtype)
        on_gpu(DifferentiableFrames.of(ROBOTS[name](), None), "fk_backward", q, q.shape, bar=q)
        for positions in (False, True):
            known = solver_of(ROBOTS[name](), positions)
            given = {"positions": positions, "scale": known.joint_scale}
            on_gpu(known.frames, "solve_backward", q, q.shape, bar=q, **given)


@pytest.fixture(scope="module", autouse=True)
def emulated() -> Iterator[emulator.Device]:
    with pytest.MonkeyPatch.context() as patch:
        yield emulator.install(patch, load)


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_gradients_of_kinematics_and_steps_on_a_gpu_are_those_of_the_cpu(
    name: str, dtype: Any
) -> None:
    robot, rng = ROBOTS[name](), np.random.default_rng(0)
    frames = DifferentiableFrames.of(robot, None)
    q = rescaled(robot, robot.random((5, 7), seed=1)).astype(dtype)

    def drawn(*shape: int) -> Array:
        return rng.normal(size=(5, 7, *shape)).astype(dtype)

    T_bar, J_bar = drawn(*frames.axes, 4, 4), drawn(*frames.axes, 6, robot.nv)
    x, qd_bar = drawn(*frames.axes, 6), drawn(robot.nv)
    (found,) = on_gpu(frames, "fk_backward", q, q.shape, bar=T_bar)
    close(found, frames.fk_adjoint(q, T_bar), dtype)
    (found,) = on_gpu(frames, "jacobian_backward", q, q.shape, bar=J_bar)
    close(found, frames.jacobian_adjoint(q, J_bar), dtype)
    (found,) = on_gpu(frames, "step_forward", q, qd_bar.shape, twist=x, parameter=0.1)
    close(found, frames.step(q, x, 0.1), dtype)
    both = on_gpu(frames, "step_backward", q, q.shape, x.shape, twist=x, bar=qd_bar, parameter=0.1)
    for one, expected in zip(both, frames.step_adjoint(q, x, qd_bar, 0.1), strict=True):
        close(one, expected, dtype)


@pytest.mark.parametrize("positions", [False, True])
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_gradients_of_solutions_on_a_gpu_are_those_of_the_cpu(
    name: str, dtype: Any, positions: bool
) -> None:
    robot, rng = ROBOTS[name](), np.random.default_rng(2)
    known = solver_of(robot, positions)
    q = robot.random(50, seed=3).astype(dtype)
    if robot.nq == robot.nv:
        q[::5, 1] = robot.upper[1]  # a joint at its limit is held there
    success = rng.random(50) < 0.8
    q[~success] = robot.neutral()
    bar = rng.normal(size=q.shape).astype(dtype)
    shapes = (50, *known.target_shape), q.shape
    given = {"bar": bar, "success": success, "positions": positions, "parameter": DAMPING}
    given["scale"] = known.joint_scale
    found = on_gpu(known.frames, "solve_backward", q, *shapes, **given)
    expected = known.adjoint(q, success, bar, DAMPING)
    # Near a singularity, errors are multiplied by the condition number of J Jᵀ.
    smallest = robot.singular_values(q.astype(float))[:, -1]
    good = smallest > (0.05 if dtype == np.float64 else 0.2)
    for one, other in zip(found, expected, strict=True):
        assert np.isfinite(one).all()
        assert not one[~success].any()
        room = 1e-9 if dtype == np.float64 else 1e-4
        np.testing.assert_allclose(one[good], other[good], rtol=room, atol=room)
    (only,) = on_gpu(known.frames, "solve_backward", q, shapes[0], **given)
    np.testing.assert_array_equal(only, found[0])


def test_gradients_of_nonfinite_rows_are_zero_on_a_gpu() -> None:
    robot = panda()
    frames = DifferentiableFrames.of(robot, None)
    q = robot.random(6, seed=4)
    q[2, 3] = np.nan
    (found,) = on_gpu(frames, "fk_backward", q, q.shape, bar=np.ones((6, 4, 4)))
    assert not found[2].any()
    assert np.isfinite(found).all()
    (empty,) = on_gpu(frames, "fk_backward", q[:0], (0, 7), bar=np.ones((0, 4, 4)))
    assert empty.shape == (0, 7)
