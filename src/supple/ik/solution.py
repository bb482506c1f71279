"""Results of `solve`: one solution, a batch of them, or several solutions of one target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.errors import InputError, short_repr
from supple.ik.report import SolveReport
from supple.ik.status import SolveStatus
from supple.kinematics import Robot
from supple.kinematics.branch import branch_signs
from supple.motion.linearization import Array
from supple.motion.status_array import StatusArray

if TYPE_CHECKING:
    from typing import overload


STATUS = tuple(SolveStatus)  # statuses, indexed by their values
_MAX_LISTED = 20  # maximum number of solutions that `str()` lists
_LATER = {"status": np.int8, "iterations": np.int32, "restarts": np.int32, "sampled": np.bool_}
_PARTS = ("q", "status", "position_error", "rotation_error", "iterations", "restarts")

Arrays = TypeVar("Arrays", bound="SolutionArrays")


def _none_sampled() -> NDArray[np.bool_]:
    return np.empty(0, dtype=np.bool_)


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
            return replace(self, **dict(zip(_PARTS, parts, strict=True)))
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
        return tuple(getattr(self, name) for name in _PARTS)


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


@dataclass(frozen=True, eq=False, repr=False)
class Solutions(SolutionArrays):
    """Several solutions of one target, the best first; `str()` of it lists them.

    They are ordered by `prefer` of `solve`; by default the solution nearest to q0 is first or,
    without q0, the one farthest from joint limits. `found[0]` is the best `Solution`, and iteration
    yields each. If the target is unreachable, the only entry is the closest pose found;
    with solutions="all" there is none. Indexing always returns a copy.

    At a singular target, and for a redundant robot, solutions form a continuum: some joints can
    move while the frame stays. With solutions="all" the continuum is sampled.

    Attributes:
        q: Joint coordinates (s, n) [rad or m], inside the limits.
        status: Statuses (s,), an int8 array whose entries are `SolveStatus`.
        position_error: Largest position error of all tasks (s,) [m].
        rotation_error: Largest rotation error of all tasks (s,) [rad].
        iterations: Number of iterations until each solution was found (s,).
        restarts: Number of seeds after the first until each solution was found (s,).
        sampled: Whether each solution is a sample of a continuum (s,); empty without
            solutions="all".
        complete: Whether these are all solutions of the target inside the limits.
        reason: The reason why there may be more solutions; empty if they are complete.
        robot: The solved robot.
    """

    sampled: NDArray[np.bool_] = field(default_factory=_none_sampled, kw_only=True)
    complete: bool = field(default=False, kw_only=True)
    reason: str = field(default="only some were searched", kw_only=True)
    frame: str | None = field(default=None, kw_only=True)

    @property
    def free(self) -> NDArray[np.bool_]:
        """Joints (s, n) that can move while the frame stays; none at an isolated solution."""
        return _free(self.robot, self.frame, self.q, self.sampled)

    @property
    def branch(self) -> NDArray[np.int8]:
        """Signs (s, 3) of shoulder, elbow and wrist, for arms that have these.

        They change only where the arm passes a singularity, where they are zero.

        Raises:
            InputError: The arm has no such branches, or the target is no pose.
        """
        return _branch(self.robot, self.frame, self.q)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return a field that `all_of_one` does not set, after setting it to its default."""
            if name not in _LATER:
                raise AttributeError(f"Solutions has no attribute {name!r}")
            value = np.zeros(len(self.q), dtype=_LATER[name])
            if name == "status":
                value = StatusArray.of(SolveStatus, value)
            return self.__dict__.setdefault(name, value)

        def __getitem__(self, index: Any) -> Any:
            part = super().__getitem__(index)
            if isinstance(part, Solution):
                return part
            each = index if isinstance(index, tuple) else (index,)
            sampled = np.array(self.sampled[each]) if len(self.sampled) else self.sampled
            return replace(
                part, sampled=sampled, complete=False, reason="a part of them was selected"
            )

    def __str__(self) -> str:
        count = self.status.count(SolveStatus.CONVERGED)
        if not count:
            return f"no solution; {self[0]}" if len(self) else "no solution"
        every = "all " * (self.complete and count > 1)
        lines = [f"{every}{count} solution{'s' * (count != 1)} of one target, the best first"]
        lines += [f"  {self[i]}" for i in range(min(len(self), _MAX_LISTED))]
        more = len(self) - _MAX_LISTED
        return "\n".join(lines + [f"  and {more} more"] * (more > 0))


