"""Poses and Jacobians of arrays in the memory of an emulated GPU agree with those of the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import emulator
import supple
from floating import floating_arm, rescaled
from gpu_kernels import tree
from supple.errors import InputError

Array = np.ndarray
AXES = ("world", "body", "spatial", tree().frames[3])


def panda() -> supple.Robot:
    """Return a new robot, so that no code is cached for the GPUs of other tests."""
    return supple.Robot(supple.load("panda").description)


def there(array: Array) -> Any:
    return emulator.There(array)


def load() -> None:
    for robot in (panda(), floating_arm()):
        robot.fk(there(robot.neutral()))
    panda().fk(there(np.zeros(7)), panda().frames[0])
    robot = supple.Robot(tree().description)
    for dtype in (np.float64, np.float32):
        q = there(robot.neutral().astype(dtype))
        robot.fk(q, robot.tips[0])
        for axes in AXES:
            robot.jacobian(q, axes=axes)


@pytest.fixture(scope="module", autouse=True)
def emulated() -> Iterator[emulator.Device]:
    with pytest.MonkeyPatch.context() as patch:
        yield emulator.install(patch, load)


def numbers(found: Any) -> Array:
    """Return a result that is in GPU memory as a NumPy array."""
    result: Array = found.numpy()
    return result


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_kinematics_in_gpu_memory_are_those_of_the_cpu(dtype: Any) -> None:
    robot = supple.Robot(tree().description)
    q = robot.random((3, 7), seed=1).astype(dtype)
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    close = {"rtol": 0, "atol": tolerance}
    for frame in (None, robot.tips[0]):
        T = numbers(robot.fk(there(q), frame))
        assert T.dtype == dtype
        np.testing.assert_allclose(T, robot.fk(q, frame), **close)
    for axes in AXES:
        J = numbers(robot.jacobian(there(q), axes=axes))
        np.testing.assert_allclose(J, robot.jacobian(q, axes=axes), **close)
    T, J = (numbers(one) for one in robot.fk_jacobian(there(q[0, 0])))
    assert T.shape == (2, 4, 4)
    np.testing.assert_allclose(J, robot.jacobian(q[0, 0]), **close)


def test_quaternions_in_gpu_memory_may_have_any_length() -> None:
    robot = floating_arm()
    q = rescaled(robot, robot.random(40, seed=2))
    T, J = (numbers(one) for one in robot.fk_jacobian(there(q)))
    np.testing.assert_allclose(T, robot.fk(q), rtol=0, atol=1e-12)
    np.testing.assert_allclose(J, robot.jacobian(q), rtol=0, atol=1e-12)


def test_a_frame_that_no_joint_moves_has_its_constant_pose_for_q_in_gpu_memory() -> None:
    robot = panda()
    T, J = robot.fk_jacobian(there(np.zeros((2, 7))), robot.frames[0])
    np.testing.assert_array_equal(numbers(T), robot.fk(np.zeros((2, 7)), robot.frames[0]))
    assert not numbers(J).any()


def test_nonfinite_rows_of_q_in_gpu_memory_give_zeros() -> None:
    robot = floating_arm()
    q = robot.random(9, seed=3)
    expected = robot.fk(q)
    q[1, 0], q[2, -1], q[3, 3:7], q[4, 0] = np.nan, np.inf, 0.0, 1e200
    T, J = (numbers(one) for one in robot.fk_jacobian(there(q)))
    assert not T[1:5].any()
    assert not J[1:5].any()
    np.testing.assert_allclose(T[5:], expected[5:], rtol=0, atol=1e-12)


def test_results_are_written_into_out_and_those_of_empty_batches_are_empty() -> None:
    robot = panda()
    q = robot.random(5, seed=4)
    T, J = there(np.empty((5, 4, 4))), there(np.empty((5, 6, 7)))
    found = robot.fk_jacobian(there(q), out=(T, J))
    assert found == (T, J)
    np.testing.assert_allclose(T.array, robot.fk(q), rtol=0, atol=1e-12)
    assert robot.fk(there(q), out=T) is T
    assert robot.jacobian(there(q), out=J) is J
    assert numbers(robot.fk(there(np.empty((0, 3, 7))))).shape == (0, 3, 4, 4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r, q: r.fk(there(q[:, :6])), r"shape \(7,\) or \(..., 7\)"),
        (lambda r, q: r.fk(there(q), threads=2), "threads is for arrays in host memory"),
        (lambda r, q: r.fk(there(q), out=there(np.empty((2, 4, 4)))), "out must be"),
        (lambda r, q: r.jacobian(there(q), out=there(q)), "out must be"),
    ],
)
def test_malformed_arguments_in_gpu_memory_raise_an_error(call: Any, message: str) -> None:
    robot = panda()
    with pytest.raises(InputError, match=message):
        call(robot, robot.random(3, seed=0))
