"""Compile the tasks of a robot for the position solver: scales, weights, seeds and limits.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple import _core
from supple._arrays.checks import as_doubles, number, real_numbers
from supple._core import Measure, TargetKind, TargetSpec
from supple.damping import DampingRule, ErrorNorm
from supple.damping.rule import KernelRule
from supple.errors import InputError, short_repr
from supple.ik.limbs import Limbs, kernel_order, limbs_of, others
from supple.ik.seeds import (
    SeedTable,
    joint_ranges,
    seed_features,
    seed_sequence,
    task_sizes,
    turns,
)
from supple.kinematics import Robot
from supple.kinematics.configuration import from_kernel, to_kernel
from supple.kinematics.robot import check_robot
from supple.motion.linearization import Array
from supple.steps.basic import DLS
from supple.tasks import PoseTask, Task, TaskLike
from supple.tasks.inputs import kind_of_targets, task_name
from supple.tasks.layout import CompiledTasks, compile_tasks, selected_tasks, side_by_side, sized
from supple.tasks.rows import SPATIAL, TaskRows

_SEED_TABLE_SIZE = 2048  # number of entries
_GPU_SEED_TABLE_SIZE = 512  # these configurations also determine the reach
_DAMPING = 0.005  # default damping λ² = _DAMPING reach ‖e‖
_NEWTON_GAIN = 0.3  # damping μ = _NEWTON_GAIN reach ‖e‖ of Newton's method to the closest pose
_MAX_DISPLACEMENT = 1.0  # default maximum joint displacement in an iteration [rad, or reach]
_MAX_ITERATION_FACTOR = 1000  # largest factor on the number of iterations for a small max_step
# Constants for robots with long prismatic joints, relative to the reach of the other joints.
_LONG_RANGE = 10.0  # range above which a prismatic joint is long
_LONG_SCALE = 32.0  # factor of the columns of J of long joints; larger for less damping
_MAX_DAMPING_ERROR = 10.0  # error above which the damping does not grow further
_UNBOUNDED_DISPLACEMENT = 1e38  # the kernel's bound for long joints in an iteration
_MAX_WEIGHT_RATIO = 30.0  # largest ratio of row weights in the search
# If fewer than `_FEW_JOINTS` revolute joints move a task that has more rows than these joints, only
# special targets can be met, and few seeds find a solution. Other targets are often nearly met,
# although no solution is near.
_FEW_JOINTS = 6
_SURPLUS_STARTS = 512  # default number of seeds of such problems
_SAMPLES = 8  # number of configurations at which J shows which joints move the tasks
_UNMOVED_COLUMN = 1e-12  # relative size of a column of J below which its joint moves no task
# Forms of targets that the kernel reads from Python objects.
_KERNEL_TARGET_KINDS = (TargetKind.POSE, TargetKind.POSITION, TargetKind.DIRECTION)


@dataclass(frozen=True, eq=False)
class CompiledProblem:
    """Tasks of a robot, compiled for the solver.

    Attributes:
        layout: The tasks, postures last.
        order: For each task of the layout, its index among the caller's tasks.
        primary: Number of rows that targets must meet; the other rows belong to postures.
        rest: For each coordinate, the index of its rest position in a target, or -1 (n,); empty
            without a posture task.
        rule: Damping rule of the search.
        settings: Damping rule and maximum joint displacement of the caller; None if not given.
        seed_table: Seeds for the GPU.
        float_tolerance: Position tolerance of the search in float32 [m].
        default_starts: Default number of seeds of a target; 0 for the usual default.
        units: Units of the joints in distances between configurations (n,): 1 rad, or a length of
            the robot [m] for a prismatic joint.
        joint_scale: Scales (n,) of the coordinates q / joint_scale, in which the search moves as
            little as possible; None if all are 1.
        kernel: The compiled solver.
    """

    layout: CompiledTasks
    order: tuple[int, ...]
    primary: int
    rest: tuple[int, ...]
    rule: KernelRule
    settings: tuple[KernelRule | None, float | None]
    seed_table: SeedTable
    float_tolerance: float
    default_starts: int
    units: Array
    joint_scale: Array | None
    kernel: _core.Solver

    def targets(self, given: Sequence[ArrayLike], threads: int = 1) -> Array:
        """Convert targets, one per task in the caller's order, to the kernel's layout (..., k).

        In a batch, the result is NaN for every target that is not finite.

        Raises:
            InputError: A target is malformed, or a single target is not finite.
        """
        tasks = self.layout.tasks
        if any(one is None for one in given):
            raise InputError("target must not be None; given: None for a task")
        if len(given) != len(tasks):
            raise InputError(
                f"there must be one target for each of {len(tasks)} tasks; given: {len(given)}"
            )
        robot, sizes = self.layout.robot, self.layout.target_sizes
        each = [
            sized(task_numbers(robot, task, given[i], threads), size, task, "targets")
            for task, i, size in zip(tasks, self.order, sizes, strict=True)
        ]
        return np.ascontiguousarray(side_by_side(each, "targets"))

    def rests(self, targets: Array) -> Array | None:
        """Return the rest postures of targets as seeds (..., n); None without a posture task.

        The postures are in the kernel's coordinates.
        """
        if not self.rest:
            return None
        robot = self.layout.robot
        neutral = to_kernel(robot, robot.neutral())
        start = np.broadcast_to(neutral, (*targets.shape[:-1], len(self.rest))).copy()
        for j, k in enumerate(self.rest):
            if k >= 0:
                start[..., j] = targets[..., k]
        return start


def task_numbers(robot: Robot, task: Task, given: ArrayLike, threads: int) -> Array:
    """Convert one task's targets to the kernel's layout; nonfinite ones of a batch become NaN."""
    if kind_of_targets(task) is TargetKind.POSE:
        made = _core.pose_numbers(given, threads)
        if made is not None:
            return made
    try:
        return task.targets(robot, given)
    except InputError:
        replaced, good = _without_nonfinite(given, task)
        if good.all():
            raise  # the error has another cause
    numbers = task.targets(robot, replaced)
    numbers[~good] = np.nan
    return numbers


def _without_nonfinite(given: ArrayLike, task: Task) -> tuple[ArrayLike, NDArray[np.bool_]]:
    """Replace nonfinite targets of a batch by valid ones; also return a mask of the finite ones."""
    core = len(task.target_shapes[0]) if task.target_shapes else 1
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


def compile_problem(
    robot: Robot,
    tasks: TaskLike | Sequence[TaskLike] | None,
    damping: DampingRule | None = None,
    max_step: float | None = None,
) -> CompiledProblem:
    """Return the compiled problem of some tasks, cached."""
    check_robot(robot)
    # The key is a tuple of frozen tasks: a list that changes later gives another key.
    return _compiled(robot, selected_tasks(robot, None, tasks)[0], *_settings(damping, max_step))


def _settings(damping: object, max_step: object) -> tuple[KernelRule | None, float | None]:
    """Return the damping rule and the maximum joint displacement after checking them.

    Raises:
        InputError: The kernel does not have the rule, or the displacement is not above zero.
    """
    if damping is not None and not isinstance(damping, KernelRule):
        raise InputError(
            f"damping must be a rule of supple.damping; given: {short_repr(damping)}. The search "
            "runs in the compiled kernel, which cannot call Python: CONTRIBUTING.md explains how "
            "to add a rule to it, and a Servo takes any function"
        )
    return damping, None if max_step is None else number(max_step, "max_step", above=0)


@lru_cache(maxsize=64)
def _compiled(
    robot: Robot, tasks: tuple[Task, ...], damping: KernelRule | None, max_step: float | None
) -> CompiledProblem:
    if any(task.on(robot).in_python for task in tasks):
        raise InputError("tasks must not include an OpenTask, which the kernel cannot evaluate")
    met = [i for i, task in enumerate(tasks) if not task.is_preference]
    if not met:
        raise InputError("tasks must not all be PostureTask; given: no other task")
    if any(task.on(robot).axes == SPATIAL for task in tasks):
        raise InputError(
            "solve takes no tasks in spatial coordinates, because they mix errors of "
            "position and rotation; given: axes='spatial'"
        )
    limbs = limbs_of(robot, [tasks[i] for i in met])
    moved = kernel_order(robot, tasks)
    layout = compile_tasks(robot, tuple(tasks[i] for i in moved))
    rows = [task.on(robot) for task in layout.tasks]
    for task, one in zip(layout.tasks[len(met) :], rows[len(met) :], strict=True):
        if not one.traits.is_linear:
            raise InputError(
                "a task of solve that is a preference must have the rows of a posture; given: "
                f"{task_name(task)}"
            )
    if any(one.traits.is_linear and one.lower for one in rows):
        raise InputError(
            "a PostureTask of solve is a preference and must have no tolerance; given: a tolerance"
        )
    primary = sum(layout.counts[: len(met)])
    seed_lower, seed_range, seed_stride = seed_sequence(robot)
    shares = (0.5 + np.arange(1, _GPU_SEED_TABLE_SIZE + 1)[:, None] * seed_stride) % 1
    seeds = seed_lower + shares * seed_range
    reached = layout.reached(from_kernel(robot, seeds))
    reach, largest = task_sizes(rows[: len(met)], layout, reached)
    is_long = np.zeros(robot.dof, dtype=np.bool_)
    if robot.prismatic.any() and max_step is None:
        middle = np.where(robot.prismatic, seed_lower + 0.5 * seed_range, seeds)
        rest, _ = task_sizes(rows[: len(met)], layout, layout.reached(from_kernel(robot, middle)))
        is_long = robot.prismatic & (joint_ranges(robot) > _LONG_RANGE * rest)
        if is_long.any():
            reach = rest
    slides = _prismatic_units(robot, reach, is_long, max_step)
    posture_index, posture_weight = _postures(robot, rows[len(met) :], layout)
    measures = [
        Measure.ROTATION if turns else Measure.POSITION
        for one in rows[: len(met)]
        for turns in one.turns
    ]
    weights = layout.weights[:primary]
    bounded = _bounded(weights, measures, reach)
    relaxed = _relaxed(weights, measures, reach) if damping is None else bounded
    scales = [_scale(each, measures, reach) for each in (relaxed, bounded, weights)]
    scale = scales[0]
    rule = damping or ErrorNorm(_DAMPING * scale)
    features = np.array([x for one in rows for x in seed_features(one, reach)])
    starts = SeedTable.of(robot, shares, features)
    float_tolerance = _core.FLOAT_RESOLUTION * max(reach, largest)
    joints, demanded = moving_joints_and_rows(layout, primary)
    few = joints < min(demanded, _FEW_JOINTS) and len(met) == 1 and not robot.prismatic.any()
    default_starts = _SURPLUS_STARTS if few else 0
    limb_row, limb_first_joint, limb_joint = _limb_lists(limbs, layout)
    spec = _core.SolverSpec(
        primary=len(met),
        measures=measures,
        weights=weights.tolist(),
        bounded_weights=bounded.tolist(),
        relaxed_weights=relaxed.tolist(),
        lower=robot.lower.tolist(),
        upper=robot.upper.tolist(),
        seed_lower=seed_lower.tolist(),
        seed_range=seed_range.tolist(),
        seed_stride=seed_stride.tolist(),
        **slides,
        wrap=turns(robot).tolist(),
        step=_step(rule, primary),
        newton_gain=_NEWTON_GAIN * scales[0],
        bounded_newton_gain=_NEWTON_GAIN * scales[1],
        closest_newton_gain=_NEWTON_GAIN * scales[2],
        max_step=_MAX_DISPLACEMENT if max_step is None else max_step,
        iteration_factor=_iteration_factor(max_step),
        float_tolerance=float_tolerance,
        default_starts=default_starts,
        max_lambda2=_DAMPING * _MAX_DAMPING_ERROR * scale**2,
        posture_index=posture_index,
        posture_weight=posture_weight,
        feature_scale=starts.scale.tolist(),
        table_size=_SEED_TABLE_SIZE,
        limb_row=limb_row,
        limb_first_joint=limb_first_joint,
        limb_joint=limb_joint,
        targets=_kinds(tasks, moved, layout),
    )
    kernel = _core.Solver(tasks=layout.kernel, spec=spec)
    kernel.given_tasks = tasks
    if limbs is not None and limbs.axis is not None:
        _place_base(kernel, limbs, limbs.axis, layout, reached.mean(axis=0))
    return CompiledProblem(
        layout,
        moved,
        primary,
        tuple(posture_index),
        rule,
        (damping, max_step),
        starts,
        float_tolerance,
        default_starts,
        np.where(robot.prismatic, reach, 1.0),
        np.array(slides["joint_scale"])
        if slides["joint_scale"] and isinstance(rule, ErrorNorm)
        else None,
        kernel,
    )


def moving_joints_and_rows(layout: CompiledTasks, primary: int) -> tuple[int, int]:
    """Return the number of joints that move the first `primary` rows, and of exact rows.

    An exact row has no allowed range.
    """
    sizes = np.abs(layout.jacobian(layout.robot.random(_SAMPLES, seed=0))[:, :primary])
    most = sizes.max(axis=(0, 1))
    moving = most > _UNMOVED_COLUMN * most.max(initial=0.0)
    return int(moving.sum()), int((~layout.ranged[:primary]).sum())


def _bounded(weights: Array, measures: Sequence[Measure], reach: float) -> Array:
    """Return the weights of rows; small weights are raised, so that J is better conditioned."""
    natural = np.array([1 / reach if one == Measure.POSITION else 1.0 for one in measures])
    shares = weights / natural
    return np.asarray(natural * np.maximum(shares, shares.max() / _MAX_WEIGHT_RATIO))


def _relaxed(weights: Array, measures: Sequence[Measure], reach: float) -> Array:
    """Return weights for the search.

    The solutions of a reachable target do not depend on the weights. In the search, a position
    error of the reach counts as much as a rotation error of 1 rad, whatever the unit of length and
    the `length` of the tasks, and small weights of rows are raised. The parameters of a damping
    rule of the caller refer to the J of the tasks, so `_bounded` weights are used with it.
    """
    relaxed = np.empty(len(weights))
    for kind, natural in ((Measure.POSITION, 1 / reach), (Measure.ROTATION, 1.0)):
        rows = [i for i, measure in enumerate(measures) if measure == kind]
        if rows:
            shares = weights[rows] / weights[rows].max()
            relaxed[rows] = natural * np.maximum(shares, 1 / _MAX_WEIGHT_RATIO)
    return relaxed


def _scale(weights: Array, measures: Sequence[Measure], reach: float) -> float:
    """Return the typical norm of a weighted row of J."""
    position = [w for w, kind in zip(weights, measures, strict=True) if kind == Measure.POSITION]
    return float(reach * max(position) if position else weights.max())


def _kinds(tasks: Sequence[Task], moved: Sequence[int], layout: CompiledTasks) -> list[TargetSpec]:
    """Return the kind and the first index of each task's target, in the caller's order.

    The list is empty if a task has targets that the kernel cannot read.
    """
    kinds = [kind_of_targets(task) for task in tasks]
    readable = all(kind in _KERNEL_TARGET_KINDS for kind in kinds)
    if len(tasks) > _core.MAX_TASKS or not readable:
        return []
    begins = np.cumsum([0, *layout.kernel.target_sizes])
    places = {task: int(begins[k]) for k, task in enumerate(moved)}
    return [TargetSpec(kind=kind, begin=places[i]) for i, kind in enumerate(kinds)]


def _step(rule: KernelRule, rows: int) -> _core.StepSpec:
    """Return the step of the search."""
    spec = DLS(rule).kernel
    if spec.direction and len(spec.direction) != rows:
        raise InputError(f"Region: direction must have {rows} entries; given: {spec.direction}")
    return spec


def _iteration_factor(max_step: float | None) -> int:
    """Return the factor of the number of iterations, above 1 for a `max_step` below the default."""
    if max_step is None or max_step >= _MAX_DISPLACEMENT:
        return 1
    least = _MAX_DISPLACEMENT / _MAX_ITERATION_FACTOR
    return math.ceil(min(_MAX_ITERATION_FACTOR, _MAX_DISPLACEMENT / max(max_step, least)))


def _prismatic_units(
    robot: Robot, reach: float, is_long: NDArray[np.bool_], max_step: float | None
) -> dict[str, list[float]]:
    """Return the fields of `SolverSpec` that are empty for robots without prismatic joints."""
    if not robot.prismatic.any():
        return {"joint_scale": [], "joint_unit": [], "max_joint_steps": []}
    unit = np.where(robot.prismatic, reach, 1.0)
    longest = _MAX_DISPLACEMENT * unit if max_step is None else np.full(robot.dof, max_step)
    return {
        "joint_scale": (np.where(is_long, _LONG_SCALE, 1.0) * unit).tolist(),
        "joint_unit": unit.tolist(),
        "max_joint_steps": np.where(is_long, _UNBOUNDED_DISPLACEMENT, longest).tolist(),
    }


def _limb_lists(
    limbs: Limbs | None, layout: CompiledTasks
) -> tuple[list[int], list[int], list[int]]:
    """Return `Limbs` in the kernel's form: empty lists for robots without a moving base."""
    if limbs is None:
        return [], [], []
    counts = iter(layout.counts)
    rows = [sum(next(counts) for _ in members) for members in limbs.tasks]
    joints = (*limbs.joints, limbs.base)
    return (
        np.cumsum([0, *rows]).tolist(),
        np.cumsum([0, *map(len, joints)]).tolist(),
        [j for each in joints for j in each],
    )


