"""Check that each header of the kernel compiles on its own with every compiler.

    python tools/check_headers.py

- text: only lane.hpp has #if, and only lane.hpp includes host headers (for intrinsics)
- alone: each header, including those of src/core that do not use Python, compiles by itself
- together: all headers compile in one file, with $CXX and clang++, for each instruction set
- nvcc, nvrtc: tests/support/kernel/device.cu compiles for the GPU; NVRTC has no host headers

A check whose tool is not installed is reported as skipped. Exit status 1 if any check fails.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
INCLUDE = ROOT / "include"
HEADERS = sorted((INCLUDE / "supple").rglob("*.hpp"))
CORE = ROOT / "src/core"
CORE_HEADERS = sorted(
    path
    for folder in ("drivers", "kernels")
    for path in (CORE / folder).glob("*.hpp")
    if "Python.h" not in path.read_text()
)
DEVICE = ROOT / "tests/support/kernel/device.cu"
# Each compiler checks one target only, because a target takes a minute.
QUICK = "-G"  # debug code: optimization takes four times as long and finds no more errors
# Virtual architectures need no assembler, which takes three times as long and finds no errors.
NVCC_TARGETS = ("compute_80",)
NVRTC_TARGETS = ("compute_90",)
INTRINSICS = {"immintrin.h", "arm_neon.h"}

# The name of a check, and the output of its failure: "" if it passed, a Skipped if it did not run.
Outcome = tuple[str, "str | Skipped"]


class Skipped(str):
    """The reason why a check was not run."""


def name_of(header: Path) -> str:
    """Return the name by which a header is included."""
    return header.relative_to(CORE if header.is_relative_to(CORE) else INCLUDE).as_posix()


def text() -> Iterator[Outcome]:
    """Check that #if and host headers are only in lane.hpp, and that CUDA sees no host headers."""
    for header in HEADERS:
        wrong = []
        conditions: list[str] = []
        for number, line in enumerate(header.read_text().splitlines(), 1):
            directive = re.match(r"\s*#\s*(\w+)\s*(.*)", line)
            word, rest = directive.groups() if directive else ("", "")
            if word.startswith("if"):
                conditions.append(rest)
            elif word.startswith("el") and conditions:
                conditions[-1] = rest
            elif word == "endif" and conditions:
                conditions.pop()
            if word.startswith("if") and header.name != "lane.hpp":
                wrong.append(f"{name_of(header)}:{number}: #{word} belongs in lane.hpp")
            if word == "include" and rest.startswith("<"):
                intrinsics = header.name == "lane.hpp" and rest.strip("<>") in INTRINSICS
                if not intrinsics or not any("!defined(__CUDACC__)" in c for c in conditions):
                    wrong.append(f"{name_of(header)}:{number}: #include {rest} is a host header")
        yield f"text of {name_of(header)}", "\n".join(wrong)
    included = set(re.findall(r'#include "(\S+)"', DEVICE.read_text()))
    missing = sorted({name_of(header) for header in HEADERS} - included)
    yield "device.cu includes all headers", "".join(f"{name} is missing\n" for name in missing)


