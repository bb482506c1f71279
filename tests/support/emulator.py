"""A GPU emulated on the CPU, for tests: the CUDA sources compiled by g++ (emulator.hpp)."""

from __future__ import annotations

import ctypes
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from emulated_sources import NEXT, Source, compile_together
from supple.control import gpu_targets
from supple.errors import InputError
from supple.gpu import arrays, libraries
from supple.ik.gpu import (
    branches,
    calls,
    gradients,
    judged,
    linearize,
    position,
    ranking,
    solvers,
    subproblems,
    targets,
    world,
)
from supple.kinematics import gpu_frames

_CACHES: tuple[Any, ...] = (  # caches of kernels and solvers of one device
    *(solvers.gpu_solver, world.gpu_world, branches.gpu_branches, targets._kernels),
    *(ranking._kernels, ranking._cost_kernel, linearize._linearizer, linearize._step_kernel),
)


class Memory:
    """A block of memory, filled with values that reveal reads of unwritten memory."""

    def __init__(self, device: Device, size: int) -> None:
        self._bytes = np.full(size + 256, 0xAB, np.uint8)
        self.pointer = -(-self._bytes.ctypes.data // 256) * 256
        self.device, self.stream = device, 0


class Kernel:
    """A CUDA kernel, which the emulator compiles to a function.

    It is compiled when it is first launched, together with all other kernels loaded until then.
    """

    def __init__(self, device: Device, source: Source, name: str) -> None:
        self._device, self._source, self._name = device, source, name
        device.kernels.append(self)
        self._number = len(device.kernels)

    @cached_property
    def function(self) -> Any:
        self._device.compile()
        return self._source.function(self._name)

    def __int__(self) -> int:
        return self._number


class Device:
    """A replacement for `supple.gpu.runtime.Device` that runs on the CPU.

    Attributes:
        linked: Whether source files are compiled separately and linked, as for a GPU.
        kernels: The CUDA kernels that were loaded.
    """

    number, processors, context, pool = 0, 2, 0, 0
    linked = False

    def __init__(self) -> None:
        self.kernels: list[Kernel] = []
        self._loaded: list[Source] = []
        self._only_loads = False
        self._functions = self._made_functions()

    def use(self) -> None: ...

    def wait(self, stream: int) -> None: ...

    def stream(self) -> int:
        return 0

    def captures(self, stream: int) -> bool:
        return False

    def resident(self, kernel: Any, threads: int) -> int:
        return 2

    def load(self, code: bytes, names: tuple[str, ...]) -> dict[str, Any]:
        """Return CUDA kernels by name."""
        source = Source(code, names, self.linked)
        self._loaded.append(source)
        return {name: Kernel(self, source, name) for name in names}

    def compile(self) -> None:
        """Compile all loaded kernels that are not compiled yet."""
        compile_together(self._loaded)
        self._loaded.clear()

    @contextmanager
    def only_loading(self) -> Iterator[None]:
        """Let calls load CUDA kernels without launching them; the results of the calls are wrong.

        Kernels that are loaded before the first launch are compiled together.
        """
        self._only_loads = True
        yield
        self._only_loads = False

    def allocate(self, size: int, stream: int) -> Memory:
        return Memory(self, size)

    def zero(self, pointer: int, size: int, stream: int) -> None:
        ctypes.memset(pointer, 0, size)

    def upload(self, pointer: int, source: Any, stream: int) -> None:
        ctypes.memmove(pointer, source.ctypes.data, source.nbytes)

    def download(self, target: Any, pointer: int, stream: int) -> None:
        ctypes.memmove(target.ctypes.data, pointer, target.nbytes)

    def launch(self, kernel: Any, blocks: int, threads: int, stream: int, *arguments: Any) -> None:
        each = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(one) for one in arguments))
        self._run(kernel, blocks, threads, each)

    def _run(self, kernel: Kernel, blocks: int, threads: int, arguments: Any) -> None:
        if not self._only_loads:
            kernel.function(blocks, threads, arguments)

    def functions(self) -> list[int]:
        """Return the addresses of functions with the interface of CUDA's driver."""
        return [ctypes.cast(one, ctypes.c_void_p).value or 0 for one in self._functions]

    def _made_functions(self) -> list[Any]:
        pointer, size, count = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint
        blocks: dict[int, Memory] = {}

        def allocate(made: Any, size: int, pool: int, stream: int) -> int:
            block = Memory(self, size)
            blocks[block.pointer] = block
            made[0] = block.pointer
            return 0

        def release(at: int, stream: int) -> int:
            del blocks[at]
            return 0

        def fill(at: int, value: int, size: int, stream: int) -> int:
            ctypes.memset(at, value, size)
            return 0

        def launch(kernel: int, blocks: int, *more: Any) -> int:
            self._run(self.kernels[kernel - 1], blocks, more[2], ctypes.c_void_p(more[-2]))
            return 0

        integer, address = ctypes.c_int, ctypes.POINTER(pointer)
        return [
            ctypes.CFUNCTYPE(integer, pointer)(lambda context: 0),
            ctypes.CFUNCTYPE(integer, address, size, pointer, pointer)(allocate),
            ctypes.CFUNCTYPE(integer, pointer, pointer)(release),
            ctypes.CFUNCTYPE(integer, pointer, ctypes.c_ubyte, size, pointer)(fill),
            ctypes.CFUNCTYPE(integer, pointer, *[count] * 7, pointer, pointer, pointer)(launch),
        ]

    def free(self, pointer: int, stream: int) -> None: ...

    def order(self, before: int, after: int) -> None: ...


