"""If the GPU or the extra `cuda` is missing, the error says which of them."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import supple
from solving import solve
from supple.errors import InputError
from supple.gpu import devices, runtime


@pytest.fixture
def forgotten() -> None:
    for function in (runtime.packages, runtime.driver, runtime._devices):
        function.cache_clear()


@pytest.mark.usefixtures("forgotten")
def test_a_gpu_without_the_extra_cuda_gets_an_installation_hint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("cuda", "cuda.core", "cuda.bindings"):
        monkeypatch.setitem(sys.modules, name, None)
    robot = supple.load("panda")
    with pytest.raises(
        supple.errors.MissingExtraError, match=r'extra "cuda": pip install "cuda-core'
    ):
        solve(robot, np.eye(4), device="cuda")
    assert devices() == ()
    runtime.driver.cache_clear()


def test_device_cuda_without_a_gpu_is_refused() -> None:
    if devices():
        pytest.skip("there is a GPU here")
    pytest.importorskip("cuda.core")
    with pytest.raises(supple.errors.DeviceError, match="needs an NVIDIA GPU and its driver"):
        solve(supple.load("panda"), np.eye(4), device="cuda")


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "", 0])
def test_an_invalid_device_name_is_refused(name: object) -> None:
    with pytest.raises(InputError, match="device must be"):
        solve(supple.load("panda"), np.eye(4), device=name)


def test_a_stream_is_refused_if_all_arrays_are_in_host_memory() -> None:
    with pytest.raises(InputError, match="stream is for targets in GPU memory"):
        solve(supple.load("panda"), np.eye(4), stream=1)


def test_the_argument_precision_is_refused_on_the_cpu() -> None:
    robot = supple.load("panda")
    with pytest.raises(InputError, match="only for GPUs; on the CPU solutions are always refined"):
        solve(robot, np.eye(4), precision="double")
    for device in ("cpu", "cuda"):
        with pytest.raises(supple.errors.UnknownNameError, match="precision 'single'"):
            solve(robot, np.eye(4), precision="single", device=device)
