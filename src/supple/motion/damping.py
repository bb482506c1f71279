"""Every damping rule of the literature: a Linearization -> λ².

The damped step is  q̇ = Jᵀ(J Jᵀ + λ² I)⁻¹ e;  along each singular direction its gain is
σ/(σ² + λ²), at most 1/(2λ). A rule is a small frozen class that is called with a `Linearization`
and returns `lambda2`, or any callable of yours that does. The papers write λ², α², ρ² or, Deo &
Walker, plain λ for what is `lambda2` here.

Each class's `__call__` is the paper's formula. `kernel` gives the same rule to the compiled code
(`include/supple/damping.hpp`), which runs it on batches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Protocol

import numpy as np

from supple import _core
from supple._core import Rule
from supple.errors import InputError, short_repr
from supple.kinematics import Robot
from supple.kinematics.arrays import number, number_field
from supple.kinematics.robot import FrameNames
from supple.motion.linearization import EPSILON, Array, Linearization, numbers_of
from supple.motion.scale import Rows, Scale, reach


class DampingRule(Protocol):
    """What a damped step takes: anything that makes lambda2 of a linearization."""

    def __call__(self, linearization: Linearization, /) -> float:
        """Return lambda2, finite and not negative."""
        ...


# What a parameter may be: the bounds of `number`.
_NOT_NEGATIVE: dict[str, Any] = {"bounds": {"least": 0.0}}
_POSITIVE: dict[str, Any] = {"bounds": {"above": 0.0}}
_FRACTION: dict[str, Any] = {"bounds": {"above": 0.0, "below": 1.0}}
_ABOVE_ONE: dict[str, Any] = {"bounds": {"above": 1.0}}

# Of the search for the optimal damping: what rounding needs, and an end in any case.
_LEAST_TOLERANCE = 64 * EPSILON
_MOST_ITERATIONS = 201


@dataclass(frozen=True)
class KernelRule:
    """A rule that the kernel knows too: its numbers, in order, are the kernel's parameters."""

    rule: ClassVar[Rule]
    spectral: ClassVar[bool] = True  # whether it looks at singular values

    def __post_init__(self) -> None:
        for each in fields(self):
            if "bounds" in each.metadata:
                number_field(self, each.name, **each.metadata["bounds"])

    def __call__(self, linearization: Linearization) -> float:
        """Return lambda2: the paper's formula."""
        raise NotImplementedError

    def reason(self, linearization: Linearization) -> str:
        """Why lambda2 is what it is here, in one sentence."""
        raise NotImplementedError

    @property
    def kernel(self) -> _core.DampingSpec:
        """The rule and its parameters, for the compiled code."""
        numbers = [getattr(self, f.name) for f in fields(self) if "bounds" in f.metadata]
        return _core.DampingSpec(rule=self.rule, parameters=numbers)


def _because(what: str, value: float, limit: str, bound: float, lambda2: float) -> str:
    """As "sigma_min 0.003 is below 1/(2 max_gain) = 0.1, so lambda2 = 0.01"."""
    side = "below" if value < bound else "not below"
    return f"{what} {value:.3g} is {side} {limit} = {bound:.3g}, so lambda2 = {lambda2:.3g}"


@dataclass(frozen=True)
class Constant(KernelRule):
    """The same damping everywhere:  lambda2.

    Accuracy is lost everywhere too: each direction of the task is short by λ²/(σ² + λ²).

    Attributes:
        lambda2: λ², in the units of squared singular values.

    References:
        Wampler 1986, eqs. (34)-(37); Deo & Walker 1995, section 3, method 1.
    """

    rule = Rule.CONSTANT
    spectral = False
    lambda2: float = field(metadata=_NOT_NEGATIVE)

    def __call__(self, linearization: Linearization) -> float:  # noqa: D102
        return self.lambda2

    def reason(self, linearization: Linearization) -> str:  # noqa: D102
        return f"constant: lambda2 = {self.lambda2:.3g} everywhere"

    @classmethod
    def for_robot(cls, robot: Robot, frame: FrameNames = None, rows: Rows = None) -> Constant:
        """The damping that keeps gains under those of the robot's regular configurations."""
        return cls(Scale.of(robot, frame, rows).lambda2)


