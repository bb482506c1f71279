"""The errors of supple: each says what was given, what was expected and what there is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

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


_MAX_LISTED = 20
_MAX_SHOWN = 80
_MAX_COMPARED = 1000  # names, and of each at most _MAX_SHOWN characters: comparing is slow


class SuppleError(Exception):
    """Base of every error that supple raises on purpose."""


class DescriptionError(SuppleError, ValueError):
    """A robot description (a file, a table, a tree of joints) is not right."""


class UnknownNameError(SuppleError, LookupError):
    """A robot, joint, frame or option was asked for by a name that does not exist."""


class InputError(SuppleError, ValueError):
    """An argument has the wrong type, shape or dtype, or holds values that are not finite."""


class MissingExtraError(SuppleError, ImportError):
    """An optional dependency is not installed; the message says which extra brings it."""

    def __init__(self, extra: str, purpose: str) -> None:
        super().__init__(f'{purpose} needs an optional extra: pip install "supple[{extra}]"')
        self.extra = extra
        self.purpose = purpose

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.extra, self.purpose), vars(self))


class DeviceError(SuppleError, RuntimeError):
    """A GPU, its driver or its compiler is not available or failed."""


def short_repr(value: object) -> str:
    """The repr of a value, shortened to fit in a sentence; its type if it has none."""
    try:
        text = repr(value)
    except Exception:  # an object's own
        text = f"<{type(value).__name__} object>"
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"


def listed(names: Iterable[str]) -> str:
    """Names joined by commas; a long list is cut and the rest counted."""
    each = [short_repr(name) for name in names]
    more = len(each) - _MAX_LISTED
    return ", ".join(each[:_MAX_LISTED]) + (f" and {more} more" if more > 0 else "")


def unknown(kind: str, given: object, available: Iterable[str]) -> UnknownNameError:
    """The error for an unknown name: what was given, the nearest names, what there is.

    `kind` is a noun such as "robot" or "joint"; raise the returned error.
    """
    names = list(available)
    close = _nearest(given, names) if isinstance(given, str) else []
    hint = f"; did you mean {' or '.join(short_repr(name) for name in close)}?" if close else "."
    there_is = f"There is: {listed(names)}." if names else f"There is no {kind} at all."
    return UnknownNameError(f"unknown {kind} {short_repr(given)}{hint} {there_is}")


def one_of(given: object, kind: str, names: Sequence[str]) -> None:
    """Refuse what is none of some names; `kind` is a noun, as in `unknown`."""
    if not isinstance(given, str) or given not in names:
        raise unknown(kind, given, names)


def _nearest(given: str, names: list[str]) -> list[str]:
    """At most three names that look like the one given, whatever their case."""
    short = [name for name in names[:_MAX_COMPARED] if len(name) <= _MAX_SHOWN]
    by_lower = {name.lower(): name for name in reversed(short)}
    return [by_lower[low] for low in get_close_matches(given[:_MAX_SHOWN].lower(), by_lower, n=3)]
