"""Arrays in GPU memory: exchange with CuPy, PyTorch, JAX and other libraries."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from supple.errors import InputError, short_repr
from supple.gpu.runtime import Memory, packages

_CUDA = 2  # kDLCUDA, the type of device in DLPack


def on_gpu(given: object) -> bool:
    """Return whether an object is an array in GPU memory."""
    # (The interface of PyTorch's tensors raises errors, and so does DLPack for some devices.)
    with suppress(Exception):
        if int(given.__dlpack_device__()[0]) == _CUDA:  # type: ignore[attr-defined]
            return True
    with suppress(Exception):
        return hasattr(given, "__cuda_array_interface__")
    return False


Layout: TypeAlias = tuple[Hashable, int, int]  # an array's type and strides; address; stream


def layout_of(given: Any) -> Layout | None:
    """Return the layout of an array of PyTorch or CuPy, its address, and the current stream.

    Returns None for arrays of other libraries, for arrays in host memory, and for arrays that
    `seen` rejects. A call takes a microsecond; a call of `seen` takes thirty.
    """
    read = _reader(type(given))  # type: ignore[arg-type]  # a class that mypy does not know
    return None if read is None else read(given)


@cache
def _reader(kind: type) -> Callable[[Any], Layout | None] | None:
    """Return a function that reads the layout of arrays of a type; None for other types."""
    library = kind.__module__.partition(".")[0]
    make = {"torch": _torch_reader, "cupy": _cupy_reader}.get(library)
    return None if make is None else make(kind)


def _torch_reader(kind: type) -> Callable[[Any], Layout | None] | None:
    import torch

    if kind is not torch.Tensor:
        return None
    current = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    if current is None:  # (not in builds for the CPU)
        return None

    def read(given: Any) -> Layout | None:
        if not given.is_cuda or given.requires_grad or given.is_neg():
            return None
        device = given.get_device()
        layout = (given.dtype, given.shape, given.stride(), device)
        return layout, given.data_ptr(), current(device)

    return read


def _cupy_reader(kind: type) -> Callable[[Any], Layout | None] | None:
    import cupy

    if kind is not cupy.ndarray:
        return None
    current = cupy.cuda.get_current_stream

    def read(given: Any) -> Layout | None:
        data = given.data
        layout = (given.dtype.char, given.shape, given.strides, data.device_id)
        return layout, data.ptr, current().ptr

    return read


def stream_of(given: object, arrays: tuple[object, ...]) -> int:
    """Return the handle of a call's stream: `given`, an array's stream, or the default stream.

    Args:
        given: A handle, an object with `__cuda_stream__`, `cuda_stream` (PyTorch) or `ptr` (CuPy),
            or None.
        arrays: Arrays of the call; the first array that specifies a stream decides. Arrays of
            PyTorch and CuPy specify the current stream of their library.
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
        raise InputError(f"stream must be a CUDA stream or its handle; given: {short_repr(given)}")
    for array in arrays:
        read = layout_of(array)
        if read is not None:
            return read[2]
        named = getattr(array, "__cuda_array_interface__", {}).get("stream")
        if named:
            return int(named)
    return 0


@dataclass(frozen=True, eq=False)
class DeviceArrayView:
    """An array passed by the caller: address, shape, type, and the object that keeps it alive."""

    pointer: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    device: int
    owner: object
    strides: tuple[int, ...]  # strides in numbers, not bytes
    dense: bool  # whether it is C-contiguous


def seen(
    given: object,
    stream: int,
    name: str,
    *,
    dtypes: Sequence[type[np.generic]] = (np.float64,),
    strided: bool = False,
) -> DeviceArrayView:
    """Return a view of an array in GPU memory, and let `stream` wait for writes to the array.

    Args:
        given: The array.
        stream: The stream that will read the array.
        name: Name of the argument, for errors.
        dtypes: Accepted types.
        strided: Whether the array may be strided; otherwise it must be C-contiguous.

    Raises:
        InputError: The array is not in GPU memory, has another type, or is not C-contiguous
            although it must be.
    """
    if not on_gpu(given):
        raise InputError(
            f"{name} must be in GPU memory like the other arrays; given: {short_repr(given)}"
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
        raise InputError(
            f"{name} in GPU memory must be {types}{also}; given: {view.dtype}, {shape}, "
            f"{'C-contiguous' if dense else 'strided'}"
        )
    own = steps if strides is None else strides
    device = int(view.device_id)
    return DeviceArrayView(int(view.ptr), shape, np.dtype(view.dtype), device, view, own, dense)


@dataclass(frozen=True, eq=False)
class GpuArray:
    """A result in GPU memory, for `cupy.asarray`, `torch.from_dlpack`, `jax.dlpack.from_dlpack`.

    The call that returns it is asynchronous: the numbers are valid once the GPU has finished the
    work on the stream. CuPy, PyTorch and JAX wait for the stream by themselves.

    Attributes:
        shape: Shape of the array.
        dtype: Type of its numbers.
        strides: Strides in numbers, not bytes.
        pointer: Address of the first number.
        memory: The allocation that the array is part of.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...]
    pointer: int
    memory: Memory

    def __eq__(self, other: object) -> bool:
        raise TypeError("arrays in GPU memory cannot be compared: use cupy.asarray(a) or a.numpy()")

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
        """Return a copy in host memory; waits for the stream."""
        last = sum(step * (n - 1) for step, n in zip(self.strides, self.shape, strict=True))
        flat = np.empty(0 if 0 in self.shape else last + 1, self.dtype)
        device = self.memory.device
        device.use()
        if flat.size:
            device.download(flat, self.pointer, self.memory.stream)
        steps = [self.dtype.itemsize * step for step in self.strides]
        return np.lib.stride_tricks.as_strided(flat, self.shape, steps).copy()
