"""Jobs on Ray give the same bytes, even if workers or nodes are lost: `make test-ray`."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import supple as sp
from parquet_targets import contents, reachable, solved_targets, write
from supple.cluster import RayOptions, Solve, reachability, sample_dataset, solve_parquet
from supple.cluster.on_ray import _connected
from supple.errors import InputError

ray = pytest.importorskip("ray", reason="Ray is not installed: make test-ray installs it")

UR5E = sp.load("ur5e")
ROWS, PART_ROWS = 40_000, 500


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """Return a file of targets, and the results of a run without interruption."""
    return solved_targets(UR5E, tmp_path_factory.mktemp("uninterrupted"), ROWS, PART_ROWS)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Return a Ray cluster on this machine: a head without CPUs, and two nodes with two CPUs."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    for _ in range(2):
        made.add_node(num_cpus=2)
    ray.init(address=made.address, log_to_driver=False, logging_level="error")
    try:
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


def workers() -> list[int]:
    """Return the ids of the processes of this machine that run a task of Ray."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            line = (place / "cmdline").read_bytes()
        except OSError:
            continue
        if line.startswith(b"ray::_task"):
            found.append(int(place.name))
    return found


def test_workers_compute_the_same_bytes(
    cluster: Any, tmp_path: Path, uninterrupted: tuple[Path, dict[str, bytes]]
) -> None:
    file, expected = uninterrupted
    for cpus in (1, 2):
        out = tmp_path / str(cpus)
        stage = Solve(UR5E)
        solve_parquet(stage, file, out, part_rows=PART_ROWS, ray=RayOptions(cpus=cpus))
        assert contents(out) == expected


def test_killed_workers_are_replaced(
    cluster: Any, tmp_path: Path, uninterrupted: tuple[Path, dict[str, bytes]]
) -> None:
    """A run in which a worker is killed every few parts gives the expected bytes."""
    file, expected = uninterrupted
    chance, killed, ended = random.Random(0), [], threading.Event()

    def kill() -> None:
        while not ended.is_set():
            running = workers()
            if running and len(killed) < 12:
                killed.append(chance.choice(running))
                os.kill(killed[-1], signal.SIGKILL)
            time.sleep(chance.uniform(0.05, 0.4))

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        solve_parquet(
            Solve(UR5E), file, tmp_path / "out", part_rows=PART_ROWS, ray=RayOptions(cpus=1)
        )
    finally:
        ended.set()
        killer.join()
    assert len(killed) >= 3
    assert contents(tmp_path / "out") == expected


def test_a_job_on_ray_survives_a_lost_node_and_uses_a_new_one(
    cluster: Any, tmp_path: Path, uninterrupted: tuple[Path, dict[str, bytes]]
) -> None:
    file, expected = uninterrupted
    steps, node = [], cluster.add_node(num_cpus=2)

    def change(done: int, total: int) -> None:
        if len(steps) == 0 and done > total // 8:
            cluster.remove_node(node, allow_graceful=False)
            steps.append(done)
        elif len(steps) == 1 and done > total // 2:
            cluster.add_node(num_cpus=2)
            steps.append(done)

    out = tmp_path / "out"
    solve_parquet(
        Solve(UR5E), file, out, part_rows=PART_ROWS, ray=RayOptions(cpus=1), progress=change
    )
    assert len(steps) == 2
    assert contents(out) == expected


def test_the_job_of_a_killed_driver_is_continued(
    cluster: Any, tmp_path: Path, uninterrupted: tuple[Path, dict[str, bytes]]
) -> None:
    """After the driver is killed several times, a last run gives the expected bytes."""
    file, expected = uninterrupted
    code = (
        "import sys, supple as sp; from supple.cluster import *\n"
        "solve_parquet(Solve(sp.load('ur5e')), *sys.argv[1:3], part_rows=500,\n"
        "              ray=RayOptions(sys.argv[3]))"
    )
    out = tmp_path / "out"
    command = [sys.executable, "-c", code, str(file), str(out), cluster.address]
    for kill in range(3):
        with subprocess.Popen(command) as driver:
            before = len(list(out.glob("part-*")))
            end = time.monotonic() + 60
            while len(list(out.glob("part-*"))) < before + 10 and time.monotonic() < end:
                time.sleep(0.005)
            driver.kill()
        assert before < len(list(out.glob("part-*"))) < ROWS // PART_ROWS, kill
    subprocess.run(command, check=True)
    assert contents(out) == expected


