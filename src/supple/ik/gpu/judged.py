"""Calls that choose among solutions on a GPU by a function that the caller gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from supple.errors import InputError, short_repr
from supple.gpu.arrays import DeviceArrayView, seen, stream_of
from supple.gpu.libraries import in_library, readable
from supple.gpu.queue import Recorded, Recording, given_array
from supple.ik.gpu.calls import DeviceCall, Part, parts_of
from supple.ik.gpu.ranking import rank
from supple.ik.gpu.request import SolutionPointers
from supple.ik.gpu.targets import DTYPES, Reader
from supple.ik.solutions import Solutions


@dataclass(frozen=True, eq=False)
class JudgedCall(DeviceCall):
    """A recorded call that chooses among solutions by a function of the caller.

    `recorded` chooses by costs in float64, given the results of the search and the costs.

    Attributes:
        search: The search for several solutions of each target.
        by_floats: The choice by costs in float32.
        prefer: The function, which is called once with all solutions (..., s, n), an array of the
            library of the targets, and returns the costs of the solutions (..., s).
        library: Name of the library of the targets.
    """

    search: DeviceCall
    by_floats: Recorded
    prefer: Callable[[Any], Any]
    library: str

    def __call__(self, stream: int, given: Sequence[int], out: Solutions | None) -> Solutions:
        """Queue the search, call the function, and queue the choice."""
        device = self.recorded.device
        found = self.search.recorded.run(stream, given)
        q = self.search.parts["q"].of(found)
        costs, view, on = self._costs(in_library(q, self.library), q.shape[:-1], stream)
        device.order(on, stream)
        recorded = self.by_floats if view.dtype == np.float32 else self.recorded
        made = self._queued(recorded, stream, [found.pointer, view.pointer], out)
        device.order(stream, on)  # work on `on` may reuse the memory of the costs
        del costs
        return made

    def _costs(
        self, q: Any, shape: tuple[int, ...], stream: int
    ) -> tuple[Any, DeviceArrayView, int]:
        """Return the costs of solutions: an array, a view of it, and the stream that writes it."""
        given = self.prefer(q)
        with suppress(InputError):
            costs = readable(given, "the costs")
            on = stream_of(None, (costs,)) or stream
            view = seen(costs, on, "costs", dtypes=DTYPES)
            if view.shape == shape and view.dense:
                return costs, view, on
        raise InputError(
            "for targets in GPU memory, prefer is called once with all solutions (..., n), and "
            f"must return an array of costs {shape} in GPU memory; given: {short_repr(given)}"
        )


def judged(
    reader: Reader,
    search: DeviceCall,
    listed: bool,
    kept: int,
    sizes: dict[str, int],
    prefer: Callable[[Any], Any],
    library: str,
) -> JudgedCall:
    """Return the call of a search whose solutions are chosen by a function of the caller.

    Args:
        reader: A converter of arrays.
        search: The search for several solutions of each target.
        listed: Whether the results have an axis with the solutions of each target.
        kept: Number of solutions of each target that are kept.
        sizes: Size of each array of results [bytes].
        prefer: The function.
        library: Name of the library of the function's arguments.
    """
    n, lead = reader.problem.layout.robot.nq, search.parts["_count"].lead
    count, most = math.prod(lead), search.parts["q"].lead[-1]
    sizes = sizes | {"q": 8 * n * kept * count, "solutions": 4 * count}
    seeds = search.parts.get("q0")
    if seeds is not None:
        sizes["q0"] = 8 * n * math.prod(seeds.lead)
    arrays = {"q": "q", "error": "position_error", "effort": "iterations"}
    arrays |= {"outcome": "status", "solutions": "_count"}
    given = {a: given_array(0) + search.parts[name].offset for a, name in arrays.items()}
    found, made, parts = SolutionPointers.among(given, most), [], dict[str, Part]()
    for floats in (0, 1):
        recording = Recording(reader.device)
        begins, at = recording.arrays(sizes)
        to, costs = SolutionPointers.among(at, kept), (given_array(1), floats)
        if count:
            rank(reader.device, reader.architecture, found, costs, n, to, count, recording)
        if seeds is not None:
            view = seeds.view(given_array(0), reader.device.number)
            reader.copy(view, at["q0"], recording)
            parts["q0"] = replace(seeds, offset=begins["q0"])
        made.append(recording.recorded())
    axes = (*lead, kept) if listed else lead
    for name, (array, place, kind, inner, step) in parts_of(n).items():
        parts[name] = Part(begins[array] + place * kind.itemsize, kind, axes, inner, step)
    fields = dict(search.fields)
    if listed:
        parts["_count"] = replace(search.parts["_count"], offset=begins["solutions"])
    else:
        del fields["_targets"]
    return JudgedCall(made[0], parts, fields, search, made[1], prefer, library)
