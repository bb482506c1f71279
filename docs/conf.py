"""Settings of the documentation site: make docs."""

from __future__ import annotations

import re

project = "supple"
author = "The supple developers"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
source_suffix = {".md": "markdown"}

# Headings of other pages are targets of links, as on a code host.
myst_heading_anchors = 3

html_theme = "furo"
html_title = "supple"
html_show_sphinx = False
html_show_copyright = False

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the text of an argument says what it is, with its unit and shape
autodoc_class_signature = "mixed"
autodoc_mock_imports = ["jax", "torch"]  # optional, and large
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
# Single backquotes are code, as in Markdown.
default_role = "code"


def _escape(text: str) -> str:
    """Escape the characters that reStructuredText reads as markup, outside of code."""
    parts = re.split(r"(`[^`]*`)", text)
    for k in range(0, len(parts), 2):
        parts[k] = re.sub(r"([*|\\]|_(?=\W|$))", r"\\\1", parts[k])
    return "".join(parts)


SECTION = re.compile(r"(Args|Attributes|Raises|Returns|References|Yields):$")


def as_text(app, what, name, obj, options, lines: list[str]) -> None:
    """Turn a docstring into text whose formulas, the indented paragraphs, are literal blocks."""
    result: list[str] = []
    in_section = literal = False
    for k, line in enumerate(lines):
        if SECTION.match(line):
            in_section = True
        elif line and not line.startswith(" "):
            in_section = False
        starts = line.startswith("    ") and (k == 0 or not lines[k - 1].strip())
        if starts and not in_section and not literal:
            result += ["::", ""]
            literal = True
        elif line and not line.startswith("    "):
            literal = False
        result.append(line if literal else _escape(line))
    lines[:] = result


def name_files(app, docname, source: list[str]) -> None:
    """Replace links to files outside of this folder, which have no page, by their names."""
    source[0] = re.sub(r"\[([^\]]+)\]\(\.\./([^)]+)\)", r"\1 (`\2`)", source[0])


def setup(app) -> None:
    """Prepare pages, and docstrings before napoleon reads their sections."""
    app.connect("source-read", name_files)
    app.connect("autodoc-process-docstring", as_text, priority=100)
