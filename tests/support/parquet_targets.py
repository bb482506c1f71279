"""Targets written to Parquet files, and the contents of result folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import supple as sp
from supple.cluster import Solve, solve_parquet

QUATERNION = ("qw", "qx", "qy", "qz")


def reachable(robot: sp.Robot, count: int, seed: int = 0) -> dict[str, Any]:
    """Return the columns of random poses that a robot reaches."""
    T = robot.fk(robot.random(count, seed=seed))
    return pose_columns(T)


def pose_columns(T: Any) -> dict[str, Any]:
    """Return the columns x, y, z, qw, qx, qy, qz of poses (N, 4, 4)."""
    columns = dict(zip("xyz", T[:, :3, 3].T, strict=True))
    return columns | dict(zip(QUATERNION, sp.poses.wxyz(T).T, strict=True))


def write(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    """Write columns to a Parquet file; an array (N, m) becomes a column of lists of m numbers."""
    arrays = {
        name: pa.array(each)
        if isinstance(each, pa.Array) or np.ndim(each) == 1
        else pa.FixedSizeListArray.from_arrays(np.ravel(each), int(np.prod(each.shape[1:])))
        for name, each in columns.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table(arrays), path, **options)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of all files in a folder by name, except the empty lock file."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


def solved_targets(
    robot: sp.Robot, folder: Path, rows: int, part_rows: int
) -> tuple[Path, dict[str, bytes]]:
    """Return a file of reachable targets, and the results of a run without interruption."""
    file = write(folder / "targets.parquet", reachable(robot, rows), row_group_size=3000)
    solve_parquet(Solve(robot), file, folder / "out", part_rows=part_rows)
    return file, contents(folder / "out")


def joints(table: Any, robot: sp.Robot) -> Any:
    """Return the configurations (N, n) in a table of results."""
    return np.stack([table[f"q:{name}"].to_numpy() for name in robot.joint_names], axis=1)
