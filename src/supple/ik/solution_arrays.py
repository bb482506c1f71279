"""Solutions as arrays, and the result of `solve` for a batch of targets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.control.status_array import StatusArray
from supple.errors import InputError, short_repr
from supple.ik.branches.same_branch import largest_move, on_same_branch
from supple.ik.report import unit_hint
from supple.ik.solution import Solution, robot_of, seed_of
from supple.ik.status import SolveStatus
from supple.ik.task_errors import Asked, solution_errors, surplus_rows
from supple.kinematics import Robot
from supple.kinematics.unit_text import error_text
from supple.motion.linearization import Array
from supple.tasks.inputs import task_name

if TYPE_CHECKING:
    from typing import overload

_PARTS = ("q", "status", "position_error", "rotation_error", "iterations", "restarts")

Arrays = TypeVar("Arrays", bound="SolutionArrays")


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
    q0: Array | None = field(default=None, kw_only=True)
    tasks: Any = field(default=None, kw_only=True)
    _asked: Asked | None = field(default=None, kw_only=True)  # with several tasks

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", StatusArray.of(SolveStatus, self.status))

    @property
    def success(self) -> NDArray[np.bool_]:
        """Whether each target is met within the tolerances (...)."""
        return np.asarray(self.status == SolveStatus.CONVERGED)

    @property
    def position_errors(self) -> Array:
        """The position error of each task (..., k) [m]; zero for tasks without a position.

        The definition is that of `Solution.position_errors`; computed when it is read.
        """
        return self._errors()[..., 0]

    @property
    def rotation_errors(self) -> Array:
        """The rotation error of each task (..., k) [rad]; zero for tasks without a rotation."""
        return self._errors()[..., 1]

    def _errors(self) -> Array:
        """Return the position and rotation errors of each task (..., k, 2)."""
        whole = np.stack([self.position_error, self.rotation_error], axis=-1)[..., None, :]
        if self._asked is None:
            return whole
        errors = solution_errors(robot_of(self), self.tasks, self.q, self._asked.targets)
        return np.where(np.isfinite(whole).all(axis=-1, keepdims=True), errors, np.inf)

    @property
    def moved(self) -> Array:
        """The largest displacement of a joint (...), max |q - q0| [rad or m].

        Raises:
            InputError: The call had no q0.
        """
        return largest_move(self.q, seed_of(self, "moved"))

    @property
    def same_branch(self) -> NDArray[np.bool_]:
        """Whether a motion without a singularity in between joins q0 to each q (...).

        The definition is that of `Solution.same_branch`. The property is computed when it is read.

        Raises:
            InputError: The call had no q0.
        """
        q0 = seed_of(self, "same_branch")
        return on_same_branch(robot_of(self), self.tasks, q0, self.q)

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
            asked = None if self._asked is None else self._asked.part(index, self.shape)
            named = dict(zip(_PARTS, parts, strict=True))
            return replace(self, **named, q0=self._seed(index), _asked=asked)
        q, status, position, rotation, iterations, restarts = (x[each] for x in self._parts())
        q0 = self._seed(each)
        return Solution(
            q.copy(),
            status,
            float(position),
            float(rotation),
            int(iterations),
            int(restarts),
            robot=self.robot,
            _q0=None if q0 is None else q0.tobytes(),
            tasks=self.tasks,
            _asked=None if self._asked is None else self._asked.part(each, self.shape).tobytes(),
        )

    def plot(self, *, target: ArrayLike | None = None, title: str | None = None) -> Any:
        """Return a Matplotlib figure of the robot at these solutions, the first one in full color.

        Args:
            target: Poses (..., 4, 4) in the world [m] to draw as dotted axes.
            title: Title of the figure; the robot and the number of solutions by default.

        Raises:
            MissingExtraError: Matplotlib is not installed.
        """
        robot = robot_of(self)
        q = np.asarray(self.q).reshape(-1, robot.dof)[::-1]
        words = f"{robot.name}: {repr(self)[1:-1]}" if title is None else title
        return robot.plot(q, target=target, title=words)

    def _repr_html_(self) -> str:
        from supple.plot.html import solutions_html

        return solutions_html(self)

    def __bool__(self) -> NoReturn:
        raise InputError(
            "the truth value of several solutions is ambiguous: use success.all() or success.any()"
        )

    def __repr__(self) -> str:
        converged = int(self.success.sum())
        missed = "".join(f", {count} miss {name}" for name, count, _, _ in self._missed())
        return f"<{type(self).__name__} {self.shape}: {converged} of {self.size} converged{missed}>"

    def _missed(self) -> list[tuple[str, int, float, float]]:
        """Return the tasks that are missed, if there are several.

        For each its name in words, the number of targets, and the largest position and rotation
        error among those whose errors are finite.
        """
        if self._asked is None or self.success.all():
            return []
        failed = self[~self.success]
        errors = failed._errors().reshape(-1, len(self.tasks), 2)
        errors = errors[np.isfinite(errors).all(axis=(1, 2))]
        above = np.any(errors > self._asked.tolerances, axis=-1)
        return [
            (task_name(task), int(above[:, k].sum()), *errors[:, k].max(axis=0).tolist())
            for k, task in enumerate(self.tasks)
            if above[:, k].any()
        ]

    def _seed(self, index: Any) -> Array | None:
        """Return the seeds of a part of the solutions."""
        if self.q0 is None or self.q0.ndim == 1:
            return self.q0
        return np.array(self.q0[index])

    def _parts(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in _PARTS)


@dataclass(frozen=True, eq=False, repr=False)
class BatchSolution(SolutionArrays):
    """Solutions of a batch of targets, one per target; `str()` returns a summary.

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
        robot: The robot of the call.
        q0: The seeds of the call, (n,) or (..., n) [rad or m]; None without any.
        tasks: The tasks of the call.
    """

    def __str__(self) -> str:
        counts = [(status, self.status.count(status)) for status in SolveStatus]
        lines = [f"{self.size} target{'s' if self.size != 1 else ''}"]
        lines += [f"  {n:>6} {status}: {status.sentence}" for status, n in counts if n]
        lines += [
            f"  {n:>6} miss {name}, by up to {error_text(position, rotation)}"
            for name, n, position, rotation in self._missed()
        ]
        if self.robot is not None and self.tasks and not self.success.all():
            surplus = surplus_rows(self.robot, self.tasks)
            lines += [surplus] * bool(surplus)
        if self.robot is not None and self.status.count(SolveStatus.UNREACHABLE) == self.size > 0:
            hint = unit_hint(self.robot, float(self.position_error.min()))
            lines += [hint] * bool(hint)
        return "\n".join(lines)
