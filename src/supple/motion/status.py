"""The status of a step: the damping and the limits that acted, as flags and as text."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntFlag

from supple._core import StepFlag


class StepStatus(IntFlag):
    """The damping and limits that acted on a step, as flags; FOLLOWING (0) if none did.

        if StepStatus.SPEED_LIMIT in servo.status: ...       one cause
        for cause in servo.status: print(cause.sentence)     all causes
        (motion.status & StepStatus.DAMPED) != 0             a mask of the damped steps of a motion

    A status prints as words. A status does not say how large the error of a task is.

    Attributes:
        FOLLOWING: Neither damping nor a limit acted, and the step performs as much of the task as
            any joint motion can.
        DAMPED: The step gave up part of the task to bound the joint speeds: by damping, λ² > 0, by
            truncation, or by a clamp. The default step of a `Servo` counts as damped if damping
            removes more than 1 % of the command.
        NORM_LIMIT: The norm of all joint speeds is at its bound.
        JERK_LIMIT: A joint is at its maximum jerk.
        ACCELERATION_LIMIT: A joint is at its maximum acceleration; in modes "scale" and "halt",
            also if a faster motion could not stop in time.
        SPEED_LIMIT: A joint is at its maximum speed.
        POSITION_LIMIT: A joint is at the end of its range, or brakes to stop there.
        ACCELERATION_EXCEEDED: A joint exceeds its maximum acceleration; otherwise it would have
            exceeded a limit of position or speed, or the bound on the norm.
        JERK_EXCEEDED: A joint exceeds its maximum jerk; otherwise it would have exceeded one of its
            other limits, or the bound on the norm.
        OUT_OF_REACH: More than 1 % of the command points beyond the end of the reach: the arm is
            stretched, or at another singularity (such as a straight wrist) beyond which the joints
            cannot move in the singular direction, or could not stop before it. In modes "scale" and
            "halt": the motion stops because J cannot perform the whole command. In mode "path" of
            `simulate`: the motion ends because the next target is not reached.
        DIRECTION_LOST: The direction of the command cannot be kept, although the mode, "scale" or
            "halt", should keep it: joints return from outside their limits, or were moved by
            something other than the `Servo`.
        HALTING: The motion slows down or halts before a singularity, in mode "halt".
        SPEED_EXCEEDED: A joint exceeds its maximum speed, which was lowered while it moved; it
            slows down as its limits on acceleration and jerk allow.
        NORM_EXCEEDED: The norm of all joint speeds exceeds its bound, which was lowered in motion.
        CONSTRAINT_LIMIT: A constraint of the `Servo` holds the step back.
        CONSTRAINT_EXCEEDED: A constraint is not met: the limits of the joints, or constraints
            before it, do not allow it.
        COLLISION_LIMIT: The step is changed to keep the clearance of the `Servo`'s world.
        COLLISION_EXCEEDED: Two shapes were closer than the clearance before the step, and are
            driven apart; or joints or obstacles have not moved as predicted, and the robot stops
            without a certificate.
        HELD_EXCEEDED: A held task is more than 1e-9 m or rad from where it should be: the limits of
            the joints, or other held tasks, do not allow more.
    """

    FOLLOWING = 0
    DAMPED = StepFlag.DAMPED.value
    NORM_LIMIT = StepFlag.NORM_LIMIT.value
    ACCELERATION_LIMIT = StepFlag.ACCELERATION_LIMIT.value
    SPEED_LIMIT = StepFlag.SPEED_LIMIT.value
    POSITION_LIMIT = StepFlag.POSITION_LIMIT.value
    ACCELERATION_EXCEEDED = StepFlag.ACCELERATION_EXCEEDED.value
    JERK_LIMIT = StepFlag.JERK_LIMIT.value
    JERK_EXCEEDED = StepFlag.JERK_EXCEEDED.value
    OUT_OF_REACH = StepFlag.OUT_OF_REACH.value
    DIRECTION_LOST = StepFlag.DIRECTION_LOST.value
    HALTING = StepFlag.HALTING.value
    SPEED_EXCEEDED = StepFlag.SPEED_EXCEEDED.value
    NORM_EXCEEDED = StepFlag.NORM_EXCEEDED.value
    CONSTRAINT_LIMIT = StepFlag.CONSTRAINT_LIMIT.value
    CONSTRAINT_EXCEEDED = StepFlag.CONSTRAINT_EXCEEDED.value
    COLLISION_LIMIT = StepFlag.COLLISION_LIMIT.value
    COLLISION_EXCEEDED = StepFlag.COLLISION_EXCEEDED.value
    HELD_EXCEEDED = StepFlag.HELD_EXCEEDED.value

    @property
    def sentence(self) -> str:
        """All causes in one sentence."""
        return " and ".join(_SENTENCES[cause] for cause in self) or _SENTENCES[StepStatus(0)]

    def __iter__(self) -> Iterator[StepStatus]:
        """Yield each flag that is set."""
        return (cause for cause in CAUSES if cause & self)

    def __str__(self) -> str:
        names = [_NAMES[cause] for cause in self] or [_NAMES[StepStatus(0)]]
        return ", ".join(names)

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


_SENTENCES = {
    StepStatus.FOLLOWING: "the robot follows the task as closely as it can",
    StepStatus.DAMPED: "part of the task is given up to keep joint speeds bounded",
    StepStatus.NORM_LIMIT: "the norm of all joint speeds is at its bound",
    StepStatus.ACCELERATION_LIMIT: "a joint is at its maximum acceleration",
    StepStatus.SPEED_LIMIT: "a joint is at its maximum speed",
    StepStatus.POSITION_LIMIT: "a joint is at, or brakes for, the end of its range",
    StepStatus.ACCELERATION_EXCEEDED: "a joint exceeds its maximum acceleration because it has to "
    "stop",
    StepStatus.JERK_LIMIT: "a joint is at its maximum jerk",
    StepStatus.JERK_EXCEEDED: "a joint exceeds its maximum jerk because it has to stop",
    StepStatus.OUT_OF_REACH: "part of the command is beyond the end of the reach",
    StepStatus.DIRECTION_LOST: "the direction of the command cannot be kept",
    StepStatus.HALTING: "the motion slows down or halts before a singularity",
    StepStatus.SPEED_EXCEEDED: "a joint slows down to its maximum speed",
    StepStatus.NORM_EXCEEDED: "the joints slow down to the bound on the norm of their speeds",
    StepStatus.CONSTRAINT_LIMIT: "a constraint holds the step back",
    StepStatus.CONSTRAINT_EXCEEDED: "a constraint cannot be met within the limits",
    StepStatus.COLLISION_LIMIT: "the robot keeps its clearance from an obstacle or from itself",
    StepStatus.COLLISION_EXCEEDED: "two shapes are closer than the clearance",
    StepStatus.HELD_EXCEEDED: "a held task cannot be held exactly",
}
_NAMES = {status: str(status.name).lower() for status in _SENTENCES}
CAUSES = tuple(status for status in _SENTENCES if status)
