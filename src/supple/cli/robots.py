"""Arguments of commands: robots, frames, configurations and targets."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import reduce, wraps
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np
from click.shell_completion import CompletionItem
from numpy.typing import NDArray

import supple as sp
from supple._arrays.tables import FORMATS, Table, read_table
from supple.cli.console import UsageError
from supple.describe import builtin_names
from supple.errors import InputError, join_names, short_repr
from supple.kinematics.configuration import to_kernel
from supple.motion.plausible import plausible_range

Array = NDArray[Any]
Command = TypeVar("Command", bound=Callable[..., Any])

_ROTATIONS = {  # arguments of `pose`, and the columns of a table that contain their numbers
    "wxyz": ("qw", "qx", "qy", "qz"),
    "rpy": ("roll", "pitch", "yaw"),
    "rotation_vector": ("rx", "ry", "rz"),
}
_POSITION = ("x", "y", "z")


class RobotName(click.types.StringParamType):
    """The type of the argument ROBOT: the name of a built-in robot, or a URDF or MJCF file."""

    name = "robot"

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        """Return the names of built-in robots that match, or complete file names if none does."""
        names = [name for name in builtin_names() if name.startswith(incomplete)]
        return [CompletionItem(name) for name in names] or [CompletionItem("", type="file")]


def read_robot(text: str, tips: tuple[str, ...] = (), fixed: tuple[str, ...] = ()) -> sp.Robot:
    """Return the robot that an argument ROBOT names: a built-in robot, or one from a file.

    Warnings about the file are printed on stderr, one line each.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        robot = _read(text, tips, fixed)
    for each in caught:
        click.echo(f"Warning: {each.message}", err=True)
    return robot


def _read(text: str, tips: tuple[str, ...], fixed: tuple[str, ...]) -> sp.Robot:
    chosen, path = tips or None, Path(text)
    suffix = path.suffix.lower()
    if suffix in (".urdf", ".xacro", ".mjcf", ".xml"):
        if path.stem in builtin_names() and not path.exists():
            raise InputError(
                f"no such file: {short_repr(text)}; the built-in robot is called {path.stem!r}"
            )
        is_urdf = suffix in (".urdf", ".xacro") or (suffix == ".xml" and _is_urdf(path))
        reader = sp.urdf if is_urdf else sp.mjcf
        return reader(text, fixed=fixed, tips=chosen)
    if fixed:
        raise click.UsageError(f"--fixed is for URDF and MJCF files; given: the name {text!r}")
    return sp.load(text, tips=chosen)


def _is_urdf(path: Path) -> bool:
    try:
        return b"<robot" in path.read_bytes()[:100_000]
    except OSError:
        return False  # the reader reports the error


def _options(*decorators: Callable[[Any], Any]) -> Callable[[Command], Command]:
    return lambda command: reduce(lambda made, each: each(made), reversed(decorators), command)


def with_robot(command: Command) -> Any:
    """Add the argument ROBOT to a command, and pass the robot that it names to the function."""

    @click.argument("robot", type=RobotName())
    @click.option(
        "--tip", "tips", multiple=True, metavar="FRAME", help="Name of an end effector; repeatable."
    )
    @click.option(
        "--fixed",
        multiple=True,
        metavar="JOINT",
        help="Joint of a URDF or MJCF file to hold fixed; repeatable.",
    )
    @wraps(command)
    def call(
        *args: Any, robot: str, tips: tuple[str, ...], fixed: tuple[str, ...], **kwargs: Any
    ) -> Any:
        return command(*args, robot=read_robot(robot, tips, fixed), **kwargs)

    return call


def ray_options(command: Command) -> Any:
    """Add the options --ray, --cpus and --gpus to a command, and pass them as `RayOptions`."""

    @click.option(
        "--ray",
        "address",
        is_flag=False,
        flag_value="",
        metavar="[ADDRESS]",
        help="Run on the Ray cluster at ADDRESS; without ADDRESS, on a local one.",
    )
    @click.option("--cpus", default=1.0, show_default=True, help="CPUs per worker, with --ray.")
    @click.option("--gpus", default=0.0, show_default=True, help="GPUs per worker, with --ray.")
    @wraps(command)
    def call(*args: Any, address: str | None, cpus: float, gpus: float, **kwargs: Any) -> Any:
        from supple.cluster import RayOptions

        ray = None if address is None else RayOptions(address or None, cpus, gpus)
        return command(*args, ray=ray, **kwargs)

    return call


