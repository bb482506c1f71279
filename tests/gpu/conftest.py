"""Fixtures of the tests on a GPU; machines without a GPU skip these tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from supple.gpu import devices


@pytest.fixture(scope="session", autouse=True)
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compile the CUDA code of all tests in parallel; if SUPPLE_CACHE_DIR is set, later runs reuse
    it.
    """
    if not devices():
        yield
        return
    from gpu_kernels import compile_all

    with pytest.MonkeyPatch.context() as patch:
        if not os.environ.get("SUPPLE_CACHE_DIR"):
            patch.setenv("SUPPLE_CACHE_DIR", str(tmp_path_factory.mktemp("kernels")))
        compile_all(devices()[0].architecture)
        yield


@pytest.fixture
def cupy() -> ModuleType:
    return pytest.importorskip("cupy")


@pytest.fixture
def torch() -> ModuleType:
    return pytest.importorskip("torch")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    marked = [i for i in items if i.path.is_relative_to(here) and i.get_closest_marker("cuda")]
    if marked and not devices():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU and supple[cuda]"))
