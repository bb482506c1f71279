"""Solve targets in Parquet files, as a stage of a pipeline (`Solve`) or as a job in parts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple._arrays.tables import pyarrow
from supple.cluster.on_ray import RayOptions
from supple.cluster.parts import Summary, fingerprint
from supple.cluster.run import Progress, check_gpus, run
from supple.cluster.schema import (
    INVALID,
    STATUSES,
    VERSION,
    Targets,
    check_values,
    goals,
    kinds_of,
    result_schema,
    targets_of,
)
from supple.cluster.source import Source, open_source
from supple.errors import InputError, check_one_of, join_names, known_arguments, short_repr
from supple.ik.arguments import Settings
from supple.ik.driver import Driver
from supple.ik.problem import compile_problem
from supple.ik.status import SolveStatus
from supple.kinematics import Robot
from supple.kinematics.loops import refuse_loops
from supple.kinematics.robot import check_robot
from supple.tasks import PoseTask, PositionTask
from supple.tasks.layout import selected_tasks

Array = NDArray[Any]
Columns = Mapping[str, Array]

PART_ROWS = 131_072  # number of targets in a part: about a second of work on one core
_CHECKED_ROWS = 1000  # number of rows of each file that are checked before any work
_PREFERENCES = ("comfortable", "fast", "manipulability", "limits")


@dataclass(frozen=True)
class Solve:
    """A stage of a pipeline, for example of Ray Data, that solves batches of targets.

        dataset.map_batches(supple.cluster.Solve(robot), batch_size=65_536)

    Called with the columns of a batch of targets (listed in `supple.cluster.schema`), a stage
    returns these columns and those of the solutions: q:JOINT [rad or m], status, position_error
    [m], rotation_error [rad], iterations and restarts. With `branches`, a target has a row for each
    of its solutions, the best first, and the column `branch` contains the index of the solution.

    Attributes:
        robot: The robot to solve for.
        frame: Frame to move to the targets; the end effector by default.
        branches: Maximum number of solutions of each target; None for one solution, without the
            column `branch`.
        prefer: "comfortable", "fast", "manipulability" or "limits", as in `supple.solve`.
        position_tolerance: Position tolerance [m].
        rotation_tolerance: Rotation tolerance [rad].
        max_seeds: Maximum number of seeds per target; None for the default of `supple.solve`.
        device: "cuda" for a GPU; None or "cpu" for the CPU.
        threads: Maximum number of threads; all cores by default.

    Raises:
        InputError: The robot has several end effectors and no frame is given.
        UnknownNameError: The frame or the preference is unknown.
    """

    robot: Robot
    frame: str | None = None
    branches: int | None = None
    prefer: Literal["comfortable", "fast", "manipulability", "limits"] = "comfortable"
    position_tolerance: float = 1e-6
    rotation_tolerance: float = 1e-6
    max_seeds: int | None = None
    device: str | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        if self.device == "cpu":
            object.__setattr__(self, "device", None)
        check_robot(self.robot)
        refuse_loops(self.robot, "a job on a cluster")
        check_one_of(self.prefer, "preference", _PREFERENCES)
        if self.frame is None and len(self.robot.tips) > 1:
            raise InputError(
                f"frame must name one of the end effectors of {self.robot.name}; given: none. "
                f"Available: {join_names(self.robot.tips)}"
            )
        self._driver(True)

    def __call__(self, columns: Columns) -> dict[str, Array]:
        """Return a batch's columns of targets together with the columns of the solutions."""
        where = "the batch"
        targets = targets_of({name: _array_kind(each) for name, each in columns.items()}, where)
        rows, found = self.solutions(columns, targets)
        found["status"] = np.array(STATUSES)[found["status"]]
        kept = {name: np.asarray(each)[rows] for name, each in columns.items()}
        return {**kept, **found}

    def solutions(self, columns: Columns, targets: Targets) -> tuple[Array, dict[str, Array]]:
        """Return the index of the target of each solution, and the columns of the solutions.

        The status is an index into `STATUSES`.
        """
        numbers, invalid = goals(columns, targets)
        driver = self._driver(targets.poses)
        if self.branches is None:
            found: Any = driver.solve_batch(numbers, None)
            rows = np.arange(len(numbers))
            q, status = found.q, np.array(found.status, np.int8)
            errors = found.position_error, found.rotation_error
            effort = found.iterations, found.restarts
        else:
            every, code, error, work, count = driver.solve_branches(numbers)
            there = np.arange(every.shape[1]) < np.maximum(count, 1)[:, None]
            rows = np.nonzero(there)[0]
            q, status = every[there], np.array(code[there], np.int8)
            errors = error[there][:, 0], error[there][:, 1]
            effort = work[there][:, 0], np.maximum(work[there][:, 1] - 1, 0)
        status[invalid[rows]] = STATUSES.index(INVALID)
        q = np.array(q)
        q[(status == SolveStatus.NONFINITE_INPUT) | invalid[rows]] = np.nan
        made: dict[str, Array] = {}
        if self.branches is not None:
            first = np.searchsorted(rows, rows)  # the rows of a target are consecutive
            made["branch"] = (np.arange(len(rows)) - first).astype(np.int16)
        made |= {f"q:{name}": q[:, j] for j, name in enumerate(self.robot.position_names)}
        made["status"] = status
        for name, each in zip(("position_error", "rotation_error"), errors, strict=True):
            made[name] = np.asarray(each, np.float32)
        for name, each in zip(("iterations", "restarts"), effort, strict=True):
            made[name] = np.asarray(each, np.int32)
        return rows, made

    @property
    def settings(self) -> dict[str, str | float | None]:
        """All settings that the solutions depend on, as plain values by name."""
        return {
            "robot": self.robot.name,
            "robot fingerprint": fingerprint([self.robot.description, self.robot.base]),
            "frame": self.placed,
            "branches": self.branches,
            "prefer": self.prefer,
            "position_tolerance": self.position_tolerance,
            "rotation_tolerance": self.rotation_tolerance,
            "max_seeds": self.max_seeds,
            "device": self.device or "cpu",
            "instruction set": None if self.device else _core.isa(),
        }

    @property
    def placed(self) -> str:
        """The name of the frame that is moved to the targets."""
        return self.robot.tips[0] if self.frame is None else self.frame

    @property
    def _preference(self) -> Literal["comfortable", "fast", "manipulability", "limits"]:
        """The preference of the search; with `branches`, the default becomes "fast"."""
        default = self.prefer == "comfortable"
        return "fast" if default and self.branches is not None else self.prefer

    def _task(self, poses: bool) -> PoseTask | PositionTask:
        return PoseTask(self.placed) if poses else PositionTask(self.placed)

    def _driver(self, poses: bool) -> Driver:
        """Check the options, and return a solver of poses or, if `poses` is false, of positions."""
        selected, _ = selected_tasks(self.robot, None, self._task(poses))
        settings = Settings.of(
            prefer=self._preference,
            max_move=None,
            position_tolerance=self.position_tolerance,
            rotation_tolerance=self.rotation_tolerance,
            timeout=None,
            max_seeds=self.max_seeds,
            threads=self.threads,
            device=self.device,
            precision="mixed",
        )
        options = settings.options(None, seeded=False, solutions=self.branches)
        return Driver(compile_problem(self.robot, selected), options)