map_value_option = click.option(
    "--value",
    default="dexterity",
    show_default=True,
    type=click.Choice(["dexterity", "manipulability", "manipulability_mean", "sigma_min"]),
    help="Quantity to show for each voxel.",
)

target_options = _options(
    click.option("--position", nargs=3, type=float, metavar="X Y Z", help="Position [m]."),
    click.option("--rpy", nargs=3, type=float, metavar="R P Y", help="Roll, pitch, yaw [rad]."),
    click.option(
        "--wxyz",
        nargs=4,
        type=float,
        metavar="W X Y Z",
        help="Quaternion, scalar first; normalized.",
    ),
    click.option(
        "--xyzw",
        nargs=4,
        type=float,
        metavar="X Y Z W",
        help="Quaternion, scalar last; normalized.",
    ),
    click.option(
        "--rotation-vector", nargs=3, type=float, metavar="X Y Z", help="Axis times angle [rad]."
    ),
    click.option("--frame", metavar="NAME", help="Controlled frame; the end effector by default."),
)


world_options = _options(
    click.option(
        "--srdf",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="SRDF file with pairs of links that are not checked.",
    ),
    click.option(
        "--clearance",
        default=0.0,
        show_default=True,
        metavar="X",
        help="Least distance of all pairs [m].",
    ),
)


scene_options = _options(
    click.option(
        "--world",
        "scene",
        type=click.Path(path_type=Path),
        metavar="SCENE",
        help="Scene with obstacles to keep out of: JSON, URDF or MJCF.",
    ),
    world_options,
)


def world_arguments(
    robot: sp.Robot, scene: Path | None, srdf: Path | None, clearance: float
) -> dict[str, Any]:
    """Return the values of `scene_options` as arguments of a function; empty without a world."""
    if scene is not None or srdf is not None:
        return {"world": world_of(robot, scene, srdf), "clearance": clearance}
    if clearance:
        raise click.UsageError("--clearance needs --world SCENE or --srdf FILE")
    return {}


def certificate_values(certificate: sp.collision.Certificate | None) -> dict[str, Any]:
    """Return a certificate as plain values; empty without a world."""
    if certificate is None:
        return {}
    return {
        "certified": certificate.certified,
        "min_clearance": certificate.min_clearance,
        "not_certified": certificate.interval and list(certificate.interval),
        "pair": certificate.pair and list(certificate.pair),
    }


def world_of(robot: sp.Robot, scene: Path | None, srdf: Path | None) -> sp.World:
    """Return the world of a scene file, or an empty one; pairs of an SRDF file are not checked."""
    world = sp.World() if scene is None else sp.World.load(scene)
    if srdf is None:
        return world
    pairs = sp.collision.srdf_pairs(srdf, robot)
    return sp.World(world.obstacles, unchecked=pairs, speeds=world.speeds)


def one_target(**given: Any) -> tuple[Array, bool]:
    """Return the target and whether it is a pose (4, 4); without a rotation it is a position (3,).

    `given` are the values of `target_options`.
    """
    kinds = ("rpy", "wxyz", "xyzw", "rotation_vector")
    rotations = {name: given[name] for name in kinds if given[name] is not None}
    if given["position"] is None:
        raise click.UsageError(
            "a target is required: --position X Y Z, or a FILE of poses; given: neither"
        )
    if len(rotations) > 1:
        options = "--rpy, --wxyz, --xyzw and --rotation-vector"
        raise click.UsageError(f"give one of {options}; given: {join_names(rotations)}")
    if not rotations:
        return np.array(given["position"]), False
    return sp.pose(given["position"], **rotations), True


def targets_in(file: Path) -> tuple[Array, bool, Table]:
    """Return the targets in a file, whether they are poses, and the table of the file.

    Targets are poses (N, 4, 4) or positions (N, 3). A pose from columns with a number that is not
    finite is a matrix of NaN.

    Raises:
        InputError: The table has neither x, y, z nor (in an npz file) the array T.
    """
    table = read_table(file)
    columns = dict(table.arrays)
    if "T" in columns:
        poses = np.asarray(columns["T"], dtype=np.float64)
        if poses.shape[-2:] != (4, 4) or poses.ndim != 3:
            raise InputError(f"T in {file} must be poses (N, 4, 4); given: shape {poses.shape}")
        return poses, True, table
    if not all(name in columns for name in _POSITION):
        raise InputError(
            f"{file} must have the columns x, y, z [m], and for poses qw, qx, qy, qz, or roll, "
            f"pitch, yaw, or rx, ry, rz; given: {join_names(columns)}"
        )
    rotations: dict[str, Any] = {
        name: _stacked(columns, parts, file)
        for name, parts in _ROTATIONS.items()
        if all(part in columns for part in parts)
    }
    if len(rotations) > 1:
        names = join_names(part for name in rotations for part in _ROTATIONS[name])
        raise InputError(f"{file} must have one kind of rotation; given: {names}")
    position = _stacked(columns, _POSITION, file)
    if not rotations:
        return position, False, table
    ((kind, rotation),) = rotations.items()
    finite = np.isfinite(position).all(axis=1) & np.isfinite(rotation).all(axis=1)
    poses = np.full((len(position), 4, 4), np.nan)
    poses[finite] = sp.pose(position[finite], **{kind: rotation[finite]})
    return poses, True, table


