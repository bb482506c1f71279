"""Joint speeds of many robots at once: what velocity inverse kinematics does with q and a twist."""

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
from supple._core import ControlMode
from supple.control.controller import AnyStep, limits_spec, make_controller
from supple.control.servo import laid_out
from supple.errors import InputError, short_repr
from supple.gpu.arrays import on_gpu
from supple.gpu.device import device_named, is_named
from supple.kinematics import Robot
from supple.kinematics.arrays import coordinates, number
from supple.kinematics.environment import thread_count
from supple.motion import damping
from supple.motion.layout import CompiledTasks
from supple.motion.limits import Limits
from supple.motion.step import DLS
from supple.motion.task import PostureTask, Task, TaskLike

FloatArray = NDArray[np.floating[Any]]


def step(
    robot: Robot,
    q: Any,
    twist: Any,
    tasks: TaskLike | Sequence[TaskLike] | None = None,
    *,
    step: AnyStep | None = None,
    limits: Limits | None = None,
    dt: float | None = None,
    qd: Any = None,
    threads: int | None = None,
    device: str | None = None,
    stream: Any = None,
    out: Any = None,
) -> Any:
    """Return the joint speeds q̇ (..., n) [rad/s or m/s] that follow twists at configurations q.

        step(robot, q, twist)                                    J q̇ = twist, as nearly as can be
        step(robot, q, twist, limits=Limits.of(robot), dt=0.01)  likewise, inside limits

    The first step of a `Servo` in resolved rate, for a whole batch of robots: on SIMD lanes and
    threads, or on a GPU, a thread for each. Nothing is remembered between calls; rules that compare
    with the step before find none. float32 in gives float32 out and is computed in float32, every
    other type in float64. What happens at a singularity is up to the step: with the default, every
    joint keeps its speed limit there.

    Args:
        robot: All of them are such a one.
        q: Where they are (..., n) [rad or m].
        twist: What their frames shall do: [v; w] (..., 6) [m/s, rad/s], v of the frame's origin,
            in world axes unless the task says otherwise. Of k tasks (..., k, 6). What a task has no
            row for is not looked at.
        tasks: A task of a frame, a frame's name (for its pose), or a sequence of those; the poses
            of all end frames if left out.
        step: One that the kernel has: no function of yours, no step with a criterion or a memory.
            By default DLS with `damping.Optimal.for_robot(robot)`.
        limits: Of the joints; none if left out.
        dt: Length of a step [s], for limits of position and acceleration.
        qd: How fast the joints went in the step before (..., n), if limits bound accelerations.
        threads: How many to use at most; all cores if left out.
        device: Where: "cpu", or a GPU of `supple.devices()`, "cuda" for the first. Left out, it is
            where q is. Arrays in a GPU's memory (CuPy, PyTorch, JAX), float32 or float64 like each
            other, give one there, without waiting for it.
        stream: On which to work, of arrays in a GPU's memory; the default stream if neither it nor
            an array says.
        out: An array of the result's shape and type to write into, which may be qd: then nothing is
            allocated, and on a GPU the call may be captured in a CUDA graph, after a first one that
            was not.

    Raises:
        InputError: malformed input; numbers that are not finite, or so large that the step is not.
            Of arrays in a GPU's memory such a row gets zeros: to say so would be to wait.
        MissingExtraError, DeviceError: a GPU is asked for that is not there.
    """
    made = None
    key: Any = (robot, tasks, step, limits, dt)
    if tasks is None or isinstance(tasks, str | Task | tuple):  # (other sequences may change)
        with suppress(TypeError, ValueError):  # what cannot be a key is refused below
            made = _known(*key)
    if made is None:
        made = velocity_ik(*key)
    if made.brakes and qd is None:
        raise InputError(
            "limits of acceleration need qd, the speeds of the step before; given: none"
        )
    there = type(q) is not np.ndarray and on_gpu(q)
    if not is_named(device, "cpu") and (device is not None or there):
        from supple.control.gpu_velocity import follower_on  # (NVIDIA's packages are optional)

        if threads is not None:
            raise InputError(f"threads is for device='cpu' alone; given: {short_repr(threads)}")
        gpu = follower_on(made, device_named(device))
        if there:
            return gpu.follow_there(q, twist, qd, out, stream)
        run = gpu.follow
    else:
        run = made.follow
    if stream is not None:
        raise InputError(f"stream is for arrays in a GPU's memory; given: {short_repr(stream)}")
    return run(*made.numbers(q, twist, qd), out, thread_count(threads))


