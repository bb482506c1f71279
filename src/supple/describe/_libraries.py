"""Convert arrays of other libraries (PyTorch, JAX, CuPy, any with DLPack) to NumPy and back.

No library is imported: a caller that passes an array of a library has imported this library.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from supple.errors import InputError

_NUMPY = (np.ndarray, np.generic)
_HOST = (1, 3)  # kDLCPU and kDLCUDAHost, the types of device in DLPack that the CPU reads


def of_other_library(given: object) -> bool:
    """Return whether an object is an array of another library than NumPy."""
    return hasattr(type(given), "__dlpack__") and not isinstance(given, _NUMPY)


def library_of(given: object) -> Any:
    """Return the first array of another library in a target or a sequence of targets, else None."""
    if type(given) is np.ndarray:
        return None
    for one in given if isinstance(given, list | tuple) else (given,):
        if of_other_library(one):
            return one
    return None


def to_numpy(given: Any) -> npt.NDArray[Any]:
    """Return an array of another library as a NumPy array that shares its memory if possible.

    Types that NumPy lacks, such as bfloat16, and all tensors of PyTorch in half precision become
    float64.

    Raises:
        InputError: The array requires gradients, is traced, is not in host memory, or has no
            strides. The message only describes the array: it is meant for the end of an error
            ("given: ...").
    """
    name = library_name(given)
    given = without_gradients(given)
    if name == "torch":
        if given.device.type != "cpu":
            raise InputError(f"a tensor in the memory of a device, {given.device}")
        if given.dtype.is_floating_point and given.dtype.itemsize < 4:
            given = given.double()
    elif int(given.__dlpack_device__()[0]) not in _HOST:
        raise InputError(f"an array in the memory of a device, {given.__dlpack_device__()}")
    try:
        array = np.asarray(given)
    except (TypeError, RuntimeError, ValueError) as error:  # sparse or quantized tensors
        raise InputError(f"an array that NumPy cannot read ({error})") from None
    return array.astype(np.float64) if array.dtype.kind == "V" else array


def without_gradients(given: Any) -> Any:
    """Return an array of another library as plain numbers.

    Raises:
        InputError: The array requires gradients or is traced. The message describes the array, for
            the end of an error ("given: ...").
    """
    name = library_name(given)
    if name == "torch":
        if given.requires_grad and sys.modules["torch"].is_grad_enabled():
            raise InputError(
                "a tensor that requires gradients; supple.torch has functions with gradients, and "
                "tensor.detach() leaves them out"
            )
        return given.detach().resolve_neg()
    if name == "jax" and isinstance(given, sys.modules["jax"].core.Tracer):
        raise InputError("a value traced by JAX; supple.jax has functions for jit, vmap and grad")
    return given


def like(given: Any, result: npt.NDArray[Any]) -> Any:
    """Return a NumPy array as an array of the library of `given`; they may share memory.

    For arguments that are not arrays of another library, `result` is returned unchanged. JAX
    reduces float64 to float32 unless `jax_enable_x64` is set.
    """
    if not of_other_library(given):
        return result
    result = np.asarray(result)
    name = library_name(given)
    if name == "torch":
        return sys.modules["torch"].from_numpy(result if result.flags.writeable else result.copy())
    if name == "jax":
        return sys.modules["jax"].numpy.asarray(result)
    namespace = getattr(given, "__array_namespace__", None)
    return result if namespace is None else namespace().asarray(result)


def library_name(given: object) -> str:
    """Return "torch", "jax" or another name of the library that an array belongs to."""
    for name, kind in (("torch", "Tensor"), ("jax", "Array")):
        library = sys.modules.get(name)
        if library is not None and isinstance(given, getattr(library, kind, ())):
            return name
    return type(given).__module__.partition(".")[0]
