"""Measures of a run through a passage."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .passages import Passage
from .singular import Array

NEAR_ENOUGH = (0.001, 0.005)  # errors below which a run has recovered [m], [rad]
STILL = 1e-3  # speed below which a joint rests [rad/s]
HALT = 0.1  # shortest rest that is called a halt [s]
ROUNDING = 1e-9  # excess over a limit that is not a violation, relative to the limit


@dataclass(frozen=True)
class Measures:
    """Measures of a run; angles in [rad], lengths in [m].

    Attributes:
        speed: The largest joint speed [rad/s].
        speed_share: The largest joint speed relative to the joint's limit.
        acceleration: The largest joint acceleration, including the start from rest [rad/s²].
        position_max, position_rms: Distance of the end effector from its target.
        angle_max, angle_rms: Angle between the orientations of end effector and target.
        recovery: Time from the end of the singular part until the error stays below
            `NEAR_ENOUGH` [s]; infinite if the error does not.
        too_fast: Number of steps in which a joint exceeded its speed limit.
        outside: Number of steps that ended with a joint outside its position limits.
        farthest: Largest violation of a position limit [rad].
        halted: Longest standstill of all joints while a reachable pose was not met [s].
        jerk, jerk_rms: The largest joint jerk, including the start from rest, and the root mean
            square over all joints and steps [rad/s³].
        deviation, deviation_rms: Distance of the end effector from the nearest point of the path.
        duration: Time until the error to the last pose stays below `NEAR_ENOUGH` [s]; infinite if
            it never does.
        finite: Whether all numbers are finite; otherwise the other measures are infinite.
    """

    speed: float
    speed_share: float
    acceleration: float
    position_max: float
    position_rms: float
    angle_max: float
    angle_rms: float
    recovery: float
    too_fast: int
    outside: int
    farthest: float
    halted: float
    jerk: float
    jerk_rms: float
    deviation: float
    deviation_rms: float
    duration: float
    finite: bool = True

    @property
    def violations(self) -> int:
        """Number of limit violations; a step counts once for speed and once for position."""
        return self.too_fast + self.outside


def errors(passage: Passage, q: Array) -> Array:
    """Return the end effector's position and rotation errors over time (K + 1, 2) [m], [rad]."""
    return apart(passage, passage.robot.fk(q, threads=1), passage.poses)


def apart(passage: Passage, T: Array, to: Array) -> Array:
    """Return the distances [m] and angles [rad] (K, 2) between two sequences of poses (K, 4, 4).

    The angle is zero where only positions are controlled.
    """
    off = T - to
    chord = np.linalg.norm(off[:, :3, :3], axis=(1, 2)) / math.sqrt(8)  # sin of half the angle
    angle = 2 * np.arcsin(np.minimum(chord, 1.0)) * (passage.rows == 6)
    return np.stack([np.linalg.norm(off[:, :3, 3], axis=1), angle], axis=1)


def from_path(path: Array, points: Array) -> Array:
    """Return the distance of points (K, 3) from a polyline (P, 3) [m]."""
    begin, along = path[:-1], np.diff(path, axis=0)
    square = (along**2).sum(axis=1)
    begin, along, square = (x[square > 0] for x in (begin, along, square))
    found = []
    for some in np.array_split(points, len(points) // 64 + 1):  # parts that fit into the cache
        away = some[:, None] - begin
        share = np.clip(np.einsum("kpi,pi->kp", away, along) / square, 0.0, 1.0)
        away -= share[..., None] * along
        found.append(np.sqrt(np.einsum("kpi,kpi->kp", away, away).min(axis=1)))
    return np.concatenate(found)


def measured(passage: Passage, q: Array) -> Measures:
    """Return the measures of joint angles q (K + 1, n) through a passage."""
    if not np.isfinite(q).all():
        most, more = [math.inf] * 8, [math.inf] * 5
        return Measures(*most, len(q) - 1, len(q) - 1, math.inf, 0.0, *more, finite=False)
    robot, dt = passage.robot, passage.dt
    qd = np.diff(q, axis=0) / dt
    share = np.abs(qd) / robot.max_speed
    qdd = np.diff(qd, axis=0, prepend=np.zeros((1, q.shape[1]))) / dt
    jerk = np.diff(qdd, axis=0, prepend=np.zeros((1, q.shape[1]))) / dt
    out = np.maximum(robot.lower - q, q - robot.upper)[1:].max(axis=1)
    T = robot.fk(q, threads=1)
    error = apart(passage, T, passage.poses)
    away = (apart(passage, T, passage.poses[-1:]) > NEAR_ENOUGH).any(axis=1)
    aside = from_path(passage.poses[:, :3, 3], T[:, :3, 3])
    off = (error > NEAR_ENOUGH).any(axis=1)
    rests = (np.abs(qd) < STILL).all(axis=1) & off[1:] & passage.reachable[1:]
    halt = longest(rests) * dt
    return Measures(
        speed=float(np.abs(qd).max()),
        speed_share=float(share.max()),
        acceleration=float(np.abs(qdd).max()),
        position_max=float(error[:, 0].max()),
        position_rms=float(np.sqrt((error[:, 0] ** 2).mean())),
        angle_max=float(error[:, 1].max()),
        angle_rms=float(np.sqrt((error[:, 1] ** 2).mean())),
        recovery=recovery(passage.t, off, passage.singular[1]),
        too_fast=int((share > 1 + ROUNDING).any(axis=1).sum()),
        outside=int((out > ROUNDING).sum()),
        farthest=max(0.0, float(out.max())),
        halted=halt if halt >= HALT else 0.0,
        jerk=float(np.abs(jerk).max()),
        jerk_rms=float(np.sqrt((jerk**2).mean())),
        deviation=float(aside.max()),
        deviation_rms=float(np.sqrt((aside**2).mean())),
        duration=recovery(passage.t, away, 0.0),
    )


def recovery(t: Array, off: NDArray[np.bool_], end: float) -> float:
    """Return the time from `end` until `off` stays False [s]; infinite if it ends True."""
    if off[-1]:
        return math.inf
    times = t[1:][off[:-1]]  # the time after each time with an error
    return max(0.0, float(times[-1]) - end) if len(times) else 0.0


def longest(what: NDArray[np.bool_]) -> int:
    """Return the length of the longest run of True."""
    best = run = 0
    for each in what:
        run = run + 1 if each else 0
        best = max(best, run)
    return best
