"""Poses and Jacobians of configurations in GPU memory."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from supple.errors import InputError, short_repr
from supple.gpu.arrays import seen, stream_of
from supple.gpu.device import device_named
from supple.gpu.libraries import KINDS, given_result, new_result, readable
from supple.gpu.runtime import compile_source, open_device
from supple.gpu.runtime import device_named as found_device
from supple.gpu.source import source

if TYPE_CHECKING:
    from supple.kinematics.robot import FrameNames, Robot

KERNELS = ("poses", "jacobians", "both")
THREADS = 128  # number of threads in a block
_MAX_COUNT = 2**31 * THREADS - THREADS  # maximum number of configurations of a call
REAL = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}


class Request(ctypes.Structure):
    """Mirrors `Request` in kinematics.cu: the same members in the same order."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("q", "poses", "jacobians")),
        ("count", ctypes.c_longlong),
    )


class GpuFrames:
    """The kinematics of some frames on one GPU, compiled for each dtype on first use.

    Attributes:
        nq: Length of a configuration.
        nv: Length of a velocity.
        axes: Shape of the frame axis of results: (k,) for several frames, () for one.
        device: The GPU.
        architecture: Architecture of the GPU, such as "sm_90".
        constants: C++ source that defines the robot as constants.
    """

    def __init__(self, robot: Robot, frame: FrameNames, axes: str, name: str) -> None:
        chain = robot._chain(frame, axes)
        number, info = found_device(name)
        self.nq, self.nv = robot.nq, robot.nv
        self.axes: tuple[int, ...] = chain.frame_axes
        self.constants: str = chain.constants()
        self.device, self.architecture = open_device(number), info.architecture
        self._kernels: dict[np.dtype[Any], dict[str, Any]] = {}

    def text(self, dtype: np.dtype[Any]) -> str:
        """Return the CUDA source for one dtype."""
        return source("kinematics.cu", f"using Real = {REAL[dtype]};\n{self.constants}")

    def launch(
        self, dtype: np.dtype[Any], q: int, poses: int, jacobians: int, count: int, stream: int
    ) -> None:
        """Queue the work on a stream, given addresses in GPU memory; 0 for no result."""
        if not count:
            return
        if dtype not in self._kernels:
            code = compile_source(self.text(dtype), self.architecture, accurate_sines=True)
            self._kernels[dtype] = self.device.load(code, KERNELS)
        name = "both" if poses and jacobians else "poses" if poses else "jacobians"
        request = Request(q, poses, jacobians, count)
        kernel = self._kernels[dtype][name]
        self.device.launch(kernel, -(-count // THREADS), THREADS, stream, request)

    @cached_property
    def tails(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shapes of the poses and the Jacobians of one configuration."""
        return (*self.axes, 4, 4), (*self.axes, 6, self.nv)


def gpu_frames(robot: Robot, frame: FrameNames, axes: str, device: str) -> GpuFrames:
    """Return the kinematics of frames on a GPU; the robot keeps them for later calls."""
    kept: dict[Any, GpuFrames] = vars(robot).setdefault("_gpu_frames", {})
    key = (frame if frame is None or isinstance(frame, str) else tuple(frame), axes, device)
    found = kept.get(key)
    if found is None:  # several threads may make it, and all get the first one
        found = kept.setdefault(key, GpuFrames(robot, frame, axes, device_named(device)))
    return found


def resolve(
    robot: Robot,
    q: Any,
    frame: FrameNames,
    axes: str,
    wanted: tuple[bool, bool],
    threads: int | None,
    out: Sequence[Any],
) -> list[Any]:
    """Return poses, Jacobians or both, as `wanted`, of configurations in GPU memory.

    The call is asynchronous, on the current stream of the array's library. Rows that are not finite
    give zeros, because raising an error would require a synchronization.

    Args:
        robot: The robot.
        q: Configurations (..., nq), float32 or float64.
        frame: Name of a frame, or a sequence of names; the end effectors by default.
        axes: Axes of twists.
        wanted: Two truth values: whether poses are wanted, and whether Jacobians are wanted.
        threads: Must be None.
        out: Arrays for the results, or None for new ones.

    Raises:
        InputError: An argument is malformed.
    """
    if threads is not None:
        raise InputError(f"threads is for arrays in host memory only; given: {short_repr(threads)}")
    q = readable(q, "q")
    stream = stream_of(None, (q,))
    view = seen(q, stream, "q", dtypes=KINDS)
    lead, count = view.shape[:-1], int(np.prod(view.shape[:-1]))
    if view.shape[-1:] != (robot.nq,) or count > _MAX_COUNT:
        raise InputError(
            f"q must be an array of real numbers of shape ({robot.nq},) or (..., {robot.nq}); "
            f"given: an array of shape {view.shape}"
        )
    frames = gpu_frames(robot, frame, axes, f"cuda:{view.device}")
    gpu = frames.device
    gpu.use()
    results = [
        None
        if not wants
        else new_result(q, (*lead, *tail), view.dtype, gpu, stream)
        if given is None
        else given_result(given, (*lead, *tail), view.dtype, gpu, stream, "out")
        for wants, tail, given in zip(wanted, frames.tails, out, strict=True)
    ]
    at = [0 if one is None else one.pointer for one in results]
    frames.launch(view.dtype, view.pointer, at[0], at[1], count, stream)
    return [one.returned() for one in results if one is not None]
