"""The commands print results, return exit codes, write complete files and refuse bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import supple as sp
from cases import each
from commands import FAR, POSE, found, run, ur5e_pose
from solving import solve
from supple.cli import COMMANDS
from supple.cli.group import cli
from supple.control.arguments import ACCELERATION_TIME

# ---- help, completion and output -----------------------------------------------------------------


@each("name", COMMANDS)
def test_every_command_has_help_and_json(name: str) -> None:
    text = run(name, "--help").output
    assert "--json" in text
    assert text.count("\n") > 5


def test_help_lists_every_command_and_the_exit_code_130() -> None:
    text = run("--help").output
    assert all(name in text for name in COMMANDS)
    assert "130" in text


@each("shell", ["bash", "zsh", "fish"])
def test_the_completion_command_prints_a_shell_script(shell: str) -> None:
    assert "_SUPPLE_COMPLETE" in run("completion", shell).stdout
    assert "_SUPPLE_COMPLETE" in found("completion", shell)["script"]


def test_shell_completion_knows_the_names_of_robots() -> None:
    words = {"COMP_WORDS": "supple info pan", "COMP_CWORD": "2"}
    done = CliRunner().invoke(
        cli, [], prog_name="supple", env={"_SUPPLE_COMPLETE": "bash_complete", **words}
    )
    assert done.output == "plain,panda\n"


@pytest.mark.parametrize("columns", [30, 79, 120])
def test_lines_of_output_are_at_most_as_wide_as_the_terminal_or_100_columns(columns: int) -> None:
    for words in (["info", "panda"], ["solve", "ur5e", *POSE], ["branches", "ur5e", *POSE]):
        done = run(*words, columns=columns)
        assert done.exit_code == 0
        lines = done.stdout.splitlines()
        assert "…" not in done.stdout
        assert max(map(len, lines)) <= max(columns, 100)


# ---- info ----------------------------------------------------------------------------------------


def test_info_shows_the_joints_limits_and_end_effectors_of_the_robot() -> None:
    robot, q = sp.load("panda"), sp.load("panda").random(seed=0)
    says = found("info", "panda", "--q", ",".join(map(str, q)))
    assert [joint["name"] for joint in says["joints"]] == list(robot.joint_names)
    assert [joint["upper"] for joint in says["joints"]] == robot.upper.tolist()
    np.testing.assert_allclose(says["end_effectors"][0]["position"], robot.fk(q)[:3, 3])
    text = run("info", "panda").stdout
    assert all(name in text for name in (*robot.joint_names, "panda_hand_tcp", "2.8973"))


def test_info_shows_the_acceleration_limits_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "arm.urdf"
    limit = '<limit lower="-1" upper="1" velocity="2" acceleration="7.5" jerk="3750"/>'
    file.write_text(
        '<robot name="arm" version="1.2"><link name="a"/><link name="b"/>'
        '<joint name="j" type="revolute"><parent link="a"/><child link="b"/>'
        f"{limit}</joint></robot>"
    )
    says = found("info", str(file))["joints"][0]
    assert (says["max_acceleration"], says["max_jerk"]) == (7.5, 3750.0)
    text = run("info", str(file)).stdout
    assert all(word in text for word in ("acceleration", "7.5000", "jerk", "3750.0000"))
    assert "acceleration" not in run("info", "panda").stdout
    assert "7.5 rad/s²     3750 rad/s³" in sp.urdf(file).summary()


def test_info_names_the_neutral_configuration() -> None:
    robot = sp.load("panda")
    assert (
        "end effector panda_hand_tcp at the neutral configuration:" in run("info", "panda").stdout
    )
    q = robot.neutral() + 0.25
    text = run("info", "panda", "--q", ",".join(map(str, q))).stdout
    assert f"panda_hand_tcp at q = {q[0]:.4g}, " in text


def test_info_shows_a_singular_value_that_is_a_rounding_error_as_zero() -> None:
    """A stretched UR5e is singular: its smallest singular value is a rounding error."""
    stretched = "0.3,-1.2,0,0.7,0.5,0.4"
    (tip,) = found("info", "ur5e", "--q", stretched)["end_effectors"]
    assert tip["sigma_min"] < 1e-12
    assert "smallest singular value 0\n" in run("info", "ur5e", "--q", stretched).stdout


def test_commands_accept_a_robot_file_instead_of_a_name(tmp_path: Path, robot_files: Any) -> None:
    file = robot_files("frax", "assets/iiwa/iiwa14.urdf")
    assert found("info", str(file))["dof"] == 7
    (tmp_path / "arm.xml").write_bytes(Path(file).read_bytes())
    assert found("info", str(tmp_path / "arm.xml"))["dof"] == 7
    frame = sp.urdf(str(file)).frames[3]
    assert found("info", str(file), "--tip", frame)["end_effectors"][0]["name"] == frame


def test_info_prints_infinite_limits_as_null_in_json() -> None:
    assert found("info", "planar3")["joints"][0]["upper"] is None


# ---- branches ------------------------------------------------------------------------------------


def test_branches_prints_different_solutions_of_one_pose() -> None:
    says = found("branches", "ur5e", *POSE)
    assert says["count"] == 8
    q = np.array([list(one["q"].values()) for one in says["solutions"]])
    np.testing.assert_allclose(sp.load("ur5e").fk(q), np.tile(ur5e_pose(), (8, 1, 1)), atol=2e-6)
    apart = np.abs(q[:, None] - q).max(axis=-1)
    assert apart[~np.eye(8, dtype=bool)].min() > 0.1
    assert run("branches", "ur5e", *POSE).stdout.count("#") == 8
    assert found("branches", "ur5e", *FAR, code=1)["count"] == 0


@pytest.mark.parametrize("robot", ["ur5e", "panda"])
def test_branches_says_how_far_the_closest_pose_to_an_unreachable_pose_is(robot: str) -> None:
    done = run("branches", robot, *FAR)
    assert done.exit_code == 1
    assert done.stdout.startswith(f"{robot}: no solution; unreachable: the closest pose found is ")
    assert done.stdout.count("\n") == 1


def test_the_branches_command_mentions_always_free_joints_in_one_line() -> None:
    says = run("branches", "panda", *POSE).stdout
    assert "moves freely" not in says
    assert says.count("In each of these solutions, all joints can move while the frame stays.") == 1


def test_the_branches_command_names_joints_that_are_free_on_some_branches() -> None:
    """With the wrist stretched, the first and third axes of the wrist coincide on one branch."""
    robot = sp.load("ur5e")
    T = robot.fk([0.3, -1.2, 1.5, -0.7, 0.0, 0.4])
    wxyz = map(str, sp.poses.wxyz(T))
    place = map(str, T[:3, 3])
    words = ["--position", *place, "--wxyz", *wxyz, "--most", "99"]
    says = run("branches", "ur5e", *words).stdout
    every = solve(robot, T, solutions="all")
    some = every.free.any(axis=0) & ~every.free.all(axis=0)
    assert some.any()
    for name, one in zip(robot.joint_names, some, strict=True):
        assert (f"{name} moves freely" in says) == one


def test_branches_says_that_a_position_has_infinitely_many_solutions() -> None:
    says = run("branches", "ur5e", *POSE[:4]).stdout
    assert "Without a rotation there are infinitely many solutions; these are some." in says
    assert "There may be more" not in says
    reason = found("branches", "ur5e", *POSE[:4])["reason"]
    assert reason.startswith("3 rows for 6 joints have infinitely many solutions")


def test_the_help_of_branches_says_how_solutions_are_ordered() -> None:
    words = " ".join(run("branches", "--help").stdout.split())
    assert "farthest from joint limits is first or, with --q0, the one nearest" in words


# ---- simulate ------------------------------------------------------------------------------------


def test_the_command_simulate_writes_the_motion_that_simulate_returns(tmp_path: Path) -> None:
    robot = sp.load("ur5e")
    q = np.radians([0, -70, 100, -120, -60, 0])
    twist = [0.05, 0, 0, -0.4, 0, 0]
    words = ["--twist", *map(str, twist), "--duration", "0.5", "--q0", ",".join(map(str, q))]
    files = {name: tmp_path / f"m.{name}" for name in ("csv", "png", "html")}
    says = found(
        "simulate", "ur5e", *words, "--out", str(files["csv"]), "--plot", str(files["png"]),
        "--animate", str(files["html"]),
    )  # fmt: skip
    expected = sp.simulate(robot, q, velocity=twist, dt=0.01, duration=0.5)
    again = sp.Trajectory.load(files["csv"])
    np.testing.assert_allclose(again.q, expected.q, rtol=0, atol=1e-12)
    assert says["steps"] == 50
    assert says["peak_speed"] == pytest.approx(np.linalg.norm(expected.qd, axis=1).max())
    assert files["png"].read_bytes()[:4] == b"\x89PNG"
    assert "<canvas" in files["html"].read_text() or "canvas" in files["html"].read_text()


def test_the_command_simulate_follows_the_poses_of_a_file(tmp_path: Path) -> None:
    robot = sp.load("ur5e")
    there = sp.poses.interpolate(
        robot.fk(np.array([0, -1.2, 1.7, -2, -1, 0])),
        robot.fk(np.array([0.3, -1.0, 1.5, -2, -1, 0.2])),
        np.linspace(0, 1, 60),
    )
    np.savez(tmp_path / "path.npz", T=there, t=np.linspace(0, 2, 60))
    says = found("simulate", "ur5e", str(tmp_path / "path.npz"), "--method", "optimal")
    assert says["steps"] == 59
    assert says["final_error"] < 1e-3


# ---- plan-path -----------------------------------------------------------------------------------


def test_the_command_plan_path_writes_a_timed_path(tmp_path: Path) -> None:
    robot = sp.load("ur5e")
    q = np.array([0.3, -1.2, 1.6, -0.4, 1.1, 0.2])
    ends = robot.fk(q), robot.fk(q)
    ends[1][:3, 3] += [0.1, 0.1, 0]
    there = sp.poses.interpolate(*ends, np.linspace(0, 1, 60))
    np.savez(tmp_path / "path.npz", T=there)
    out = tmp_path / "motion.npz"
    says = found(
        "plan-path", "ur5e", str(tmp_path / "path.npz"), "-o", str(out), "--max-jerk", "100"
    )
    assert says["continuous"]
    motion = sp.Trajectory.load(out)
    limits = sp.Limits.for_robot(robot, acceleration_time=ACCELERATION_TIME, max_jerk=100)
    expected = sp.plan_path(robot, there).timed(limits)
    np.testing.assert_allclose(motion.q, expected.q, rtol=0, atol=1e-12)
    assert says["duration"] == pytest.approx(expected.t[-1])
    there[30:, 2, 3] += 3
    np.savez(tmp_path / "far.npz", T=there)
    says = found("plan-path", "ur5e", str(tmp_path / "far.npz"), code=1)
    assert says["obstacle"].startswith("at 30: the target is out of reach")
    assert "out of reach" in run("plan-path", "ur5e", str(tmp_path / "far.npz")).output


# ---- doctor and bench ----------------------------------------------------------------------------


def test_doctor_passes_its_self_test_on_this_machine() -> None:
    says = found("doctor")
    assert says["test"]["passed"]
    assert says["versions"]["supple"] == sp.__version__
    assert says["machine"]["instruction_set"] in says["machine"]["available"]
    assert says["extras"]["cli"] == []
    assert "passed" in run("doctor").stdout


def test_doctor_fails_if_the_library_computes_wrong_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The self-test reports the wrong numbers."""
    real = sp.Solver.batch

    def wrong(solver: sp.Solver, *args: Any, **kwargs: Any) -> sp.Solutions:
        solved = real(solver, *args, **kwargs)
        solved.q[::7, 0] += 1e-3
        return solved

    monkeypatch.setattr(sp.Solver, "batch", wrong)
    done = run("doctor")
    assert done.exit_code == 1
    assert "FAILED" in done.stdout


