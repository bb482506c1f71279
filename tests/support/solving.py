"""Functions that call `Solver` in any form, so that tests can vary the form and the options."""

from __future__ import annotations

from typing import Any

import supple
from supple.errors import InputError
from supple.gpu.device import on_a_gpu

_IN_ONE_LINE = {
    *("frame", "tasks", "q0", "prefer", "max_move", "position_tolerance", "rotation_tolerance"),
    "explain",
}
_OF_BATCH = ("progress", "stream")


def solve(robot: Any, target: Any, **options: Any) -> Any:
    """Solve one target or a batch, with the arguments of `Solver` and of its calls.

    `solutions` is the argument of `Solver.several`, or "all" for `Solver.all`, with `wraps`. One
    target is solved by `supple.solve` if `supple.solve` accepts all the options.
    """
    several = options.pop("solutions", None)
    of_batch = {name: options.pop(name) for name in _OF_BATCH if name in options}
    if several is None and not of_batch and not on_a_gpu(target):
        try:
            return _one(robot, target, options)
        except InputError as error:
            if "given: a batch of shape" not in str(error) or options.get("explain"):
                raise
    q0, wraps = options.pop("q0", None), options.pop("wraps", False)
    options.pop("explain", None)
    solver = supple.Solver(robot, **options)
    if isinstance(several, str):
        of_batch.pop("progress", None)
        return solver.all(target, q0, wraps=wraps, **of_batch)
    if several is not None:
        return solver.several(target, several, q0)
    return solver.batch(target, q0, **of_batch)


def batch(robot: Any, targets: Any, **options: Any) -> Any:
    """Solve a batch by `Solver.batch`, with arguments like those of `solve`."""
    q0 = options.pop("q0", None)
    return supple.Solver(robot, **options).batch(targets, q0)


def _one(robot: Any, target: Any, options: dict[str, Any]) -> supple.Solution:
    if options.keys() <= _IN_ONE_LINE:
        return supple.solve(robot, target, **options)
    of_call = {name: value for name, value in options.items() if name in ("q0", "explain")}
    fixed = {name: value for name, value in options.items() if name not in of_call}
    return supple.Solver(robot, **fixed)(target, **of_call)
