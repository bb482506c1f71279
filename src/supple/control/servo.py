"""`Servo`: a controller that computes one step of a control loop per call."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple import _core
from supple._arrays.checks import coordinates, number
from supple.collision.world import World
from supple.control.arguments import (
    check_order,
    check_robot_first,
    command_converter,
    default_gain,
    largest_curvature,
    limits_for,
    step_length,
    task_gains,
)
from supple.control.constraints import check_constraints, rows_of
from supple.control.controller import AnyStep, make_controller, open_rows
from supple.control.diagnostics import Report
from supple.control.explanation import explain_last_step
from supple.control.guard import Nearest, guarded, moved_shapes, nearest_of, tracking_errors
from supple.control.holding import check_over, held_tasks
from supple.control.last_step import LastStep
from supple.damping import Curvature
from supple.errors import HINTS, InputError, known_arguments, short_repr
from supple.kinematics import Robot
from supple.kinematics.loops import refuse_loops
from supple.kinematics.robot import FrameNames
from supple.motion.limits import Limits, check_mode, limits_spec
from supple.motion.linearization import Array
from supple.motion.plausible import plausible_range
from supple.motion.readable import readable
from supple.redundancy.constraint import Constraint
from supple.steps.basic import DLS, Pseudoinverse
from supple.steps.yielding import Yielding
from supple.tasks import Task, TaskLike
from supple.tasks.inputs import common_shapes, input_spec
from supple.tasks.layout import compile_selected

# What to do instead of setting an attribute.
_INSTEAD = {
    "robot": "make a new Servo(robot, ...)",
    "qd": "servo.reset(qd) sets the joint speeds",
    **{
        name: f"make a new Servo(robot, {name}=...)"
        for name in (
            *("tasks", "step", "dt", "gain", "constraints", "clearance", "tracking_error"),
            "held",
        )
    },
}


class Servo(LastStep):
    """A controller that moves a robot toward its tasks, one step of `dt` per call.

        q = servo(q, velocity)                    resolved rate:  J q̇ = velocity
        q = servo(q, velocity, target)            J q̇ = velocity + gain (target - current pose)
        q = servo(q, target=target)               the same without feed-forward
        q = servo(q, velocity, target, acceleration)         resolved acceleration (order=2)

    The call returns the joint coordinates after the step (n,). With `out=` it writes them into an
    array, which may be q itself, and allocates nothing. Velocities, targets and accelerations are
    those of the task: for a frame's pose a twist [v; w] (6,) [m/s, rad/s] and a pose (4, 4) [m], in
    world axes unless the task specifies others. Several tasks take a sequence with one entry per
    task; an entry may be None. The limits of positions and speeds hold at singularities, for
    targets out of reach and for targets that jump. The limits of acceleration and jerk hold too,
    unless a joint could not stop in time with them (`Limits`). A Servo stores the joint speeds of
    its last step: use a separate one for each robot and each thread.

    Resolved acceleration:  J q̈ = acceleration + rate_gain (velocity - J q̇) + gain (target -
    current pose) - J̇q̇.  Null-space motion decays at the rate `rest_gain`. A missing velocity is
    zero, unless only accelerations are given: then the velocity is not controlled.

    The limits and the world can be changed at any time: `servo.limits = ...`. All else is fixed.

    References:
        Whitney 1969; Wampler 1986, eqs. (49)-(51); Maciejewski & Klein 1988, section II.
    """

    @known_arguments(**HINTS, damping="It belongs to the step: step=supple.DLS(rule).")
    def __init__(
        self,
        robot: Robot,
        tasks: TaskLike | Sequence[TaskLike] | None = None,
        *,
        frame: FrameNames = None,
        dt: float,
        step: AnyStep | None = None,
        limits: Limits | None = None,
        gain: float | None = None,
        order: int = 1,
        rate_gain: float | None = None,
        rest_gain: float | None = None,
        constraints: Sequence[Constraint] = (),
        world: World | None = None,
        clearance: float = 0.01,
        tracking_error: ArrayLike = 0.0,
        held: TaskLike | Sequence[TaskLike] | None = None,
    ) -> None:
        """Prepare the controller.

        Args:
            robot: The controlled robot.
            tasks: A task, or a sequence of tasks; by default the poses of all end effectors.
            frame: Name of a frame, or a sequence of names: their poses are the tasks.
            dt: Length of a step [s], at most 5.
            step: A step or a callable; by default `steps.Yielding`, which is exact where the joints
                can follow the command, stops in front of a target out of reach, leaves a stretched
                pose without delay, and moves a redundant arm with one task away from singularities.
                With limits of mode "scale" or "halt", `Pseudoinverse`; with order=2 or open tasks,
                DLS with the rule `Curvature`.
            limits: Limits of the joints; by default the robot's own. A missing acceleration limit
                is derived from the speed limit (docs/servo.md). The norm of all speeds is unbounded
                unless the limits have a `max_norm`.
            gain: Gain of the error to the target; by default 20/s, or less if the joints need more
                time to brake, or 100/s² with order=2.
            order: 1 for resolved rate, 2 for resolved acceleration.
            rate_gain: Gain of the velocity error with order=2 [1/s]; by default 2 sqrt(gain).
            rest_gain: Decay rate of null-space motion with order=2 [1/s]; by default rate_gain.
            constraints: Objects with a method `rows(robot, q)` that returns G (k, n) and h (k,): in
                each step the joint speeds keep G q̇ >= h. The limits have precedence over all rows,
                and each row over later rows; a row that conflicts with them is met as well as
                possible.
            world: Obstacles and the shapes of the robot. From any state with a certified stop, no
                pair comes closer than `clearance` at any time within a step (docs/collision.md).
            clearance: The distance that is kept from obstacles and between links [m].
            tracking_error: Largest deviation of a joint from the commanded motion, one number or
                (n,) [rad or m]. The clearance holds for all deviations up to this size.
            held: Tasks of frames that stay exactly where they are in the first step, such as feet
                on the ground: poses, or only some rows of them. Their weights and gains have no
                effect, and they take no command. Only the joint limits, and the loops of the
                robot, have precedence over them. `release` lets go of a task, and `hold` holds it
                again.
        """
        check_robot_first(robot, "Servo(robot, tasks, dt=...)", tasks)
        check_order(order)
        self._robot = robot
        self._constraints = check_constraints(constraints)
        self._world, self._guarded = world, guarded(robot, world)
        self._clearance = number(clearance, "clearance", least=0)
        self._tracking_error = tracking_errors(tracking_error, robot)
        self._layout, self._single = compile_selected(robot, frame, tasks)
        self._limits = bounds = limits_for(limits, robot)
        self._contacts = held_tasks(robot, held, bounds)
        if world is not None:
            refuse_loops(robot, "Servo with a world")
        self._dt, self._order = step_length(dt), order
        keeps = bounds.mode != "exact"
        self._default = step is None
        self._curvature = largest_curvature(self._layout) * self._dt
        plain = order == 1 and not self._layout.open and not keeps and self._curvature > 0
        self._step_used = self._default_step(plain) if step is None else step
        self._yields = plain and isinstance(self._step_used, Yielding)
        self._given_gain = gain
        self._gain = self._gain_within(bounds)
        damped = 2 * math.sqrt(self._gain) if rate_gain is None else rate_gain
        rate = number(damped, "rate_gain", least=0)
        rest = number(rate if rest_gain is None else rest_gain, "rest_gain", least=0)
        self._rate_gain, self._rest_gain = rate, rest
        if order == 2 and any(task.on(robot).alternate for task in self.tasks):
            raise InputError(
                "an alternate J is for resolved rate (order=1); given: order=2 and a task with "
                "alternate=True"
            )
        low, high = plausible_range(robot)
        controller = make_controller(self.step, self._layout)
        self._own = controller.python_step
        self._step_max_norm = controller.max_speed if order == 1 else math.inf
        slow, halt = bounds.conditions
        spec = _core.ServoSpec(
            mode=controller.mode,
            steps=controller.steps,
            secondary=controller.secondary,
            filter=controller.filter,
            limits=limits_spec(bounds, self._max_norm),
            second_order=order == 2,
            dt=self._dt,
            gain=self._gain,
            rate_gain=rate,
            rest_gain=rest,
            task_gains=task_gains(self.tasks),
            curvature=self._curvature if self._yields else 0.0,
            whole=keeps and order == 1 and isinstance(self._step_used, Pseudoinverse),
            slow_condition=slow,
            halt_condition=halt,
            held_tasks=len(self._contacts.tasks),
            loops=self._contacts.loops,
            inputs=[
                input_spec(task, robot, rows)
                for task, rows in zip(self.tasks, self._layout.counts, strict=True)
            ],
            plausible_lower=np.minimum(low, bounds.lower).tolist(),
            plausible_upper=np.maximum(high, bounds.upper).tolist(),
        )
        super().__init__(
            tasks=self._contacts.kernel(robot, self._layout),
            spec=spec,
            convert=command_converter(self._layout, self._single),
            secondary_velocity=controller.secondary_velocity,
            python_step=controller.python_step,
            open_rows=self._open_rows(),
            constraint_rows=rows_of(self._constraints, robot),
            collision=self._guarded.kernel,
            clearance=self._clearance,
            tracking_error=self._tracking_error.tolist() if self._tracking_error.any() else [],
            wrapped=not self._single,
            stacked_targets=bool(common_shapes(self.tasks, "target")),
            stacked_velocities=bool(common_shapes(self.tasks, "velocity")),
        )
        for k, target in enumerate(self._contacts.closed):
            self._hold(k, target, 0.0)
        self._made = frozenset((*self.__dict__, "_made"))  # attributes that copies recompute

    def __setattr__(self, name: str, value: object) -> None:
        # A subclass may have attributes of its own.
        own = type(self) is not Servo and not hasattr(Servo, name)
        if name in ("limits", "world") or name.startswith("_") or own:
            super().__setattr__(name, value)
        elif hasattr(Servo, name):
            raise AttributeError(
                f"{name} of a Servo cannot be set; {_INSTEAD.get(name, 'it is computed')}"
            )
        else:
            raise AttributeError(
                f"a Servo has no attribute {name!r}; those that can be set are limits and world"
            )

    def _gain_within(self, limits: Limits) -> float:
        """Return the gain of the error: the given one, or the default one within these limits."""
        own = default_gain(limits, self._dt, self._layout, brakes=self._yields)
        default = 100.0 if self._order == 2 else own
        return number(default if self._given_gain is None else self._given_gain, "gain", least=0)

    def _open_rows(self) -> Callable[..., None] | None:
        """Return the function that evaluates open tasks; None without open tasks."""
        intervals = self._own.intervals if self._own and self._order == 1 else None
        return open_rows(
            self._layout,
            self._gain,
            self._rate_gain,
            intervals,
            second_order=self._order == 2,
        )

    def _default_step(self, plain: bool) -> AnyStep:
        """Return the default step for the mode of the limits and the order."""
        if plain:
            return Yielding()
        if self.limits.mode != "exact" and self._order == 1:
            return Pseudoinverse()
        return DLS(Curvature(self._curvature))

    def __repr__(self) -> str:
        step = readable(self.step)
        more = f", constraints={readable(list(self.constraints))}" if self.constraints else ""
        held = f", held={readable(list(self.held))}" if self.held else ""
        return f"Servo({self.robot.name!r}, {list(self.tasks)}, {step}, dt={self.dt}{more}{held})"

    @property
    def robot(self) -> Robot:
        """The controlled robot."""
        return self._robot

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks, their rows stacked in this order."""
        return self._layout.tasks

    @property
    def step(self) -> AnyStep:
        """The step that computes joint speeds (or accelerations) from J and e."""
        return self._step_used

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The constraints on the joint speeds, the one with the highest precedence first."""
        return self._constraints

    @property
    def held(self) -> tuple[Task, ...]:
        """The tasks of the argument `held`, in order of precedence."""
        return self._contacts.given

    @property
    def held_error(self) -> Array:
        """The largest error of each task in `held` after the last step (k,) [m or rad].

        Zero for tasks that are released, and while `hold` or `release` switches a task.
        """
        return self._holding[0][self._contacts.loops :, 0]

    @property
    def held_share(self) -> Array:
        """The share of each task in `held` (k,): 0 if it is released, 1 if it is held."""
        return self._holding[0][self._contacts.loops :, 1]

    def hold(
        self, which: str | int | Task, target: ArrayLike | None = None, *, over: float = 0.1
    ) -> None:
        """Begin to hold one of the tasks in `held`, from the next step on.

        The share α of the task rises smoothly from 0 to 1: its rows move at 1 - α times the
        velocity that they would have without being held.

        Args:
            which: The task, its index, or the name of its frame.
            target: Target of the task; by default its value at the time when α reaches 1.
            over: Time until α reaches 1 [s].
        """
        k = self._contacts.index(which)
        self._hold(k, self._contacts.target(k, self.robot, target), check_over(over))

    def release(self, which: str | int | Task, *, over: float = 0.1) -> None:
        """Let go of one of the tasks in `held`: its share falls smoothly from 1 to 0.

        Args:
            which: The task, its index, or the name of its frame.
            over: Time until the task is free [s].
        """
        self._release(self._contacts.index(which), check_over(over))

    @property
    def world(self) -> World | None:
        """The obstacles and the shapes of the robot; None without them.

        Setting it takes effect in the next step. If obstacles have only moved, by no more than
        their speeds allow since the world was set, the certificate of the stop stays valid. The
        first such world takes about 1 ms, later ones some 20 µs.
        """
        return self._world

    @world.setter
    def world(self, world: World | None) -> None:
        moved = moved_shapes(self._guarded, self._world, world)
        if moved is not None and self._guarded.own:
            self._move_obstacles(*moved)
        else:
            self._guarded = guarded(self.robot, world, own=moved is not None)
            self._set_collision(self._guarded.kernel)
        self._world = world

    @property
    def clearance(self) -> float:
        """The distance that is kept from obstacles and between links [m]."""
        return self._clearance

    @property
    def tracking_error(self) -> Array:
        """How far the joints may be from the commanded motion (n,) [rad or m]."""
        return self._tracking_error

    @property
    def nearest(self) -> Nearest | None:
        """The closest pair of shapes after the last step.

        None without a world, and before the first step.
        """
        return nearest_of(self._guarded, self._now, self.clearance) if self._begun else None

    @property
    def limits(self) -> Limits:
        """The limits of the joints. Setting them takes effect in the next step.

        Joints that are faster than the new limits slow down as fast as their limits on acceleration
        and jerk allow, with the status SPEED_EXCEEDED or NORM_EXCEEDED. The mode cannot change.
        """
        return self._limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        if not isinstance(limits, Limits):
            raise InputError(
                f"limits must be Limits of {self.robot.dof} joints; given: {short_repr(limits)}"
            )
        made = limits_for(limits, self.robot)
        check_mode(made)
        if made.mode != self._limits.mode:
            raise InputError(
                "the mode of a Servo cannot change: make a new Servo with these limits, and "
                f"reset(qd) it to the current speeds; given: {made.mode!r} instead of "
                f"{self._limits.mode!r}"
            )
        self._limits, self._gain = made, self._gain_within(made)
        slow, halt = made.conditions
        self._set_limits(
            limits=limits_spec(made, self._max_norm),
            gain=self._gain,
            slow_condition=slow,
            halt_condition=halt,
            open_rows=self._open_rows(),
        )

    @property
    def _max_norm(self) -> float:
        """The bound on the norm of all speeds: that of the limits, or of the step."""
        return min(self._limits.max_norm, self._step_max_norm)

    @property
    def dt(self) -> float:
        """Length of a step [s]."""
        return self._dt

    @property
    def gain(self) -> float:
        """Feedback gain on the target error [1/s], or [1/s²] with order=2."""
        return self._gain

    def reset(self, qd: ArrayLike | None = None) -> None:
        """Discard the memory of previous steps, and set the joint speeds, by default to zero.

        Args:
            qd: Joint speeds (n,) [rad/s or m/s].
        """
        n = self.robot.dof
        speed = np.zeros(n) if qd is None else coordinates(qd, n, "qd").astype(np.float64)
        if speed.ndim != 1 or not np.isfinite(speed).all():
            raise InputError(f"qd must be finite, of shape ({n},); given: {short_repr(qd)}")
        if self._own is not None:
            self._own.forget()
        self._reset(speed)

    def explain(self) -> Report:
        """Return a report on the last step: its speeds, its damping, and the limits that acted."""
        if not self._begun:
            raise InputError("explain needs a step; given: a Servo that has not been called")
        return explain_last_step(self)

    # ---- copies --------------------------------------------------------------------------------

    def __reduce__(self) -> tuple[object, ...]:
        arguments = {
            "robot": self.robot,
            "tasks": self.tasks[0] if self._single else self.tasks,
            "dt": self._dt,
            "step": None if self._default else self.step,
            "limits": self.limits,
            "gain": self._given_gain,
            "order": self._order,
            "rate_gain": self._rate_gain,
            "rest_gain": self._rest_gain,
            "constraints": self._constraints,
            "world": self._world,
            "clearance": self._clearance,
            "tracking_error": self._tracking_error,
            "held": self._contacts.given,
        }
        return _recreated, (type(self), arguments), self.__getstate__()

    def __getstate__(self) -> dict[str, Any]:
        own = {name: value for name, value in self.__dict__.items() if name not in self._made}
        state = None if self._own is None else self._own.state
        return {"memory": self._memory, "rows": self._rows, "state": state, "own": own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state["own"])
        self._recall(np.ascontiguousarray(state["memory"]))
        self._recall_rows(np.ascontiguousarray(state["rows"]))
        if self._own is not None:
            self._own.state = state["state"]

    def __copy__(self) -> Servo:
        # The memory of a step belongs to one Servo and is copied; robot and world are shared.
        shared = (self.robot, self._world)
        return copy.deepcopy(self, {id(one): one for one in shared})


def _recreated(kind: type[Servo], arguments: dict[str, Any]) -> Servo:
    """Return a new Servo with these arguments; the `__init__` of a subclass is not called."""
    servo = kind.__new__(kind)
    Servo.__init__(servo, **arguments)
    return servo