def _array_kind(column: Any) -> str:
    array = np.asarray(column)
    if array.dtype.kind in "fiu" and array.ndim == 1:
        return "number"
    if array.dtype.kind in "fiu" and array.ndim > 1:
        return f"list of {int(np.prod(array.shape[1:]))}"
    return str(array.dtype)


@dataclass(frozen=True)
class BatchJob:
    """A job that solves the targets in Parquet files, in parts.

    Attributes:
        stage: The robot and the options of the search.
        source: The Parquet files.
        targets: The columns of the files that contain the targets.
    """

    stage: Solve
    source: Source
    targets: Targets

    kind = "solve"

    @property
    def at_once(self) -> int:
        """Number of parts that one process computes concurrently."""
        return 1 if self.stage.device else 2

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """All settings, files and versions that the results depend on, as plain values by name."""
        return {
            **self.stage.settings,
            "columns": list(self.targets.columns),
            "input": self.source.fingerprint,
            "schema": VERSION,
            "supple": version("supple"),
        }

    @property
    def sizes(self) -> Sequence[int]:
        """The number of targets in each part."""
        return self.source.sizes

    def compute(self, index: int, threads: int | None = None) -> tuple[Any, Mapping[str, int]]:
        """Return the results of a part as an Arrow table, and the number of targets by status."""
        pa, _ = pyarrow()
        stage = self.stage if self.stage.device else replace(self.stage, threads=threads)
        first, columns = self.source.read(index, self.targets.columns)
        rows, found = stage.solutions(columns, self.targets)
        codes = found["status"]
        found["status"] = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(STATUSES))
        schema = result_schema(self.stage.robot, self.stage.branches is not None)
        made = {"row": first + rows, **found}
        table = pa.Table.from_arrays(
            [pa.array(made[field.name], field.type) for field in schema], schema=schema
        )
        targets = codes if self.stage.branches is None else codes[found["branch"] == 0]
        numbers = np.bincount(targets, minlength=len(STATUSES)).tolist()
        return table, {name: n for name, n in zip(STATUSES, numbers, strict=True) if n}


@known_arguments()
def solve_parquet(
    stage: Solve,
    source: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    part_rows: int = PART_ROWS,
    ray: RayOptions | None = None,
    progress: Progress | None = None,
) -> Summary:
    """Solve all targets in Parquet files, and write the solutions into a folder of parts.

        solve_parquet(Solve(robot), "targets.parquet", "solutions")

    The input is checked before anything is solved. If a run is interrupted or killed, the same call
    continues it. The resulting files are bit for bit those of a run without interruption, for any
    number of threads or workers with the same instruction set.

    Args:
        stage: The robot and the options of the search.
        source: A Parquet file, or a folder of them, in the order of their names.
        folder: A new folder for the results, or the folder of the same job to continue it.
        part_rows: Maximum number of targets in a part.
        ray: The Ray cluster to run on; None to run in this process.
        progress: Function called repeatedly with the number of finished targets and the number of
            all targets.

    Raises:
        InputError: A column is missing or has the wrong type, unit or order, or the folder contains
            another job.
        MissingExtraError: pyarrow, or Ray, is not installed.
        OSError: The folder cannot be written; parts that were already written are kept.
    """
    if not isinstance(stage, Solve):
        raise InputError(f"stage must be a Solve, such as Solve(robot); given: {short_repr(stage)}")
    check_gpus(stage.device, ray)
    files = open_source(source, part_rows)
    chosen: Targets | None = None
    for path, schema in files.schemas():
        found = targets_of(kinds_of(schema, path), path)
        if chosen is not None and found != chosen:
            raise InputError(
                f"all files must have the same columns of targets: {join_names(chosen.columns)}; "
                f"given: {join_names(found.columns)} in {path}"
            )
        chosen = found
        check_values(files.head(path, found.columns, _CHECKED_ROWS), found, stage.robot, path)
    assert chosen is not None
    return run(BatchJob(stage, files, chosen), folder, ray=ray, progress=progress)
