"""Calls with arrays in GPU memory: recorded once for each layout of the arrays, then repeated."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from supple._arrays.checks import library_name
from supple.gpu.arrays import DeviceArrayView, GpuArray, layout_of, seen, stream_of
from supple.gpu.queue import Recorded, given_array
from supple.gpu.runtime import Memory
from supple.ik.gpu.targets import DTYPES
from supple.ik.solutions import Solutions

_MOST = 64  # maximum number of layouts whose calls are kept


@dataclass(frozen=True)
class Part:
    """The place of an array in the memory of the results.

    Attributes:
        offset: Offset of its first number [bytes].
        dtype: Type of its numbers.
        lead: Batch axes.
        inner: Further axes, C-contiguous.
        step: Stride of the last batch axis, in numbers.
    """

    offset: int
    dtype: np.dtype[Any]
    lead: tuple[int, ...]
    inner: tuple[int, ...]
    step: int

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """Strides in numbers, not bytes."""
        outer, inner, size = [], [], 1
        for axis in reversed(self.inner):
            inner.append(size)
            size *= axis
        size = self.step
        for axis in reversed(self.lead):
            outer.append(size)
            size *= axis
        return (*reversed(outer), *reversed(inner))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return (*self.lead, *self.inner)

    def of(self, memory: Memory) -> GpuArray:
        """Return the array in the memory of one call."""
        pointer = memory.pointer + self.offset
        return GpuArray(self.shape, self.dtype, self.strides, pointer, memory)

    def view(self, pointer: int, device: int) -> DeviceArrayView:
        """Return the array in a block of memory whose address may be symbolic."""
        at = pointer + self.offset
        return DeviceArrayView(at, self.shape, self.dtype, device, None, self.strides, True)


def parts_of(n: int) -> dict[str, tuple[str, int, np.dtype[Any], tuple[int, ...], int]]:
    """Return the array, index of the first number, type, shape and stride of each result."""
    double, integer = np.dtype(np.float64), np.dtype(np.int32)
    return {
        "q": ("q", 0, double, (n,), n),
        "position_error": ("error", 0, double, (), 2),
        "rotation_error": ("error", 1, double, (), 2),
        "iterations": ("effort", 0, integer, (), 2),
        "restarts": ("effort", 1, integer, (), 2),
        "status": ("outcome", 0, np.dtype(np.int8), (), 1),
    }


@dataclass(frozen=True, eq=False)
class DeviceCall:
    """A recorded call.

    Attributes:
        recorded: The operations.
        parts: The results, by the names of fields of `Solutions`.
        fields: Other fields of the `Solutions`.
    """

    recorded: Recorded
    parts: dict[str, Part]
    fields: dict[str, Any]

    @cached_property
    def at_once(self) -> tuple[str, ...]:
        """Names of the parts that are attributes of the class `Solutions`; made in the call."""
        return tuple(name for name in self.parts if hasattr(Solutions, name))

    def __call__(self, stream: int, given: Sequence[int], out: Solutions | None) -> Solutions:
        """Queue the call on a stream, with the addresses of its arrays."""
        return self._queued(self.recorded, stream, given, out)

    def _queued(
        self, recorded: Recorded, stream: int, given: Sequence[int], out: Solutions | None
    ) -> Solutions:
        if out is None:
            return Solutions.on_gpu(self, recorded.run(stream, given))
        memory = out.memory_for(self)
        memory.stream = stream
        recorded.run(stream, given, memory)
        return out


class Record(Protocol):
    """Records a call, given the targets and seeds, and the name of the library of the targets."""

    def __call__(  # noqa: D102
        self, views: Sequence[DeviceArrayView], seeded: bool, *, library: str
    ) -> DeviceCall: ...


class DeviceCalls:
    """The calls of a solver with arrays in GPU memory, by the layout of the arrays.

    The arguments of both methods:

        kind     kind of the call, such as "batch" or "all"
        targets  targets, an array or a sequence of arrays
        q0       seeds, or None
        stream   CUDA stream, or None for that of the arrays
        out      results that are overwritten, or None
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, DeviceCall] = {}

    def repeat(
        self, kind: str, targets: Any, q0: Any, stream: Any, out: Solutions | None
    ) -> Solutions | None:
        """Repeat a call with other arrays; return None if there was none with this layout."""
        read = _layouts(targets, q0)
        call = None if read is None else self._known.get((kind, read[0]))
        if read is None or call is None:
            return None
        _, given, current = read
        if stream is None:
            return call(current, given, out)
        on = stream_of(stream, ())
        call.recorded.device.order(current, on)
        return call(on, given, out)

    def first(
        self,
        kind: str,
        targets: Any,
        q0: Any,
        stream: Any,
        out: Solutions | None,
        split: Callable[[Any], Sequence[object]],
        record: Record,
    ) -> Solutions:
        """Make a call that is not recorded yet, and record it for later calls with its layout.

        Args:
            kind: See `DeviceCalls`.
            targets: See `DeviceCalls`.
            q0: See `DeviceCalls`.
            stream: See `DeviceCalls`.
            out: See `DeviceCalls`.
            split: Returns the targets of each task.
            record: Records a call, for the targets of each task and the seeds if there are any.
        """
        seeds = [] if q0 is None else [q0]
        arrays = list(targets) if isinstance(targets, list | tuple) else [targets]
        on = stream_of(stream, (*arrays, *seeds))
        each = list(split(targets))
        # The targets of the tasks are arrays of their own, or parts of one array.
        owners = range(len(each)) if len(arrays) > 1 else [0] * len(each)
        names = ["target"] if len(arrays) == 1 else [f"target {i}" for i in range(len(arrays))]
        given = [_seen(one, on, name) for one, name in zip(arrays, names, strict=True)]
        views = [_seen(one, on, names[i]) for one, i in zip(each, owners, strict=True)]
        owners = [*owners, *(len(arrays) for _ in seeds)]
        near = [_seen(one, on, "q0") for one in seeds]
        given, views = [*given, *near], [*views, *near]
        quick = _layouts(targets, q0)
        each_layout = ((one.dtype.char, one.shape, one.strides) for one in views)
        layout: Hashable = (library_name(arrays[0]), *each_layout)
        key = (kind, (q0 is None, layout) if quick is None else quick[0])
        call = self._known.get(key)
        if call is None:
            symbolic = [
                replace(view, pointer=given_array(i) + view.pointer - given[i].pointer)
                for view, i in zip(views, owners, strict=True)
            ]
            call = record(symbolic, q0 is not None, library=library_name(arrays[0]))
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[key] = call
        return call(on, [one.pointer for one in given], out)


def _seen(given: object, stream: int, name: str) -> DeviceArrayView:
    return seen(given, stream, name, dtypes=DTYPES, strided=True)


def _layouts(targets: Any, q0: Any) -> tuple[Hashable, list[int], int] | None:
    """Return the layouts and addresses of the arrays of a call, and their stream."""
    if q0 is None and not isinstance(targets, list | tuple):  # the usual case, with less work
        read = layout_of(targets)
        return None if read is None else ((True, read[0]), [read[1]], read[2])
    given = list(targets) if isinstance(targets, list | tuple) else [targets]
    if q0 is not None:
        given.append(q0)
    each = []
    for one in given:
        read = layout_of(one)
        if read is None:
            return None
        each.append(read)
    return (q0 is None, *(one[0] for one in each)), [one[1] for one in each], each[0][2]