@dataclass(frozen=True)
class Manipulability(KernelRule):
    """Damp only where the manipulability is small.

        lambda2 = lambda2_max (1 - w/threshold)²  if w < threshold, else 0      w = sqrt(det(J Jᵀ))

    Zero away from singularities and continuous at the edge. The threshold has the units of w, so it
    depends on the robot's size: `for_robot` takes it from the robot itself.

    Attributes:
        lambda2_max: Damping at the singularity.
        threshold: The manipulability below which it damps.

    References:
        Nakamura & Hanafusa 1986; Deo & Walker 1995, section 3, method 2.
    """

    rule = Rule.MANIPULABILITY
    lambda2_max: float = field(metadata=_NOT_NEGATIVE)
    threshold: float = field(metadata=_POSITIVE)

    def __call__(self, linearization: Linearization) -> float:  # noqa: D102
        w = linearization.manipulability
        return self.lambda2_max * (1 - w / self.threshold) ** 2 if w < self.threshold else 0.0

    def reason(self, linearization: Linearization) -> str:  # noqa: D102
        w, lambda2 = linearization.manipulability, self(linearization)
        return "manipulability: " + _because("w", w, "threshold", self.threshold, lambda2)

    @classmethod
    def for_robot(cls, robot: Robot, frame: FrameNames = None, rows: Rows = None) -> Manipulability:
        """Damp the tenth of all configurations that is nearest to singularities."""
        scale = Scale.of(robot, frame, rows)
        return cls(scale.lambda2, scale.manipulability)


@dataclass(frozen=True)
class ManipulabilityRate(KernelRule):
    """Damp while the manipulability falls fast, and a little where it is small.

        lambda2 = lambda2_max (1 - w/w_before)  if w/w_before < ratio, else 0

    As printed the rule says nothing at the first step, where w_before is zero, while the robot is
    held at a singularity or when it leaves one. So the larger of this and of the manipulability
    rule with `floor_lambda2` and `floor_threshold` is taken, which bounds the motion there. Jumps
    at the ratio.

    Attributes:
        lambda2_max: Damping when the manipulability vanishes within one step.
        ratio: Of the manipulability to the one before, below which it damps.
        floor_lambda2: `lambda2_max` of the manipulability rule.
        floor_threshold: `threshold` of the manipulability rule.

    References:
        Kelmar & Khosla 1988; Deo & Walker 1995, section 3, method 3.
    """

    rule = Rule.MANIPULABILITY_RATE
    lambda2_max: float = field(metadata=_NOT_NEGATIVE)
    ratio: float = field(metadata=_POSITIVE)
    floor_lambda2: float = field(metadata=_NOT_NEGATIVE)
    floor_threshold: float = field(metadata=_POSITIVE)

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
                return name + _because("w/w_before", ratio, "ratio", self.ratio, lambda2)
        w = linearization.manipulability
        return name + _because("w", w, "floor_threshold", self.floor_threshold, lambda2)

    @classmethod
    def for_robot(
        cls, robot: Robot, frame: FrameNames = None, rows: Rows = None
    ) -> ManipulabilityRate:
        """Act when a step takes more than a hundredth of the manipulability."""
        scale = Scale.of(robot, frame, rows)
        return cls(scale.lambda2, 0.99, scale.lambda2, scale.manipulability)


@dataclass(frozen=True)
class ErrorDamped(KernelRule):
    """Damping that grows with the task error:  lambda2 = gain ‖e‖².

    Vanishes as the target is reached; large errors far from any singularity are damped as well.

    Attributes:
        gain: λ² over ‖e‖², e as the step is given it: a velocity in a `Servo`.

    References:
        Chan & Lawrence 1988; Deo & Walker 1995, eq. (5).
    """

    rule = Rule.ERROR
    spectral = False
    gain: float = field(metadata=_NOT_NEGATIVE)

    def __call__(self, linearization: Linearization) -> float:  # noqa: D102
        return self.gain * float(linearization.e @ linearization.e)

    def reason(self, linearization: Linearization) -> str:  # noqa: D102
        lambda2, e = self(linearization), float(np.linalg.norm(linearization.e))
        return f"error damped: the task vector is {e:.3g} long, so lambda2 = {lambda2:.3g}"

    @classmethod
    def for_robot(cls, robot: Robot, frame: FrameNames = None, rows: Rows = None) -> ErrorDamped:
        """The full damping of `Constant.for_robot` at an error of a tenth of the reach."""
        scale = Scale.of(robot, frame, rows)
        return cls(scale.lambda2 / (0.1 * scale.reach) ** 2)


