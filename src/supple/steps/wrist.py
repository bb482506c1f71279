"""Arms with a spherical wrist: two small damped problems instead of one large problem."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supple.damping import Constant, DampingRule
from supple.damping.scale import Scale
from supple.errors import InputError, short_repr
from supple.kinematics import Robot
from supple.motion.linearization import Array, Linearization
from supple.motion.readable import Readable
from supple.steps.basic import DLS

WRIST = 3  # number of joints of a wrist
SAMPLES = 64  # number of configurations at which the axes are checked
ROUNDING = 1e-9  # distance up to which axes count as intersecting, as a fraction of the reach


@dataclass(frozen=True, repr=False)
class SphericalWrist(Readable):
    """A pose step for arms whose last three axes intersect in one point c, the wrist center.

        A q̇_a = v + w × (c - p)        damped by `arm`:   the first joints move the center
        B q̇_b = w - C q̇_a              damped by `wrist`: the last three joints turn the tool

    [v; w] is the task at the tool point p, A (3, n - 3) the Jacobian of the center's velocity with
    respect to the first joints, C (3, n - 3) the Jacobian of the angular velocity, and B (3, 3)
    holds the axes of the wrist. Two 3 × 3 problems cost a third of a 6 × 6 problem. Lengths and
    angles are never compared, so each problem has its own damping.

    Away from singularities and without damping, the step equals J⁻¹ [v; w]. With damping it is
    *not* the damped solution of the whole problem: the wrist does not compensate for the error of
    the arm, and the error of the center propagates to the tool. `tests/motion/test_wrist.py`
    measures the difference for a PUMA, with λ = α for the wrist and α times the reach for the arm:
    the median over configurations is 0.7 % at α = 0.01, 21 % at 0.1 and 66 % at 0.5. Each part
    stays bounded at its own singularities:
    ‖q̇_a‖ <= ‖v + w × (c - p)‖/(2 λ_arm), and correspondingly for the wrist.

    `SphericalWrist.for_robot` checks that the robot has a spherical wrist. The center c is computed
    from J, so the task may use any axes.

    Attributes:
        arm: Damping rule of the first joints; its singular values are in meters.
        wrist: Damping rule of the last three joints; its singular values are in radians.

    References:
        Wampler 1986, "Unique Solution" and "Remarks"; Featherstone 1983; Hollerbach & Sahar 1983.
    """

    arm: DampingRule
    wrist: DampingRule

    @classmethod
    def for_robot(
        cls,
        robot: Robot,
        frame: str | None = None,
        *,
        arm: DampingRule | None = None,
        wrist: DampingRule | None = None,
    ) -> SphericalWrist:
        """Return the step for a robot.

        Args:
            robot: A robot with a spherical wrist.
            frame: Name of the controlled frame; the end effector if None.
            arm: Damping rule of the first joints; λ = 0.1 times the reach if None.
            wrist: Damping rule of the last three joints; λ = 0.1 rad if None.

        Raises:
            InputError: The last three joints that move the frame are not revolute joints whose axes
                intersect in one point at every configuration.
        """
        J = robot.jacobian(robot.random(SAMPLES, seed=0), frame)
        if J.ndim != 3 or J.shape[-1] <= WRIST:
            raise InputError(
                f"SphericalWrist takes one frame, moved by more than {WRIST} joints; given: "
                f"{robot!r} and {short_repr(frame)}"
            )
        if not (np.linalg.norm(J[:, 3:, -WRIST:], axis=1) > 0.5).all():
            raise InputError(
                "SphericalWrist takes a robot whose last three joints are revolute; given: "
                f"{robot!r}, {', '.join(robot.joint_names[-WRIST:])}"
            )
        reach = Scale.for_robot(robot, frame).reach
        missed = max(_missed(each) for each in J)
        if missed > ROUNDING * reach:
            raise InputError(
                "SphericalWrist takes a robot whose last three axes intersect in one point; given: "
                f"{robot!r}, whose axes miss the point nearest to all by {missed:.4g} m"
            )
        return cls(arm or Constant((0.1 * reach) ** 2), wrist or Constant(0.1**2))

    def __post_init__(self) -> None:
        for rule in (self.arm, self.wrist):
            DLS(rule)  # checks the rule

    def __call__(self, linearization: Linearization) -> Array:  # noqa: D102
        J, e = linearization.single().J, linearization.e
        if len(e) != 6 or J.shape[1] <= WRIST:
            raise InputError(
                "SphericalWrist takes the six rows of a pose and more than three joints; "
                f"given: J {J.shape}"
            )
        to_center = -_arm_of(J)
        at_center = J[:3] + np.cross(J[3:], to_center[:, None], axis=0)
        v = e[:3] + np.cross(e[3:], to_center)
        first = DLS(self.arm)(Linearization(at_center[:, :-WRIST], v))
        left = e[3:] - J[3:, :-WRIST] @ first
        last = DLS(self.wrist)(Linearization(J[3:, -WRIST:], left))
        return np.concatenate([first, last])


def _arm_of(J: Array) -> Array:
    """Return the vector from the point nearest to the last three axes to the tool point.

    This vector r is the least-squares solution of v = w × r over the three axes, and is unique if
    two of the axes are not parallel.
    """
    v, w = J[:3, -WRIST:].T, J[3:, -WRIST:].T
    normal = np.sum(w * w) * np.eye(3) - w.T @ w
    result: Array = np.linalg.lstsq(normal, -np.cross(w, v).sum(axis=0), rcond=1e-12)[0]
    return result


def _missed(J: Array) -> float:
    """Return the largest distance [m] of the last three axes from the point of `_arm_of`."""
    v, w = J[:3, -WRIST:].T, J[3:, -WRIST:].T
    off = np.linalg.norm(v - np.cross(w, _arm_of(J)), axis=1) / np.linalg.norm(w, axis=1)
    return float(off.max())
