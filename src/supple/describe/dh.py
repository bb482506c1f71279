"""Descriptions from Denavit-Hartenberg tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from supple.describe._numbers import described_numbers
from supple.describe._pose import Array, rotation_x, rotation_z, translation
from supple.describe._validate import RATES
from supple.describe.description import Description
from supple.describe.joint import Frame, Joint, Kind
from supple.describe.tips import with_tips
from supple.errors import DescriptionError, check_one_of, short_repr, unknown_name_error

_KINDS: dict[str, Kind] = {
    "R": "revolute",
    "P": "prismatic",
    "H": "screw",
    "revolute": "revolute",
    "prismatic": "prismatic",
    "screw": "screw",
}


def dh(
    table: npt.ArrayLike,
    *,
    convention: Literal["standard", "modified"] = "standard",
    kinds: str | Sequence[str] | None = None,
    limits: npt.ArrayLike | None = None,
    max_speed: npt.ArrayLike | None = None,
    max_acceleration: npt.ArrayLike | None = None,
    max_jerk: npt.ArrayLike | None = None,
    pitch: npt.ArrayLike | None = None,
    base: npt.ArrayLike | None = None,
    tool: npt.ArrayLike | None = None,
    joint_names: Sequence[str] | None = None,
    link_names: Sequence[str] | None = None,
    tips: str | Iterable[str] | None = None,
    name: str = "dh",
) -> Description:
    """Return a serial robot from a Denavit-Hartenberg table of rows (a, alpha, d, theta).

        standard:           A_i = Rz(theta + q) Tz(d) Tx(a) Rx(alpha)
        modified (Craig):   A_i = Rx(alpha) Tx(a) Rz(theta + q) Tz(d),  a and alpha of link i-1

    q is added to theta of a revolute joint and to d of a prismatic joint, so the value in the table
    is the joint's offset. For a screw joint, q is added to theta and pitch times q to d. Rotations
    by multiples of 90° are exact.

    Args:
        table: Columns a [m], alpha [rad], d [m], theta [rad], shape (n, 4).
        convention: "standard" or "modified".
        kinds: One letter per joint, "RRPRRR", or a list of "revolute", "prismatic" and "screw"
            (R, P and H, for helical); all revolute by default.
        limits: Lower and upper position limits (n, 2) [rad or m], infinite if there are none. A
            revolute joint without limits is continuous.
        max_speed: Speed limits (n,), or one number for all joints [rad/s or m/s].
        max_acceleration: Acceleration limits in the same forms [rad/s² or m/s²].
        max_jerk: Jerk limits in the same forms [rad/s³ or m/s³].
        pitch: Translation per angle of the screw joints [m/rad]: one number for all of them, or
            (n,) with zeros for the other joints; required if there are screw joints.
        base: Pose of the table's frame 0 in the root link, T_root_0 (4, 4) [m].
        tool: Pose of the tool in the last link, T_n_tool (4, 4) [m]; adds the frame "tool", which
            becomes the end effector.
        joint_names: The n names of the joints; joint1, joint2, ... by default.
        link_names: The n + 1 names of the links, root first; link0, link1, ... by default.
        tips: Name or names of the end effectors; the tool or the last link by default.
        name: Name of the robot.

    Raises:
        DescriptionError: The table or an option has the wrong shape or invalid values.
        UnknownNameError: The convention or an end effector is unknown.
    """
    check_one_of(convention, "convention", ("standard", "modified"))
    rows = _numbers("table", table, None)
    if rows.ndim != 2 or rows.shape[1] != 4 or len(rows) == 0:
        raise DescriptionError(
            "table: expected one row (a, alpha, d, theta) per joint, shape (n, 4), "
            f"given shape {rows.shape}."
        )
    if not np.isfinite(rows).all():
        row = int(np.argmin(np.isfinite(rows).all(axis=1)))
        raise DescriptionError(f"table: row {row + 1} is not finite: {rows[row].tolist()}.")
    n = len(rows)
    kind_of = _kinds(kinds, n)
    bounds = _limits(limits, n)
    rates = {
        key: np.broadcast_to(_numbers(key, given, math.inf, (), (n,)), (n,))
        for key, given in zip(RATES, (max_speed, max_acceleration, max_jerk), strict=True)
    }
    pitches = _pitches(pitch, kind_of)
    first = _numbers("base", base, np.eye(4), (4, 4))
    joints = _names("joint_names", joint_names, [f"joint{i + 1}" for i in range(n)])
    links = _names("link_names", link_names, [f"link{i}" for i in range(n + 1)])

    chain = []
    for i, row in enumerate(rows):
        origin, tail = _constants(row, convention)
        lower, upper = bounds[i]
        unlimited = kind_of[i] == "revolute" and np.isinf((lower, upper)).all()
        chain.append(
            Joint(
                name=joints[i],
                kind="continuous" if unlimited else kind_of[i],
                parent=links[i],
                child=links[i + 1],
                origin=_product(first, origin) if i == 0 else origin,
                child_placement=tail,
                lower=lower,
                upper=upper,
                pitch=pitches[i],
                **{key: each[i] for key, each in rates.items()},
            )
        )
    frames: tuple[Frame, ...] = ()
    if tool is not None:
        frames = (Frame("tool", links[-1], _numbers("tool", tool, None, (4, 4))),)
    robot = Description(name, tuple(chain), frames, ("tool",) if frames else (links[-1],))
    return robot if tips is None else with_tips(robot, tips)


def _constants(row: Array, convention: str) -> tuple[Array, Array]:
    """Return the poses `origin` and `child_placement` of the joint of one row.

    Rotation about z and translation along z commute, so in each convention one of the two poses is
    the identity.
    """
    a, alpha, d, theta = (float(value) for value in row)
    along_z = _product(rotation_z(theta), translation(z=d))
    along_x = _product(rotation_x(alpha), translation(a))
    if convention == "standard":
        return np.eye(4), _product(along_z, along_x)
    return _product(along_x, along_z), np.eye(4)


def _product(A: Array, B: Array) -> Array:
    """Return A @ B without an overflow warning; Description checks the result."""
    with np.errstate(over="ignore", invalid="ignore"):
        return A @ B


def _numbers(what: str, given: object, default: object, *shapes: tuple[int, ...]) -> Array:
    """Return an option as a float64 array of one of `shapes`, or of any shape if there are none."""
    value = default if given is None else given
    array = described_numbers(value, what)
    if shapes and array.shape not in shapes:
        expected = " or ".join(str(shape) for shape in shapes)
        raise DescriptionError(f"{what}: expected shape {expected}, given shape {array.shape}.")
    return array


def _limits(given: npt.ArrayLike | None, n: int) -> Array:
    if given is None:
        return np.tile((-math.inf, math.inf), (n, 1))
    return _numbers("limits", given, None, (n, 2))


def _pitches(given: npt.ArrayLike | None, kinds: Sequence[Kind]) -> Array:
    """Return the pitch (n,) [m/rad] of each joint, zero unless it is a screw."""
    n, screws = len(kinds), np.array([kind == "screw" for kind in kinds])
    if given is None and screws.any():
        screw = int(screws.argmax()) + 1
        problem = f"expected one number or {n} numbers, as joint {screw} is a screw joint"
        raise DescriptionError(f"pitch: {problem}, given none.")
    pitches = _numbers("pitch", given, 0.0, (), (n,))
    return np.where(screws, pitches, 0.0) if pitches.ndim == 0 else pitches


def _kinds(given: str | Sequence[str] | None, n: int) -> list[Kind]:
    letters = ["revolute"] * n if given is None else _items(given)
    if len(letters) != n:
        raise DescriptionError(
            f"kinds: expected {n} kinds, one per joint, given {short_repr(given)}."
        )
    each: Iterable[object] = letters
    for letter in each:
        if not isinstance(letter, str) or letter not in _KINDS:
            raise DescriptionError(f"kinds: {unknown_name_error('kind', letter, _KINDS)}")
    return [_KINDS[letter] for letter in letters]


def _names(what: str, given: Sequence[str] | None, default: list[str]) -> list[str]:
    names = default if given is None else _items(given)
    if isinstance(given, str) or len(names) != len(default):
        raise DescriptionError(f"{what}: expected {len(default)} names, given {short_repr(given)}.")
    return names


def _items(given: Iterable[str]) -> list[str]:
    """Return the items of a sequence as a list, empty if it is not iterable."""
    try:
        return list(given)
    except Exception:  # raised by the object's own iterator
        return []
