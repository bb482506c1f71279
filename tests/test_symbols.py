"""Objects of the kernel for different instruction sets do not share weak symbols.

The linker keeps one copy of a function that several objects define as a weak symbol. If it keeps
the AVX-512 copy, older processors crash. Objects of the kernel must therefore not define weak
symbols outside their own namespaces.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sizes import NIGHTLY

ROOT = Path(__file__).parents[1]
LINES = [
    line.split()
    for line in (ROOT / "src/core/kernels/isa.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
HOST = {"x86_64": "x86_64", "AMD64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}
KERNELS = ROOT / "src/core/kernels"
SOURCES = sorted(path.name for path in KERNELS.glob("*.cpp") if path.name != "isa.cpp")
MACHINE = HOST.get(os.uname().machine, "other")


def built() -> list[Path]:
    """Return the objects of the kernel, in all build folders, that are newer than every source."""
    texts = [*(ROOT / "include").rglob("*.hpp"), *(ROOT / "src/core").rglob("*.[hc]pp")]
    last = max(path.stat().st_mtime for path in texts)
    found = ROOT.glob("build/*/CMakeFiles/kernels_*.dir/**/*.o")  # CMake joins some sources
    return [path for path in found if path.stat().st_mtime > last]


def compiled(source: str, folder: Path) -> Path:
    """Compile a kernel for the best instruction set of this architecture."""
    # All instruction sets compile the same sources; the last one listed is the best.
    _, isa, *flags = [line for line in LINES if line[0] == MACHINE][-1]
    result = folder / f"kernels_{isa}.dir" / f"{source}.o"
    result.parent.mkdir(exist_ok=True)
    common = [
        "-std=c++20",
        "-Og",  # inlines few functions: those left include all that a release build may keep
        "-DSUPPLE_INLINE=inline",
        "-fno-exceptions",
        "-fPIC",
        "-ffp-contract=off",
        f"-I{ROOT / 'include'}",
        f"-I{ROOT / 'src/core'}",
    ]
    files = ["-c", str(KERNELS / source), "-o", str(result)]
    compiler = os.environ.get("CXX", "g++")
    subprocess.run([compiler, *common, f"-DSUPPLE_ISA={isa}", *flags, *files], check=True)
    return result


def test_kernels_define_no_weak_symbols_outside_their_namespaces(tmp_path: Path) -> None:
    """Check the objects of the last build; with SUPPLE_NIGHTLY=1, also those compiled here."""
    nm = shutil.which("nm")
    if not nm:
        pytest.skip("nm is not here")
    objects = built()
    if NIGHTLY or not objects:
        objects += [compiled(source, tmp_path) for source in SOURCES]
    for path in objects:
        isa = re.findall(r"kernels_(\w+)\.dir", str(path))[-1]
        listed = subprocess.run([nm, "-C", str(path)], capture_output=True, text=True, check=True)
        weak = [line for line in listed.stdout.splitlines() if re.match(r"\S* +[WVu] ", line)]
        assert all(f"supple::{isa}::" in line for line in weak), weak
