"""The default step of a control loop: exact where the joints can follow."""

from __future__ import annotations

from dataclasses import dataclass

from supple import damping
from supple._core import StepSpec
from supple.motion.linearization import Array, Linearization
from supple.steps.basic import DLS
from supple.steps.step import BatchStep, batched


@dataclass(frozen=True)
class Yielding(BatchStep):
    """The default step of a `Servo`: exact where the joints can follow the command.

    It yields only along singular directions. In a `Servo` of order 1 whose limits have the mode
    "exact", each singular direction has its own damping, which is only as large as acceleration
    limits, the end of the reach or the part of the target beyond the reach require; J is that of
    the middle of the step; an error is corrected no faster than the joints can brake; and a
    redundant arm with one task also moves away from singularities and from position limits, at most
    as fast as it follows the command. docs/methods.md has the formulas.

    These rules need the limits of the joints and the kinematics of the robot. Where they are not
    known (called with a `Linearization`, in `solve`, or inside another step), the step is the
    shortest q̇ that minimizes ‖J q̇ - e‖.

        Servo(robot, dt=0.004)                          # the same as with step=steps.Yielding()
    """

    @batched
    def __call__(self, linearization: Linearization) -> Array:  # noqa: D102
        return DLS(damping.Constant(0.0))(linearization)

    @property
    def kernel(self) -> StepSpec:  # noqa: D102
        return DLS(damping.Constant(0.0)).kernel