@dataclass(frozen=True)
class SpeedBound(KernelRule):
    """The least damping that keeps  ‖q̇‖ <= max_gain ‖e‖  for every e.

        lambda2 = 0                        if σ >= 1/max_gain,   σ the least singular value
                  σ/max_gain - σ²          if σ >= 1/(2 max_gain)
                  1/(4 max_gain²)          below

    The papers print only the first two cases; without the third the bound fails at small σ, where
    the gain σ/(σ² + λ²) peaks between singular values.

    Attributes:
        max_gain: Joint speed for each unit of the task's [rad per m or rad].

    References:
        Maciejewski & Klein 1988, eq. (14); Deo & Walker 1995, eq. (6), with the third case added.
    """

    rule = Rule.SPEED_BOUND
    max_gain: float = field(metadata=_POSITIVE)

    def __call__(self, linearization: Linearization) -> float:  # noqa: D102
        sigma, edge = linearization.sigma_min, 1 / self.max_gain
        if sigma >= edge:
            return 0.0
        return sigma * (edge - sigma) if 2 * sigma >= edge else edge**2 / 4

    def reason(self, linearization: Linearization) -> str:  # noqa: D102
        sigma, edge, lambda2 = linearization.sigma_min, 1 / self.max_gain, self(linearization)
        limit, bound = ("1/(2 max_gain)", edge / 2) if 2 * sigma < edge else ("1/max_gain", edge)
        return "speed bound: " + _because("sigma_min", sigma, limit, bound, lambda2)

    @classmethod
    def for_robot(cls, robot: Robot, frame: FrameNames = None, rows: Rows = None) -> SpeedBound:
        """The gain that nine tenths of all configurations keep by themselves."""
        return cls(1 / Scale.of(robot, frame, rows).sigma)


@dataclass(frozen=True)
class TrackingBound(KernelRule):
    """The most damping that keeps the relative tracking error within max_error.

        lambda2 = σ_r² max_error/(1 - max_error)         σ_r the smallest singular value above zero

    Speaks of the part of e that the robot can do: what lies outside the range of J is lost anyway.
    Does not bound speeds, and jumps where rank is lost.

    Attributes:
        max_error: The share of e that may be left undone, between 0 and 1.

    References:
        Maciejewski & Klein 1988, eq. (16); Deo & Walker 1995, eq. (7).
    """

    rule = Rule.TRACKING_BOUND
    max_error: float = field(default=0.05, metadata=_FRACTION)

    def __call__(self, linearization: Linearization) -> float:  # noqa: D102
        rank = max(1, linearization.rank)
        return float(linearization.sigma[rank - 1]) ** 2 * self.max_error / (1 - self.max_error)

    def reason(self, linearization: Linearization) -> str:  # noqa: D102
        sigma, lambda2 = linearization.sigma[max(1, linearization.rank) - 1], self(linearization)
        allowed = f"an error of {self.max_error:.3g} is allowed"
        least = f"least sigma above 0 is {sigma:.3g}"
        return f"tracking bound: {least} and {allowed}, so lambda2 = {lambda2:.3g}"

    @classmethod
    def for_robot(cls, robot: Robot, frame: FrameNames = None, rows: Rows = None) -> TrackingBound:
        """A relative error of 0.05: it has no scale."""
        return cls()


