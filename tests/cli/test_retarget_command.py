"""The command `retarget` agrees with the function."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import supple as sp
from commands import found, run
from humanoids import humanoid, humanoid_text
from supple.retargeting import walking


def test_the_command_retarget_writes_what_the_function_returns(tmp_path: Path) -> None:
    (tmp_path / "robot.urdf").write_text(humanoid_text())
    motion = walking(0.6, seed=1)
    motion.save(tmp_path / "walk.npz")
    expected = sp.retarget(humanoid(), motion)
    files = [str(tmp_path / name) for name in ("walk.npz", "robot.urdf")]
    for name in ("out.npz", "out.csv"):
        says = found("retarget", *files, "-o", str(tmp_path / name))
        assert says["frames"] == len(expected)
        assert says["slide"] < 1e-4
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["qpos"], expected.q)
    rows = np.loadtxt(tmp_path / "out.csv", delimiter=",")
    np.testing.assert_allclose(rows[:, 7:], expected.q[:, 7:], atol=1e-8)
    assert "left and right foot stand" in run("retarget", *files).output
    assert "must be a .csv or .npz" in run("retarget", *files, "-o", "motion.txt").output
