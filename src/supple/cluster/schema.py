"""The columns of targets and of results, version 1.

Targets have one of these sets of columns; other columns are ignored:

    T                       lists of 16 numbers: a pose (4, 4), row by row [m]
    x y z  qw qx qy qz      position [m] and unit quaternion
    x y z                   position [m]; the rotation is free

Results have a row for each target or, with `branches`, for each solution of a target:

    row                     index of the target in the input (int64)
    branch                  index of the solution, the best first (int16); only with `branches`
    q:JOINT                 position of each joint [rad or m] (double)
    status                  a name of `SolveStatus`, or INVALID_TARGET
    position_error          position error of the solution [m] (float)
    rotation_error          rotation error of the solution [rad] (float)
    iterations, restarts    number of iterations and of restarts of the search (int32)

INVALID_TARGET marks a target that is not a pose: the length of its quaternion is not 1, or the
rotation of its matrix is not orthonormal. With this status and with NONFINITE_INPUT, q is NaN. The
metadata "unit" of a column contains its unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple._arrays.checks import POSE_TOLERANCE
from supple._arrays.tables import pyarrow
from supple.damping.scale import reach
from supple.errors import InputError, join_names
from supple.ik.status import SolveStatus
from supple.kinematics import Robot
from supple.kinematics.rotation import from_quaternion
from supple.motion.unit_text import position_units

Array = NDArray[Any]

VERSION = 1
POSITION, QUATERNION, MATRIX = ("x", "y", "z"), ("qw", "qx", "qy", "qz"), "T"
INVALID = "INVALID_TARGET"
STATUSES = (*(status.name for status in SolveStatus), INVALID)
_CHUNK = 8192  # number of rows that are converted at a time, so that they fit into the cache
# If the median distance of targets, relative to the reach, is larger, their unit is not m.
FAR_DISTANCE_RATIO = 50.0
# Column names of other programs for rotations; they do not tell the order of the numbers.
_AMBIGUOUS = ("quaternion", "quat", "orientation", "rotation", "pose", "wxyz", "xyzw")


@dataclass(frozen=True)
class Targets:
    """The columns of a table that contain the targets.

    Attributes:
        columns: Names of the columns.
        poses: Whether the targets are poses; otherwise they are positions.
    """

    columns: tuple[str, ...]
    poses: bool

    @property
    def matrices(self) -> bool:
        """Whether the poses are given as matrices, in the column T."""
        return self.columns == (MATRIX,)


def targets_of(names: Mapping[str, str], where: str) -> Targets:
    """Return the columns of a table that contain the targets.

    Args:
        names: Kind of each column by its name: "number", "list of 16" or any other text.
        where: Name of the table for error messages.

    Raises:
        InputError: No set of target columns is complete, or a target column does not contain
            numbers.
    """
    chosen = _chosen(names, where)
    for name in chosen.columns:
        wanted = "list of 16" if name == MATRIX else "number"
        if names[name] != wanted:
            is_list = "lists of 16 numbers" if name == MATRIX else "numbers"
            raise InputError(
                f"the column {name!r} of {where} must have {is_list}; given: {names[name]}"
            )
    return chosen


def _chosen(names: Mapping[str, str], where: str) -> Targets:
    rotation = [name for name in QUATERNION if name in names]
    position = [name for name in POSITION if name in names]
    if MATRIX in names:
        if rotation:
            raise InputError(
                f"{where} must have either T, or a position and a quaternion; given: 'T' and "
                f"{join_names(rotation)}"
            )
        return Targets((MATRIX,), True)
    for wanted, given in ((POSITION, position), (QUATERNION, rotation)):
        missing = [name for name in wanted if name not in names]
        if missing and (given or wanted == POSITION):
            raise InputError(
                f"{where} has no column {join_names(missing)}; targets are T, or x, y, z [m] and "
                f"qw, qx, qy, qz, or x, y, z. Available: {join_names(names)}"
            )
    unclear = [name for name in names if name.lower() in _AMBIGUOUS]
    if unclear and not rotation:
        raise InputError(
            f"the column {unclear[0]!r} of {where} does not state the order of its numbers: use "
            "the columns qw, qx, qy, qz, or remove it if only the position counts"
        )
    return Targets((*POSITION, *rotation), bool(rotation))


def kinds_of(schema: Any, where: str) -> dict[str, str]:
    """Return the kind of each column of an Arrow schema by name, as `targets_of` expects it.

    Raises:
        InputError: The metadata of a position column states another unit than m.
    """
    pa, _ = pyarrow()
    found: dict[str, str] = {}
    for each in schema:
        found[each.name] = _kind(each.type, pa)
        unit = (each.metadata or {}).get(b"unit", b"").decode()
        if each.name in (*POSITION, MATRIX) and unit not in ("", "m"):
            raise InputError(f"the column {each.name!r} of {where} must be in m; given: {unit}")
    return found


def _kind(given: Any, pa: Any) -> str:
    if pa.types.is_floating(given) or pa.types.is_integer(given):
        return "number"
    if isinstance(given, pa.BaseExtensionType):  # a tensor of Ray Data
        shape = list(getattr(given, "shape", ()))
        return "list of 16" if int(np.prod(shape or [0])) == 16 else str(given)
    if pa.types.is_fixed_size_list(given) and pa.types.is_floating(given.value_type):
        return f"list of {given.list_size}"
    return str(given)


def check_values(columns: Mapping[str, Array], targets: Targets, robot: Robot, where: str) -> None:
    """Check the first rows of a file for mistakes that probably concern all rows.

    Raises:
        InputError: Most quaternions do not have length 1, most matrices are transposed or not
            poses, or the positions are not in m.
    """
    rows, invalid = goals(columns, targets)
    if len(rows) and invalid.mean() > 0.5:
        if targets.matrices:
            bottom = np.reshape(columns[MATRIX], (-1, 4, 4))[:, 3, :3]
            hint = ", perhaps written column by column" if np.abs(bottom).max() > 1e-5 else ""
            raise InputError(
                f"the column 'T' of {where} must have poses (4, 4), written row by row; given: "
                f"matrices that are not poses{hint}"
            )
        row = int(np.argmax(invalid))
        raise InputError(
            f"the columns {join_names(QUATERNION)} of {where} must be unit quaternions; given: "
            f"length {np.linalg.norm([columns[name][row] for name in QUATERNION]):.4g} in row "
            f"{row + 1}"
        )
    away = np.linalg.norm(rows[:, -3:] - robot.base[:3, 3], axis=1)
    away = away[np.isfinite(away)]
    size = reach(robot)
    if len(away) and np.median(away) > FAR_DISTANCE_RATIO * size:
        names = "'T'" if targets.matrices else join_names(POSITION)
        raise InputError(
            f"the positions of {where} ({names}) must be in m; given: a median distance of "
            f"{np.median(away):.4g} from the base of {robot.name}, whose reach is {size:.3g} m"
        )


def goals(columns: Mapping[str, Array], targets: Targets) -> tuple[Array, NDArray[np.bool_]]:
    """Return targets (N, 12) in the kernel's layout, and a mask (N,) of targets that are not poses.

    The layout is the rotation, column by column, then the position. Rows that are not poses or not
    finite are NaN.
    """
    rows = np.empty((len(columns[targets.columns[0]]), 12))
    invalid = np.zeros(len(rows), bool)
    if not targets.poses:
        rows[:, :9] = np.eye(3).ravel()
        rows[:, 9:] = np.stack([columns[name] for name in POSITION], axis=1)
        return rows, invalid
    fill = _fill_from_matrices if targets.matrices else _fill_from_quaternions
    for first in range(0, len(rows), _CHUNK):
        some = slice(first, first + _CHUNK)
        invalid[some] = fill(rows[some], {name: columns[name][some] for name in targets.columns})
    return rows, invalid


def _fill_from_matrices(rows: Array, columns: Mapping[str, Array]) -> NDArray[np.bool_]:
    """Write matrices into the targets `rows` (N, 12).

    Return a mask (N,) of the matrices that are finite but not poses.
    """
    T = np.asarray(columns[MATRIX], np.float64).reshape(-1, 4, 4)
    R = T[:, :3, :3]
    with np.errstate(over="ignore", invalid="ignore"):
        residual = np.abs(np.swapaxes(R, 1, 2) @ R - np.eye(3)).max(axis=(1, 2))
        mirrored = np.einsum("ni,ni->n", np.cross(R[:, 0], R[:, 1]), R[:, 2]) < 0
        last = np.abs(T[:, 3] - (0, 0, 0, 1)).max(axis=1) > 1e-5
    finite = np.isfinite(T).all(axis=(1, 2))
    invalid = finite & ((residual > POSE_TOLERANCE) | mirrored | last)
    rows[:, :9], rows[:, 9:] = np.swapaxes(R, 1, 2).reshape(-1, 9), T[:, :3, 3]
    rows[invalid | ~finite] = np.nan
    return np.asarray(invalid)


def _fill_from_quaternions(rows: Array, columns: Mapping[str, Array]) -> NDArray[np.bool_]:
    """Write positions and quaternions into the targets `rows` (N, 12).

    Return a mask (N,) of the quaternions that are finite but not of length 1.
    """
    wxyz = np.stack([np.asarray(columns[name], np.float64) for name in QUATERNION]).T
    with np.errstate(over="ignore", invalid="ignore"):
        length = np.sqrt(np.einsum("ni,ni->n", wxyz, wxyz))
    bad = ~(np.abs(length - 1) <= POSE_TOLERANCE)  # also true for NaN
    invalid = np.zeros(len(rows), bool)
    if bad.any():
        invalid = bad & np.isfinite(wxyz).all(axis=1)
        wxyz[bad] = 1, 0, 0, 0
    from_quaternion(wxyz, np.swapaxes(rows[:, :9].reshape(-1, 3, 3), 1, 2))
    for i, name in enumerate(POSITION):
        rows[:, 9 + i] = columns[name]
    rows[bad] = np.nan
    return invalid


def pose_fields() -> list[Any]:
    """Return the Arrow fields of a pose: position and quaternion."""
    pa, _ = pyarrow()
    position = [pa.field(name, pa.float64(), metadata={"unit": "m"}) for name in POSITION]
    return position + [pa.field(name, pa.float64()) for name in QUATERNION]


def words() -> Any:
    """Return the Arrow type of a column that contains few different words."""
    pa, _ = pyarrow()
    return pa.dictionary(pa.int8(), pa.string())


def joint_fields(robot: Robot) -> list[Any]:
    """Return the Arrow fields q:JOINT of a configuration, with their units."""
    pa, _ = pyarrow()
    return [
        pa.field(f"q:{name}", pa.float64(), metadata={"unit": unit} if unit else None)
        for name, unit in zip(robot.position_names, position_units(robot), strict=True)
    ]


def result_schema(robot: Robot, branches: bool) -> Any:
    """Return the Arrow schema of results."""
    pa, _ = pyarrow()
    fields = [pa.field("row", pa.int64(), nullable=False)]
    if branches:
        fields.append(pa.field("branch", pa.int16(), nullable=False))
    fields += joint_fields(robot)
    fields += [
        pa.field("status", words(), nullable=False),
        pa.field("position_error", pa.float32(), metadata={"unit": "m"}),
        pa.field("rotation_error", pa.float32(), metadata={"unit": "rad"}),
        pa.field("iterations", pa.int32(), nullable=False),
        pa.field("restarts", pa.int32(), nullable=False),
    ]
    return pa.schema(fields, metadata={"supple.schema": f"results {VERSION}"})
