"""Joint speeds of many robots on a GPU: what `supple.step` runs there."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.control.velocity import VelocityIk, refuse
from supple.errors import InputError
from supple.gpu.arrays import DeviceArrayView, GpuArray, seen, stream_of
from supple.gpu.runtime import compile_source, device_named, open_device
from supple.gpu.source import source
from supple.kinematics.arrays import refuse_out

_REAL = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}
_THREADS = 128  # `threads` in velocity.cu
_MOST = 2**30  # robots of a call


class Request(ctypes.Structure):
    """`Request` of velocity.cu: the same members in the same order."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("q", "qd", "twist", "result")),
        ("count", ctypes.c_int),
    )


def text_of(follower: VelocityIk, dtype: np.dtype[Any]) -> str:
    """What the GPU's compiler gets for one type of numbers."""
    return source("velocity.cu", f"using Real = {_REAL[dtype]};\n{follower.kernel.constants()}")


class GpuFollower:
    """A step that was compiled for a GPU, for each type of numbers when it is first asked for."""

    def __init__(self, follower: VelocityIk, number: int, architecture: str) -> None:
        self.follower, self.architecture = follower, architecture
        self.device = open_device(number)
        self._kernels: dict[np.dtype[Any], tuple[Any, int]] = {}

    def kernel(self, dtype: np.dtype[Any]) -> tuple[Any, int]:
        """The kernel for a type of numbers, and how many blocks of it the GPU runs at a time."""
        if dtype not in self._kernels:
            code = compile_source(text_of(self.follower, dtype), self.architecture, fine=True)
            kernel = self.device.load(code, ("step",))["step"]
            self._kernels[dtype] = kernel, self.device.resident(kernel, _THREADS)
        return self._kernels[dtype]

    def follow(
        self, q: NDArray[Any], twist: NDArray[Any], qd: NDArray[Any] | None, out: Any, threads: int
    ) -> NDArray[Any]:
        """Of arrays in the computer's memory; waits for the result."""
        for row in np.flatnonzero(~_finite(q, twist, qd))[:1]:
            refuse(q, twist, qd, int(row))
        if out is None:
            out = np.empty_like(q)
        elif not (
            isinstance(out, np.ndarray)
            and (out.shape, out.dtype) == (q.shape, q.dtype)
            and out.flags.carray
        ):
            refuse_out(out, q.shape, q.dtype)
        if not q.size:
            return out  # type: ignore[no-any-return]
        gpu, stream = self.device, self.device.stream()
        gpu.use()
        arrays = [one for one in (q, twist, qd) if one is not None]
        memory = [gpu.allocate(one.nbytes, stream) for one in (*arrays, q)]
        for one, to in zip(arrays, memory, strict=False):
            gpu.upload(to.pointer, one, stream)
        at = [one.pointer for one in memory]
        before = 0 if qd is None else at[2]
        self.launch(q.dtype, at[0], at[1], before, at[-1], q.size // q.shape[-1], stream)
        gpu.download(out, at[-1], stream)
        return out  # type: ignore[no-any-return]

    def follow_there(self, q: Any, twist: Any, qd: Any, out: Any, stream: Any) -> Any:
        """Of arrays in the GPU's memory, on a stream and without waiting."""
        gpu, follower = self.device, self.follower
        n, kinds = follower.layout.robot.dof, (np.float32, np.float64)
        gpu.use()
        if not follower.brakes:
            qd = None
        on = stream_of(stream, (q, twist, qd, out))
        at = seen(q, on, "q", dtypes=kinds)
        lead, count = at.shape[:-1], int(np.prod(at.shape[:-1]))
        if at.shape[-1:] != (n,) or at.device != gpu.number or count > _MOST:
            raise InputError(
                f"q must be up to {_MOST} configurations (..., {n}) on cuda:{gpu.number}; "
                f"given: {at.shape} on cuda:{at.device}"
            )

        def like(given: Any, name: str, *tail: int) -> DeviceArrayView:
            one = seen(given, on, name, dtypes=kinds)
            if (one.shape, one.dtype, one.device) != ((*lead, *tail), at.dtype, at.device):
                raise InputError(
                    f"{name} must be {(*lead, *tail)}, {at.dtype} on cuda:{at.device}, as q is; "
                    f"given: {one.shape}, {one.dtype} on cuda:{one.device}"
                )
            return one

        asked = like(twist, "twist", *follower.tasks, 6)
        before = None if qd is None else like(qd, "qd", n)
        result = None if out is None else like(out, "out", n)
        memory = None
        if result is None:
            memory = gpu.allocate(at.dtype.itemsize * n * count, on)
        to = memory.pointer if memory is not None else result.pointer  # type: ignore[union-attr]
        speed = before.pointer if before is not None else 0
        self.launch(at.dtype, at.pointer, asked.pointer, speed, to, count, on)
        if memory is None:
            return out
        strides = tuple(int(np.prod(at.shape[i + 1 :])) for i in range(len(at.shape)))
        return GpuArray(at.shape, at.dtype, strides, to, memory)

    def launch(
        self, dtype: np.dtype[Any], q: int, twist: int, qd: int, out: int, count: int, stream: int
    ) -> None:
        """Follow on a stream, without waiting: addresses of arrays on the GPU."""
        if not count:
            return
        request = Request(q, qd, twist, out, count)
        kernel, most = self.kernel(dtype)
        self.device.launch(kernel, min(-(-count // _THREADS), most), _THREADS, stream, request)


def _finite(*arrays: NDArray[Any] | None) -> NDArray[np.bool_]:
    """Which rows of the flattened batch are finite."""
    rows = [np.isfinite(one).all(axis=-1).ravel() for one in arrays if one is not None]
    return np.asarray(np.logical_and.reduce(rows))


@lru_cache(maxsize=32)
def follower_on(follower: VelocityIk, device: str) -> GpuFollower:
    """A step on a GPU."""
    number, info = device_named(device)
    return GpuFollower(follower, number, info.architecture)
