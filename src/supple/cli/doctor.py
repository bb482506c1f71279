"""`supple doctor`: versions, hardware and extras of this installation, and a self-test."""

from __future__ import annotations

import os
import platform
import re
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click
import numpy as np

import supple as sp
from supple import _core
from supple._runtime.environment import DEFAULT_THREADS
from supple.cli.console import FAILED, as_json_option, print_json, print_table
from supple.errors import EXTRAS
from supple.gpu import devices

_POSES = 2000  # number of poses in the self-test


@click.command()
@as_json_option
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Check the installation: versions, instruction set, threads, GPU, extras, a self-test.

    The self-test takes about a second: solutions are checked by forward kinematics, and a servo
    must keep its speed limits through a singularity. Exit code 1 means that the self-test failed.
    """
    found = {"versions": versions(), "machine": machine(), "extras": extras(), "test": self_test()}
    if as_json:
        print_json(found)
    else:
        _print(found)
    ctx.exit(0 if found["test"]["passed"] else FAILED)


def versions() -> dict[str, str]:
    """Return versions, the platform, and the paths of Python and supple."""
    return {
        "supple": sp.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "platform": platform.platform(),
        "executable": sys.executable,
        "package": os.path.dirname(sp.__file__),
    }


def machine() -> dict[str, Any]:
    """Return the instruction sets, number of threads and GPUs of this machine."""
    return {
        "instruction_set": _core.isa(),
        "available": _core.isas(),
        "threads": DEFAULT_THREADS,
        "gpus": [str(device) for device in devices()],
    }


def extras() -> dict[str, Any]:
    """Return the names of the packages that each extra needs and that are not installed."""
    return {
        name: [each for each in wanted if not _installed(each)] for name, wanted in EXTRAS.items()
    }


def _installed(requirement: str) -> bool:
    try:
        version(re.split(r"[\[<>=!~ ;]", requirement)[0])
    except PackageNotFoundError:
        return False
    return True


def self_test() -> dict[str, Any]:
    """Solve poses and run a servo through a singularity; return the results and `passed`."""
    began = time.perf_counter()
    panda, ur = sp.load("panda"), sp.load("ur5e")
    poses = panda.fk(panda.random(_POSES, seed=0))
    found = sp.Solver(panda).batch(poses)
    away = np.abs(panda.fk(found.q) - poses).max(axis=(1, 2))
    wrong = int((away[found.success] > 1e-5).sum())
    outside = int(((found.q < panda.lower) | (found.q > panda.upper)).any(axis=1).sum())
    servo = sp.Servo(ur, dt=0.004)
    q, fastest = np.radians([0, -70, 100, -120, -20, 0]), 0.0
    for _ in range(1000):
        q = servo(q, [0.05, 0, 0, -0.4, 0, 0])
        fastest = max(fastest, float(np.abs(servo.qd / ur.max_speed).max()))
    solved = int(found.success.sum())
    passed = not wrong and not outside and solved >= 0.99 * _POSES
    passed = passed and bool(np.isfinite(q).all()) and fastest <= 1 + 1e-9
    return {
        "passed": passed,
        "poses": _POSES,
        "solved": solved,
        "wrong": wrong,
        "outside_limits": outside,
        "fastest_joint": fastest,
        "seconds": time.perf_counter() - began,
    }


def _print(found: dict[str, Any]) -> None:
    machine, test = found["machine"], found["test"]
    rows = [*found["versions"].items()]
    available = ", ".join(machine["available"])
    rows.append(("instruction set", f"{machine['instruction_set']} (available: {available})"))
    rows.append(("threads", f"{machine['threads']} (SUPPLE_THREADS changes it)"))
    rows.append(("GPU", ", ".join(machine["gpus"]) or "none"))
    for name, missing in found["extras"].items():
        command = "missing: pip install " + " ".join(f'"{each}"' for each in missing)
        rows.append((f"extra {name}", command if missing else "installed"))
    words = f"{test['solved']} of {test['poses']} poses solved, {test['wrong']} wrong, "
    words += f"{test['outside_limits']} outside limits; fastest joint through a singularity "
    words += f"{100 * test['fastest_joint']:.0f} % of its limit; {test['seconds']:.2f} s"
    rows.append(("self-test", ("passed: " if test["passed"] else "FAILED: ") + words))
    print_table("supple doctor", ("", ""), rows)
