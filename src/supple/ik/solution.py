"""The result of `solve` for one target."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from supple.errors import InputError
from supple.ik.branches.same_branch import largest_move, on_same_branch
from supple.ik.missed import reasons_of
from supple.ik.report import SolveReport
from supple.ik.status import SolveStatus
from supple.ik.task_errors import (
    TaskTargets,
    missed_norms,
    missed_tasks,
    missed_text,
    solution_errors,
    surplus_rows,
)
from supple.ik.world_check import WorldCheck, check_of
from supple.kinematics import Robot
from supple.motion.linearization import Array
from supple.motion.unit_text import error_text
from supple.tasks import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, slots=True)
class Solution:
    """A configuration that meets a target, or comes closest to it.

    Errors are computed in double precision at the returned q. `bool(solution)` is True if it has
    converged. `str(solution)` is a sentence, followed by the report with `explain=True`. q is not
    shared with other results, so writing to it changes only this solution.

    Attributes:
        q: Joint coordinates (n,) [rad or m], inside the limits; an array of the target's library.
        status: Status: converged, or the reason why not.
        position_error: Largest position error of all tasks [m]; infinite if nothing was solved.
        rotation_error: Largest rotation error of all tasks [rad]; infinite if nothing was solved.
        iterations: Number of iterations of the search.
        restarts: Number of seeds after the first, including those that ran in parallel.
        report: A diagnosis, with `explain=True`; otherwise None.
        robot: The robot of the call.
        tasks: The tasks of the call.
    """

    q: Array
    status: SolveStatus
    position_error: float
    rotation_error: float
    iterations: int
    restarts: int
    report: SolveReport | None = None
    robot: Robot | None = field(default=None, repr=False)
    _q0: bytes | None = field(default=None, repr=False)  # as bytes, which are faster to copy
    tasks: tuple[Task, ...] = field(default=(), repr=False)
    _task_targets: bytes | None = field(default=None, repr=False)  # `TaskTargets` of several tasks
    _check: WorldCheck | None = field(default=None, repr=False)  # with `world`

    @property
    def success(self) -> bool:
        """Whether the target is met within the tolerances."""
        return self.status == SolveStatus.CONVERGED

    @property
    def _array(self) -> Array:
        """The configuration q as an array of NumPy."""
        return np.asarray(self.q)

    def __bool__(self) -> bool:
        return self.success

    @property
    def position_errors(self) -> Array:
        """The position error of each task (k,) [m]; zero for tasks without a position.

        This and `rotation_errors` are computed when they are read. A `PostureTask` is a preference
        and has no error. All errors are infinite if nothing was solved.
        """
        return self._errors()[:, 0]

    @property
    def rotation_errors(self) -> Array:
        """The rotation error of each task (k,) [rad]; zero for tasks without a rotation."""
        return self._errors()[:, 1]

    @property
    def missed(self) -> Array:
        """How far each task is from being met (k,) [m and rad]; zero for tasks that are met.

        The value is the norm of both errors of a task, or zero if both errors are within the
        tolerances. It is computed when it is read.
        """
        given = self._task_targets
        tolerances = None if given is None else TaskTargets.of(given).tolerances
        return missed_norms(self._errors(), tolerances, self.success)

    @property
    def reasons(self) -> tuple[str, ...]:
        """A sentence about each task that is missed: by how much, and why.

        With several tasks, the closest configuration tells which other tasks or which joint limits
        hold a task back. Otherwise the reason is that of `status`. Computed when it is read.
        """
        return reasons_of(self)

    @property
    def _missed_tasks(self) -> tuple[tuple[str, float, float], ...]:
        """The tasks that are not met with their errors, if there are several."""
        given = self._task_targets
        if given is None:
            return ()
        return missed_tasks(self.tasks, self._errors(), TaskTargets.of(given).tolerances)

    def _errors(self) -> Array:
        """Return the position and rotation errors of each task (k, 2)."""
        whole = np.array([[self.position_error, self.rotation_error]])
        if self._task_targets is None:
            return whole
        if not np.isfinite(whole).all():
            return np.full((len(self.tasks), 2), np.inf)
        given = TaskTargets.of(self._task_targets)
        return solution_errors(robot_of(self), self.tasks, self._array, given.targets)

    @property
    def q0(self) -> Array | None:
        """The seed of the call (n,) [rad or m]; None without one."""
        return None if self._q0 is None else np.frombuffer(self._q0)

    @property
    def moved(self) -> float:
        """The largest displacement of a joint, max |q - q0| [rad or m].

        Raises:
            InputError: The call had no q0.
        """
        return float(largest_move(self.robot, self._array, seed_of(self, "moved")))

    @property
    def same_branch(self) -> bool:
        """Whether a motion without a singularity in between joins q0 to q.

        For arms whose branches have names (`Solutions.branch`), q is on the branch of q0 if the
        signs of shoulder, elbow and wrist are the same. In all other cases, and if a joint moves by
        more than half a turn, the straight motion of the joints from q0 to q decides: it must not
        cross a singularity of the tasks. A singular q0 is on the boundary of several branches and
        belongs to each. The property is computed when it is read.

        Raises:
            InputError: The call had no q0.
        """
        q0 = seed_of(self, "same_branch")
        return bool(on_same_branch(robot_of(self), self.tasks, q0, self._array))

    @property
    def clearance(self) -> float:
        """The distance of the nearest pair of parts at q [m]; infinite if no pair is checked.

        The distance is negative where parts penetrate. It is computed when it is read.

        Raises:
            InputError: The call had no world.
        """
        return check_of(self, "clearance").distance(self._array)

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Names of the links and obstacles that are too close to each other at q, nearest first.

        Raises:
            InputError: The call had no world.
        """
        return check_of(self, "pairs").blocking(self._array)

    @property
    def is_proven(self) -> bool:
        """Whether a blocked target is proven to have no free solution: all its solutions collide.

        Raises:
            InputError: The call had no world.
        """
        return check_of(self, "is_proven").complete and self.status == SolveStatus.BLOCKED

    @property
    def blocked(self) -> tuple[tuple[Array, tuple[tuple[str, str], ...]], ...]:
        """The solutions that were checked and collide, each with the names of its colliding pairs.

        For arms all of whose solutions can be computed (`Solver.all`), these are all solutions; for
        other robots, the only entry is this solution. Empty if the target is not blocked.

        Raises:
            InputError: The call had no world.
        """
        check = check_of(self, "blocked")
        if self.status != SolveStatus.BLOCKED:
            return ()
        every = check.branches if len(check.branches) else self._array[None]
        return tuple((np.array(q), check.blocking(q)) for q in every)

    def plot(self, *, target: ArrayLike | None = None, title: str | None = None) -> Figure:
        """Return a Matplotlib figure of the robot at this solution.

        Args:
            target: Poses (..., 4, 4) in the world [m] to draw as dotted axes.
            title: Title of the figure; the robot and the status by default.

        Raises:
            MissingExtraError: Matplotlib is not installed.
        """
        robot = robot_of(self)
        words = f"{robot.name}: {self.status}" if title is None else title
        return robot.plot(self._array, target=target, title=words)

    def _repr_html_(self) -> str:
        from supple.plot.html import solution_html

        return solution_html(self)

    def __repr__(self) -> str:
        names = [each.name for each in fields(self) if each.repr]
        names += ["position_errors", "rotation_errors"] * (self._task_targets is not None)
        return f"Solution({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    def __str__(self) -> str:
        if self.report is not None:
            return f"{self._sentence()}\n{self.report}"
        return "\n".join([self._sentence(), *self._causes()])

    def _causes(self) -> list[str]:
        """Return sentences: which of several tasks are missed; whether tasks have too many rows."""
        if self.status in (SolveStatus.CONVERGED, SolveStatus.NONFINITE_INPUT):
            return []
        missed = self._missed_tasks
        lines = [missed_text(missed)] if missed else []
        surplus = surplus_rows(self.robot, self.tasks) if self.robot and self.tasks else ""
        return lines + [surplus] * bool(surplus)

    def _sentence(self) -> str:
        if self.status == SolveStatus.CONVERGED:
            errors = small_errors(self.position_error, self.rotation_error)
            return f"converged in {self.iterations} iterations, {errors}"
        if self.status == SolveStatus.BLOCKED and self._check is not None:
            return self._check.sentence(self._array, self.restarts)
        away = f"{error_text(self.position_error, self.rotation_error)} away"
        if self.status == SolveStatus.UNREACHABLE:
            return f"unreachable: the closest pose found is {away}"
        if self.status == SolveStatus.MAX_MOVE:
            return f"no solution within max_move of q0: the closest pose found there is {away}"
        if self.status == SolveStatus.TIMEOUT:
            return f"timeout: the best pose so far is {away}"
        if self.status == SolveStatus.NOT_CONVERGED:
            seeds = f"{self.restarts + 1} seed{'s' if self.restarts else ''}"
            return f"not converged from {seeds}: the closest pose found is {away}"
        return f"{self.status}: {self.status.sentence}"


def robot_of(solution: Any) -> Robot:
    """Return the robot of a solution, or raise an error if it has none."""
    if solution.robot is None:
        raise InputError("the solution must have a robot; given: none")
    robot: Robot = solution.robot
    return robot


def seed_of(solution: Any, what: str) -> Array:
    """Return the seeds of a solution, or raise the error that `what` needs them."""
    if solution.q0 is None:
        raise InputError(f"{what} needs q0= in the call of solve; given: a solution without q0")
    q0: Array = solution.q0
    return q0


def small_errors(position: float, rotation: float) -> str:
    """Return errors as text: "3 µm, 12 nrad"; an error of exactly zero is left out.

    An error is exactly zero, for example, if no task has a rotation.
    """
    errors = ((position, "m"), (rotation, "rad"))
    return ", ".join(_scaled(x, unit) for x, unit in errors if x != 0) or "no error"


def _scaled(value: float, unit: str) -> str:
    """Format a length or an angle with an SI prefix, for example "3 µm"."""
    for size, prefix in ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"), (1e-12, "p")):
        if value >= size:
            return f"{value / size:.0f} {prefix}{unit}"
    return f"0 {unit}"
