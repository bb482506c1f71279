"""Functions that run commands of `supple` in this process and capture the output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import supple as sp
from supple._arrays.tables import Table, write_table
from supple.cli.group import cli

POSE = ["--position", "0.4", "0.1", "0.3", "--rpy", "3.1", "0", "0"]
FAR = ["--position", "4", "0.1", "0.3"]


def run(*words: str, columns: int = 120) -> Result:
    return CliRunner().invoke(cli, words, env={"COLUMNS": str(columns)})


def found(*words: str, code: int = 0) -> Any:
    """Run a command with --json, check its exit code, and return its parsed output."""
    done = run(*words, "--json")
    assert done.exit_code == code, done.output
    return json.loads(done.stdout, parse_constant=pytest.fail)


def ur5e_pose() -> Any:
    return sp.pose([0.4, 0.1, 0.3], rpy=[3.1, 0, 0])


def poses_file(folder: Path, suffix: str, count: int = 40) -> tuple[Path, Any]:
    robot = sp.load("ur5e")
    T = robot.fk(robot.random(count, seed=5))
    columns = np.concatenate([T[:, :3, 3], sp.poses.wxyz(T)], axis=1).T
    names = ("x", "y", "z", "qw", "qx", "qy", "qz")
    table = Table(dict(zip(names, columns, strict=True)))
    return write_table(folder / f"poses{suffix}", table), T
