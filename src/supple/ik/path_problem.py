"""A robot on a path of targets: errors, solutions near a configuration, and reasons in words.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple.errors import InputError
from supple.ik.arguments import SolveOptions
from supple.ik.arms import AnyArm, Arm, ClosedFormArm, arm_of
from supple.ik.branches import SAMPLES
from supple.ik.driver import Driver
from supple.ik.path_graph import Cost
from supple.ik.path_targets import PathTargets
from supple.ik.problem import CompiledProblem, turns
from supple.ik.task_errors import largest_errors, rotating_rows
from supple.kinematics import Robot
from supple.motion.linearization import Array

EXACT = 1e-7  # tolerance of the solutions along a path [m], [rad]
JUMP = 0.6  # displacement of a joint above which a step along a path is divided [rad or m]
_DIVISIONS = 7  # maximum number of times that a step along a path is halved
_SINGULAR = 0.02  # smallest singular value of J below which a branch ends because of a singularity
_SEEDS = 64  # number of seeds of the search for the closest pose to a target out of reach


class Track(NamedTuple):
    """Configurations (K, n) at places (K,) of a path, and why the track ends before the path."""

    x: Array
    q: Array
    reason: str = ""


@dataclass(frozen=True, eq=False)
class PathProblem:
    """Tasks, their targets along a path, and the tolerances within which the path is followed.

    Attributes:
        problem: The tasks.
        targets: Their targets.
        tolerances: Allowed deviations between samples (2,) [m, rad].
        cost: Cost by which routes are compared.
        threads: Maximum number of threads.
    """

    problem: CompiledProblem
    targets: PathTargets
    tolerances: Array
    cost: Cost
    threads: int

    @property
    def robot(self) -> Robot:
        """The robot."""
        return self.problem.layout.robot

    @cached_property
    def arm(self) -> Arm | str:
        """The arm that computes all solutions of a pose, or the reason why they are searched."""
        return arm_of(self.problem)

    @cached_property
    def spec(self) -> _core.BranchSpec:
        """Tolerances and options of the solutions that `arm` computes."""
        return _core.BranchSpec(
            position_tolerance=EXACT,
            rotation_tolerance=EXACT,
            samples=SAMPLES,
            wraps=False,
            nearest=False,
            threads=self.threads,
        )

    @cached_property
    def rotating(self) -> list[NDArray[np.bool_]]:
        """Which rows of each task are rotations."""
        return rotating_rows(self.problem.layout)

    @cached_property
    def turns(self) -> Array:
        """2π for each joint whose range has room for a full turn, else 0 (n,) [rad]."""
        return turns(self.robot)

    @cached_property
    def reach(self) -> float:
        """A length of the robot: the largest lever arm of a joint [m]."""
        q = self.robot.random(16, seed=0)
        rows = np.abs(self.problem.layout.jacobian(q) / self.problem.layout.weights[:, None])
        return float(rows.max(initial=0.1))

    # ---- errors ----------------------------------------------------------------------------------

    def errors(self, q: Array, targets: Array) -> Array:
        """Return position and rotation errors (K, 2) [m, rad] at configurations (K, n)."""
        layout = self.problem.layout
        return largest_errors(layout, layout.error(q, targets), self.rotating)

    def deviation(self, q: Array, x: Array) -> Array:
        """Return the errors (K, 2) [m, rad] of configurations (K, n) at places x (K,) of a path."""
        return self.errors(q, self.targets(x))

    def bend(self, step: Array) -> Array:
        """Return bounds (K, 2) [m, rad] on the error halfway along straight joint steps (K, n).

        Both ends of a step are on the path, and the target is assumed to move at constant velocity.
        The tool's acceleration is at most the square of the sum of joint speeds, times the lever
        arm.
        """
        return np.asarray(
            np.abs(step).sum(axis=-1)[..., None] ** 2 / 8 * np.array([2 * self.reach, 1.0])
        )

    def wrapped(self, change: Array) -> Array:
        """Return displacements (..., n) without full turns of the joints that can turn fully."""
        far = (np.abs(change) > np.pi) & (self.turns > 0)
        if not far.any():
            return change
        made = change.copy()
        made[far] -= 2 * np.pi * np.rint(change[far] / (2 * np.pi))
        return made

    # ---- solutions -------------------------------------------------------------------------------

    def driver(self, solutions: int | None = None, seeds: int = 1) -> Driver:
        """Return a solver that starts from the given q only, or from `seeds` seeds per target."""
        return Driver(
            self.problem,
            SolveOptions(
                position_tolerance=EXACT,
                rotation_tolerance=EXACT,
                max_seeds=seeds,
                prefer="fast",
                solutions=solutions,
                began=0.0,
                deadline=np.inf,
                explain=False,
                threads=self.threads,
                progress=None,
                gpu=None,
            ),
        )

    def near(self, x: Array, q: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Return the solutions at places x (K,) found from q (K, n), and a mask (K,) of success."""
        found = self.driver().solve_batch(self.targets(x), q)
        return found.q, np.asarray(found.success)

    def nearest(self, x: Array, q: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Return the solutions at places x (K,) nearest to q (K, n), and a mask (K,) of success.

        If not all solutions can be computed, these are the ones that a search from q finds.
        """
        if not isinstance(self.arm, ClosedFormArm | AnyArm):
            return self.near(x, q)
        every, _, _, sampled, count, _ = self.arm.solve(
            self.problem, self.targets(x), None, self.spec
        )
        of = np.repeat(np.arange(len(x)), count)
        own = q[of] + self.wrapped(every - q[of])
        inside = ((self.robot.lower <= own) & (own <= self.robot.upper)).all(axis=1)
        far = np.where(inside, np.abs(own - q[of]).max(axis=1, initial=0.0), np.inf)
        order = np.lexsort((far, of))
        first = np.searchsorted(of[order], np.arange(len(x)))
        good = count > 0
        made = q.copy()
        best = order[first[good]]
        made[good] = own[best]
        good[good] = np.isfinite(far[best])
        singular = np.unique(of[sampled])  # the nearest one is between samples of the continuum
        if len(singular):
            then, there = self.near(x[singular], q[singular])
            there &= np.abs(then - q[singular]).max(axis=1) < np.where(
                good[singular], np.abs(made - q)[singular].max(axis=1), np.inf
            )
            made[singular[there]], good[singular[there]] = then[there], True
        return made, good

    def searched(self, at: int, count: int, seeds: int = 0) -> Array:
        """Return up to `count` solutions (s, n) of a target; 0 seeds for the default of `solve`."""
        found: Any = self.driver(count, seeds=seeds).solve_single(self.targets.numbers[at], None)
        return np.asarray(found.q[found.success])

    def reachable(self, at: NDArray[np.intp], seeds: int) -> NDArray[np.bool_]:
        """Return a mask (K,) of the targets that a search from `seeds` seeds solves."""
        found = self.driver(seeds=seeds).solve_batch(self.targets.numbers[at], None)
        return np.asarray(found.success)

    def start(self, q0: Array) -> Array:
        """Check that q0 reaches the first target inside the limits; return the solution near it."""
        outside = (q0 < self.robot.lower) | (q0 > self.robot.upper)
        if outside.any():
            j = int(np.argmax(outside))
            given = f"{q0[j]:g} for {self.robot.joint_names[j]}"
            raise InputError(f"q0 must be inside the limits of the joints; given: {given}")
        error = self.errors(q0[None], self.targets.numbers[:1])[0]
        if (error > self.tolerances).any():
            raise InputError(
                f"q0 must be at the first target; given: a configuration {error[0] * 1e3:.3g} mm "
                f"and {error[1] * 1e3:.3g} mrad away"
            )
        exact, good = self.near(self.targets.x[:1], q0[None])
        return exact[0] if good[0] else q0

    def course(self, x: Array, divisions: int) -> Array:
        """Return the targets (R, S, k) of steps between places (R, L) that are halved `divisions`
        times: those of all parts, and halfway along the smallest.
        """
        parts = 2 << divisions
        inner = x[:, :-1, None] + np.diff(x)[..., None] * (np.arange(parts) / parts)
        every = np.concatenate([inner.reshape(len(x), -1), x[:, -1:]], axis=1)
        return self.targets(every.ravel()).reshape(*every.shape, -1)

    def tracked(self, q: Array, course: Array, divisions: int) -> Array:
        """Return the tracks (L, K, n) of configurations (K, n); NaN after their ends.

        A step that is long, or on which the tool leaves the path, is halved.

        Args:
            q: Configurations (K, n) at the first place.
            course: The targets of all tracks (1, S, k), or of each (K, S, k).
            divisions: Number of times that a step is halved.
        """
        spec = _core.TrackSpec(
            jump=JUMP,
            reach=self.reach,
            exact=EXACT,
            position_tolerance=float(self.tolerances[0]),
            rotation_tolerance=float(self.tolerances[1]),
            divisions=divisions,
            threads=self.threads,
        )
        return _core.tracked(self.problem.kernel, q, course, spec)

    def advanced(self, q: Array, x0: Array, x1: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Track configurations (K, n) from places x0 (K,) to x1 (K,).

        Return the configurations at x1, and a mask (K,) of those that arrive.
        """
        course = self.course(np.stack([x0, x1], axis=1), _DIVISIONS)
        then = self.tracked(q, course, _DIVISIONS)[1]
        return then, np.isfinite(then[:, 0])

    # ---- reasons ---------------------------------------------------------------------------------

    def out_of_reach(self, at: int) -> str:
        """Return, in words, how far a target is out of reach, and a joint at its limit if any."""
        found = self.driver(seeds=_SEEDS).solve_batch(self.targets.numbers[at : at + 1], None)
        said = (
            f"the target is out of reach by {found.position_error[0] * 1e3:.3g} mm and "
            f"{found.rotation_error[0] * 1e3:.3g} mrad"
        )
        held = np.minimum(found.q[0] - self.robot.lower, self.robot.upper - found.q[0]) < 1e-6
        return f"{said}; {self._limit(int(np.argmax(held)))}" if held.any() else said

    def why(self, at: int, q: Array) -> str:
        """Return, in words, why no continuous step leads from q at target `at` to the next."""
        if at + 1 >= len(self.targets.x):
            return ""
        robot = self.robot
        then, good = self.near(self.targets.x[at + 1 : at + 2], q[None])
        held = np.minimum(then[0] - robot.lower, robot.upper - then[0]) < 1e-6
        if not good[0] and held.any():
            return self._limit(int(np.argmax(held)))
        room = np.minimum(q - robot.lower, robot.upper - q)
        sigma = np.linalg.svd(self.problem.layout.jacobian(q[None])[0], compute_uv=False)[-1]
        if room.min() < 0.05 and sigma > _SINGULAR:
            return self._limit(int(np.argmin(room)))
        if sigma < 5 * _SINGULAR:
            return f"the arm is singular, smallest singular value {sigma:.2g}"
        return "no solution of the next target is near"

    def _limit(self, joint: int) -> str:
        return f"{self.robot.joint_names[joint]} is at its limit"
