"""The errors of supple: each states what was given, what was expected and what is available."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from inspect import Parameter, signature
from typing import Any, TypeVar

__all__ = [
    "DescriptionError",
    "DeviceError",
    "InputError",
    "MissingExtraError",
    "SuppleError",
    "UnknownNameError",
]


def __dir__() -> list[str]:
    return __all__


Function = TypeVar("Function", bound=Callable[..., Any])

_MAX_NAMES = 20  # maximum number of names listed in one message
_MAX_CHARACTERS = 80  # maximum length of one value in a message
# Optional dependencies, as in pyproject.toml.
_CLI, _PLOT = ("click>=8.1", "rich>=13.7,<15"), ("matplotlib>=3.8",)
EXTRAS = {
    "cli": _CLI,
    "plot": _PLOT,
    "papers": (*_CLI, *_PLOT),
    "parquet": ("pyarrow>=14",),
    "ray": ("ray[data]>=2.40", "pyarrow>=14"),
    "view": (*_CLI, "viser>=1.1,<2", "trimesh>=4.0,<6", "pycollada>=0.8", "mujoco>=3.3"),
    "cuda": ("cuda-core[cu13]>=0.5",),
    "xacro": ("xacro>=2.1",),
    "mujoco": ("mujoco>=3.3",),
    "pinocchio": ("pin>=4.0",),
    "torch": ("torch>=2.5",),
    "jax": ("jax>=0.4.35",),
}
_MAX_COMPARED = 1000  # maximum number of names compared with an unknown one: comparing is slow
_MIN_WORD = 3  # shortest given word for which names that contain it are similar [characters]


class SuppleError(Exception):
    """Base class of all errors that supple raises on purpose."""


class DescriptionError(SuppleError, ValueError):
    """A robot description (file, table or tree of joints) is invalid."""


class UnknownNameError(SuppleError, LookupError):
    """No robot, joint, frame or option has the given name."""


class InputError(SuppleError, ValueError):
    """An argument has the wrong type, shape or dtype, or contains values that are not finite."""


class MissingExtraError(SuppleError, ImportError):
    """An optional dependency is not installed.

    The message contains a pip command that names the packages themselves, so that it also works if
    supple was installed from a clone.

    Attributes:
        extra: Name of the extra that installs the dependency, one of `EXTRAS`.
        purpose: The feature that needs the dependency.
    """

    extra: str
    purpose: str

    def __init__(self, extra: str, purpose: str) -> None:
        packages = " ".join(f'"{each}"' for each in EXTRAS[extra])
        super().__init__(f'{purpose} needs the extra "{extra}": pip install {packages}')
        self.extra = extra
        self.purpose = purpose

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.extra, self.purpose), vars(self))


class DeviceError(SuppleError, RuntimeError):
    """A GPU, its driver or its compiler is not available or failed."""


def short_repr(value: object) -> str:
    """Return the repr of a value, shortened for a message, or its type if repr fails."""
    try:
        text = repr(value)
    except Exception:  # raised by the object's own __repr__
        text = f"<{type(value).__name__} object>"
    return text if len(text) <= _MAX_CHARACTERS else f"{text[: _MAX_CHARACTERS - 1]}…"


def join_names(names: Iterable[str]) -> str:
    """Return quoted names separated by commas: the first 20, and the number of the others."""
    quoted = [short_repr(name) for name in names]
    more = len(quoted) - _MAX_NAMES
    return ", ".join(quoted[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def unknown_name_error(kind: str, given: object, available: Iterable[str]) -> UnknownNameError:
    """Return the error for an unknown name, with similar names and all available ones.

    Args:
        kind: Noun for the named thing, such as "robot" or "joint".
        given: The unknown name.
        available: The names that exist.
    """
    names = list(available)
    close = _similar(given, names) if isinstance(given, str) else []
    hint = f"; did you mean {' or '.join(short_repr(name) for name in close)}?" if close else "."
    choices = f"Available: {join_names(names)}." if names else f"No {kind} is available."
    return UnknownNameError(f"unknown {kind} {short_repr(given)}{hint} {choices}")


def check_one_of(given: object, kind: str, names: Sequence[str]) -> None:
    """Raise `unknown_name_error` unless `given` is one of `names`."""
    if not isinstance(given, str) or given not in names:
        raise unknown_name_error(kind, given, names)


def warn(message: str) -> None:
    """Issue a UserWarning for the line of the user's code that called supple."""
    inside = (os.path.dirname(__file__) + os.sep, functools.__file__)
    level, frame = 1, sys._getframe()
    while frame.f_back:
        code = frame.f_code
        generated = code.co_filename == "<string>" and code.co_name == "__init__"  # of a dataclass
        if not generated and not code.co_filename.startswith(inside):
            break
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)


