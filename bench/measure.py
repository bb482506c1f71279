"""Fair timing on a noisy machine: interleaved rounds, compared by medians."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
FILES = Path(os.environ.get("SUPPLE_ROBOT_FILES") or Path(sys.prefix) / "robot-files")
PANDA = FILES / "frax/assets/franka_panda/panda.urdf"


def interleaved(
    contenders: Mapping[str, Callable[[], float]], rounds: int
) -> dict[str, list[float]]:
    """Run every contender once per round; each round begins with a different contender.

    Return the times of each contender, one per round.
    """
    names = list(contenders)
    times: dict[str, list[float]] = {name: [] for name in names}
    for name in names:  # warm up
        contenders[name]()
    for r in range(rounds):
        for name in names[r % len(names) :] + names[: r % len(names)]:
            times[name].append(contenders[name]())
    return times


def medians(times: Mapping[str, list[float]]) -> dict[str, float]:
    """Return the median time of each contender."""
    return {name: statistics.median(values) for name, values in times.items()}


def one_core() -> None:
    """Keep this process on one core, so that all contenders use the same core."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def cpu() -> str:
    """Return the name of the processor."""
    if sys.platform == "linux":
        for line in subprocess.run(["lscpu"], capture_output=True, text=True).stdout.splitlines():
            if line.startswith("Model name:"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def provenance(packages: Iterable[str]) -> str:
    """Return machine, versions and commit as a paragraph for a results file."""
    commit = subprocess.run(
        ["git", "-C", str(HERE), "describe", "--always", "--dirty"], capture_output=True, text=True
    ).stdout.strip()
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    return (
        f"{cpu()} ({platform.machine()}), {platform.system()}, Python {platform.python_version()}, "
        f"{versions}, commit {commit or 'unknown'}."
    )


def write(name: str, text: str) -> Path:
    """Write results/NAME.MACHINE.md."""
    file = HERE / "results" / f"{name}.{platform.machine()}.md"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file
