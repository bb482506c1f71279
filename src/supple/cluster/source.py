"""Read the rows of Parquet files in parts, with bounded memory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple._arrays.tables import pyarrow
from supple.cluster.parts import fingerprint
from supple.errors import InputError
from supple.ik.arguments import count_of

Array = NDArray[Any]
_MAX_ROWS = 2**24  # maximum number of rows in a part, which must fit into memory
_BUFFER = 1 << 20  # bytes read at a time from a column, so that no whole row group is in memory


@dataclass(frozen=True)
class Piece:
    """The rows of a part: consecutive rows of one file.

    Attributes:
        path: Path of the file.
        groups: Indices of the row groups that contain the rows.
        skip: Number of rows of the first group that precede the part.
        rows: Number of rows.
        first: Index of the first row, counted over all files.
    """

    path: str
    groups: tuple[int, ...]
    skip: int
    rows: int
    first: int


@dataclass(frozen=True)
class Source:
    """Parquet files, divided into parts. The division depends only on the files and `part_rows`.

    Attributes:
        paths: Paths of the files.
        pieces: The rows of each part.
        fingerprint: SHA-256 of the names, sizes and footers of the files.
    """

    paths: tuple[str, ...]
    pieces: tuple[Piece, ...]
    fingerprint: str

    _open: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    _lock: Any = field(default_factory=Lock, compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return Source, (self.paths, self.pieces, self.fingerprint)

    @property
    def sizes(self) -> Sequence[int]:
        """The number of rows in each part."""
        return [piece.rows for piece in self.pieces]

    def schemas(self) -> Iterator[tuple[str, Any]]:
        """Yield the path and the Arrow schema of each file."""
        _, parquet = pyarrow()
        for path in self.paths:
            yield path, parquet.read_schema(path)

    def head(self, path: str, columns: Sequence[str], rows: int) -> dict[str, Array]:
        """Return the given columns of the first rows of a file."""
        _, parquet = pyarrow()
        with parquet.ParquetFile(path, buffer_size=_BUFFER) as file:
            batches = file.iter_batches(batch_size=rows, columns=list(columns))
            for batch in batches:
                return {name: to_numpy(batch.column(name)) for name in columns}
        return {name: np.empty((0, 16) if name == "T" else 0) for name in columns}

    def read(self, index: int, columns: Sequence[str]) -> tuple[int, dict[str, Array]]:
        """Return the index of a part's first row, counted over all files, and its columns.

        The file stays open at the end of the part, so that the next part can be read from there.
        """
        pa, parquet = pyarrow()
        piece = self.pieces[index]
        with self._lock:
            reader = self._open.get("reader")
            if reader is None or not reader.is_near(piece):
                reader = _Reader(piece, columns, parquet)
            self._open["reader"] = reader
            batch = reader.read(piece, pa)
        return piece.first, {name: to_numpy(batch.column(name)) for name in columns}


class _Reader:
    """An open file, from which rows are read in order."""

    def __init__(self, piece: Piece, columns: Sequence[str], parquet: Any) -> None:
        file = parquet.ParquetFile(piece.path, buffer_size=_BUFFER, page_checksum_verification=True)
        self._batches = file.iter_batches(
            batch_size=65_536,
            row_groups=list(range(piece.groups[0], file.metadata.num_row_groups)),
            columns=list(columns),
            use_threads=False,
        )
        self._rest: list[Any] = []
        self._path, self._next = piece.path, piece.first - piece.skip

    def is_near(self, piece: Piece) -> bool:
        """Return whether reading on to a part is faster than starting at its row group."""
        ahead = piece.first - self._next
        return piece.path == self._path and 0 <= ahead <= piece.skip + piece.rows

    def read(self, piece: Piece, pa: Any) -> Any:
        """Return the rows of a part, which must not precede the current row."""
        self._take(piece.first - self._next)
        table = pa.Table.from_batches(self._take(piece.rows)).combine_chunks()
        self._next = piece.first + piece.rows
        return table

    def _take(self, rows: int) -> list[Any]:
        taken = []
        while rows > 0:
            batch = self._rest.pop() if self._rest else next(self._batches)
            if len(batch) > rows:
                self._rest.append(batch.slice(rows))
                batch = batch.slice(0, rows)
            taken.append(batch)
            rows -= len(batch)
        return taken


def to_numpy(column: Any) -> Array:
    """Return an Arrow column as an array (N,), or (N, m) for lists of m numbers; null is NaN."""
    pa, _ = pyarrow()
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if pa.types.is_fixed_size_list(column.type):
        size = column.type.list_size
        flat = column.values.slice(column.offset * size, len(column) * size)
        lists = np.array(flat.to_numpy(zero_copy_only=False), np.float64).reshape(-1, size)
        lists[np.asarray(column.is_null())] = np.nan
        return lists
    return np.asarray(column.to_numpy(zero_copy_only=False))


def open_source(source: str | os.PathLike[str], part_rows: int) -> Source:
    """Open a Parquet file, or all Parquet files in a folder in the order of their names.

    Each part contains rows of a single file, at most `part_rows` of them. Small row groups are
    joined, and large ones are divided.

    Raises:
        InputError: There is no file, or a file is not in the Parquet format.
    """
    most = count_of(part_rows, "part_rows", _MAX_ROWS)
    place = Path(source)
    paths = [place] if not place.is_dir() else sorted(place.glob("[!_.]*.parquet"))
    if not paths:
        raise InputError(
            f"{place} must be a Parquet file, or a folder of them; given: a folder without "
            "Parquet files"
        )
    pieces: list[Piece] = []
    marks, first = [], 0
    for path in paths:
        groups, mark = _footer(path)
        marks.append(mark)
        for piece in _pieces(str(path), groups, most, first):
            pieces.append(piece)
            first += piece.rows
    return Source(tuple(map(str, paths)), tuple(pieces), fingerprint(marks))


def _footer(path: Path) -> tuple[list[int], list[Any]]:
    """Return the number of rows in each row group of a file, and its name, size and footer hash.

    Name, size and footer hash identify the contents: the footer has the offsets, sizes and ranges
    of all columns.
    """
    pa, parquet = pyarrow()
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(size - 8, 0))
            length = int.from_bytes(stream.read(4), "little")
            stream.seek(max(size - 8 - length, 0))
            digest = hashlib.sha256(stream.read(length)).hexdigest()
        metadata = parquet.read_metadata(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot read {str(path)!r}: {reason}") from error
    except pa.ArrowException as error:
        raise InputError(f"{str(path)!r} is not a Parquet file: {error}") from error
    rows = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
    return rows, [path.name, size, digest]


def _pieces(path: str, groups: Sequence[int], most: int, first: int) -> Iterator[Piece]:
    joined: list[int] = []
    rows = 0
    for group, size in enumerate(groups):
        if joined and rows + size > most:
            yield Piece(path, tuple(joined), 0, rows, first)
            joined, first, rows = [], first + rows, 0
        if size > most:
            for skip in range(0, size, most):
                count = min(most, size - skip)
                yield Piece(path, (group,), skip, count, first)
                first += count
        elif size:
            joined.append(group)
            rows += size
    if joined:
        yield Piece(path, tuple(joined), 0, rows, first)
