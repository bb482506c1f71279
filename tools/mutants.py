"""Mutation testing: small changes to the sources, each of which must make its test fail.

    python tools/mutants.py                  # all below tools/mutants
    python tools/mutants.py --list
    python tools/mutants.py --only 'box-*'   # a name, a pattern, or the file of a list
    python tools/mutants.py --only items/wampler.toml --package build/dev

An entry is a change and one or more tests, each of which must fail with the change:

    [name-of-the-mutant]
    file = "include/supple/servo/servo.hpp"
    old = 'max(a, b)'       # occurs exactly once in the file
    new = 'min(a, b)'
    test = "tests/control/test_servo_limits.py::test_the_law"

In C++ and CUDA, `old` is a whole expression, or one or more whole statements (then it ends with ;
or }). All C++ mutants are built at once into a copy of the tree, each behind a switch that the
environment variable SUPPLE_MUTANT controls. In Python, `old` is any text, and each mutant has its
own copy of the package. First all tests must pass without a mutant, then each test must fail with
the mutant of its entry. The exit status is 1 if a mutant survives. With --package, nothing is
built: the mutants in Python run in an existing package, such as that of `make dev`; C++ mutants are
left out.

The lists in tools/mutants/items guard the items of papers/items.toml, which name them.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import time
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import tomllib

ROOT = Path(__file__).parents[1]
LISTS = ROOT / "tools/mutants"
WORK = ROOT / "build/mutants"
TREE, SITE, PACKAGES = WORK / "tree", WORK / "site", WORK / "packages"
TIMEOUT = 120.0  # time limit for one test with a mutant [s]
PATIENCE = 1200.0  # time limit for the tests of a file without a mutant, compilation included [s]
WORKERS = 2
QUICK = "-O1"  # compiles faster than -O3; without fast-math the numbers are the same

# The switch, which C++ reads when a library is loaded. A guard allows repeated inclusion, because a
# CUDA source joins several files, of which LANES is always the first.
LANES = "include/supple/math/lane.hpp"
SWITCH = """\
#ifndef SUPPLE_MUTANT
#include <stdlib.h>
inline const long supple_mutant = getenv("SUPPLE_MUTANT") ? atol(getenv("SUPPLE_MUTANT")) : 0;
#define SUPPLE_MUTANT(number) (supple_mutant == (number))
#endif
"""


class StaleError(Exception):
    """An entry does not match the sources or the tests."""


@dataclass(frozen=True)
class Mutant:
    """One change and the test that must fail with it."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def python(self) -> bool:
        """Whether the changed file is Python."""
        return self.file.endswith(".py")

    @property
    def number(self) -> int:
        """The value of SUPPLE_MUTANT, which other entries do not change, so builds are reused."""
        return zlib.crc32(self.name.encode()) & 0x7FFFFFFF

    def span(self, text: str) -> tuple[int, int]:
        """Return the position of `old` in the text of the file."""
        count = text.count(self.old)
        if count != 1:
            raise StaleError(f"{self.name}: old must occur once in {self.file}; found: {count}")
        first = text.index(self.old)
        return first, first + len(self.old)


def load() -> list[Mutant]:
    """Return the mutants of all files in tools/mutants."""
    mutants: dict[str, Mutant] = {}
    for each in lists().values():
        for mutant in each:
            if mutant.name in mutants:
                raise StaleError(f"{mutant.name}: two entries have this name")
            mutants[mutant.name] = mutant
    return list(mutants.values())


def lists() -> dict[str, list[Mutant]]:
    """Return the mutants by the file of their list, such as items/wampler.toml."""
    return {
        path.relative_to(LISTS).as_posix(): [
            read(name, entry) for name, entry in tomllib.loads(path.read_text("utf-8")).items()
        ]
        for path in sorted(LISTS.rglob("*.toml"))
    }


def read(name: str, entry: dict[str, Any]) -> Mutant:
    """Return the mutant of an entry."""
    if set(entry) != {"file", "old", "new", "test"}:
        raise StaleError(f"{name}: must have file, old, new, test; given: {sorted(entry)}")
    tests = entry.pop("test")
    return Mutant(name, **entry, tests=(tests,) if isinstance(tests, str) else tuple(tests))


