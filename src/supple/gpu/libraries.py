"""Convert arguments and results in GPU memory from and to arrays of the caller's library."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from supple._arrays.checks import library_name, without_gradients
from supple.errors import InputError
from supple.gpu.arrays import GpuArray, on_gpu, seen
from supple.gpu.runtime import Device

KINDS = (np.float32, np.float64)  # types of arrays that CUDA kernels read


def readable(given: Any, name: str) -> Any:
    """Return an array of PyTorch, CuPy or JAX as a C-contiguous array of float32 or float64.

    C-contiguous arrays of float32 or float64 are returned unchanged; other arrays are copied by
    their library, on its current stream. Half precision and integers become float64. Arrays of
    other libraries are returned unchanged.

    Args:
        given: The array.
        name: Name of the array in errors.

    Raises:
        InputError: The array requires gradients, is traced, or has complex or truth values.
    """
    try:
        return _contiguous_reals(given)
    except InputError as error:
        raise InputError(f"{name} must be an array of real numbers; given: {error}") from None


def _contiguous_reals(given: Any) -> Any:
    name = library_name(given)
    if name == "torch":
        given = without_gradients(given)
        torch = sys.modules["torch"]
        if given.dtype not in (torch.float32, torch.float64):
            if given.dtype.is_complex or given.dtype == torch.bool:
                raise InputError(f"a tensor of type {given.dtype}")
            given = given.double()
        return given.contiguous()
    if name not in ("cupy", "jax"):
        return given
    if name == "jax":
        without_gradients(given)
    if given.dtype not in KINDS:
        if given.dtype.kind in "cb":
            raise InputError(f"an array of type {given.dtype}")
        jax = sys.modules.get("jax")
        wide = np.dtype(np.float64)
        given = given.astype(jax.dtypes.canonicalize_dtype(wide) if jax and name == "jax" else wide)
    if name == "cupy" and not given.flags.c_contiguous:
        given = given.copy(order="C")
    return given


def in_host_memory(given: Any) -> Any:
    """Return `given` with each array in GPU memory replaced by a copy in host memory."""
    if isinstance(given, list | tuple):
        return [in_host_memory(one) for one in given]
    if not on_gpu(given):
        return given
    given = without_gradients(given)
    for name in ("cpu", "get", "numpy"):  # PyTorch, CuPy, and results of supple
        copied = getattr(given, name, None)
        if callable(copied):
            return copied()
    return np.asarray(given)


def in_library(given: GpuArray, name: str) -> Any:
    """Return a result as an array of PyTorch, CuPy or JAX that shares its memory.

    For any other name of a library, the result is returned unchanged.
    """
    if name not in ("torch", "cupy", "jax"):
        return given
    library = sys.modules[name]
    return (library.dlpack if name == "jax" else library).from_dlpack(given)


@dataclass(frozen=True)
class Result:
    """An array for a result: its address, and the array in the form that the caller gets."""

    pointer: int
    array: Any
    like: Any = None

    def returned(self) -> Any:
        """Return the array in the caller's library."""
        if isinstance(self.array, GpuArray) and library_name(self.like) == "jax":
            return sys.modules["jax"].dlpack.from_dlpack(self.array)
        return self.array


def new_result(
    like: Any, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device, stream: int
) -> Result:
    """Return memory for a result, allocated by the caller's library if that is PyTorch or CuPy.

    Args:
        like: The caller's array, from `readable`, whose library allocates the memory.
        shape: Shape of the result.
        dtype: Type of the result, that of `like`.
        device: The GPU.
        stream: The stream of the call.
    """
    name = library_name(like)
    if name == "torch":
        made = like.new_empty(shape)
        return Result(made.data_ptr(), made)
    if name == "cupy":
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(device.number):
            made = cupy.empty(shape, dtype)
        return Result(made.data.ptr, made)
    memory = device.allocate(dtype.itemsize * int(np.prod(shape)), stream)
    strides = tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
    array = GpuArray(shape, dtype, strides, memory.pointer, memory)
    return Result(memory.pointer, array, like)


def given_result(
    out: Any, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device, stream: int, name: str
) -> Result:
    """Return an array of the caller for a result, after checking it.

    Raises:
        InputError: The array has another shape, type or device, or is not C-contiguous.
    """
    view = seen(out, stream, name, dtypes=KINDS)
    if (view.shape, view.dtype, view.device) != (shape, dtype, device.number):
        raise InputError(
            f"{name} must be {shape}, {dtype} on cuda:{device.number}; given: {view.shape}, "
            f"{view.dtype} on cuda:{view.device}"
        )
    return Result(view.pointer, out)
