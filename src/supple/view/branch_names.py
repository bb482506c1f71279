"""Names of the solutions in the viewer."""

from __future__ import annotations

import supple as sp
from supple.errors import InputError


def branch_names(found: sp.Solutions) -> tuple[str, ...]:
    """Return a name for each solution: its number, and its branch if the arm names branches."""
    numbers = [str(k + 1) for k in range(len(found))]
    try:
        names = found.branch_names
    except InputError:
        return tuple(numbers)
    return tuple(f"{k}: {name}" for k, name in zip(numbers, names, strict=True))
