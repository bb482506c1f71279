"""The benchmark of positions runs, and its judge is not the solver."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

BENCH = Path(__file__).resolve().parents[1] / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pinocchio")
    monkeypatch.syspath_prepend(BENCH)


def test_a_quick_run_solves_everything() -> None:
    pytest.importorskip("pinocchio")
    command = [sys.executable, BENCH / "position.py", "--quick", "--no-peers", "puma560"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    rows = [line.split("|") for line in done.stdout.splitlines() if line.startswith("| supple")]
    solved = [float(cells[3]) for cells in rows]
    assert len(solved) == 8
    assert min(solved) >= 95.0


@pytest.mark.usefixtures("bench")
def test_the_judge_refuses_what_is_wrong(tmp_path: Path) -> None:
    import arms
    import position
    import supple as sp
    from position_judge import Answers, Judge, judged
    from position_targets import LOOSE

    panda = arms.chain("Panda", sp.load("panda"))
    problem, made = position.prepared("panda", panda, tmp_path, 4)
    judge, random = Judge(problem), made["random"]
    robot = sp.urdf(tmp_path / "robot.urdf")
    right = sp.solve(robot, random.targets).q
    turned, outside = right.copy(), right.copy()
    turned[:, 0] += 2e-3  # nearly there
    outside[:, 0] += 2 * np.pi  # there, but past a limit
    for q, good in ((right, True), (turned, False), (outside, False)):
        answers = Answers()
        answers.add(0, {"q": q.tolist(), "claims": [True] * 4, "ns": [1] * 4})
        assert (judged(judge, random, LOOSE, answers)[0] == good).all()
    nothing = Answers()
    nan = [float("nan")] * 7
    nothing.add(0, {"q": [None, nan, None, nan], "claims": [True] * 4, "ns": [1] * 4})
    assert not judged(judge, random, LOOSE, nothing)[0].any()


@pytest.mark.usefixtures("bench")
def test_the_closest_pose_is_known_at_the_boundary(tmp_path: Path) -> None:
    import arms
    import position
    import supple as sp
    from position_judge import Answers, Judge, judged
    from position_targets import BEYOND, LOOSE

    puma = arms.chain("PUMA", sp.load("puma560"))
    problem, made = position.prepared("puma560", puma, tmp_path, 4)
    judge, beyond = Judge(problem), made["beyond"]
    at_edge = sp.solve(sp.urdf(tmp_path / "robot.urdf"), made["edge"].targets).q
    far, off = judge.errors(at_edge, beyond.targets)
    np.testing.assert_allclose(far, BEYOND, atol=1e-5)
    np.testing.assert_allclose(off, 0, atol=1e-5)
    for q, good in ((at_edge, True), (np.zeros((4, 6)), False)):
        answers = Answers()
        answers.add(0, {"q": q.tolist(), "claims": [False] * 4, "ns": [1] * 4})
        assert (judged(judge, beyond, LOOSE, answers)[0] == good).all()


@pytest.mark.usefixtures("bench")
def test_the_files_of_arms_say_what_the_robots_are(robot_files: Callable[[str, str], Path]) -> None:
    import arms
    import supple as sp

    robot_files("", arms.BAXTER)
    for name, arm in arms.arms().items():
        baxter = name == "baxter"
        robot = sp.urdf(robot_files("", arms.BAXTER)) if baxter else sp.load(name)
        ours = sp.urdf(arm.urdf)
        q = ours.random(5, seed=0)
        whole = np.zeros((5, robot.dof))
        at = [k for k, n in enumerate(robot.joint_names) if not baxter or n in RIGHT_ARM]
        whole[:, at] = q
        there = robot.fk(whole, "right_gripper" if baxter else None)
        np.testing.assert_allclose(ours.fk(q), there, atol=1e-12)
        np.testing.assert_array_equal(ours.lower, robot.lower[at])
        np.testing.assert_array_equal(ours.upper, robot.upper[at])


RIGHT_ARM = [f"right_{joint}" for joint in ("s0", "s1", "e0", "e1", "w0", "w1", "w2")]
