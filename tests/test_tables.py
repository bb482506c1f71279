"""Tables are read as they were written, and a table file is never incomplete."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from cases import each
from supple import errors
from supple._arrays.tables import FORMATS, Table, read_table, replacing, write_table

HARD = [0.1, -0.0, 5e-324, 1.7976931348623157e308, np.inf, -np.inf, np.nan, np.pi, 1 / 3]


def hard_table() -> Table:
    return Table(
        {
            "t": np.array(HARD),
            "q": np.array([HARD[1:], HARD[:-1]]).T,
            "status": np.array(["a|b", "ü, λ", '"quoted"', "x:y", "1e", "z", "z", "z"]),
            "late": np.array([2.5]),
        },
        {"q": ("first, joint", 'second "joint": λ')},
    )


@each("suffix", FORMATS)
def test_a_table_round_trips_to_the_bit(suffix: str, tmp_path: Path) -> None:
    table = hard_table()
    file = write_table(tmp_path / f"table{suffix}", table)
    found = read_table(file)
    assert list(found.arrays) == list(table.arrays)
    for name, array in table.arrays.items():
        again = found.arrays[name]
        assert again.shape == array.shape
        if array.dtype.kind == "f":
            assert again.tobytes() == np.ascontiguousarray(array).tobytes()
        else:
            assert again.tolist() == array.tolist()
    assert {k: tuple(v) for k, v in found.labels.items()} == dict(table.labels)


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("stop", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_write_leaves_the_previous_file(
    suffix: str, stop: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_table(tmp_path / f"table{suffix}", Table({"x": np.array([1.0])}))
    before = file.read_bytes()

    def interrupted(fd: int) -> None:
        raise stop

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(stop):
        write_table(file, hard_table())
    assert file.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == [file.name]


def test_a_file_appears_only_when_completely_written(tmp_path: Path) -> None:
    with replacing(tmp_path / "x") as stream:
        stream.write(b"half")
        assert not (tmp_path / "x").exists()
    assert (tmp_path / "x").read_bytes() == b"half"


@each(
    ("name", "data", "words"),
    [
        ("x.csv", b"", "it is empty"),
        ("x.csv", b"a,b\n1,2\n3\n", "row 2 has 1 cells; the header has 2"),
        ("x.csv", b"a,b\n1,2\n,2\n", "'a' has an empty cell in row 2"),
        ("x.csv", b"a,a\n1,2\n", "two columns are called 'a'"),
        ("x.csv", b"0.1,0.2\n0.3,0.4\n", "the first line must have the names"),
        ("x.csv", b"a;b\n1;2\n", "separated by commas; given: semicolons"),
        ("x.csv", b"\xff\xfe\x00", "not a table"),
        ("x.npz", b"PK\x03\x04 broken", "not a table"),
        ("x.npz", b"nothing", "not a table"),
        ("x.parquet", b"PAR1", "not a table"),
        ("x.txt", b"a\n1\n", "one of .npz, .csv, .parquet"),
    ],
)
def test_a_file_that_is_not_a_table_is_refused(
    name: str, data: bytes, words: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(errors.InputError, match=words):
        read_table(tmp_path / name)


def test_the_error_about_a_missing_file_names_it(tmp_path: Path) -> None:
    with pytest.raises(errors.InputError, match=r"nothing\.csv.*No such file"):
        read_table(tmp_path / "nothing.csv")


def test_a_file_with_pickled_objects_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.array([{}], dtype=object))
    with pytest.raises(errors.InputError, match="not a table"):
        read_table(tmp_path / "x.npz")


def test_parquet_without_pyarrow_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(errors.MissingExtraError, match='pip install "pyarrow'):
        write_table(tmp_path / "x.parquet", hard_table())
    assert not list(tmp_path.iterdir())
