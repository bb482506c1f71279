"""Arms with a spherical wrist: two small damped problems instead of a large one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supple.errors import InputError, short_repr
from supple.kinematics import Robot
from supple.motion.damping import Constant, DampingRule
from supple.motion.linearization import Array, Linearization
from supple.motion.scale import Scale
from supple.motion.step import DLS

WRIST = 3  # joints
LOOKS = 64  # configurations at which the axes are looked at
ROUNDING = 1e-9  # of the reach: axes that miss by less than this meet


@dataclass(frozen=True)
class SphericalWrist:
    """A pose step for arms whose last three axes meet in one point c, the wrist's centre.

        A q̇_a = v + w × (c - p)        damped by `arm`:   the other joints carry the centre
        B q̇_b = w - C q̇_a              damped by `wrist`: the last three turn the tool

    with the task [v; w] at the tool's point p, A (3, n - 3) the velocities of the centre, C those
    of turning by the same joints, B (3, 3) the axes of the wrist. Two 3 × 3 problems cost a third
    of a 6 × 6 one. Lengths and angles are never compared, so each problem has a damping of its own.

    Away from singularities and without damping this is the inverse of J. Damped, it is *not* the
    damped solution of the whole: what the arm fails to do is not made up for by the wrist, and the
    error of the centre reaches the tool. `tests/motion/test_wrist.py` measures by how much: for
    PUMA's median configuration 0.7 % at α = 0.01, 21 % at 0.1, 66 % at 0.5. Each part stays
    bounded at its own singularities: ‖q̇_a‖ <= ‖v + w × (c - p)‖/(2 λ_arm), and likewise for the
    wrist.

    Made by `SphericalWrist.of`, which looks whether the robot has such a wrist. Where c is comes
    from J itself, so the task's axes may be any.

    Attributes:
        arm: Damping rule of the first joints; in metres.
        wrist: Damping rule of the last three; in radians.

    References:
        Wampler 1986, section VII; Featherstone 1983; Hollerbach & Sahar 1983.
    """

    arm: DampingRule
    wrist: DampingRule

    @classmethod
    def of(
        cls,
        robot: Robot,
        frame: str | None = None,
        *,
        arm: DampingRule | None = None,
        wrist: DampingRule | None = None,
    ) -> SphericalWrist:
        """The step for a robot; by default with λ = 0.1 of the reach, and 0.1 rad.

        Raises:
            InputError: the last three joints that move the frame are not three that turn about axes
                which meet in one point at every configuration.
        """
        J = robot.jacobian(robot.random(LOOKS, seed=0), frame)
        if J.ndim != 3 or J.shape[-1] <= WRIST:
            raise InputError(
                f"SphericalWrist takes one frame, moved by more than {WRIST} joints; given: "
                f"{robot!r} and {short_repr(frame)}"
            )
        if not (np.linalg.norm(J[:, 3:, -WRIST:], axis=1) > 0.5).all():
            raise InputError(
                "SphericalWrist takes a robot whose last three joints turn the frame; given: "
                f"{robot!r}, {', '.join(robot.joint_names[-WRIST:])}"
            )
        reach = Scale.of(robot, frame).reach
        missed = max(_missed(each) for each in J)
        if missed > ROUNDING * reach:
            raise InputError(
                "SphericalWrist takes a robot whose last three axes meet in one point; given: "
                f"{robot!r}, whose axes pass the point nearest to all at {missed:.4g} m"
            )
        return cls(arm or Constant((0.1 * reach) ** 2), wrist or Constant(0.1**2))

    def __post_init__(self) -> None:
        for rule in (self.arm, self.wrist):
            DLS(rule)  # refuses what is no rule

    def __call__(self, linearization: Linearization) -> Array:  # noqa: D102
        J, e = linearization.J, linearization.e
        if len(e) != 6 or J.shape[1] <= WRIST:
            raise InputError(
                "SphericalWrist takes tasks of a pose, [v; w], and more than three joints; "
                f"given: J {J.shape}"
            )
        to_centre = -_arm_of(J)
        at_centre = J[:3] + np.cross(J[3:], to_centre[:, None], axis=0)
        v = e[:3] + np.cross(e[3:], to_centre)
        first = DLS(self.arm)(Linearization(at_centre[:, :-WRIST], v))
        left = e[3:] - J[3:, :-WRIST] @ first
        last = DLS(self.wrist)(Linearization(J[3:, -WRIST:], left))
        return np.concatenate([first, last])


def _arm_of(J: Array) -> Array:
    """From the point nearest to the last three axes to the tool's point: least squares of
    v = w × r over the three. Two axes that are not parallel suffice.
    """
    v, w = J[:3, -WRIST:].T, J[3:, -WRIST:].T
    normal = np.sum(w * w) * np.eye(3) - w.T @ w
    result: Array = np.linalg.lstsq(normal, -np.cross(w, v).sum(axis=0), rcond=1e-12)[0]
    return result


def _missed(J: Array) -> float:
    """How far the farthest of the last three axes is from that point [m]."""
    v, w = J[:3, -WRIST:].T, J[3:, -WRIST:].T
    off = np.linalg.norm(v - np.cross(w, _arm_of(J)), axis=1) / np.linalg.norm(w, axis=1)
    return float(off.max())
