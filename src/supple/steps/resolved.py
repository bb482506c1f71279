"""Resolved motion: joint velocities, accelerations or jerks for a given motion of a frame."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from supple._arrays.checks import coordinates, finite_array
from supple.errors import InputError
from supple.kinematics import Robot
from supple.kinematics.frames import only_tip
from supple.kinematics.loops import refuse_loops
from supple.kinematics.named_chain import ROWS
from supple.kinematics.robot import check_robot
from supple.motion.direction_text import axes_name, row_name
from supple.motion.linearization import Linearization


def resolved_motion(
    robot: Robot,
    command: ArrayLike,
    q: ArrayLike,
    qd: ArrayLike | None = None,
    qdd: ArrayLike | None = None,
    *,
    frame: str | None = None,
    axes: str = "world",
    threads: int | None = None,
) -> Linearization:
    """Return the linear problem whose solution by any step is q̇, q̈ or q⃛.

        resolved_motion(robot, twist, q)                    J q̇ = twist
        resolved_motion(robot, acceleration, q, qd)         J q̈ = acceleration - J̇ q̇
        resolved_motion(robot, jerk, q, qd, qdd)            J q⃛ = jerk - 2 J̇ q̈ - J̈ q̇

    J is the same for velocities, accelerations and jerks, and so are steps and damping:

        qddd = DLS(rule)(resolved_motion(robot, jerk, q, qd, qdd))

    λ bounds the gain from the right-hand side to the highest derivative of q. Accelerations and
    jerks do not control joint velocities in the null space, which persist. A redundant robot
    therefore needs feedback of q̇ (`Servo` with order=2 has `rest_gain`).

    Args:
        robot: The robot.
        command: A twist (..., 6) [m/s, rad/s], or its first or second time derivative.
        q: Configurations (..., n) [rad or m].
        qd: Joint velocities [rad/s or m/s], for accelerations and jerks.
        qdd: Joint accelerations [rad/s² or m/s²], for jerks.
        frame: Name of the frame; the end effector if None.
        axes: Axes of the twist: "world", "body", "spatial" or the name of any frame.
        threads: Maximum number of threads; all cores if None.

    References:
        Wampler 1986, eqs. (8) and (51), and the remark on higher derivatives after it.
    """
    check_robot(robot)
    refuse_loops(robot, "resolved")
    if qdd is not None and qd is None:
        raise InputError("joint accelerations need joint velocities; given: qdd without qd")
    frame = only_tip(robot) if frame is None else frame
    at = coordinates(q, robot.nq, "q")
    wanted = finite_array(command, (6,), "command", batch=True)
    J = robot.jacobian(at, frame, axes=axes, threads=threads)
    if qdd is not None and qd is not None:
        wanted = wanted - robot.bias_jerk(at, qd, qdd, frame, axes=axes, threads=threads)
    elif qd is not None:
        wanted = wanted - robot.bias_acceleration(at, qd, frame, axes=axes, threads=threads)
    try:
        e = np.broadcast_to(wanted, J.shape[:-1]).astype(J.dtype)
    except ValueError:
        raise InputError(
            f"command must have the batch axes of q, {at.shape[:-1]}, or broadcast to them; "
            f"given: {wanted.shape[:-1]}"
        ) from None
    names = tuple(row_name(row, frame, None, axes_name(axes, frame)) for row in ROWS)
    return Linearization(J, e, rows=names, q=at)
