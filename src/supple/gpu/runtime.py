"""What is used of NVIDIA's Python packages: compiling, loading, launching, memory.

They are looked for when first needed: importing supple does not import them. Most of it needs only
the bindings: importing `cuda.core` takes longer than all the rest of a first call.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from typing import Any

from supple.errors import DeviceError, MissingExtraError, SuppleError
from supple.gpu.cache import cached

_OPTIONS = ("--std=c++20", "--device-as-default-execution-space")
_ROUGH = ("--use_fast_math",)
_FINE = ("--ftz=true", "--prec-div=false", "--prec-sqrt=false")  # (no sines but the exact ones)
_APART = ("-rdc=true",)  # what will be linked


@dataclass(frozen=True)
class DeviceInfo:
    """A GPU that supple can use: its name for `solve(device=...)`, and what it is."""

    name: str
    model: str
    architecture: str
    memory: int  # [bytes]

    def __str__(self) -> str:
        gib = self.memory / 2**30
        return f"{self.name}: {self.model}, {self.architecture}, {gib:.0f} GiB"


@lru_cache(maxsize=1)
def driver() -> Any:
    """The GPU's driver, `cuda.bindings.driver`.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        from cuda.bindings import driver as found
    except ImportError as error:
        raise MissingExtraError("cuda", 'device="cuda"') from error
    return found


@lru_cache(maxsize=1)
def packages() -> tuple[Any, Any]:
    """`cuda.core`, which knows other libraries' arrays, and the driver.

    Raises:
        MissingExtraError: they are not installed.
    """
    try:
        from cuda import core

        if not hasattr(core, "Program"):  # releases before 0.5
            from cuda.core import experimental as core
    except ImportError as error:
        raise MissingExtraError("cuda", 'device="cuda"') from error
    return core, driver()


def check(answer: tuple[Any, ...]) -> Any:
    """What a function of the driver returned, beside its status.

    Raises:
        DeviceError: the status is an error.
    """
    status, *results = answer
    if int(status):
        _, text = driver().cuGetErrorString(status)
        raise DeviceError(f"the GPU's driver refused: {(text or b'?').decode()} ({status.name})")
    return results[0] if results else None


def devices() -> tuple[DeviceInfo, ...]:
    """The GPUs that `solve(device=...)` can use; none where the driver or the extra is missing."""
    try:
        return _devices()
    except SuppleError:
        return ()


@lru_cache(maxsize=1)
def _devices() -> tuple[DeviceInfo, ...]:
    cuda = driver()
    try:
        check(cuda.cuInit(0))
        count = check(cuda.cuDeviceGetCount())
    except (RuntimeError, ImportError, OSError) as error:
        raise DeviceError(
            f'device="cuda" needs an NVIDIA GPU and its driver; here: {error}'
        ) from error
    found = []
    for i in range(count):
        handle = check(cuda.cuDeviceGet(i))
        memory = check(cuda.cuDeviceTotalMem(handle))
        model = check(cuda.cuDeviceGetName(256, handle)).split(b"\0")[0].decode()
        major, minor = (_attribute(handle, f"COMPUTE_CAPABILITY_{x}") for x in ("MAJOR", "MINOR"))
        found.append(DeviceInfo(f"cuda:{i}", model, f"sm_{major}{minor}", int(memory)))
    return tuple(found)


