"""Joint velocities of many robots on a GPU."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple._arrays.errors import raise_unusable_out
from supple.control.velocity_ik import VelocityIk, raise_not_finite
from supple.errors import InputError
from supple.gpu.arrays import DeviceArrayView, GpuArray, seen, stream_of
from supple.gpu.runtime import compile_source, device_named, open_device
from supple.gpu.source import block_size, source

_REAL = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}
_THREADS = block_size("velocity.cu", "step")  # number of threads in a block
_MAX_COUNT = 2**30  # maximum number of robots per call


class Request(ctypes.Structure):
    """Mirrors `Request` in velocity.cu: the same members in the same order."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("q", "qd", "twist", "result")),
        ("count", ctypes.c_int),
    )


def text_of(velocity: VelocityIk, dtype: np.dtype[Any]) -> str:
    """Return the CUDA source of a step, for one dtype."""
    return source("velocity.cu", f"using Real = {_REAL[dtype]};\n{velocity.kernel.constants()}")


class GpuVelocityIk:
    """A step on a GPU, compiled for each dtype on first use."""

    def __init__(self, velocity: VelocityIk, number: int, architecture: str) -> None:
        self.velocity, self.architecture = velocity, architecture
        self.device = open_device(number)
        self._kernels: dict[np.dtype[Any], tuple[Any, int]] = {}

    def kernel(self, dtype: np.dtype[Any]) -> tuple[Any, int]:
        """Return the CUDA kernel for a dtype, and the number of blocks that run together."""
        if dtype not in self._kernels:
            code = compile_source(
                text_of(self.velocity, dtype), self.architecture, accurate_sines=True
            )
            kernel = self.device.load(code, ("step",))["step"]
            self._kernels[dtype] = kernel, self.device.resident(kernel, _THREADS)
        return self._kernels[dtype]

    def resolve(
        self,
        q: NDArray[Any],
        velocity: NDArray[Any],
        qd: NDArray[Any] | None,
        out: Any,
        threads: int,
    ) -> NDArray[Any]:
        """Return q̇ (..., nv) for arrays in host memory, after waiting for the GPU."""
        for row in np.flatnonzero(~_finite(q, velocity, qd))[:1]:
            raise_not_finite(q, velocity, qd, int(row))
        shape = (*q.shape[:-1], self.velocity.layout.robot.nv)
        if out is None:
            out = np.empty(shape, q.dtype)
        elif not (
            isinstance(out, np.ndarray)
            and (out.shape, out.dtype) == (shape, q.dtype)
            and out.flags.carray
        ):
            raise_unusable_out(out, shape, q.dtype)
        if not q.size:
            return out  # type: ignore[no-any-return]
        gpu, stream = self.device, self.device.stream()
        gpu.use()
        arrays = [one for one in (q, velocity, qd) if one is not None]
        memory = [gpu.allocate(one.nbytes, stream) for one in (*arrays, out)]
        for one, to in zip(arrays, memory, strict=False):
            gpu.upload(to.pointer, one, stream)
        at = [one.pointer for one in memory]
        before = 0 if qd is None else at[2]
        self.launch(q.dtype, at[0], at[1], before, at[-1], q.size // q.shape[-1], stream)
        gpu.download(out, at[-1], stream)
        return out  # type: ignore[no-any-return]

    def resolve_on_device(self, q: Any, velocity: Any, qd: Any, out: Any, stream: Any) -> Any:
        """Queue the step on a stream; return q̇ (..., nv) in GPU memory without waiting."""
        gpu, prepared = self.device, self.velocity
        robot, kinds = prepared.layout.robot, (np.float32, np.float64)
        gpu.use()
        if not prepared.brakes:
            qd = None
        on = stream_of(stream, (q, velocity, qd, out))
        at = seen(q, on, "q", dtypes=kinds)
        lead, count = at.shape[:-1], int(np.prod(at.shape[:-1]))
        if at.shape[-1:] != (robot.nq,) or at.device != gpu.number or count > _MAX_COUNT:
            raise InputError(
                f"q must be up to {_MAX_COUNT} configurations (..., {robot.nq}) on "
                f"cuda:{gpu.number}; given: {at.shape} on cuda:{at.device}"
            )

        def like(given: Any, name: str, *tail: int) -> DeviceArrayView:
            one = seen(given, on, name, dtypes=kinds)
            if (one.shape, one.dtype, one.device) != ((*lead, *tail), at.dtype, at.device):
                raise InputError(
                    f"{name} must be {(*lead, *tail)}, {at.dtype} on cuda:{at.device}, as q is; "
                    f"given: {one.shape}, {one.dtype} on cuda:{one.device}"
                )
            return one

        asked = like(velocity, "velocity", *prepared.tasks, 6)
        before = None if qd is None else like(qd, "qd", robot.nv)
        result = None if out is None else like(out, "out", robot.nv)
        memory = None
        if result is None:
            memory = gpu.allocate(at.dtype.itemsize * robot.nv * count, on)
        to = memory.pointer if memory is not None else result.pointer  # type: ignore[union-attr]
        speed = before.pointer if before is not None else 0
        self.launch(at.dtype, at.pointer, asked.pointer, speed, to, count, on)
        if memory is None:
            return out
        shape = (*lead, robot.nv)
        strides = tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
        return GpuArray(shape, at.dtype, strides, to, memory)

    def launch(
        self,
        dtype: np.dtype[Any],
        q: int,
        velocity: int,
        qd: int,
        out: int,
        count: int,
        stream: int,
    ) -> None:
        """Launch the CUDA kernel on a stream, asynchronously, given addresses in GPU memory."""
        if not count:
            return
        request = Request(q, qd, velocity, out, count)
        kernel, most = self.kernel(dtype)
        self.device.launch(kernel, min(-(-count // _THREADS), most), _THREADS, stream, request)


def _finite(*arrays: NDArray[Any] | None) -> NDArray[np.bool_]:
    """Return a mask of the finite rows of the flattened batch."""
    rows = [np.isfinite(one).all(axis=-1).ravel() for one in arrays if one is not None]
    return np.asarray(np.logical_and.reduce(rows))


@lru_cache(maxsize=32)
def on_device(velocity: VelocityIk, device: str) -> GpuVelocityIk:
    """Return a step prepared for a GPU; results are cached."""
    number, info = device_named(device)
    return GpuVelocityIk(velocity, number, info.architecture)