def check(mutant: Mutant, root: Path = ROOT) -> None:
    """Raise StaleError unless the text to change and the test exist."""
    path = root / mutant.file
    if not path.is_file():
        raise StaleError(f"{mutant.name}: the file {mutant.file} does not exist")
    mutant.span(path.read_text("utf-8"))
    begins = mutant.old.strip().startswith(("if ", "for ", "while ", "return "))
    if not mutant.python and begins and not mutant.old.rstrip().endswith((";", "}")):
        raise StaleError(f"{mutant.name}: {mutant.old!r} is neither an expression nor a statement")
    for test in mutant.tests:
        file, _, function = test.partition("::")
        if not (root / file).is_file():
            raise StaleError(f"{mutant.name}: the test file {file} does not exist")
        if function.partition("[")[0] not in functions_in(root / file):
            raise StaleError(f"{mutant.name}: {file} has no test {function}")


@cache
def functions_in(path: Path) -> frozenset[str]:
    """Return the names of all functions in a Python file."""
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef))


def switched(text: str, mutants: Iterable[Mutant]) -> str:
    """Return the text of a file with C++ mutants inserted, each behind its switch."""
    sites: dict[tuple[int, int], list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        sites[mutant.span(text)].append(mutant)
    before: tuple[int, str] = (len(text), "")
    for first, last in sorted(sites, reverse=True):
        same = sites[first, last]
        if last > before[0]:
            raise StaleError(f"{same[0].name}: its old text overlaps that of {before[1]}")
        before = first, same[0].name
        old = text[first:last]
        statement = old.rstrip().endswith((";", "}"))
        for mutant in same:
            chosen = f"SUPPLE_MUTANT({mutant.number})"
            if statement:
                old = f"if ({chosen}) {{ {mutant.new} }} else {{ {old} }}"
            else:
                old = f"({chosen} ? ({mutant.new}) : ({old}))"
        text = text[:first] + old + text[last:]
    place = text.find("\nnamespace supple") + 1  # below all #includes: CUDA sources replace these
    return text[:place] + SWITCH + text[place:]


def copy_tree(mutants: Sequence[Mutant]) -> None:
    """Copy the sources into TREE with the switches in place; unchanged files are not rebuilt."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    paths = [path for path in listed.stdout.decode().split("\0") if (ROOT / path).is_file()]
    by_file: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        if not mutant.python:
            by_file[mutant.file].append(mutant)
    for path in paths:
        data = (ROOT / path).read_bytes()
        if path in by_file or (by_file and path == LANES):
            data = switched(data.decode(), by_file[path]).encode()
        if path == "CMakeLists.txt":
            data = data.replace(b"-O3", QUICK.encode())
        to = TREE / path
        if not to.is_file() or to.read_bytes() != data:
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(data)
    kept = {TREE / path for path in paths}
    for folder in ("include", "src", "tests"):
        for path in (TREE / folder).rglob("*"):
            if path.is_file() and path not in kept and "__pycache__" not in path.parts:
                path.unlink()


def build() -> None:
    """Build and install the package of TREE into SITE."""
    shutil.rmtree(SITE, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    options = ["--no-build-isolation", "--no-deps", "--target", str(SITE), "."]
    options.append(f"--config-settings=cmake.define.CMAKE_CXX_FLAGS_RELEASE={QUICK}")
    subprocess.run([*command, *options], cwd=TREE, check=True)


def package_of(mutant: Mutant, site: Path) -> Path:
    """Make a package with a Python mutant; return the folder from which it is imported.

    All files but the changed one are links to the package in `site`.
    """
    folder = PACKAGES / mutant.name
    shutil.rmtree(folder, ignore_errors=True)
    path = Path(mutant.file.replace("papers/", "supple/papers/").removeprefix("src/"))
    for depth in range(1, len(path.parts)):
        here, kept = Path(*path.parts[:depth]), path.parts[depth]
        (folder / here).mkdir(parents=True)
        for entry in (site / here).iterdir():
            if entry.name not in (kept, "__pycache__"):
                (folder / here / entry.name).symlink_to(entry)
    text = (site / path).read_text("utf-8")
    first, last = mutant.span(text)
    (folder / path).write_text(text[:first] + mutant.new + text[last:], "utf-8")
    return folder


def run_tests(
    tests: Sequence[str], folder: Path, number: int = 0, *, tree: Path = TREE, patience: float
) -> tuple[int | None, str]:
    """Run tests of a tree with the package in a folder; return the exit status and the output.

    The status is None after a timeout.
    """
    environment = os.environ | {"PYTHONPATH": str(folder), "SUPPLE_NIGHTLY": "1"}  # all cases
    environment.pop("SUPPLE_MUTANT", None)
    if number:
        environment["SUPPLE_MUTANT"] = str(number)
    options = ["-q", "-rA", "--tb=short", "-p", "no:cacheprovider"]
    if len(tests) == 1:
        options.append("-x")
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=tree,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)  # also ends the processes that the test has started
        process.communicate()
        return None, ""
    return process.returncode, output


def without_mutants(mutants: Sequence[Mutant], site: Path, tree: Path) -> Iterator[str]:
    """Run the tests of all mutants on the unchanged sources; yield the failures."""
    by_file: dict[str, set[str]] = defaultdict(set)
    for test in (test for mutant in mutants for test in mutant.tests):
        by_file[test.partition("::")[0]].add(test)

    def run(tests: set[str]) -> tuple[int | None, str]:
        return run_tests(sorted(tests), site, tree=tree, patience=PATIENCE)

    with ThreadPoolExecutor(WORKERS) as pool:
        results = pool.map(run, by_file.values())
        for tests, (status, output) in zip(by_file.values(), results, strict=True):
            passed = re.findall(r"^PASSED (.*)$", output, re.MULTILINE)
            for test in sorted(tests):
                if not any(one == test or one.startswith(f"{test}[") for one in passed):
                    yield f"{test} does not pass without a mutant"
            if status != 0:
                yield output or f"{sorted(tests)}: no end after {PATIENCE:g} s"


def verdict_of(mutant: Mutant, site: Path, tree: Path) -> tuple[str, float]:
    """Run a mutant's tests; return "killed" or another verdict, and the time of the tests [s]."""
    begin = time.monotonic()
    folder = package_of(mutant, site) if mutant.python else site
    number = 0 if mutant.python else mutant.number
    status, output = run_tests(mutant.tests, folder, number, tree=tree, patience=TIMEOUT)
    seconds = time.monotonic() - begin
    if status is None:
        return "DOES NOT END", seconds
    failed = re.findall(r"^(?:FAILED|ERROR) (\S*)", output, re.MULTILINE)
    passing = [t for t in mutant.tests if not any(f == t or f.startswith(f"{t}[") for f in failed)]
    if status == 0 or (status == 1 and passing and len(mutant.tests) > 1):
        return f"SURVIVED {' '.join(t.split('::')[-1] for t in passing)}", seconds
    if status == 1 or status < 0:  # a failure, or a crash
        return "killed", seconds
    return f"NOT RUN (pytest's status {status})\n{output}", seconds


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description="Mutation testing; see tools/mutants.py.")
    parser.add_argument("--list", action="store_true", help="print the entries and exit")
    parser.add_argument("--only", action="append", metavar="NAME", help="a name, pattern or list")
    parser.add_argument("--package", type=Path, metavar="FOLDER", help="an existing build")
    arguments = parser.parse_args()
    site, tree = (SITE, TREE) if arguments.package is None else (arguments.package.resolve(), ROOT)
    try:
        mutants = load()
        chosen = list(selected(mutants, arguments.only or ["*"]))
        if arguments.package is not None:
            chosen = [mutant for mutant in chosen if mutant.python]
        if arguments.list:
            for m in chosen:
                print(f"{m.name:<36} {m.file}\n    {m.old!r} -> {m.new!r}\n    {' '.join(m.tests)}")
            return 0
        for mutant in mutants:
            check(mutant)
        if arguments.package is None:
            copy_tree(mutants)
    except StaleError as error:
        print(error, file=sys.stderr)
        return 1
    if arguments.package is None:
        build()
    wrong = list(without_mutants(chosen, site, tree))
    if wrong:
        print(*wrong, sep="\n", file=sys.stderr)
        return 1
    survivors = 0
    with ThreadPoolExecutor(WORKERS) as pool:
        verdicts = pool.map(lambda mutant: verdict_of(mutant, site, tree), chosen)
        for mutant, (verdict, seconds) in zip(chosen, verdicts, strict=True):
            tests = " ".join(test.split("/")[-1] for test in mutant.tests)
            line = f"{mutant.name:<36} {Path(mutant.file).name:<16} {tests:<80}"
            print(f"{line} {seconds:5.1f} s  {verdict}", flush=True)
            survivors += verdict != "killed"
    print(f"{len(chosen)} mutants, {survivors} not killed")
    return 1 if survivors else 0


def selected(mutants: Sequence[Mutant], wanted: Sequence[str]) -> Iterator[Mutant]:
    """Yield the mutants whose name, or whose list, matches one of the patterns."""
    of_list = {m.name: path for path, some in lists().items() for m in some}
    found = [
        m for m in mutants if any(fnmatch(x, w) for w in wanted for x in (m.name, of_list[m.name]))
    ]
    if not found:
        raise StaleError(f"no entry matches {', '.join(wanted)}; --list prints all names")
    yield from found


if __name__ == "__main__":
    sys.exit(main())
