"""Criteria for redundant robots: costs h(q) to decrease in the null space of the tasks.

A criterion is called with q (n,) and returns the gradient ∇h (n,); `value(q)` returns h. The steps
of `supple.redundancy` move along -∇h; any callable that returns a gradient can serve as a
criterion. All values are finite everywhere: no criterion is an unbounded barrier.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from supple._arrays.checks import ReadOnlyArrays, as_doubles, number_field, real_numbers
from supple.collision.model import check_world, model_of
from supple.collision.world import World
from supple.damping.scale import Rows
from supple.errors import InputError, short_repr
from supple.kinematics import Robot
from supple.kinematics.configuration import (
    difference,
    gradient_of,
    in_balls,
    integrate,
    to_kernel,
)
from supple.kinematics.dynamics import GRAVITY, bodies, gravity_stiffness
from supple.kinematics.robot import FrameNames
from supple.motion.linearization import EPSILON, Array, numbers_of


class Criterion(Protocol):
    """A callable that returns the gradient ∇h (n,) at a configuration q (n,)."""

    def __call__(self, q: Array, /) -> ArrayLike:
        """Return ∇h (n,), finite."""
        ...


@dataclass(frozen=True, eq=False)
class RestPosture(ReadOnlyArrays):
    """A criterion to stay near a posture:  h = ½ Σ weight_i (q_i - q_rest_i)².

    For a ball joint, the difference is the rotation vector from the rest orientation to that of q.

    Attributes:
        q_rest: The rest posture (nq,) [rad or m].
        weight: One weight for all joints, or one per joint (n,); not negative.
        robot: The robot, which is needed only if a joint has a quaternion.

    References:
        Liégeois 1977; Wampler 1986, eq. (33).
    """

    q_rest: Array
    weight: Array | float = 1.0
    robot: Robot | None = None

    def __post_init__(self) -> None:
        rest = _vector(self.q_rest, "RestPosture: q_rest")
        shape = rest.shape
        if self.robot is not None:
            _check_robot(self, self.robot)
            rest, shape = _configuration(rest, self.robot.nq, "q_rest"), (self.robot.nv,)
        weight = numbers_of(self.weight, "RestPosture: weight")
        if weight.shape not in ((), shape) or (weight < 0).any():
            raise InputError(
                f"RestPosture: weight must be a number or {shape}, not negative; "
                f"given: {short_repr(self.weight)}"
            )
        object.__setattr__(self, "q_rest", rest)
        object.__setattr__(self, "weight", weight)

    def __call__(self, q: ArrayLike) -> Array:
        """Return ∇h (n,)."""
        away = self._away(q)
        gradient = np.asarray(self.weight * away)
        return gradient if self.robot is None else gradient_of(self.robot, away, gradient)

    def value(self, q: ArrayLike) -> float:
        """Return h."""
        away = self._away(q)
        return float((self.weight * away) @ away) / 2

    def _away(self, q: ArrayLike) -> Array:
        at = _configuration(q, len(self.q_rest))
        return np.asarray(difference(self.robot, at, self.q_rest))


@dataclass(frozen=True, eq=False)
class LimitDistance(ReadOnlyArrays):
    """A criterion to stay near the middle of the joints' ranges.

        h = 1/(2 k) Σ ((q_i - middle_i)/range_i)²        over the k joints with a range

    Joints with an infinite limit or with equal limits, and ball joints, do not contribute.
    If all joints are at a limit, h is 1/8; beyond the limits h continues to grow smoothly, so the
    criterion alone does not enforce limits.

    Attributes:
        lower: Lower joint limits (n,) [rad or m]; may be infinite.
        upper: Upper joint limits (n,) [rad or m]; may be infinite.
        robot: The robot, which is needed only if a joint has a quaternion.

    References:
        Liégeois 1977; Deo & Walker 1995, section 4.
    """

    lower: Array
    upper: Array
    robot: Robot | None = None

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            what = f"LimitDistance: {name} must be numbers (n,), finite or infinite"
            given = as_doubles(real_numbers(getattr(self, name), what))
            if given.ndim != 1 or np.isnan(given).any():
                raise InputError(f"{what}; given: {short_repr(getattr(self, name))}")
            given.flags.writeable = False
            object.__setattr__(self, name, given)
        if self.lower.shape != self.upper.shape or (self.lower > self.upper).any():
            raise InputError(
                "LimitDistance: lower must have the length of upper and not exceed it; "
                f"given: {short_repr(self.lower)} and {short_repr(self.upper)}"
            )
        if self.robot is not None:
            _check_robot(self, self.robot)
            if len(self.lower) != self.robot.nv:
                raise InputError(
                    f"LimitDistance: lower must be ({self.robot.nv},), a limit of each joint of "
                    f"{self.robot.name}; given: {self.lower.shape}"
                )

    @classmethod
    def for_robot(cls, robot: Robot) -> LimitDistance:
        """Return the criterion for the joint limits of a robot."""
        return cls(robot.lower, robot.upper, robot if robot.nq != robot.nv else None)

    def __call__(self, q: ArrayLike) -> Array:
        """Return ∇h (n,)."""
        middle, scale = self._scale
        return (self._positions(q) - middle) * scale

    def value(self, q: ArrayLike) -> float:
        """Return h."""
        middle, scale = self._scale
        return float(((self._positions(q) - middle) ** 2 * scale).sum()) / 2

    def _positions(self, q: ArrayLike) -> Array:
        """Return one position per limit (n,); positions of ball joints are not used."""
        at = _configuration(q, len(self.lower) if self.robot is None else self.robot.nq)
        return np.asarray(to_kernel(self.robot, at))

    @cached_property
    def _scale(self) -> tuple[Array, Array]:
        """The midpoints of the k finite joint ranges, and 1/(k range²); zero for other joints."""
        ranged = np.isfinite(self.lower) & np.isfinite(self.upper) & (self.lower < self.upper)
        if self.robot is not None:
            ranged &= ~in_balls(self.robot)
        lower, upper = np.where(ranged, self.lower, 0.0), np.where(ranged, self.upper, 0.0)
        room = np.where(ranged, upper - lower, 1.0)
        return (lower + upper) / 2, ranged / room**2 / max(1, ranged.sum())


@dataclass(frozen=True, eq=False)
class GravityTorque(ReadOnlyArrays):
    """A criterion to hold the robot's weight with small torques:  h = ½ Σ weight_i τ_i(q)².

    τ are the torques that hold the robot against gravity, computed from the masses of its links; a
    payload is added to the mass of a link (`Robot.with_inertia`). The gradient is exact:
    ∇h = (∂τ/∂q)ᵀ(weight τ).

    Attributes:
        robot: The robot, with masses.
        weight: One weight for all joints, or one per joint (n,), not negative. With 1/τ_max²,
            torques are measured relative to the maximum torque of each joint.
        gravity: Acceleration of free fall (3,) in world axes [m/s²].

    References:
        Hollerbach & Suh 1987; Deo & Walker 1995, section 4.
    """

    robot: Robot
    weight: Array | float = 1.0
    gravity: Array | tuple[float, float, float] = GRAVITY

    def __post_init__(self) -> None:
        bodies(self.robot)  # raises an error if masses are missing
        weight = numbers_of(self.weight, "GravityTorque: weight")
        if weight.shape not in ((), (self.robot.dof,)) or (weight < 0).any():
            raise InputError(
                f"GravityTorque: weight must be a number or ({self.robot.dof},), not negative; "
                f"given: {short_repr(self.weight)}"
            )
        gravity = numbers_of(self.gravity, "GravityTorque: gravity")
        if gravity.shape != (3,):
            raise InputError(
                f"GravityTorque: gravity must be (3,); given: {short_repr(self.gravity)}"
            )
        object.__setattr__(self, "weight", weight)
        object.__setattr__(self, "gravity", gravity)

    def __call__(self, q: ArrayLike) -> Array:
        """Return ∇h (n,)."""
        at = _configuration(q, self.robot.nq)
        stiffness = gravity_stiffness(self.robot, at, np.asarray(self.gravity))
        return np.asarray(stiffness @ (self.weight * self._torques(at)))

    def value(self, q: ArrayLike) -> float:
        """Return h."""
        torques = self._torques(_configuration(q, self.robot.nq))
        return float((self.weight * torques) @ torques) / 2

    def _torques(self, q: Array) -> Array:
        return np.asarray(self.robot.gravity_torques(q, gravity=self.gravity), np.float64)


@dataclass(frozen=True, eq=False)
class Manipulability:
    """A criterion to stay away from singularities:  h = -w,  w = sqrt(det(J Jᵀ)).

    w is Yoshikawa's manipulability. The gradient is computed by central differences with the step
    eps^(1/3) in one batched call, and is accurate to about 1e-9 of w where w is smooth. Where w is
    zero, w has a kink; there, central differences give the mean of the slopes on both sides, which
    is finite and often zero.

    Attributes:
        robot: The robot.
        frame: Name of a frame, or several; the end effectors if None.
        rows: The rows of J to use, among "x", "y", "z", "rx", "ry", "rz"; all if None. Rows that
            the robot can never move make w zero everywhere.

    References:
        Yoshikawa 1985; Deo & Walker 1995, section 4.
    """

    robot: Robot
    frame: FrameNames = None
    rows: Rows = None

    def __post_init__(self) -> None:
        _check_robot(self, self.robot)
        self.robot.manipulability(
            self.robot.neutral(), self.frame, rows=self.rows
        )  # checks the names

    def __call__(self, q: ArrayLike) -> Array:
        """Return ∇h (n,)."""
        n = self.robot.dof
        h = EPSILON ** (1 / 3)
        q = _configuration(q, self.robot.nq)
        both = np.stack(
            [integrate(self.robot, q, h * np.eye(n)), integrate(self.robot, q, -h * np.eye(n))]
        )
        w = np.asarray(self.robot.manipulability(both, self.frame, rows=self.rows))
        return np.asarray((w[1] - w[0]) / np.diagonal(difference(self.robot, both[0], both[1])))

    def value(self, q: ArrayLike) -> float:
        """Return h."""
        q = _configuration(q, self.robot.nq)
        return -float(self.robot.manipulability(q, self.frame, rows=self.rows))


@dataclass(frozen=True, eq=False)
class Clearance:
    """A criterion to push parts of the robot away from obstacles. It guarantees nothing.

        h = Σ ½ max(0, distance - d)²        over all pairs of shapes that the world checks

    Like every criterion, it acts only in the null space of the tasks: a hand that is commanded
    through an obstacle goes through it, and an arm of six joints that follows a pose has no null
    space. `Servo(robot, world=...)` does keep a clearance; a criterion may bend the elbow away
    before that is necessary. With the gain of a `NullSpace`, a joint at a lever r from a pair that
    is too close by x moves at about gain·x·r: the default gain of 1 does almost nothing, and 30 to
    100 suits an arm of a meter. docs/obstacles.md has an example.

    d is the signed distance of a pair, negative where two shapes overlap. If several points are
    equally close (parallel capsules), one of them determines the gradient.

    Attributes:
        robot: The robot.
        world: Obstacles and the shapes of the robot.
        distance: Distance below which a pair contributes [m].

    References:
        Maciejewski & Klein 1985; Deo & Walker 1995, section 4.
    """

    robot: Robot
    world: World
    distance: float

    def __post_init__(self) -> None:
        _check_robot(self, self.robot)
        number_field(self, "distance", least=0.0)
        model_of(self.robot, check_world(self.world, "Clearance: world"))

    def __call__(self, q: ArrayLike) -> Array:
        """Return ∇h (n,)."""
        return self._cost(q)[1]

    def value(self, q: ArrayLike) -> float:
        """Return h."""
        return self._cost(q)[0]

    def _cost(self, q: ArrayLike) -> tuple[float, Array]:
        at = _configuration(q, self.robot.nq)
        kernel = model_of(self.robot, self.world).kernel
        if kernel is None:
            return 0.0, np.zeros(self.robot.dof, dtype=np.float64)
        cost, gradient = kernel.cost(at, self.distance)
        return cost, np.asarray(gradient, dtype=np.float64)


def _vector(given: ArrayLike, name: str) -> Array:
    vector = numbers_of(given, name)
    if vector.ndim != 1 or len(vector) == 0:
        raise InputError(f"{name} must be a vector (n,); given: {short_repr(given)}")
    return vector


def _configuration(q: ArrayLike, n: int, name: str = "q") -> Array:
    vector = numbers_of(q, name)
    if vector.shape != (n,):
        raise InputError(f"{name} must be ({n},); given: {vector.shape}")
    return vector


def _check_robot(owner: object, robot: object) -> None:
    if not isinstance(robot, Robot):
        raise InputError(
            f"{type(owner).__name__}: robot must be a Robot; given: {short_repr(robot)}"
        )
