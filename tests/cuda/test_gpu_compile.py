"""What goes to the GPU compiles, for any robot, task and rule; nothing here needs a GPU."""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import supple
from supple import AxisTask, PositionTask
from supple.errors import MissingExtraError
from supple.solve.cuda import cache
from supple.solve.cuda.position import GENERAL, KERNELS
from supple.solve.cuda.source import source
from supple.solve.search import Search, search_of


def compiled(search: Search | None, name: str, *options: str) -> bytes:
    toolkit = pytest.importorskip("supple.solve.cuda.toolkit")
    constants = "" if search is None else search.kernel.constants()
    try:
        return toolkit.compile_source(source(name, constants), "sm_90", *options)
    except MissingExtraError as error:
        pytest.skip(str(error))


def searches() -> dict[str, Callable[[], Search]]:
    panda, youbot = supple.load("panda"), supple.load("youbot")
    tip = youbot.tips[0]
    return {
        "a pose": lambda: search_of(panda, None),
        "any task and rule": lambda: search_of(
            youbot, [PositionTask(tip), AxisTask(tip)], supple.damping.SpeedBound(1.0)
        ),
    }


@pytest.mark.parametrize("what", ["a pose", "any task and rule"])
def test_kernels_compile(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUPPLE_CACHE_DIR", str(tmp_path))
    search = searches()[what]()
    called: list[set[bytes]] = []
    for files, kernels in KERNELS.items():
        if len(files) == 1:
            code = compiled(search, *files)
        elif what == "a pose":
            codes = [compiled(search, name, "-rdc=true") for name in files]
            called = [set(re.findall(rb"_ZN6supple6settle\w+", code)) for code in codes]
            code = codes[0]
        else:
            continue
        assert all(kernel.encode() in code for kernel in kernels)
    # what is called across files has one name, by which it is linked
    assert all(len(names) == 1 and names == called[0] for names in called)


def test_kernels_of_any_robot_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUPPLE_CACHE_DIR", str(tmp_path))
    code = compiled(None, "arrays.cu")
    assert all(kernel.encode() in code for kernel in GENERAL)


def test_every_header_is_in_the_text_once() -> None:
    constants = search_of(supple.load("panda"), None).kernel.constants()
    assert '#include "' not in source("arrays.cu", "")
    text = source("explore.cu", constants)
    assert '#include "' not in text
    assert all(text.count(f"struct {name} {{") == 1 for name in ("Given", "Closest", "Quest"))


def test_constants_have_all_bits() -> None:
    robot = supple.load("panda")
    text = search_of(robot, None).kernel.constants()
    for limit in (*robot.lower, *robot.upper):
        mantissa, exponent = float(limit).hex().split("p")
        assert f"T({mantissa.rstrip('0')}p{exponent})" in text


# ---- the cache -----------------------------------------------------------------------------------


def test_made_once_for_each_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUPPLE_CACHE_DIR", str(tmp_path / "deep" / "er"))
    made: list[str] = []

    def make(what: str) -> Callable[[], bytes]:
        return lambda: made.append(what) or what.encode()  # type: ignore[func-returns-value]

    for what in ("a", "b", "a", "b"):
        assert cache.cached((what, "sm_90"), make(what)) == what.encode()
    assert cache.cached(("a", "sm_80"), make("c")) == b"c"
    assert made == ["a", "b", "c"]
    # parts of a key do not run into each other
    assert cache.cached(("asm", "_90"), make("d")) == b"d"


def test_done_without_where_it_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("no folder")
    monkeypatch.setenv("SUPPLE_CACHE_DIR", str(file))
    assert [cache.cached(("a",), lambda: b"x") for _ in range(2)] == [b"x", b"x"]
    assert file.read_text() == "no folder"


def _write(folder: str, number: int) -> bool:
    import os

    os.environ["SUPPLE_CACHE_DIR"] = folder
    whole = b"0123456789" * 100_000
    return all(cache.cached((str(i),), lambda: whole) == whole for i in range(20))


def test_many_processes_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(3) as pool:
        assert all(pool.starmap(_write, [(str(tmp_path), i) for i in range(3)]))
    assert {path.suffix for path in tmp_path.iterdir()} == {".cubin"}
    assert len(list(tmp_path.iterdir())) == 20
