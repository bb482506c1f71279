"""Texts that say why a path ends or changes its branch."""

from __future__ import annotations

import numpy as np

from supple.ik.branches.arms import AnyArm, ClosedFormArm
from supple.ik.status import SolveStatus
from supple.kinematics.configuration import coordinate_difference, to_kernel
from supple.motion.linearization import Array
from supple.paths.problem import PathProblem

_AT_LIMIT_DISTANCE = 1e-6  # distance from a limit below which a joint is at it [rad or m]
_SINGULAR_SIGMA = 0.02  # σ_min of J below which a branch ends because of a singularity


def out_of_reach(path: PathProblem, at: int) -> str | None:
    """Return a text: how far a target is out of reach, and a joint at its limit if there is one.

    The result is None if a search reaches the target.
    """
    found = path.closest(at)
    if found.success[0]:
        return None
    missed = f"{found.position_error[0] * 1e3:.3g} mm and {found.rotation_error[0] * 1e3:.3g} mrad"
    said = f"the target is out of reach by {missed}"
    known = isinstance(path.arm, ClosedFormArm | AnyArm)  # these arms compute all solutions
    if not known and found.status[0] != SolveStatus.UNREACHABLE:
        said = f"no solution of the target was found; the closest misses it by {missed}"
    held = _room(path, found.q[0]) < _AT_LIMIT_DISTANCE
    return f"{said}; {_limit(path, int(np.argmax(held)))}" if held.any() else said


def blocked(path: PathProblem, at: int, q: Array | None = None) -> str | None:
    """Return a text if no solution found for a target keeps the clearance; it names a pair.

    The result is None if no pair is known to be too close.

    Args:
        path: The path.
        at: The target.
        q: The only configuration there (n,); by default any solution.
    """
    if path.obstacles is None:
        return None
    said = path.obstacles.text(path.closest(at).q[0] if q is None else q)
    if q is not None or said is None:
        return said
    return f"no solution found keeps the clearance; at one, {said}"


def why(path: PathProblem, at: int, q: Array) -> str:
    """Return a text: the reason why no continuous step leads from q at target `at` to the next."""
    if at + 1 >= len(path.targets.x):
        return ""
    then, good = path.near(path.targets.x[at + 1 : at + 2], q[None])
    said = blocked(path, at + 1, then[0]) if good[0] else None
    if said is not None:
        return said
    held = _room(path, then[0]) < _AT_LIMIT_DISTANCE
    if not good[0] and held.any():
        return _limit(path, int(np.argmax(held)))
    room, J = _room(path, q), path.problem.layout.jacobian(q[None])[0] * path.units
    sigma = np.linalg.svd(J / path.scale, compute_uv=False)[-1]
    if room.min() < 0.05 and sigma > _SINGULAR_SIGMA:
        return _limit(path, int(np.argmin(room)))
    if sigma < 5 * _SINGULAR_SIGMA:
        return f"the arm is singular, smallest singular value {sigma:.2g}"
    return "no solution of the next target is near"


def _room(path: PathProblem, q: Array) -> Array:
    """Return the distances (n,) of the joints of q (n,) from their limits, in their units."""
    at = to_kernel(path.robot, q)
    below = coordinate_difference(at, path.robot.lower)
    above = coordinate_difference(path.robot.upper, at)
    return np.asarray(np.minimum(below, above) / path.units)


def _limit(path: PathProblem, joint: int) -> str:
    return f"{path.robot.joint_names[joint]} is at its limit"
