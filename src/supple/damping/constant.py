"""Constant damping."""

from __future__ import annotations

from dataclasses import dataclass, field

from supple._core import Rule
from supple.damping.rule import NOT_NEGATIVE, KernelRule
from supple.damping.scale import Rows, Scale
from supple.kinematics import Robot
from supple.kinematics.robot import FrameNames
from supple.motion.linearization import Linearization


@dataclass(frozen=True)
class Constant(KernelRule):
    """The same damping everywhere:  lambda2.

    Constant damping costs accuracy everywhere: the relative error along the singular direction with
    the singular value σ is λ²/(σ² + λ²).

    Attributes:
        lambda2: λ², in the units of squared singular values.

    References:
        Wampler 1986, eqs. (34)-(37); Deo & Walker 1995, section 3, method 1.
    """

    rule = Rule.CONSTANT
    spectral = False
    lambda2: float = field(metadata=NOT_NEGATIVE)

    def __call__(self, linearization: Linearization) -> float:  # noqa: D102
        return self.lambda2

    def reason(self, linearization: Linearization) -> str:  # noqa: D102
        return f"constant: lambda2 = {self.lambda2:.3g} everywhere"

    @classmethod
    def for_robot(
        cls, robot: Robot, frame: FrameNames = None, rows: Rows = None, *, dt: float = 1.0
    ) -> Constant:
        """Bound the gain by the 90 % quantile of the undamped gain over all configurations."""
        return cls(Scale.for_robot(robot, frame, rows).lambda2)
