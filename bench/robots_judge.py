"""Verification of the solutions for one robot by independent forward kinematics."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import supple
from robots_files import End, ends, load
from robots_sets import Set, sets
from supple.errors import SuppleError

Array = np.ndarray
Poses = Callable[[Array], Array]
POSITION, ROTATION = 1e-6, 1e-6  # default tolerances [m], [rad]
TIMEOUT = 120.0  # time limit of a batch on the CPU [s]; unfinished targets are missed


@dataclass
class Reading:
    """The result of reading a file: an error, or a robot with end effectors."""

    file: str
    path: Path
    error: str = ""  # type and message of the error
    kind: str = ""  # name of the error's type
    dof: int = 0
    welded: tuple[str, ...] = ()
    ends: list[tuple[str, Any]] = field(default_factory=list)  # frame, key
    no_oracle: str = ""  # the reason why no other library is compared
    frames: int = 0  # number of frames compared with the other library
    fk_error: float = 0.0  # largest difference of a pose, relative to its largest number


@dataclass
class Outcome:
    """The result of solving one set of targets."""

    count: int
    converged: int
    false: int  # number of targets reported as converged, but not met
    outside: int  # number of solutions outside the limits
    missed: Array  # mask of the targets that were not met
    seconds: float  # processor time, or wall time with a GPU

    @property
    def share(self) -> float:
        """Fraction of targets met."""
        return self.converged / max(self.count, 1)


@dataclass
class Row:
    """An end effector, and the results of its targets."""

    file: str
    frame: str
    joints: int
    kind: str
    longest: float  # the longest range of a slider [m]
    batch: dict[str, Outcome] = field(default_factory=dict)
    single: Outcome | None = None
    # Number of targets of each set that are missed in a batch but met in a single call.
    rescued: dict[str, int] = field(default_factory=dict)
    fk_error: float = math.nan  # NaN if there is nothing to compare with
    compiled: str = ""  # "yes", the error of the GPU's compiler, or "" without a compiler


def read(file: str, path: Path) -> Reading:
    """Read a file, and compare the poses of all its links with another library's."""
    made = Reading(file, path)
    try:
        loaded = load(path)
    except SuppleError as error:
        made.error, made.kind = str(error), type(error).__name__
        return made
    robot = loaded.robot
    made.dof, made.welded = robot.dof, loaded.welded
    made.ends = [(end.frame, end.key) for end in ends(robot)]
    other = _other(path, robot)
    if isinstance(other, str):
        made.no_oracle = other
    else:
        q = robot.random(5, seed=1)
        for frame in filter(other.has, robot.frames):
            here, there = robot.fk(q, frame), other.poses(q, frame)
            off = np.abs(here - there).max() / max(1.0, np.abs(there).max())
            made.frames, made.fk_error = made.frames + 1, max(made.fk_error, float(off))
    return made


def _other(source: Path | str, robot: supple.Robot) -> Any:
    """Return another library's kinematics of a file or a text, or the reason why there is none."""
    try:
        from robots_oracle import NoOracleError, oracle
    except ImportError as error:
        return str(error)
    try:
        return oracle(source, robot)
    except NoOracleError as error:
        return str(error)


def poses_of(source: Path | str, end: End) -> tuple[Poses, bool]:
    """Return a function from configurations (N, n) to the frame's poses (N, 4, 4), and a flag.

    The flag is whether the function uses another library; otherwise the function uses supple.
    """
    other = _other(source, end.robot)
    if isinstance(other, str):
        return lambda q: end.robot.fk(q, end.frame), False
    return lambda q: other.poses(q, end.frame), True


def apart(end: End, T: Array, S: Array) -> tuple[Array, Array]:
    """Return the errors (N,) [m] and (N,) [rad] of poses T to targets S, in controlled rows."""
    far = np.linalg.norm(T[:, :3, 3] - S[:, :3, 3], axis=-1)
    if end.kind == "position":
        return far, np.zeros_like(far)
    if end.kind != "pose":
        z, w = T[:, :3, 2], S[:, :3, 2]
        return far, np.arctan2(np.linalg.norm(np.cross(z, w), axis=-1), (z * w).sum(-1))
    W = T[:, :3, :3].swapaxes(1, 2) @ S[:, :3, :3]
    skew = W - W.swapaxes(1, 2)
    sine = np.linalg.norm(skew[:, [2, 0, 1], [1, 2, 0]], axis=-1)
    return far, np.arctan2(sine, np.trace(W, axis1=1, axis2=2) - 1)