def _attribute(handle: Any, name: str) -> int:
    """A number that the driver knows of a device."""
    which = getattr(driver().CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
    return int(check(driver().cuDeviceGetAttribute(which, handle)))


def device_named(name: str) -> tuple[int, DeviceInfo]:
    """The number of a GPU ("cuda" is the first), and what it is.

    Raises:
        MissingExtraError: the packages are not installed.
        DeviceError: there is no such GPU, or no driver.
    """
    there = _devices()
    number = 0 if name == "cuda" else int(name.removeprefix("cuda:"))
    if number >= len(there):
        found = ", ".join(map(str, there)) or "none"
        raise DeviceError(f"there is no GPU {name!r}; there is: {found}")
    return number, there[number]


def compile_source(
    text: str, architecture: str, *, fine: bool = False, apart: bool = False
) -> bytes:
    """Machine code of a text for an architecture ("sm_90"), compiled by NVRTC or read from disk.

    `fine` says that floats are returned as they come: quotients and roots to 2 ulp, sines as good
    as on a CPU. Else what is rough is measured in double afterwards. `apart` says that it will be
    linked.

    Raises:
        MissingExtraError: there is no NVRTC.
    """
    options = (*_OPTIONS, *(_FINE if fine else _ROUGH), *(_APART if apart else ()))
    key = (text, *options, architecture, nvrtc_version())
    return cached(key, lambda: _compiled(text, (*options, f"-arch={architecture}")))


def compile_linked(texts: Sequence[str], architecture: str) -> bytes:
    """Machine code of a text, or of several that call each other, compiled at the same time.

    Args:
        texts: Of C++; what one declares `extern` another has. Linking several needs a context.
        architecture: As "sm_90".
    """
    if len(texts) == 1:
        return compile_source(texts[0], architecture)

    def make() -> bytes:
        with ThreadPoolExecutor() as pool:  # (the compiler lets go of the interpreter)
            compiled = pool.map(lambda one: compile_source(one, architecture, apart=True), texts)
            return link(list(compiled))

    return cached((*texts, *_OPTIONS, *_ROUGH, *_APART, architecture, nvrtc_version()), make)


@lru_cache(maxsize=1)
def nvrtc_version() -> str:
    """The version of the compiler: of its package, where it is one, for that takes no loading."""
    for name in ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return ".".join(map(str, _nvrtc()[1:]))


@lru_cache(maxsize=1)
def _nvrtc() -> tuple[Any, int, int]:
    """NVRTC, and its version."""
    driver()
    from cuda.bindings import nvrtc

    try:
        status, major, minor = nvrtc.nvrtcVersion()
    except RuntimeError as error:  # (the bindings are there, and not the library)
        raise MissingExtraError("cuda", "compiling for a GPU") from error
    check((status, None))
    return nvrtc, major, minor


def _compiled(text: str, options: Sequence[str]) -> bytes:
    """Machine code of a text, by NVRTC."""
    nvrtc, *_ = _nvrtc()
    given = [option.encode() for option in options]

    def done(answer: tuple[Any, ...]) -> Any:
        status, *results = answer
        if int(status):
            raise DeviceError(f"the GPU's compiler refused ({status.name}): {log()}")
        return results[0] if results else None

    def log() -> str:
        written = b" " * int(nvrtc.nvrtcGetProgramLogSize(program)[1])
        nvrtc.nvrtcGetProgramLog(program, written)
        return written.decode(errors="replace")

    program = done(nvrtc.nvrtcCreateProgram(text.encode(), b"supple.cu", 0, [], []))
    try:
        done(nvrtc.nvrtcCompileProgram(program, len(given), given))
        code = b" " * int(done(nvrtc.nvrtcGetCUBINSize(program)))
        done(nvrtc.nvrtcGetCUBIN(program, code))
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return code


def link(codes: Sequence[bytes]) -> bytes:
    """Machine code of several pieces, by the driver's linker; a context must be current."""
    cuda = driver()
    kind = cuda.CUjitInputType.CU_JIT_INPUT_CUBIN
    state = check(cuda.cuLinkCreate(0, [], []))
    try:
        for code in codes:
            check(cuda.cuLinkAddData(state, kind, code, len(code), b"supple", 0, [], []))
        status, pointer, size = cuda.cuLinkComplete(state)
        check((status,))
        return ctypes.string_at(pointer, size)  # (the state owns it)
    finally:
        check(cuda.cuLinkDestroy(state))


class Machine:
    """One GPU, made current: memory, copies and launches on a stream."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._driver = driver()
        check(self._driver.cuInit(0))
        handle = check(self._driver.cuDeviceGet(number))
        self._context = check(self._driver.cuDevicePrimaryCtxRetain(handle))  # that of all others
        self.use()
        self.processors = _attribute(handle, "MULTIPROCESSOR_COUNT")
        major, minor = (_attribute(handle, f"COMPUTE_CAPABILITY_{x}") for x in ("MAJOR", "MINOR"))
        self.architecture = f"sm_{major}{minor}"
        self._stream = int(check(self._driver.cuStreamCreate(1)))

    def use(self) -> None:
        """Make it the current one of this thread."""
        check(self._driver.cuCtxSetCurrent(self._context))

    def stream(self) -> int:
        """A stream of its own for what has none."""
        return self._stream

    def order(self, before: int, after: int | None) -> None:
        """Let one stream wait for what another has been told so far; -1 or None: nobody waits."""
        if after is None or after in (-1, before) or {before, after} <= {0, 1}:
            return
        self.use()
        event = check(self._driver.cuEventCreate(2))  # (without a time)
        check(self._driver.cuEventRecord(event, before))
        check(self._driver.cuStreamWaitEvent(after, event, 0))
        check(self._driver.cuEventDestroy(event))

    def load(self, code: bytes, names: tuple[str, ...]) -> dict[str, Any]:
        """The kernels of some machine code."""
        module = check(self._driver.cuModuleLoadData(code))
        return {
            name: check(self._driver.cuModuleGetFunction(module, name.encode())) for name in names
        }

    def resident(self, kernel: Any, threads: int) -> int:
        """How many blocks of a kernel run at a time."""
        ask = self._driver.cuOccupancyMaxActiveBlocksPerMultiprocessor
        return self.processors * max(1, int(check(ask(kernel, threads, 0))))

    def allocate(self, size: int, stream: int) -> Memory:
        """Memory of some bytes, given back when nobody holds it."""
        return Memory(self, int(check(self._driver.cuMemAllocAsync(max(size, 1), stream))), stream)

    def free(self, pointer: int, stream: int) -> None:
        """Give memory back; errors are of no use to anyone here."""
        self._driver.cuMemFreeAsync(pointer, stream)

    def zero(self, pointer: int, size: int, stream: int) -> None:
        """Set bytes to zero."""
        check(self._driver.cuMemsetD8Async(pointer, 0, size, stream))

    def upload(self, pointer: int, source: Any, stream: int) -> None:
        """Copy a C-contiguous NumPy array to the GPU."""
        check(self._driver.cuMemcpyHtoDAsync(pointer, source.ctypes.data, source.nbytes, stream))

    def download(self, target: Any, pointer: int, stream: int) -> None:
        """Copy to a C-contiguous NumPy array, and wait until it is there."""
        check(self._driver.cuMemcpyDtoHAsync(target.ctypes.data, pointer, target.nbytes, stream))
        self.wait(stream)

    def wait(self, stream: int) -> None:
        """Wait until a stream has done everything."""
        check(self._driver.cuStreamSynchronize(stream))

    def launch(
        self,
        kernel: Any,
        blocks: int,
        threads: int,
        stream: int,
        *arguments: ctypes.Structure | Any,
    ) -> None:
        """Start a kernel; arguments are objects of ctypes, passed by value."""
        each = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(one) for one in arguments))
        check(
            self._driver.cuLaunchKernel(
                kernel, blocks, 1, 1, threads, 1, 1, 0, stream, ctypes.addressof(each), 0
            )
        )


class Memory:
    """A piece of a GPU's memory."""

    def __init__(self, machine: Machine, pointer: int, stream: int) -> None:
        self.machine, self.pointer, self.stream = machine, pointer, stream

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # (at exit the driver may be gone before)
            self.machine.free(self.pointer, self.stream)


@lru_cache(maxsize=8)
def machine(number: int) -> Machine:
    """Return a GPU by its number; its context is created on first use."""
    return Machine(number)
