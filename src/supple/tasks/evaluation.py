"""The rows of tasks at a configuration, or at a batch of configurations."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple._arrays.checks import coordinates, matched
from supple._arrays.types import TargetLike
from supple._runtime.environment import thread_count
from supple.errors import InputError, known_arguments, short_repr
from supple.gpu.device import on_a_gpu
from supple.kinematics import Robot
from supple.kinematics.robot import check_robot
from supple.motion.linearization import Linearization
from supple.tasks import Task, TaskLike, as_tasks
from supple.tasks.inputs import per_task
from supple.tasks.layout import FloatArray, compile_tasks


@known_arguments(frame="The frame is given as the task: supple.linearize(robot, frame, q).")
def linearize(
    robot: Robot,
    tasks: TaskLike | Sequence[TaskLike],
    q: ArrayLike,
    target: TargetLike | None = None,
    *,
    velocity: TargetLike | None = None,
    qd: ArrayLike | None = None,
    threads: int | None = None,
) -> Linearization:
    """Return the linearization of tasks at a configuration, or at a batch q (..., n).

        linearize(robot, "hand", q, T)                   e: the error to a target
        linearize(robot, "hand", q, velocity=twist)      e: a velocity
        linearize(robot, "hand", q, qd=qd)               with the rows' velocity and J̇q̇

    J is (..., m, n) and e (..., m), with the weighted rows of all tasks stacked. e is the error to
    the target, the velocity, or the sum of both; zero if neither is given. The kernel computes J
    and e on SIMD lanes and threads; up to rounding they equal the results of `Task.linearize` for
    each configuration. A batch of float32 gives float32 results. If q is in host memory, the result
    has arrays of NumPy. If q is in GPU memory, all other arrays must be there too, and the result
    has arrays of q's library in GPU memory: the call is asynchronous, rows that are not finite give
    zeros, and steps return q̇ in GPU memory. For other uses, `numpy()` copies the result to the
    CPU.

    Args:
        robot: The robot that performs the tasks.
        tasks: A task, the name of a frame (for its pose), or a sequence of these.
        q: Configurations (..., n) [rad or m].
        target: The target of a single task, or a sequence with one entry per task, None for a task
            without a target. Batch axes are those of q, or broadcast to them.
        velocity: The velocity of a single task, or a sequence with one entry per task, None for a
            task without a velocity. Batch axes are those of q, or broadcast to them.
        qd: Joint velocities (..., n) [rad/s or m/s], for `Linearization.velocity`, J q̇, and
            `Linearization.bias_acceleration`, J̇q̇.
        threads: Maximum number of threads; all cores if None.
    """
    check_robot(robot)
    given = (q, target, velocity, qd)
    if type(q) is not np.ndarray and on_a_gpu(q):
        # (Imported by name: tasks must not import supple.ik; NVIDIA's packages are optional.)
        resolve = import_module("supple.ik.gpu.linearize").resolve
        found: Linearization = resolve(robot, tasks, *given, threads)
        return found
    try:
        return _linearize(robot, tasks, *given, threads)
    except InputError:
        if not any(on_a_gpu(one) for one in given):
            raise
    raise InputError("q must be in GPU memory like the other arrays; given: an array of NumPy")


def _linearize(
    robot: Robot, tasks: Any, q: Any, target: Any, velocity: Any, qd: Any, threads: int | None
) -> Linearization:
    """Return the linearization for arrays in host memory."""
    layout = compile_tasks(robot, as_tasks(tasks))
    at, count = coordinates(q, robot.nq, "q"), thread_count(threads)
    single = isinstance(tasks, str | Task)
    none = (None,) * len(layout.tasks)
    aimed = none if target is None else per_task(target, single, layout.tasks)
    targets = _at(at, layout.targets(aimed), "target")
    missing = np.isnan(targets)
    some = np.where(missing, layout._any.astype(at.dtype), targets) if missing.any() else targets
    J, e, bad = layout.kernel.linearize(at, some, count)
    _check_bad(bad, at, "target")
    layout.write_open(at, some, J, e)
    idle = layout.idle(missing, e)
    if missing.any():
        e = np.where(layout.per_row(missing), e.dtype.type(0), e)
    aims = some if layout.tilts.any() else None
    if velocity is not None:
        speeds = layout.velocities(per_task(velocity, single, layout.tasks, "velocity"))
        desired, bad = layout.kernel.command(at, _at(at, speeds, "velocity"), count, aims)
        _check_bad(bad, at, "velocity")
        e = e + desired
    J[idle], e[idle] = 0, 0
    if qd is None:
        return Linearization(J, e, rows=layout.rows, q=at, effectors=layout.all_effectors)
    speed = np.ascontiguousarray(matched(at, coordinates(qd, robot.dof, "qd")))
    if not np.isfinite(speed).all():
        raise InputError(f"qd must be finite; given: {short_repr(qd)}")
    bias = layout.kernel.bias_acceleration(at, speed, count, aims)
    bias[idle] = 0
    for part in layout.open:
        weights = np.array(part.open.weights)
        for i in np.ndindex(at.shape[:-1]):
            here = part.open.bias(at[i].astype(np.float64), speed[i].astype(np.float64))
            bias[(*i, part.rows)] = weights * here
    return Linearization(
        J,
        e,
        rows=layout.rows,
        q=at,
        qd=speed,
        bias_acceleration=bias,
        effectors=layout.all_effectors,
    )


def _at(q: FloatArray, numbers: NDArray[np.float64], name: str) -> FloatArray:
    """Return values in the kernel's layout (..., k) with the batch axes and the type of q."""
    try:
        wide = np.broadcast_to(numbers, (*q.shape[:-1], numbers.shape[-1]))
    except (ValueError, RuntimeError):
        raise InputError(
            f"{name} must have the batch axes of q, {q.shape[:-1]}, or broadcast to them; "
            f"given: {numbers.shape[:-1]}"
        ) from None
    with np.errstate(over="ignore"):  # infinite results raise an error later
        return np.array(wide, q.dtype, order="C")


def _check_bad(bad: int, q: FloatArray, name: str) -> None:
    """Raise an error for the row of a flattened batch that the kernel rejected, if any."""
    if bad >= 0:
        where = [int(i) for i in np.unravel_index(bad, q.shape[:-1])] if q.ndim > 1 else ""
        raise InputError(
            f"q and {name} must be finite, and small enough for a finite result; given: "
            f"q{where} = {short_repr(q.reshape(-1, q.shape[-1])[bad].tolist())}"
        )
