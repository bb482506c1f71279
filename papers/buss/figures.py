"""The branching figures of Buss's program: targets, constants, methods and measures."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from supple.papers.style import Array

import supple

D_MAX = 0.4  # bound on the error of an end effector [m]
Step: TypeAlias = Callable[[supple.Linearization], NDArray[np.float64]]
Sine: TypeAlias = tuple[float, float, float]  # center, amplitude and rate of one coordinate


@dataclass(frozen=True)
class Shape:
    """An articulated figure of the paper's program; `name` is the name of the built-in robot.

    Attributes:
        targets: For each end effector, the three coordinates of its target as functions of time.
        lambdas: Damping λ of DLS, and of DLS with clamped errors.
        steps: Number of updates before the measurement and number of measured updates.
        paper_us: Times of an update with the transpose and with DLS in the paper [µs].
        kernel_us: Times of the same updates inside supple's kernel, from
            `bench/results/figures.aarch64.md` [µs]; empty if not measured.
        chaotic: Whether rounding errors change the results where the figure oscillates.
    """

    name: str
    targets: tuple[tuple[Sine, Sine, Sine], ...]
    lambdas: tuple[float, float]
    steps: tuple[int, int]
    paper_us: tuple[float, float]
    kernel_us: tuple[float, ...]
    chaotic: bool

    def path(self, updates: int) -> Array:
        """Return the targets (updates, k, 3) [m]; the program's time grows by 0.005 per update."""
        center, size, rate = np.moveaxis(np.array(self.targets, dtype=float), -1, 0)
        T = 0.005 * np.arange(1, updates + 1)[:, None, None]
        return np.asarray(center + size * np.sin(rate * T))


Y = Shape(
    "y",
    (
        ((2, 1.5, 6), (1.2, 0.2, 7), (0.3, 0.2, 8)),
        ((-0.7, 0.4, 4), (0.8, 0.3, 4), (-0.2, 0.2, 3)),
    ),
    lambdas=(0.6, 0.6),
    steps=(20, 200),
    paper_us=(1.1, 2.2),
    kernel_us=(0.36, 0.58),
    chaotic=False,
)
DOUBLE_Y = Shape(
    "double_y",
    (
        ((2, 3, 3), (0.5, 0.4, 7), (0.3, 1.4, 5)),
        ((0.5, 0.8, 4), (0.4, 0.6, 4), (-0.2, 2, 3)),
        ((-0.5, 1.6, 6), (0.6, 0.4, 7), (0.3, 1, 8)),
        ((-1.6, 1.6, 4), (0.3, 0.6, 4), (-0.2, 0.6, 3)),
    ),
    lambdas=(1.1, 0.7),
    steps=(400, 2000),
    paper_us=(6.5, 18.5),
    kernel_us=(1.5, 2.5),
    chaotic=True,
)

# The figure in the paper's text has 16 joints, not 25 as in the program; the targets are the same.
DOUBLE_Y_TEXT = replace(DOUBLE_Y, name="double_y16", steps=(400, 1000), kernel_us=())


def dls(lam: float, *, clamped: bool = False) -> Step:
    """Return DLS with angles clamped to 45°. If `clamped` (DLS'), the error of each end effector is
    also clamped, to D_max plus the distance by which the target has moved away from it.
    """
    plain = supple.steps.AngleClamp(
        supple.DLS(supple.damping.Constant(lam**2), "cholesky"), math.radians(45)
    )
    return supple.steps.AdaptiveErrorClamp(plain, D_MAX, variant="program") if clamped else plain


def transpose() -> supple.steps.AngleClamp:
    """Return the transpose step with angles clamped to 30°."""
    return supple.steps.AngleClamp(supple.steps.Transpose(), math.radians(30))


def methods(shape: Shape) -> dict[str, Step]:
    """Return the methods of Buss's program by name, with the constants of the program."""
    selective = supple.steps.SDLS(math.radians(45), soft=True)
    return {
        "transpose": transpose(),
        "pinv": supple.steps.AngleClamp(supple.steps.TruncatedSVD(0.01), math.radians(5)),
        "dls": dls(shape.lambdas[0]),
        "dls_clamped": dls(shape.lambdas[1], clamped=True),
        "sdls": supple.steps.AdaptiveErrorClamp(selective, D_MAX, variant="program"),
    }


@dataclass(frozen=True, eq=False)
class Followed:
    """The motion of the end effectors during the measurement.

    Attributes:
        distance: Distance from each of k end effectors to its target after each update
            (steps, k) [m].
        reversed: Mask (steps - 1, k) of the moves of end effectors that reverse the previous move;
            both moves are longer than the mean move of a target.
        q: Joint angles before and after each update (steps + 1, n) [rad].
        goals: Targets of each update (steps, k, 3) [m].
    """

    distance: Array
    reversed: np.ndarray
    q: Array
    goals: Array

    @property
    def total_error(self) -> float:
        """Return the distance to the targets, summed over end effectors and steps [m]."""
        return float(self.distance.sum())

    @property
    def oscillation(self) -> float:
        """Return the fraction of moves that reverse the previous move."""
        return float(self.reversed.mean())


