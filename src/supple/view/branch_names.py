"""Names of the solutions in the viewer."""

from __future__ import annotations

import supple as sp
from supple.errors import InputError

_PARTS = ("shoulder", "elbow", "wrist")
_SIDES = {1: "+", 0: "0", -1: "−"}


def branch_names(found: sp.Solutions) -> tuple[str, ...]:
    """Return a name for each solution: its number and, for arms that have them, its branch.

    The branch is named by the signs of shoulder, elbow and wrist (`Solutions.branch`).
    """
    numbers = [str(k + 1) for k in range(len(found))]
    try:
        signs = found.branch.tolist()
    except InputError:
        return tuple(numbers)
    sides = [[f"{part} {_SIDES[s]}" for part, s in zip(_PARTS, row, strict=True)] for row in signs]
    return tuple(f"{k}: {', '.join(each)}" for k, each in zip(numbers, sides, strict=True))
