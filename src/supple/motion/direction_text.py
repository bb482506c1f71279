"""Names of task rows, and directions of the task as text.

The name of a twist's row states the component and the frame: "x of hand", or "rz of hand relative
to torso in axes of torso". The axes are the world's unless they are named. Names of other rows are
used unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_ROW = re.compile(r"(r?)([xyz]) of (.+?)(?: relative to (.+?))?(?: in axes of (.+))?")
_SMALL = 0.05  # components of a unit vector below this are not mentioned


def axes_name(axes: str, frame: str) -> str:
    """Return the name of the axes of a frame's twist, as it appears in the names of rows."""
    return {"body": frame, "spatial": "spatial coordinates"}.get(axes, axes)


def row_name(component: str, frame: str, base: str | None = None, axes: str = "world") -> str:
    """Return the name of a twist's row: component "x" to "rz" of a frame, in the given axes."""
    relative = f" relative to {base}" if base else ""
    return f"{component} of {frame}{relative}" + (f" in axes of {axes}" if axes != "world" else "")


def direction_text(direction: NDArray[np.float64], rows: Sequence[str] = ()) -> str:
    """Return a task direction (m,) as text without its sign, such as "rotation about world z"."""
    u = direction / (np.linalg.norm(direction) or 1.0)
    u = u if u[np.argmax(np.abs(u))] >= 0 else -u
    twists: dict[tuple[str, str, str, str], NDArray[np.float64]] = {}
    others: dict[str, float] = {}
    for value, row in zip(u, rows or [f"row {i}" for i in range(len(u))], strict=True):
        found = _ROW.fullmatch(row)
        if not found:
            others[row] = float(value)
            continue
        turns, axis, frame, base, axes = found.groups(default="")
        part = twists.setdefault((turns, frame, base, axes), np.zeros(3))
        part["xyz".index(axis)] += value
    several = len({(frame, base) for _, frame, base, _ in twists}) > 1
    parts = sorted(twists.items(), key=lambda item: -np.linalg.norm(item[1]))
    words: list[str] = []
    said: tuple[str, str, str] | None = None  # last frame, base and axes, to avoid repeats
    for (turns, frame, base, axes), vector in parts:
        if np.linalg.norm(vector) < _SMALL:
            continue
        kind = "rotation" if turns else "translation"
        what = f" of {frame}" if several or base else ""
        what += f" relative to {base}" if base else ""
        again = said is not None and said[:2] == (frame, base)
        where = None if said is not None and said[2] == axes else axes or "world"
        along = f"{'about' if turns else 'along'} {_axis(vector, where)}"
        words.append(f"{kind}{'' if again else what} {along}")
        said = (frame, base, axes)
    plain = _sum(others)
    return " with ".join(words + ([plain] if plain else []))


def _axis(vector: NDArray[np.float64], axes: str | None) -> str:
    """Return the text of a direction (3,) in named axes; the name is omitted if `axes` is None."""
    v = vector / np.linalg.norm(vector)
    largest = int(np.argmax(np.abs(v)))
    if abs(v[largest]) < 1 - _SMALL**2 / 2:
        rounded = ", ".join(f"{round(float(x), 2) + 0.0:g}" for x in v)
        return f"({rounded})" + (f" of {axes}" if axes else "")
    letter = ("-" if v[largest] < 0 else "") + "xyz"[largest]
    if axes is None:
        return letter
    return f"world {letter}" if axes == "world" else f"{letter} of {axes}"


def _sum(parts: dict[str, float]) -> str:
    """Return a sum such as "0.8 row 0 - 0.6 row 2", without small terms."""
    text = ""
    for name, value in parts.items():
        if abs(value) < _SMALL:
            continue
        sign = (" - " if value < 0 else " + ") if text else ("-" if value < 0 else "")
        size = f"{abs(value):.2g} " if abs(value) < 1 - _SMALL**2 / 2 else ""
        text += f"{sign}{size}{name}"
    return text
