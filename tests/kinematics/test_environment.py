"""Modules that `import supple` loads, and environment variables, which supple reads
on first use.
"""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys

import pytest

from supple import _core
from supple._runtime import environment
from supple.errors import InputError

OPTIONAL = ("matplotlib", "viser", "ray", "mujoco", "cuda", "cupy", "yourdfpy", "trimesh", "scipy")


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a separate process."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("SUPPLE_")}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=clean | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_importing_supple_loads_no_optional_package() -> None:
    code = f"import supple, sys; print([m for m in {OPTIONAL} if m in sys.modules])"
    done = python(code)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_importing_supple_prints_nothing() -> None:
    done = python("import supple; robot = supple.load('panda'); robot.fk(robot.neutral())")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("isa", _core.isas())
def test_an_environment_variable_selects_the_instruction_set(isa: str) -> None:
    done = python("import supple; supple.Robot; print(supple._core.isa())", SUPPLE_ISA=isa)
    assert done.stdout.strip() == isa, done.stderr


def test_the_best_instruction_set_is_used_by_default() -> None:
    for given in ({}, {"SUPPLE_ISA": ""}):
        done = python("import supple; supple.Robot; print(supple._core.isa())", **given)
        assert done.stdout.strip() == _core.isas()[-1], done.stderr


def test_an_unknown_instruction_set_is_refused() -> None:
    done = python("import supple; supple.Robot", SUPPLE_ISA="mmx")
    last = done.stderr.strip().splitlines()[-1]
    available = ", ".join(repr(isa) for isa in _core.isas())
    assert done.returncode == 1
    assert last == (
        "supple.errors.InputError: SUPPLE_ISA must name an instruction set of this machine and "
        f"build; given: 'mmx'. Available: {available}."
    )


def test_the_kernel_refuses_an_unknown_instruction_set() -> None:
    before = _core.isa()
    with pytest.raises(ValueError, match=f"'mmx'.*{before}"):
        _core.use_isa("mmx")
    assert _core.isa() == before


def test_a_huge_number_of_threads_gives_the_same_results() -> None:
    code = (
        "import supple, os; robot = supple.load('panda'); q = robot.random(4000, seed=0)\n"
        "print((robot.fk(q) == robot.fk(q, threads=1)).all())"
    )
    done = python(code, SUPPLE_THREADS="1000000000000")
    assert done.stdout.strip() == "True", done.stderr


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts threads in /proc")
@pytest.mark.parametrize("threads", [1, 3])
def test_a_batch_runs_on_the_requested_number_of_threads(threads: int) -> None:
    code = (
        "import supple, os, threading, time\n"
        "robot = supple.load('panda'); q = robot.random(60000, seed=0)\n"
        "assert (robot.fk(q[:4000]) == robot.fk(q[:4000], threads=1)).all()\n"
        "idle = len(os.listdir('/proc/self/task'))\n"
        "worker = threading.Thread(target=robot.manipulability, args=(q,)); worker.start()\n"
        "most = 0\n"
        "while worker.is_alive(): most = max(most, len(os.listdir('/proc/self/task')))\n"
        "print(most - idle)"
    )
    done = python(code, SUPPLE_THREADS=str(threads), OPENBLAS_NUM_THREADS="1")
    assert done.stdout.strip() == str(threads), done.stderr


def test_an_invalid_supple_threads_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = "SUPPLE_THREADS must be a positive whole number"
    done = python("import supple; supple.Robot", SUPPLE_THREADS="two")
    last = done.stderr.strip().splitlines()[-1]
    assert last == f"supple.errors.InputError: {expected}; given: 'two'"
    for threads in ("0", "-1", "two", "1.5", "²"):
        monkeypatch.setenv("SUPPLE_THREADS", threads)
        with pytest.raises(InputError, match=f"^{expected}; given: '{re.escape(threads)}'$"):
            runpy.run_path(environment.__file__)  # as at its first import
