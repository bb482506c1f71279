"""Whole motions: a robot follows targets or velocities over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from supple._arrays.checks import coordinates, number
from supple.collision.certificate import polygon_certificate
from supple.collision.model import check_clearance, check_world, model_of
from supple.collision.world import World
from supple.control.arguments import check_robot_first, limits_for
from supple.control.constraints import check_constraints
from supple.control.controller import AnyStep
from supple.control.missed import TaskShares
from supple.control.servo import Servo
from supple.control.trajectory import Trajectory
from supple.errors import HINTS, InputError, join_names, known_arguments, short_repr
from supple.ik.world_check import WorldCheck
from supple.kinematics import Robot
from supple.kinematics.loops import refuse_loops
from supple.kinematics.robot import FrameNames
from supple.motion.limits import Limits
from supple.motion.linearization import Array
from supple.motion.plausible import check_plausible
from supple.motion.status import StepStatus
from supple.motion.status_array import StatusArray
from supple.paths.joint_path import to_trajectory
from supple.paths.path_mode import PathMotion, path_motion
from supple.paths.references import Commands, Reference, sample
from supple.paths.timing import Bounds
from supple.redundancy.constraint import Constraint
from supple.steps.estimate import Estimates
from supple.tasks import TaskLike
from supple.tasks.layout import CompiledTasks, compile_selected


@known_arguments(**HINTS)
def simulate(
    robot: Robot,
    q0: ArrayLike,
    *,
    target: Reference = None,
    velocity: Reference = None,
    acceleration: Reference = None,
    frame: FrameNames = None,
    tasks: TaskLike | Sequence[TaskLike] | None = None,
    dt: float | None = None,
    times: ArrayLike | None = None,
    duration: float | None = None,
    feedforward: bool = True,
    step: AnyStep | None = None,
    limits: Limits | None = None,
    gain: float | None = None,
    order: int = 1,
    rate_gain: float | None = None,
    rest_gain: float | None = None,
    constraints: Sequence[Constraint] = (),
    qd0: ArrayLike | None = None,
    tolerance: float = 1e-4,
    world: World | None = None,
    clearance: float = 0.01,
    held: TaskLike | Sequence[TaskLike] | None = None,
) -> Trajectory:
    """Follow a moving target, a velocity, or both: a `Servo` called in a loop.

    Args:
        robot: The controlled robot.
        q0: Initial joint coordinates (n,) [rad or m]; joints outside their limits are driven back.
        target: Target of the tasks: a function of time [s], or K + 1 targets, one at each time; a
            single task also takes a constant target. Several tasks take a sequence with one target
            per task at each time.
        velocity: Velocity of the tasks: a function of time, K (or K + 1) velocities, or a constant.
        acceleration: Acceleration of the tasks in the same forms, with order=2.
        frame: Name of a frame, or a sequence of names: their poses are the tasks.
        tasks: A task, or a sequence of tasks; by default the poses of all end effectors.
        dt: Length of a step [s], if `times` is not given.
        times: Times (K + 1,), increasing [s]. Braking is planned with the lengths of the coming
            steps; after the last step, more steps of its length are assumed.
        duration: Duration [s], if neither `times` nor arrays determine it.
        feedforward: Whether missing velocities are derived from the differences of the targets.
        step: As in `Servo`.
        limits: As in `Servo`, or with mode "path": the tool stays on the path of the targets, and
            only the timing changes. The whole path is known, so the motion slows down early enough,
            and ends at rest before the first target that is out of reach.
        gain: As in `Servo`.
        order: As in `Servo`.
        rate_gain: As in `Servo`.
        rest_gain: As in `Servo`.
        constraints: As in `Servo`.
        qd0: Initial joint speeds (n,); zero by default.
        tolerance: Largest distance from the path between two targets, in mode "path" [m or rad].
        world: As in `Servo`, with obstacles that stand still. `Trajectory.certificate` has what is
            proven about the whole motion. In mode "path" the motion does not go around obstacles:
            it slows down and ends, at rest, at the last target before the first one that it cannot
            reach with this clearance; the last status is COLLISION_LIMIT.
        clearance: As in `Servo`.
        held: As in `Servo`: tasks that stay exactly where they are at q0; not in mode "path".

    Raises:
        InputError: There is no reference, references differ in length, times do not increase, or
            mode "path" is combined with a step, gains, order=2, constraints, held tasks or initial
            speeds.
    """
    check_robot_first(robot, "simulate(robot, q0, target=...)", q0)
    layout, single = compile_selected(robot, frame, tasks)
    commands = sample(
        layout,
        single,
        {"target": target, "velocity": velocity, "acceleration": acceleration},
        dt=dt,
        times=times,
        duration=duration,
        feedforward=feedforward,
    )
    if limits is not None and limits_for(limits, robot).mode == "path":
        refuse_loops(robot, 'mode "path"')
        fixed = {"step": step, "gain": gain, "rate_gain": rate_gain, "rest_gain": rest_gain}
        given = [name for name, value in fixed.items() if value is not None]
        given += ["constraints"] if check_constraints(constraints) else []
        given += ["held"] if held is not None else []
        if given or order != 1 or np.any(0.0 if qd0 is None else qd0):
            raise InputError(
                'mode "path" takes no step, gains, constraints, held tasks or initial speeds, and '
                "only order=1; given: " + (join_names(given) if given else "order=2 or qd0")
            )
        each = float(commands.t[1] - commands.t[0])
        check = WorldCheck.of(robot, world, clearance if world is not None else 0.0)
        made = _on_path(layout, limits, _start(q0, robot), commands, each, tolerance, check)
        return _with_certificate(made, robot, world, clearance)
    servo = Servo(
        robot,
        layout.tasks,
        dt=float(commands.t[1] - commands.t[0]),
        step=step,
        limits=limits,
        gain=gain,
        order=order,
        rate_gain=rate_gain,
        rest_gain=rest_gain,
        constraints=constraints,
        world=world,
        clearance=clearance,
        held=held,
    )
    servo.reset(qd0)
    made = _run(servo, _start(q0, robot), commands)
    return _with_certificate(made, robot, world, clearance)


def _with_certificate(
    motion: Trajectory, robot: Robot, world: World | None, clearance: float
) -> Trajectory:
    """Return a motion with its certificate in a world, if there is one."""
    if world is None:
        return motion
    model, least = model_of(robot, check_world(world)), check_clearance(clearance)
    return replace(motion, certificate=polygon_certificate(model, least, motion.t, motion.q))


def _run(servo: Servo, q0: Array, commands: Commands) -> Trajectory:
    """Return the motion of a servo that starts at q0 (n,) and follows commands."""
    t, targets, velocities, accelerations = commands
    steps, n, layout = len(t) - 1, servo.robot.dof, servo._layout
    q = np.empty((steps + 1, servo.robot.nq))
    q[0] = q0
    qd, side = np.empty((steps + 1, n)), np.empty((steps, n))
    qd[0] = servo._qd
    lambda2, command = np.empty(steps), np.empty((steps, len(layout.rows)))
    status, estimates = np.empty(steps, dtype=np.int32), []
    commanded, left = np.empty_like(command), np.empty_like(command)
    lengths = np.diff(t)
    uneven = not np.allclose(lengths, servo.dt, rtol=1e-12, atol=0)
    if uneven and np.isfinite(servo.limits.max_jerk).any():
        given = f"steps from {lengths.min():.3g} to {lengths.max():.3g} s"
        raise InputError(f"max_jerk needs times with steps of equal lengths; given: {given}")
    for k in range(steps):
        if uneven:
            servo._pace(lengths, k)
        servo._raw(
            q[k],
            None if velocities is None else velocities[k],
            None if targets is None else targets[k],
            None if accelerations is None else accelerations[k],
            q[k + 1],
        )
        qd[k + 1], side[k] = servo._qd, servo._side
        lambda2[k], command[k], status[k] = servo._applied_lambda2, servo._command, servo._causes()
        commanded[k], left[k] = servo._e, servo._left
        estimates.append(servo._estimates)
    weights = layout.weights
    J = layout.jacobian(q[:-1])
    error = np.zeros((steps, len(weights))) if targets is None else layout.error(q[1:], targets[1:])
    return Trajectory(
        t=t,
        q=q,
        qd=qd[1:],
        lambda2=lambda2,
        sigma_min=np.linalg.svd(J.astype(np.float64), compute_uv=False)[:, -1],
        command=command / weights,
        velocity=np.einsum("kmn,kn->km", J, qd[1:]) / weights,
        error=error / weights,
        active=side.astype(np.int8),
        status=StatusArray.of(StepStatus, status),
        rows=layout.rows,
        estimates=None
        if not estimates or estimates[0] is None
        else Estimates(*np.array(estimates).T),
        robot=servo.robot,
        _shares=TaskShares.of(layout, commanded, left),
    )


def _on_path(
    layout: CompiledTasks,
    limits: Limits,
    q0: Array,
    commands: Commands,
    dt: float,
    tolerance: float,
    check: WorldCheck | None,
) -> Trajectory:
    """Return the fastest motion along the targets that keeps the limits and the clearance."""
    least = number(tolerance, "tolerance", above=0)
    motion, blocked = _free_motion(layout, limits, q0, commands, dt, least, check)
    bounds = Bounds(limits.max_speed, limits.max_acceleration, limits.max_jerk)
    made = to_trajectory(layout, [motion.q], dt, bounds)
    status = np.array(made.status, dtype=np.int32)
    status[-1] |= blocked or motion.status
    return replace(
        made,
        t=motion.t,
        error=layout.error(motion.q[1:], motion.targets[1:]) / layout.weights,
        status=StatusArray.of(StepStatus, status),
    )


def _free_motion(
    layout: CompiledTasks,
    limits: Limits,
    q0: Array,
    commands: Commands,
    dt: float,
    tolerance: float,
    check: WorldCheck | None,
) -> tuple[PathMotion, int]:
    """Return the motion as far as obstacles allow, and the status of its end (0 if it is whole).

    Where the motion is not certified, it ends at the target before that place. The new end changes
    the motion between the last targets, so the shorter motion is certified again.
    """
    status = 0
    while True:
        motion = path_motion(layout, limits, q0, commands, dt, tolerance)
        if check is None:
            return motion, status
        free = _free_samples(check, motion)
        if free == len(motion.t):
            return motion, status
        status = int(StepStatus.COLLISION_LIMIT)
        if len(commands.t) == 1:  # too close at the beginning
            return motion, status | int(StepStatus.COLLISION_EXCEEDED)
        assert commands.targets is not None
        count = int(np.searchsorted(commands.t, motion.s[max(free - 1, 0)], side="right"))
        count = max(1, min(count, len(commands.t) - 1))
        commands = commands._replace(t=commands.t[:count], targets=commands.targets[:count])


def _free_samples(check: WorldCheck, motion: PathMotion) -> int:
    """Return the number of samples of a motion up to which it is certified, by bisection."""

    def certified(count: int) -> bool:
        t, q = motion.t[:count], motion.q[:count]
        return polygon_certificate(check.model, check.clearance, t, q, first=True).certified

    free, more = 0, len(motion.t)
    if certified(more):
        return more
    while more - free > 1:
        middle = (free + more) // 2
        free, more = (middle, more) if certified(middle) else (free, middle)
    return free


def _start(q0: ArrayLike, robot: Robot) -> Array:
    """Return the initial joint coordinates (n,) after checking them."""
    q = coordinates(q0, robot.nq, "q0").astype(np.float64)
    if q.ndim != 1 or not np.isfinite(q).all():
        raise InputError(f"q0 must be finite, of shape ({robot.nq},); given: {short_repr(q0)}")
    check_plausible(robot, q, "q0")
    return q
