"""The interface of a damping rule, and the base class of the rules that the kernel implements."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol

from supple import _core
from supple._arrays.checks import number_field
from supple._core import Rule
from supple.damping.scale import Rows
from supple.kinematics import Robot
from supple.kinematics.robot import FrameNames
from supple.motion.linearization import Linearization


class DampingRule(Protocol):
    """A callable that returns the damping lambda2 for a linearization."""

    def __call__(self, linearization: Linearization, /) -> float:
        """Return lambda2, finite and not negative."""
        ...


# Ranges of a rule's parameters: the bounds that `number` checks.
NOT_NEGATIVE: dict[str, Any] = {"bounds": {"least": 0.0}}
POSITIVE: dict[str, Any] = {"bounds": {"above": 0.0}}
FRACTION: dict[str, Any] = {"bounds": {"above": 0.0, "below": 1.0}}
ABOVE_ONE: dict[str, Any] = {"bounds": {"above": 1.0}}


@dataclass(frozen=True)
class KernelRule:
    """A rule that the kernel also implements; its numeric fields, in order, are the parameters."""

    rule: ClassVar[Rule]
    spectral: ClassVar[bool] = True  # whether the rule needs singular values

    def __post_init__(self) -> None:
        for each in fields(self):
            if "bounds" in each.metadata:
                number_field(self, each.name, **each.metadata["bounds"])

    def __call__(self, linearization: Linearization) -> float:
        """Return lambda2 by the paper's formula."""
        raise NotImplementedError

    def reason(self, linearization: Linearization) -> str:
        """Return one sentence that explains the value of lambda2 at a linearization."""
        raise NotImplementedError

    @classmethod
    def for_robot(
        cls, robot: Robot, frame: FrameNames = None, rows: Rows = None, *, dt: float = 1.0
    ) -> KernelRule:
        """Return the rule with parameters derived from a robot.

        Args:
            robot: The robot whose motion is damped.
            frame: Names of the controlled frames; the end effectors if None.
            rows: The controlled rows, among "x", "y", "z", "rx", "ry", "rz"; all if None.
            dt: Length of a step [s] if e is a velocity, as in a `Servo`; 1 if e is a displacement.
                Used by the rules that compare e with a length.
        """
        raise NotImplementedError

    @property
    def kernel(self) -> _core.DampingSpec:
        """The rule and its parameters, for the compiled code."""
        numbers = [getattr(self, f.name) for f in fields(self) if "bounds" in f.metadata]
        return _core.DampingSpec(rule=self.rule, parameters=numbers)


def comparison(what: str, value: float, limit: str, bound: float, lambda2: float) -> str:
    """Return, for example, "sigma_min 0.003 is below size = 0.1, so lambda2 = 0.01"."""
    side = "below" if value < bound else "not below"
    return f"{what} {value:.3g} is {side} {limit} = {bound:.3g}, so lambda2 = {lambda2:.3g}"