@dataclass(frozen=True, eq=False)
class VelocityIk:
    """A step of all robots alike, ready for the kernel (`include/supple/velocity.hpp`).

    Attributes:
        layout: The tasks.
        tasks: Axes of a twist before its last: () of one task, (k,) of several.
        brakes: Whether it makes a difference how fast joints went.
        kernel: The compiled form.
    """

    layout: CompiledTasks
    tasks: tuple[int, ...]
    brakes: bool
    kernel: _core.Velocity

    def numbers(
        self, q: Any, twist: Any, qd: Any
    ) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        """Q (..., n), twists (..., 6 k) and qd (..., n) of one type, batch axes broadcast."""
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
        except (ValueError, RuntimeError):  # (RuntimeError: more axes than NumPy broadcasts)
            shapes = ", ".join(f"{one.shape[:-1]} of {name}" for name, one in each.items())
            raise InputError(f"batch axes must broadcast; given: {shapes}") from None
        single = all(one.dtype == np.float32 for one in each.values())
        dtype = np.float32 if single else np.float64
        wide: list[Any] = [
            np.ascontiguousarray(np.broadcast_to(one, (*lead, one.shape[-1])), dtype)
            for one in each.values()
        ]
        return wide[0], wide[1], wide[2] if len(wide) > 2 else None

    def follow(
        self, q: FloatArray, twist: FloatArray, qd: FloatArray | None, out: Any, threads: int
    ) -> FloatArray:
        """On the CPU."""
        speeds, bad = self.kernel.follow(q, twist, qd, out, threads)
        if bad >= 0:
            refuse(q, twist, qd, bad)
        return speeds


def refuse(q: FloatArray, twist: FloatArray, qd: FloatArray | None, row: int) -> NoReturn:
    """Raise the error for numbers of a row of the flattened batch."""
    place = [int(i) for i in np.unravel_index(row, q.shape[:-1])] if q.ndim > 1 else ""
    given = ", ".join(
        f"{name}{place} = {short_repr(one.reshape(-1, one.shape[-1])[row].tolist())}"
        for name, one in (("q", q), ("twist", twist), ("qd", qd))
        if one is not None
    )
    raise InputError(f"q, twist and qd must be finite, and such that the step is; given: {given}")


def velocity_ik(
    robot: Robot,
    tasks: TaskLike | Sequence[TaskLike] | None,
    step: AnyStep | None,
    limits: Limits | None,
    dt: float | None,
) -> VelocityIk:
    """What is asked for in the kernel's form; made when first asked for.

    Raises:
        InputError: a step, tasks or limits that are not for a batch, or not for the robot.
    """
    if not isinstance(robot, Robot):
        raise InputError(f"robot must be a Robot; given: {short_repr(robot)}")
    layout, single = laid_out(robot, tasks)
    if any(isinstance(task, PostureTask) for task in layout.tasks):
        raise InputError("tasks of a batch must be of frames; given: a PostureTask")
    plan = make_controller(DLS(damping.Optimal.for_robot(robot)) if step is None else step, layout)
    if plan.mode != ControlMode.STEP or plan.python_step is not None:
        raise InputError(f"a batch takes the steps that supple has; given: {short_repr(step)}")
    if limits is None:
        if dt is not None:
            raise InputError(f"dt is for limits, of which there are none; given: {short_repr(dt)}")
        return _made(layout, single, plan.steps[0], None, math.inf, 1.0)
    bounds: object = limits
    if not isinstance(bounds, Limits) or len(bounds.lower) != robot.dof:
        raise InputError(
            f"limits must be Limits of {robot.dof} joints; given: {short_repr(limits)}"
        )
    if dt is None:
        raise InputError("limits need dt, the length of a step [s]; given: none")
    bound = min(bounds.max_norm, plan.max_speed)
    return _made(layout, single, plan.steps[0], bounds, bound, number(dt, "dt", above=0))


_known = lru_cache(maxsize=64)(velocity_ik)


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
