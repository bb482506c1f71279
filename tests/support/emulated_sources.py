"""CUDA sources of many problems, compiled together by g++ for the emulated GPU.

Nearly all machine code comes from functions in headers, which are the same for all problems. The
sources are joined in one file, with a namespace for each problem, which compiles in a fifth of the
time.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from compile_once import only_one
from supple.gpu import source as sources
from supple.ik.gpu import gradients
from supple.kinematics import gpu_frames

NEXT = "\0"  # separator of texts that are linked
_HEADER = Path(__file__).with_name("emulator.hpp")
_FOLDER = Path(__file__).parents[2] / "build/emulated"  # the compiled sources
# Compiling takes most of the time of these tests, hence no optimization and no forced inlining.
_OPTIONS = (
    *("-std=c++20", "-w", "-fPIC", "-fno-gnu-unique", "-fvisibility=hidden"),
    *("-fno-exceptions", "-fno-asynchronous-unwind-tables", "-DSUPPLE_INLINE=inline"),
)
_TYPES = {  # ctypes type of each type of CUDA kernel argument
    "nearest_seeds": ("Request", "int", "View", "TargetKind"),
    "search": ("Request",),
    "finish": ("Request",),
    "explore": ("Request", "int", "View", "TargetKind"),
    "postprocess": ("Request",),
    "reject": ("Request",),
    "restore": ("Request",),
    "choose": ("Request", "BranchRequest"),
    "keep": ("Request", "BranchRequest"),
    **dict.fromkeys((*gpu_frames.KERNELS, *gradients.KERNELS), ("Request",)),
    "find": ("BranchRequest",),
    "verify": ("BranchRequest",),
    "read": ("View", "TargetKind", "double*", "int", "int"),
    **dict.fromkeys(
        ("to_coordinates", "to_configurations"), ("double*", "int*", "int", "int", "double*", "int")
    ),
    "linearize": ("Request",),
    "reach": ("Request",),
    "limit": ("Request", "int"),
    "apply": ("StepRequest",),
    "costs": ("Request", "Cost", "double*"),
    "rank": ("SolutionArrays", "void*", "int", "int", "SolutionArrays", "int"),
    "drop": ("Request",),
    "fill": ("SolutionArrays", "int", "int"),
    "begin": ("double*", "int", "double*", "int", "SolutionArrays", "int"),
    "split": ("double*", "double*", "int*", "int", "int", "int"),
    "merge": ("SolutionArrays", "int*", "int", "double*", "int", "SolutionArrays", "int"),
    "spread": (
        *("double*", "int*", "int", "double*", "int"),
        *("SolutionArrays", "SolutionArrays", "int"),
    ),
}
# Matches the parts of a source: each header up to its last line, and the text after the headers.
_PARTS = re.compile(r".*?^}  // namespace supple.*?\n|.+", re.MULTILINE | re.DOTALL)


class Source:
    """The source of some CUDA kernels.

    Args:
        code: Texts of the source, separated by `NEXT`.
        names: Names of the CUDA kernels.
        linked: Whether the texts are compiled separately and linked, as for a GPU.
    """

    def __init__(self, code: bytes, names: Sequence[str], linked: bool) -> None:
        self.names, self.linked = names, linked
        self._texts = code.decode().replace('extern "C" ', "").split(NEXT)
        made_of = (_HEADER.read_bytes(), repr((_OPTIONS, names, linked)).encode(), code)
        self.key = hashlib.sha256(b"\0".join(made_of)).hexdigest()
        self.library = _FOLDER / f"{self.key}.so"

    def function(self, name: str) -> Any:
        """Return a CUDA kernel of the compiled source."""
        return getattr(ctypes.CDLL(str(self.library)), self._entry(name))

    @cached_property
    def files(self) -> list[str]:
        """The texts of the files to compile, without the headers that all problems share."""
        texts = self._texts
        if not self.linked and any("several = true" in text for text in texts):
            # All files of a problem share their constants here; only explore.cu reads `several`.
            texts = [text.replace("several = false", "several = true") for text in texts]
        files = [_parts(text) for text in texts]
        return [self._own(parts) for parts in (files if self.linked else [_merged(files)])]

    def _entry(self, name: str) -> str:
        return f"own_{self.key[:16]}_{name}"

    def _own(self, parts: Iterable[str]) -> str:
        """Return the parts that are not shared, with callable functions, in their own namespace."""
        text = "".join(part for part in parts if part not in _shared())
        text = re.sub("^namespace supple.*{$", "inline namespace text {", text, flags=re.MULTILINE)
        calls = [
            self._call(n) for n in self.names if re.search(rf"__global__[^;{{}}]*\b{n}\(", text)
        ]
        space = f"supple::own_{self.key[:16]}"
        names = f"using namespace ::supple;\nnamespace supple = ::{space};"
        return f"namespace {space} {{\n{names}\n{text}\n{''.join(calls)}}}\n"

    def _call(self, name: str) -> str:
        given = ", ".join(f"*static_cast<{t}*>(given[{i}])" for i, t in enumerate(_TYPES[name]))
        return (
            f'extern "C" __attribute__((visibility("default"))) void {self._entry(name)}('
            "int blocks, int threads, void** all) {\n"
            f"  ::emulated::launch(blocks, threads, [](void** given) {{ {name}({given}); }}, all);"
            "\n}\n"
        )


def compile_together(sources: Iterable[Source]) -> None:
    """Compile the libraries of several sources; those that exist are not compiled again."""
    new = {one.key: one for one in sources if not one.library.exists()}
    if not new:
        return
    path = _FOLDER / hashlib.sha256("".join(sorted(new)).encode()).hexdigest()
    with only_one(path):
        if not path.with_suffix(".so").exists():
            _compile(list(new.values()), path)
    for one in new.values():
        own = one.library.with_suffix(f".{os.getpid()}")
        own.symlink_to(path.with_suffix(".so").name)
        own.replace(one.library)


def _compile(sources: Sequence[Source], path: Path) -> None:
    # The file has a temporary name until it is complete, in case the compiler is interrupted.
    own = path.with_name(f"{path.name}.{os.getpid()}")
    joined = [text for one in sources if not one.linked for text in one.files]
    texts = [text for one in sources if one.linked for text in one.files]
    header = _precompiled()

    def compiled(i: int, text: str) -> str:
        file = own.with_name(f"{own.name}_{i}.cpp")
        file.write_text(f'#include "{header}"\n{text}')
        made = str(file.with_suffix(".o"))
        subprocess.run(["g++", *_OPTIONS, "-c", str(file), "-o", made], check=True)
        return made

    with ThreadPoolExecutor() as pool:
        texts = [*texts, *(["\n".join(joined)] if joined else [])]
        objects = list(pool.map(compiled, range(len(texts)), texts))
    subprocess.run(["g++", "-shared", *objects, "-o", str(own)], check=True)
    own.replace(path.with_suffix(".so"))
    for leftover in _FOLDER.glob(f"{own.name}_*"):
        leftover.unlink()


def _precompiled() -> Path:
    """Return a precompiled header: the headers that the kernels of all problems share."""
    text = f'#include "{_HEADER}"\n#define read read_\n{"".join(_shared())}'
    made_of = (_HEADER.read_text(), *_OPTIONS, text)
    header = _FOLDER / f"{hashlib.sha256(NEXT.join(made_of).encode()).hexdigest()}.hpp"
    result = header.with_suffix(".hpp.gch")
    with only_one(header):
        if not result.exists():
            header.write_text(text)
            own = header.with_suffix(f".{os.getpid()}")
            command = ["g++", *_OPTIONS, "-x", "c++-header", str(header), "-o", str(own)]
            subprocess.run(command, check=True)
            own.replace(result)
    return header


@cache
def _shared() -> dict[str, None]:
    """Return the headers that do not depend on the problem, each after those that it includes.

    The headers of whole_body.cu are left out: they depend on the number of multipliers.
    """
    names = [path.name for folder in sources._FOLDERS for path in sorted(folder.glob("*.cu"))]
    texts = [sources._general(name) for name in names if name != "whole_body.cu"]
    before = [text.partition(sources._PLACE) for text in texts]
    return dict.fromkeys(_merged(_parts(text) for text, constants, _ in before if constants))


def _parts(text: str) -> list[str]:
    """Return the headers of a source without their titles, and the text after the headers."""
    return _PARTS.findall(re.sub(r"^(//.*)?\n", "", text, flags=re.MULTILINE))


def _merged(files: Iterable[Sequence[str]]) -> list[str]:
    """Join files; a part of several files appears once, after the parts that precede it in each."""
    merged: list[str] = []
    for parts in files:
        place = 0
        for part in parts:
            if part not in merged:
                merged.insert(place, part)
            place = max(place, merged.index(part) + 1)
    return merged
