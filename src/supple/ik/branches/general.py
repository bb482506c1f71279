"""Select the equations for all solutions of arms with six revolute joints of any geometry.

The solutions are eigenvalues (src/core/drivers/general.hpp). The joints can be numbered cyclically,
from any joint on. For arms with parallel or intersecting axes, some of the six numberings are
degenerate; random configurations show which numberings are regular and accurate.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from supple import _core
from supple._arrays.checks import FloatArray
from supple._core import GENERAL_ZERO_SETS
from supple.kinematics import Robot
from supple.kinematics.configuration import coordinate_difference
from supple.motion.linearization import Array

_TRIALS = 32  # number of random configurations on which the numberings are tested
_SCREENING_TRIALS = 4  # suffice to discard most degenerate numberings
_MIN_REGULAR_SHARE = 0.8  # fraction of the configurations at which a numbering must be regular
_MAX_RECOVERY_ERROR = 1e-3  # error up to which q counts as recovered from its pose [rad]


@lru_cache(maxsize=64)
def general_arm(robot: Robot, frame: str) -> _core.GeneralSpec | None:
    """Return the arm that moves a frame, in all numberings that are not degenerate, best first.

    A numbering is not degenerate if it recovers random configurations from their poses. The most
    accurate numbering is first. Return None if all numberings are degenerate.
    """
    structure = robot._structure(frame)
    coordinates = [robot.joint_names.index(name) for name in structure.joints]
    inner = np.random.default_rng(0).uniform(-np.pi, np.pi, (_TRIALS, 6))
    q = np.zeros((_TRIALS, robot.nq))
    q[:, coordinates] = inner
    targets = numbers_of(robot.fk(q, frame))
    arm = _core.GeneralSpec(
        starts=[],
        coordinates=coordinates,
        axes=structure.axes.ravel().tolist(),
        points=structure.points.ravel().tolist(),
        home=numbers_of(robot.fk(np.zeros(robot.nq), frame)).tolist(),
        length=structure.length,
    )
    errors = {start: _error(arm.replace(starts=[start]), targets, inner) for start in range(6)}
    starts = [start for start in range(6) if errors[start] < np.inf]
    starts.sort(key=lambda start: errors[start])
    return arm.replace(starts=starts) if starts else None


def _error(arm: _core.GeneralSpec, targets: Array, q: Array) -> float:
    """Return the median error of q (B, 6), recovered from targets; infinite if degenerate [rad]."""
    few = slice(_SCREENING_TRIALS)
    regular = _core.general_candidates(arm, targets[few], GENERAL_ZERO_SETS)[2].mean()
    if regular < _MIN_REGULAR_SHARE / 2:
        return np.inf
    candidates, count, complete = _core.general_candidates(arm, targets, GENERAL_ZERO_SETS)
    of = np.repeat(np.arange(len(q)), count)
    away = coordinate_difference(candidates, q[of])
    off = np.abs((away + np.pi) % (2 * np.pi) - np.pi).max(axis=1)
    nearest = np.full(len(q), np.pi)
    np.minimum.at(nearest, of, off)
    if complete.mean() <= _MIN_REGULAR_SHARE or nearest.max() >= _MAX_RECOVERY_ERROR:
        return np.inf
    return float(np.median(nearest))


def numbers_of(poses: FloatArray) -> Array:
    """Return poses (..., 4, 4) as the kernel's targets (..., 12): columns of R, then position."""
    made = np.asarray(poses, dtype=np.float64)[..., :3, :].swapaxes(-1, -2)
    return made.reshape(*made.shape[:-2], 12)
