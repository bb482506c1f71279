"""What a search for configurations needs to know of a robot and its tasks, made once for each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple import _core
from supple._core import Goal, Measure, TargetKind, TargetSpec
from supple.errors import InputError, short_repr
from supple.kinematics import Robot
from supple.kinematics.arrays import as_doubles, number, real_numbers
from supple.kinematics.robot import check_robot, may_turn
from supple.motion.damping import DampingRule, ErrorNorm, KernelRule
from supple.motion.layout import CompiledTasks, compile_tasks, side_by_side
from supple.motion.linearization import Array
from supple.motion.step import DLS
from supple.motion.task import (
    AxisTask,
    OrientationTask,
    PoseTask,
    PositionTask,
    PostureTask,
    Task,
    TaskLike,
    as_tasks,
)
from supple.motion.task_rows import TaskRows

_TABLE = 2048  # entries of the table of starts
_ENTRIES = 512  # likewise of that on a GPU, which sizes are taken from, too
_TURN = 0.1  # how much turning counts when the table is looked up, against moving by the reach
_DAMPING = 0.005  # λ² = _DAMPING reach ‖e‖, unless another rule is asked for
_STIFFNESS = 0.3  # of Newton's method towards the closest pose, likewise
_LONGEST = 1.0  # step of a joint [rad or m], unless another is asked for
_SLOWEST = 1000  # times the usual iterations, at most, for starts with short steps
_LONG = 10.0  # times the reach of the rest of the robot: a prismatic joint beyond that is long
_LONG_SCALE = 32.0  # how much farther such a joint goes in a step than others, by the same reach
_FAR = 10.0  # reaches: an error beyond that does not add to the damping of robots with such joints
_LARGEST_LIMIT = 1e9  # [rad or m]: a limit beyond that is none
_UNEQUAL = 30.0  # times may rows of the search differ in what they count for
_KINDS: dict[type[Task], TargetKind] = {
    PoseTask: TargetKind.POSE,
    PositionTask: TargetKind.POSITION,
    AxisTask: TargetKind.AXIS,
}
_MOST_TASKS = 8  # whose targets the kernel looks at itself
_COARSE = 2e-5  # tolerance of the search in floats, relative to the size of positions


@dataclass(frozen=True, eq=False)
class Starts:
    """A table of configurations to start from, looked up by what they reach.

    Attributes:
        seeds: Configurations (N, n).
        reached: What they reach, as the kernel's numbers of a target (N, k).
        scale: How much each of those counts in the look-up (k,).
    """

    seeds: Array
    reached: Array
    scale: Array

    def table(self) -> NDArray[np.float32]:
        """What is reached, scaled, and half the sum of its squares (N, k + 1)."""
        scaled = self.reached * self.scale.astype(np.float32)
        half = 0.5 * (scaled**2).sum(axis=-1, keepdims=True)
        return np.concatenate([scaled, half], axis=-1).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Search:
    """Tasks of a robot, ready to be solved.

    Attributes:
        layout: The tasks, postures last.
        order: Which of the caller's tasks each of the layout's is.
        primary: How many rows are to be met; the others are postures.
        rest: Which of a target's numbers is the rest posture of a coordinate (n,), -1 for none.
        rule: The damping of the descent.
        given: The damping rule and the longest step of a joint that were asked for, if any.
        starts: Where starts are looked up.
        coarse: How near floats can tell [m].
        poses: How many poses a target is; 0 if it is something else.
        kernel: The compiled form.
    """

    layout: CompiledTasks
    order: tuple[int, ...]
    primary: int
    rest: tuple[int, ...]
    rule: KernelRule
    given: tuple[KernelRule | None, float | None]
    starts: Starts
    coarse: float
    poses: int
    kernel: _core.Solver

    def targets(self, given: Sequence[ArrayLike], threads: int = 1) -> Array:
        """Targets in the caller's order -> the kernel's numbers (..., k).

        Those of a batch that are not finite have NaN among them.

        Raises:
            InputError: malformed, or one target that is not finite.
        """
        tasks = self.layout.tasks
        if any(one is None for one in given):
            raise InputError("every task must have a target; given: None")
        if len(given) != len(tasks):
            raise InputError(
                f"there must be one target for each of {len(tasks)} tasks; given: {len(given)}"
            )
        each = [
            self._numbers(task, given[i], threads)
            for task, i in zip(tasks, self.order, strict=True)
        ]
        return np.ascontiguousarray(side_by_side(each, "targets"))

    def _numbers(self, task: Task, given: ArrayLike, threads: int) -> Array:
        """The targets of one task; of a batch those that are not finite are NaN."""
        made = _core.pose_numbers(given, threads) if isinstance(task, PoseTask) else None
        if made is not None:
            return made
        try:
            return task.targets(self.layout.robot, given)
        except InputError:
            mended, good = _mended(given, task)
            if good.all():
                raise  # something else is wrong
        numbers = task.targets(self.layout.robot, mended)
        numbers[~good] = np.nan
        return numbers

    def rests(self, targets: Array) -> Array | None:
        """The postures of some targets, where there are any: a start (..., n)."""
        if not self.rest:
            return None
        start = np.broadcast_to(
            self.layout.robot.neutral(), (*targets.shape[:-1], len(self.rest))
        ).copy()
        for j, k in enumerate(self.rest):
            if k >= 0:
                start[..., j] = targets[..., k]
        return start


def _mended(given: ArrayLike, task: Task) -> tuple[ArrayLike, NDArray[np.bool_]]:
    """Targets with good ones in place of those of a batch that are not finite, and which are."""
    core = 2 if isinstance(task, PoseTask | OrientationTask) else 1
    try:
        array = as_doubles(real_numbers(given, "targets must be real numbers"))
    except InputError:
        return given, np.ones((), dtype=np.bool_)
    shape = array.shape[-core:]
    if array.ndim <= core or 0 in shape or len(set(shape)) > 1:
        return given, np.ones((), dtype=np.bool_)
    good = np.asarray(np.isfinite(array).all(axis=tuple(range(-core, 0))))
    array[~good] = np.eye(array.shape[-1]) if core == 2 else np.eye(array.shape[-1])[-1]
    return array, good


def search_of(
    robot: Robot,
    tasks: TaskLike | Sequence[TaskLike] | None,
    damping: DampingRule | None = None,
    max_step: float | None = None,
) -> Search:
    """The search of some tasks: made when first asked for."""
    check_robot(robot)
    # The key is a tuple of frozen tasks: a sequence that is changed later is another key.
    return _search(robot, _each_of(robot, tasks), *_checked(damping, max_step))


def _each_of(robot: Robot, tasks: TaskLike | Sequence[TaskLike] | None) -> tuple[Task, ...]:
    """The tasks one by one: the poses of all end frames if there are none."""
    return tuple(PoseTask(tip) for tip in robot.tips) if tasks is None else as_tasks(tasks)


def _checked(damping: object, max_step: object) -> tuple[KernelRule | None, float | None]:
    """A rule that lanes can run, and the longest step of a joint.

    Raises:
        InputError: a function, or no rule at all; a step that is not above zero.
    """
    if damping is not None and not isinstance(damping, KernelRule):
        raise InputError(
            f"damping must be a rule of supple.damping; given: {short_repr(damping)}. Starts "
            "run on lanes of the compiled kernel, which cannot call a function: CONTRIBUTING.md "
            "says how to add a rule to it, and a Servo takes any function"
        )
    return damping, None if max_step is None else number(max_step, "max_step", above=0)


@lru_cache(maxsize=64)
def _search(
    robot: Robot, tasks: tuple[Task, ...], damping: KernelRule | None, max_step: float | None
) -> Search:
    met = [i for i, task in enumerate(tasks) if not isinstance(task, PostureTask)]
    if not met:
        raise InputError("tasks must have one that is no PostureTask: that alone needs no solving")
    moved = met + [i for i in range(len(tasks)) if i not in met]
    layout = compile_tasks(robot, tuple(tasks[i] for i in moved))
    rows = [task.on(robot) for task in layout.tasks]
    primary = sum(layout.counts[: len(met)])
    low, span, stride = _spread(robot)
    shares = (0.5 + np.arange(1, _ENTRIES + 1)[:, None] * stride) % 1
    seeds = low + shares * span
    reached = layout.reached(seeds)
    reach, largest = _sizes(rows[: len(met)], layout, reached)
    joint_scale = np.ones(robot.dof)
    if robot.prismatic.any() and max_step is None:
        middle = np.where(robot.prismatic, low + 0.5 * span, seeds)
        rest, _ = _sizes(rows[: len(met)], layout, layout.reached(middle))
        is_long = robot.prismatic & (_ranges(robot) > _LONG * rest)
        if is_long.any():
            reach = rest
            joint_scale[is_long] = _LONG_SCALE * rest
    resting, pull = _postures(robot, rows[len(met) :], layout)
    measures = [
        Measure.ROTATION if c >= 3 else Measure.POSITION
        for one in rows[: len(met)]
        for c in one.picked
    ]
    weights = layout.weights[:primary]
    eased = _eased(weights, measures, reach)
    scale, true_scale = (_scale(each, measures, reach) for each in (eased, weights))
    rule = damping or ErrorNorm(_DAMPING * scale)
    starts = Starts(seeds, reached, np.array([x for one in rows for x in _features(one, reach)]))
    poses = len(tasks) if all(isinstance(task, PoseTask) for task in tasks) else 0
    coarse = _COARSE * max(1.0, largest)
    spec = _core.SolverSpec(
        primary=len(met),
        measures=measures,
        weights=weights.tolist(),
        relaxed_weights=eased.tolist(),
        lower=robot.lower.tolist(),
        upper=robot.upper.tolist(),
        seed_low=low.tolist(),
        seed_span=span.tolist(),
        seed_stride=stride.tolist(),
        joint_scale=joint_scale.tolist(),
        wrap=turns(robot).tolist(),
        step=_step(rule, primary),
        newton_gain=_STIFFNESS * scale,
        closest_newton_gain=_STIFFNESS * true_scale,
        max_step=_LONGEST if max_step is None else max_step,
        iteration_factor=_pace(max_step),
        float_tolerance=coarse,
        max_lambda2=_DAMPING * _FAR * scale**2,
        posture_index=resting,
        posture_weight=pull,
        feature_scale=starts.scale.tolist(),
        table_size=_TABLE,
        targets=_kinds(tasks, moved, layout),
    )
    kernel = _core.Solver(tasks=layout.kernel, spec=spec)
    return Search(
        layout,
        tuple(moved),
        primary,
        tuple(resting),
        rule,
        (damping, max_step),
        starts,
        coarse,
        poses,
        kernel,
    )


def _eased(weights: Array, measures: Sequence[Measure], reach: float) -> Array:
    """Weights for the search: a target that is reached is reached whatever they are.

    As they are, unless some count so little, or positions are in such units, that numbers of both
    sizes do not go together: those are raised.
    """
    natural = np.array([1 / reach if one == Measure.POSITION else 1.0 for one in measures])
    shares = weights / natural
    return np.asarray(natural * np.maximum(shares, shares.max() / _UNEQUAL))


def _scale(weights: Array, measures: Sequence[Measure], reach: float) -> float:
    """The size of the rows: the reach, weighted."""
    position = [w for w, kind in zip(weights, measures, strict=True) if kind == Measure.POSITION]
    return float(reach * max(position) if position else weights.max())


def _kinds(tasks: Sequence[Task], moved: Sequence[int], layout: CompiledTasks) -> list[TargetSpec]:
    """The kind of each task's target, and where its numbers begin, in the caller's order.

    Empty if there is one that only Python knows.
    """
    if len(tasks) > _MOST_TASKS or not all(type(task) in _KINDS for task in tasks):
        return []
    begins = np.cumsum([0, *layout.kernel.target_sizes])
    places = {task: int(begins[k]) for k, task in enumerate(moved)}
    return [TargetSpec(kind=_KINDS[type(task)], begin=places[i]) for i, task in enumerate(tasks)]


def _step(rule: KernelRule, rows: int) -> _core.StepSpec:
    """Return the step that a search descends by."""
    spec = DLS(rule).kernel
    if spec.direction and len(spec.direction) != rows:
        raise InputError(f"Region: direction must have {rows} entries; given: {spec.direction}")
    return spec


def _pace(max_step: float | None) -> int:
    """How many times the usual iterations a start may have: its steps are so much shorter."""
    if max_step is None or max_step >= _LONGEST:
        return 1
    return math.ceil(min(_SLOWEST, _LONGEST / max(max_step, _LONGEST / _SLOWEST)))


def turns(robot: Robot) -> Array:
    """A whole turn of each coordinate that has room for one (n,) [rad]; 0 for others."""
    roomy = robot.upper - robot.lower >= 2 * np.pi
    return np.where(roomy & may_turn(robot), 2 * np.pi, 0.0)


def _spread(robot: Robot) -> tuple[Array, Array, Array]:
    """Where starts are, how far they spread, and from one to the next as a share of that (n,).

    Points 0.5 + k stride, modulo 1, fill a cube of any dimension evenly: stride_j = φ^-j with
    φ^(n+1) = φ + 1.
    """
    reach = np.where(robot.prismatic, 1.0, np.pi)
    lower = np.where(robot.lower > -_LARGEST_LIMIT, robot.lower, -np.inf)
    upper = np.where(robot.upper < _LARGEST_LIMIT, robot.upper, np.inf)
    low = np.where(np.isfinite(upper), upper - 2 * reach, -reach)
    low = np.where(np.isfinite(lower), lower, low)
    high = np.where(np.isfinite(upper), upper, low + 2 * reach)
    # Of a joint with room for many turns, two of them: the others are the same postures.
    many = ~robot.prismatic & (high - low > 4 * np.pi)
    low = np.where(many, np.clip(-2 * np.pi, low, high - 4 * np.pi), low)
    high = np.where(many, low + 4 * np.pi, high)
    phi = 2.0
    for _ in range(60):
        phi = (1 + phi) ** (1 / (robot.dof + 1))
    return low, high - low, phi ** -np.arange(1.0, robot.dof + 1)


def _ranges(robot: Robot) -> Array:
    """How far each joint moves (n,) [rad or m]; infinite without limits."""
    far = (robot.lower <= -_LARGEST_LIMIT) | (robot.upper >= _LARGEST_LIMIT)
    return np.where(far, np.inf, robot.upper - np.where(far, 0.0, robot.lower))


def _sizes(rows: Sequence[TaskRows], layout: CompiledTasks, reached: Array) -> tuple[float, float]:
    """How far from their middle frames get, and the largest coordinate of a position [m]."""
    ends = np.cumsum(layout.kernel.target_sizes)
    at = [reached[:, end - 3 : end] for one, end in zip(rows, ends, strict=False) if _moves(one)]
    if not at:
        return 1.0, 1.0
    far = max(float(np.linalg.norm(p - p.mean(axis=0), axis=1).max()) for p in at)
    return far or 1.0, max(float(np.abs(p).max()) for p in at)


def _moves(rows: TaskRows) -> bool:
    """Whether a task looks at a position."""
    return rows.goal == Goal.FRAME and min(rows.picked) < 3


def _features(rows: TaskRows, reach: float) -> list[float]:
    """How much each number of a target counts when starts are looked up in the table."""
    if rows.goal == Goal.POSTURE:
        return [0.0] * len(rows.picked)
    if rows.goal == Goal.AXIS:
        return [reach * _TURN**0.5] * 3
    turns = len([c for c in rows.picked if c >= 3]) == 3
    places = [float(c in rows.picked or (rows.axes is not None and _moves(rows))) for c in range(3)]
    return [reach * (_TURN / 2) ** 0.5 * turns] * 9 + places


def _postures(
    robot: Robot, rows: Sequence[TaskRows], layout: CompiledTasks
) -> tuple[list[int], list[float]]:
    """Which of a target's numbers is the rest posture of each coordinate, and its weight."""
    if not rows:
        return [], []
    rest, pull = [-1] * robot.dof, [0.0] * robot.dof
    first = sum(layout.kernel.target_sizes) - sum(len(one.picked) for one in rows)
    for one in rows:
        for j, weight in zip(one.picked, one.weights, strict=True):
            rest[j], pull[j] = first, weight**2
            first += 1
    return rest, [p / max(pull) for p in pull]
