"""The code blocks of docs/gpu.md run on an emulated GPU and, if marked `cuda`, on a real one."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import emulator
import supple as sp
from humanoids import humanoid
from supple.control import gpu_targets, target_velocities
from supple.gpu.arrays import GpuArray

PAGE = Path(__file__).parents[2] / "docs/gpu.md"
BLOCKS = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
# Blocks with these words are skipped: the emulator has no barriers of a block of threads, which
# steps toward velocities need, and no CUDA graphs.
NOT_EMULATED = ("panda, q, twist", "CUDAGraph")
COUNT = 30  # number of problems in a batch on the emulated GPU; the page has a million


class StandIn(emulator.There):
    """A replacement for an array of CuPy or PyTorch, in the memory of the emulated GPU."""

    def __getitem__(self, index: Any) -> np.ndarray:
        return self.array[index]

    def __setitem__(self, index: Any, value: np.ndarray) -> None:
        self.array[index] = value

    def __eq__(self, other: object) -> Any:
        return self.array == other

    __hash__ = None  # type: ignore[assignment]


def as_array(given: Any, device: str = "cuda") -> StandIn:
    """Return a NumPy array or a result as an array of another library."""
    return StandIn(given.numpy() if isinstance(given, GpuArray) else np.array(given))


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install an emulated GPU, and the parts of CuPy and PyTorch that the code blocks use."""
    for name, function in (("cupy", "asarray"), ("torch", "as_tensor")):
        module = ModuleType(name)
        setattr(module, function, as_array)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(target_velocities, "_cached", target_velocities._prepared)
    monkeypatch.setattr(gpu_targets, "on_device", gpu_targets.on_device.__wrapped__)
    emulator._forget()
    emulator.install(monkeypatch)
    yield
    emulator._forget()


def run(code: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run code of the page; its humanoid is the one of the other tests, with masses."""
    robot = humanoid()
    for body in robot.description.links:
        robot = robot.with_inertia(body, 1.0)
    monkeypatch.setattr(sp, "urdf", lambda file: robot)
    names: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), names)
    return names


def test_code_blocks_of_the_gpu_page_run_on_an_emulated_gpu(
    emulated: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = [code for code in BLOCKS if not any(what in code for what in NOT_EMULATED)]
    assert len(some) == len(BLOCKS) - 2
    names = run("\n".join(some).replace("1_000_000", str(COUNT)), monkeypatch)
    assert names["met"].mean() > 0.9
    np.testing.assert_array_equal(names["q"].array, names["start"])
    solutions = names["found"].numpy()
    T = names["panda"].fk(solutions.q)[solutions.success]
    np.testing.assert_allclose(T, names["there"].array[solutions.success], atol=3e-6)
    assert np.isfinite(names["qd"].numpy()).all()


@pytest.mark.cuda
def test_code_blocks_of_the_gpu_page_run_on_a_gpu(
    cupy: ModuleType, torch: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = run("\n".join(BLOCKS), monkeypatch)
    assert cupy.asnumpy(names["met"]).mean() > 0.9
    solutions = names["found"].numpy()
    T = names["panda"].fk(solutions.q)[solutions.success]
    expected = cupy.asnumpy(names["there"])[solutions.success]
    np.testing.assert_allclose(T, expected, atol=3e-6)
    assert torch.from_dlpack(names["qd"]).isfinite().all()
