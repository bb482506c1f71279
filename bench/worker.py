"""A contender in its own process, which lines of JSON drive; libraries cannot share a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
OWN = ""  # name that stands for the environment of this process
ONE_THREAD = {f"{lib}_NUM_THREADS": "1" for lib in ("OMP", "OPENBLAS", "MKL", "RAYON")}


def interpreter(environment: str) -> tuple[Path, dict[str, str]]:
    """Return the Python of another library's environment, and its environment variables.

    `make bench` creates .venv-peers/NAME. For a machine without a network, SUPPLE_PEERS names a
    folder with subfolders NAME of unpacked wheels, and this Python runs with NAME on its path.
    """
    if environment == OWN:
        return Path(sys.executable), {}
    unpacked = os.environ.get("SUPPLE_PEERS")
    if not unpacked:
        return HERE.parent / ".venv-peers" / environment / "bin/python", {}
    folder = Path(unpacked) / environment
    before = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(folder), *([before] if before else [])])
    return (Path(sys.executable) if folder.is_dir() else folder), {"PYTHONPATH": path}


class Worker:
    """A process that answers each line of JSON with a line of JSON.

    The first answer has the fields "versions" and "note", or "missing" with the reason why the
    process cannot run.
    """

    def __init__(self, environment: str, script: str, args: Sequence[object]) -> None:
        python, needs = interpreter(environment)
        self.process: subprocess.Popen[str] | None = None
        self.missing = "" if python.exists() else "its environment is not there: make bench"
        if self.missing:
            return
        self.process = subprocess.Popen(
            [str(python), "-W", "ignore", str(HERE / script), *map(str, args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | ONE_THREAD | needs,
        )
        about = self.ask(ask="about")
        self.missing = about.get("missing", "")
        self.note, self.versions = about.get("note", ""), about.get("versions", {})
        if self.missing:
            self.close()

    def ask(self, **question: object) -> Any:
        """Return the answer to one request."""
        with suppress(BrokenPipeError):  # the process has explained why it cannot run
            print(json.dumps(question), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline() or '{"missing": "it crashed"}')

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            with suppress(BrokenPipeError):
                self.process.stdin.close()
            self.process.wait()
            self.process = None

    @property
    def line(self) -> str:
        """Return a description of the contender, or the reason why it was omitted."""
        if self.missing:
            return f"**left out**, {self.missing}"
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return f"{versions}. {self.note}".rstrip()
