"""The files that an MJCF names, sent through the same checks as itself before MuJoCo reads them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element

from supple.describe._source import Budget, Source, read_source
from supple.errors import DescriptionError, shown

_MAX_FILES = 1_000
_MAX_BODIES = 2_000  # MuJoCo's time grows as the square of the siblings: a second or two
_MAKE_BODIES = ("replicate", "composite", "flexcomp")  # by the number in their `count`


@dataclass(frozen=True, eq=False)
class _Read:
    """A file that passed: its elements, how deep they will lie, and how it was reached."""

    root: Element
    depth: int
    model_folder: Path
    chain: tuple[Path, ...]  # from the main file, if any, to this one


def check_included(file: Source, budget: Budget) -> None:
    """Refuse an MJCF with an <include> or a <model> that cannot be read or goes beyond the budget.

    MuJoCo looks for it in the folder of the model first (a text's is the working directory), then
    in that of the file that names it. A file within itself would never end.
    """
    main = Path(os.path.abspath(file.path)) if file.path else None
    folder = main.parent if main else Path.cwd()
    todo = [_Read(file.root, 0, folder, (main,) if main else ())]
    files = bodies = 0
    while todo:
        reading = todo.pop()
        for element, depth in _elements(reading.root, reading.depth):
            bodies += _bodies(element)
            if bodies > _MAX_BODIES:
                raise DescriptionError(
                    f"holds {bodies} bodies or more; at most {_MAX_BODIES} are read."
                )
            name = element.get("file")
            if element.tag.lower() in ("include", "model") and name:
                files += 1
                if files > _MAX_FILES:
                    raise DescriptionError(f"includes more than {_MAX_FILES} files.")
                todo.append(_included(element, name, depth, reading, budget))


def _bodies(element: Element) -> int:
    """How many bodies an element stands for; what is no number is left to MuJoCo to refuse."""
    tag = element.tag.lower()
    if tag in _MAKE_BODIES:
        numbers = [word for word in element.get("count", "").split() if word.isdecimal()]
        return math.prod(min(int(word[:9]), _MAX_BODIES + 1) for word in numbers[:9])
    return int(tag == "body")


def _elements(root: Element, depth: int) -> Iterator[tuple[Element, int]]:
    """All elements, each with its depth; the root lies at depth + 1."""
    todo = [(root, depth + 1)]
    while todo:
        element, depth = todo.pop()
        yield element, depth
        todo.extend((child, depth + 1) for child in element)


def _included(element: Element, name: str, depth: int, by: _Read, budget: Budget) -> _Read:
    """Read the file that an element names; the element takes the place of its root."""
    folders = [by.model_folder, *(path.parent for path in by.chain[-1:])]
    # MuJoCo takes both slashes, and ".." by the letters.
    paths = [Path(os.path.normpath(folder / name.replace("\\", "/"))) for folder in folders]
    path = next((path for path in paths if os.path.exists(path)), paths[0])
    what = f"<{element.tag}> of {shown(name)}"
    if path in by.chain:
        around = " -> ".join(shown(each.name) for each in (*by.chain, path)[-12:])
        raise DescriptionError(f"{what}: the file is within itself: {around}.")
    try:
        file = read_source(path, budget, depth=depth - 1)
    except DescriptionError as error:
        raise DescriptionError(f"{what}: {error}") from error
    model_folder = path.parent if element.tag.lower() == "model" else by.model_folder
    return _Read(file.root, depth - 1, model_folder, (*by.chain, path))