class There:
    """A NumPy array that presents itself as an array in the memory of a GPU."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.__cuda_array_interface__: dict[str, Any] = {}

    def get(self) -> np.ndarray:
        """Return a copy in host memory, as CuPy's arrays do."""
        return self.array.copy()


def _seen(given: Any, *_: Any, **__: Any) -> arrays.DeviceArrayView:
    if isinstance(given, arrays.GpuArray):
        shape, strides = given.shape, given.strides
        return arrays.DeviceArrayView(given.pointer, shape, given.dtype, 0, given, strides, True)
    if not isinstance(given, There):
        raise InputError("not in GPU memory")
    own = given.array
    steps = tuple(step // own.itemsize for step in own.strides)
    return arrays.DeviceArrayView(
        own.ctypes.data, own.shape, own.dtype, 0, own, steps, own.flags.c_contiguous
    )


def install(patch: pytest.MonkeyPatch, load: Callable[[], None] | None = None) -> Device:
    """Make device="cuda" select the emulated GPU, and return it.

    `load` makes calls that need the CUDA kernels of the tests, so that all these kernels are
    compiled together; the results of the calls are wrong and not used.
    """
    if not shutil.which("g++") or not sys.platform.startswith("linux"):
        pytest.skip("the emulated GPU needs Linux and g++")
    device = Device()

    class Info:
        architecture = "emulated"

    def no_compiler(text: str, architecture: str, **_: Any) -> bytes:
        return text.encode()

    def no_linker(texts: list[str], architecture: str) -> bytes:
        return NEXT.join(texts).encode()

    for module in (position, subproblems, branches, linearize, gpu_frames, gpu_targets):
        patch.setattr(module, "open_device", lambda number: device)
    for module in (position, branches):
        patch.setattr(module, "compile_linked", no_linker)
    for module in (solvers, branches, linearize, gpu_targets):
        patch.setattr(module, "device_named", lambda name: (0, Info))
    patch.setattr(gpu_frames, "found_device", lambda name: (0, Info))
    for module in (calls, judged, linearize, gpu_frames, libraries, gpu_targets):
        patch.setattr(module, "seen", _seen)
    compiling = (subproblems, targets, branches, ranking, linearize, gpu_frames, gradients)
    for module in (*compiling, gpu_targets):
        patch.setattr(module, "compile_source", no_compiler)
    for kernels in (targets._kernels, ranking._kernels, subproblems._kernels):
        kernels(device, Info.architecture)
    if load is not None:
        with device.only_loading():
            load()
    return device


def emulated_and_real(load: Callable[[], None]) -> Any:
    """Return a fixture that runs tests on the emulated GPU and, with -m cuda, on a real one.

    `load` is the argument of `install`.
    """

    def device(request: pytest.FixtureRequest) -> Iterator[str]:
        _forget()
        with pytest.MonkeyPatch.context() as patch:
            if request.param == "emulated":
                install(patch, load)
            yield request.param
        _forget()

    params = ["emulated", pytest.param("real", marks=pytest.mark.cuda)]
    return pytest.fixture(device, scope="module", params=params, autouse=True)


def _forget() -> None:
    for cached in _CACHES:
        cached.cache_clear()


def there(array: np.ndarray) -> Any:
    """Return an array in the memory of the GPU that `emulated_and_real` chose."""
    gpu = position.open_device(0)
    if isinstance(gpu, Device):
        return There(array)
    gpu.use()
    array, stream = np.ascontiguousarray(array), gpu.stream()
    memory = gpu.allocate(array.nbytes, stream)
    if array.size:
        gpu.upload(memory.pointer, array, stream)
    gpu.wait(stream)
    steps = tuple(step // array.itemsize for step in array.strides)
    return arrays.GpuArray(array.shape, array.dtype, steps, memory.pointer, memory)
