"""The explanation of the last step of a `Servo`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from supple._core import AT_LIMIT_RATIO
from supple.control.constraints import acting
from supple.control.diagnostics import Report, explain_taken, unlimited_step
from supple.control.guard import acting_pairs
from supple.control.holding import missed_words, reason
from supple.control.status import held_joints
from supple.motion.direction_text import direction_text
from supple.motion.linearization import Linearization

if TYPE_CHECKING:
    from supple.control.servo import Servo

# Fraction of a command, lost to damping, above which a report mentions the loss.
_MENTIONED_LOSS = 1e-3
_PARALLEL_TOLERANCE = 1e-6  # relative difference below which two joint velocities count as parallel


def explain_last_step(servo: Servo) -> Report:
    """Return the report on the last step of a Servo: its speeds, its damping, limits that acted."""
    qd, before = servo._qd, servo._before
    speed = float(np.linalg.norm(qd))
    linearization = servo.linearization
    commanded = float(np.linalg.norm(servo._command)) or 1.0
    share = float(np.linalg.norm(servo.lost)) / commanded
    told = share > _MENTIONED_LOSS and servo._chosen_lambda2 > 0
    report = explain_taken(
        linearization,
        servo.step,
        servo._performed,
        speed=speed,
        chosen_lambda2=servo._chosen_lambda2,
        applied_lambda2=servo.lambda2,
        held=held_joints(
            servo.limits,
            servo.robot.joint_names,
            before,
            servo._side,
            servo._joint_flags.tolist(),
            servo.limits.exceeded(before, qd, servo.dt),
        ),
        max_norm=servo._max_norm if speed >= servo._max_norm * AT_LIMIT_RATIO else None,
        mode=servo.limits.mode if servo._held else None,
        factor=_factor(servo, linearization),
        constraints=(
            *acting(servo.constraints, servo._rows, qd),
            *acting_pairs(servo._guarded, servo._rows, qd, servo._blocking, servo.clearance),
            *_not_held(servo),
        ),
    )
    return replace(
        report,
        damped=(share, direction_text(servo.lost, linearization.rows)) if told else None,
        beyond=servo._beyond / commanded,
        tasks=_missed_tasks(servo) if len(servo.tasks) > 1 else (),
    )


def _not_held(servo: Servo) -> tuple[str, ...]:
    """Return a sentence about each held task that the last step did not hold exactly."""
    held, (each, targets) = servo._contacts, servo._holding
    errors = each[:, 0]
    if not errors.any():
        return ()
    return missed_words(held, errors, reason(held, servo.robot, servo._now, targets, each[:, 1]))


def _missed_tasks(servo: Servo) -> tuple[tuple[str, float], ...]:
    """Return the tasks that the last step missed, with the fractions of their commands."""
    commanded, least = servo._per_task(servo._e), _MENTIONED_LOSS * float(np.linalg.norm(servo._e))
    missed = []
    for task, left, wanted in zip(servo.tasks, servo.missed, commanded, strict=True):
        if left > max(least, _MENTIONED_LOSS * wanted):
            name = getattr(task, "frame", None)
            words = type(task).__name__ + (f" of {name}" if name else "")
            missed.append((words, float(left / wanted) if wanted > 0 else math.inf))
    return tuple(missed)


def _factor(servo: Servo, linearization: Linearization) -> float | None:
    """Return the factor by which mode "scale" slowed all joints; None if it is unknown."""
    if servo.limits.mode == "exact" or not servo._held:
        return None
    step = unlimited_step(servo.step, linearization, servo._chosen_lambda2)
    if step is None:
        return None
    if servo._order == 2:
        step = servo._before + servo.dt * (step - servo._rest_gain * servo._before)
    qd, size = servo._qd, float(step @ step)
    factor = float(step @ qd) / size if size > 0 else 0.0
    kept = np.abs(qd - factor * step).max() <= _PARALLEL_TOLERANCE * math.sqrt(size)
    return factor if kept else None