@dataclass(frozen=True)
class ConditionBound(KernelRule):
    """The least damping that keeps the condition number of J Jᵀ + λ² I within max_condition.

        lambda2 = max(0, (σ_1² - max_condition σ_n²)/(max_condition - 1))

    Where J has more rows than columns, that of JᵀJ + λ² I, which is the smaller one then.

    Attributes:
        max_condition: Of the damped matrix, whose condition is a square: above 1.

    References:
        Maciejewski & Klein 1988, eq. (18); Deo & Walker 1995, eq. (8), where max(0, .) is missing.
    """

    rule = Rule.CONDITION_BOUND
    max_condition: float = field(metadata=_ABOVE_ONE)

    def __call__(self, linearization: Linearization) -> float:  # noqa: D102
        large, small = float(linearization.sigma[0]) ** 2, linearization.sigma_min**2
        return max(0.0, (large - self.max_condition * small) / (self.max_condition - 1))

    def reason(self, linearization: Linearization) -> str:  # noqa: D102
        sigma, lambda2 = linearization.sigma_min, self(linearization)
        bound = float(linearization.sigma[0]) / math.sqrt(self.max_condition)
        limit = "sigma_max/sqrt(max_condition)"
        return "condition bound: " + _because("sigma_min", sigma, limit, bound, lambda2)

    @classmethod
    def for_robot(cls, robot: Robot, frame: FrameNames = None, rows: Rows = None) -> ConditionBound:
        """The condition that nine tenths of all configurations keep by themselves."""
        scale = Scale.of(robot, frame, rows)
        return cls(1.01 * (scale.largest / scale.sigma) ** 2)


@dataclass(frozen=True)
class Region(KernelRule):
    """Damp inside a region around singularities, losing accuracy in a direction of your choice.

        lambda2 = lambda2_max (1 - (σ/size)²)            if σ < size, else 0
        w       = 1 - (1 - min_weight) sqrt(1 - (σ/size)²)  likewise, else 1

    A step weights the task by W = I + (w - 1) d dᵀ, so that the direction d gives way first. σ is
    the least singular value of the unweighted J. Without a direction the weight is not used.

    Attributes:
        lambda2_max: Damping at the singularity.
        size: The least singular value at the edge of the region.
        direction: d (m,), made a unit vector; None for no weighting.
        min_weight: w at the singularity, above 0.

    References:
        Chiaverini, Egeland & Kanestrom 1991; Deo & Walker 1995, section 3, method 6.
    """

    rule = Rule.REGION
    lambda2_max: float = field(metadata=_NOT_NEGATIVE)
    size: float = field(metadata=_POSITIVE)
    direction: tuple[float, ...] | None = None
    min_weight: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        number_field(self, "min_weight", above=0.0, most=1.0)
        if self.direction is not None:
            d = numbers_of(self.direction, "Region: direction")
            if d.ndim != 1 or not d.any():
                given = short_repr(self.direction)
                raise InputError(f"Region: direction must be a vector, not zero; given: {given}")
            d = d / np.abs(d).max()  # so that squares neither overflow nor vanish
            object.__setattr__(self, "direction", tuple((d / np.linalg.norm(d)).tolist()))

    def __call__(self, linearization: Linearization) -> float:  # noqa: D102
        return self.lambda2_max * self._depth(linearization)

    def weight(self, linearization: Linearization) -> Array:
        """The task weight W (m, m)."""
        m = len(linearization.e)
        if self.direction is None:
            return np.eye(m)
        if len(self.direction) != m:
            raise InputError(f"Region: direction must have {m} entries; given: {self.direction}")
        w = 1 - (1 - self.min_weight) * math.sqrt(self._depth(linearization))
        return np.eye(m) + (w - 1) * np.outer(self.direction, self.direction)

    def _depth(self, linearization: Linearization) -> float:
        """From 0 at the edge of the region to 1 at the singularity."""
        sigma = linearization.sigma_min
        return 1 - (sigma / self.size) ** 2 if sigma < self.size else 0.0

    def reason(self, linearization: Linearization) -> str:  # noqa: D102
        sigma, lambda2 = linearization.sigma_min, self(linearization)
        return "region: " + _because("sigma_min", sigma, "size", self.size, lambda2)

    @classmethod
    def for_robot(cls, robot: Robot, frame: FrameNames = None, rows: Rows = None) -> Region:
        """A region that holds a tenth of all configurations."""
        scale = Scale.of(robot, frame, rows)
        return cls(scale.lambda2, scale.sigma)