def test_maps_and_datasets_on_ray_have_the_same_bytes(cluster: Any, tmp_path: Path) -> None:
    for ray_options in (None, RayOptions()):
        place = tmp_path / ("here" if ray_options is None else "ray")
        reachability(UR5E, place / "map", spacing=0.2, orientations=6, levels=1, ray=ray_options)
        sample_dataset(
            UR5E, place / "data", 6000, scheme="workspace", part_rows=1500, ray=ray_options
        )
    for name in ("map/poses", "data"):
        assert contents(tmp_path / "ray" / name) == contents(tmp_path / "here" / name)
    voxels = [(tmp_path / place / "map/voxels.parquet").read_bytes() for place in ("here", "ray")]
    assert voxels[0] == voxels[1]


@pytest.mark.filterwarnings("default::DeprecationWarning")  # of Ray Data's own settings
def test_a_solve_stage_runs_in_ray_data(cluster: Any) -> None:
    ray.data.DataContext.get_current().enable_progress_bars = False
    columns = reachable(UR5E, 3000)
    dataset = ray.data.from_arrow(pa.table(columns)).repartition(4)
    made = dataset.map_batches(Solve(UR5E, threads=1), batch_size=500).to_pandas()
    assert set(made["status"]) == {"CONVERGED"}
    q = made[[f"q:{name}" for name in UR5E.joint_names]].to_numpy(float)
    np.testing.assert_allclose(
        UR5E.fk(q)[:, :3, 3], made[["x", "y", "z"]].to_numpy(float), atol=2e-6
    )
    assert sorted(made["x"]) == sorted(columns["x"])


def test_an_error_in_a_worker_is_raised_by_the_driver(cluster: Any, tmp_path: Path) -> None:
    """If workers cannot write parts, the driver raises an error, and the job can be continued."""
    file = write(tmp_path / "t.parquet", reachable(UR5E, 4000))
    out = tmp_path / "out"

    def block(done: int, total: int) -> None:
        if done:
            for index in range(8):
                path = out / f"part-{index:06d}.parquet"
                if not path.exists():
                    path.mkdir()

    with pytest.raises((OSError, InputError)):
        solve_parquet(Solve(UR5E), file, out, part_rows=500, ray=RayOptions(cpus=1), progress=block)
    for path in out.glob("part-*"):
        if path.is_dir():
            path.rmdir()
    solve_parquet(Solve(UR5E), file, out, part_rows=500)
    solve_parquet(Solve(UR5E), file, tmp_path / "expected", part_rows=500)
    assert contents(out) == contents(tmp_path / "expected")


def test_workers_of_a_local_ray_have_normal_priority() -> None:
    """Workers do not have Ray's default niceness of 15, with which they get little CPU time."""
    ray.shutdown()
    with _connected(ray, RayOptions()):
        niceness = ray.get(ray.remote(lambda: os.nice(0)).remote())
    assert niceness <= max(0, os.nice(0))
    assert not ray.is_initialized()


def test_a_local_ray_is_started_and_stopped(tmp_path: Path) -> None:
    """The command with `--ray` but no address runs on a local Ray, which it stops at the end."""
    file = write(tmp_path / "t.parquet", reachable(UR5E, 2000))
    words = ["batch", "ur5e", str(file), str(tmp_path / "out"), "--part-rows", "500", "--ray"]
    done = subprocess.run(
        [sys.executable, "-m", "supple", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "2,000 converged" in done.stdout
    solve_parquet(Solve(UR5E), file, tmp_path / "expected", part_rows=500)
    assert contents(tmp_path / "out") == contents(tmp_path / "expected")
