"""Branches of a 6-joint arm: names for the side of its singularities that a configuration is on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from supple._arrays.checks import FloatArray
from supple.errors import InputError
from supple.kinematics.rotation import cross

if TYPE_CHECKING:
    from supple.kinematics.robot import Robot

BRANCHES = ("shoulder", "elbow", "wrist")
_SINGULAR = "singular"  # word for a sign of zero
_ELBOW, _WRIST = ("down", "up"), ("flip", "no flip")  # words for the signs -1 and 1
_ZERO_OFFSET = 1e-6  # offset of the shoulder, relative to the arm's length, that counts as zero


def has_branches(robot: Robot, frame: str) -> bool:
    """Return whether det J of the arm is the product of a shoulder, an elbow and a wrist factor.

    This holds if axes 2 and 3 are parallel and, in addition, either axes 4, 5 and 6 intersect in
    one point or axis 4 is parallel to axes 2 and 3.
    """
    structure = robot._structure(frame)
    wrist = structure.form == "spherical" and structure.first == 3
    parallel = structure.form == "parallel" and structure.first == 1
    if not (structure.six_revolute and (wrist or parallel)):
        return False
    return bool(np.linalg.norm(cross(*structure.nominal_axes[1:3])) < 1e-6)


def branch_signs(robot: Robot, q: FloatArray, frame: str) -> NDArray[np.int8]:
    """Return the signs (..., 3) of shoulder, elbow and wrist at configurations (..., n).

        wrist      (h4 × h5)·h6       h: directions of the axes
        elbow      h2·(r23 × r3c)     r: vectors from axis 2 to axis 3, and from there to the wrist
                                      center or, if axis 4 is parallel, to axis 4
        shoulder   det J, divided by the factors of wrist and elbow

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
    r = p - cross(v, h)  # the point of each axis that is nearest to the frame's origin
    if structure.form == "spherical":  # the wrist center, nearest to axes 4, 5 and 6
        aside = np.eye(3) - h[3:, ..., :, None] * h[3:, ..., None, :]
        moved = (aside @ r[3:, ..., None]).sum(axis=0)
        center = np.linalg.solve(aside.sum(axis=0), moved)[..., 0]
    else:
        center = r[3]
    wrist = (cross(h[3], h[4]) * h[5]).sum(axis=-1)
    elbow = (h[1] * cross(r[2] - r[1], center - r[2])).sum(axis=-1) / structure.length**2
    whole = np.linalg.det(J) / structure.length**3
    factors = np.stack([elbow, wrist], axis=-1)
    signs = np.sign(np.where(np.abs(factors) < 1e-9, 0.0, factors))
    shoulder = np.sign(np.where(np.abs(whole) < 1e-12, 0.0, whole)) * signs.prod(axis=-1)
    return np.concatenate([shoulder[..., None], signs], axis=-1).astype(np.int8)


def branch_words(robot: Robot, signs: NDArray[np.int8], frame: str) -> list[tuple[str, str, str]]:
    """Return words for shoulder, elbow and wrist of each row of signs (s, 3): see `branch_legend`.

    Different signs have different words.
    """
    words, side, up = _convention(robot, frame)
    made = []
    for shoulder, elbow, wrist in signs.tolist():
        # For the same sign, the elbow is above the line from the shoulder to the wrist if the wrist
        # is in front, and below this line if the wrist is behind.
        above = elbow * (shoulder or 1) * up
        parts = ((words, shoulder * side), (_ELBOW, above), (_WRIST, wrist))
        made.append(tuple(pair[sign > 0] if sign else _SINGULAR for pair, sign in parts))
    return made  # type: ignore[return-value]


def branch_legend(robot: Robot, frame: str) -> tuple[str, ...]:
    """Return the meaning of the words of `branch_words`, one line for each part of the arm."""
    (no, yes), _, _ = _convention(robot, frame)
    side = {
        "left": "where the arm passes axis 1, seen from above, looking toward the wrist",
        "front": "the wrist is on the same side of axis 1 as axis 2, or on the other",
        "forward": "the wrist is on the side where joint 2 > 0 leans an upright arm, or opposite",
    }[yes]
    return (
        f"shoulder {yes}, {no}: {side}",
        "elbow up, down: above or below the line from the shoulder to a wrist that reaches outward",
        "wrist no flip, flip: joint 5 on either side of where axes 4 and 6 align",
    )


def _convention(robot: Robot, frame: str) -> tuple[tuple[str, str], int, int]:
    """Return two words for the shoulder, and factors (1 or -1) of the shoulder and elbow signs.

    The shoulder's sign is that of the wrist's distance from axis 1 along u = h2 × h1 if axes 2 and
    3 point the same way. If the arm is mounted beside axis 1 (UR, PUMA), it passes axis 1 on
    its left or right; if axis 2 is in front of axis 1, the wrist is in front or at the back.
    """
    structure = robot._structure(frame)
    h, r = structure.nominal_axes, structure.nominal_points
    same = 1 if h[1] @ h[2] > 0 else -1
    up = -1 if h[0, 2] < -1e-6 else 1  # -1 if axis 1 points downward
    least = _ZERO_OFFSET * structure.length
    if abs(h[0] @ h[1]) < 1e-3:
        wrist = _nearest(r[4], h[4], r[5], h[5])
        beside, ahead = (wrist - r[0]) @ h[1], (r[1] - r[0]) @ cross(h[1], h[0])
        if abs(beside) > least:
            return ("right", "left"), same * up * (1 if beside > 0 else -1), same * up
        if abs(ahead) > least:
            return ("back", "front"), same * (1 if ahead > 0 else -1), same * up
    return ("backward", "forward"), same, same * up


def _nearest(p: FloatArray, h: FloatArray, other: FloatArray, k: FloatArray) -> FloatArray:
    """Return the point of the line p + a h that is nearest to the line other + b k."""
    n = cross(k, cross(h, k))
    return np.asarray(p + h * ((other - p) @ n) / (h @ n))
