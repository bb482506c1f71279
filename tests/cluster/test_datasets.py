"""Datasets follow the distribution of their scheme, and readers yield each sample once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from pyarrow import parquet

import supple as sp
from cases import each
from parquet_targets import contents, joints, reachable, write
from solving import solve
from supple.cli import console
from supple.cli.group import cli
from supple.cluster import (
    RayOptions,
    Samples,
    Solve,
    datasets,
    sample_dataset,
    solve_parquet,
    torch_samples,
)
from supple.errors import InputError, UnknownNameError

UR5E = sp.load("ur5e")
PANDA = sp.load("panda")
SUPPORT = Path(__file__).parents[1] / "support"
SCHEMES: Any = ("joints", "workspace", "singular", "paths")


def poses_of(table: Any) -> Any:
    at = np.stack([table[name].to_numpy() for name in "xyz"], axis=1)
    return sp.pose(at, wxyz=np.stack([table[f"q{name}"].to_numpy() for name in "wxyz"], axis=1))


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return a table with 3000 samples for each scheme."""
    folder = tmp_path_factory.mktemp("datasets")
    for scheme in SCHEMES:
        sample_dataset(UR5E, folder / scheme, 3000, scheme=scheme, part_rows=1300)
    return {scheme: parquet.read_table(folder / scheme) for scheme in SCHEMES}


# ---- samples -------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
def test_poses_and_labels_of_samples_are_computed_from_their_configurations(
    tables: dict[str, Any], scheme: str
) -> None:
    table = tables[scheme]
    q = joints(table, UR5E)
    np.testing.assert_allclose(UR5E.fk(q), poses_of(table), atol=1e-12)
    assert ((q >= UR5E.lower) & (q <= UR5E.upper)).all()
    sigma = np.linalg.svd(UR5E.jacobian(q), compute_uv=False)[:, -1]
    np.testing.assert_allclose(table["sigma_min"], sigma, atol=1e-6)
    np.testing.assert_array_equal(table["aspect"], np.sign(np.linalg.det(UR5E.jacobian(q))))
    np.testing.assert_array_equal(table["sample"], np.arange(3000))


def test_joint_samples_are_uniform_in_joint_space(tables: dict[str, Any]) -> None:
    """Each joint passes a Kolmogorov-Smirnov test at a level of 1e-6."""
    q = joints(tables["joints"], UR5E)
    share = np.sort((q - UR5E.lower) / (UR5E.upper - UR5E.lower), axis=0)
    away = np.abs(share - (np.arange(3000)[:, None] + 0.5) / 3000).max()
    assert away < np.sqrt(-np.log(1e-6 / 2) / 2 / 3000)
    assert np.abs(np.corrcoef(q.T) - np.eye(6)).max() < 0.1


def test_workspace_samples_are_uniform_over_the_reachable_poses(tables: dict[str, Any]) -> None:
    """Samples have the distribution of those random poses in a larger box that `solve` reaches."""
    chance = np.random.default_rng(5)
    wxyz = chance.normal(size=(6000, 4))
    T = sp.pose(chance.uniform(-1.3, 1.3, (6000, 3)), wxyz=wxyz)
    T = T[solve(UR5E, T, max_seeds=32).success]
    own = poses_of(tables["workspace"])

    def measures(T: Any) -> Any:  # distance from the base, height, and the tilt of the tool
        return np.stack([np.linalg.norm(T[:, :3, 3], axis=1), T[:, 2, 3], T[:, 2, 2]], axis=1)

    ours, theirs = measures(own), measures(T)
    for k in range(3):
        every = np.sort(np.concatenate([ours[:, k], theirs[:, k]]))
        steps = [np.searchsorted(np.sort(x[:, k]), every, "right") / len(x) for x in (ours, theirs)]
        limit = np.sqrt(-np.log(1e-6 / 2) / 2 * (1 / len(ours) + 1 / len(theirs)))
        assert np.abs(steps[0] - steps[1]).max() < limit
    radius = np.linalg.norm(poses_of(tables["joints"])[:, :3, 3], axis=1)
    assert abs(np.median(radius) - np.median(ours[:, 0])) > 0.05, "the schemes do not differ"


def test_singular_samples_have_much_smaller_sigma_than_uniform_samples(
    tables: dict[str, Any],
) -> None:
    """A sample has the least σ_min of 32 uniform samples; the median is their 2 % quantile."""
    uniform = np.sort(tables["joints"]["sigma_min"].to_numpy())
    median = np.median(tables["singular"]["sigma_min"].to_numpy())
    share = np.searchsorted(uniform, median) / len(uniform)
    assert 0.5 * (1 - 0.5 ** (1 / 32)) < share < 2 * (1 - 0.5 ** (1 / 32))


