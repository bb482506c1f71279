"""Joint velocities of many robots in one call: q and twists -> q̇, on the CPU or a GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple.errors import InputError, short_repr
from supple.gpu.arrays import on_gpu
from supple.gpu.device import device_named, is_named
from supple.kinematics import Robot
from supple.kinematics.arrays import coordinates, number
from supple.kinematics.environment import thread_count
from supple.kinematics.robot import FrameNames, check_robot
from supple.motion.layout import CompiledTasks, compile_selected, selected_tasks
from supple.motion.limits import Limits, limits_spec
from supple.motion.redundancy.priority import Augmented
from supple.motion.steps.batch import check_sizes, with_effectors
from supple.motion.steps.step import Step, guaranteed_norm, kernel_of
from supple.motion.task import PostureTask, Task, TaskLike

FloatArray = NDArray[np.floating[Any]]


def velocities(
    step: Step | Augmented,
    robot: Robot,
    q: Any,
    twist: Any,
    tasks: TaskLike | Sequence[TaskLike] | None,
    *,
    frame: FrameNames,
    limits: Limits | None,
    dt: float | None,
    qd: Any,
    threads: int | None,
    device: str | None,
    stream: Any,
    out: Any,
) -> Any:
    """Return q̇ (..., n): see `BatchStep.velocities`."""
    prepared = None
    if frame is not None:
        check_robot(robot)
        each, single = selected_tasks(robot, frame, tasks)
        tasks = each[0] if single else each
    key: Any = (robot, tasks, step, limits, dt)
    if tasks is None or isinstance(tasks, str | Task | tuple):  # other sequences are mutable
        with suppress(TypeError, ValueError):  # velocity_ik reports an argument without a hash
            prepared = _cached(*key)
    if prepared is None:
        prepared = velocity_ik(*key)
    if prepared.brakes and qd is None:
        raise InputError("acceleration limits need qd, the previous joint speeds; given: none")
    there = type(q) is not np.ndarray and on_gpu(q)
    if not is_named(device, "cpu") and (device is not None or there):
        from supple.motion.gpu_velocities import on_device  # NVIDIA's packages are optional

        if threads is not None:
            raise InputError(f"threads is for device='cpu' only; given: {short_repr(threads)}")
        gpu = on_device(prepared, device_named(device))
        if there:
            return gpu.resolve_on_device(q, twist, qd, out, stream)
        run = gpu.resolve
    else:
        run = prepared.resolve
    if stream is not None:
        raise InputError(f"stream is for arrays in GPU memory; given: {short_repr(stream)}")
    return run(*prepared.numbers(q, twist, qd), out, thread_count(threads))


@dataclass(frozen=True, eq=False)
class VelocityIk:
    """A step for a batch of robots, prepared for the kernel (`include/supple/velocity.hpp`).

    Attributes:
        layout: The compiled tasks.
        tasks: Axes of a twist before the last: () for one task, (k,) for k tasks.
        brakes: Whether the result depends on the previous joint speeds.
        kernel: The compiled form.
    """

    layout: CompiledTasks
    tasks: tuple[int, ...]
    brakes: bool
    kernel: _core.Velocity

    def numbers(
        self, q: Any, twist: Any, qd: Any
    ) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        """Return q (..., n), twists (..., 6 k) and qd (..., n) of one type, broadcast."""
        n, tail = self.layout.robot.dof, (*self.tasks, 6)
        at, asked = coordinates(q, n, "q"), coordinates(twist, 6, "twist")
        if asked.shape[len(asked.shape) - len(tail) :] != tail:
            expected = ", ".join(map(str, tail))
            raise InputError(f"twist must be (..., {expected}); given: {asked.shape}")
        asked = asked.reshape(*asked.shape[: asked.ndim - len(tail)], math.prod(tail))
        each = {"q": at, "twist": asked}
        if qd is not None and self.brakes:
            each["qd"] = coordinates(qd, n, "qd")
        try:
            lead = np.broadcast_shapes(*(one.shape[:-1] for one in each.values()))
        except (ValueError, RuntimeError):  # RuntimeError: more axes than NumPy broadcasts
            shapes = ", ".join(f"{one.shape[:-1]} of {name}" for name, one in each.items())
            raise InputError(f"batch axes must broadcast; given: {shapes}") from None
        single = all(one.dtype == np.float32 for one in each.values())
        dtype = np.float32 if single else np.float64
        wide: list[Any] = [
            np.ascontiguousarray(np.broadcast_to(one, (*lead, one.shape[-1])), dtype)
            for one in each.values()
        ]
        return wide[0], wide[1], wide[2] if len(wide) > 2 else None

    def resolve(
        self, q: FloatArray, twist: FloatArray, qd: FloatArray | None, out: Any, threads: int
    ) -> FloatArray:
        """Return q̇ (..., n), computed on the CPU."""
        speeds, bad = self.kernel.follow(q, twist, qd, out, threads)
        if bad >= 0:
            raise_not_finite(q, twist, qd, bad)
        return speeds


def raise_not_finite(q: FloatArray, twist: FloatArray, qd: FloatArray | None, row: int) -> NoReturn:
    """Raise the error for one row of the flattened batch."""
    place = [int(i) for i in np.unravel_index(row, q.shape[:-1])] if q.ndim > 1 else ""
    given = ", ".join(
        f"{name}{place} = {short_repr(one.reshape(-1, one.shape[-1])[row].tolist())}"
        for name, one in (("q", q), ("twist", twist), ("qd", qd))
        if one is not None
    )
    raise InputError(f"q, twist, qd and the resulting step must be finite; given: {given}")


def velocity_ik(
    robot: Robot,
    tasks: TaskLike | Sequence[TaskLike] | None,
    step: Step | Augmented,
    limits: Limits | None,
    dt: float | None,
) -> VelocityIk:
    """Prepare a step for the kernel.

    Raises:
        InputError: A step, tasks or limits that do not suit a batch, or the robot.
    """
    check_robot(robot)
    layout, single = compile_selected(robot, None, tasks)
    if any(isinstance(task, PostureTask) for task in layout.tasks):
        raise InputError("velocities takes tasks of frames; given: a PostureTask")
    if any(task.on(robot).alternate for task in layout.tasks):
        raise InputError(
            "velocities takes twists, and an alternate J needs targets: call the step with "
            "`linearize(robot, tasks, q, targets)`; given: a task with alternate=True"
        )
    plain = step.as_weighted(layout.counts) if isinstance(step, Augmented) else step
    kernel = with_effectors(kernel_of(plain), layout.all_effectors, len(layout.rows))
    check_sizes(kernel, len(layout.rows), robot.dof)
    if limits is None:
        if dt is not None:
            raise InputError(f"dt needs limits, which were not given; given: {short_repr(dt)}")
        return _made(layout, single, kernel, None, math.inf, 1.0)
    bounds: object = limits
    if not isinstance(bounds, Limits) or len(bounds.lower) != robot.dof:
        raise InputError(
            f"limits must be Limits of {robot.dof} joints; given: {short_repr(limits)}"
        )
    if dt is None:
        raise InputError("limits need dt, the length of a step [s]; given: none")
    bound = min(bounds.max_norm, guaranteed_norm(kernel))  # limits must not break the guarantee
    return _made(layout, single, kernel, bounds, bound, number(dt, "dt", above=0))


_cached = lru_cache(maxsize=64)(velocity_ik)


@lru_cache(maxsize=64)
def _made(
    layout: CompiledTasks,
    single: bool,
    step: _core.StepSpec,
    limits: Limits | None,
    bound: float,
    dt: float,
) -> VelocityIk:
    within = Limits.none(layout.robot) if limits is None else limits
    return VelocityIk(
        layout=layout,
        tasks=() if single else (len(layout.tasks),),
        brakes=bool(np.isfinite(within.max_acceleration).any()),
        kernel=_core.Velocity(
            tasks=layout.kernel,
            step=step,
            limits=limits_spec(within, bound),
            dt=dt,
        ),
    )
