"""Read and write named arrays in npz, csv and Parquet files; files are written atomically.

An array (K,) is one column. An array (K, m) has m labels and is stored as m columns "name:label",
except in npz files, which store the array itself. Arrays may have different lengths: the column of
a shorter array begins with empty cells.
"""

from __future__ import annotations

import csv
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from supple.errors import InputError, MissingExtraError, short_repr

Array = NDArray[Any]
FORMATS = (".npz", ".csv", ".parquet")
_LABELS = "labels of "  # prefix: an npz file stores the labels of the array A as "labels of A"


@dataclass(frozen=True, eq=False)
class Table:
    """Named arrays and the labels of their columns.

    Attributes:
        arrays: Arrays of numbers, booleans or text, (K,) or (K, m).
        labels: Labels of the m columns of each array (K, m), by the name of the array.
    """

    arrays: Mapping[str, Array]
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def columns(self) -> list[tuple[str, Array]]:
        """Return every column (K,) with its name."""
        found: list[tuple[str, Array]] = []
        for name, array in self.arrays.items():
            if array.ndim == 1:
                found.append((name, array))
            else:
                labels = self.labels[name]
                found += [(f"{name}:{label}", array[:, i]) for i, label in enumerate(labels)]
        return found


def write_table(path: str | os.PathLike[str], table: Table) -> Path:
    """Write a table to a file, in the format given by its suffix, and return its path.

    Raises:
        InputError: The suffix is not one of `FORMATS`.
        MissingExtraError: The format is Parquet and pyarrow is not installed.
        OSError: The file cannot be written.
    """
    file = Path(path)
    writer = _format_of(file, {".npz": _write_npz, ".csv": _write_csv, ".parquet": _write_parquet})
    with replacing(file) as stream:
        writer(stream, table)
    return file


def read_table(path: str | os.PathLike[str]) -> Table:
    """Read a file written by `write_table`, or any table of numbers with a header.

    Raises:
        InputError: The file is missing, has another format, or is not a table.
        MissingExtraError: The format is Parquet and pyarrow is not installed.
    """
    file = Path(path)
    reader: Callable[[IO[bytes]], Table] = _format_of(
        file, {".npz": _read_npz, ".csv": _read_csv, ".parquet": _read_parquet}
    )
    try:
        with file.open("rb") as stream:
            return reader(stream)
    except OSError as error:
        raise InputError(f"cannot read {str(file)!r}: {error.strerror}") from error
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile, csv.Error) as error:
        what = f"{str(file)!r} is not a table in the format {file.suffix}"
        raise InputError(f"{what}: {error}") from error


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file for writing, which replaces the file at `path` on success.

    On an error or an interrupt the temporary file is removed, and the file at `path` is kept.
    """
    beside = path.with_name(f".{path.name}.{uuid4().hex[:8]}.tmp")
    try:
        with beside.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _format_of(path: Path, by_suffix: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    found = by_suffix.get(path.suffix.lower())
    if found is None:
        known = ", ".join(FORMATS)
        raise InputError(f"a file's suffix must be one of {known}; given: {short_repr(str(path))}")
    if found in (_write_parquet, _read_parquet):
        pyarrow()
    return found


# ---- npz -----------------------------------------------------------------------------------------


def _write_npz(stream: IO[bytes], table: Table) -> None:
    labels = {f"{_LABELS}{name}": np.array(each) for name, each in table.labels.items()}
    np.savez_compressed(stream, **table.arrays, **labels)  # type: ignore[arg-type]


def _read_npz(stream: IO[bytes]) -> Table:
    with np.load(stream, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    labels = {name.removeprefix(_LABELS): arrays.pop(name) for name in _with_labels(arrays)}
    return Table(arrays, {name: tuple(each.tolist()) for name, each in labels.items()})


def _with_labels(arrays: Mapping[str, Array]) -> list[str]:
    return [name for name in arrays if name.startswith(_LABELS)]


# ---- columns -------------------------------------------------------------------------------------


def _write_csv(stream: IO[bytes], table: Table) -> None:
    columns = table.columns()
    rows = max((len(values) for _, values in columns), default=0)
    cells = [[""] * (rows - len(values)) + _texts(values) for _, values in columns]
    lines = _Lines(stream)
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow([name for name, _ in columns])
    writer.writerows(zip(*cells, strict=True))


class _Lines:
    """The file that `csv.writer` writes to: encodes text as UTF-8 and writes it to a stream."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        self._stream.write(text.encode())