def known_arguments(**hints: str) -> Callable[[Function], Function]:
    """Decorate a function or a class so that unknown keywords raise an error with similar names.

    Args:
        hints: Sentences that say what to use instead, keyed by the name of an argument that the
            function does not have but that users of other libraries may expect.
    """

    def decorate(function: Function) -> Function:
        if isinstance(function, type):
            function.__init__ = checked(function.__init__, function.__name__)  # type: ignore[misc]
            return function
        return checked(function, function.__qualname__.removesuffix(".__init__"))

    def checked(function: Function, called: str) -> Function:
        kinds = {name: each.kind for name, each in signature(function).parameters.items()}
        ordered = [name for name in kinds if name != "self"]
        names = set(ordered)
        named = [name for name, kind in kinds.items() if kind is Parameter.KEYWORD_ONLY]
        positional = len(kinds) - len(named) if named else sys.maxsize

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not kwargs.keys() <= names:
                given = next(name for name in kwargs if name not in names)
                if given in hints:
                    raise UnknownNameError(f"unknown argument {given!r}. {hints[given]}")
                raise unknown_name_error("argument", given, ordered)
            if len(args) > positional:
                own, others = "self" in kinds, ", ".join(f"{name}=" for name in named)
                raise TypeError(
                    f"{called} takes at most {positional - own} positional arguments; "
                    f"given: {len(args) - own}. Pass the others by name: {others}"
                )
            return function(*args, **kwargs)

        call.__kwdefaults__ = function.__kwdefaults__  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]

    return decorate


_FREEZE_HINT = (
    "To move only some joints, freeze the others: arm = robot.freeze({name: position}); "
    "arm.full_q(q) is the configuration of the whole robot."
)
_LIMITS = "To change position limits: robot.with_limits(lower=..., upper=..., margin=...)."
# Arguments of `Limits.for_robot` that users look for in the functions that take limits.
_OF_LIMITS = (
    *("mode", "max_speed", "max_acceleration", "max_jerk", "max_norm", "speed_factor"),
    *("slow_condition", "halt_condition"),
)


def _limit_hints(own: str, names: Iterable[str]) -> dict[str, str]:
    """Return hints for names of a limit in other libraries; `own` is the name in supple."""
    return dict.fromkeys(names, f"The limit is called {own}.")


_WEIGHT = (
    "A task has a weight instead: one number, or one per row, for a pose weight=(x, y, z, rx, ry, "
    "rz)."
)
# Hints for `known_arguments`, one mapping for each group of functions and classes.
HINTS = {  # functions that solve or control
    "joints": _FREEZE_HINT,
    "limits": _LIMITS,
    **{
        name: "Servo and simulate take it as a part of their limits: "
        f"limits=supple.Limits.for_robot(robot, {name}=...)."
        for name in _OF_LIMITS
    },
}
LIMIT_HINTS = {  # `Limits`
    **_limit_hints("max_speed", ("vel", "velocity", "max_vel", "max_velocity", "speed")),
    **_limit_hints("max_acceleration", ("acc", "accel", "acceleration", "max_acc", "max_accel")),
    **_limit_hints("max_jerk", ("jerk",)),
    **dict.fromkeys(
        ("pos", "position", "positions", "qlim"), "Position limits are called lower and upper."
    ),
}
TASK_HINTS = {  # tasks
    **dict.fromkeys(("cost", "position_cost", "orientation_cost", "weights"), _WEIGHT),
    **dict.fromkeys(
        ("damping", "lm_damping"),
        "Damping belongs to the step: supple.DLS(rule), for Servo(step=).",
    ),
    "mask": 'A task names its rows instead: rows=("x", "y", "z").',
    **dict.fromkeys(
        ("target", "velocity"),
        "It is an argument of the call: servo(q, target=...), supple.solve(robot, target).",
    ),
}


def _similar(given: str, names: list[str]) -> list[str]:
    """Return at most three names that resemble the given one or contain it, ignoring case."""
    from difflib import get_close_matches  # imported here, so that importing supple is fast

    short = [name for name in names[:_MAX_COMPARED] if len(name) <= _MAX_CHARACTERS]
    by_lower = {name.lower(): name for name in reversed(short)}
    word = given[:_MAX_CHARACTERS].lower()
    close = get_close_matches(word, by_lower, n=3)
    if len(word) >= _MIN_WORD:  # shorter names first: they have fewer other characters
        longer = sorted(
            (name for name in by_lower if word in name), key=lambda name: (len(name), name)
        )
        close += [name for name in longer if name not in close]
    return [by_lower[lower] for lower in close[:3]]
