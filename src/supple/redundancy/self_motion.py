"""Self-motion: the curve of configurations that keep the pose of a frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.errors import InputError, short_repr
from supple.kinematics import Robot
from supple.kinematics.configuration import (
    coordinate_difference,
    difference,
    in_balls,
    integrate,
    position_of,
    to_kernel,
)
from supple.kinematics.loops import refuse_loops
from supple.motion.linearization import Array
from supple.tasks.evaluation import linearize

# Fraction of the largest singular value below which a singular value counts as zero.
_RANK_TOLERANCE = 1e-6
_LAMBDA2 = 1e-12  # damping of the corrector, needed only at an exact singularity
_CORRECTOR_TOLERANCE = 1e-11  # error [m, rad] at which the corrector stops
_MAX_CORRECTIONS = 12
_MAX_HALVINGS = 12  # maximum number of halvings of a step that the corrector cannot follow
_MAX_POINTS = 100_000  # maximum number of points in each direction


@dataclass(frozen=True, eq=False)
class SelfMotion:
    """A curve of configurations that keep the pose of a frame.

    Attributes:
        q: Configurations (k, nq) [rad or m] along the curve, at equal distances ‖Δq‖ except at
            its two ends.
        start: Index of the given configuration.
        closed: Whether the curve returns to its start, up to full turns of joints; the last
            configuration is then one step before the first.
        ends: Names of the joints whose limits end the curve, at its first and at its last
            configuration; empty strings where no limit ends it.
    """

    q: Array
    start: int
    closed: bool
    ends: tuple[str, str]

    def __len__(self) -> int:
        return len(self.q)

    def __str__(self) -> str:
        if self.closed:
            return f"a closed curve of {len(self)} configurations"
        first, last = (f"the limit of {name}" if name else "no limit" for name in self.ends)
        return f"{len(self)} configurations, from {first} to {last}"


def self_motion(
    robot: Robot, q: ArrayLike, *, frame: str | None = None, step: float = 0.05
) -> SelfMotion:
    """Trace the self-motion through q: how a redundant arm moves while its hand rests.

    Each step first goes along the null space of J (predictor), then back to the pose by damped
    least squares (corrector). The curve is traced in both directions until it closes or a joint
    reaches a limit. An arm that is not redundant can have such a curve at a singular pose.

    Args:
        robot: The robot.
        q: Configuration (nq,) [rad or m], inside the limits.
        frame: Name of the frame whose pose is kept; the first end effector by default.
        step: Distance ‖Δq‖ of consecutive configurations [rad].

    Raises:
        InputError: The null space of J at q does not have exactly one dimension, q is outside the
            limits, or an argument is malformed.
    """
    refuse_loops(robot, "self_motion")
    at = np.array(q, dtype=np.float64)
    if at.shape != (robot.nq,) or not np.isfinite(at).all():
        raise InputError(f"q must be {robot.nq} finite numbers; given: {short_repr(q)}")
    if not (np.isfinite(step) and step > 0):
        raise InputError(f"step must be positive and finite; given: {short_repr(step)}")
    if not _inside(robot, at):
        raise InputError(f"q must be inside the limits; given: {short_repr(q)}")
    tracer = _Tracer(robot, frame or robot.tips[0], at, float(step))
    along = tracer.null_space(at)
    if len(along) != 1:
        raise InputError(
            f"self_motion needs a null space of one dimension; given: {len(along)} dimensions at q"
        )
    forward, end, closed = tracer.trace(along[0])
    if closed:
        return SelfMotion(np.array([at, *forward]), 0, True, ("", ""))
    backward, begin, _ = tracer.trace(-along[0])
    return SelfMotion(np.array([*backward[::-1], at, *forward]), len(backward), False, (begin, end))


def _inside(robot: Robot, q: Array) -> bool:
    """Return whether a configuration (nq,) is inside the limits."""
    at = to_kernel(robot, q)
    return bool(((robot.lower <= at) & (at <= robot.upper)).all())


class _Tracer:
    """A tracer of the self-motion that keeps the pose of a frame; points are `step` apart."""

    def __init__(self, robot: Robot, frame: str, q: Array, step: float) -> None:
        self.robot, self.frame, self.start, self.step = robot, frame, q, step
        self.target = robot.fk(q, frame)
        # Joints that do not move the frame are excluded from its self-motion.
        names = set(robot._structure(frame).joints)
        self.moves: NDArray[np.bool_] = np.array([name in names for name in robot.joint_names])
        self.turn = np.where(robot.prismatic | in_balls(robot), np.inf, 2 * np.pi)

    def null_space(self, q: Array) -> Array:
        """Return an orthonormal basis (k, n) of the motions that keep the pose."""
        J = linearize(self.robot, self.frame, q, self.target, threads=1).J[:, self.moves]
        _, sigma, Vt = np.linalg.svd(J)
        rank = int((sigma > _RANK_TOLERANCE * sigma[0]).sum())
        basis = np.zeros((len(Vt) - rank, self.robot.nv))
        basis[:, self.moves] = Vt[rank:]
        return basis

    def corrected(self, q: Array, held: NDArray[np.bool_]) -> Array | None:
        """Return a configuration near q that reaches the pose; None if the search fails.

        Joints that are marked in `held` do not move.
        """
        for _ in range(_MAX_CORRECTIONS):
            at = linearize(self.robot, self.frame, q, self.target, threads=1)
            if np.abs(at.e).max() <= _CORRECTOR_TOLERANCE:
                return q
            J = np.where(held, 0.0, at.J)
            dq = J.T @ np.linalg.solve(J @ J.T + _LAMBDA2 * np.eye(len(J)), at.e)
            q = np.asarray(integrate(self.robot, q, dq))
        return None

    def trace(self, along: Array) -> tuple[list[Array], str, bool]:
        """Return configurations, the joint whose limit ends the curve, and whether it closes."""
        found: list[Array] = []
        q, before = self.start, along
        nothing = np.zeros(self.robot.nv, dtype=np.bool_)
        while len(found) < _MAX_POINTS:
            length = self.step
            for _ in range(_MAX_HALVINGS):
                made = self.corrected(integrate(self.robot, q, length * before), nothing)
                if (
                    made is not None
                    and np.linalg.norm(difference(self.robot, made, q)) < 2 * length
                ):
                    break
                length /= 2
            else:
                return found, "", False
            if not _inside(self.robot, made):
                return self._stopped(found, q, made)
            if len(found) > 1 and self._passes_start(q, made):
                return found, "", True
            found.append(made)
            basis = self.null_space(made)
            # at a singularity the direction is kept
            chosen = basis.T @ (basis @ difference(self.robot, made, q))
            q, before = made, chosen / np.linalg.norm(chosen)
        return found, "", False

    def _stopped(
        self, found: list[Array], q: Array, beyond: Array
    ) -> tuple[list[Array], str, bool]:
        """End the curve where the first joint reaches its limit, between two configurations."""
        robot, move = self.robot, difference(self.robot, beyond, q)
        at = to_kernel(robot, q)
        with np.errstate(divide="ignore", invalid="ignore"):
            above = coordinate_difference(robot.upper, at)
            room = np.where(move > 0, above, coordinate_difference(at, robot.lower)) / np.abs(move)
        room = np.where(move == 0, np.inf, room)
        joint = int(np.argmin(room))
        near = integrate(robot, q, room[joint] * move)
        near[position_of(robot, joint)] = (robot.upper if move[joint] > 0 else robot.lower)[joint]
        last = self.corrected(near, np.arange(robot.nv) == joint)
        if last is not None and _inside(robot, last):
            found.append(last)
        return found, robot.joint_names[joint], False

    def _passes_start(self, q: Array, after: Array) -> bool:
        """Return whether the start is between two consecutive configurations, up to full turns."""
        away = difference(self.robot, self.start, q)
        away -= np.where(np.isfinite(self.turn), self.turn, 0.0) * np.round(away / self.turn)
        move = difference(self.robot, after, q)
        share = float(away @ move / (move @ move))
        return 0 < share <= 1 and float(np.linalg.norm(away - share * move)) < 0.1 * self.step
