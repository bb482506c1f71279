"""Results of `solve`: one solution, a batch of them, or several solutions of one target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.errors import InputError, short_repr
from supple.ik.report import SolveReport
from supple.ik.status import SolveStatus
from supple.kinematics import Robot
from supple.motion.linearization import Array
from supple.motion.status_array import StatusArray

if TYPE_CHECKING:
    from typing import overload


STATUS = tuple(SolveStatus)  # statuses, indexed by their values
_MAX_LISTED = 20  # maximum number of solutions that `str()` lists

Arrays = TypeVar("Arrays", bound="SolutionArrays")


@dataclass(frozen=True, eq=False, slots=True)
class Solution:
    """A configuration that meets a target, or comes closest to it.

    Errors are computed in double precision at the returned q. `bool(solution)` is True if it has
    converged. `str(solution)` is a sentence, followed by the report with `explain=True`. q is not
    shared with other results, so writing to it changes only this solution.

    Attributes:
        q: Joint coordinates (n,) [rad or m], inside the limits.
        status: Status: converged, or the reason why not.
        position_error: Largest position error of all tasks [m]; infinite if nothing was solved.
        rotation_error: Largest rotation error of all tasks [rad]; infinite if nothing was solved.
        iterations: Number of iterations of the search.
        restarts: Number of seeds after the first, including those that ran in parallel.
        report: A diagnosis, with `explain=True`; otherwise None.
        robot: The solved robot; None for a solution from GPU memory.
    """

    q: Array
    status: SolveStatus
    position_error: float
    rotation_error: float
    iterations: int
    restarts: int
    report: SolveReport | Any = None  # Any: callers with explain=True need no check for None
    robot: Robot | None = field(default=None, repr=False)

    @property
    def success(self) -> bool:
        """Whether the target is met within the tolerances."""
        return self.status == SolveStatus.CONVERGED

    def __bool__(self) -> bool:
        return self.success

    def plot(self, *, target: ArrayLike | None = None, title: str | None = None) -> Any:
        """Return a Matplotlib figure of the robot at this solution.

        Args:
            target: Poses (..., 4, 4) in the world [m] to draw as dotted axes.
            title: Title of the figure; the robot and the status by default.

        Raises:
            MissingExtraError: Matplotlib is not installed.
        """
        robot = _robot_of(self)
        words = f"{robot.name}: {self.status}" if title is None else title
        return robot.plot(self.q, target=target, title=words)

    def _repr_html_(self) -> str:
        from supple.plot.html import solution_html

        return solution_html(self)

    def __str__(self) -> str:
        return self._sentence() if self.report is None else f"{self._sentence()}\n{self.report}"

    def _sentence(self) -> str:
        if self.status == SolveStatus.CONVERGED:
            errors = f"{_scaled(self.position_error, 'm')}, {_scaled(self.rotation_error, 'rad')}"
            return f"converged in {self.iterations} iterations, {errors}"
        away = f"{1e3 * self.position_error:.1f} mm and {1e3 * self.rotation_error:.1f} mrad away"
        if self.status == SolveStatus.UNREACHABLE:
            return f"unreachable: the closest pose found is {away}"
        if self.status == SolveStatus.TIMEOUT:
            return f"timeout: the best pose so far is {away}"
        if self.status == SolveStatus.NOT_CONVERGED:
            return f"not converged in {self.iterations} iterations: the best pose found is {away}"
        return f"{self.status}: {self.status.sentence}"


@dataclass(frozen=True, eq=False, repr=False)
class SolutionArrays:
    """Solutions as arrays, with batch axes first; indexed like a NumPy array of solutions.

    With one batch axis, `len` is the number of solutions, and an integer index or iteration gives
    each `Solution`. With several axes, `len` and iteration refer to the first axis, and one integer
    per axis gives a `Solution`. Slices, masks and index arrays select a part. Indexing always
    returns a copy: writing to its arrays does not change those of the batch.
    """

    q: Array
    status: StatusArray[SolveStatus]
    position_error: Array
    rotation_error: Array
    iterations: NDArray[np.int32]
    restarts: NDArray[np.int32]
    robot: Robot | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", StatusArray.of(SolveStatus, self.status))

    @property
    def success(self) -> NDArray[np.bool_]:
        """Whether each target is met within the tolerances (...)."""
        return np.asarray(self.status == SolveStatus.CONVERGED)

    @property
    def shape(self) -> tuple[int, ...]:
        """The batch axes."""
        return tuple(self.status.shape)

    @property
    def size(self) -> int:
        """The number of solutions in all batch axes."""
        return self.status.size

    def __len__(self) -> int:
        return len(self.status)

    def __iter__(self) -> Iterator[Solution]:
        return (self[i] for i in range(len(self)))

    if TYPE_CHECKING:

        @overload
        def __getitem__(self: Arrays, index: int | tuple[int, ...]) -> Solution: ...
        @overload
        def __getitem__(
            self: Arrays, index: slice | NDArray[Any] | list[int] | tuple[Any, ...]
        ) -> Arrays: ...

    def __getitem__(self: Arrays, index: Any) -> Solution | Arrays:
        each = index if isinstance(index, tuple) else (index,)
        integers = all(isinstance(one, int | np.integer) for one in each)
        if len(each) > len(self.shape):
            raise IndexError(
                f"an index must have at most one entry for each of the batch axes {self.shape}; "
                f"given: {short_repr(index)}"
            )
        if not integers or len(each) < len(self.shape):
            parts: Any = (np.array(part[index]) for part in self._parts())
            return type(self)(*parts, robot=self.robot)
        q, status, position, rotation, iterations, restarts = (x[each] for x in self._parts())
        return Solution(
            q.copy(),
            status,
            float(position),
            float(rotation),
            int(iterations),
            int(restarts),
            robot=self.robot,
        )

    def plot(self, *, target: ArrayLike | None = None, title: str | None = None) -> Any:
        """Return a Matplotlib figure of the robot at these solutions, all but the first pale.

        Args:
            target: Poses (..., 4, 4) in the world [m] to draw as dotted axes.
            title: Title of the figure; the robot and the number of solutions by default.

        Raises:
            MissingExtraError: Matplotlib is not installed.
        """
        robot = _robot_of(self)
        q = np.asarray(self.q).reshape(-1, robot.dof)[::-1]
        words = f"{robot.name}: {repr(self)[1:-1]}" if title is None else title
        return robot.plot(q, target=target, title=words)

    def _repr_html_(self) -> str:
        from supple.plot.html import solutions_html

        return solutions_html(self)

    def __bool__(self) -> NoReturn:
        raise InputError(
            "the truth of several solutions is ambiguous: use success.all() or success.any()"
        )

    def __repr__(self) -> str:
        converged = int(self.success.sum())
        return f"<{type(self).__name__} {self.shape}: {converged} of {self.size} converged>"

    def _parts(self) -> tuple[Any, ...]:
        return (
            self.q,
            self.status,
            self.position_error,
            self.rotation_error,
            self.iterations,
            self.restarts,
        )


class BatchSolution(SolutionArrays):
    """Solutions of a batch of targets, one for each; `str()` of it is a summary.

    `found[3]` is the `Solution` of target 3, `found[found.success]` is the batch of those that
    converged, and iteration yields each `Solution`. A batch with several axes is indexed like an
    array: for axes (2, 3), `found[0]` is a batch of 3 and `found[0, 2]` is a `Solution`. Indexing
    always returns a copy.

    Attributes:
        q: Joint coordinates (..., n) [rad or m], inside the limits.
        status: Statuses (...), an int8 array whose entries are `SolveStatus`: `status[3].name`,
            `status.count(SolveStatus.CONVERGED)`.
        position_error: Largest position error of all tasks (...) [m]; infinite if not solved.
        rotation_error: Largest rotation error of all tasks (...) [rad]; infinite if not solved.
        iterations: Number of iterations of the search (...).
        restarts: Number of seeds after the first (...), including those that ran in parallel.
        robot: The solved robot; None for solutions from GPU memory.
    """

    def __str__(self) -> str:
        counts = [(status, self.status.count(status)) for status in SolveStatus]
        lines = [f"{self.size} target{'s' if self.size != 1 else ''}"]
        lines += [f"  {n:>6} {status}: {status.sentence}" for status, n in counts if n]
        return "\n".join(lines)


class Solutions(SolutionArrays):
    """Several solutions of one target, the best first; `str()` of it lists them.

    They are ordered by `prefer` of `solve`; by default the solution nearest to q0 is first or,
    without q0, the one farthest from joint limits. `found[0]` is the best `Solution`, and iteration
    yields each. If the target is unreachable, the only entry is the closest pose found. Indexing
    always returns a copy.

    Attributes:
        q: Joint coordinates (s, n) [rad or m], inside the limits.
        status: Statuses (s,), an int8 array whose entries are `SolveStatus`.
        position_error: Largest position error of all tasks (s,) [m].
        rotation_error: Largest rotation error of all tasks (s,) [rad].
        iterations: Number of iterations until each solution was found (s,).
        restarts: Number of seeds after the first until each solution was found (s,).
        robot: The solved robot.
    """

    def __str__(self) -> str:
        count = self.status.count(SolveStatus.CONVERGED)
        if not count:
            return f"no solution; {self[0]}" if len(self) else "no solution"
        lines = [f"{count} solution{'s' * (count != 1)} of one target, the best first"]
        lines += [f"  {self[i]}" for i in range(min(len(self), _MAX_LISTED))]
        more = len(self) - _MAX_LISTED
        return "\n".join(lines + [f"  and {more} more"] * (more > 0))


def _robot_of(solution: Solution | SolutionArrays) -> Robot:
    """Return the solved robot."""
    if solution.robot is None:
        raise InputError("plot needs the robot: use robot.plot(solution.q); given: no robot")
    return solution.robot


def _scaled(value: float, unit: str) -> str:
    """Return a small number with a prefix: 3 µm."""
    for size, prefix in ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"), (1e-12, "p")):
        if value >= size:
            return f"{value / size:.0f} {prefix}{unit}"
    return f"0 {unit}"