def _place_base(
    kernel: _core.Solver, limbs: Limbs, axis: Array, layout: CompiledTasks, reached: Array
) -> None:
    """Tell the kernel where seeds place the base.

    Args:
        kernel: The solver of the whole problem.
        limbs: The limbs; their tasks are the first ones of the layout, limb after limb.
        axis: See `Limbs.axis`.
        layout: The tasks of the problem.
        reached: Mean of the targets that seeds reach (k,).
    """
    robot, base = layout.robot, frozenset(limbs.base)
    ends = np.cumsum([0, *layout.kernel.target_sizes])
    mean, parts, k = reached.copy(), [], 0
    rest: Array = np.eye(4)
    for members, joints in zip(limbs.tasks, limbs.joints, strict=True):
        own = compile_problem(
            robot.freeze(others(robot, frozenset(joints))), layout.tasks[k : k + len(members)]
        )
        numbers = np.arange(ends[k], ends[k := k + len(members)])
        seeds = from_kernel(own.layout.robot, own.seed_table.seeds)
        mean[numbers] = own.layout.reached(seeds).mean(axis=0)
        # The base is frozen, so its frame has the same pose for all seeds.
        rest = np.asarray(own.layout.robot.fk(seeds[0], limbs.frame), np.float64)
        parts.append((own.kernel, list(joints), numbers.tolist()))
    pose = compile_problem(robot.freeze(others(robot, base)), (PoseTask(limbs.frame),))
    kernel.set_base(
        pose=pose.kernel,
        joints=sorted(base),
        rest=[*rest[:3, :3].T.ravel().tolist(), *rest[:3, 3].tolist()],
        axis=axis.tolist(),
        reached=mean.tolist(),
        limbs=parts,
    )


def _postures(
    robot: Robot, rows: Sequence[TaskRows], layout: CompiledTasks
) -> tuple[list[int], list[float]]:
    """Return the index of each coordinate's rest position in a target, and its relative weight."""
    if not rows:
        return [], []
    index, weights = [-1] * robot.dof, [0.0] * robot.dof
    first = sum(layout.kernel.target_sizes) - sum(len(one.picked) for one in rows)
    for one in rows:
        for j, weight in zip(one.picked, one.weights, strict=True):
            index[j], weights[j] = first, weight**2
            first += 1
    return index, [weight / max(weights) for weight in weights]