def instruction_sets() -> dict[str, list[str]]:
    """Return the compiler flags of each instruction set, from src/core/kernels/isa.txt."""
    machine = platform.machine().lower()
    names = {"amd64": "x86_64", "x86_64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}
    rows = [line.split() for line in (ROOT / "src/core/kernels/isa.txt").read_text().splitlines()]
    return {row[1]: row[2:] for row in rows if row and row[0] == names.get(machine, "other")}


def output(command: list[str]) -> str:
    """Run a command; return its output if it fails, or "" if it succeeds."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return "" if done.returncode == 0 else done.stdout or f"exit status {done.returncode}"


def compiled(command: list[str], headers: tuple[Path, ...]) -> str:
    """Return the errors of a compiler that reads a file with these headers."""
    strict = shlex.split(
        "-std=c++20 -Wall -Wextra -Wpedantic -Werror -ffp-contract=off -fsyntax-only "
        "-Wno-unused-function"  # drivers are internal to the file that includes them
    )
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as file:
        file.writelines(f'#include "{name_of(header)}"\n' for header in headers)
        file.flush()
        return output([*command, *strict, f"-I{INCLUDE}", f"-I{CORE}", file.name])


def alone() -> Iterator[Outcome]:
    """Check that each header includes what it uses.

    Because only lane.hpp has #if, the names that a header uses do not depend on the compiler or the
    instruction set, so one compiler and one instruction set show any missing #include. `together`
    checks everything else.
    """
    first = next(iter(instruction_sets().values()))
    command = [*shlex.split(os.environ.get("CXX", "g++")), *first]
    headers = (*HEADERS, *CORE_HEADERS)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        wrong = pool.map(lambda header: compiled(command, (header,)), headers)
    yield "each header alone", "".join(wrong)


def together() -> Iterator[Outcome]:
    """Check all headers with each compiler, for each instruction set."""
    for compiler in dict.fromkeys([os.environ.get("CXX", "g++"), "clang++"]):
        command = shlex.split(compiler)
        if not shutil.which(command[0]):
            yield f"headers with {compiler}", Skipped(f"no {command[0]} here")
            continue
        for isa, flags in instruction_sets().items():
            wrong = compiled([*command, *flags], (*HEADERS, *CORE_HEADERS))
            yield f"headers with {compiler}, {isa}", wrong


def nvcc() -> Iterator[Outcome]:
    """Check that device.cu compiles with nvcc, whose host pass also sees host headers."""
    for target in NVCC_TARGETS:
        name = f"device.cu with nvcc, {target}"
        if not shutil.which("nvcc"):
            yield name, Skipped("no nvcc here")
            continue
        with tempfile.TemporaryDirectory() as folder:
            command = ["nvcc", "-std=c++20", f"-gencode=arch={target},code={target}"]
            command += ["-Werror", "all-warnings"]
            command += [QUICK, f"-I{INCLUDE}", "-c", str(DEVICE), "-o", f"{folder}/device.o"]
            yield name, output(command)


def nvrtc_library() -> ctypes.CDLL | None:
    """Return NVRTC from the nvidia-cuda-nvrtc wheel or the system libraries."""
    packages = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    wheels = [path for p in packages for path in Path(p, "nvidia").glob("**/libnvrtc.so*")]
    for name in (*map(str, sorted(wheels, reverse=True)), ctypes.util.find_library("nvrtc")):
        try:
            # The loader does not find the wheel's second library, so this library is loaded first.
            for builtins in Path(name or "").parent.glob("libnvrtc-builtins.so*"):
                ctypes.CDLL(str(builtins))
            return ctypes.CDLL(name) if name else None
        except OSError:
            continue
    return None


def nvrtc_log(library: ctypes.CDLL, target: str) -> str:
    """Return NVRTC's log for device.cu, with all headers in memory; "" if the source compiles."""

    def text_list(texts: list[str]) -> ctypes.Array[ctypes.c_char_p]:
        return (ctypes.c_char_p * len(texts))(*(text.encode() for text in texts))

    program = ctypes.c_void_p()
    status = library.nvrtcCreateProgram(
        ctypes.byref(program),
        DEVICE.read_text().encode(),
        DEVICE.name.encode(),
        len(HEADERS),
        text_list([header.read_text() for header in HEADERS]),
        text_list([name_of(header) for header in HEADERS]),
    )
    if status:
        return f"nvrtcCreateProgram: error {status}"
    options = ["-std=c++20", f"-arch={target}", QUICK]
    status = library.nvrtcCompileProgram(program, len(options), text_list(options))
    size = ctypes.c_size_t()
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    said = log.value.decode(errors="replace").strip()
    return said or (f"nvrtcCompileProgram: error {status}" if status else "")


def nvrtc() -> Iterator[Outcome]:
    """Check that device.cu compiles at run time, without warnings."""
    library = nvrtc_library()
    for target in NVRTC_TARGETS:
        name = f"device.cu with nvrtc, {target}"
        if library is None:
            yield name, Skipped("no libnvrtc here (pip install nvidia-cuda-nvrtc)")
        else:
            yield name, nvrtc_log(library, target)


def main() -> int:
    """Run every check; print one line for each, and the output of failing ones."""
    failed = 0
    checks = (text, alone, together, nvcc, nvrtc)
    with ThreadPoolExecutor(len(checks)) as pool:  # compilers are processes
        running = [pool.submit(lambda check=check: list(check())) for check in checks]
    for done in running:
        for name, wrong in done.result():
            if isinstance(wrong, Skipped):
                print(f"skipped  {name}: {wrong}")
            elif wrong:
                failed += 1
                print(f"FAILED   {name}\n{wrong.rstrip()}")
            else:
                print(f"ok       {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
