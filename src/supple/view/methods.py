"""Steps of a `Servo` by name, with parameters derived from a robot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import supple as sp
from supple.errors import unknown_name_error

DEFAULT = "Default"  # the default step of a `Servo`
_STEPS = ("Pseudoinverse", "TruncatedSVD", "NumericalFilter", "SDLS", "Transpose")
_MAX_GAIN = 5.0  # bound on the gain of NumericalFilter and TruncatedSVD


def method_names() -> tuple[str, ...]:
    """Return the names of all methods: the default, damping rules of `DLS`, then other steps."""
    return (DEFAULT, *(rule.__name__ for rule in sp.damping.RULES), *_STEPS)


def method(
    name: str,
    robot: sp.Robot,
    *,
    dt: float,
    frames: Sequence[str] | None = None,
    rows: Sequence[str] | None = None,
    **parameters: float,
) -> Any:
    """Return the step of a method, with parameters derived from the robot; None for the default.

    Args:
        name: One of `method_names`, in upper or lower case.
        robot: The robot to move.
        dt: Length of a step [s].
        frames: The controlled frames; the end effectors if None.
        rows: The controlled rows of each frame; all if None.
        parameters: Parameters of the method that replace the derived ones.

    Raises:
        UnknownNameError: No method has this name, or the method has no such parameter.
    """
    known = {each.lower(): each for each in method_names()}
    if name.lower() not in known:
        raise unknown_name_error("method", name, method_names())
    chosen = known[name.lower()]
    if chosen == DEFAULT:
        made: Any = None
    elif chosen in _STEPS:
        made = _step(chosen)
    else:
        rule = getattr(sp.damping, chosen)
        which = None if frames is None else list(frames)
        made = rule.for_robot(robot, which, rows, dt=dt)
    values = numbers_of(made)
    for key in parameters:
        if key not in values:
            raise unknown_name_error(f"parameter of {chosen}", key, values)
    if parameters:
        same = {each.name: getattr(made, each.name) for each in fields(made)}
        made = type(made)(**{**same, **parameters})
    return made if chosen in (DEFAULT, *_STEPS) else sp.DLS(made)


def numbers_of(method: Any) -> dict[str, float]:
    """Return the numeric parameters of a rule or step with their values; {} for None."""
    if method is None:
        return {}
    rule: Any = method.rule if isinstance(method, sp.DLS) else method
    found = {}
    for each in fields(rule):
        value = getattr(rule, each.name)
        if isinstance(value, float) and not isinstance(value, bool):
            found[each.name] = value
    return found


def _step(name: str) -> Any:
    if name == "NumericalFilter":
        return sp.steps.NumericalFilter(_MAX_GAIN)
    if name == "TruncatedSVD":
        return sp.steps.TruncatedSVD(min_sigma=1 / _MAX_GAIN)
    return getattr(sp.steps, name)()
