"""The CUDA sources of kinematics and gradients compile for any robot; these tests need no GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple
from floating import floating_arm
from gpu_kernels import tree
from sizes import NIGHTLY
from supple.errors import MissingExtraError
from supple.gpu import runtime
from supple.ik.adjoints import DifferentiableFrames
from supple.ik.gpu import gradients
from supple.kinematics import gpu_frames

ROBOTS = {
    "planar2": lambda: supple.load("planar2"),
    "panda": lambda: supple.load("panda"),
    "tree": tree,
    "floating": floating_arm,
}


def fresh(name: str) -> supple.Robot:
    """Return a new robot, so that no code is cached for the GPUs of other tests."""
    return supple.Robot(ROBOTS[name]().description)


@pytest.fixture(autouse=True)
def without_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Info:
        architecture = "sm_90"

    monkeypatch.setenv("SUPPLE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(gpu_frames, "found_device", lambda name: (0, Info))
    monkeypatch.setattr(gpu_frames, "open_device", lambda number: None)


def compiled(text: str, whole: bool) -> bytes:
    """Compile a source to machine code if `whole`, else run only the front end of the compiler."""
    try:
        if whole:
            return runtime.compile_source(text, "sm_90", accurate_sines=True)
        options = (*runtime._OPTIONS, *runtime._RELOCATABLE, "-dlto", "-arch=sm_90")
        return runtime._compiled(text, options)
    except MissingExtraError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_cuda_kernels_of_kinematics_compile(name: str, dtype: Any) -> None:
    robot = fresh(name)
    for axes in ("world", robot.frames[-1]):
        frames = gpu_frames.GpuFrames(robot, None, axes, "cuda:0")
        whole = NIGHTLY or (name == "planar2" and axes == "world" and dtype == np.float64)
        code = compiled(frames.text(np.dtype(dtype)), whole)
        if whole:
            assert all(kernel.encode() in code for kernel in gpu_frames.KERNELS)


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("positions", [False, True])
def test_cuda_kernels_of_gradients_compile(name: str, positions: bool) -> None:
    frames = DifferentiableFrames(fresh(name))
    made = gradients.GpuGradients(frames, positions, (), "cuda:0")
    whole = NIGHTLY or (name == "planar2" and not positions)
    code = compiled(made.text(np.dtype(np.float32)), whole)
    if whole:
        assert all(kernel.encode() in code for kernel in gradients.KERNELS)
