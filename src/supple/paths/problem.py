"""A robot on a path of targets: errors, and solutions near a configuration.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple.errors import InputError
from supple.ik.arguments import SolveOptions
from supple.ik.branches.arms import AnyArm, Arm, ClosedFormArm, arm_of
from supple.ik.branches.same_branch import largest_move
from supple.ik.branches.solve_all import SAMPLES
from supple.ik.driver import Driver
from supple.ik.problem import CompiledProblem
from supple.ik.seeds import turns
from supple.ik.task_errors import rotating_rows
from supple.ik.world_check import WorldCheck
from supple.kinematics import Robot
from supple.kinematics.configuration import (
    clipped,
    coordinate_difference,
    difference,
    from_kernel,
    integrate,
    to_kernel,
)
from supple.motion.linearization import Array
from supple.paths.graph import Cost
from supple.paths.obstacles import Obstacles
from supple.paths.targets import PathTargets

EXACT_FRACTIONS = (1e-3, 1e-4)  # errors of solutions along a path, as fractions of the tolerances
LOOSEST_FRACTIONS = (0.1, 0.1)  # larger errors, for targets not met within EXACT_FRACTIONS
LIMIT_TOLERANCE = 1e-9  # distance beyond a limit up to which a joint counts as inside [rad or m]
MAX_JUMP = 0.6  # displacement of a joint, in its unit, above which a step along a path is divided
_MAX_HALVINGS = 7  # maximum number of times that a step along a path is halved
_SEEDS = 64  # number of seeds of the search for the closest pose to a target out of reach


@lru_cache(maxsize=64)
def _lever_arm(problem: CompiledProblem) -> float | None:
    """Return the largest lever arm of a revolute joint [m]; None if no task has a position."""
    layout = problem.layout
    rows = np.abs(layout.jacobian(layout.robot.random(16, seed=0)) / layout.weights[:, None])
    moving = rows[:, ~np.concatenate(rotating_rows(layout))]
    lever = float(moving[..., ~layout.robot.prismatic].max(initial=0.0))
    return lever if moving.size else None


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
        targets: The targets of the tasks along the path.
        tolerances: Allowed deviations between samples (2,) [m, rad].
        cost: Cost by which routes are compared.
        threads: Maximum number of threads.
        fractions: Largest errors of solutions along the path, as fractions of the tolerances.
        loosest: The same at targets that cannot be met within `fractions`.
        obstacles: The clearance that the path must keep; None without a world.
    """

    problem: CompiledProblem
    targets: PathTargets
    tolerances: Array
    cost: Cost
    threads: int
    fractions: tuple[float, float] = EXACT_FRACTIONS
    loosest: tuple[float, float] = LOOSEST_FRACTIONS
    obstacles: Obstacles | None = None
    _closest: dict[int, Any] = field(default_factory=dict, repr=False)

    @property
    def robot(self) -> Robot:
        """The robot."""
        return self.problem.layout.robot

    @property
    def turning(self) -> Robot | None:
        """The robot, if a joint has a quaternion, else None."""
        return self.robot if self.robot.nq != self.robot.nv else None

    @cached_property
    def exact(self) -> Array:
        """Largest errors of the solutions along the path (2,) [m, rad]."""
        return np.asarray(self.fractions * self.tolerances)

    @cached_property
    def arm(self) -> Arm | str:
        """The arm that computes all solutions of a pose, or the reason why they are searched."""
        return arm_of(self.problem)

    @cached_property
    def spec(self) -> _core.BranchSpec:
        """Tolerances and options of the solutions that `arm` computes."""
        return _core.BranchSpec(
            position_tolerance=float(self.exact[0]),
            rotation_tolerance=float(self.exact[1]),
            samples=SAMPLES,
            wraps=False,
            nearest=False,
            threads=self.threads,
        )

    @cached_property
    def _track_spec(self) -> _core.TrackSpec:
        """How configurations are tracked in steps that are not halved."""
        return _core.TrackSpec(
            jump=MAX_JUMP,
            reach=self.reach,
            exact_position=float(self.exact[0]),
            exact_rotation=float(self.exact[1]),
            position_tolerance=float(self.tolerances[0]),
            rotation_tolerance=float(self.tolerances[1]),
            units=self.units.tolist(),
            divisions=0,
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

    @property
    def units(self) -> Array:
        """Units of the joints (n,) [rad or m]."""
        return self.targets.units

    @cached_property
    def reach(self) -> float:
        """The largest lever arm of a joint [m]; zero if no task has a position.

        The result is at least the unit of each slide, because a slide lengthens the lever arms of
        joints before it.
        """
        lever = _lever_arm(self.problem)
        return 0.0 if lever is None else max([lever, *self.units[self.robot.prismatic]])

    @cached_property
    def scale(self) -> float:
        """The size of J: the weight of rotations or, without these, weight times lever arm [m]."""
        kinds, weights = np.concatenate(self.rotating), np.abs(self.problem.layout.weights)
        if kinds.any():
            return float(weights[kinds].max())
        return float(weights.max()) * (self.reach or float(self.units.max()))

    # ---- errors ----------------------------------------------------------------------------------

    def errors(self, q: Array, targets: Array) -> Array:
        """Return position and rotation errors (K, 2) [m, rad] at configurations (K, n)."""
        at = np.ascontiguousarray(to_kernel(self.robot, q[:, None]))
        return _core.interval_errors(self.problem.kernel, at, targets)[0]

    def deviation(self, q: Array, x: Array) -> Array:
        """Return the errors (K, 2) [m, rad] of configurations (K, n) at places x (K,) of a path."""
        return self.errors(q, self.targets(x))

    def between(self, q: Array, x: Array) -> tuple[Array, Array]:
        """Return the largest errors of configurations (K, c, n) at places (K, c) of K intervals.

        At both ends of an interval the error vanishes.

        Returns:
            The largest errors (K, 2) [m, rad] at the c places, and estimated bounds (K, 2) on the
            errors in the whole interval. Between the places, a parabola through three neighboring
            errors exceeds the largest of the three by at most an eighth of its second difference.
            The bound adds a quarter of the largest second difference, as second differences vary,
            and the tolerance of the solutions (`exact`).
        """
        own = np.ascontiguousarray(to_kernel(self.robot, q))
        at, bend = _core.interval_errors(self.problem.kernel, own, self.targets(x.ravel()))
        kinds = np.concatenate(self.rotating)
        return at, at + bend / 4 + self.exact * np.array([not kinds.all(), kinds.any()])

    def bend(self, step: Array) -> Array:
        """Return bounds (K, 2) [m, rad] on the error halfway along straight joint steps (K, n).

        Both ends of a step are on the path, and the target is assumed to move at constant velocity.
        The tool's acceleration is at most the square of the sum of joint speeds, times the lever
        arm.
        """
        far = np.abs(step / self.units).sum(axis=-1)[..., None]
        return np.asarray(far**2 / 8 * np.array([2 * self.reach, 1.0]))

    def wrapped(self, change: Array) -> Array:
        """Return displacements (..., n) less the full turns of joints with room for a full turn."""
        far = (np.abs(change) > np.pi) & (self.turns > 0)
        if not far.any():
            return change
        made = change.copy()
        made[far] -= 2 * np.pi * np.rint(change[far] / (2 * np.pi))
        return made

    def away(self, q1: Array, q0: Array) -> Array:
        """Return the displacements (..., n) from q0 to q1, without full turns."""
        return self.wrapped(difference(self.robot, q1, q0))

    def turned(self, q: Array, start: Array, near: Array) -> Array:
        """Return q (..., n), turned by the same full turns that bring `start` nearest to `near`."""
        far = difference(self.robot, near, start)
        moved = integrate(self.robot, q, far)
        return np.asarray(integrate(self.robot, moved, -self.wrapped(far)))

    def unwound(self, q: Array) -> Array:
        """Return a sequence of configurations (K, n) whose steps have no full turns."""
        steps = difference(self.robot, q[1:], q[:-1])
        turns = np.cumsum(self.wrapped(steps) - steps, axis=0)
        return np.append(q[:1], integrate(self.robot, q[1:], turns), 0)

    # ---- solutions -------------------------------------------------------------------------------

    def driver(
        self, solutions: int | None = None, seeds: int = 1, check: WorldCheck | None = None
    ) -> Driver:
        """Return a solver that starts from the given q only, or from `seeds` seeds per target."""
        return Driver(
            self.problem,
            SolveOptions(
                position_tolerance=float(self.exact[0]),
                rotation_tolerance=float(self.exact[1]),
                max_seeds=seeds,
                prefer="fast",
                solutions=solutions,
                began=0.0,
                deadline=np.inf,
                explain=False,
                threads=self.threads,
                progress=None,
                gpu=None,
                check=check,
            ),
        )

    def near(self, x: Array, q: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Return the solutions at places x (K,) found from q (K, n), and a mask (K,) of success."""
        found = self.driver().solve_batch(self.targets(x), to_kernel(self.robot, q))
        return found.q, np.asarray(found.success)

    def nearest(self, x: Array, q: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Return the solutions at places x (K,) nearest to q (K, n), and a mask (K,) of success.

        If not all solutions can be computed, the result is the solutions that a search from q
        finds.
        """
        if not isinstance(self.arm, ClosedFormArm | AnyArm):
            return self.near(x, q)
        every, _, _, sampled, count, _ = self.arm.solve(
            self.problem, self.targets(x), None, self.spec
        )
        of = np.repeat(np.arange(len(x)), count)
        own = integrate(self.robot, q[of], self.away(every, q[of]))
        inside = ((self.robot.lower <= own) & (own <= self.robot.upper)).all(axis=1)
        far = np.where(inside, largest_move(self.robot, own, q[of]), np.inf)
        order = np.lexsort((far, of))
        first = np.searchsorted(of[order], np.arange(len(x)))
        good = count > 0
        made = q.copy()
        best = order[first[good]]
        made[good] = own[best]
        good[good] = np.isfinite(far[best])
        singular = np.unique(of[sampled])  # the nearest solution may be between samples
        if len(singular):
            then, there = self.near(x[singular], q[singular])
            there &= largest_move(self.robot, then, q[singular]) < np.where(
                good[singular], largest_move(self.robot, made, q)[singular], np.inf
            )
            made[singular[there]], good[singular[there]] = then[there], True
        return made, good

    def searched(self, at: int, count: int, seeds: int = 0) -> Array:
        """Return up to `count` solutions (s, n) of a target that keep the clearance from obstacles.

        Args:
            at: Index of the target.
            count: Maximum number of solutions.
            seeds: Maximum number of seeds; 0 for the default of `solve`.
        """
        check = None if self.obstacles is None else self.obstacles.check
        driver = self.driver(count, seeds=seeds, check=check)
        found = driver.solve_several(self.targets.numbers[at], None)
        if not found.success.any() and at not in self._closest:
            found = self.closest(at)
        return np.asarray(found.q[found.success])

    def closest(self, at: int) -> Any:
        """Return the closest pose to a target, as a batch of one solution."""
        if at not in self._closest:
            numbers = self.targets.numbers[at : at + 1]
            self._closest[at] = self.driver(seeds=_SEEDS).solve_batch(numbers, None)
        return self._closest[at]

    def found(self, at: NDArray[np.intp], seeds: int) -> tuple[Array, NDArray[np.bool_]]:
        """Search for one solution of each target from `seeds` seeds; return q and a mask."""
        found = self.driver(seeds=seeds).solve_batch(self.targets.numbers[at], None)
        return found.q, np.asarray(found.success)

    def outside(self, q: Array) -> str | None:
        """Return the name of a joint of q (n,) that is outside its limits; None if none is."""
        at = to_kernel(self.robot, q)
        inside = to_kernel(self.robot, clipped(self.robot, q))
        out = np.abs(coordinate_difference(at, inside)) > LIMIT_TOLERANCE * np.maximum(
            self.units, np.abs(inside)
        )
        return self.robot.joint_names[int(np.argmax(out))] if out.any() else None

    def start(self, q0: Array) -> Array | None:
        """Check that q0 reaches the first target; return the solution near q0 inside the limits.

        The result is None if q0 is outside the limits and no solution inside is near it.
        """
        error = self.errors(q0[None], self.targets.numbers[:1])[0]
        if (error > self.tolerances).any():
            raise InputError(
                f"q0 must be at the first target; given: a configuration {error[0] * 1e3:.3g} mm "
                f"and {error[1] * 1e3:.3g} mrad away"
            )
        inside = clipped(self.robot, q0)
        exact, good = self.near(self.targets.x[:1], inside[None])
        if good[0]:
            return np.asarray(exact[0])
        return None if self.outside(q0) else inside

    def course(self, x: Array, divisions: int) -> Array:
        """Return the targets (R, S, k) of steps between places (R, L), halved `divisions` times.

        The result has the targets at both ends and in the middle of each of the smallest parts.
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
            divisions: Maximum number of times that a step is halved.
        """
        spec = self._track_spec
        if divisions != spec.divisions:
            spec = spec.replace(divisions=divisions)
        own = np.ascontiguousarray(to_kernel(self.robot, q))
        return np.asarray(
            from_kernel(self.robot, _core.tracked(self.problem.kernel, own, course, spec))
        )

    def advanced(self, q: Array, x0: Array, x1: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Track configurations (K, n) from places x0 (K,) to x1 (K,).

        Return the configurations at x1, and a mask (K,) of those that arrive.
        """
        course = self.course(np.stack([x0, x1], axis=1), _MAX_HALVINGS)
        then = self.tracked(q, course, _MAX_HALVINGS)[1]
        return then, np.isfinite(then[:, 0])

    def loosened(self, at: int) -> PathProblem | None:
        """Return the problem with larger allowed errors, if only they let a target be solved."""
        if self.fractions == self.loosest:
            return None
        found = self.closest(at)
        missed = np.array([found.position_error[0], found.rotation_error[0]])
        if found.success[0] or (missed > self.tolerances).any():
            return None
        other = replace(self, fractions=self.loosest, _closest={})
        return other if other.closest(at).success[0] else None
