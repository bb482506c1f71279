"""Damping where the manipulability is small or falls fast."""

from __future__ import annotations

from dataclasses import dataclass, field

from supple._core import Rule
from supple.damping.rule import NOT_NEGATIVE, POSITIVE, KernelRule, comparison
from supple.damping.scale import Rows, Scale
from supple.kinematics import Robot
from supple.kinematics.robot import FrameNames
from supple.motion.linearization import Linearization


@dataclass(frozen=True)
class Manipulability(KernelRule):
    """Damp only where the manipulability is small.

        lambda2 = lambda2_max (1 - w/threshold)²  if w < threshold, else 0      w = sqrt(det(J Jᵀ))

    lambda2 is zero away from singularities and continuous at the threshold. The threshold has the
    units of w and therefore depends on the robot's size; `Manipulability.for_robot(robot)` derives
    it from the robot.

    Attributes:
        lambda2_max: Damping at the singularity.
        threshold: Manipulability below which damping starts.

    References:
        Nakamura & Hanafusa 1986; Deo & Walker 1995, section 3, method 2.
    """

    rule = Rule.MANIPULABILITY
    lambda2_max: float = field(metadata=NOT_NEGATIVE)
    threshold: float = field(metadata=POSITIVE)

    def __call__(self, linearization: Linearization) -> float:  # noqa: D102
        w = linearization.manipulability
        return self.lambda2_max * (1 - w / self.threshold) ** 2 if w < self.threshold else 0.0

    def reason(self, linearization: Linearization) -> str:  # noqa: D102
        w, lambda2 = linearization.manipulability, self(linearization)
        return "manipulability: " + comparison("w", w, "threshold", self.threshold, lambda2)

    @classmethod
    def for_robot(
        cls, robot: Robot, frame: FrameNames = None, rows: Rows = None, *, dt: float = 1.0
    ) -> Manipulability:
        """Set the threshold to the 10 % quantile of the manipulability."""
        scale = Scale.for_robot(robot, frame, rows)
        return cls(scale.lambda2, scale.manipulability)


@dataclass(frozen=True)
class ManipulabilityRate(KernelRule):
    """Damp while the manipulability falls fast, and a little where it is small.

        lambda2 = lambda2_max (1 - w/w_before)  if w/w_before < ratio, else 0

    w = sqrt(det(J Jᵀ)), and w_before is the value of w at the previous step. As printed, the rule
    does not damp in three cases: at the first step, while the robot stays at a singularity
    (w_before = 0), and when it leaves a singularity. To bound the motion in these cases, the larger
    of this λ² and that of `Manipulability(floor_lambda2, floor_threshold)` is used. λ² is
    discontinuous at the ratio.

    Attributes:
        lambda2_max: Damping if the manipulability vanishes within one step.
        ratio: Ratio of the manipulability to its previous value below which damping starts.
        floor_lambda2: `lambda2_max` of the manipulability rule.
        floor_threshold: `threshold` of the manipulability rule.

    References:
        Kelmar & Khosla 1988; Deo & Walker 1995, section 3, method 3.
    """

    rule = Rule.MANIPULABILITY_RATE
    lambda2_max: float = field(metadata=NOT_NEGATIVE)
    ratio: float = field(metadata=POSITIVE)
    floor_lambda2: float = field(metadata=NOT_NEGATIVE)
    floor_threshold: float = field(metadata=POSITIVE)

    def __call__(self, linearization: Linearization) -> float:  # noqa: D102
        floor = Manipulability(self.floor_lambda2, self.floor_threshold)(linearization)
        before = linearization.before.manipulability if linearization.before else 0.0
        if before <= 0:
            return floor
        ratio = linearization.manipulability / before
        return max(floor, self.lambda2_max * (1 - ratio) if ratio < self.ratio else 0.0)

    def reason(self, linearization: Linearization) -> str:  # noqa: D102
        lambda2, past = self(linearization), linearization.before
        name = "manipulability rate: "
        if past is not None and past.manipulability > 0:
            ratio = linearization.manipulability / past.manipulability
            if ratio < self.ratio and lambda2 == self.lambda2_max * (1 - ratio):
                return name + comparison("w/w_before", ratio, "ratio", self.ratio, lambda2)
        w = linearization.manipulability
        return name + comparison("w", w, "floor_threshold", self.floor_threshold, lambda2)

    @classmethod
    def for_robot(
        cls, robot: Robot, frame: FrameNames = None, rows: Rows = None, *, dt: float = 1.0
    ) -> ManipulabilityRate:
        """Return a rule that damps when a step reduces the manipulability by more than 1 %."""
        scale = Scale.for_robot(robot, frame, rows)
        return cls(scale.lambda2, 0.99, scale.lambda2, scale.manipulability)