def _texts(values: Array) -> list[str]:
    """Return values as text; floats as the shortest decimals that convert back exactly."""
    return [repr(value) if isinstance(value, float) else str(value) for value in values.tolist()]


def _read_csv(stream: IO[bytes]) -> Table:
    reader = csv.reader(stream.read().decode("utf-8-sig").splitlines())
    header = next(reader, None)
    if header is None:
        raise ValueError("it is empty")
    if len(header) == 1 and ";" in header[0]:
        raise ValueError("cells must be separated by commas; given: semicolons")
    if header and _numbers(header).dtype.kind == "f":
        given = short_repr(",".join(header))
        raise ValueError(f"the first line must have the names of the columns; given: {given}")
    lines = [line for line in reader if line]
    if any(len(line) != len(header) for line in lines):
        bad = next(i for i, line in enumerate(lines) if len(line) != len(header))
        raise ValueError(f"row {bad + 1} has {len(lines[bad])} cells; the header has {len(header)}")
    columns = zip(*lines, strict=True) if lines else ([] for _ in header)
    return _from_columns(
        (name.strip(), _numbers(_without_empty(list(column), name)))
        for name, column in zip(header, columns, strict=True)
    )


def _without_empty(cells: list[str], name: str) -> list[str]:
    """Return the cells after the leading empty ones."""
    first = next((i for i, cell in enumerate(cells) if cell.strip()), len(cells))
    for row, cell in enumerate(cells[first:], first + 1):
        if not cell.strip():
            raise ValueError(f"the column {short_repr(name)} has an empty cell in row {row}")
    return cells[first:]


def _numbers(cells: list[str]) -> Array:
    try:
        return np.array([float(cell) for cell in cells])
    except ValueError:
        return np.array(cells)


def _write_parquet(stream: IO[bytes], table: Table) -> None:
    pa, parquet = pyarrow()
    columns = table.columns()
    rows = max((len(values) for _, values in columns), default=0)
    arrays = []
    for _, values in columns:
        missing = pa.nulls(rows - len(values), pa.array(values[:0]).type)
        arrays.append(pa.concat_arrays([missing, pa.array(values)]))
    parquet.write_table(pa.Table.from_arrays(arrays, [name for name, _ in columns]), stream)


def _read_parquet(stream: IO[bytes]) -> Table:
    pa, parquet = pyarrow()
    try:
        table = parquet.ParquetFile(stream).read()
    except pa.ArrowException as error:
        raise ValueError(str(error)) from error
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        values = column.slice(column.null_count)
        if values.null_count:
            raise ValueError(f"the column {short_repr(name)} has empty cells")
        numbers = values.to_numpy(zero_copy_only=False)
        columns.append((name, numbers.astype(str) if numbers.dtype == object else numbers))
    return _from_columns(columns)


def pyarrow() -> tuple[Any, Any]:
    """Return pyarrow and its module for Parquet.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise MissingExtraError("parquet", "a Parquet file") from error
    return pyarrow, parquet


def _from_columns(columns: Any) -> Table:
    """Return a table from columns; m columns "name:label" of one name become an array (K, m)."""
    arrays: dict[str, Array] = {}
    groups: dict[str, list[tuple[str, Array]]] = {}
    for name, values in columns:
        group, colon, label = name.partition(":")
        if colon:
            groups.setdefault(group, []).append((label, values))
            arrays.setdefault(group, np.empty(0))
        elif name in arrays:
            raise ValueError(f"two columns are called {short_repr(name)}")
        else:
            arrays[name] = values
    for name, members in groups.items():
        if len({len(values) for _, values in members}) > 1:
            raise ValueError(f"the columns of {short_repr(name)} have different lengths")
        arrays[name] = np.stack([values for _, values in members], axis=1)
    labels = {name: tuple(label for label, _ in members) for name, members in groups.items()}
    return Table(arrays, labels)