def judged(end: End, poses: Poses, T: Array, found: tuple[Array, Array], seconds: float) -> Outcome:
    """Verify solutions (N, n) and their reported convergence (N,) for targets T (N, 4, 4)."""
    robot, (q, met) = end.robot, found
    inside = ((robot.lower <= q) & (q <= robot.upper)).all(axis=1)
    far, off = apart(end, poses(q[met]), T[met])
    # Rounding errors of a pose are relative to the size of its lengths and angles.
    size = np.abs(T[met, :3, 3]).max(axis=1, initial=1.0)
    angle = np.abs(np.where(robot.prismatic, 0.0, q[met])).max(axis=1, initial=1.0)
    rounding = 1e-14 * len(robot.joint_names) * angle
    false = (far > POSITION * (1 + 1e-9) + size * rounding) | (off > ROTATION + rounding)
    count = (int(met.sum()), int(false.sum()), int((~inside).sum()))
    return Outcome(len(q), *count, np.flatnonzero(~met), seconds)


def in_batch(end: End, poses: Poses, one: Set, device: str = "cpu") -> Outcome:
    """Solve a set of targets in one call."""
    T = end.robot.fk(one.q, end.frame)
    options: dict[str, Any] = {"timeout": TIMEOUT} if device == "cpu" else {"device": device}
    solver = supple.Solver(end.robot, end.tasks, **options)
    # On a CPU, processor time is measured, because other processes do not change it.
    clock = time.process_time if device == "cpu" else time.perf_counter
    began = clock()
    found = solver.batch(end.targets(T), one.q0)
    took = clock() - began
    return judged(end, poses, T, (np.asarray(found.q), np.asarray(found.success)), took)


def alone(end: End, poses: Poses, one: Set, which: Array) -> Outcome:
    """Solve some targets of a set, one call for each."""
    T = end.robot.fk(one.q[which], end.frame)
    q, met = np.empty((len(which), end.robot.dof)), np.empty(len(which), bool)
    began = time.perf_counter()
    for k, index in enumerate(which):
        q0 = one.q0 if one.q0 is None or one.q0.ndim == 1 else one.q0[index]
        found = supple.solve(end.robot, end.targets(T[k]), tasks=end.tasks, q0=q0)
        q[k], met[k] = found.q, found.success
    return judged(end, poses, T, (q, met), time.perf_counter() - began)


def row_of(file: str, end: End) -> Row:
    """Return the row of an end effector, without results of targets."""
    ranges = (end.robot.upper - end.robot.lower)[end.robot.prismatic & end.moved]
    return Row(file, end.frame, end.joints, end.kind, float(ranges.max(initial=0.0)))


def measured(
    file: str,
    source: Path | str,
    end: End,
    count: int,
    hard: int,
    singles: int,
    spread: float | None = None,
) -> Row:
    """Solve all sets of an end effector on the CPU, in batches, and some targets one by one.

    `singles` random targets, and up to `singles` missed targets of each set, are solved one by one.
    """
    row, (poses, other) = row_of(file, end), poses_of(source, end)
    made = sets(end, count, hard, spread=spread)
    few = made["random"].q[:20]
    here, there = end.robot.fk(few, end.frame), poses(few)
    if other:
        row.fk_error = float(np.abs(here - there).max() / max(1.0, np.abs(there).max()))
    goal = end.targets(here[0])
    supple.solve(end.robot, goal, tasks=end.tasks)  # builds the table of seeds
    for kind, one in made.items():
        row.batch[kind] = in_batch(end, poses, one)
        missed = alone(end, poses, one, row.batch[kind].missed[:singles])
        row.rescued[kind] = missed.converged
        row.batch[kind].false += missed.false
        row.batch[kind].outside += missed.outside
    row.single = alone(end, poses, made["random"], np.arange(min(singles, count)))
    return row
