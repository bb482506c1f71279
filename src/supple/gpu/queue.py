"""Work on a GPU: queued immediately, or recorded and repeated with other arrays.

A call launches several CUDA kernels. To repeat a call with arrays of the same shapes, only
addresses change. A `Recording` collects the launches once, with symbolic addresses, and the
compiled code repeats them (`src/core/bindings/launches.cpp`) in a few microseconds.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from supple import _core
from supple.gpu.runtime import Device, Memory, check, driver

_ALIGNMENT_BYTES = 256  # alignment of arrays
_ID_SHIFT = 56  # symbolic addresses are above all addresses of a GPU: id of a block << _ID_SHIFT
# Largest size of results whose memory is used again [bytes]; largest number of blocks that are kept
# for each stream, and largest number of streams.
_MAX_REUSED_BYTES, _MAX_BLOCKS, _MAX_STREAMS = 1 << 20, 4, 8
_RESULTS, _SCRATCH, _INPUTS = 1, 2, 3  # ids of a call's two blocks; of the caller's arrays


class Block(Protocol):
    """Memory on a GPU: its address, symbolic in a recording."""

    @property
    def pointer(self) -> int: ...  # noqa: D102


class Work(Protocol):
    """Operations on a GPU, one after the other."""

    def scratch(self, size: int) -> Block:
        """Return memory of `size` bytes for the following operations."""
        ...

    def zero(self, pointer: int, size: int) -> None:
        """Set bytes to zero."""
        ...

    def launch(self, kernel: Any, blocks: int, threads: int, *arguments: Any) -> None:
        """Launch a CUDA kernel; arguments are ctypes objects, passed by value."""
        ...


@dataclass(frozen=True)
class Queue:
    """Operations that are queued on a stream immediately."""

    device: Device
    stream: int

    def scratch(self, size: int) -> Memory:  # noqa: D102
        return self.device.allocate(size, self.stream)

    def zero(self, pointer: int, size: int) -> None:  # noqa: D102
        self.device.zero(pointer, size, self.stream)

    def launch(self, kernel: Any, blocks: int, threads: int, *arguments: Any) -> None:  # noqa: D102
        self.device.launch(kernel, blocks, threads, self.stream, *arguments)


@dataclass(frozen=True)
class Symbol:
    """A symbolic address."""

    pointer: int


class Recording:
    """Operations that are recorded, to be repeated by `Recorded`."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._sizes = [1, 0]  # sizes of results and scratch memory [bytes]
        self._launches = _core.Launches(device.functions(), int(device.context), int(device.pool))

    def arrays(self, sizes: dict[str, int]) -> tuple[dict[str, int], dict[str, int]]:
        """Set the sizes of the results; return the offset and the address of each."""
        begins, size = placed(sizes)
        self._sizes[0] = max(size, 1)
        return begins, {name: (_RESULTS << _ID_SHIFT) + begin for name, begin in begins.items()}

    def scratch(self, size: int) -> Symbol:  # noqa: D102
        first = -(-self._sizes[1] // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        self._sizes[1] = first + size
        return Symbol((_SCRATCH << _ID_SHIFT) + first)

    def zero(self, pointer: int, size: int) -> None:  # noqa: D102
        self._launches.add_zero(pointer >> _ID_SHIFT, pointer & ((1 << _ID_SHIFT) - 1), size)

    def launch(self, kernel: Any, blocks: int, threads: int, *arguments: Any) -> None:  # noqa: D102
        patches = [
            (i, offset, pointer >> _ID_SHIFT)
            for i, one in enumerate(arguments)
            for offset, pointer in _pointers(one)
            if pointer >> _ID_SHIFT
        ]
        texts = [bytes(one) for one in arguments]
        self._launches.add_launch(int(kernel), blocks, threads, texts, patches)

    def recorded(self) -> Recorded:
        """Return the operations, ready to be repeated."""
        self._launches.set_sizes(*self._sizes)
        return Recorded(self.device, self._launches, self._sizes[0] <= _MAX_REUSED_BYTES)


class Blocks:
    """Blocks of memory of one size; later calls on the same stream use them again.

    Work on a stream is done in order, so a block may be written again once nobody refers to it.
    The driver's own memory pool also does this, but takes ten times as long.
    """

    def __init__(self, device: Device, stream: int) -> None:
        self.device, self.stream = device, stream
        self.free: list[int] = []

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at exit, the driver may already be unloaded
            for pointer in self.free:
                self.device.free(pointer, self.stream)


class ReusedMemory(Memory):
    """Memory that goes back to its `Blocks`."""

    def __init__(self, blocks: Blocks, pointer: int) -> None:
        self.device, self.pointer, self.stream = blocks.device, pointer, blocks.stream
        self._blocks = blocks

    def __del__(self) -> None:
        blocks = self._blocks
        if self.stream == blocks.stream and len(blocks.free) < _MAX_BLOCKS:
            blocks.free.append(self.pointer)
        else:
            super().__del__()


@dataclass(frozen=True)
class Recorded:
    """The operations of a recording.

    Attributes:
        device: The GPU.
        launches: The operations.
        reuses: Whether the memory of results is used again in later calls.
    """

    device: Device
    launches: _core.Launches
    reuses: bool = False
    _blocks: dict[int, Blocks] = field(default_factory=dict, compare=False)

    def run(self, stream: int, given: Sequence[int], results: Memory | None = None) -> Memory:
        """Queue the operations on a stream; return the memory with the results.

        Args:
            stream: The stream.
            given: Addresses of the caller's arrays.
            results: Memory for the results, of an earlier call; by default new memory.

        Raises:
            DeviceError: The driver reports an error.
        """
        if results is None and self.reuses:
            blocks = self._blocks.get(stream)
            if blocks is not None and blocks.free:
                with contextlib.suppress(IndexError):  # another thread may have taken the last one
                    results = ReusedMemory(blocks, blocks.free.pop())
        pointer = self.launches.run(stream, given, 0 if results is None else results.pointer)
        if pointer < 0:
            check((driver().CUresult(-pointer),))
        return self._made(pointer, stream) if results is None else results

    def _made(self, pointer: int, stream: int) -> Memory:
        """Return new memory for results."""
        if not self.reuses or self.device.captures(stream):  # a graph has memory of its own
            return Memory(self.device, pointer, stream)
        blocks = self._blocks.get(stream)
        if blocks is None:  # another thread may add blocks of this stream, or clear all
            if len(self._blocks) >= _MAX_STREAMS:
                self._blocks.clear()
            blocks = self._blocks.setdefault(stream, Blocks(self.device, stream))
        return ReusedMemory(blocks, pointer)


def given_array(number: int) -> int:
    """Return the symbolic address of an array that the caller gives, by its number."""
    return (_INPUTS + number) << _ID_SHIFT


def placed(sizes: dict[str, int]) -> tuple[dict[str, int], int]:
    """Return the offset of each of several arrays in one block, and the size of the block."""
    begins, end = {}, 0
    for name, size in sizes.items():
        begins[name] = end
        end += -(-size // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
    return begins, end


def allocate_arrays(sizes: dict[str, int], work: Work) -> tuple[Block, dict[str, int]]:
    """Allocate several arrays in one block of memory; return the block and their addresses."""
    begins, size = placed(sizes)
    memory = work.scratch(size)
    return memory, {name: memory.pointer + begin for name, begin in begins.items()}


def _pointers(argument: Any) -> Iterator[tuple[int, int]]:
    """Return the offset [bytes] and the value of each pointer in a ctypes object."""
    if isinstance(argument, ctypes.c_void_p):
        yield 0, argument.value or 0
    elif isinstance(argument, ctypes.Structure):
        for name, kind, *_ in argument._fields_:
            if kind is ctypes.c_void_p:
                yield getattr(type(argument), name).offset, getattr(argument, name) or 0
