"""Fixtures of all tests."""

from __future__ import annotations

import gc
import os
import sys

# Tests run in a process per core, where BLAS threads would only wait for each other. NumPy reads
# the variable when it is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from supple import _core
from supple.gpu import devices

RobotFiles = Callable[[str, str], Path]


# Hypothesis draws the same examples in every run, so that results do not depend on chance.
settings.register_profile("same", derandomize=True)
settings.load_profile("same")


# Folders whose files share expensive fixtures: each folder runs in one process.
TOGETHER = ("tests/papers/",)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each process of `pytest -n` whole files, so that each file fills its caches once."""
    from xdist.scheduler import LoadScopeScheduling

    together = (*TOGETHER, "tests/gpu/") if devices() else TOGETHER  # all GPU tests use one GPU

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return next((p for p in together if nodeid.startswith(p)), nodeid.partition("::")[0])

    return ByFile(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse test ids with memory addresses, which differ between the processes of `pytest -n`."""
    for item in items:
        if " at 0x" in item.nodeid:
            message = "a test id contains an address in memory; use ids=without_addresses"
            raise pytest.UsageError(f"{message}: {item.nodeid}")


def pytest_collection_finish() -> None:
    """Keep the garbage collector from visiting 15,000 collected tests again and again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()


@pytest.fixture(scope="session")
def robot_files() -> RobotFiles:
    """Return a function that finds a robot file: find("frax", "assets/iiwa/iiwa14.urdf").

    `make test` installs the wheels of robot-files.txt into the environment's robot-files folder;
    SUPPLE_ROBOT_FILES names another folder. Tests are skipped if the folder does not exist, and
    fail if it lacks the file.
    """
    folder = Path(os.environ.get("SUPPLE_ROBOT_FILES") or Path(sys.prefix) / "robot-files")

    def find(package: str, path: str) -> Path:
        if not folder.is_dir():
            pytest.skip(f"no robot files in {folder}: make test installs them")
        file = folder / package / path
        if not file.is_file():
            pytest.fail(f"{package} has no {path}")
        return file

    return find


@pytest.fixture(params=_core.isas())
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each instruction set of this machine in turn; afterwards the previous one is restored."""
    before = _core.isa()
    _core.use_isa(request.param)
    yield request.param
    _core.use_isa(before)
