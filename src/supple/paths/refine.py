"""Add configurations between the configurations of a route until the tool stays on the path.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from supple.kinematics.configuration import (
    clipped,
    difference,
    integrate,
    interpolated,
    to_kernel,
)
from supple.motion.linearization import Array
from supple.paths.graph import Indices
from supple.paths.joint_path import JointPath
from supple.paths.problem import LIMIT_TOLERANCE, PathProblem, Track
from supple.paths.spline import Spline

_MAX_HALVINGS = 12  # maximum number of times that an interval between samples is halved
_CHECK_PLACES = np.array([0.25, 0.5, 0.75])  # places between samples where errors are checked
_RECHECKED_INTERVALS = 4  # intervals on each side of an added sample that are checked first
_MARGIN_SAMPLES = 16  # samples on each side of these intervals that belong to the checked spline
_DIVISION_PARTS = 2, 4  # parts of an interval between targets, then of each part
_MAX_SAMPLES_PER_TARGET = 20
# Fraction of the tolerances allowed at the checks; errors between them may be larger.
_TOLERANCE_FRACTION = 0.5


class Refined(NamedTuple):
    """A smooth joint path, its largest deviations (2,) [m, rad], and whether it spans its track."""

    joints: JointPath
    deviation: Array
    whole: bool


def refined(path: PathProblem, track: Track) -> Refined:
    """Return a track with all targets and more samples, so that the tool stays on the path.

    The result ends at the target before a jump of the track, and before the first configuration
    that is outside the joint limits.
    """
    targets, given = path.targets.x, len(track.x)
    track = _inside(path, track)
    own = targets[(track.x[0] <= targets) & (targets <= track.x[-1])]
    x, q, whole = np.union1d(track.x, own), track.q, len(track.x) == given
    if len(x) > len(track.x):
        guess = interpolated(path.robot, track.x, track.q, x)
        q, end = _filled(path, guess, x)
        x, q, whole = x[:end], q[:end], whole and end == len(x)
    smallest = np.diff(targets).min(initial=np.inf) / 2**_MAX_HALVINGS
    most = _MAX_SAMPLES_PER_TARGET * (len(x) + 2**_MAX_HALVINGS // 8)
    checked = np.arange(len(x) - 1)
    while len(x) > 1:
        worst, bad, parts = _deviating(path, x, q, checked)
        if not len(bad) and len(checked) == len(x) - 1:
            joints, first = JointPath(path.robot, q, x), path.deviation(q[:1], x[:1])[0]
            return Refined(joints, np.maximum(worst, first), whole)
        if not len(bad):
            checked = np.arange(len(x) - 1)
            continue
        of = np.repeat(bad, parts - 1)
        rank = np.arange(len(of)) - np.repeat(np.cumsum(parts - 1) - (parts - 1), parts - 1)
        share = (rank + 1) / np.repeat(parts, parts - 1)
        more = x[of] + share * (x[of + 1] - x[of])
        apart = difference(path.robot, q[of + 1], q[of])
        then, good = path.nearest(more, integrate(path.robot, q[of], share[:, None] * apart))
        good &= ((x[of + 1] - x[of]) >= smallest) & (len(x) < most)
        if good.all():
            x, q = np.insert(x, of + 1, more), np.insert(q, of + 1, then, axis=0)
            # a new sample hardly changes the spline a few intervals away
            near = np.searchsorted(x, more)[:, None] + np.arange(
                -_RECHECKED_INTERVALS - 1, _RECHECKED_INTERVALS + 1
            )
            checked = np.unique(np.clip(near, 0, len(x) - 2))
        else:
            last = targets[targets <= x[of[~good][0]]][-1]
            x, q, whole = x[x <= last], q[x <= last], False
            checked = np.arange(len(x) - 1)
    return Refined(JointPath(path.robot, q, x), path.deviation(q, x)[0], whole)


def _inside(path: PathProblem, track: Track) -> Track:
    """Return a track up to its first configuration outside the joint limits."""
    low, high = path.robot.lower - LIMIT_TOLERANCE, path.robot.upper + LIMIT_TOLERANCE
    q = to_kernel(path.robot, track.q)
    out = ((q < low) | (q > high)).any(axis=1)
    end = int(out.argmax()) if out.any() else len(track.x)
    return track._replace(x=track.x[:end], q=track.q[:end])


def _filled(path: PathProblem, guess: Array, x: Array) -> tuple[Array, int]:
    """Return solutions near guesses (K, n) at places x (K,), and their number up to a failure.

    Where no solution is found near a guess, the solution at the previous place is tracked.
    """
    q, good = path.near(x, guess)
    for i in np.nonzero(~good)[0]:
        if i == 0:
            return guess, 1
        then, fine = path.advanced(q[i - 1 : i], x[i - 1 : i], x[i : i + 1])
        if not fine[0]:
            return q, int(i)
        q[i] = then[0]
    return q, len(x)


def _deviating(
    path: PathProblem, x: Array, q: Array, checked: Indices
) -> tuple[Array, Indices, Indices]:
    """Return the largest deviations (2,) [m, rad], and the intervals that need samples.

    The last result is the number of parts (K,) into which each of these intervals is divided. The
    joint path is the one that `JointPath` makes from x and q; if not all intervals are checked, it
    is made from the samples around these intervals, with an error of the order of
    0.27^_MARGIN_SAMPLES.
    """
    lower, upper = path.robot.lower, path.robot.upper
    own = slice(max(0, checked[0] - _MARGIN_SAMPLES), checked[-1] + 2 + _MARGIN_SAMPLES)
    begin, length = x[checked], x[checked + 1] - x[checked]
    between = begin[:, None] + length[:, None] * _CHECK_PLACES
    robot = path.robot
    spline = Spline.inside(x[own], clipped(robot, q[own]), lower, upper, robot)
    at = clipped(robot, spline(between.ravel()))
    error, most = path.between(at.reshape(*between.shape, -1), between)
    excess = (most / path.tolerances).max(axis=1)
    worst = most.max(axis=0)
    # A spline with few samples may pass the checks by chance, so a straight line is checked too.
    step = difference(path.robot, q[checked + 1], q[checked])
    doubtful = np.nonzero(
        (path.bend(step) / 4 > _TOLERANCE_FRACTION * path.tolerances).any(axis=1)
    )[0]
    if path.targets.function is not None:
        doubtful = np.arange(len(step))
    if len(doubtful):
        straight = integrate(path.robot, q[checked[doubtful]], step[doubtful] / 2)
        off = path.deviation(straight, begin[doubtful] + length[doubtful] / 2) / 4
        error[doubtful] = np.maximum(error[doubtful], off)
    excess = np.maximum(excess, (error / (_TOLERANCE_FRACTION * path.tolerances)).max(axis=1))
    bad = np.nonzero(excess > 1)[0]
    again = length[bad] < 0.75 * np.diff(path.targets.x).min()
    return worst, checked[bad], np.where(again, _DIVISION_PARTS[1], _DIVISION_PARTS[0])
