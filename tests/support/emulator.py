"""A GPU emulated on the CPU, for tests: the CUDA sources compiled by g++ (emulator.hpp)."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compile_once import only_one
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

_HEADER = Path(__file__).with_name("emulator.hpp")
_FOLDER = Path(__file__).parents[2] / "build/emulated"  # of the compiled sources
_CACHES: tuple[Any, ...] = (  # of kernels and solvers of one device
    *(solvers.gpu_solver, world.gpu_world, branches.gpu_branches, targets._kernels),
    *(ranking._kernels, ranking._cost_kernel, linearize._linearizer, linearize._step_kernel),
)
# Compiling takes most of the time of these tests, hence no optimization and no forced inlining.
_OPTIONS = (
    *("-std=c++20", "-w", "-fPIC", "-fno-gnu-unique", "-fvisibility=hidden"),
    "-DSUPPLE_INLINE=inline",
)
_TYPES = {  # types of the CUDA kernels' arguments
    "nearest_seeds": ("Request", "int", "View", "TargetKind"),
    "search": ("Request",),
    "finish": ("Request",),
    "explore": ("Request", "int", "View", "TargetKind"),
    "postprocess": ("Request",),
    "reject": ("Request",),
    "restore": ("Request",),
    "choose": ("Request", "BranchRequest"),
    "keep": ("Request", "BranchRequest"),
    **dict.fromkeys((*gpu_frames.KERNELS, *gradients.KERNELS), ("Request",)),
    "find": ("BranchRequest",),
    "verify": ("BranchRequest",),
    "read": ("View", "TargetKind", "double*", "int", "int"),
    **dict.fromkeys(
        ("to_coordinates", "to_configurations"), ("double*", "int*", "int", "int", "double*", "int")
    ),
    "linearize": ("Request",),
    "reach": ("Request",),
    "limit": ("Request", "int"),
    "apply": ("StepRequest",),
    "costs": ("Request", "Cost", "double*"),
    "rank": ("SolutionArrays", "void*", "int", "int", "SolutionArrays", "int"),
    "drop": ("SolutionArrays", "double*", "double", "int", "int"),
    "fill": ("SolutionArrays", "int", "int"),
    "begin": ("double*", "int", "double*", "int", "SolutionArrays", "int"),
    "split": ("double*", "double*", "int*", "int", "int", "int"),
    "merge": ("SolutionArrays", "int*", "int", "double*", "int", "SolutionArrays", "int"),
    "spread": (
        *("double*", "int*", "int", "double*", "int"),
        *("SolutionArrays", "SolutionArrays", "int"),
    ),
}
_NEXT = "\0"  # separator of texts that are linked
_CONSTANTS = "namespace supple {\nusing SearchReal"  # where the constants of a robot begin
# Headers, each with its last line, and what follows them.
_PARTS = re.compile(r".*?^}  // namespace supple.*?\n|.+", re.MULTILINE | re.DOTALL)


class Memory:
    """A block of memory, filled with values that reveal reads of unwritten memory."""

    def __init__(self, device: Device, size: int) -> None:
        self._bytes = np.full(size + 256, 0xAB, np.uint8)
        self.pointer = -(-self._bytes.ctypes.data // 256) * 256
        self.device, self.stream = device, 0


class Kernel:
    """A CUDA kernel, which is a function here."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __int__(self) -> int:
        return ctypes.cast(self.function, ctypes.c_void_p).value or 0


