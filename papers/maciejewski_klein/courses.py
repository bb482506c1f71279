"""The paths of the PUMA's tool, and the result of each method (Table I, Fig. 4-5)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
from supple.papers.experiment import Progress, by_method, each
from supple.papers.maciejewski_klein.methods import error, followed, methods, norm
from supple.papers.style import Array

from supple import Trajectory, load

PUMA = load("puma560_mk")
MAX_GAIN = 5.0  # θ̇max: so λ <= 0.1
INTERVAL = 0.0015  # [m]
RADIUS = 0.25  # [m]


@dataclass(frozen=True, eq=False)
class Course:
    """A reference path: the pose of the tool in each interval, and the start of the arm.

    Attributes:
        start: Joint angles (6,) [rad].
        poses: (K + 1, 4, 4), all of the same orientation.
        both_ends: Whether it also ends away from singularities, as it begins.
    """

    start: Array
    poses: Array
    both_ends: bool = True

    def away(self, errors: Array) -> Array:
        """Return the values of the first tenth of the intervals, and of the last tenth."""
        tenth = len(errors) // 10
        return np.r_[errors[:tenth], errors[-tenth:]] if self.both_ends else errors[:tenth]


def circle(through: list[float], plane: float, arc: float, start: list[float]) -> Course:
    """Return a vertical circle whose top is reached at the configuration `through` [deg].

    Args:
        through: Joint angles at the top [deg].
        plane: The angle of the circle's plane to the x-z plane [deg].
        arc: Half of the arc, on either side of the top [half turns].
        start: Joint angles at the start [deg].
    """
    top = PUMA.fk(np.radians(through))
    turn = INTERVAL / RADIUS
    angle = -arc * np.pi + turn * np.arange(int(2 * arc * np.pi / turn) + 1)
    along = np.array([np.cos(np.radians(plane)), np.sin(np.radians(plane)), 0.0])
    moved = np.outer(np.sin(angle), along) + np.outer(np.cos(angle) - 1, [0.0, 0.0, 1.0])
    return Course(np.radians(start), _shifted(top, RADIUS * moved))


def line(about: list[float], begin: float, end: float, aside: float, start: list[float]) -> Course:
    """Return a line along x [m] near a configuration [deg], offset by `aside` in y [m]."""
    count = round((end - begin) / INTERVAL)
    x = begin + INTERVAL * np.arange(count + 1)
    moved = np.stack([x, np.full_like(x, aside), np.zeros_like(x)], axis=1)
    poses = _shifted(PUMA.fk(np.radians(about)), moved)
    return Course(np.radians(start), poses, both_ends=False)


def _shifted(pose: Array, moved: Array) -> Array:
    poses = np.tile(pose, (len(moved), 1, 1))
    poses[:, :3, 3] += moved
    return poses


A = circle([0, -90, 180, 0, 0, 0], 90, 0.9, [-10.437, -56.619, 215.431, -11.176, -69.178, 4.017])
B = line(
    [0, -60, 32.756, 0, 40, 0], -0.25, 0.35, 0.005, [-1.139, -84.735, 44.914, 0.317, 52.575, 0.918]
)
C = circle([0, -90, 92.645, 0, 0, 0], 10, 0.75, [10.866, -166.517, 207.93, 0.795, -38.819, -11.474])


@dataclass(frozen=True, eq=False)
class Runs:
    """The motions of every method along one path."""

    course: Course
    moved: dict[str, Trajectory]

    def errors(self, method: str) -> Array:
        """Return the velocity error of each interval."""
        return error(self.moved[method])

    @property
    def quantities(self) -> dict[str, float]:
        """Return the paper's numbers, with speeds in [rad per interval]."""
        return by_method(
            {
                name: {
                    "away_error": self.course.away(error(each)).mean(),
                    "peak_error": error(each).max(),
                    "integral_error": error(each).sum(),
                    "max_joint_speed": norm(each.qd).max(),
                    "max_gain": (norm(each.qd) / norm(each.command)).max(),
                }
                for name, each in self.moved.items()
            }
        )

    def singular_values(self, method: str) -> Array:
        """Return the singular values of J at each interval (K, 6), largest first."""
        return np.linalg.svd(PUMA.jacobian(self.moved[method].q[:-1]), compute_uv=False)

    def notch(self, method: str) -> tuple[Array, Array]:
        """Return the deepest dip between two peaks: three intervals, and their errors."""
        e = self.errors(method)
        inner = np.arange(1, len(e) - 1)
        peaks = inner[(e[inner] > e[inner - 1]) & (e[inner] >= e[inner + 1])]
        pairs = [(a, a + int(e[a:b].argmin()), b) for a, b in pairwise(peaks)]
        at = np.array(max(pairs, key=lambda p: min(e[p[0]], e[p[2]]) - e[p[1]]))
        return at, e[at]

    def width(self, method: str) -> int:
        """Return the number of intervals with an error above 1 %."""
        return int((self.errors(method) > 0.01).sum())


@cache
def followed_by_all(course: Course, progress: Progress = lambda done: None) -> Runs:
    """Follow a path with every method; results are cached."""
    ways = each(methods(MAX_GAIN).items(), progress)
    return Runs(course, {n: followed(PUMA, course.start, course.poses, s) for n, s in ways})
