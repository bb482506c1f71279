"""The CUDA code of every robot compiles, and solutions on a GPU obey the laws of the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

import robots
import robots_gpu
from robots_files import ends, load
from robots_judge import Reading, Row
from robots_laws import broken, not_compiled
from supple.gpu import devices

# Robots with long and short chains, and with constants of all sizes.
WHOLE = ("puma560_robot.urdf", "tiago_pro.urdf", "allegro_right_hand.urdf")


def test_the_cuda_constants_of_every_robot_compile(rows: list[Row]) -> None:
    if not any(row.compiled for row in rows):
        pytest.skip("there is no NVRTC")
    refused = not_compiled(rows)
    assert not refused, "\n".join(refused)


@pytest.mark.parametrize("name", WHOLE)
def test_all_cuda_kernels_of_three_robots_compile(
    readings: list[Reading], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUPPLE_CACHE_DIR", str(tmp_path))
    path = next(one.path for one in readings if one.file.endswith("/" + name))
    said = robots_gpu.compiles(next(iter(ends(load(path).robot))), whole=True)
    if not said:
        pytest.skip("there is no NVRTC")
    assert said == "yes"


@pytest.mark.cuda
def test_gpu_solutions_of_all_robots_obey_the_laws_of_the_cpu(readings: list[Reading]) -> None:
    if not devices():
        pytest.skip("there is no GPU")
    work = robots.on_gpu(robots.distinct(readings))
    rows = list(robots_gpu.rows(work, "cuda", robots.COUNT, robots.HARD))
    found = broken(rows)
    assert not found, "\n".join(found)
