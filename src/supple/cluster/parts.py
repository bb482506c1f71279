"""Jobs in parts: a part is computed independently, and written completely or not at all.

The folder of a job contains these files:

    _manifest.json          the kind and the settings of the job, and the number of parts
    part-000000.parquet     the parts, in order
    _summary.json           the number of rows and the job's counts; written after the last part

A part is committed: written under a temporary name, flushed to the disk and renamed. Its content
depends only on the job and on its index. A run that was killed can therefore be continued, by any
number of workers, and ends with the same files. Readers of Parquet skip names that begin with "_"
or ".".
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from supple._arrays.tables import pyarrow, replacing
from supple.errors import InputError, short_repr

VERSION = 1  # version of the layout of folders
MANIFEST, SUMMARY, LOCK = "_manifest.json", "_summary.json", ".lock"
_JOB, _PART, _COUNTS = b"supple.job", b"supple.part", b"supple.counts"  # keys in a part's footer


class Job(Protocol):
    """A computation that is divided into independent parts."""

    @property
    def kind(self) -> str:
        """The kind of job: "solve", "reach" or "dataset"."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """All settings, files and versions that the results depend on, as plain values by name."""

    @property
    def sizes(self) -> Sequence[int]:
        """The amount of work of each part: its number of targets, poses or samples."""

    @property
    def at_once(self) -> int:
        """Number of parts that one process computes concurrently."""

    def compute(self, index: int, threads: int | None = None) -> tuple[Any, Mapping[str, int]]:
        """Return the Arrow table of a part, and its counts by name.

        Args:
            index: Index of the part.
            threads: Maximum number of threads; the result does not depend on it.
        """


@dataclass(frozen=True)
class Summary:
    """A summary of the parts in a folder, and of the run that computed them.

    Attributes:
        folder: The folder.
        rows: Number of rows in all parts.
        counts: Counts by name, for example the number of targets with each status.
        parts: Number of parts.
        resumed: Number of parts that an earlier run had already written.
        seconds: Duration of the run [s].
    """

    folder: Path
    rows: int
    counts: Mapping[str, int]
    parts: int
    resumed: int = 0
    seconds: float = 0.0


def fingerprint(value: Any) -> str:
    """Return the SHA-256 of plain values, arrays and dataclasses, as hexadecimal digits."""
    text = json.dumps(_canonical(value), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _canonical(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        members = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        return [type(value).__name__, _canonical(members)]
    if isinstance(value, Mapping):
        return {str(name): _canonical(each) for name, each in value.items()}
    if isinstance(value, np.ndarray):
        return [list(value.shape), [_canonical(each) for each in value.ravel().tolist()]]
    if isinstance(value, list | tuple):
        return [_canonical(each) for each in value]
    if isinstance(value, float):
        return value.hex()
    if value is None or isinstance(value, str | int):
        return value
    raise TypeError(f"a fingerprint needs plain values or arrays; given: {short_repr(value)}")


def job_id(job: Job) -> str:
    """Return the fingerprint of a job; jobs with equal fingerprints have equal results."""
    return fingerprint([VERSION, job.kind, job.settings, list(job.sizes)])


def part_path(folder: Path, index: int) -> Path:
    """Return the path of a part."""
    return folder / f"part-{index:06d}.parquet"


# ---- writing -------------------------------------------------------------------------------------


def commit(folder: Path, job: str, index: int, table: Any, counts: Mapping[str, int]) -> None:
    """Write a part completely and flush it to the disk.

    Args:
        folder: The folder of the parts.
        job: Fingerprint of the job.
        index: Index of the part.
        table: Arrow table.
        counts: Counts of the part, by name.
    """
    _, parquet = pyarrow()
    marks = {_JOB: job, _PART: str(index), _COUNTS: json.dumps(counts, sort_keys=True)}
    marked = table.replace_schema_metadata({**(table.schema.metadata or {}), **marks})
    types = {field.name: str(field.type) for field in table.schema}
    integers = [name for name, kind in types.items() if kind in ("int32", "int64")]
    with replacing(part_path(folder, index)) as stream:
        parquet.write_table(
            marked,
            stream,
            # Compression hardly shrinks these numbers, and takes longer than writing them.
            compression="none",
            use_dictionary=[name for name, kind in types.items() if kind.startswith("dictionary")],
            column_encoding=dict.fromkeys(integers, "DELTA_BINARY_PACKED"),
            write_statistics=integers,
            write_page_checksum=True,
        )
    _sync(folder)


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    with replacing(path) as stream:
        stream.write((json.dumps(value, indent=2, sort_keys=True) + "\n").encode())
    _sync(path.parent)


def _sync(folder: Path) -> None:
    """Flush the entries of a folder to the disk, on systems that support it."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ---- starting and finishing a run ----------------------------------------------------------------


