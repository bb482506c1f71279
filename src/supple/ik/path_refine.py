"""Add configurations between those of a route until the tool stays on the path.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from supple.control.joint_path import JointPath
from supple.ik.path_graph import Indices
from supple.ik.path_problem import PathProblem, Track
from supple.motion.linearization import Array

_HALVINGS = 12  # maximum number of times that an interval between samples is halved
_CHECKS = np.array([0.25, 0.5, 0.75])  # places between samples where the deviation is measured
_BEYOND = 1e-6  # how far the spline may go beyond a joint limit [rad or m]
_PART = 0.5  # fraction of the tolerances allowed at the checks; errors between them may be larger


class Refined(NamedTuple):
    """A smooth joint path, its largest deviations (2,) [m, rad], and whether its track is whole."""

    joints: JointPath
    deviation: Array
    whole: bool


def refined(path: PathProblem, track: Track) -> Refined:
    """Return a track with all targets and more samples, so that the tool stays on the path.

    A track that jumps ends at the target before the jump.
    """
    targets = path.targets.x
    own = targets[(track.x[0] <= targets) & (targets <= track.x[-1])]
    x, q, whole = np.union1d(track.x, own), track.q, True
    if len(x) > len(track.x):
        guess = np.stack([np.interp(x, track.x, column) for column in track.q.T], axis=-1)
        q, end = _filled(path, guess, x)
        x, q, whole = x[:end], q[:end], end == len(x)
    smallest = np.diff(targets).min(initial=np.inf) / 2**_HALVINGS
    while len(x) > 1:
        joints = JointPath(path.robot, q, x)
        worst, bad = _deviating(path, joints)
        if not len(bad):
            return Refined(joints, worst, whole)
        middle = (x[bad] + x[bad + 1]) / 2
        then, good = path.nearest(middle, (q[bad] + q[bad + 1]) / 2)
        good &= np.diff(x)[bad] >= smallest
        if good.all():
            x, q = np.insert(x, bad + 1, middle), np.insert(q, bad + 1, then, axis=0)
        else:
            last = targets[targets <= x[bad[~good][0]]][-1]
            x, q, whole = x[x <= last], q[x <= last], False
    return Refined(JointPath(path.robot, q, x), np.zeros(2), whole)


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


def _deviating(path: PathProblem, joints: JointPath) -> tuple[Array, Indices]:
    """Return the largest deviations (2,) [m, rad], and the intervals that need more samples."""
    x, q, robot = joints.s, joints.q, path.robot
    between = (x[:-1, None] + np.diff(x)[:, None] * _CHECKS).ravel()
    there = joints.at(between)
    error = path.deviation(there, between).reshape(len(x) - 1, -1, 2).max(axis=1)
    worst = error.max(axis=0)
    # A spline with few samples may pass the checks by chance, so a straight line is checked too.
    step = np.diff(q, axis=0)
    doubtful = np.nonzero((path.bend(step) / 4 > _PART * path.tolerances).any(axis=1))[0]
    if path.targets.function is not None:
        doubtful = np.arange(len(step))
    if len(doubtful):
        straight = q[doubtful] + step[doubtful] / 2
        off = path.deviation(straight, (x[doubtful] + x[doubtful + 1]) / 2) / 4
        error[doubtful] = np.maximum(error[doubtful], off)
    beyond = np.maximum(robot.lower - there, there - robot.upper)
    out = beyond.reshape(len(x) - 1, -1).max(axis=1) > _BEYOND
    return worst, np.nonzero((error > _PART * path.tolerances).any(axis=1) | out)[0]