@dataclass(frozen=True)
class MayorgaCondition(KernelRule):
    """Damp where the condition number is above a threshold.

        lambda2 = lambda2_0 (1 - l)²  if l > 1, else 0            l = cond(J Jᵀ)/max_condition

    As printed it is circular (cond depends on λ) and unbounded: here cond is that of the undamped
    matrix and lambda2 is capped at lambda2_max.

    Attributes:
        lambda2_0: Factor of the formula.
        max_condition: Of J Jᵀ, beyond which it damps: above 1.
        lambda2_max: The most damping.

    References:
        Mayorga, Wong & Milano 1992; Deo & Walker 1995, section 3, method 7, first form.
    """

    rule = Rule.MAYORGA_CONDITION
    lambda2_0: float = field(metadata=_POSITIVE)
    max_condition: float = field(metadata=_ABOVE_ONE)
    lambda2_max: float = field(metadata=_NOT_NEGATIVE)

    def __call__(self, linearization: Linearization) -> float:  # noqa: D102
        large, small = float(linearization.sigma[0]) ** 2, linearization.sigma_min**2
        if large <= small * self.max_condition:
            return 0.0
        l = large / small / self.max_condition if small > 0 else math.inf  # noqa: E741
        return min(self.lambda2_0 * (1 - l) * (1 - l), self.lambda2_max)

    def reason(self, linearization: Linearization) -> str:  # noqa: D102
        sigma, lambda2 = linearization.sigma_min, self(linearization)
        bound = float(linearization.sigma[0]) / math.sqrt(self.max_condition)
        limit = "sigma_max/sqrt(max_condition)"
        return "Mayorga, condition: " + _because("sigma_min", sigma, limit, bound, lambda2)

    @classmethod
    def for_robot(
        cls, robot: Robot, frame: FrameNames = None, rows: Rows = None
    ) -> MayorgaCondition:
        """Act beyond the condition that nine tenths of all configurations keep by themselves."""
        scale = Scale.of(robot, frame, rows)
        return cls(scale.lambda2, 1.01 * (scale.largest / scale.sigma) ** 2, scale.lambda2)


@dataclass(frozen=True)
class MayorgaRank(KernelRule):
    """Damp where the next step may lose rank.

        lambda2 = lambda2_0 (1 - l)²  if l > 1, else 0            l = ‖J - J_before‖/σ_min

    A change of J that is smaller than σ_min cannot make it singular. Capped at lambda2_max, since l
    is unbounded. Zero at the first step.

    Attributes:
        lambda2_0: Factor of the formula.
        lambda2_max: The most damping.

    References:
        Mayorga, Wong & Milano 1992; Deo & Walker 1995, section 3, method 7, second form.
    """

    rule = Rule.MAYORGA_RANK
    lambda2_0: float = field(metadata=_POSITIVE)
    lambda2_max: float = field(metadata=_NOT_NEGATIVE)

    def __call__(self, linearization: Linearization) -> float:  # noqa: D102
        change, sigma = linearization.change, linearization.sigma_min
        if change <= sigma:
            return 0.0
        l = change / sigma if sigma > 0 else math.inf  # noqa: E741
        return min(self.lambda2_0 * (1 - l) * (1 - l), self.lambda2_max)

    def reason(self, linearization: Linearization) -> str:  # noqa: D102
        sigma, lambda2 = linearization.sigma_min, self(linearization)
        limit = "the change of J"
        return "Mayorga, rank: " + _because(
            "sigma_min", sigma, limit, linearization.change, lambda2
        )

    @classmethod
    def for_robot(cls, robot: Robot, frame: FrameNames = None, rows: Rows = None) -> MayorgaRank:
        """Damping on the robot's own scale."""
        lambda2 = Scale.of(robot, frame, rows).lambda2
        return cls(lambda2, lambda2)


