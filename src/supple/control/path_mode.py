"""Mode "path" of `track`: the tool stays on its path, and only the timing changes.

The path is the sequence of targets. First the joints follow it without limits of speed: q(s), where
s is the time at which the tool should be at this point. Then s(t) is the fastest motion with
ds/dt <= 1 inside the limits, computed with the whole path known (`timing.py`).

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from supple.control.references import Commands
from supple.control.servo import Servo
from supple.control.spline import Spline
from supple.control.timing import Bounds, time_law
from supple.errors import InputError
from supple.kinematics.rotation import exp, log
from supple.motion.layout import CompiledTasks
from supple.motion.limits import Limits
from supple.motion.linearization import Array
from supple.motion.status import StepStatus

MET = 1e-9  # error at which a target counts as reached [m or rad, weighted]
_ROUNDS = 50  # number of steps toward a target before it counts as out of reach
_POSE = 12  # number of values of a target that is a pose


class PathMotion(NamedTuple):
    """A motion along a path of targets.

    Attributes:
        t: Times (K + 1,) [s].
        q: Joint coordinates (K + 1, n) [rad or m].
        s: Path parameter at each time (K + 1,): the time for which this point is commanded [s].
        targets: Targets at these parameters (K + 1, k), in the kernel's layout.
        status: Status of the step toward the first target not reached; 0 if all are reached.
    """

    t: Array
    q: Array
    s: Array
    targets: Array
    status: int


def path_motion(
    layout: CompiledTasks,
    limits: Limits,
    q0: Array,
    commands: Commands,
    dt: float,
    tolerance: float,
) -> PathMotion:
    """Return the fastest motion along the targets that is nowhere faster than commanded.

    It ends, at rest, before the first target that the joints do not reach.

    Args:
        layout: The tasks.
        limits: Limits of the joints.
        q0: Initial joint coordinates (n,), at the first target.
        commands: Targets and their times.
        dt: Length of a step of the motion [s].
        tolerance: Largest deviation of a row of the tasks from the path [m or rad].

    Raises:
        InputError: There is no path, q0 is not at its beginning, or the targets are too far apart.
    """
    if commands.targets is None:
        raise InputError('mode "path" needs a target at each time; given: none')
    q, status = _joints(layout, limits, q0, commands.targets)
    t, targets = commands.t[: len(q)], commands.targets[: len(q)]
    off = np.abs(layout.error(q0, targets[0]) / layout.weights).max()
    if off > tolerance:
        raise InputError(
            f'mode "path" needs q0 at the first target; given: q0 that is off by {off:.3g} m or rad'
        )
    q[0] = np.clip(q0, limits.lower, limits.upper)  # the motion begins where the robot is
    if len(q) == 1:
        rest = np.repeat(q, 2, axis=0), np.repeat(t, 2), np.repeat(targets, 2, axis=0)
        return PathMotion(t[0] + np.array([0.0, dt]), *rest, status)
    spline = Spline.through(t, np.column_stack([q, t]))
    middle = 0.5 * (t[1:] + t[:-1])
    between = spline(middle)[:, :-1]
    errors = np.abs(layout.error(between, _at(layout, commands, middle)) / layout.weights).max(1)
    if errors.max() > tolerance:
        worst = int(np.argmax(errors))
        raise InputError(
            f"targets must be close enough together that the motion between them stays within "
            f"{tolerance:g} m or rad of the path; given: a deviation of {errors[worst]:.3g} "
            f"between the times {t[worst]:.4g} and {t[worst + 1]:.4g} s"
        )
    law = time_law(spline, _bounds(limits))
    steps = max(1, int(np.ceil(law.duration / dt - 1e-9)))
    made = law.at(np.linspace(0, law.duration, steps + 1))[0]
    s = np.clip(made[:, -1], t[0], t[-1])
    inside = np.clip(made[:, :-1], limits.lower, limits.upper)
    return PathMotion(t[0] + dt * np.arange(steps + 1), inside, s, _at(layout, commands, s), status)


def _bounds(limits: Limits) -> Bounds:
    """Return the limits of the joints and of s, which is the last coordinate of the path."""

    def norm(q: Array, qd: Array) -> Array:
        return np.asarray(np.linalg.norm(qd[:, :-1], axis=1) / limits.max_norm)

    return Bounds(
        np.append(limits.max_speed, 1.0),
        np.append(limits.max_acceleration, np.inf),
        np.append(limits.max_jerk, np.inf),
        tool=norm if np.isfinite(limits.max_norm) else None,
    )


def _joints(layout: CompiledTasks, limits: Limits, q0: Array, targets: Array) -> tuple[Array, int]:
    """Return q (K, n) at the targets before the first one that is out of reach, and its status."""
    n = layout.robot.dof
    box = Limits(
        limits.lower, limits.upper, np.full(n, np.inf), np.full(n, np.inf), joints=limits.joints
    )
    servo = Servo(layout.robot, layout.tasks, dt=1.0, limits=box, gain=1.0)
    q = np.empty((len(targets), n))
    here = np.clip(q0, limits.lower, limits.upper)
    for k, target in enumerate(targets):
        for _ in range(_ROUNDS):
            if np.abs(layout.error(here, target)).max() < MET:
                break
            servo._raw(here, None, target, None, q[k])
            here = q[k].copy()
        else:
            return q[: max(k, 1)], servo._causes() | int(StepStatus.OUT_OF_REACH)
        q[k] = here
    return q, 0


def _at(layout: CompiledTasks, commands: Commands, s: Array) -> Array:
    """Return the targets (..., k) at parameters s (...), interpolated between the given ones."""
    t, targets = commands.t, commands.targets
    assert targets is not None
    k = np.clip(np.searchsorted(t, s, side="right") - 1, 0, len(t) - 2)
    part = ((s - t[k]) / (t[k + 1] - t[k]))[:, None]
    made = targets[k] + part * (targets[k + 1] - targets[k])
    begin = 0
    for size in layout.kernel.target_sizes:
        if size == _POSE:  # the columns of a rotation, then a position
            place = slice(begin, begin + size)
            made[:, place] = _poses(targets[k][:, place], targets[k + 1][:, place], part[:, 0])
        begin += size
    return made


def _poses(begin: Array, end: Array, part: Array) -> Array:
    """Return poses (K, 12) at fractions `part` (K,) of the way from `begin` to `end` (K, 12)."""
    one, other = (each.reshape(-1, 4, 3).swapaxes(1, 2) for each in (begin, end))
    turn = log(one[..., :3].swapaxes(1, 2) @ other[..., :3])
    rotation = one[..., :3] @ exp(part[:, None] * turn)
    position = one[..., 3:] + part[:, None, None] * (other[..., 3:] - one[..., 3:])
    return np.concatenate([rotation, position], axis=2).swapaxes(1, 2).reshape(-1, _POSE)
