"""Text of objects that hold a user's functions: names instead of memory addresses."""

from __future__ import annotations

import functools
from dataclasses import fields
from typing import Any


class Readable:
    """A dataclass whose repr shows a user's own rules, steps and criteria by name."""

    def __repr__(self) -> str:
        every = fields(self)  # type: ignore[arg-type]
        shown = [f"{f.name}={readable(getattr(self, f.name))}" for f in every if f.repr]
        return f"{type(self).__qualname__}({', '.join(shown)})"


def readable(value: Any) -> str:
    """Return the repr of a value; for a function, or an object without its own repr, its name."""
    if isinstance(value, list | tuple):
        inside = ", ".join(readable(each) for each in value)
        comma = "," if isinstance(value, tuple) and len(value) == 1 else ""
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{comma})"
    text = repr(value)
    if " at 0x" not in text:
        return text
    return name_of(value.func if isinstance(value, functools.partial) else value)


def name_of(rule_or_step: object) -> str:
    """Return the name of a rule or step for a report: its function name or class name."""
    name = getattr(rule_or_step, "__name__", None) or type(rule_or_step).__name__
    return "lambda" if name == "<lambda>" else str(name)