@dataclass(frozen=True)
class Optimal(KernelRule):
    """The least damping that keeps  ‖q̇‖ <= max_speed,  strictly and at every configuration.

        lambda2 = 0 if the pseudoinverse obeys, else the root of
        φ(lambda2) = max_speed,         φ = sqrt(Σ (σ_i γ_i/(σ_i² + lambda2))²),  γ = Uᵀe

    Found by Newton's method on 1/φ from a lower bound, which takes a few steps at any distance from
    a singularity, or on φ itself (`newton=True`) from near zero, whose number of steps grows with
    that distance. Singular values that are zero to working precision ask for no motion. The result
    is a little under the bound, by more than rounding takes away. Minimises ‖e - J q̇‖ among all q̇
    within the bound. Where a singular value passes through zero, q̇ changes its sign along that
    direction: λ² is continuous there, q̇ is bounded and is not.

    Attributes:
        max_speed: The bound Δ on the norm of q̇ [rad/s and m/s mixed].
        newton: Solve φ = Δ instead of 1/φ = 1/Δ.

    References:
        Deo & Walker 1995, eqs. (9)-(18).
    """

    rule = Rule.OPTIMAL
    max_speed: float = field(metadata=_POSITIVE)
    newton: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.newton, bool):
            raise InputError(
                f"Optimal: newton must be True or False; given: {short_repr(self.newton)}"
            )

    def __call__(self, linearization: Linearization) -> float:  # noqa: D102
        return self.solve(linearization)[0]

    def solve(
        self,
        linearization: Linearization,
        start: float | None = None,
        *,
        tolerance: float = _LEAST_TOLERANCE,
        from_zero: bool = False,
    ) -> tuple[float, int]:
        """Return lambda2 and the number of Newton steps it took.

        A `start` near the result, as the lambda2 of the step before, saves steps. Any other costs
        one at most: both functions are such that Newton's step from beyond the root lands below.

        Args:
            linearization: What is to be damped.
            start: Where to begin; a lower bound, unless something is known.
            tolerance: How far under the bound ‖q̇‖ may end, relative to it: never above it.
            from_zero: Begin at zero, as printed, instead of at the lower bound. `newton` always
                does.
        """
        if start is not None:
            start = number(start, "Optimal: start", least=0.0)
        slack = max(number(tolerance, "Optimal: tolerance", least=0.0, below=1.0), _LEAST_TOLERANCE)
        sigma = linearization.sigma[: linearization.rank]
        gamma = np.abs(linearization.gamma[: len(sigma)])
        if not gamma.any():
            return 0.0, 0
        # With σ, γ and φ relative to σ_1, the largest γ and Δ nothing overflows: lambda2 is then
        # x times the unit, φ is sqrt(Σ (s c/(beta s² + x))²).
        largest, unit = float(sigma[0]), float(gamma.max()) / self.max_speed
        s, c, beta = sigma / largest, gamma / gamma.max(), largest / unit
        # No term alone may be above 1: x is at least this. Newton starts near zero, as printed.
        lower = max(0.0, float((s * (c - beta * s)).max()))
        lower *= EPSILON**2 if self.newton or from_zero else 1
        x = lower
        if start is not None:  # φ is at most ‖Jᵀe‖/lambda2
            x = max(lower, min(float(start) / unit / largest, float(np.linalg.norm(s * c))))
        for iteration in range(_MOST_ITERATIONS):
            terms = (s * c / (beta * s**2 + x)) ** 2
            phi = math.sqrt(terms.sum())
            beyond = iteration == 0 and x > lower and phi < 1 - 1.5 * slack
            enough = 1 - (slack if x > 0 else _LEAST_TOLERANCE) / 2  # undamped: if it obeys
            if phi <= enough and not beyond:
                break
            over_slope = terms.sum() / (terms / (beta * s**2 + x)).sum()  # φ/|φ'|
            aim = 1 - slack  # a little lower, so that rounding does not end the search
            x = max(lower, x + float((phi - aim) * over_slope / (phi if self.newton else aim)))
        return x * unit * largest, iteration

    @property
    def kernel(self) -> _core.DampingSpec:  # noqa: D102
        rule = Rule.OPTIMAL_NEWTON if self.newton else Rule.OPTIMAL
        return _core.DampingSpec(rule=rule, parameters=[self.max_speed])

    def reason(self, linearization: Linearization) -> str:  # noqa: D102
        some = slice(linearization.rank)
        speed = float(np.linalg.norm(linearization.gamma[some] / linearization.sigma[some]))
        lambda2 = self(linearization)
        side = "above" if lambda2 > 0 else "within"
        asked = f"undamped speed {speed:.3g} is {side} max_speed = {self.max_speed:.3g}"
        return f"optimal: {asked}, so lambda2 = {lambda2:.3g}"

    @classmethod
    def for_robot(cls, robot: Robot, frame: FrameNames = None, rows: Rows = None) -> Optimal:
        """The slowest joint's speed limit, so that every joint keeps its own; else 1 rad/s."""
        speeds = robot.max_speed[np.isfinite(robot.max_speed)]
        return cls(float(speeds.min()) if len(speeds) else 1.0)


