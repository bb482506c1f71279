"""The motion of a robot that follows targets: settings of the kernel's loop.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

import numpy as np

from supple import _core
from supple.motion.limits import Limits, limits_spec
from supple.motion.linearization import Array
from supple.retargeting.mapping import Mapping

POSTURE_WEIGHT = 0.06  # weight of the neutral posture
FOLLOWING_GAIN = 20.0  # gain of all other errors [1/s]
VELOCITY_CHANGE_WEIGHT = 0.1
STANDING_FOOT_FACTOR = 2000.0  # factor of the weights of a foot that stands
LANDING_EXPONENT = 0.5  # power of the factor for a foot that is about to stand or has just stood
TOUCHDOWN_ERROR = 5e-5  # error above which a landing foot is held where it is [m or rad]
# Rows that keep pairs of shapes apart: distances below which a pair has a row, at rest and in fast
# motion [m]; the distance kept beyond the clearance [m]; the shares of the remaining distance that
# a pair may lose, and of a missing distance that it should gain, in 1/120 s; the largest speed at
# which a row separates a pair [m/s]; the weight of a row [1/m]; and the slack above which rows are
# left out, after the displacement of the last 1/120 s [m].
ROW_DISTANCE_AT_REST = 0.02
ROW_DISTANCE_IN_MOTION = 0.15
EXTRA_CLEARANCE = 5e-4
APPROACH_SHARE, SEPARATION_SHARE = 0.15, 0.3
MAX_SEPARATION_SPEED = 1.0
CONTACT_WEIGHT = 60.0
MAX_ROW_SLACK = 0.005


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
        share = min(1.0, FOLLOWING_GAIN * dt)
        posture = np.full(robot.dof, POSTURE_WEIGHT)
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
            smooth=VELOCITY_CHANGE_WEIGHT,
            hold=STANDING_FOOT_FACTOR,
            # A leg with fewer than six joints cannot reach every pose: its foot stands where it is.
            touch=TOUCHDOWN_ERROR if humanoid.turns_feet else 0.0,
            contact=[
                clearance + EXTRA_CLEARANCE,
                ROW_DISTANCE_AT_REST,
                ROW_DISTANCE_IN_MOTION,
                1 - (1 - APPROACH_SHARE) ** part,
                1 - (1 - SEPARATION_SHARE) ** part,
                MAX_SEPARATION_SPEED * dt,
                CONTACT_WEIGHT,
                MAX_ROW_SLACK * part,
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
    landing = STANDING_FOOT_FACTOR ** (LANDING_EXPONENT * firm)
    return np.where(firm >= 1, STANDING_FOOT_FACTOR, landing)
