"""Names of the branches of a 6-joint arm: on which side of its singularities a configuration is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from supple.errors import InputError
from supple.kinematics.arrays import FloatArray

if TYPE_CHECKING:
    from supple.kinematics.robot import Robot

BRANCHES = ("shoulder", "elbow", "wrist")


def has_branches(robot: Robot, frame: str) -> bool:
    """Return whether det J of the arm is the product of a shoulder, an elbow and a wrist factor.

    This holds if axes 2 and 3 are parallel, and axes 4, 5, 6 intersect or axis 4 is parallel too.
    """
    structure = robot._structure(frame)
    wrist = structure.form == "spherical" and structure.first == 3
    parallel = structure.form == "parallel" and structure.first == 1
    if not (structure.six_revolute and (wrist or parallel)):
        return False
    return bool(np.linalg.norm(np.cross(*structure.nominal_axes[1:3])) < 1e-6)


def branch_signs(robot: Robot, q: FloatArray, frame: str) -> NDArray[np.int8]:
    """Return the signs (..., 3) of shoulder, elbow and wrist at configurations (..., n).

        wrist      (h4 × h5)·h6       h: directions of the axes
        elbow      h2·(r23 × r3c)     r: vectors from axis 2 to axis 3, and from there to the wrist
                                      center or, if axis 4 is parallel, to axis 4
        shoulder   det J, divided by the other two

    Each sign changes only at a singularity of its kind, where it is zero. All solutions of a
    regular pose have different signs, apart from solutions that differ by full turns of joints.

    Raises:
        InputError: The arm has no such branches.
    """
    if not has_branches(robot, frame):
        raise InputError(
            "names of branches need an arm of six revolute joints with parallel axes 2 and 3, and "
            f"a spherical wrist or a third parallel axis; given: {robot.name}"
        )
    structure = robot._structure(frame)
    J: Any = robot.jacobian(q, frame)
    p = np.asarray(robot.fk(q, frame))[..., :3, 3]
    J = J[..., [robot.joint_names.index(name) for name in structure.joints]]
    v, h = (np.moveaxis(part, -1, 0) for part in (J[..., :3, :], J[..., 3:, :]))
    r = p - np.cross(v, h)  # the point of each axis that is nearest to the frame's origin
    if structure.form == "spherical":  # the wrist center, nearest to axes 4, 5 and 6
        aside = np.eye(3) - h[3:, ..., :, None] * h[3:, ..., None, :]
        moved = (aside @ r[3:, ..., None]).sum(axis=0)
        center = np.linalg.solve(aside.sum(axis=0), moved)[..., 0]
    else:
        center = r[3]
    wrist = (np.cross(h[3], h[4]) * h[5]).sum(axis=-1)
    elbow = (h[1] * np.cross(r[2] - r[1], center - r[2])).sum(axis=-1) / structure.length**2
    whole = np.linalg.det(J) / structure.length**3
    factors = np.stack([elbow, wrist], axis=-1)
    signs = np.sign(np.where(np.abs(factors) < 1e-9, 0.0, factors))
    shoulder = np.sign(np.where(np.abs(whole) < 1e-12, 0.0, whole)) * signs.prod(axis=-1)
    return np.concatenate([shoulder[..., None], signs], axis=-1).astype(np.int8)
