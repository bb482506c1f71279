"""Merge an MJCF file with the files that it includes into one XML tree per model."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.etree.ElementTree import Element

from supple.describe._source import Budget, Source, read_source
from supple.errors import DescriptionError, short_repr

_MAX_FILES = 1_000


@dataclass(frozen=True, eq=False)
class Document:
    """An MJCF model without <include> elements, its folder, and models to attach, by name."""

    root: Element
    folder: Path
    models: dict[str, Document] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _Read:
    """The context of a file: the folder of its model, and the files that include it."""

    model_folder: Path  # file names are looked up here first
    chain: tuple[Path, ...]  # the main file, if any, to this file; each includes the next


def read_document(file: Source, budget: Budget) -> Document:
    """Merge an MJCF with every file named by an <include> or a <model>; no other file is opened.

    A file name is looked up in the folder of the model (the working directory for a text), then in
    the folder of the file that contains the name.

    Raises:
        DescriptionError: A file cannot be read, includes itself or exceeds the budget.
    """
    main = Path(os.path.abspath(file.path)) if file.path else None
    folder = main.parent if main else Path.cwd()
    document = Document(file.root, folder)
    todo = [(document, _Read(folder, (main,) if main else ()))]
    while todo:
        current, by = todo.pop()
        for element, reading in _merge_includes(current.root, by, budget):
            root, inner = _read_named(element, 1, reading, budget)
            name = element.get("name", "")
            if name in current.models:
                raise DescriptionError(f"two models are named {short_repr(name)}.")
            folder = inner.chain[-1].parent
            current.models[name] = Document(root, folder)
            todo.append((current.models[name], replace(inner, model_folder=folder)))
    return document


def _merge_includes(root: Element, by: _Read, budget: Budget) -> list[tuple[Element, _Read]]:
    """Replace every <include> below `root` by the content of its file.

    Returns the <model> elements, each with the file that contains it.
    """
    models = []
    todo = [(root, 1, by)]
    while todo:
        parent, depth, by = todo.pop()
        kept: list[Element] = []
        waiting = [(child, by) for child in reversed(parent)]
        while waiting:
            child, reading = waiting.pop()
            if child.tag.lower() == "include" and child.get("file"):
                included, inner = _read_named(child, depth + 1, reading, budget)
                waiting.extend((each, inner) for each in reversed(included))
                continue
            kept.append(child)
            todo.append((child, depth + 1, reading))
            if child.tag == "model" and child.get("file"):
                models.append((child, reading))
        parent[:] = kept
    return models


def _read_named(element: Element, depth: int, by: _Read, budget: Budget) -> tuple[Element, _Read]:
    """Read the file named by an element; the root of the file is at `depth`."""
    name = element.get("file", "")
    folders = [by.model_folder, *(path.parent for path in by.chain[-1:])]
    # MuJoCo accepts both slashes and resolves ".." without following links.
    paths = [Path(os.path.normpath(folder / name.replace("\\", "/"))) for folder in folders]
    path = next((path for path in paths if os.path.exists(path)), paths[0])
    what = f"<{element.tag}> of {short_repr(name)}"
    if path in by.chain:
        around = " -> ".join(short_repr(each.name) for each in (*by.chain, path)[-12:])
        raise DescriptionError(f"{what}: the file includes itself: {around}.")
    budget.files += 1
    if budget.files > _MAX_FILES:
        raise DescriptionError(f"includes more than {_MAX_FILES} files.")
    try:
        file = read_source(path, budget, depth=depth - 1)
    except DescriptionError as error:
        raise DescriptionError(f"{what}: {error}") from error
    return file.root, replace(by, chain=(*by.chain, path))
