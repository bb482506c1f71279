"""The chain of a robot for frames that are given by their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from supple import _core
from supple._arrays.checks import names_of
from supple._core import AXES_BODY, AXES_SPATIAL, AXES_WORLD
from supple.errors import InputError, join_names, short_repr, unknown_name_error
from supple.kinematics.chain import chain

if TYPE_CHECKING:
    from supple.kinematics.robot import FrameNames, Robot

ROWS = ("x", "y", "z", "rx", "ry", "rz")
# Words for axes; they take precedence over frames of the same names.
AXES = {"world": AXES_WORLD, "body": AXES_BODY, "spatial": AXES_SPATIAL}


def named_chain(
    robot: Robot, frame: FrameNames, axes: str, rows: Sequence[str] | None
) -> _core.Chain:
    """Return the chain of frames, made on first use.

    Args:
        robot: The robot, which keeps its chains.
        frame: Name of a frame, or a sequence of names; the end effectors if None.
        axes: The axes of twists: "world", "body", "spatial" or the name of a frame.
        rows: Names of the rows whose singular values are computed; all if None.

    Raises:
        UnknownNameError: A name is unknown.
    """
    names = robot.tips if frame is None else names_of(frame, "frame")
    stack = len(robot.tips) > 1 if frame is None else not isinstance(frame, str)
    picked = ROWS if rows is None else names_of(rows, "rows")
    for row in picked:
        if row not in ROWS:
            raise unknown_name_error("row", row, ROWS)
    if not isinstance(axes, str):
        raise InputError(
            f"axes must be the name of a frame or {join_names(AXES)}; given: {short_repr(axes)}"
        )
    which = None if frame is None else names if stack else names[0]
    key = (which, axes, None if rows is None else picked)
    made = robot._chains.get(key)
    if made is None:
        known = robot._tree.frames
        for name in names:
            if name not in known:
                raise unknown_name_error("frame", name, robot.frames)
        if axes not in AXES and axes not in known:
            raise unknown_name_error("frame for axes=", axes, (*AXES, *robot.frames))
        made = chain(
            robot._tree.joints,
            [known[name] for name in names],
            nv=robot.nv,
            stack=stack,
            axes=AXES[axes] if axes in AXES else known[axes],
            rows=[6 * k + ROWS.index(row) for k in range(len(names)) for row in picked],
        )
        robot._chains[key] = made
    return made
