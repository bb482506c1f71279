"""The result of `plan_path`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from supple.collision.certificate import Certificate, Certified
from supple.control.arguments import limits_for, step_length
from supple.control.trajectory import Trajectory
from supple.errors import InputError
from supple.kinematics import Robot
from supple.kinematics.configuration import clipped, difference, to_kernel
from supple.motion.limits import Limits
from supple.motion.linearization import Array
from supple.motion.unit_text import error_text
from supple.paths.joint_path import DT, JointPath, bounds_of, sampled, to_trajectory
from supple.paths.spline import Spline
from supple.paths.timing import Bounds, time_law
from supple.tasks.layout import compile_selected

_EQUAL_WITHIN = 1e-9  # joint displacement up to which configurations count as equal [rad or m]


@dataclass(frozen=True, eq=False)
class Reconfiguration:
    """A change of branch: the robot leaves the path, moves its joints and returns to the path.

    The robot returns to the place where it left or, if no branch continues from there, to the next
    target.

    Attributes:
        at: Place on the path: the index of a target, or a path length.
        before: Configuration in which the robot arrives (n,) [rad or m].
        after: Configuration from which it continues (n,) [rad or m].
        reason: Why the robot cannot continue without a reconfiguration.
        via: Configurations between `before` and `after` (K, n), which lead around obstacles: the
            joints move on straight lines from one to the next.
    """

    at: float
    before: Array
    after: Array
    reason: str
    via: Array = field(default_factory=lambda: np.empty((0, 0)))
    _robot: Robot | None = field(default=None, repr=False)

    @property
    def q(self) -> Array:
        """The configurations of the motion (K + 2, n) [rad or m]."""
        return np.concatenate(
            [self.before[None], self.via.reshape(-1, len(self.before)), self.after[None]]
        )

    def __str__(self) -> str:
        far = np.abs(difference(self._robot, self.after, self.before)).max()
        return f"at {self.at:g}: {self.reason}; a joint moves by {far:.3g} rad or m"


@dataclass(frozen=True, eq=False, repr=False)
class PlannedPath(Certified):
    """The result of `plan_path`: configurations along a path of targets. `str()` is a summary.

    Attributes:
        robot: The robot.
        q: Joint coordinates at the given targets (N, n) [rad or m]; NaN beyond an obstacle.
        pieces: The joint paths between reconfigurations; their parameter s is the place on the
            path: the path length, or the index of a target (not counting targets that repeat
            the previous one). They contain more configurations than q where the path needs them.
        reconfigurations: The changes of branch between the pieces; also the motion to the first
            piece, if q0 was outside the position limits.
        obstacle: Why and where the path cannot be followed further; None if it is followed whole.
        position_deviation: Largest distance of the tool from the path, between the targets too [m].
        rotation_deviation: Largest rotation of the tool away from the path [rad].
        certificate: A lower bound of the distances in the world, for all pieces and
            reconfigurations; None without a world.
    """

    robot: Robot
    q: Array
    pieces: tuple[JointPath, ...]
    reconfigurations: tuple[Reconfiguration, ...]
    obstacle: str | None
    position_deviation: float
    rotation_deviation: float
    certificate: Certificate | None = None

    @property
    def success(self) -> bool:
        """Whether the whole path is followed, with or without reconfigurations."""
        return self.obstacle is None

    @property
    def continuous(self) -> bool:
        """Whether the whole path is followed on one branch."""
        return self.success and not self.reconfigurations

    def __bool__(self) -> bool:
        return self.success

    def __repr__(self) -> str:
        said = "continuous" if self.continuous else f"{len(self.reconfigurations)} reconfigurations"
        said = said if self.success else "obstructed"
        return f"<PlannedPath {self.robot.name}: {len(self.q)} targets, {said}>"

    def __str__(self) -> str:
        count = len(self.reconfigurations)
        lines = [f"{len(self.q)} targets followed"]
        if self.obstacle is not None:
            lines = [f"followed {np.isfinite(self.q[:, 0]).sum()} of {len(self.q)} targets"]
        if count:
            lines[0] += f" with {count} reconfiguration" + "s" * (count > 1)
        elif self.pieces:
            lines[0] += " on one branch"
        lines += [f"  {each}" for each in self.reconfigurations]
        lines += [f"  {self.obstacle}"] * (self.obstacle is not None)
        off = error_text(self.position_deviation, self.rotation_deviation, ".2g")
        lines.append(f"  deviation: at most {off}")
        lines += [f"  {self.certificate}"] * (self.certificate is not None)
        return "\n".join(lines)

    def timed(
        self,
        limits: Limits | None = None,
        *,
        tool_speed: float | None = None,
        frame: str | None = None,
        dt: float = DT,
    ) -> Trajectory:
        """Return the fastest motion along the path.

        It rests where a piece begins or ends. At a reconfiguration each joint moves on a straight
        line, around obstacles through several configurations. A path that was planned in a world
        gives a motion with a certificate of its own. Arguments are those of `JointPath.timed`.

        Raises:
            InputError: The path is not followed to its end, or leaves the position limits.
        """
        if self.obstacle is not None:
            raise InputError(
                "timed needs a path that is followed to its end; given: a path with an obstacle "
                f"{self.obstacle}"
            )
        dt, own = step_length(dt), limits_for(limits, self.robot)
        layout, _ = compile_selected(self.robot, frame, None)
        lines = [each.q for each in self.reconfigurations]
        every = [difference(self.robot, each, each[:1]) for each in lines]
        every += [np.stack(piece.extremes) for piece in self.pieces]
        moves = np.any([np.ptp(each, axis=0) > 0 for each in every], axis=0)
        bounds = bounds_of(self.robot, moves, own, tool_speed, frame)
        made: list[Array] = []
        if len(lines) == len(self.pieces):  # q0 was outside the limits
            made += _lines(self.robot, lines.pop(0), bounds, dt)
        for i, piece in enumerate(self.pieces):
            piece.check_inside(own)
            for each in lines[max(0, i - 1) : i]:
                made += _lines(self.robot, each, bounds, dt)
            made += _timed(piece, bounds, dt)
        made += made * (sum(map(len, made)) == 1)
        motion = to_trajectory(layout, made, dt, bounds)
        if self.certificate is None:
            return motion
        return replace(motion, certificate=self.certificate.again(motion.t, motion.q))


def _lines(robot: Robot, q: Array, bounds: Bounds, dt: float) -> list[Array]:
    """Return straight motions through configurations (K, nq), which rest at each of them."""
    return [_line(robot, ends, bounds, dt) for ends in np.stack([q[:-1], q[1:]], axis=1)]


def _line(robot: Robot, ends: Array, bounds: Bounds, dt: float) -> Array:
    """Return the straight motion (K, nq) between two configurations (2, nq) at intervals of dt."""
    if np.abs(difference(robot, ends[1], ends[0])).max() <= _EQUAL_WITHIN:
        return ends
    law = time_law(Spline.through(np.array([0.0, 1.0]), ends, robot), bounds._replace(tool=None))
    both = to_kernel(robot, ends)
    made = clipped(robot, sampled(law, dt), both.min(axis=0), both.max(axis=0))
    return np.asarray(made)  # clipping removes rounding errors


def _timed(path: JointPath, bounds: Bounds, dt: float) -> list[Array]:
    """Return the motion along a path, in parts (K, n) from rest to rest at intervals of dt.

    The motion rests where all joints stand still, since there the path has no direction.
    """
    robot, made = path.robot, [np.array(path.q[:1])]
    steps = difference(robot, path.q[1:], path.q[:-1])
    moving = np.nonzero(np.abs(steps).max(axis=1, initial=0.0) > _EQUAL_WITHIN)[0]
    for own in np.split(moving, np.nonzero(np.diff(moving) > 1)[0] + 1):
        if len(own):
            part = path.spline.between(path.s[own[0]], path.s[own[-1] + 1])
            q = sampled(time_law(part, bounds), dt)
            made.append(np.asarray(clipped(robot, q)))  # removes rounding errors
    return made