@contextmanager
def claimed(folder: Path, job: Job) -> Iterator[dict[int, Summary]]:
    """Lock a folder for a run of a job, and yield the summaries of its committed parts by index.

    Temporary files of killed runs are removed.

    Raises:
        InputError: The folder contains another job or other files, or another run uses it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        _check_manifest(folder, job)
        remove_temporary(folder)
        name, found = job_id(job), {}
        for index in range(len(job.sizes)):
            committed = _committed(part_path(folder, index), name, index)
            if committed is not None:
                found[index] = committed
        yield found


def remove_temporary(folder: Path) -> None:
    """Remove the temporary files of killed processes."""
    for left in folder.glob(".*.tmp"):
        left.unlink(missing_ok=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder against a second run; the system releases the lock of a killed process."""
    with (folder / LOCK).open("wb") as stream:
        try:
            import fcntl
        except ModuleNotFoundError:  # Windows has no fcntl, so a second run is not prevented
            yield
            return
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"another run is writing into {folder}; wait until it ends") from None
        yield


def _check_manifest(folder: Path, job: Job) -> None:
    path = folder / MANIFEST
    wanted = {
        "format": "supple parts",
        "version": VERSION,
        "kind": job.kind,
        "job": job_id(job),
        "parts": len(job.sizes),
        "targets": sum(job.sizes),
        "settings": json.loads(json.dumps(job.settings)),
    }
    if not path.exists():
        others = [each.name for each in folder.iterdir() if not each.name.startswith(".")]
        if others:
            raise InputError(
                f"{folder} must be a new folder, or one of the same job; given: a folder with "
                f"{short_repr(sorted(others)[0])} and no {MANIFEST}"
            )
        _write_json(path, wanted)
        return
    there = read_manifest(folder)
    if there["job"] != wanted["job"]:
        raise InputError(
            f"{folder} contains another job: {_difference(there, wanted)}. Choose another folder, "
            "or remove this one"
        )


def _difference(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Return a description of the first setting that differs between two manifests."""
    if there["kind"] != here["kind"]:
        return f"its kind is {there['kind']!r}, and the kind of this job is {here['kind']!r}"
    old, new = there["settings"], here["settings"]
    for name in {**new, **old}:
        if old.get(name) != new.get(name):
            values = short_repr(old.get(name)), short_repr(new.get(name))
            return f"{name} is {values[0]} in the folder and {values[1]} in this job"
    return "it is divided into other parts"


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a folder of parts.

    Raises:
        InputError: The folder has no manifest, or one of another version.
    """
    path = folder / MANIFEST
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"{folder} is not a folder of parts: {error.strerror}: {MANIFEST}") from (
            error
        )
    except ValueError as error:
        raise InputError(f"{path} is not a manifest: {error}") from error
    if not isinstance(found, dict) or found.get("format") != "supple parts":
        raise InputError(
            f"{path} must be a manifest with the format 'supple parts'; given: {short_repr(found)}"
        )
    if found.get("version") != VERSION:
        raise InputError(
            f"{path} must have version {VERSION}; given: {short_repr(found.get('version'))}"
        )
    return found


def _committed(path: Path, job: str, index: int) -> Summary | None:
    """Return the summary of a part, or None if the file is missing or damaged.

    Raises:
        InputError: The part belongs to another job.
    """
    pa, parquet = pyarrow()
    try:
        with parquet.ParquetFile(path) as file:
            marks, rows = file.schema_arrow.metadata or {}, file.metadata.num_rows
    except FileNotFoundError:
        return None
    except (pa.ArrowException, OSError):
        return None  # the file is damaged, and the part is computed again
    if (marks.get(_JOB), marks.get(_PART)) != (job.encode(), str(index).encode()):
        raise InputError(f"{path} does not belong to the job of its folder; remove it")
    return Summary(path.parent, rows, json.loads(marks[_COUNTS]), 1)


def finish(folder: Path, job: Job, parts: Mapping[int, Summary]) -> Summary:
    """Write the summary of a folder that has all parts, and return it."""
    counts: dict[str, int] = {}
    for part in parts.values():
        for name, number in part.counts.items():
            counts[name] = counts.get(name, 0) + number
    made = Summary(folder, sum(part.rows for part in parts.values()), counts, len(parts))
    value = {"job": job_id(job), "rows": made.rows, "counts": counts, "parts": made.parts}
    remove_temporary(folder)
    _write_json(folder / SUMMARY, value)
    return made


def finished_parts(folder: str | os.PathLike[str]) -> list[Path]:
    """Return the paths of all parts of a finished job, in order.

    Raises:
        InputError: The folder does not contain a job, or the job is not finished.
    """
    place = Path(folder)
    manifest = read_manifest(place)
    paths = [part_path(place, index) for index in range(manifest["parts"])]
    if not (place / SUMMARY).exists():
        there = sum(path.exists() for path in paths)
        raise InputError(
            f"{place} is not finished: {there} of {len(paths)} parts exist. Run the same command "
            "again to continue"
        )
    return paths


def compute_part(job: Job, name: str, folder: Path, index: int, threads: int | None) -> Summary:
    """Compute and commit one part, and return its summary."""
    table, counts = job.compute(index, threads)
    commit(folder, name, index, table, counts)
    return Summary(folder, table.num_rows, counts, 1)
