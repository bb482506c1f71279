"""The paths of the PUMA's tool, and the result of each method (Table I, Fig. 4-5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise

import numpy as np
from supple.papers.experiment import Progress, Table, by_method, each
from supple.papers.maciejewski_klein.inverse import PUMA, branch_of, configurations
from supple.papers.maciejewski_klein.methods import Moved, error, followed, methods, norm
from supple.papers.style import Array

from supple.errors import InputError

MAX_GAIN = 5.0  # θ̇max, so that λ <= 0.1
INTERVAL = 0.0015  # motion of the tool in one interval [m]


@dataclass(frozen=True, eq=False)
class Course:
    """A reference path: poses of the tool, and the initial configuration of the arm.

    Attributes:
        start: Joint angles at the start (6,) [rad].
        poses: Poses (K + 1, 4, 4) [m], all with the same orientation.
        both_ends: Whether the end of the path is away from singularities, as the start is.
    """

    start: Array
    poses: Array
    both_ends: bool = True

    @classmethod
    def on_branch(cls, poses: Array, like: list[float], *, both_ends: bool = True) -> Course:
        """Return a path that starts on the same branch as the configuration `like` [deg].

        Raises:
            InputError: The start is out of reach.
        """
        start = configurations(poses[:1], branch_of(np.radians(like))[None])[0]
        if not np.isfinite(start).all():
            raise InputError(f"the start of the path, {poses[0, :3, 3]} m, is out of reach")
        return cls(start, poses, both_ends)

    def away(self, errors: Array) -> Array:
        """Return the errors in the first tenth of the path and, if `both_ends`, the last tenth."""
        tenth = max(1, len(errors) // 10)
        return np.r_[errors[:tenth], errors[-tenth:]] if self.both_ends else errors[:tenth]


def circle(through: Array, radius: float, plane: float, arc: float) -> Array:
    """Return poses along a vertical circle, whose top is the pose of a configuration.

    Args:
        through: Joint angles at the top (6,) [rad].
        radius: Radius [m].
        plane: Angle between the circle's plane and the x-z plane [rad].
        arc: Angle of the arc on either side of the top [rad].
    """
    turn = INTERVAL / radius
    angle = -arc + turn * np.arange(int(2 * arc / turn) + 1)
    along = np.array([np.cos(plane), np.sin(plane), 0.0])
    moved = np.outer(np.sin(angle), along) + np.outer(np.cos(angle) - 1, [0.0, 0.0, 1.0])
    return shifted(PUMA.fk(through), radius * moved)


def line(end: Array, heading: float, climb: float, intervals: int) -> Array:
    """Return poses along a straight line to the pose of a configuration.

    Args:
        end: Joint angles at the end (6,) [rad].
        heading: Angle of the line's horizontal direction from the x-axis [rad].
        climb: Angle of the line above the horizontal plane [rad].
        intervals: Number of intervals.
    """
    along = INTERVAL * np.arange(-intervals, 1)
    level = np.cos(climb)
    towards = [level * np.cos(heading), level * np.sin(heading), np.sin(climb)]
    return shifted(PUMA.fk(end), np.outer(along, towards))


def shifted(pose: Array, moved: Array) -> Array:
    """Return a pose (4, 4) translated by each of several vectors (K, 3) [m], as (K, 4, 4)."""
    poses = np.tile(pose, (len(moved), 1, 1))
    poses[:, :3, 3] += moved
    return poses


# Configurations at the tops of the circles A and C, and at the end of B.
WRIST = np.radians([0.0, -90, 180, 0, 0, 0])
TRIPLE = np.radians([0, -90, 92.645, 0, 0, 0])
END_B = np.radians([0.244, -35.591, 195.587, 71.13, 2.598, 0])
# Rounded joint angles at the starts of the paths [deg], which select the branch.
START_A = [-10.437, -56.619, 215.431, -11.176, -69.178, 4.017]
START_C = [3.943, -98.624, 186.872, 0.182, -85.61, -3.953]


@cache
def course_a(radius: float = 0.25, arc: float = 0.9) -> Course:
    """Return trajectory A, given the radius [m] and half the angle of the arc [π rad]."""
    return Course.on_branch(circle(WRIST, radius, np.pi / 2, arc * np.pi), START_A)


@cache
def course_b(heading: float = 0.0, climb: float = -4.21, intervals: int = 700) -> Course:
    """Return trajectory B, given its heading and climb [deg] and the number of intervals."""
    poses = line(END_B, np.radians(heading), np.radians(climb), intervals)
    return Course.on_branch(poses, list(np.degrees(END_B)), both_ends=False)


@cache
def course_c(radius: float = 0.36, plane: float = 184.0, arc: float = 0.54) -> Course:
    """Return trajectory C, given its radius [m], the angle between its plane and the x-z plane
    [deg], and half the angle of the arc [π rad].
    """
    poses = circle(TRIPLE, radius, np.radians(plane), arc * np.pi)
    return Course.on_branch(poses, START_C)


@dataclass(frozen=True, eq=False)
class Runs:
    """The motions of every method along one path."""

    course: Course
    moved: Mapping[str, Moved]
    max_gain: float = MAX_GAIN
    _spectra: dict[str, tuple[Array, Array, Array]] = field(default_factory=dict)

    def errors(self, method: str) -> Array:
        """Return the relative velocity error of each interval (K,), eq. (37)."""
        return error(self.moved[method])

    def away(self, method: str) -> float:
        """Return the mean relative velocity error away from singularities."""
        return float(self.course.away(self.errors(method)).mean())

    @property
    def quantities(self) -> dict[str, float]:
        """Return the numbers that the paper states, with speeds in [rad per interval]."""
        return by_method(
            {
                name: {
                    "away_error": self.away(name),
                    "peak_error": error(motion).max(),
                    "integral_error": error(motion).sum(),
                    "max_joint_speed": norm(motion.qd).max(),
                    "max_gain": (norm(motion.qd) / norm(motion.command)).max(),
                }
                for name, motion in self.moved.items()
            }
        )

    @property
    def table(self) -> Table:
        """Return errors, speeds, joint angles and the path of the tool over the intervals."""
        columns: dict[str, Array] = {"interval": np.arange(len(self.course.poses) - 1.0)}
        columns["target"] = self.course.poses[:-1, :3, 3]
        for name, motion in self.moved.items():
            columns[f"{name}.error"] = error(motion)
            columns[f"{name}.joint_speed"] = norm(motion.qd)
            columns[f"{name}.q"] = motion.q[:-1]
            columns[f"{name}.tool"] = PUMA.fk(motion.q[:-1])[:, :3, 3]
            columns[f"{name}.sigma"] = self.singular_values(name)
        return Table("interval", columns)

    def singular_values(self, method: str) -> Array:
        """Return the singular values of J at each interval (K, 6), largest first."""
        return self.spectrum(method)[1]

    def spectrum(self, method: str) -> tuple[Array, Array, Array]:
        """Return U (K, 6, 6), the singular values (K, 6) and Vᵀ (K, 6, 6) of J at each interval."""
        if method not in self._spectra:
            U, sigma, Vt = np.linalg.svd(PUMA.jacobian(self.moved[method].q[:-1]))
            self._spectra[method] = (U, sigma, Vt)
        return self._spectra[method]

    def notch(self, method: str) -> tuple[Array, Array]:
        """Return the intervals (3,) of a peak, the deepest dip and a peak, and the errors there.

        With fewer than two peaks, the interval with the largest error is repeated three times.
        """
        e = self.errors(method)
        inner = np.arange(1, len(e) - 1)
        peaks = inner[(e[inner] > e[inner - 1]) & (e[inner] >= e[inner + 1])]
        pairs = [(a, a + int(e[a:b].argmin()), b) for a, b in pairwise(peaks)]
        pairs = pairs or [(int(e.argmax()),) * 3]
        at = np.array(max(pairs, key=lambda p: min(e[p[0]], e[p[2]]) - e[p[1]]))
        return at, e[at]

    def width(self, method: str) -> int:
        """Return the number of intervals with an error above 1 %."""
        return int((self.errors(method) > 0.01).sum())

    def avoidable(self, method: str) -> float:
        """Return the sum of the errors along directions that are not singular. These have a
        singular value of at least 1/θ̇max, so the tool can move along them at full speed within
        the bound.
        """
        moved = self.moved[method]
        U, sigma, _ = self.spectrum(method)
        lost = np.einsum("kij,ki->kj", U, moved.command - moved.velocity)
        lost[sigma < 1 / self.max_gain] = 0
        return float((norm(lost) / norm(moved.command)).sum())


@cache
def followed_by_all(
    course: Course, max_gain: float = MAX_GAIN, progress: Progress = lambda done: None
) -> Runs:
    """Follow a path with every method; results are cached."""
    ways = each(methods(max_gain).items(), progress)
    moved = {n: followed(PUMA, course.start, course.poses, s) for n, s in ways}
    return Runs(course, moved, max_gain)
