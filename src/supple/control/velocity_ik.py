"""Steps for a batch of robots, prepared for the kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple._arrays.checks import coordinates, number
from supple.control.status import statuses_of
from supple.control.wrapped import gives_up
from supple.errors import InputError, short_repr
from supple.kinematics import Robot
from supple.kinematics.configuration import to_kernel
from supple.kinematics.loops import refuse_loops
from supple.kinematics.robot import check_robot
from supple.motion.limits import Limits, limits_spec
from supple.motion.linearization import Linearization
from supple.motion.status import StepStatus
from supple.motion.status_array import StatusArray
from supple.redundancy.priority import Augmented
from supple.steps.batch import check_sizes, run_batch, with_effectors
from supple.steps.step import Step, guaranteed_norm, kernel_of
from supple.steps.velocities import Velocities
from supple.tasks import TaskLike
from supple.tasks.inputs import per_task, reads_velocities, task_names
from supple.tasks.layout import CompiledTasks, compile_selected

FloatArray = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class VelocityIk:
    """A step for a batch of robots, prepared for the kernel (`include/supple/servo/velocity.hpp`).

    Attributes:
        layout: The compiled tasks.
        tasks: Axes of a velocity between the batch axes and the last: () for one task, (k,) for k
            tasks.
        brakes: Whether the result depends on the previous joint speeds.
        step: The kernel's step.
        limits: The limits of the joints; infinite if none are given.
        max_norm: Bound on the norm of all speeds.
        dt: Length of a step [s]; 1 without limits.
        kernel: The compiled form.
    """

    layout: CompiledTasks
    tasks: tuple[int, ...]
    brakes: bool
    step: _core.StepSpec
    limits: Limits
    max_norm: float
    dt: float
    kernel: _core.Velocity

    def numbers(
        self, q: Any, velocity: Any, qd: Any
    ) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        """Return q (..., nq), velocities (..., 6 k) and qd (..., nv), broadcast and of one type."""
        robot, tail = self.layout.robot, (*self.tasks, 6)
        at, asked = coordinates(q, robot.nq, "q"), coordinates(velocity, 6, "velocity")
        if asked.shape[len(asked.shape) - len(tail) :] != tail:
            expected = ", ".join(map(str, tail))
            of_tasks = f" for {task_names(self.layout.tasks)}" if self.tasks else ""
            raise InputError(f"velocity must be (..., {expected}){of_tasks}; given: {asked.shape}")
        asked = asked.reshape(*asked.shape[: asked.ndim - len(tail)], math.prod(tail))
        each = {"q": at, "velocity": asked}
        if qd is not None and self.brakes:
            each["qd"] = coordinates(qd, robot.nv, "qd")
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
        self, q: FloatArray, velocity: FloatArray, qd: FloatArray | None, out: Any, threads: int
    ) -> FloatArray:
        """Return q̇ (..., nv), computed on the CPU."""
        speeds, bad = self.kernel.follow(q, velocity, qd, out, threads)
        if bad >= 0:
            raise_not_finite(q, velocity, qd, bad)
        return speeds

    def explained(
        self,
        q: FloatArray,
        velocity: FloatArray,
        before: FloatArray | None,
        qd: FloatArray,
        threads: int,
    ) -> Velocities:
        """Return q̇ (..., nv) with its damping, its active limits and its status."""
        lead, n = qd.shape[:-1], qd.shape[-1]
        flat: list[Any] = [
            np.zeros((math.prod(lead), n)) if one is None else one.reshape(-1, one.shape[-1])
            for one in (q, velocity, qd, before)
        ]
        at, asked, speeds, previous = flat
        J = self.layout.jacobian(at)
        e = self.layout.kernel.command(at, asked, threads)[0]
        free, lambda2 = run_batch(self.step, Linearization(J, e), threads)
        at, speeds, previous, free = (
            one.astype(np.float64)
            for one in (to_kernel(self.layout.robot, at), speeds, previous, free)
        )
        low, high = (end.reshape(at.shape) for end in self.limits.boxes(at, previous, self.dt))
        # Bounds the rounding errors in the kernel's type, including those of (limit - q)/dt.
        size = np.abs(at) / self.dt + np.abs(speeds) + np.abs(free)
        rounding = 64 * float(np.finfo(q.dtype).eps) * size
        changed = np.abs(speeds - free) > rounding
        upper, lower = speeds >= high - rounding, speeds <= low + rounding
        end = np.where(upper & lower, np.sign(free - speeds), upper.astype(float) - lower)
        active = np.where(changed, end, 0.0)
        status = statuses_of(
            self.limits,
            self.max_norm,
            self.dt,
            q=at,
            before=previous,
            change=np.zeros_like(previous),
            qd=speeds,
            active=active,
            damped=(lambda2 > 0) | self._gives_up(J, e, free),
            limited=np.asarray(changed.any(axis=1)),
        )
        return Velocities(
            qd=qd,
            lambda2=lambda2.reshape(lead),
            active=active.astype(np.int8).reshape(*lead, n),
            status=StatusArray.of(StepStatus, status.reshape(lead)),
        )

    def _gives_up(self, J: FloatArray, e: FloatArray, free: FloatArray) -> NDArray[np.bool_]:
        """Return a mask (K,) of steps that, before limits, perform less than the joints could."""
        scale = np.diag(self.step.task_scale) if self.step.task_scale else None
        wide = (one.astype(np.float64) for one in (J, e, free))
        return gives_up(*wide, weights=scale, epsilon=float(np.finfo(J.dtype).eps))


class GeneralVelocityIk(VelocityIk):
    """A `VelocityIk` with tasks that are open or whose velocities are not read as twists.

    Python evaluates open tasks between two calls of the kernel. A velocity is a sequence with one
    entry per task, in the form that the task documents, or the velocity of a single task.
    """

    def numbers(  # noqa: D102
        self, q: Any, velocity: Any, qd: Any
    ) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        robot = self.layout.robot
        at = coordinates(q, robot.nq, "q").astype(np.float64)
        tasks = self.layout.tasks
        asked = self.layout.velocities(per_task(velocity, not self.tasks, tasks, "velocity"))
        before = coordinates(qd, robot.nv, "qd").astype(np.float64) if self.brakes else at
        try:
            lead = np.broadcast_shapes(*(one.shape[:-1] for one in (at, asked, before)))
        except (ValueError, RuntimeError):  # RuntimeError: more axes than NumPy broadcasts
            shapes = f"{at.shape[:-1]} of q, {asked.shape[:-1]} of velocity"
            raise InputError(f"batch axes must broadcast; given: {shapes}") from None
        wide = [
            np.ascontiguousarray(np.broadcast_to(one, (*lead, one.shape[-1])))
            for one in (at, asked, before)
        ]
        if not all(np.isfinite(one).all() for one in wide):
            raise InputError(
                "q, velocity and qd must be finite; given: numbers that are not finite"
            )
        return wide[0], wide[1], wide[2] if self.brakes else None

    def resolve(  # noqa: D102
        self, q: FloatArray, velocity: FloatArray, qd: FloatArray | None, out: Any, threads: int
    ) -> FloatArray:
        robot = self.layout.robot
        at = np.asarray(q.reshape(-1, robot.nq), np.float64)
        e = self.layout.kernel.command(at, velocity.reshape(len(at), -1), threads)[0]
        speeds = self.limited(at, e, qd, threads).reshape(*q.shape[:-1], robot.nv)
        if out is None:
            return speeds
        np.copyto(out, speeds)
        return out  # type: ignore[no-any-return]

    def limited(
        self, q: NDArray[np.float64], e: FloatArray, qd: FloatArray | None, threads: int
    ) -> FloatArray:
        """Return the step q̇ (K, nv) within limits for desired rows e (K, m) at q (K, nq)."""
        robot, m = self.layout.robot, len(self.layout.rows)
        n, J = robot.nv, self.layout.jacobian(q)
        free, lambda2 = run_batch(self.step, Linearization(J, e), threads)
        before = np.zeros((len(q), n)) if qd is None else np.asarray(qd.reshape(-1, n), np.float64)
        there = to_kernel(robot, q)
        low, high = (end.reshape(there.shape) for end in self.limits.boxes(there, before, self.dt))
        # The two blocks of the step's least-squares problem, with the weights of rows and joints.
        rows = np.array(self.step.task_scale or (1.0,) * m)[:, None] * J
        joints = np.diag(1 / np.array(self.step.joint_scale or (1.0,) * n))
        damped = np.sqrt(lambda2)[:, None, None] * joints
        return _core.limited(
            J=np.concatenate([rows, damped], axis=1).reshape(len(q), -1),
            dq=free,
            lambda2=np.zeros((len(q), 1)),
            low=low,
            high=high,
            max_norm=self.max_norm,
            keep_direction=self.limits.mode == "scale",
            rows=m + n,
            columns=n,
            threads=threads,
        )[0]


def raise_not_finite(
    q: FloatArray, velocity: FloatArray, qd: FloatArray | None, row: int
) -> NoReturn:
    """Raise the error for a row of the flattened batch that is not finite."""
    place = [int(i) for i in np.unravel_index(row, q.shape[:-1])] if q.ndim > 1 else ""
    given = ", ".join(
        f"{name}{place} = {short_repr(one.reshape(-1, one.shape[-1])[row].tolist())}"
        for name, one in (("q", q), ("velocity", velocity), ("qd", qd))
        if one is not None
    )
    raise InputError(f"q, velocity, qd and the resulting step must be finite; given: {given}")


def velocity_ik(
    robot: Robot,
    tasks: TaskLike | Sequence[TaskLike] | None,
    step: Step | Augmented,
    limits: Limits | None,
    dt: float | None,
) -> VelocityIk:
    """Prepare a step for the kernel.

    Raises:
        InputError: The step, the tasks or the limits do not work with batches or with the robot.
    """
    check_robot(robot)
    refuse_loops(robot, "velocities")
    layout, single = compile_selected(robot, None, tasks)
    if any(task.is_preference for task in layout.tasks):
        raise InputError("velocities takes tasks of frames; given: a PostureTask")
    plain = step.as_weighted(layout.counts) if isinstance(step, Augmented) else step
    kernel = with_effectors(kernel_of(plain), layout.all_effectors, len(layout.rows))
    check_sizes(kernel, len(layout.rows), robot.dof)
    if limits is None:
        if dt is not None:
            raise InputError(f"dt needs limits; given: dt={short_repr(dt)} without limits")
        return _made(layout, single, kernel, None, math.inf, 1.0)
    bounds: object = limits
    if not isinstance(bounds, Limits) or len(bounds.lower) != robot.dof:
        raise InputError(
            f"limits must be Limits of {robot.dof} joints; given: {short_repr(limits)}"
        )
    if dt is None:
        raise InputError("limits need dt, the length of a step [s]; given: none")
    max_norm = min(bounds.max_norm, guaranteed_norm(kernel))  # the step's own bound also holds
    return _made(layout, single, kernel, bounds, max_norm, number(dt, "dt", above=0))


@lru_cache(maxsize=64)
def _made(
    layout: CompiledTasks,
    single: bool,
    step: _core.StepSpec,
    limits: Limits | None,
    max_norm: float,
    dt: float,
) -> VelocityIk:
    within = Limits.none(layout.robot) if limits is None else limits
    twists = all(map(reads_velocities, layout.tasks)) and set(layout.kernel.velocity_sizes) == {6}
    general = bool(layout.open) or not twists
    return (GeneralVelocityIk if general else VelocityIk)(
        layout=layout,
        tasks=() if single else (len(layout.tasks),),
        brakes=bool(np.isfinite([within.max_acceleration, within.max_jerk]).any()),
        step=step,
        limits=within,
        max_norm=max_norm,
        dt=dt,
        kernel=_core.Velocity(
            tasks=layout.kernel,
            step=step,
            limits=limits_spec(within, max_norm),
            dt=dt,
        ),
    )