class Device:
    """A replacement for `supple.gpu.runtime.Device` that runs on the CPU.

    Attributes:
        linked: Whether source files are compiled separately and linked, as for a GPU. Otherwise
            files with the same constants are compiled as one, which takes half of the time.
    """

    number, processors, context, pool = 0, 2, 0, 0
    linked = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
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
        """Return CUDA kernels by name; their source is compiled unless the result is cached."""
        options = " ".join((*_OPTIONS, *names, str(self.linked))).encode()
        made_of = (_HEADER.read_bytes(), options, code)
        path = self._folder / hashlib.sha256(b"\0".join(made_of)).hexdigest()
        with only_one(path):
            if not path.with_suffix(".so").exists():
                self._compile(code, names, path)
        loaded = ctypes.CDLL(str(path.with_suffix(".so")))
        return {name: Kernel(getattr(loaded, f"emulated_{name}")) for name in names}

    def _compile(self, code: bytes, names: tuple[str, ...], path: Path) -> None:
        # The file has a temporary name until it is complete, in case the compiler is interrupted.
        own = path.with_name(f"{path.name}.{os.getpid()}")
        texts = code.decode().replace('extern "C" ', "").split(_NEXT)
        parts = [_divided(text) for text in texts]
        if not self.linked:
            parts = _joined(parts)

        def compiled(i: int) -> str:
            shared, text = parts[i]
            calls = [_entry(n) for n in names if re.search(rf"__global__[^;{{}}]*\b{n}\(", text)]
            header = self._precompiled(shared)
            file = own.with_name(f"{own.name}_{i}.cpp")
            file.write_text("\n".join([f'#include "{header}"', text, *calls]))
            made = str(file.with_suffix(".o"))
            subprocess.run(["g++", *_OPTIONS, "-c", str(file), "-o", made], check=True)
            return made

        with ThreadPoolExecutor() as pool:
            objects = list(pool.map(compiled, range(len(parts))))
        subprocess.run(["g++", "-shared", *objects, "-o", str(own)], check=True)
        own.replace(path.with_suffix(".so"))
        for leftover in self._folder.glob(f"{own.name}_*"):
            leftover.unlink()

    def _precompiled(self, text: str) -> Path:
        """Return a precompiled header: the text that the kernels of all robots share."""
        text = f'#include "{_HEADER}"\n#define read read_\n{text}'
        made_of = (_HEADER.read_text(), *_OPTIONS, text)
        header = self._folder / f"{hashlib.sha256(_NEXT.join(made_of).encode()).hexdigest()}.hpp"
        result = header.with_suffix(".hpp.gch")
        with only_one(header):
            if not result.exists():
                header.write_text(text)
                own = header.with_suffix(f".{os.getpid()}")
                command = ["g++", *_OPTIONS, "-x", "c++-header", str(header), "-o", str(own)]
                subprocess.run(command, check=True)
                own.replace(result)
        return header

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
        kernel.function(blocks, threads, each)

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
            run = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_int, pointer)(kernel)
            run(blocks, more[2], more[-2])
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


def _divided(text: str) -> tuple[str, str]:
    """Return the text that the kernels of all robots share, and the rest."""
    place = max(text.find(_CONSTANTS), 0)
    # without comments, because each file has its own title
    return re.sub(r"^(//.*)?\n", "", text[:place], flags=re.MULTILINE), text[place:]


def _joined(parts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Join files with the same constants, with each of their headers only once."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for shared, rest in parts:
        groups.setdefault(rest.partition("}")[0], []).append((shared, rest))
    return [
        (_merged(shared for shared, _ in files), _merged(rest for _, rest in files))
        for files in groups.values()
    ]


def _merged(texts: Iterable[str]) -> str:
    """Join texts; a part that ends with a namespace appears once, after those that precede it."""
    merged: list[str] = []
    for text in texts:
        place = 0
        for part in _PARTS.findall(text):
            if part not in merged:
                merged.insert(place, part)
            place = max(place, merged.index(part) + 1)
    return "".join(merged)


def _entry(name: str) -> str:
    given = ", ".join(f"*static_cast<{t}*>(given[{i}])" for i, t in enumerate(_TYPES[name]))
    return (
        f'extern "C" __attribute__((visibility("default"))) void emulated_{name}(int blocks, '
        "int threads, void** all) {\n  using namespace supple;\n"
        f"  emulated::launch(blocks, threads, [](void** given) {{ {name}({given}); }}, all);\n}}"
    )


class There:
    """A NumPy array that claims to be in the memory of a GPU."""

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


def install(patch: pytest.MonkeyPatch) -> Device:
    """Make device="cuda" select the emulated GPU, and return it."""
    if not shutil.which("g++") or not sys.platform.startswith("linux"):
        pytest.skip("the emulated GPU needs Linux and g++")
    device = Device(_FOLDER)

    class Info:
        architecture = "emulated"

    def no_compiler(text: str, architecture: str, **_: Any) -> bytes:
        return text.encode()

    def no_linker(texts: list[str], architecture: str) -> bytes:
        return _NEXT.join(texts).encode()

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
    return device


def emulated_and_real() -> Any:
    """Return a fixture that runs tests on the emulated GPU and, with -m cuda, on a real one."""

    def device(request: pytest.FixtureRequest) -> Iterator[str]:
        _forget()
        with pytest.MonkeyPatch.context() as patch:
            if request.param == "emulated":
                install(patch)
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
