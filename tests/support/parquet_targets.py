"""Targets in Parquet files, and folders of parts to compare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import supple as sp

QUATERNION = ("qw", "qx", "qy", "qz")


def reachable(robot: sp.Robot, count: int, seed: int = 0) -> dict[str, Any]:
    """Columns of poses that a robot reaches."""
    T = robot.fk(robot.random(count, seed=seed))
    return pose_columns(T)


def pose_columns(T: Any) -> dict[str, Any]:
    """The columns x, y, z, qw, qx, qy, qz of poses."""
    columns = dict(zip("xyz", T[:, :3, 3].T, strict=True))
    return columns | dict(zip(QUATERNION, sp.poses.wxyz(T).T, strict=True))


def write(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    """Write columns; an array (N, m) is a column of lists of m."""
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
    """All files of a folder, by name; the lock is empty and says nothing."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


def joints(table: Any, robot: sp.Robot) -> Any:
    """The configurations (N, n) of a table of results."""
    return np.stack([table[f"q:{name}"].to_numpy() for name in robot.joint_names], axis=1)
