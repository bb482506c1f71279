"""Joint velocities that move many robots toward targets, efficient for whole bodies."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple._arrays.checks import coordinates, number
from supple._arrays.errors import raise_unusable_out
from supple.control.arguments import DEFAULT_GAIN, limits_for, task_gains
from supple.control.velocity_ik import GeneralVelocityIk
from supple.damping import Constant
from supple.errors import InputError, short_repr
from supple.kinematics import Robot
from supple.kinematics.loops import refuse_loops
from supple.kinematics.robot import check_robot
from supple.motion.limits import Limits, check_mode, limits_spec
from supple.redundancy.priority import Augmented
from supple.steps.basic import DLS
from supple.steps.step import Step, kernel_of
from supple.tasks import TaskLike
from supple.tasks.inputs import per_task, task_name
from supple.tasks.layout import CompiledTasks, compile_selected

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class TargetVelocityIk:
    """A step toward targets, prepared for the kernel (`include/supple/servo/tree_step.hpp`).

    Attributes:
        layout: The compiled tasks.
        single: Whether a task was given, not a sequence of tasks.
        brakes: Whether the result depends on the previous joint speeds.
        kernel: The compiled form.
        multipliers: Number of multipliers of the elimination (`servo/tree_rows.hpp`).
    """

    layout: CompiledTasks
    single: bool
    brakes: bool
    kernel: _core.Velocity
    multipliers: int

    def numbers(self, q: Any, target: Any, qd: Any) -> tuple[Array, Array, Array | None]:
        """Return q (..., nq), targets (..., k) and qd (..., nv), broadcast, in float64."""
        robot, layout = self.layout.robot, self.layout
        each = [
            coordinates(q, robot.nq, "q"),
            layout.targets(per_task(target, self.single, layout.tasks)),
        ]
        if self.brakes:
            each.append(coordinates(qd, robot.nv, "qd"))
        try:
            lead = np.broadcast_shapes(*(one.shape[:-1] for one in each))
        except (ValueError, RuntimeError):  # RuntimeError: more axes than NumPy broadcasts
            shapes = ", ".join(str(one.shape[:-1]) for one in each)
            raise InputError(f"batch axes must broadcast; given: {shapes}") from None
        wide = [
            np.ascontiguousarray(np.broadcast_to(one, (*lead, one.shape[-1])), np.float64)
            for one in each
        ]
        return wide[0], wide[1], wide[2] if self.brakes else None

    def result(self, q: Any, lead: tuple[int, ...], out: Any) -> tuple[Array, Callable[[], Array]]:
        """Return memory for q̇ (..., nv) in float64, and a function that returns the result.

        The result is float32 if q is.

        Raises:
            InputError: `out` has another shape or type, or is not C-contiguous.
        """
        shape = (*lead, self.layout.robot.nv)
        dtype = np.dtype(np.float32 if np.asarray(q).dtype == np.float32 else np.float64)
        if out is not None and not (
            isinstance(out, np.ndarray)
            and (out.shape, out.dtype) == (shape, dtype)
            and out.flags.carray
        ):
            raise_unusable_out(out, shape, dtype)
        given = out if out is not None and dtype == np.float64 else np.empty(shape)

        def returned() -> Array:
            if out is None:
                return given.astype(dtype, copy=False)
            if given is not out:
                np.copyto(out, given, casting="same_kind")
            return out

        return given, returned

    def resolve(self, q: Any, target: Any, qd: Any, out: Any, threads: int) -> Array:
        """Return q̇ (..., nv), computed on the CPU."""
        at, goals, before = self.numbers(q, target, qd)
        speeds, returned = self.result(q, at.shape[:-1], out)
        bad = self.kernel.reach(at, goals, before, speeds, threads)[1]
        if bad >= 0:
            raise_not_valid(at, bad)
        return returned()


@dataclass(frozen=True, eq=False)
class DenseTargetVelocityIk(TargetVelocityIk):
    """A `TargetVelocityIk` that computes the whole J, for rows that are not linear in twists.

    Attributes:
        step: The step that performs the desired values of the rows.
        gains: Factors (m,) of the errors of the rows [1/s].
    """

    step: GeneralVelocityIk
    gains: NDArray[np.float64]

    def resolve(self, q: Any, target: Any, qd: Any, out: Any, threads: int) -> Array:  # noqa: D102
        at, goals, before = self.numbers(q, target, qd)
        speeds, returned = self.result(q, at.shape[:-1], out)
        flat = np.asarray(at.reshape(-1, at.shape[-1]), np.float64)
        aims = np.asarray(goals.reshape(len(flat), -1), np.float64)
        e = self.gains * self.layout.error(flat, aims)
        speeds[...] = self.step.limited(flat, e, before, threads).reshape(speeds.shape)
        return returned()


def raise_not_valid(q: Array, row: int) -> NoReturn:
    """Raise the error for a row of the flattened batch without a valid step."""
    place = [int(i) for i in np.unravel_index(row, q.shape[:-1])] if q.ndim > 1 else ""
    raise InputError(
        "q, targets, qd and the resulting step must be finite, and the tasks or the damping must "
        f"determine q̇; given: q{place} = {short_repr(q.reshape(-1, q.shape[-1])[row].tolist())}"
    )


def target_velocity_ik(
    robot: Robot,
    tasks: TaskLike | Sequence[TaskLike] | None,
    step: Step | Augmented,
    limits: Limits | None,
    dt: float | None,
    gain: float | None,
) -> TargetVelocityIk:
    """Prepare a step toward targets; the result is cached.

    Raises:
        InputError: The step, the tasks or the limits do not work with targets or with the robot.
    """
    if isinstance(tasks, list):
        tasks = tuple(tasks)
    key: Any = (robot, tasks, step, limits, dt, gain)
    # An argument that cannot be a key of the cache is checked by `_prepared` below.
    with suppress(TypeError, ValueError):
        return _cached(*key)
    return _prepared(*key)


def _prepared(
    robot: Robot,
    tasks: TaskLike | Sequence[TaskLike] | None,
    step: Step | Augmented,
    limits: Limits | None,
    dt: float | None,
    gain: float | None,
) -> TargetVelocityIk:
    check_robot(robot)
    refuse_loops(robot, "velocities toward targets")
    layout, single = compile_selected(robot, None, tasks)
    if not isinstance(step, DLS) or not isinstance(step.rule, Constant):
        raise InputError(
            f"targets need the step DLS with Constant damping; given: {short_repr(step)}"
        )
    multipliers = _checked_tasks(layout)
    bounds = Limits.none(robot) if limits is None else limits_for(limits, robot)
    check_mode(bounds)
    if bounds.mode != "exact" or np.isfinite(bounds.max_norm):
        raise InputError(
            "targets need limits with mode='exact' and no max_norm; given: "
            f"mode={bounds.mode!r}, max_norm={bounds.max_norm}"
        )
    if (dt is None) != (limits is None):
        raise InputError("limits need dt, the length of a step [s], and dt needs limits")
    length = 1.0 if dt is None else number(dt, "dt", above=0)
    default = DEFAULT_GAIN if dt is None else min(DEFAULT_GAIN, 1 / length)
    factor = number(default if gain is None else gain, "gain", least=0)
    brakes = bool(np.isfinite([bounds.max_acceleration, bounds.max_jerk]).any())
    kernel = _core.Velocity(
        tasks=layout.kernel,
        step=kernel_of(step),
        limits=limits_spec(bounds, math.inf),
        dt=length,
        gain=factor,
        task_gains=task_gains(layout.tasks),
    )
    if all(task.on(robot).fits_tree for task in layout.tasks):
        return TargetVelocityIk(layout, single, brakes, kernel, multipliers)
    general = GeneralVelocityIk(
        layout=layout,
        tasks=(),
        brakes=brakes,
        step=kernel_of(step),
        limits=bounds,
        max_norm=math.inf,
        dt=length,
        kernel=kernel,
    )
    gains = factor * np.repeat([task.gain for task in layout.tasks], layout.counts)
    return DenseTargetVelocityIk(layout, single, brakes, kernel, multipliers, general, gains)


_cached = lru_cache(maxsize=64)(_prepared)


def _checked_tasks(layout: CompiledTasks) -> int:
    """Return the number of multipliers of the elimination.

    Raises:
        InputError: Steps toward targets do not support a task or the robot.
    """
    points, followers = 0, layout.kernel.followers
    for task in layout.tasks:
        rows = task.on(layout.robot)
        for what, has in (
            ("evaluated in Python", any(part.open is rows for part in layout.open)),
            ("relative to a base", rows.base is not None and rows.traits.is_twist),
            ("with an allowed range", any(rows.ranged)),
            ("with alternate=True", rows.alternate),
        ):
            if has:
                raise InputError(
                    "targets need tasks in the world without ranges; given: "
                    f"{task_name(task)} {what}"
                )
        points += len(rows.picked) if rows.traits.is_sum else 0
    if layout.open:
        raise InputError("targets need tasks of the kernel; given: a task evaluated in Python")
    if points + followers > _core.MAX_MULTIPLIERS:
        raise InputError(
            f"targets need at most {_core.MAX_MULTIPLIERS} screw joints, mimic joints and rows of "
            f"centers of mass in total; given: {points} rows and {followers} joints"
        )
    return points + followers
