"""Read robot files, and check that they are small, well-formed XML without document types."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from supple.errors import DescriptionError, InputError, join_names, short_repr

PathOrText: TypeAlias = "str | os.PathLike[str]"

MAX_BYTES = 16_000_000

# Hints for files that were given to the wrong reader, by root element.
_OTHER_ROOTS = {
    "robot": "this is a URDF file: read it with supple.urdf",
    "mujoco": "this is an MJCF file: read it with supple.mjcf",
    "sdf": "this is an SDF file, which supple does not read: convert it to URDF",
}


@dataclass
class Budget:
    """Limits for a file and all files that it includes, and the amounts read so far."""

    max_elements: int
    max_depth: int
    elements: int = 0
    bytes: int = 0
    files: int = 0

    def spend(self, label: str, size: int) -> None:
        """Count the bytes of another file before it is read, and check the limit."""
        before = " and the files before it are" if self.bytes else " is"
        self.bytes += size
        if self.bytes > MAX_BYTES:
            limit = f"at most {MAX_BYTES / 1e6:.0f} MB are read"
            raise DescriptionError(f"{label}{before} {self.bytes / 1e6:.1f} MB; {limit}.")


@dataclass(frozen=True, eq=False)
class Source:
    """A validated robot file or text: its bytes, its path if any, its elements."""

    label: str
    data: bytes
    path: Path | None
    root: Element


def read_source(source: PathOrText, budget: Budget, *, root: str = "", depth: int = 0) -> Source:
    """Read a path, or a text that starts with "<", and check its XML.

    Args:
        source: Path of a file, or XML text.
        budget: Limits shared with the files already read.
        root: Name of the expected root element; empty to accept any.
        depth: Nesting depth of the element that includes the file.

    Raises:
        DescriptionError: The file is missing, not a regular file, unreadable, empty or larger than
            16 MB; or its XML is not well-formed, declares a document type or entities, has another
            root element, nests too deeply or has too many elements.
    """
    if isinstance(source, str) and source.lstrip("\ufeff \t\r\n").startswith("<"):
        label, path, data = "the given text", None, _encoded(source)
        budget.spend(label, len(data))
    elif isinstance(source, str | os.PathLike):
        label, path, data = read_file(source, budget)
    else:
        raise InputError(f"expected a path or an XML text, given {short_repr(source)}.")

    if not data.strip():
        expected = f"XML with a <{root}> element" if root else "XML"
        raise DescriptionError(f"{label} is empty; expected {expected}.")
    return Source(label, data, path, _Checker(label, budget, root, depth).checked(data))


def _encoded(text: str) -> bytes:
    """Return a text as UTF-8, without its XML declaration, which may name another encoding."""
    text = re.sub(r"\A<\?xml\s[^>]*\?>", "", text.lstrip("\ufeff \t\r\n"))
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise DescriptionError(f"the given text is not valid Unicode: {error}.") from error


def read_file(source: str | os.PathLike[str], budget: Budget) -> tuple[str, Path, bytes]:
    """Read a file within the budget; return its label, path and bytes."""
    try:
        path = Path(source)
        label = _label(path)
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise DescriptionError(f"{label} is a directory; expected a file.")
        if not stat.S_ISREG(status.st_mode):
            raise DescriptionError(f"{label} is not a regular file.")
        budget.spend(label, status.st_size)
        with path.open("rb") as file:
            return label, path, file.read(status.st_size)
    except FileNotFoundError as error:
        problem = f"no such file: {_label(Path(source))}{_nearby(Path(source))}."
        raise DescriptionError(problem) from error
    except (OSError, TypeError, ValueError) as error:
        problem = f"{short_repr(source)} cannot be read as a file: {error}."
        raise error if isinstance(error, DescriptionError) else DescriptionError(problem) from error


def _label(path: Path) -> str:
    """Return a quoted path; a long one is cut at the beginning, to keep the name of the file."""
    text = str(path)
    return repr(text if len(text) <= 80 else f"…{text[-79:]}")


def _nearby(path: Path) -> str:
    """Return a hint that lists files with similar names in the folder of a missing file."""
    from difflib import get_close_matches  # kept out of the import of supple

    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry, _ in zip(entries, range(1000), strict=False)]
    except (OSError, ValueError):
        return f"; its folder {_label(path.parent)} does not exist either"
    close = get_close_matches(path.name, names)
    return f"; similar names in its folder: {join_names(close)}" if close else ""


def _trimmed(data: bytes) -> tuple[bytes, int]:
    """Return XML without blank lines before its declaration and zero bytes after its end.

    Both are common in robot files and have no meaning. The second result is the number of lines
    removed at the beginning.
    """
    end = data.rstrip(b"\0 \t\r\n")
    if b"\0" not in end:  # else the file is UTF-16
        data = end
    begin = data.lstrip(b" \t\r\n")
    if not begin.startswith(b"<?xml"):
        return data, 0
    return begin, data[: len(data) - len(begin)].count(b"\n")


class _Checker:
    """Parser of plain XML: one pass of expat that rejects document types and builds the elements.

    Names keep their prefix ("xacro:macro"): unbound prefixes are common in robot files.
    """

    def __init__(self, label: str, budget: Budget, root: str, depth: int) -> None:
        self.label = label
        self.budget = budget
        self.expected = root
        self.depth = depth
        self.builder = TreeBuilder()

    def checked(self, data: bytes) -> Element:
        data, skipped = _trimmed(data)
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._raise_doctype
        parser.EntityDeclHandler = self._raise_doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        try:
            parser.Parse(data, True)
            return self.builder.close()
        except expat.ExpatError as error:
            where = f"line {error.lineno + skipped}, column {error.offset + 1}"
            problem = expat.ErrorString(error.code)
            raise self._error(f"is not well-formed XML at {where}: {problem}") from error
        except (LookupError, ValueError) as error:  # an encoding unknown to Python
            if isinstance(error, DescriptionError):
                raise
            raise self._error(f"cannot be decoded: {error}") from error

    def _error(self, problem: str) -> DescriptionError:
        return DescriptionError(f"{self.label} {problem}.")

    def _raise_doctype(self, name: str, *_: object) -> None:
        raise self._error(
            f"declares a document type or entity ({short_repr(name)}), which is not allowed: "
            "entities can expand without bound or read other files"
        )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if self.expected and name != self.expected:
            hint = _OTHER_ROOTS.get(name, "this may not be a robot file")
            raise self._error(
                f"has the root element <{short_repr(name)[1:-1]}>, expected <{self.expected}>; "
                f"{hint}"
            )
        if name.startswith("xacro:"):
            raise self._error(
                f"has the element <{short_repr(name)[1:-1]}>: it is xacro; expand it first, "
                "or give the file the suffix .xacro"
            )
        self.expected = ""  # only the name of the root is checked
        self.depth += 1
        self.budget.elements += 1
        if self.depth > self.budget.max_depth:
            raise self._error(f"nests elements more than {self.budget.max_depth} levels deep")
        if self.budget.elements > self.budget.max_elements:
            raise self._error(f"has more than {self.budget.max_elements} elements")
        self.builder.start(name, attributes)

    def _end(self, name: str) -> None:
        self.depth -= 1
        self.builder.end(name)
