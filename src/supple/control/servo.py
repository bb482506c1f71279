"""A control loop's step: from where the joints are to where they go next, in microseconds."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple import _core
from supple._core import Goal
from supple.control.controller import AnyStep, limits_spec, make_controller
from supple.control.trajectory import EXCEEDS, Status
from supple.errors import InputError, short_repr
from supple.kinematics import Robot
from supple.kinematics.arrays import coordinates, number
from supple.motion import damping
from supple.motion.diagnostics import Held, Report, explain_taken
from supple.motion.layout import CompiledTasks, compile_tasks
from supple.motion.limits import Limits
from supple.motion.linearization import Array, Linearization
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

_NEARLY = 1 - 1e-9  # of a limit: as near as rounding lets a step come


class Servo(_core.Servo):
    """Moves a robot towards what its tasks ask, one step of `dt` at a time.

        q = servo(q, velocity)                    resolved rate:  J q̇ = velocity
        q = servo(q, velocity, target)            J q̇ = velocity + gain (target - where it is)
        q = servo(q, target=target)               likewise, without feed-forward
        q = servo(q, velocity, target, acceleration)         resolved acceleration (order=2)

    The call returns where the joints are dt later (n,); `out=` takes an array to write that into,
    which may be q itself: then nothing is allocated. Velocities, targets and accelerations are
    those of the task (for a frame's pose a twist [v; w] (6,) [m/s, rad/s] and a pose (4, 4) [m], in
    world axes unless the task says otherwise), or a sequence with one for each task, where None
    means: none. Limits always hold, at singularities, for targets out of
    reach and for targets that jump. A Servo remembers the speeds of the step before; it belongs to
    one robot in one thread.

    Resolved acceleration:  J q̈ = acceleration + rate_gain (velocity - J q̇) + gain (target - where
    it is) - J̇q̇,  and motion that the tasks do not see dies away. A velocity that is not given is
    zero, unless accelerations are all that is given: then those alone are followed.

    Attributes:
        robot: That moves.
        tasks: What it does, their rows below each other.
        step: Makes joint speeds (or accelerations) of J and what is asked.
        limits: Of the joints.

    References:
        Whitney 1969; Wampler 1986, eqs. (49)-(51); Maciejewski & Klein 1988, section II.
    """

    robot: Robot
    tasks: tuple[Task, ...]
    step: AnyStep
    limits: Limits

    def __init__(
        self,
        robot: Robot,
        tasks: TaskLike | Sequence[TaskLike] | None = None,
        *,
        dt: float,
        step: AnyStep | None = None,
        limits: Limits | None = None,
        gain: float | None = None,
        order: int = 1,
        rate_gain: float | None = None,
        rest_gain: float | None = None,
    ) -> None:
        """Prepare everything that a step needs.

        Args:
            robot: That moves.
            tasks: A task, a frame's name (for its pose), or a sequence of those; the poses of all
                end frames if left out.
            dt: Length of a step [s].
            step: Any step, or a callable of yours; by default DLS with `damping.Curvature` of the
                frames that the tasks move, which is exact away from singularities and does not
                overshoot at them.
            limits: Of the joints; by default the robot's own positions and speeds, each joint for
                itself. The norm of all speeds has no bound unless you give one (`max_norm`).
            gain: Of the error to the target; by default 10/s, or 100/s² with order=2.
            order: 1: resolved rate. 2: resolved acceleration.
            rate_gain: Of the velocity's error, with order=2; by default 2 sqrt(gain) [1/s].
            rest_gain: By which motion that tasks do not see dies away, with order=2 [1/s]; by
                default rate_gain.
        """
        if not isinstance(robot, Robot):
            raise InputError(f"robot must be a Robot; given: {short_repr(robot)}")
        self._layout, single = laid_out(robot, tasks)
        kind: object = order
        if not isinstance(kind, int) or kind not in (1, 2):
            raise InputError(
                f"order must be 1 (rate) or 2 (acceleration); given: {short_repr(order)}"
            )
        self.robot, self.tasks = robot, self._layout.tasks
        if limits is None:
            limits = Limits.of(robot)
        bounds: object = limits
        if not isinstance(bounds, Limits) or len(bounds.lower) != robot.dof:
            raise InputError(
                f"limits must be Limits of {robot.dof} joints; given: {short_repr(limits)}"
            )
        self.limits = bounds
        self._dt = number(dt, "dt", above=0)
        if step is None:
            step = DLS(_curvature(self._layout, self._dt))
        self.step = step
        default = 100.0 if order == 2 else min(10.0, 1 / self._dt)
        self._gain = number(default if gain is None else gain, "gain", least=0)
        damped = 2 * math.sqrt(self._gain) if rate_gain is None else rate_gain
        rate = number(damped, "rate_gain", least=0)
        rest = number(rate if rest_gain is None else rest_gain, "rest_gain", least=0)
        self._order, self._rate_gain, self._rest_gain, self._single = order, rate, rest, single
        controller = make_controller(self.step, self._layout)
        self._own = controller.python_step
        self._bound = min(bounds.max_norm, controller.max_speed if order == 1 else math.inf)
        self._brakes = bool(np.isfinite(bounds.max_acceleration).any())
        spec = _core.ServoSpec(
            mode=controller.mode,
            steps=controller.steps,
            secondary=controller.secondary,
            filter=controller.filter,
            limits=limits_spec(bounds, self._bound),
            second_order=order == 2,
            dt=self._dt,
            gain=self._gain,
            rate_gain=rate,
            rest_gain=rest,
            inputs=[_input(task, robot.dof) for task in self.tasks],
        )
        super().__init__(
            tasks=self._layout.kernel,
            spec=spec,
            convert=_converter(self._layout, single),
            secondary_velocity=controller.secondary_velocity,
            python_step=controller.python_step,
        )
        self._made = frozenset((*self.__dict__, "_made"))  # what another one would make as well

    def __repr__(self) -> str:
        return f"Servo({self.robot.name!r}, {list(self.tasks)}, {self.step}, dt={self.dt})"

    @property
    def dt(self) -> float:
        """Length of a step [s]."""
        return self._dt

    @property
    def gain(self) -> float:
        """Of the error to the target [1/s], or [1/s²] with order=2."""
        return self._gain

    def reset(self, qd: ArrayLike | None = None) -> None:
        """Forget the steps before: the joints rest, or move at `qd` (n,)."""
        n = self.robot.dof
        speed = np.zeros(n) if qd is None else coordinates(qd, n, "qd").astype(np.float64)
        if speed.ndim != 1 or not np.isfinite(speed).all():
            raise InputError(f"qd must be finite, ({n},); given: {short_repr(qd)}")
        if self._own is not None:
            self._own.forget()
        self._reset(speed)

    # ---- copies --------------------------------------------------------------------------------

    def __reduce__(self) -> tuple[object, ...]:
        given = {
            "robot": self.robot,
            "tasks": self.tasks[0] if self._single else self.tasks,
            "dt": self._dt,
            "step": self.step,
            "limits": self.limits,
            "gain": self._gain,
            "order": self._order,
            "rate_gain": self._rate_gain,
            "rest_gain": self._rest_gain,
        }
        return _made_again, (type(self), given), self.__getstate__()

    def __getstate__(self) -> dict[str, Any]:
        own = {name: value for name, value in self.__dict__.items() if name not in self._made}
        before = None if self._own is None else self._own.before
        return {"memory": self._memory, "before": before, "own": own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state["own"])
        self._recall(np.ascontiguousarray(state["memory"]))
        if self._own is not None:
            self._own.before = state["before"]

    def __copy__(self) -> Servo:
        # A step may have a memory, which belongs to one Servo; a Robot has none.
        return copy.deepcopy(self, {id(self.robot): self.robot})

    # ---- what the last step did ----------------------------------------------------------------

    @property
    def qd(self) -> Array:
        """Joint speeds (n,) [rad/s or m/s], as commanded."""
        return self._qd

    @property
    def lambda2(self) -> float:
        """The damping λ², with what limits and the norm's bound added; the largest of all tasks'
        for `Priority`.
        """
        return self._lambda2

    @property
    def active(self) -> NDArray[np.int8]:
        """At which end of its limits each joint is (n,): -1, 0 or 1.

        Of position, speed or acceleration, whichever is nearest.
        """
        return self._side.astype(np.int8)

    @property
    def status(self) -> Status:
        """How it came out."""
        if self._brakes and self._begun and (self._exceeded() > EXCEEDS).any():
            return Status.ACCELERATION_EXCEEDED
        if self._side.any():
            return Status.AT_LIMIT
        return Status.DAMPED if self._lambda2 > 0 or self._held else Status.FOLLOWING

    @property
    def linearization(self) -> Linearization:
        """J (m, n) and e (m,) as the step saw them, weighted, where it began."""
        return Linearization(self._J, self._e, rows=self._layout.rows, q=self._from)

    @property
    def sigma_min(self) -> float:
        """The least singular value of J, weighted."""
        return self.linearization.sigma_min

    def explain(self) -> Report:
        """What the last step did and why, in words: its speeds, its damping, what held it."""
        if not self._begun:
            raise InputError("there is nothing to explain before the first step; given: none")
        qd, before = self._qd, self._before
        speed = float(np.linalg.norm(qd))
        second = (qd - before) / self._dt + self._rest_gain * before
        return explain_taken(
            self.linearization,
            self.step,
            qd if self._order == 1 else second,
            speed=speed,
            chosen=self._chosen,
            lambda2=self._lambda2,
            held=self._held_joints(),
            max_norm=self._bound if speed >= self._bound * _NEARLY else None,
        )

    def _exceeded(self) -> Array:
        return self.limits.exceeded(self._before, self._qd, self._dt)

    def _held_joints(self) -> tuple[Held, ...]:
        """The joints at an end of what their limits allow, and which limit it is."""
        limits, side = self.limits, self._side
        q, before, exceeded = self._from, self._before, self._exceeded()
        box = limits.box(q, before, self._dt)
        held = []
        for j in np.flatnonzero(side):
            beyond = float(exceeded[j])
            # A joint that is too fast is held at the end that it moves to.
            end = 1 if (side[j] if beyond <= EXCEEDS else before[j]) > 0 else -1
            at = float(box[(end + 1) // 2][j])  # how fast the joint may be
            brake = limits.max_acceleration[j] * self._dt
            outside = not limits.lower[j] <= q[j] <= limits.upper[j]
            which: Literal["position", "speed", "acceleration"] = "position"
            value = float((limits.upper if end > 0 else limits.lower)[j])
            if not outside and end * at >= limits.max_speed[j] * _NEARLY:
                which, value = "speed", end * float(limits.max_speed[j])
            elif not outside and end * (at - before[j]) >= brake * _NEARLY:
                which, value = "acceleration", end * float(limits.max_acceleration[j])
            name = self.robot.joint_names[j]
            held.append(Held(name, which, end, value, beyond if beyond > EXCEEDS else 1.0))
        return tuple(held)


def _made_again(kind: type[Servo], given: dict[str, Any]) -> Servo:
    """A Servo of these arguments that has not moved; subclasses need not take the same ones."""
    servo = kind.__new__(kind)
    Servo.__init__(servo, **given)
    return servo


def _curvature(layout: CompiledTasks, dt: float) -> damping.Curvature:
    """The default damping, for the frames that the tasks move: postures have no curvature."""
    rows = [task.on(layout.robot) for task in layout.tasks]
    moved = [one for one in rows if one.goal != Goal.POSTURE]
    frames = {name for one in moved for name in (one.frame, one.base) if name is not None}
    if not frames:
        return damping.Curvature(0.0)
    return damping.Curvature.for_robot(layout.robot, sorted(frames), dt=dt)


def laid_out(
    robot: Robot, tasks: TaskLike | Sequence[TaskLike] | None
) -> tuple[CompiledTasks, bool]:
    """Tasks for the kernel, and whether targets come bare: one task, not a sequence of them."""
    if tasks is None:
        tips = tuple(PoseTask(tip) for tip in robot.tips)
        return compile_tasks(robot, tips), len(tips) == 1
    return compile_tasks(robot, as_tasks(tasks)), isinstance(tasks, str | Task)


def _input(task: Task, dof: int) -> _core.InputSpec:
    """Return the arrays that the compiled code takes as velocity and target without Python."""
    if isinstance(task, PostureTask):
        count = dof if task.joints is None else len(task.joints)
        return _core.InputSpec(velocity=count, target=count)
    kind = type(task)  # a subclass may convert its input otherwise
    if kind is PoseTask:
        return _core.InputSpec(velocity=6, target=16)
    if kind is PositionTask:
        return _core.InputSpec(velocity=3, target=3)
    if kind in (OrientationTask, AxisTask):
        return _core.InputSpec(velocity=3, velocity_begin=3)
    return _core.InputSpec()


def _converter(layout: CompiledTasks, single: bool) -> Callable[[str, Any], Array]:
    """What makes the kernel's numbers of a task's targets and velocities."""

    def convert(name: str, given: Any) -> Array:
        if single:
            given = (given,)
        elif isinstance(given, str) or not isinstance(given, Sequence):
            count = len(layout.tasks)
            raise InputError(
                f"{name} must be a sequence with one for each of {count} tasks; "
                f"given: {short_repr(given)}"
            )
        made = layout.targets(given) if name == "target" else layout.velocities(given)
        if made.ndim != 1:
            raise InputError(f"{name} must be one, not a batch; given: {made.shape[:-1]} of them")
        return np.ascontiguousarray(made)

    return convert