@dataclass(frozen=True)
class Curvature(KernelRule):
    """The least damping that keeps a step from overshooting:  σ² + λ² >= curvature ‖e‖.

        lambda2 = max(0, curvature ‖e‖ - σ²),           σ the least singular value

    J promises that a direction about to be lost still moves the task; a little farther it does not,
    since the task curves away. Where e pulls at such a direction (a target out of reach), the
    undamped step overshoots the point of farthest reach, comes back, and so on for ever. The second
    derivative of ½‖e‖² there is σ² + κ‖e‖, where κ [m/rad] is the curvature of the reach: with it
    in place of σ² the step goes there and stays. So arms come to rest at targets out of reach, and
    nothing is lost where σ² > κ‖e‖, which is nearly everywhere.

    Attributes:
        curvature: κ, for e a displacement; κ dt, for e a velocity and steps of dt.

    References:
        Ours: the term that Gauss and Newton's method leaves out, on the direction that needs it.
    """

    rule = Rule.CURVATURE
    curvature: float = field(metadata=_NOT_NEGATIVE)

    def __call__(self, linearization: Linearization) -> float:  # noqa: D102
        pull = self.curvature * float(np.linalg.norm(linearization.e))
        return max(0.0, pull - linearization.sigma_min**2)

    def reason(self, linearization: Linearization) -> str:  # noqa: D102
        pull = self.curvature * float(np.linalg.norm(linearization.e))
        square, lambda2 = linearization.sigma_min**2, self(linearization)
        return "curvature: " + _because("sigma_min²", square, "curvature ‖e‖", pull, lambda2)

    @classmethod
    def for_robot(
        cls, robot: Robot, frame: FrameNames = None, rows: Rows = None, *, dt: float = 1.0
    ) -> Curvature:
        """Half the reach: two links of lengths a, b have κ = a b/(a + b), a quarter at most.

        `dt` is the length of a step [s] where e is a velocity, 1 where it is a displacement.
        """
        return cls(0.5 * reach(robot, frame) * dt)


@dataclass(frozen=True)
class ErrorNorm(KernelRule):
    """Damping that grows with the length of the task error:  lambda2 = gain ‖e‖.

    Vanishes as the target is reached, slowly enough to hold where J loses rank on the way, and fast
    enough that convergence is that of Newton's method: the default of `solve`.

    Attributes:
        gain: λ² over ‖e‖ [m], e a displacement.

    References:
        Fan & Yuan 2005: Levenberg and Marquardt's method with the damping ‖e‖, or ‖e‖² as in
        `ErrorDamped`, converges quadratically even where solutions are not isolated.
    """

    rule = Rule.ERROR_NORM
    spectral = False
    gain: float = field(metadata=_NOT_NEGATIVE)

    def __call__(self, linearization: Linearization) -> float:  # noqa: D102
        return self.gain * float(np.linalg.norm(linearization.e))

    def reason(self, linearization: Linearization) -> str:  # noqa: D102
        lambda2, e = self(linearization), float(np.linalg.norm(linearization.e))
        return f"error norm: the task vector is {e:.3g} long, so lambda2 = {lambda2:.3g}"

    @classmethod
    def for_robot(cls, robot: Robot, frame: FrameNames = None, rows: Rows = None) -> ErrorNorm:
        """A two-hundredth of the reach."""
        return cls(0.005 * reach(robot, frame))


RULES = (
    Constant,
    Manipulability,
    ManipulabilityRate,
    ErrorDamped,
    SpeedBound,
    TrackingBound,
    ConditionBound,
    Region,
    MayorgaCondition,
    MayorgaRank,
    Optimal,
    Curvature,
    ErrorNorm,
)
