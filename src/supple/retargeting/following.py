"""The motion of a robot that follows targets: the kernel's loop, and the shapes it keeps apart.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

import numpy as np

from supple import _core
from supple.motion.limits import Limits, limits_spec
from supple.motion.linearization import Array
from supple.retargeting.mapping import Mapping

POSTURE, GAIN = 0.06, 20.0  # weight of the neutral posture, and gain of all other errors [1/s]
SMOOTH = 0.1  # weight of the change of the velocities
HOLD = 2000.0  # factor of the weights of a foot that stands
LANDING = 0.5  # exponent of this factor for a foot that is about to stand, or has just stood
TOUCH = 5e-5  # error above which a foot is held where it lands, not at its target [m or rad]
# Rows that keep pairs of shapes apart. NEAR, REACH: distance below which a pair has a row, if it is
# at rest, and if it moves fast [m]. SPARE: distance kept beyond the clearance [m]. APPROACH: part
# of the remaining distance that a pair may lose in 1/120 s. OUT: part of a missing distance that it
# should gain in 1/120 s. APART: largest speed at which a row separates a pair [m/s]. CONTACT:
# weight of a row [1/m].
NEAR = 0.02
REACH, SPARE, APPROACH, OUT, APART, CONTACT = 0.15, 5e-4, 0.15, 0.3, 1.0, 60.0
SUDDEN = 0.005  # rows that the displacement of the last 1/120 s meets by more are left out [m]


class Following:
    """A loop of the kernel: one step for each target, from rest.

    Attributes:
        dt: Length of a step [s].
    """

    def __init__(
        self,
        mapping: Mapping,
        limits: Limits,
        model: _core.CollisionModel | None,
        clearance: float,
        dt: float,
    ) -> None:
        """Prepare a loop.

        Args:
            mapping: The frames that follow.
            limits: Limits of the joints.
            model: Distances to keep; None for none.
            clearance: Distance that all pairs should keep [m].
            dt: Length of a step [s].
        """
        humanoid = mapping.humanoid
        robot, length = humanoid.robot, sum(humanoid.length(humanoid.legs[0]))
        feet = [leg.end for leg in humanoid.legs]
        share = min(1.0, GAIN * dt)
        posture = np.full(robot.dof, POSTURE)
        for first in robot._balls:
            posture[first - 3 : first + 3] = 0.0
        frames = tuple(follow.frame for follow in mapping.follows)
        part = 120 * dt
        self.dt = dt
        self._kernel = _core.Following(
            chain=robot._chain(frames),
            legs=robot._chain(tuple(feet)),
            collision=model,
            limits=limits_spec(limits, np.inf),
            position=[follow.position / length for follow in mapping.follows],
            rotation=[follow.rotation for follow in mapping.follows],
            gain=[share] * len(frames),
            foot=[feet.index(frame) if frame in feet else -1 for frame in frames],
            soles=[
                [*humanoid.at[foot][2, :3], *balls.ravel()]
                for foot, balls in zip(feet, humanoid.lowest, strict=True)
            ],
            rest=robot.neutral(),
            posture=posture.tolist(),
            dt=dt,
            posture_gain=share,
            smooth=SMOOTH,
            hold=HOLD,
            # A leg with fewer than six joints cannot reach every pose: its foot stands where it is.
            touch=TOUCH if humanoid.turns_feet else 0.0,
            contact=[
                clearance + SPARE,
                NEAR,
                REACH,
                1 - (1 - APPROACH) ** part,
                1 - (1 - OUT) ** part,
                APART * dt,
                CONTACT,
                SUDDEN * part,
            ],
        )

    def start(self, q: Array) -> None:
        """Begin at rest at a configuration."""
        self._kernel.start(q)

    def run(self, poses: Array, firm: Array) -> Array:
        """Return the configurations (k, nq) after the steps between targets.

        Args:
            poses: Target of each frame at the ends of all steps (k + 1, frames, 4, 4).
            firm: Firmness of each foot at the end of each step (k, 2): 1 if it stands, else less.
        """
        return np.asarray(self._kernel.run(poses, _factors(firm)))


def _factors(firm: Array) -> Array:
    """Return the factors of the feet's weights."""
    return np.where(firm >= 1, HOLD, HOLD ** (LANDING * firm))
