"""Robots by name, file or table: the readers of `supple.describe`, returning a `Robot`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import ParamSpec

from supple import describe
from supple.errors import known_arguments
from supple.kinematics.robot import Robot

P = ParamSpec("P")


def _robot_reader(reader: Callable[P, describe.Description], name: str) -> Callable[P, Robot]:
    """Return a function that reads a `Robot`, with the signature of a reader of descriptions."""

    @wraps(reader)
    def read(*args: P.args, **kwargs: P.kwargs) -> Robot:
        return Robot(reader(*args, **kwargs))

    read.__name__ = read.__qualname__ = name
    read.__module__ = __name__
    read.__annotations__ = {**reader.__annotations__, "return": "Robot"}
    read.__signature__ = signature(reader).replace(return_annotation="Robot")  # type: ignore[attr-defined]
    return known_arguments()(read)


load = _robot_reader(describe.builtin, "load")
dh = _robot_reader(describe.dh, "dh")
urdf = _robot_reader(describe.urdf, "urdf")
mjcf = _robot_reader(describe.mjcf, "mjcf")
