"""Code compiled for one instruction set must not be merged with that of another.

The linker keeps one copy of a function that several objects define as a weak symbol. If it keeps
the AVX-512 copy, older processors crash. Objects of the kernel therefore must not define weak
symbols outside their own namespaces.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINES = [
    line.split()
    for line in (ROOT / "src/core/kernels/isa.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
HOST = {"x86_64": "x86_64", "AMD64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}
SOURCES = ["motion.cpp", "tasks.cpp", "servo.cpp", "ik.cpp", "branches.cpp", "paths.cpp"]
MACHINE = HOST.get(os.uname().machine, "other")


@pytest.mark.parametrize("source", SOURCES)
def test_kernels_share_no_weak_symbols(source: str, tmp_path: Path) -> None:
    # All instruction sets compile the same sources; the last one listed is the best.
    _, isa, *flags = [line for line in LINES if line[0] == MACHINE][-1]
    compiler, nm = os.environ.get("CXX", "g++"), shutil.which("nm")
    if not nm:
        pytest.skip("nm is not here")
    built = tmp_path / "kernels.o"
    common = [
        "-std=c++20",
        "-Og",  # few functions are inlined: those that remain are what a release build may keep
        "-DSUPPLE_INLINE=inline",
        "-fPIC",
        "-ffp-contract=off",
        f"-I{ROOT / 'include'}",
        f"-I{ROOT / 'src/core'}",
    ]
    files = ["-c", str(ROOT / "src/core/kernels" / source), "-o", str(built)]
    subprocess.run([compiler, *common, f"-DSUPPLE_ISA={isa}", *flags, *files], check=True)
    listed = subprocess.run([nm, "-C", str(built)], capture_output=True, text=True, check=True)
    weak = [line for line in listed.stdout.splitlines() if re.match(r"\S* +[WVu] ", line)]
    assert all(f"supple::{isa}::" in line for line in weak), weak