def test_samples_of_paths_lie_on_lines_in_joint_space(tables: dict[str, Any]) -> None:
    table = tables["paths"]
    q, path, step = joints(table, UR5E), table["path"].to_numpy(), table["step"].to_numpy()
    np.testing.assert_array_equal(path, np.arange(3000) // 32)
    np.testing.assert_array_equal(step, np.arange(3000) % 32)
    whole = q[: 3000 // 32 * 32].reshape(-1, 32, 6)
    np.testing.assert_allclose(np.diff(whole, 2, axis=1), 0, atol=1e-12)


def test_branches_of_a_sample_are_different_solutions_of_its_pose(tmp_path: Path) -> None:
    sample_dataset(UR5E, tmp_path / "out", 20, branches=16, part_rows=7)
    table = parquet.read_table(tmp_path / "out")
    q, sample = joints(table, UR5E), table["sample"].to_numpy()
    T = poses_of(table)
    np.testing.assert_allclose(UR5E.fk(q), T, atol=2e-6)
    for k in range(20):
        own = sample == k
        assert own.sum() > 1
        np.testing.assert_array_equal(table["branch"].to_numpy()[own], np.arange(own.sum()))
        apart = np.abs(q[own][:, None] - q[own]).max(axis=2)
        assert (apart + np.eye(own.sum()) > 1e-3).all()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_sample_depends_only_on_its_index_and_the_seed(
    scheme: Any, tables: dict[str, Any], tmp_path: Path
) -> None:
    """A sample does not depend on the parts or on the number of samples."""
    names = [f"q:{name}" for name in UR5E.joint_names]
    sample_dataset(UR5E, tmp_path / "a", 1500, scheme=scheme, part_rows=999)
    fewer = parquet.read_table(tmp_path / "a")
    assert fewer.select(names) == tables[scheme].slice(0, 1500).select(names)
    sample_dataset(UR5E, tmp_path / "b", 50, scheme=scheme, seed=1)
    assert parquet.read_table(tmp_path / "b")["x"] != fewer.slice(0, 50)["x"]


def test_samples_of_a_redundant_robot_have_aspect_zero(tmp_path: Path) -> None:
    sample_dataset(PANDA, tmp_path / "out", 100)
    assert set(parquet.read_table(tmp_path / "out")["aspect"].to_pylist()) == {0}


def test_no_region_is_in_both_the_training_and_the_test_set(tables: dict[str, Any]) -> None:
    table = tables["workspace"]
    at = np.stack([table[name].to_numpy() for name in "xyz"], axis=1)
    test = np.asarray(table["split"]) == "test"
    cells = np.floor(at / 0.1).astype(int)
    both = set(map(tuple, cells[test])) & set(map(tuple, cells[~test]))
    assert not both
    assert 0.05 < test.mean() < 0.15


def test_a_killed_dataset_can_be_continued(tmp_path: Path) -> None:
    sample_dataset(UR5E, tmp_path / "expected", 20_000, scheme="paths", part_rows=300)
    command = [sys.executable, str(SUPPORT / "killed.py"), "dataset", str(tmp_path), "8", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    killed, *left = map(int, done.stdout.split())
    assert killed >= 4
    assert left == sorted(left)
    assert contents(tmp_path / "out") == contents(tmp_path / "expected")


def test_bad_arguments_are_refused_before_any_file_is_written(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"scheme 'joint'; did you mean 'joints'"):
        sample_dataset(UR5E, tmp_path / "out", 10, scheme="joint")  # type: ignore[arg-type]
    for options in ({"count": 0}, {"test_share": 2}, {"region": 0}, {"seed": -1}):
        given: Any = {"count": 10, **options}
        with pytest.raises(InputError, match=next(iter(options))):
            sample_dataset(UR5E, tmp_path / "out", **given)
    with pytest.raises(InputError, match="needs a robot that reaches random poses"):
        sample_dataset(sp.load("planar3"), tmp_path / "out", 10, scheme="workspace")
    assert not (tmp_path / "out").exists()


def test_the_command_dataset_writes_a_dataset(tmp_path: Path) -> None:
    words = ["dataset", "ur5e", str(tmp_path / "out"), "--count", "500", "--scheme", "singular"]
    done = CliRunner().invoke(cli, [*words, "--json"])
    assert done.exit_code == 0, done.output
    says = json.loads(done.stdout)
    assert says["rows"] == says["train"] + says["test"] == 500
    assert "500 rows" in CliRunner().invoke(cli, words).stdout
    assert CliRunner().invoke(cli, [*words[:-1], "near"]).exit_code == 2


# ---- reading -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "out"
    sample_dataset(UR5E, folder, 2500, part_rows=300, test_share=0.3)
    return folder


@pytest.mark.parametrize("split", [None, "train", "test"])
@pytest.mark.parametrize("seed", [None, 3])
def test_a_reader_yields_each_sample_of_its_split_exactly_once(
    data: Path, split: Any, seed: int | None
) -> None:
    table = parquet.read_table(data)
    words = np.asarray(table["split"])
    expected = np.arange(2500) if split is None else np.nonzero(words == split)[0]
    batches = list(Samples(data, 128, split, seed))
    assert all(len(batch["sample"]) == 128 for batch in batches[:-1])
    read = np.concatenate([batch["sample"] for batch in batches])
    assert (seed is None) == (read.tolist() == expected.tolist())
    np.testing.assert_array_equal(np.sort(read), expected)
    q = np.concatenate([batch["q"] for batch in batches])
    np.testing.assert_array_equal(q, joints(table, UR5E)[read])
    pose = np.concatenate([batch["pose"] for batch in batches])
    np.testing.assert_array_equal(pose[:, 1], table["y"].to_numpy()[read])
    np.testing.assert_array_equal(pose[:, 3], table["qw"].to_numpy()[read])


def test_shards_share_out_all_samples_and_each_epoch_has_its_own_order(data: Path) -> None:
    shards = [
        [batch["sample"] for batch in Samples(data, 64, seed=0, shard=(k, 3))] for k in range(3)
    ]
    every = np.concatenate([each for shard in shards for each in shard])
    np.testing.assert_array_equal(np.sort(every), np.arange(2500))
    orders = [
        np.concatenate([b["sample"] for b in Samples(data, seed=0, epoch=epoch)]).tolist()
        for epoch in (0, 0, 1)
    ]
    assert orders[0] == orders[1] != orders[2]


def test_folders_other_than_finished_datasets_are_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a folder of parts"):
        Samples(tmp_path)
    file = write(tmp_path / "t.parquet", reachable(UR5E, 10))
    solve_parquet(Solve(UR5E), file, tmp_path / "solved")
    with pytest.raises(
        InputError, match="must be the folder of a dataset; given: a job of kind 'solve'"
    ):
        Samples(tmp_path / "solved")
    sample_dataset(UR5E, tmp_path / "half", 100, part_rows=10)
    (tmp_path / "half/_summary.json").unlink()
    (tmp_path / "half/part-000003.parquet").unlink()
    with pytest.raises(InputError, match="not finished: 9 of 10 parts"):
        Samples(tmp_path / "half")
    with pytest.raises(InputError, match="split"):
        Samples(data, split="validation")  # type: ignore[arg-type]


def test_without_torch_installed_the_error_says_what_to_install(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match="pip install torch"):
        torch_samples(data)


# ---- estimates -----------------------------------------------------------------------------------


def test_the_time_of_a_long_run_is_estimated_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[Any] = []
    monkeypatch.setattr(datasets, "run", lambda job, *_, **__: events.append(job.count))
    for count in (100_000, 10**8):
        sample_dataset(UR5E, tmp_path / "x", count, estimate=events.append)
    short, seconds, long = events
    assert (short, long) == (100_000, 10**8)
    assert 0 < seconds < 1e9


@pytest.mark.parametrize("cores", [1, 8])
def test_runs_of_more_than_a_minute_are_announced(
    cores: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "thread_count", lambda _: cores)
    console.expect(None)(59.0 * cores)
    assert capsys.readouterr().err == ""
    console.expect(None)(3600.0 * 25)
    assert f"{25 / cores:.2g} hours on the {cores} cores" in capsys.readouterr().err
    console.expect(RayOptions())(3600.0 * 25)
    assert "about 25 hours of one core. To stop" in capsys.readouterr().err


@each(
    ("seconds", "words"),
    [(61, "61 seconds"), (5400, "1.5 hours"), (5399, "90 minutes"), (2e6, "23 days")],
)
def test_durations_are_printed_in_suitable_units(seconds: float, words: str) -> None:
    assert console.duration(seconds) == words