def path_in(file: Path) -> tuple[Array, bool, Table]:
    """Return the results of `targets_in` after checking that all poses of a path are finite.

    Raises:
        InputError: A pose is not finite; the message names its row and columns.
    """
    goals, is_pose, table = targets_in(file)
    bad = ~np.isfinite(goals).all(axis=tuple(range(1, goals.ndim)))
    if bad.any():
        row = int(bad.argmax())
        columns = {name: each for name, each in table.arrays.items() if each.dtype.kind == "f"}
        names = join_names(n for n, each in columns.items() if not np.isfinite(each[row]).all())
        what = f"a number that is not finite in row {row + 1}, column {names}"
        raise InputError(f"{file}: every pose of a path must be finite; given: {what}")
    return goals, is_pose, table


def _stacked(columns: dict[str, Array], names: tuple[str, ...], file: Path) -> Array:
    parts = [columns[name] for name in names]
    for name, part in zip(names, parts, strict=True):
        if part.dtype.kind not in "fiu":
            row, word = _first_word(part)
            problem = f"the column {name!r} must have a number in every row"
            raise InputError(f"{file}: {problem}; given: {short_repr(word)} in row {row + 1}")
    if any(part.ndim != 1 or part.shape != parts[0].shape for part in parts):
        shapes = ", ".join(str(part.shape) for part in parts)
        problem = f"the columns {join_names(names)} must have one number per row"
        raise InputError(f"{file}: {problem}; given: shapes {shapes}")
    return np.stack(parts, axis=1).astype(np.float64)


def _first_word(part: Array) -> tuple[int, Any]:
    """Return the row and the text of the first entry that is not a number in a column."""
    for row, word in enumerate(part.ravel().tolist()):
        try:
            float(word)
        except (TypeError, ValueError):
            return row, word
    return 0, part.ravel()[0] if part.size else part


def tasks_for(robot: sp.Robot, frame: str | None, poses: bool) -> Any:
    """Return the task for the pose of one frame, or for its position if `poses` is false.

    Raises:
        InputError: The robot has several end effectors and `frame` is None.
    """
    if frame is None and len(robot.tips) > 1:
        raise InputError(
            f"--frame must name one of the end effectors of {robot.name}; given: none. "
            f"Available: {join_names(robot.tips)}"
        )
    name = robot.tips[0] if frame is None else frame
    return sp.PoseTask(name) if poses else sp.PositionTask(name)


def configuration(robot: sp.Robot, text: str | None, option: str) -> Array | None:
    """Return numbers separated by commas or spaces as a configuration (n,)."""
    if text is None:
        return None
    try:
        q = np.array([float(word) for word in text.replace(",", " ").split()])
    except ValueError:
        q = np.empty(0)
    if q.shape != (robot.nq,) or not np.isfinite(q).all():
        raise UsageError(f"{option} must be {robot.nq} numbers for {robot.name}; given: {text}")
    lower, upper = plausible_range(robot)
    at = to_kernel(robot, q)
    wrong = np.flatnonzero((at < lower) | (at > upper))
    if len(wrong):
        joint = robot.joint_names[wrong[0]]
        raise UsageError(
            f"{option} must be in radians, but {at[wrong[0]]:g} for the joint {joint} is probably "
            f"in degrees; given: {text}"
        )
    return q


def table_path(path: Path | None, option: str = "--out") -> None:
    """Check the suffix of a table before a long computation."""
    if path is not None and path.suffix.lower() not in FORMATS:
        raise click.UsageError(
            f"{option}: the file's suffix must be one of {', '.join(FORMATS)}; given: {path}"
        )