def follow(shape: Shape, step: Step) -> Followed:
    """Follow the targets from the zero pose, with one update for each move of the targets."""
    robot, settle = supple.load(shape.name), shape.steps[0]
    path = shape.path(sum(shape.steps))
    return followed(robot, moved(robot, path, step)[settle:], path[settle:])


def moved(
    robot: supple.Robot,
    path: Array,
    step: Step,
    *,
    start: Array | None = None,
    alternate: bool = False,
) -> Array:
    """Return the joint angles (updates + 1, n) [rad] at the start and after each update toward
    targets (updates, k, 3) [m]. The start is the zero pose by default; `alternate` selects the
    alternate Jacobian.

    This function clamps the errors of an `AdaptiveErrorClamp` by moving the targets, because a
    `Servo` would compute all updates of that step in Python.
    """
    clamp = step if isinstance(step, supple.steps.AdaptiveErrorClamp) else None
    servo = supple.Servo(
        robot,
        [supple.PositionTask(tip, alternate=alternate) for tip in robot.tips],
        dt=1.0,  # q̇ is then the change of q, and with gain=1 a step corrects the whole error
        gain=1.0,
        step=step if clamp is None else clamp.inner,
        limits=supple.Limits.none(robot),
    )
    q = np.empty((len(path) + 1, robot.dof))
    q[0] = robot.neutral() if start is None else start
    tips, before = list(robot.tips), np.zeros(path.shape[1])
    for now, goal, following in zip(q, path, q[1:], strict=False):
        if clamp is not None:
            e = goal - robot.fk(now, tips)[:, :3, 3]
            size = np.linalg.norm(e, axis=1)
            most = clamp.max_error + np.maximum(0, size - before)  # the first error is not clamped
            goal = goal - (1 - most / np.maximum(size, most))[:, None] * e
            before = size
        servo(now, target=goal if len(tips) > 1 else goal[0], out=following)
    return q


def followed(robot: supple.Robot, q: Array, goals: Array) -> Followed:
    """Return the measurements of a motion (steps + 1, n) toward targets (steps, k, 3)."""
    places = robot.fk(q, list(robot.tips))[..., :3, 3]
    moves = np.diff(places, axis=0)
    usual = np.linalg.norm(np.diff(goals, axis=0), axis=-1).mean()
    large = np.linalg.norm(moves, axis=-1) > usual
    back = (moves[1:] * moves[:-1]).sum(axis=-1) < 0
    distance = np.linalg.norm(goals - places[1:], axis=-1)
    return Followed(distance, back & large[1:] & large[:-1], q, goals)


def beyond_reach(shape: Shape) -> np.ndarray:
    """Return a mask (steps, k) of targets farther from the base than the sum of link lengths."""
    robot = supple.load(shape.name)
    skipped, counted = shape.steps
    above = {joint.child: joint for joint in robot.description.joints}
    frames = {frame.name: frame for frame in robot.description.frames}
    out = []
    for tip, goals in zip(
        robot.tips, np.moveaxis(shape.path(skipped + counted), 1, 0), strict=True
    ):
        link, length = frames[tip].link, np.linalg.norm(frames[tip].placement[:3, 3])
        while above[link].parent in above:
            length += np.linalg.norm(above[link].origin[:3, 3])
            link = above[link].parent
        foot = above[link].origin[:3, 3]
        out.append(np.linalg.norm(goals[skipped:] - foot, axis=-1) > length)
    return np.stack(out, axis=-1)


def update_times(shape: Shape, updates: int = 100, rounds: int = 15) -> tuple[float, float]:
    """Return the times of an update with transpose and with DLS [s], best of interleaved rounds.

    The times include the call of a `Servo` from Python; `bench/figures.py` times the same updates
    inside the kernel.
    """
    robot = supple.load(shape.name)
    hands = [supple.PositionTask(tip) for tip in robot.tips]
    goals = [list(each) for each in shape.path(updates)]
    free = supple.Limits.none(robot)
    servos = [
        supple.Servo(robot, hands, dt=1.0, gain=1.0, step=step, limits=free)
        for step in (transpose(), dls(shape.lambdas[0]))
    ]
    took: tuple[list[float], ...] = ([], [])
    for _ in range(rounds):
        for servo, times in zip(servos, took, strict=True):
            q = robot.neutral()
            begin = time.perf_counter()
            for goal in goals:
                servo(q, target=goal, out=q)
            times.append((time.perf_counter() - begin) / updates)
    return min(took[0]), min(took[1])
