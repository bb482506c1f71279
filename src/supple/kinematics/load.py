"""Robots by name, file or table: the readers of `supple.describe`, stood up in the world."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import ParamSpec

from supple import describe
from supple.kinematics.robot import Robot

P = ParamSpec("P")


def _standing(reader: Callable[P, describe.Description], name: str) -> Callable[P, Robot]:
    """A reader of descriptions -> the same reader, of robots."""

    @wraps(reader)
    def read(*args: P.args, **kwargs: P.kwargs) -> Robot:
        return Robot(reader(*args, **kwargs))

    read.__name__ = read.__qualname__ = name
    read.__module__ = __name__
    read.__annotations__ = {**reader.__annotations__, "return": "Robot"}
    read.__signature__ = signature(reader).replace(return_annotation="Robot")  # type: ignore[attr-defined]
    return read


load = _standing(describe.builtin, "load")
dh = _standing(describe.dh, "dh")
urdf = _standing(describe.urdf, "urdf")
mjcf = _standing(describe.mjcf, "mjcf")
