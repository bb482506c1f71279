"""The CUDA driver and compiler: compilation, launches, streams and memory.

NVIDIA's packages are imported on first use. Most functions need only `cuda.bindings`; `cuda.core`
is avoided where possible because importing it takes longer than the rest of a first call.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from supple.errors import DeviceError, MissingExtraError, SuppleError
from supple.gpu.cache import cached

if TYPE_CHECKING:
    from cuda.bindings.driver import CUcontext, CUfunction, CUmemoryPool

_OPTIONS = ("--std=c++20", "--device-as-default-execution-space")
_FAST_MATH = ("--use_fast_math",)
_ACCURATE_SINES = ("--ftz=true", "--prec-div=false", "--prec-sqrt=false")
_RELOCATABLE = ("-rdc=true",)  # relocatable code, which can be linked
_KEPT_MEMORY_SHARE = 1 / 16  # largest part of a GPU's memory that is kept for later calls
# Functions of the driver that `_core.Launches` calls, and the version of their interface.
_LAUNCHING = (
    *(b"cuCtxSetCurrent", b"cuMemAllocFromPoolAsync", b"cuMemFreeAsync"),
    *(b"cuMemsetD8Async", b"cuLaunchKernel"),
)
_INTERFACE = 12000
_OF_FILE = re.compile(r"^// nvrtc: (\S+)$", re.MULTILINE)  # an option of one source file


@dataclass(frozen=True)
class DeviceInfo:
    """A GPU that supple can use: its name for `Solver(device=...)`, model and memory."""

    name: str
    model: str
    architecture: str
    memory: int  # [bytes]

    def __str__(self) -> str:
        gib = self.memory / 2**30
        return f"{self.name}: {self.model}, {self.architecture}, {gib:.0f} GiB"


@lru_cache(maxsize=1)
def driver() -> Any:
    """Return the module `cuda.bindings.driver`, the interface to the GPU's driver.

    Raises:
        MissingExtraError: The package is not installed.
    """
    try:
        from cuda.bindings import driver as found
    except ImportError as error:
        raise MissingExtraError("cuda", 'device="cuda"') from error
    return found


@lru_cache(maxsize=1)
def packages() -> tuple[Any, Any]:
    """Return `cuda.core`, which reads arrays of other libraries, and the driver.

    Raises:
        MissingExtraError: The packages are not installed.
    """
    try:
        from cuda import core

        if not hasattr(core, "Program"):  # releases before 0.5
            from cuda.core import experimental as core
    except ImportError as error:
        raise MissingExtraError("cuda", 'device="cuda"') from error
    return core, driver()


def check(returned: tuple[Any, ...]) -> Any:
    """Return the result of a function of the driver, without its status.

    Raises:
        DeviceError: The status is an error.
    """
    status, *results = returned
    if int(status):
        _, text = driver().cuGetErrorString(status)
        raise DeviceError(
            f"the GPU's driver reported an error: {(text or b'?').decode()} ({status.name})"
        )
    return results[0] if results else None


def devices() -> tuple[DeviceInfo, ...]:
    """Return the GPUs that `Solver(device=...)` can use; () without a driver or the cuda extra."""
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
            f'device="cuda" needs an NVIDIA GPU and its driver; found: {error}'
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
    """Return an attribute of a device."""
    which = getattr(driver().CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
    return int(check(driver().cuDeviceGetAttribute(which, handle)))


def device_named(name: str) -> tuple[int, DeviceInfo]:
    """Return the number of a GPU ("cuda" is the first) and its properties.

    Raises:
        MissingExtraError: The packages are not installed.
        DeviceError: The GPU does not exist, or there is no driver.
    """
    available = _devices()
    number = 0 if name == "cuda" else int(name.removeprefix("cuda:"))
    if number >= len(available):
        found = ", ".join(map(str, available)) or "none"
        raise DeviceError(f"the GPU {name!r} does not exist. Available: {found}")
    return number, available[number]


def compile_source(
    text: str, architecture: str, *, accurate_sines: bool = False, relocatable: bool = False
) -> bytes:
    """Compile C++ source by NVRTC, or read the machine code from the cache on disk.

    Args:
        text: The source.
        architecture: Architecture of the GPU, for example "sm_90".
        accurate_sines: Whether sines are as accurate as on a CPU and quotients and roots accurate
            to 2 ulp, for float32 results that are returned to the user. If false, faster
            approximations are used, for results that are verified in float64.
        relocatable: Whether the code can be linked with other code.

    Raises:
        MissingExtraError: NVRTC is not installed.
    """
    arithmetic = _ACCURATE_SINES if accurate_sines else _FAST_MATH
    linked = _RELOCATABLE if relocatable else ()
    options = (*_OPTIONS, *arithmetic, *linked, *_OF_FILE.findall(text))
    key = (text, *options, architecture, nvrtc_version())
    return cached(key, lambda: _compiled(text, (*options, f"-arch={architecture}")))


def compile_linked(texts: Sequence[str], architecture: str) -> bytes:
    """Compile several C++ sources in parallel and link them; a CUDA context must be current.

    Args:
        texts: The sources; each may define functions that another source declares `extern`.
        architecture: Architecture of the GPU, for example "sm_90".
    """
    from concurrent.futures import ThreadPoolExecutor  # kept out of the import of supple

    if len(texts) == 1:
        return compile_source(texts[0], architecture)

    def make() -> bytes:
        with ThreadPoolExecutor() as pool:  # (the compiler releases the GIL)
            compiled = pool.map(
                lambda one: compile_source(one, architecture, relocatable=True), texts
            )
            return link(list(compiled))

    return cached(
        (*texts, *_OPTIONS, *_FAST_MATH, *_RELOCATABLE, architecture, nvrtc_version()), make
    )


@lru_cache(maxsize=1)
def nvrtc_version() -> str:
    """Return the version of the compiler, if possible from its package, without loading NVRTC."""
    from importlib import metadata  # imported here: it takes a tenth of the import time

    for name in ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return ".".join(map(str, _nvrtc()[1:]))


@lru_cache(maxsize=1)
def _nvrtc() -> tuple[Any, int, int]:
    """Return NVRTC and its version."""
    driver()
    from cuda.bindings import nvrtc

    try:
        status, major, minor = nvrtc.nvrtcVersion()
    except RuntimeError as error:  # (the bindings are installed, but not the library)
        raise MissingExtraError("cuda", "compiling for a GPU") from error
    check((status, None))
    return nvrtc, major, minor


def _compiled(text: str, options: Sequence[str]) -> bytes:
    """Compile C++ source by NVRTC."""
    nvrtc, *_ = _nvrtc()
    flags = [option.encode() for option in options]

    def done(returned: tuple[Any, ...]) -> Any:
        status, *results = returned
        if int(status):
            raise DeviceError(f"compiling for the GPU failed ({status.name}): {log()}")
        return results[0] if results else None

    def log() -> str:
        written = b" " * int(nvrtc.nvrtcGetProgramLogSize(program)[1])
        nvrtc.nvrtcGetProgramLog(program, written)
        return written.decode(errors="replace")

    program = done(nvrtc.nvrtcCreateProgram(text.encode(), b"supple.cu", 0, [], []))
    try:
        done(nvrtc.nvrtcCompileProgram(program, len(flags), flags))
        code = b" " * int(done(nvrtc.nvrtcGetCUBINSize(program)))
        done(nvrtc.nvrtcGetCUBIN(program, code))
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return code


def link(codes: Sequence[bytes]) -> bytes:
    """Link pieces of machine code with the CUDA driver's linker; a CUDA context must be current."""
    cuda = driver()
    kind = cuda.CUjitInputType.CU_JIT_INPUT_CUBIN
    state = check(cuda.cuLinkCreate(0, [], []))
    try:
        for code in codes:
            check(cuda.cuLinkAddData(state, kind, code, len(code), b"supple", 0, [], []))
        status, pointer, size = cuda.cuLinkComplete(state)
        check((status,))
        return ctypes.string_at(pointer, size)  # a copy: the link state owns the code
    finally:
        check(cuda.cuLinkDestroy(state))