def test_the_command_bench_prints_a_time_for_every_call() -> None:
    says = found("bench", "y", "--poses", "50")
    names = ("fk_us", "jacobian_us", "servo_us", "servo_singular_us", "solve_us")
    assert all(says[name] > 0 for name in names)
    assert says["batch_converged"] == 1.0


def test_a_warning_about_a_file_is_one_line_on_stderr(tmp_path: Path) -> None:
    file = tmp_path / "arm.urdf"
    file.write_text(
        '<robot name="r"><link name="a"/><link name="b"/><joint name="j" type="revolute">'
        '<parent link="a"/><child link="b"/></joint></robot>'
    )
    done = run("info", str(file))
    assert done.exit_code == 0
    assert done.stderr.startswith("Warning: ")
    assert "'j'" in done.stderr
    assert done.stderr.count("\n") == 1


# ---- refusals ------------------------------------------------------------------------------------


@each(
    ("words", "said"),
    [
        (["slove", "panda"], "did you mean 'solve'"),
        (["info", "pand"], "did you mean 'panda'"),
        (["info", "panda.urdf"], "the built-in robot is called 'panda'"),
        (["info", "/no/arm.urdf"], "no such file"),
        (["info", "panda", "--q", "1,2"], "--q must be 7 numbers"),
        (["info", "panda", "--tip", "x"], "unknown"),
        (["info", "panda", "--plot", "x.gif"], "png, svg, pdf"),
        (["solve", "panda"], "a target is required"),
        (["solve", "y", *POSE], "Available: 'E0', 'E1'"),
        (["solve", "panda", *POSE, "--wxyz", "1", "0", "0", "0"], "one of --rpy"),
        (["solve", "panda", *POSE, "--frame", "hand"], "unknown frame 'hand'"),
        (["solve", "panda", "/no/poses.csv"], "No such file"),
        (["solve", "panda", __file__], "one of .npz, .csv, .parquet"),
        (["solve", "panda", "p.csv", *POSE], "not both"),
        (["solve", "panda", *POSE, "--out", "x.csv"], "--out needs a FILE"),
        (["solve", "panda", "p.csv", "--out", "x.txt"], "one of .npz, .csv, .parquet"),
        (["solve", "panda", "p.csv", "--out", "/no/x.csv"], "the folder /no does not exist"),
        (["solve", "panda", "--position", "0.1", "x", "1"], "'x' is not a valid float"),
        (["simulate", "panda"], "a FILE of poses or --twist"),
        (["simulate", "panda", "--twist", *["0"] * 6], "needs --duration and --q0"),
        (["simulate", "panda", "p.csv", "--method", "optimum"], "'optimum' is not one of"),
        (["branches", "panda", *POSE, "--most", "0"], "solutions"),
        (["solve", "ur5e", *POSE[:5], "180", "0", "0"], "radians"),
        (["solve", "ur5e", *POSE[:4], "--quat", "0", "1", "0", "0"], "--wxyz W X Y Z or --xyzw X"),
        (["solve", "ur5e", *POSE, "--ouut", "a.csv"], "--out"),
        (["bench", "panda", "--poses", "0"], "above 0"),
        (["completion", "tcsh"], "'tcsh' is not one of"),
    ],
)
def test_commands_state_the_reason_for_refusing_input_and_exit_with_code_2(
    words: list[str], said: str
) -> None:
    done = run(*words)
    assert done.exit_code == 2, done.output
    assert said in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@each(
    ("text", "said"),
    [
        ("a,b\n1,2\n", "must have the columns x, y, z"),
        ("x,y,z\n1,2,3\n1,2,no\n", "'z' must have a number in every row; given: 'no' in row 2"),
        ("x,y,z,roll,pitch,yaw,rx,ry,rz\n1,2,3,4,5,6,7,8,9\n", "one kind of rotation"),
        ("x,y,z,roll,pitch,yaw\n.4,.1,.3,180,0,0\n", "rpy must be in radians"),
        ("", "empty"),
    ],
)
def test_a_malformed_table_of_poses_is_refused_with_exit_code_2(
    text: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "p.csv").write_text(text)
    done = run("solve", "panda", str(tmp_path / "p.csv"), "--out", str(tmp_path / "o.csv"))
    assert done.exit_code == 2
    assert said in done.stderr
    assert not (tmp_path / "o.csv").exists()
