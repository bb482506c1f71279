"""Arrays on a GPU: those of CuPy, PyTorch, JAX and others come in, and results go out to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from supple.errors import InputError, short_repr
from supple.gpu.runtime import Memory, packages

Kinds: TypeAlias = tuple[type[np.floating[Any]], ...]

_CUDA = 2  # kDLCUDA: the kind of device in DLPack


def on_gpu(given: object) -> bool:
    """Whether something is an array in a GPU's memory."""
    if hasattr(given, "__cuda_array_interface__"):
        return True
    tell = getattr(given, "__dlpack_device__", None)
    return tell is not None and int(tell()[0]) == _CUDA


def stream_of(given: object, arrays: tuple[object, ...]) -> int:
    """The stream to work on: the caller's, or that of an array, or the default one.

    Args:
        given: A handle, or what has `__cuda_stream__`, `cuda_stream` (PyTorch) or `ptr` (CuPy).
        arrays: Whose interface may name a stream.
    """
    if given is not None:
        protocol = getattr(given, "__cuda_stream__", None)
        if protocol is not None:
            return int(protocol()[1] if callable(protocol) else protocol[1])
        for name in ("cuda_stream", "ptr"):
            if hasattr(given, name):
                return int(getattr(given, name))
        if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
            return given
        raise InputError(f"stream must be a CUDA stream, or its handle; given: {short_repr(given)}")
    for array in arrays:
        named = getattr(array, "__cuda_array_interface__", {}).get("stream")
        if named:
            return int(named)
    return 0


@dataclass(frozen=True, eq=False)
class DeviceArrayView:
    """An array of the caller's: its address, shape and type, and what keeps it alive."""

    pointer: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    device: int
    owner: object
    strides: tuple[int, ...]  # in numbers, not bytes
    dense: bool  # whether it is C-contiguous


def seen(
    given: object,
    stream: int,
    name: str,
    *,
    dtypes: Sequence[type[np.generic]] = (np.float64,),
    strided: bool = False,
) -> DeviceArrayView:
    """Look at an array on a GPU, in order with the stream that it was written on.

    Raises:
        InputError: it is of no such type, or not C-contiguous where it has to be.
    """
    if not on_gpu(given):
        raise InputError(
            f"{name} must be in a GPU's memory as the others are; given: {short_repr(given)}"
        )
    core = packages()[0]
    view = core.utils.StridedMemoryView.from_any_interface(given, stream_ptr=stream or 1)
    shape = tuple(int(size) for size in view.shape)
    strides = None if view.strides is None else tuple(int(step) for step in view.strides)
    steps = tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
    dense = strides is None or all(
        s == t or size == 1 for s, t, size in zip(strides, steps, shape, strict=True)
    )
    dense = dense or 0 in shape
    if view.dtype not in dtypes or not (dense or strided):
        types = " or ".join(np.dtype(one).name for one in dtypes)
        also = "" if strided else " and C-contiguous"
        raise InputError(f"{name} on a GPU must be {types}{also}; given: {view.dtype}, {shape}")
    own = steps if strides is None else strides
    device = int(view.device_id)
    return DeviceArrayView(int(view.ptr), shape, np.dtype(view.dtype), device, view, own, dense)


@dataclass(frozen=True, eq=False)
class GpuArray:
    """A result in a GPU's memory: `cupy.asarray`, `torch.from_dlpack`, `jax.dlpack.from_dlpack`.

    Nothing was waited for: it is there once the stream has come to it, which CuPy and others see
    to by themselves.

    Attributes:
        shape: Of the array.
        dtype: Of its numbers.
        strides: In numbers, not bytes.
        pointer: Its address.
        memory: What it is a part of.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...]
    pointer: int
    memory: Memory

    def __eq__(self, other: object) -> bool:
        raise TypeError("numbers in a GPU's memory: compare cupy.asarray(them), or them.numpy()")

    __hash__ = object.__hash__

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        size = self.dtype.itemsize
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.pointer, False),
            "strides": tuple(size * step for step in self.strides),
            "stream": self.memory.stream or 1,
            "version": 3,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA, self.memory.device.number

    def __dlpack__(self, *, stream: int | None = None, **options: Any) -> Any:
        self.memory.device.order(self.memory.stream, stream)
        core, _ = packages()
        last = sum(step * (n - 1) for step, n in zip(self.strides, self.shape, strict=True))
        size = 0 if 0 in self.shape else self.dtype.itemsize * (last + 1)
        buffer = core.Buffer.from_handle(self.pointer, size, owner=self)
        view = core.utils.StridedMemoryView.from_buffer(
            buffer, self.shape, self.strides, dtype=self.dtype
        )
        return view.__dlpack__(stream=-1, **options)

    def numpy(self) -> np.ndarray[Any, np.dtype[Any]]:
        """A copy in the computer's memory; waits for it."""
        last = sum(step * (n - 1) for step, n in zip(self.strides, self.shape, strict=True))
        flat = np.empty(0 if 0 in self.shape else last + 1, self.dtype)
        device = self.memory.device
        device.use()
        if flat.size:
            device.download(flat, self.pointer, self.memory.stream)
        steps = [self.dtype.itemsize * step for step in self.strides]
        return np.lib.stride_tricks.as_strided(flat, self.shape, steps).copy()