class Device:
    """One GPU: memory, copies, and launches of CUDA kernels on its streams."""

    number: int
    context: CUcontext  # the primary context, which other libraries share
    pool: CUmemoryPool
    processors: int
    architecture: str

    def __init__(self, number: int) -> None:
        self.number = number
        self._driver = driver()
        check(self._driver.cuInit(0))
        handle = check(self._driver.cuDeviceGet(number))
        self.context = check(self._driver.cuDevicePrimaryCtxRetain(handle))
        self.use()
        self.pool = self._new_pool(handle)
        self.processors = _attribute(handle, "MULTIPROCESSOR_COUNT")
        major, minor = (_attribute(handle, f"COMPUTE_CAPABILITY_{x}") for x in ("MAJOR", "MINOR"))
        self.architecture = f"sm_{major}{minor}"
        self._stream = int(check(self._driver.cuStreamCreate(1)))

    def use(self) -> None:
        """Make the context of the device current in this thread."""
        check(self._driver.cuCtxSetCurrent(self.context))

    def _new_pool(self, handle: Any) -> Any:
        """Return a memory pool that keeps freed memory, up to `_KEPT_MEMORY_SHARE` of the GPU's.

        The default pool returns freed memory to the driver at every synchronization.
        """
        cuda = self._driver
        wanted = cuda.CUmemPoolProps()
        wanted.allocType = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        wanted.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        wanted.location.id = self.number
        pool = check(cuda.cuMemPoolCreate(wanted))
        threshold = cuda.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        kept = int(_KEPT_MEMORY_SHARE * int(check(cuda.cuDeviceTotalMem(handle))))
        check(cuda.cuMemPoolSetAttribute(pool, threshold, cuda.cuuint64_t(kept)))
        return pool

    def functions(self) -> list[int]:
        """Return the addresses of the driver's functions that `_core.Launches` calls."""
        find = self._driver.cuGetProcAddress
        return [int(check(find(name, _INTERFACE, 0)[:2])) for name in _LAUNCHING]

    def stream(self) -> int:
        """Return the default stream, for callers that give none."""
        return self._stream

    def order(self, before: int, after: int | None) -> None:
        """Make stream `after` wait for the work queued on stream `before`.

        Nothing is done if `after` is None or -1, or if both are the same stream.
        """
        if after is None or after in (-1, before) or {before, after} <= {0, 1}:
            return
        self.use()
        event = check(self._driver.cuEventCreate(2))  # (without timing)
        check(self._driver.cuEventRecord(event, before))
        check(self._driver.cuStreamWaitEvent(after, event, 0))
        check(self._driver.cuEventDestroy(event))

    def captures(self, stream: int) -> bool:
        """Return whether work on a stream is captured in a CUDA graph instead of being executed."""
        return bool(int(check(self._driver.cuStreamIsCapturing(stream))))

    def load(self, code: bytes, names: tuple[str, ...]) -> dict[str, CUfunction]:
        """Load machine code and return its CUDA kernels by name."""
        module = check(self._driver.cuModuleLoadData(code))
        return {
            name: check(self._driver.cuModuleGetFunction(module, name.encode())) for name in names
        }

    def resident(self, kernel: Any, threads: int) -> int:
        """Return how many blocks of `threads` threads of a CUDA kernel can run at the same time."""
        ask = self._driver.cuOccupancyMaxActiveBlocksPerMultiprocessor
        return self.processors * max(1, int(check(ask(kernel, threads, 0))))

    def allocate(self, size: int, stream: int) -> Memory:
        """Allocate `size` bytes, which are freed when the returned object is deleted."""
        made = check(self._driver.cuMemAllocFromPoolAsync(max(size, 1), self.pool, stream))
        return Memory(self, int(made), stream)

    def free(self, pointer: int, stream: int) -> None:
        """Free memory; errors are ignored, because this runs in a destructor."""
        self._driver.cuMemFreeAsync(pointer, stream)

    def zero(self, pointer: int, size: int, stream: int) -> None:
        """Set bytes to zero."""
        check(self._driver.cuMemsetD8Async(pointer, 0, size, stream))

    def upload(self, pointer: int, source: Any, stream: int) -> None:
        """Copy a C-contiguous NumPy array to the GPU."""
        check(self._driver.cuMemcpyHtoDAsync(pointer, source.ctypes.data, source.nbytes, stream))

    def download(self, target: Any, pointer: int, stream: int) -> None:
        """Copy from the GPU to a C-contiguous NumPy array, and wait for the copy."""
        check(self._driver.cuMemcpyDtoHAsync(target.ctypes.data, pointer, target.nbytes, stream))
        self.wait(stream)

    def wait(self, stream: int) -> None:
        """Wait until all work on a stream is done."""
        check(self._driver.cuStreamSynchronize(stream))

    def launch(
        self,
        kernel: Any,
        blocks: int,
        threads: int,
        stream: int,
        *arguments: ctypes.Structure | Any,
    ) -> None:
        """Launch a CUDA kernel; arguments are ctypes objects, passed by value."""
        each = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(one) for one in arguments))
        check(
            self._driver.cuLaunchKernel(
                kernel, blocks, 1, 1, threads, 1, 1, 0, stream, ctypes.addressof(each), 0
            )
        )


class Memory:
    """An allocation in GPU memory."""

    device: Device
    pointer: int
    stream: int

    def __init__(self, device: Device, pointer: int, stream: int) -> None:
        self.device, self.pointer, self.stream = device, pointer, stream

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at exit, the driver may already be unloaded
            self.device.free(self.pointer, self.stream)


@lru_cache(maxsize=8)
def open_device(number: int) -> Device:
    """Return a GPU by its number; its context is created on first use."""
    return Device(number)