@dataclass(frozen=True, eq=False, repr=False)
class BatchSolutions:
    """All solutions of each target of a batch, in the order of the targets.

    `found[3]` is the `Solutions` of target 3, iteration yields each, and `str()` is a summary. A
    batch with several axes is indexed by one integer per axis.

    Attributes:
        q: Joint coordinates (s, n) of all solutions of all targets [rad or m], those of the first
            target first, each target's best first.
        position_error: Position error of each solution (s,) [m].
        rotation_error: Rotation error of each solution (s,) [rad].
        sampled: Whether each solution is a sample of a continuum (s,).
        count: Number of solutions of each target (...).
        complete: Whether these are all solutions of each target (...).
        reason: The reason why targets that are not complete may have more solutions.
        robot: The solved robot.
        frame: Name of the frame whose poses are the targets; None for other tasks.
    """

    q: Array
    position_error: Array
    rotation_error: Array
    sampled: NDArray[np.bool_]
    count: NDArray[np.int32]
    complete: NDArray[np.bool_]
    reason: str
    robot: Robot
    frame: str | None

    @property
    def free(self) -> NDArray[np.bool_]:
        """Joints (s, n) that can move while the frame stays; none at an isolated solution."""
        return _free(self.robot, self.frame, self.q, self.sampled)

    @property
    def branch(self) -> NDArray[np.int8]:
        """Signs (s, 3) of shoulder, elbow and wrist, for arms that have these.

        They change only where the arm passes a singularity, where they are zero.

        Raises:
            InputError: The arm has no such branches, or the target is no pose.
        """
        return _branch(self.robot, self.frame, self.q)

    @property
    def shape(self) -> tuple[int, ...]:
        """The batch axes."""
        return self.count.shape

    @property
    def size(self) -> int:
        """The number of targets."""
        return self.count.size

    @property
    def target(self) -> NDArray[np.intp]:
        """The flat index (s,) of the target of each solution."""
        return np.repeat(np.arange(self.size), self.count.ravel())

    def padded(self) -> Array:
        """Return the solutions as (..., k, n) [rad or m], k the largest count, padded with NaN."""
        flat = self.count.ravel()
        made = np.full((self.size, int(flat.max(initial=0)), self.q.shape[1]), np.nan)
        made[np.arange(made.shape[1]) < flat[:, None]] = self.q
        return made.reshape(*self.shape, *made.shape[1:])

    def __len__(self) -> int:
        return len(self.count)

    def __iter__(self) -> Iterator[Solutions]:
        return (self[i] for i in np.ndindex(self.shape))

    def __getitem__(self, index: int | tuple[int, ...]) -> Solutions:
        each = index if isinstance(index, tuple) else (index,)
        if len(each) != len(self.shape) or not all(isinstance(i, int | np.integer) for i in each):
            raise IndexError(
                f"an index must be one integer for each of the batch axes {self.shape}; "
                f"given: {short_repr(index)}"
            )
        flat = int(np.arange(self.size).reshape(self.shape)[each])
        begin = int(self.count.ravel()[:flat].sum())
        part = slice(begin, begin + int(self.count[each]))
        made = all_of_one(
            self.q[part].copy(),
            self.position_error[part].copy(),
            self.rotation_error[part].copy(),
            bool(self.complete[each]),
            self.reason,
            self.robot,
            self.frame,
        )
        return replace(made, sampled=self.sampled[part].copy())

    def __repr__(self) -> str:
        return f"<BatchSolutions {self.shape}: {len(self.q)} solutions>"

    def __str__(self) -> str:
        count, complete = self.count.ravel(), int(self.complete.sum())
        lines = [f"{len(self.q)} solutions of {self.size} targets, {complete} of them complete"]
        numbers, targets = np.unique(count, return_counts=True)
        lines += [f"  {t:>6} with {n}" for n, t in zip(numbers, targets, strict=True)]
        return "\n".join(lines)


def all_of_one(
    q: Array,
    position_error: Array,
    rotation_error: Array,
    complete: bool,
    reason: str,
    robot: Robot,
    frame: str | None,
) -> Solutions:
    """Return all solutions (s, n) of one target, not sampled and without iterations.

    This is faster than the constructor, which would take longer than the solutions themselves. The
    other fields are set when they are first read.
    """
    made = object.__new__(Solutions)
    fields = made.__dict__
    fields["q"] = q
    fields["position_error"] = position_error
    fields["rotation_error"] = rotation_error
    fields["complete"] = complete
    fields["reason"] = "" if complete else reason
    fields["robot"] = robot
    fields["frame"] = frame
    return made


def _free(
    robot: Robot | None, frame: str | None, q: Array, sampled: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return which joints (s, n) take part in the null space of J, at the sampled solutions."""
    if robot is None or frame is None or len(sampled) != len(q):
        raise InputError('free is for poses by solutions="all"; given: other solutions')
    free = np.zeros(q.shape, dtype=np.bool_)
    if sampled.any():
        J = robot.jacobian(q[sampled], frame)
        _, sigma, Vt = np.linalg.svd(J)
        still = np.ones(Vt.shape[:-1], dtype=np.bool_)
        still[:, : sigma.shape[-1]] = sigma <= 1e-6 * sigma[:, :1]
        free[sampled] = ((np.abs(Vt) > 1e-6) & still[..., None]).any(axis=-2)
    return free


def _branch(robot: Robot | None, frame: str | None, q: Array) -> NDArray[np.int8]:
    """Return the signs (s, 3) of shoulder, elbow and wrist."""
    if robot is None or frame is None:
        raise InputError('branch is for poses by solutions="all"; given: other solutions')
    return branch_signs(robot, q, frame)


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
