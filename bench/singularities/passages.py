"""Passages through singularities: poses over time for four arms.

Each passage is built around a configuration q_s with an exactly singular direction u, found by
Newton's method from a posture in `arms.py`. T_s is the pose at q_s. There are six kinds:

    wrist, shoulder   a straight line past T_s at a distance of `MISS` along u
    elbow             out along u to `SHORT` before the end of the reach, and back
    boundary          out, along the boundary, `SHORT` inside it, and back
    start       from rest at q_s itself, stretched out, along a line at 45° inwards and sideways
    reach             out along u until `BEYOND` (a fraction of the reach) out of reach, and back

The lines that narrowly miss a singularity are the hardest: joints must turn by 180° while the
end effector moves by a millimeter. Nothing is random; all paths are smooth in time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial

import numpy as np
from numpy.typing import NDArray

import supple as sp

from .arms import ROBOTS, Arm, arms, more_arms
from .singular import Array, Path, Singularity, difference, follow, moved, unit

DT = 0.005  # [s]
MOVES, RESTS = 3.0, 2.0  # durations of the motion, and of the rest at its end [s]
MISS = {"wrist": (0.01, 0.0), "shoulder": (0.0, 0.0001)}  # angle [rad] and distance [m]
NEAR = 0.03  # σ below which a configuration is near a singularity, for arms of this size
SHORT = 0.0001  # distance from the boundary of the workspace [m]
INSIDE = 0.15  # distance from the boundary at which a passage begins, as a fraction of the reach
BEYOND = 0.1  # distance beyond the boundary, as a fraction of the reach
ALONG = 0.5  # angle about the shoulder along the boundary [rad]
FIRST = 0.02  # first step from the singularity, as a fraction of the path to the start
KINDS = ("wrist", "elbow", "shoulder", "boundary", "start", "reach")
STRETCHED = ("elbow", "start", "reach")  # the kinds of passages for robots loaded from files


@dataclass(frozen=True, eq=False)
class Passage:
    """Poses over time through a singularity, and the exact motion without speed limits.

    Attributes:
        kind: One of `KINDS`.
        robot: The robot.
        q0: Configuration at the start, at rest (n,) [rad].
        t: Times (K + 1,) [s].
        poses: Targets of the end effector (K + 1, 4, 4) [m].
        twists: Twists from each pose to the next (K, 6) [m/s, rad/s], world axes.
        reachable: Whether the pose is reachable (K + 1,).
        nominal: Joint angles of exact tracking (K + 1, n); where a pose is out of reach, the joint
            angles at the boundary of the workspace.
        avoidable: Whether self-motion can leave the singularity while the end effector rests.
        rows: Number of controlled rows: 6 for poses, 3 for positions.
    """

    kind: str
    robot: sp.Robot
    q0: Array
    t: Array
    poses: Array
    twists: Array
    reachable: NDArray[np.bool_]
    nominal: Array
    avoidable: bool
    rows: int = 6

    def __str__(self) -> str:
        return f"{self.robot.name} {self.kind}"

    @property
    def dt(self) -> float:
        """Length of a step [s]."""
        return float(self.t[1] - self.t[0])

    @cached_property
    def sigma(self) -> Array:
        """The smallest singular value of J along the nominal motion (K + 1,)."""
        J = self.robot.jacobian(self.nominal, threads=1)[:, : self.rows]
        return np.asarray(np.linalg.svd(J, compute_uv=False)[:, -1])

    @property
    def singular(self) -> tuple[float, float]:
        """First and last time at which σ is small or the pose is out of reach [s]."""
        times = self.t[(self.sigma < NEAR) | ~self.reachable]
        return float(times[0]), float(times[-1])


def ramp(x: float) -> float:
    """Return a ramp from 0 to 1 for x from 0 to 1, without speed or acceleration at its ends."""
    x = min(max(x, 0.0), 1.0)
    return x**3 * (10 - 15 * x + 6 * x**2)


def bump(x: float) -> float:
    """Return a bump from 0 to 1 and back for x from 0 to 1, smooth at both ends."""
    x = min(max(x, 0.0), 1.0)
    return 64 * x**3 * (1 - x) ** 3


def plateau(x: float) -> float:
    """Return a plateau for x from 0 to 1: a third each for the rise, the top and the fall."""
    return ramp(3 * x) - ramp(3 * x - 2)


@dataclass(frozen=True, eq=False)
class Way:
    """The construction of a passage.

    Attributes:
        at: The singularity.
        path: Path of the end effector.
        guess: Joint angles near those at the start of the path.
        inside: A reachable path that replaces `path` for the nominal motion; by default `path`.
    """

    at: Singularity
    path: Path
    guess: Array
    inside: Path | None = None


def line(arm: Arm, kind: str) -> Way:
    """Return a straight line past a singularity."""
    at, robot = arm.singularity(kind), arm.robot
    T, (turn, shift) = robot.fk(at.q), MISS[kind]
    miss = np.append(shift * at.inward, turn * unit(at.u[3:]))
    along = np.array(arm.travel[kind], dtype=np.float64)
    length = np.linalg.norm(along[:3])
    # A line along the singular direction would end at the singularity instead of passing it.
    along[:3] -= at.inward * (at.u @ along) / np.linalg.norm(at.u[:3])
    along *= length / np.linalg.norm(along[:3])

    def exact(x: float) -> Array:  # from the singularity (x = 0) to the beginning of the line
        return moved(T, -x / 2 * along)

    def aside(x: float) -> Array:
        return moved(exact(1.0), x * miss)

    def path(t: float) -> Array:
        return moved(moved(T, (ramp(t / MOVES) - 0.5) * along), miss)

    near = at.q - FIRST / 2 * np.linalg.pinv(robot.jacobian(at.q), rcond=1e-9) @ along
    begin = follow(robot, near, exact, np.array([FIRST, 1.0]))[-1]
    return Way(at, path, follow(robot, begin, aside, np.array([0.0, 1.0]))[-1])


def ray(arm: Arm, end: float) -> Way:
    """Return a path outwards along u to a distance `end` [m] beyond the reach, and back."""
    at, deep = arm.singularity("stretched"), INSIDE * arm.reach
    T = arm.robot.fk(at.q)

    def depth(t: float) -> float:
        return deep - (deep + end) * bump(t / MOVES)

    def path(t: float) -> Array:
        return moved(T, at.inward * depth(t))

    def inside(t: float) -> Array:
        return moved(T, at.inward * max(depth(t), SHORT))

    return Way(at, path, at.folded(arm.robot, deep), inside)


def edge(arm: Arm) -> Way:
    """Return a path outwards to a point near the boundary, along the boundary, and back."""
    at, deep = arm.singularity("stretched"), INSIDE * arm.reach
    T, sideways = arm.robot.fk(at.q), across(arm, at)
    center = arm.reach * at.inward  # center of the circle of the stretched arm, relative to its tip

    def path(t: float) -> Array:
        far = arm.reach - deep + (deep - SHORT) * plateau(t / MOVES)
        angle = ALONG * (ramp(t / MOVES) - 0.5)
        return moved(T, center + far * (math.sin(angle) * sideways - math.cos(angle) * at.inward))

    return Way(at, path, at.folded(arm.robot, deep))


def start(arm: Arm) -> Way:
    """Return a straight path that starts with the arm stretched, at 45° inwards and sideways."""
    at = arm.singularity("stretched")
    T, along = arm.robot.fk(at.q), INSIDE * arm.reach * (at.inward + across(arm, at))

    def path(t: float) -> Array:
        return moved(T, along * ramp(t / MOVES))

    return Way(at, path, at.folded(arm.robot, INSIDE * arm.reach))


def across(arm: Arm, at: Singularity) -> Array:
    """Return the direction (3,) perpendicular to the stretched arm and to the axis of `pitch`.

    Of the two opposite directions, it is the one away from the vertical axis of the base, or
    upwards if both are vertical.
    """
    sideways = unit(np.cross(arm.robot.jacobian(at.q)[3:, arm.pitch], at.inward))
    away = sideways[:2] @ arm.robot.fk(at.q)[:2, 3]
    upright = abs(away) < 1e-9
    return sideways if (sideways[2] if upright else away) > 0 else -sideways


WAYS: dict[str, Callable[[Arm], Way]] = {
    "wrist": partial(line, kind="wrist"),
    "elbow": partial(ray, end=-SHORT),
    "shoulder": partial(line, kind="shoulder"),
    "boundary": edge,
    "start": start,
    "reach": lambda arm: ray(arm, BEYOND * arm.reach),
}


@cache
def passage(name: str, kind: str, dt: float = DT) -> Passage:
    """Return the passage for a robot in `ROBOTS` and a kind in `KINDS`; results are cached.

    Robots in `MORE` have the kinds in `STRETCHED`.
    """
    arm = arms()[name] if name in ROBOTS else more_arms()[name]
    robot, way, rows = arm.robot, WAYS[kind](arm), arm.rows
    t = dt * np.arange(round(MOVES / dt) + 1)
    path = cache(way.path)
    inside = path if way.inside is None else cache(way.inside)
    poses = np.array([path(time) for time in t])
    short = poses - np.array([inside(time) for time in t])
    if kind == "start":  # solved from the end, as Newton's method fails at the singular start
        nominal = np.vstack([way.at.q, follow(robot, way.guess, inside, t[:0:-1], rows)[::-1]])
    else:
        nominal = follow(robot, way.guess, inside, t, rows)
    twists = difference(poses[:-1], poses[1:]) / dt
    rests = round(RESTS / dt)
    return Passage(
        kind=kind,
        robot=robot,
        q0=nominal[0],
        t=dt * np.arange(len(t) + rests),
        poses=np.concatenate([poses, poses[-1:].repeat(rests, axis=0)]),
        twists=np.concatenate([twists, np.zeros((rests, 6))]),
        reachable=np.append(np.abs(short).max(axis=(1, 2)) <= SHORT, np.ones(rests, bool)),
        nominal=np.concatenate([nominal, nominal[-1:].repeat(rests, axis=0)]),
        avoidable=way.at.avoidable,
        rows=rows,
    )


def passages() -> list[Passage]:
    """Return all passages, robot by robot."""
    return [passage(name, kind) for name in ROBOTS for kind in KINDS]
