"""Jobs from Parquet to Parquet return the solutions of `solve` for any division into parts, and
report mistakes before they compute anything.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet

import supple as sp
from cases import each
from parquet_targets import contents, joints, pose_columns, reachable, write
from solving import solve
from supple._arrays.tables import read_table
from supple.cli.group import cli
from supple.cluster import RayOptions, Solve, solve_parquet
from supple.cluster.schema import STATUSES
from supple.errors import InputError, UnknownNameError

UR5E = sp.load("ur5e")


def poses_of(columns: dict[str, Any]) -> Any:
    """Return the poses (N, 4, 4) in columns of positions and quaternions."""
    at = np.stack([columns[name] for name in "xyz"], axis=1)
    return sp.pose(at, wxyz=np.stack([columns[f"q{name}"] for name in "wxyz"], axis=1))


# ---- results -------------------------------------------------------------------------------------


def test_results_of_a_batch_job_are_those_of_solve(tmp_path: Path) -> None:
    """Every column equals the result of `solve`, also for the half of targets out of reach."""
    T = UR5E.fk(UR5E.random(600, seed=1))
    T[::2, :3, 3] += 1.5
    columns = {"T": T.reshape(-1, 16), "name": np.arange(600)}
    made = solve_parquet(
        Solve(UR5E, max_seeds=8), write(tmp_path / "t.parquet", columns), tmp_path / "out"
    )
    found = solve(UR5E, T, max_seeds=8)
    table = parquet.read_table(tmp_path / "out")
    np.testing.assert_array_equal(joints(table, UR5E), found.q)
    assert table["status"].to_pylist() == [status.name for status in found.status]
    for name in ("position_error", "rotation_error"):
        np.testing.assert_array_equal(table[name], getattr(found, name).astype(np.float32))
    for name in ("iterations", "restarts"):
        np.testing.assert_array_equal(table[name], getattr(found, name))
    np.testing.assert_array_equal(table["row"], np.arange(600))
    assert made.counts == {"CONVERGED": found.success.sum(), "UNREACHABLE": (~found.success).sum()}
    assert read_table(tmp_path / "out/part-000000.parquet").labels["q"] == UR5E.joint_names


def test_quaternion_columns_are_identified_by_name(tmp_path: Path) -> None:
    columns = reachable(UR5E, 200)
    shuffled = {name: columns[name] for name in ("qz", "y", "qx", "z", "qw", "x", "qy")}
    solve_parquet(Solve(UR5E), write(tmp_path / "t.parquet", shuffled), tmp_path / "out")
    q = joints(parquet.read_table(tmp_path / "out"), UR5E)
    np.testing.assert_allclose(UR5E.fk(q), poses_of(columns), atol=2e-6)


def test_a_job_without_quaternions_leaves_the_rotation_free(tmp_path: Path) -> None:
    columns = {name: reachable(UR5E, 100)[name] for name in "xyz"}
    made = solve_parquet(Solve(UR5E), write(tmp_path / "t.parquet", columns), tmp_path / "out")
    assert made.counts == {"CONVERGED": 100}
    at = UR5E.fk(joints(parquet.read_table(tmp_path / "out"), UR5E))[:, :3, 3]
    np.testing.assert_allclose(at, np.stack(list(columns.values()), axis=1), atol=2e-6)


@pytest.mark.parametrize("part_rows", [7, 64, 1000])
@pytest.mark.parametrize("row_group", [1, 33, 100, 5000])
def test_every_input_row_is_in_exactly_one_part(
    tmp_path: Path, part_rows: int, row_group: int
) -> None:
    """The input is several files, one of them empty, with row groups of various sizes."""
    columns = reachable(UR5E, 230)
    cuts = [(0, 100), (100, 100), (100, 137), (137, 230)]
    for k, (first, last) in enumerate(cuts):
        own = {name: each[first:last] for name, each in columns.items()}
        write(tmp_path / f"in/{k}.parquet", own, row_group_size=row_group)
    stage = Solve(UR5E)
    made = solve_parquet(stage, tmp_path / "in", tmp_path / "out", part_rows=part_rows)
    table = parquet.read_table(tmp_path / "out")
    np.testing.assert_array_equal(table["row"], np.arange(230))
    np.testing.assert_array_equal(joints(table, UR5E), solve(UR5E, poses_of(columns)).q)
    sizes = [
        parquet.read_metadata(path).num_rows for path in sorted((tmp_path / "out").glob("part*"))
    ]
    assert made.parts == len(sizes)
    assert max(sizes) <= part_rows


def test_branches_of_a_job_are_the_solutions_that_solve_returns(tmp_path: Path) -> None:
    T = UR5E.fk(UR5E.random(12, seed=3))
    T[4, :3, 3] += 5.0
    columns = {"T": T.reshape(-1, 16)}
    made = solve_parquet(
        Solve(UR5E, branches=16), write(tmp_path / "t.parquet", columns), tmp_path / "out"
    )
    table = parquet.read_table(tmp_path / "out")
    rows, branch, q = (table[name].to_numpy() for name in ("row", "branch", "q:elbow_joint"))
    for k in range(12):
        one = solve(UR5E, T[k], solutions=16)
        np.testing.assert_array_equal(branch[rows == k], np.arange(len(one)))
        np.testing.assert_array_equal(q[rows == k], one.q[:, 2])
    assert made.counts == {"CONVERGED": 11, "UNREACHABLE": 1}
    assert made.rows == len(rows) > 40


def test_rows_without_a_valid_pose_are_reported_and_other_rows_are_solved(tmp_path: Path) -> None:
    columns = {name: each.copy() for name, each in reachable(UR5E, 50).items()}
    columns["qw"][3] += 0.5
    columns["qx"][5] = np.nan
    columns["x"][7] = np.inf
    solve_parquet(Solve(UR5E), write(tmp_path / "t.parquet", columns), tmp_path / "out")
    table = parquet.read_table(tmp_path / "out")
    words = table["status"].to_pylist()
    assert [k for k, word in enumerate(words) if word != "CONVERGED"] == [3, 5, 7]
    assert [words[k] for k in (3, 5, 7)] == ["INVALID_TARGET", *["NONFINITE_INPUT"] * 2]
    assert set(words) <= set(STATUSES)
    missing = np.isnan(joints(table, UR5E)).all(axis=1)
    np.testing.assert_array_equal(np.nonzero(missing)[0], [3, 5, 7])


def test_the_schema_of_results_states_version_and_units(tmp_path: Path) -> None:
    write(tmp_path / "t.parquet", reachable(UR5E, 5))
    solve_parquet(Solve(UR5E), tmp_path / "t.parquet", tmp_path / "out")
    schema = parquet.read_schema(tmp_path / "out/part-000000.parquet")
    assert schema.metadata[b"supple.schema"] == b"results 1"
    assert schema.field("q:elbow_joint").metadata[b"unit"] == b"rad"
    assert schema.field("position_error").metadata[b"unit"] == b"m"


# ---- a stage of a pipeline -----------------------------------------------------------------------


def test_a_solve_stage_adds_columns_to_a_table() -> None:
    columns = reachable(UR5E, 20) | {"label": np.arange(20) * 2}
    stage = pickle.loads(pickle.dumps(Solve(UR5E)))
    made = stage(columns)
    np.testing.assert_array_equal(made["label"], columns["label"])
    q = np.stack([made[f"q:{name}"] for name in UR5E.joint_names], axis=1)
    np.testing.assert_array_equal(q, solve(UR5E, poses_of(columns)).q)
    assert set(made["status"].tolist()) == {"CONVERGED"}


def test_a_solve_stage_with_branches_repeats_rows() -> None:
    columns = {"T": UR5E.fk(UR5E.random(5, seed=0)), "label": np.arange(5)}
    made = Solve(UR5E, branches=4)(columns)
    assert made["T"].shape[1:] == (4, 4)
    np.testing.assert_array_equal(made["label"][made["branch"] == 0], np.arange(5))
    assert len(made["label"]) > 5


def test_wrong_arguments_of_a_stage_are_refused_at_construction() -> None:
    with pytest.raises(InputError, match=r"frame must name.*Available"):
        Solve(sp.load("double_y"))
    with pytest.raises(UnknownNameError, match="frame"):
        Solve(UR5E, frame="tool9")
    with pytest.raises(UnknownNameError, match="preference"):
        Solve(UR5E, prefer="nearest")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="max_seeds"):
        Solve(UR5E, max_seeds=0)


# ---- mistakes ------------------------------------------------------------------------------------


def without(columns: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: each for name, each in columns.items() if name not in names}


GOOD = reachable(UR5E, 40)
POSES = poses_of(GOOD)
MISTAKES = {
    "a missing column": (without(GOOD, "z"), r"no column 'z'.*x, y, z \[m\].*Available: 'x', 'y'"),
    "half a quaternion": (without(GOOD, "qw"), "no column 'qw'"),
    "another name": ({"x_mm": GOOD["x"], **without(GOOD, "x")}, r"no column 'x'.*'x_mm'"),
    "text": (GOOD | {"y": np.array(["1"] * 40)}, "column 'y' .* must have numbers; given: string"),
    "an order that is not known": (
        without(GOOD, "qw", "qx", "qy", "qz") | {"quaternion": np.zeros((40, 4))},
        "'quaternion' .* does not state the order",
    ),
    "two rotations": (GOOD | {"T": POSES.reshape(-1, 16)}, "'T' and 'qw'"),
    "short lists": ({"T": POSES[:, :3].reshape(-1, 12)}, "'T' .* lists of 16 numbers; .* of 12"),
    "columns first": (
        {"T": np.swapaxes(POSES, 1, 2).reshape(-1, 16)},
        "'T' .* row by row; .* column by column",
    ),
    "no rotations": ({"T": np.full((40, 16), 2.0)}, "'T' .* must have poses"),
    "quaternions of another length": (
        GOOD | {"qw": GOOD["qw"] * 3},
        "'qw', 'qx', 'qy', 'qz' .* unit quaternions",
    ),
    "millimeters": (
        GOOD | {name: 1000 * GOOD[name] for name in "xyz"},
        r"'x', 'y', 'z'\) must be in m",
    ),
    "poses in millimeters": (
        {"T": sp.pose(1000 * POSES[:, :3, 3], rotation=POSES[:, :3, :3]).reshape(-1, 16)},
        r"'T'\) must be in m",
    ),
}


@each("mistake", MISTAKES)
def test_errors_about_wrong_columns_name_them_before_anything_is_written(
    mistake: str, tmp_path: Path
) -> None:
    columns, says = MISTAKES[mistake]
    file = write(tmp_path / "t.parquet", columns)
    with pytest.raises(InputError, match=says):
        solve_parquet(Solve(UR5E), file, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_unit_stated_in_a_parquet_file_must_be_meters(tmp_path: Path) -> None:
    fields = [
        pa.field(name, pa.float64(), metadata={"unit": "mm"} if name == "y" else None)
        for name in GOOD
    ]
    arrays = [pa.array(each) for each in GOOD.values()]
    table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"'y' of .* must be in m; given: mm"):
        solve_parquet(Solve(UR5E), tmp_path / "t.parquet", tmp_path / "out")


def test_a_gpu_job_on_ray_is_refused_without_workers_that_have_a_gpu(tmp_path: Path) -> None:
    stage = Solve(UR5E)
    object.__setattr__(stage, "device", "cuda")  # set after construction, which requires a GPU
    file = write(tmp_path / "t.parquet", GOOD)
    with pytest.raises(InputError, match=r"device='cuda' on Ray .*--gpus"):
        solve_parquet(stage, file, tmp_path / "out", ray=RayOptions())


def test_input_files_with_different_columns_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "in/a.parquet", GOOD)
    write(tmp_path / "in/b.parquet", without(GOOD, "qw", "qx", "qy", "qz"))
    with pytest.raises(InputError, match=r"the same columns.*b.parquet"):
        solve_parquet(Solve(UR5E), tmp_path / "in", tmp_path / "out")


def test_inputs_that_are_not_parquet_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"hello" * 10)
    for place, says in (("t.parquet", "not a Parquet file"), ("none", "cannot read")):
        with pytest.raises(InputError, match=says):
            solve_parquet(Solve(UR5E), tmp_path / place, tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="a folder without Parquet files"):
        solve_parquet(Solve(UR5E), tmp_path / "empty", tmp_path / "out")


# ---- folders -------------------------------------------------------------------------------------


def test_the_error_about_the_folder_of_another_job_states_the_difference(tmp_path: Path) -> None:
    file = write(tmp_path / "t.parquet", GOOD)
    solve_parquet(Solve(UR5E), file, tmp_path / "out")
    before = contents(tmp_path / "out")
    others = {
        "position_tolerance is 1e-06 in the folder and 0.001": Solve(UR5E, position_tolerance=1e-3),
        "robot is 'ur5e' in the folder and 'panda'": Solve(sp.load("panda")),
        "robot fingerprint": Solve(UR5E.with_base(sp.pose([0, 0, 1]))),
        "branches is None in the folder and 2": Solve(UR5E, branches=2),
    }
    for says, stage in others.items():
        with pytest.raises(InputError, match=f"another job: .*{says}"):
            solve_parquet(stage, file, tmp_path / "out")
    write(tmp_path / "t.parquet", reachable(UR5E, 40, seed=1))
    with pytest.raises(InputError, match="another job: input is"):
        solve_parquet(Solve(UR5E), file, tmp_path / "out")
    assert contents(tmp_path / "out") == before


def test_an_output_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "t.parquet", GOOD)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"must be a new folder.*thesis.tex"):
        solve_parquet(Solve(UR5E), file, tmp_path / "out")


def test_a_damaged_or_missing_part_is_computed_again(tmp_path: Path) -> None:
    file = write(tmp_path / "t.parquet", GOOD)
    solve_parquet(Solve(UR5E), file, tmp_path / "out", part_rows=10)
    before = contents(tmp_path / "out")
    (tmp_path / "out/part-000001.parquet").unlink()
    half = tmp_path / "out/part-000003.parquet"  # the first missing part is an earlier one
    half.write_bytes(half.read_bytes()[:-100])
    made = solve_parquet(Solve(UR5E), file, tmp_path / "out", part_rows=10)
    assert (made.parts, made.resumed) == (4, 2)
    assert contents(tmp_path / "out") == before


def test_a_part_file_with_the_rows_of_another_part_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "t.parquet", GOOD)
    solve_parquet(Solve(UR5E), file, tmp_path / "out", part_rows=10)
    parts = sorted((tmp_path / "out").glob("part-*"))
    parts[0].write_bytes(parts[1].read_bytes())
    with pytest.raises(InputError, match="does not belong"):
        solve_parquet(Solve(UR5E), file, tmp_path / "out", part_rows=10)


def test_reported_progress_rises_to_the_number_of_rows(tmp_path: Path) -> None:
    file = write(tmp_path / "t.parquet", GOOD)
    seen: list[tuple[int, int]] = []
    for _ in range(2):
        solve_parquet(
            Solve(UR5E),
            file,
            tmp_path / "out",
            part_rows=15,
            progress=lambda done, total: seen.append((done, total)),
        )
    assert [total for _, total in seen] == [40] * 5
    assert [seen[k][0] for k in (0, -2, -1)] == [0, 40, 40]
    assert seen == sorted(seen)


# ---- the command ---------------------------------------------------------------------------------


def batch(*words: str) -> Any:
    return CliRunner().invoke(cli, ["batch", *words])


def test_the_batch_command_solves_resumes_and_reports(tmp_path: Path) -> None:
    file, out = write(tmp_path / "t.parquet", GOOD), tmp_path / "out"
    done = batch("ur5e", str(file), str(out), "--json")
    assert done.exit_code == 0, done.output
    says = json.loads(done.stdout)
    assert (says["targets"], says["converged"], says["resumed_parts"]) == (40, 40, 0)
    again = batch("ur5e", str(file), str(out))
    assert again.exit_code == 0
    assert "1 of 1 parts were there already" in again.stdout


def test_the_batch_command_exits_1_if_a_pose_was_not_met(tmp_path: Path) -> None:
    T = POSES.copy()
    T[0, :3, 3] += 9.0
    file = write(tmp_path / "t.parquet", pose_columns(T))
    done = batch("ur5e", str(file), str(tmp_path / "out"))
    assert done.exit_code == 1
    assert "1 unreachable" in done.stdout


def test_the_batch_command_reports_mistakes_in_one_line(tmp_path: Path) -> None:
    file = write(tmp_path / "t.parquet", without(GOOD, "x"))
    done = batch("ur5e", str(file), str(tmp_path / "out"))
    assert done.exit_code == 2
    assert "no column 'x'" in done.stderr
    (tmp_path / "file").write_text("")
    done = batch("ur5e", str(write(tmp_path / "u.parquet", GOOD)), str(tmp_path / "file"))
    assert done.exit_code == 2
    assert "cannot write" in done.stderr


def test_device_cpu_is_the_default_of_a_solve_stage() -> None:
    """A stage with device="cpu" equals a stage without `device`."""
    robot = sp.load("ur5e")
    assert Solve(robot, device="cpu") == Solve(robot)
