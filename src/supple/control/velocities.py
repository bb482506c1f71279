"""Joint velocities of many robots in one call, on the CPU or a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np

from supple._arrays.checks import like
from supple._runtime.environment import thread_count
from supple.control.target_velocities import (
    DenseTargetVelocityIk,
    TargetVelocityIk,
    target_velocity_ik,
)
from supple.control.velocity_ik import GeneralVelocityIk, velocity_ik
from supple.errors import InputError, short_repr
from supple.gpu.arrays import on_gpu
from supple.gpu.device import device_named, is_named
from supple.kinematics import Robot
from supple.kinematics.robot import FrameNames, check_robot
from supple.motion.limits import Limits
from supple.redundancy.priority import Augmented
from supple.steps.step import Step, resolve_with
from supple.tasks import Task, TaskLike
from supple.tasks.inputs import task_names
from supple.tasks.layout import selected_tasks

_cached = lru_cache(maxsize=64)(velocity_ik)


def velocities(
    step: Step | Augmented,
    robot: Robot,
    q: Any,
    velocity: Any,
    tasks: TaskLike | Sequence[TaskLike] | None,
    *,
    target: Any,
    gain: float | None,
    frame: FrameNames,
    limits: Limits | None,
    dt: float | None,
    qd: Any,
    threads: int | None,
    device: str | None,
    stream: Any,
    out: Any,
    explain: bool,
) -> Any:
    """Return q̇ (..., n), or `Velocities`: see `BatchStep.velocities`."""
    prepared = None
    if frame is not None:
        check_robot(robot)
        each, single = selected_tasks(robot, frame, tasks)
        tasks = each[0] if single else each
    if (velocity is None) == (target is None):
        given = "neither" if target is None else "both"
        raise InputError(f"velocities takes a velocity or a target; given: {given}")
    if target is not None:
        if explain:
            raise InputError("explain is for velocities, not for targets; given: explain=True")
        return _toward_targets(
            target_velocity_ik(robot, tasks, step, limits, dt, gain),
            q,
            target,
            qd,
            threads=threads,
            device=device,
            stream=stream,
            out=out,
        )
    if gain is not None:
        raise InputError(f"gain is for targets; given: gain={short_repr(gain)} without a target")
    key: Any = (robot, tasks, step, limits, dt)
    if tasks is None or isinstance(tasks, str | Task | tuple):  # other sequences are mutable
        # An argument that cannot be a key of the cache is checked by `velocity_ik` below.
        with suppress(TypeError, ValueError):
            prepared = _cached(*key)
    if prepared is None:
        prepared = velocity_ik(*key)
    if prepared.brakes and qd is None:
        raise InputError("acceleration limits need qd, the previous joint speeds; given: none")
    there = type(q) is not np.ndarray and on_gpu(q)
    if not is_named(device, "cpu") and (device is not None or there):
        from supple.control.gpu_velocities import on_device  # NVIDIA's packages are optional

        if isinstance(prepared, GeneralVelocityIk):
            raise InputError(
                "a GPU takes tasks of frames only, whose velocities need no conversion in Python; "
                f"given: {task_names(prepared.layout.tasks)}"
            )
        if threads is not None:
            raise InputError(f"threads is for device='cpu' only; given: {short_repr(threads)}")
        if explain:
            raise InputError("explain is for device='cpu' only; given: True")
        gpu = on_device(prepared, device_named(device))
        if there:
            return gpu.resolve_on_device(q, velocity, qd, out, stream)
        run = gpu.resolve
    else:
        run = prepared.resolve
    if stream is not None:
        raise InputError(f"stream is for arrays in GPU memory; given: {short_repr(stream)}")
    numbers, count = prepared.numbers(q, velocity, qd), thread_count(threads)
    speeds = run(*numbers, out, count)
    return prepared.explained(*numbers, speeds, count) if explain else like(q, speeds)


def _toward_targets(
    prepared: TargetVelocityIk,
    q: Any,
    target: Any,
    qd: Any,
    *,
    threads: int | None,
    device: str | None,
    stream: Any,
    out: Any,
) -> Any:
    """Return q̇ (..., nv) toward targets: see `BatchStep.velocities`."""
    if prepared.brakes and qd is None:
        raise InputError("acceleration limits need qd, the previous joint speeds; given: none")
    there = type(q) is not np.ndarray and on_gpu(q)
    if not is_named(device, "cpu") and (device is not None or there):
        from supple.control.gpu_targets import on_device  # NVIDIA's packages are optional

        if isinstance(prepared, DenseTargetVelocityIk):
            raise InputError(
                "a GPU takes tasks of frames, centers of mass and postures only; given: "
                f"{task_names(prepared.layout.tasks)}"
            )
        if threads is not None:
            raise InputError(f"threads is for device='cpu' only; given: {short_repr(threads)}")
        gpu = on_device(prepared, device_named(device))
        run = gpu.resolve_on_device if there else gpu.resolve
        return run(q, target, qd, out, stream)
    if stream is not None:
        raise InputError(f"stream is for arrays in GPU memory; given: {short_repr(stream)}")
    return like(q, prepared.resolve(q, target, qd, out, thread_count(threads)))


resolve_with(velocities)
