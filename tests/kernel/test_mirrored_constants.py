"""Each constant or enumerator is defined once: in C++, from which Python takes it, or only in
Python.

Python reads constants of the kernel from `supple._core`, and constants of CUDA files by
`supple.gpu.source`. A few constants that Python must repeat are compared here.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from supple.gpu.source import block_size, constant_of

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src/supple"

# Constants of equal value and similar name in Python and C++, which are the same quantity:
# `_arrays` may not import `_core`.
REPEATED = {
    ("_arrays/checks.py", "_ROTATION_ROUNDING", "rotation_rounding"),
}
# Such constants that are different quantities, or numbers that are chosen independently.
INDEPENDENT = {
    ("ik/gpu/gradients.py", "_THREADS", "threads"),
    ("ik/gpu/subproblems.py", "_THREADS", "threads"),
    ("kinematics/gpu_frames.py", "THREADS", "threads"),
    ("kinematics/loops.py", "_MAX_ITERATIONS", "max_iterations"),
}


class Constant(NamedTuple):
    """A named number in a source file."""

    file: str
    name: str
    value: float

    @property
    def words(self) -> frozenset[str]:
        """Return the words of the name, without the type of an enumerator."""
        words = self.name.rpartition("::")[2].lower().strip("_").split("_")
        return frozenset(word.rstrip("s") for word in words)


def value_of(text: str) -> float | None:
    """Return the value of an arithmetic expression of numbers, or None."""
    try:
        value = eval(text, {"__builtins__": {}, "np": math, "math": math})
    except Exception:
        return None
    return float(value) if type(value) in (int, float) else None


def constants_in_python(file: str, text: str) -> Iterator[Constant]:
    """Yield the constants of a module and of its classes."""
    tree = ast.parse(text)
    for body in [tree.body, *(each.body for each in tree.body if isinstance(each, ast.ClassDef))]:
        for node in body:
            match node:
                case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                    pairs = list(zip(names, values, strict=False))
                case ast.Assign(targets=[name], value=value):
                    pairs = [(name, value)]
                case _:
                    continue
            for name, value in pairs:
                number = value_of(ast.unparse(value))
                if isinstance(name, ast.Name) and number is not None:
                    yield Constant(file, name.id, number)


def constants_in_cpp(file: str, text: str) -> Iterator[Constant]:
    """Yield the constants and enumerators of a header or a source file."""
    code = re.sub(r"//.*", "", text)
    for found in re.finditer(r"\bconstexpr\s+(?:[\w:]+\s+)+?(\w+\s*=\s*[^;{]+);", code):
        for part in re.split(r",\s*(?=\w+\s*=)", found[1]):
            name, _, given = part.partition("=")
            given = given.partition("?")[2].partition(":")[0] or given  # the value for double
            plain = re.sub(r"\b(?:T|double|float|int)\(|\)|(?<=[\d.])[fu]+\b", "", given)
            number = value_of(plain.strip())
            if number is not None:
                yield Constant(file, name.strip(), number)
    for found in re.finditer(r"\benum (?:class )?(\w+)[^{;]*\{([^}]*)\}", code):
        value = 0
        for part in filter(None, map(str.strip, found[2].split(","))):
            name, _, given = part.partition("=")
            value = int(value_of(given.strip()) or 0) if given else value
            yield Constant(file, f"{found[1]}::{name.strip()}", value)
            value += 1


def similar(python: Constant, cpp: Constant) -> bool:
    """Return whether a constant of Python and one of C++ seem to be the same.

    The words of one name, at least two, must be among those of the other. Names of a single word,
    small numbers and enumerators must be equal, because similar ones are too often equal by chance.
    """
    if python.value != cpp.value:
        return False
    if "::" in cpp.name or cpp.value in (0, 1, 2):
        return python.words == cpp.words and not ("::" not in cpp.name and cpp.value in (0, 1))
    common = python.words & cpp.words
    fewer = min(python.words, cpp.words, key=len)
    return python.words == cpp.words or (len(fewer) > 1 and common == fewer)


def sources(folders: tuple[str, ...], kinds: tuple[str, ...]) -> list[Path]:
    every = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    return sorted(path for path in every if path.suffix in kinds)


def test_no_constant_of_the_kernel_is_repeated_in_python() -> None:
    there = [
        one
        for path in sources(("include/supple", "src/core", "src/supple"), (".hpp", ".cpp", ".cu"))
        for one in constants_in_cpp(path.name, path.read_text())
    ]
    assert len(there) > 400
    found = {
        (here.file, here.name, cpp.name)
        for path in sources(("src/supple",), (".py",))
        for here in constants_in_python(path.relative_to(PACKAGE).as_posix(), path.read_text())
        for cpp in there
        if similar(here, cpp)
    }
    assert found == REPEATED | INDEPENDENT


@pytest.mark.parametrize(
    ("python", "cpp"),
    [
        ("_HELD, _GIVEN_UP = 2, 3", "enum class State : int {\n  waiting, met,\n  held,  // x\n};"),
        ("class S(IntEnum):\n    OUT = 4", "enum S { a = 1, out = 4 };"),
        ("_PRIORITY_WEIGHT = 1e-2", "inline constexpr T priority_weight = T(1e-2);"),
        ("_DISTINCT = 0.01", "inline constexpr int a = 3;\nconstexpr double distinct = 1e-2;"),
        ("_LARGEST_ANGLE = 4 * np.pi", "constexpr double largest_angle = 4 * 3.141592653589793;"),
        ("RIDGE = 1e-9", "inline constexpr T ridge = sizeof(T) == 8 ? T(1e-9) : T(1e-4);"),
        ("THREADS = 64", "constexpr int blocks = 3, threads = 64;"),
    ],
)
def test_a_constant_of_the_kernel_repeated_in_python_would_be_found(python: str, cpp: str) -> None:
    (*_, here), there = constants_in_python("", python), [*constants_in_cpp("", cpp)]
    every = [*constants_in_python("", python)]
    assert any(similar(one, other) for one in every for other in there)
    other = here._replace(value=here.value + 0.5)
    assert not any(similar(other, one) for one in there)


def test_python_reads_constants_of_cuda_files_by_name() -> None:
    assert constant_of("branches.cu", "capacity") == 8
    assert block_size("explore.cu", "explore") == 64
    assert block_size("whole_body.cu", "reach") == constant_of("whole_body.cu", "threads")
    with pytest.raises(AssertionError, match="nothing"):
        constant_of("branches.cu", "nothing")
