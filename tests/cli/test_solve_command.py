"""The command `solve` solves one pose or a file of poses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import supple as sp
from commands import FAR, POSE, found, poses_file, run, ur5e_pose
from solving import solve
from supple._arrays.tables import FORMATS, Table, read_table, write_table


def test_the_command_solve_prints_the_solution() -> None:
    says = found("solve", "ur5e", *POSE)
    assert says["success"]
    assert says["status"] == "CONVERGED"
    q = list(says["q"].values())
    assert list(says["q"]) == list(sp.load("ur5e").joint_names)
    np.testing.assert_allclose(sp.load("ur5e").fk(q), ur5e_pose(), atol=2e-6)
    text = run("solve", "ur5e", *POSE).stdout
    assert "converged" in text
    assert all(f"{x:.6f}" in text for x in q)


def test_solve_reports_whether_the_solution_is_on_the_branch_of_q0(tmp_path: Path) -> None:
    robot = sp.load("ur5e")
    near = solve(robot, ur5e_pose(), solutions="all").q[2]
    q0 = ",".join(f"{x:.4f}" for x in near + 0.05)
    says = found("solve", "ur5e", *POSE, "--q0", q0, "--max-move", "0.1")
    assert says["same_branch"]
    assert says["moved"] == pytest.approx(0.05, abs=1e-4)
    assert "on the same branch" in run("solve", "ur5e", *POSE, "--q0", q0).stdout
    text = run("solve", "ur5e", *POSE, "--q0", q0, "--max-move", "0.01")
    assert text.exit_code == 1
    assert "max_move" in text.stdout
    file, out = tmp_path / "poses.npz", tmp_path / "out.csv"
    np.savez(file, T=ur5e_pose()[None])
    assert run("solve", "ur5e", str(file), "--q0", q0, "--out", str(out)).exit_code == 0
    assert "same_branch" in out.read_text().splitlines()[0]


def test_solve_accepts_a_rotation_in_any_form_with_equal_results() -> None:
    T = ur5e_pose()
    place = ["--position", "0.4", "0.1", "0.3"]
    wxyz = ["--wxyz", *map(str, sp.poses.wxyz(T))]
    vector = ["--rotation-vector", *map(str, sp.poses.rotation_vector(T))]
    xyzw = ["--xyzw", *map(str, sp.poses.xyzw(T))]
    every = (POSE[4:], wxyz, xyzw, vector)
    answers = [found("solve", "ur5e", *place, *each)["q"] for each in every]
    for other in answers[1:]:
        np.testing.assert_allclose(list(answers[0].values()), list(other.values()), atol=1e-6)


def test_solve_with_a_position_alone_leaves_the_rotation_free() -> None:
    says = found("solve", "panda", "--position", "0.4", "0.1", "0.3")
    at = sp.load("panda").fk(list(says["q"].values()))[:3, 3]
    np.testing.assert_allclose(at, [0.4, 0.1, 0.3], atol=2e-6)


def test_solve_explains_that_a_target_is_out_of_reach_and_fails() -> None:
    says = found("solve", "ur5e", *FAR, code=1)
    assert says["status"] == "UNREACHABLE"
    assert says["report"]
    done = run("solve", "ur5e", *FAR)
    assert done.exit_code == 1
    assert "seeds" in done.stdout


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_file_of_poses_gives_a_file_of_solutions(suffix: str, tmp_path: Path) -> None:
    file, T = poses_file(tmp_path, suffix)
    out = tmp_path / f"solutions{suffix}"
    says = found("solve", "ur5e", str(file), "--out", str(out))
    assert says["targets"] == says["converged"] == len(T)
    table = read_table(out)
    np.testing.assert_allclose(sp.load("ur5e").fk(table.arrays["q"]), T, atol=2e-6)
    assert table.labels["q"] == sp.load("ur5e").joint_names
    assert set(table.arrays["status"].tolist()) == {"CONVERGED"}
    expected = solve(sp.load("ur5e"), T, tasks=sp.PoseTask())
    assert (np.abs(table.arrays["q"] - expected.q) < 1e-9).all(axis=1).mean() > 0.9


def test_poses_may_be_matrices_or_positions(tmp_path: Path) -> None:
    T = poses_file(tmp_path, ".npz")[1]
    np.savez(tmp_path / "t.npz", T=T)
    assert found("solve", "ur5e", str(tmp_path / "t.npz"))["converged"] == len(T)
    places = Table(dict(zip("xyz", T[:, :3, 3].T, strict=True)))
    says = found("solve", "ur5e", str(write_table(tmp_path / "p.csv", places)))
    for each, place in zip(says["solutions"], T[:, :3, 3], strict=True):
        at = sp.load("ur5e").fk(list(each["q"].values()))[:3, 3]
        np.testing.assert_allclose(at, place, atol=2e-6)


def test_one_pose_out_of_reach_makes_the_exit_code_1(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("x,y,z\n0.4,0.1,0.3\n9,9,9\n")
    says = found("solve", "ur5e", str(tmp_path / "p.csv"), code=1)
    assert says["status"] == {"CONVERGED": 1, "UNREACHABLE": 1}
    assert run("solve", "ur5e", str(tmp_path / "p.csv")).exit_code == 1


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("column", ["y", "qz"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_row_that_is_not_finite_is_marked_and_other_rows_are_solved(
    suffix: str, column: str, value: float, tmp_path: Path
) -> None:
    file, T = poses_file(tmp_path, suffix, count=5)
    arrays = {name: np.array(each) for name, each in read_table(file).arrays.items()}
    arrays[column][2] = value
    write_table(file, Table(arrays))
    out = tmp_path / "out.csv"
    says = found("solve", "ur5e", str(file), "--out", str(out), code=1)
    assert says["status"] == {"CONVERGED": 4, "NONFINITE_INPUT": 1}
    rows = read_table(out).arrays
    assert rows["status"][2] == "NONFINITE_INPUT"
    good = [0, 1, 3, 4]
    np.testing.assert_allclose(sp.load("ur5e").fk(rows["q"][good]), T[good], atol=2e-6)


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_position_that_is_not_finite_is_marked(suffix: str, tmp_path: Path) -> None:
    columns = {"x": [0.4, 0.4], "y": [0.1, np.nan], "z": [0.3, 0.3]}
    table = Table({name: np.array(each) for name, each in columns.items()})
    file = write_table(tmp_path / f"p{suffix}", table)
    says = found("solve", "ur5e", str(file), code=1)
    assert says["status"] == {"CONVERGED": 1, "NONFINITE_INPUT": 1}
    for command in ("simulate", "plan-path"):
        said = run(command, "ur5e", str(file))
        assert said.exit_code == 2
        assert all(word in said.stderr for word in (str(file), "row 2", "'y'"))


@pytest.mark.parametrize("suffix", FORMATS)
def test_an_interrupt_leaves_no_file_and_exits_130(suffix: str, tmp_path: Path) -> None:
    """SIGINT while a file is written leaves an existing file unchanged and no temporary file."""
    file, _ = poses_file(tmp_path, suffix)
    (tmp_path / "out").mkdir()
    out = tmp_path / "out" / f"x{suffix}"
    out.write_bytes(b"before")
    code = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a background job ignores it
        "os.fsync = lambda fd: (os.kill(os.getpid(), signal.SIGINT), time.sleep(5))\n"
        f"sys.argv = ['supple', 'solve', 'ur5e', {str(file)!r}, '--out', {str(out)!r}]\n"
        "from supple.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert "Interrupted" in done.stderr
    assert "Traceback" not in done.stderr
    assert [each.name for each in out.parent.iterdir()] == [out.name]
    assert out.read_bytes() == b"before"


def test_a_progress_bar_shows_rate_and_time_left_in_a_terminal() -> None:
    import pty

    code = (
        "import time; from supple.cli.console import progress\n"
        "with progress('solving', 400) as update:\n"
        "    for k in range(8): time.sleep(0.06); update(50 * (k + 1), 400)\n"
    )
    leader, follower = pty.openpty()
    environment = os.environ | {"COLUMNS": "110", "TERM": "xterm"}
    with subprocess.Popen([sys.executable, "-c", code], stderr=follower, env=environment) as made:
        os.close(follower)
        seen = b""
        while True:
            try:
                part = os.read(leader, 4096)
            except OSError:
                break
            if not part:
                break
            seen += part
        assert made.wait() == 0
    os.close(leader)
    for word in (b"solving", b"/400", b"/s", b"left:", b"0:00:0"):
        assert word in seen
