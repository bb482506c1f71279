"""Several solutions of a target: the results of `solve(solutions=...)`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from supple.control.status_array import StatusArray
from supple.errors import InputError, short_repr
from supple.ik.solution import Solution, small_errors
from supple.ik.solution_arrays import SolutionArrays
from supple.ik.status import SolveStatus
from supple.kinematics import Robot
from supple.kinematics.branch import (
    BRANCHES,
    branch_legend,
    branch_signs,
    branch_words,
    has_branches,
)
from supple.kinematics.unit_text import joint_unit
from supple.motion.linearization import Array

_MAX_LISTED = 20  # maximum number of solutions that `str()` lists
_LATER = {"status": np.int8, "iterations": np.int32, "restarts": np.int32, "sampled": np.bool_}


def _none_sampled() -> NDArray[np.bool_]:
    return np.empty(0, dtype=np.bool_)


@dataclass(frozen=True, eq=False, repr=False)
class Solutions(SolutionArrays):
    """Several solutions of one target, the best first; `str()` lists them.

    They are ordered by `prefer` of `solve`; by default the solution nearest to q0 is first or,
    without q0, the one farthest from joint limits. `found[0]` is the best `Solution`, and iteration
    yields each. If the target is unreachable, the only entry is the closest pose found;
    with solutions="all" there are no entries. Indexing always returns a copy.

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
        robot: The robot of the call.
        q0: The seed of the call (n,) [rad or m]; None without one.
        tasks: The tasks of the call; None with solutions="all" and without q0.
        frame: Name of the frame whose pose is the target; None for other tasks.
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

        The signs change only where the arm passes a singularity, where they are zero;
        `branch_names` has them in words.

        Raises:
            InputError: The arm has no such branches, or the targets are not poses.
        """
        return _branch(self.robot, self.frame, self.q)

    @property
    def branch_names(self) -> tuple[str, ...]:
        """The branch of each solution in words: "shoulder left, elbow up, wrist no flip".

        `str()` explains the words.

        Raises:
            InputError: The arm has no such branches, or the targets are not poses.
        """
        signs = self.branch
        assert self.robot is not None
        assert self.frame is not None
        words = branch_words(self.robot, signs, self.frame)
        return tuple(
            ", ".join(f"{part} {word}" for part, word in zip(BRANCHES, each, strict=True))
            for each in words
        )

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
        lines[0] += self._units()
        names = self._names()
        for k in range(min(len(self), _MAX_LISTED)):
            joints = " ".join(f"{x:9.4f}" for x in self.q[k])
            lines.append(f"{k:>4}: {joints}{'   ' * bool(names)}{names[k] if names else ''}")
        more = len(self) - _MAX_LISTED
        lines += [f"  and {more} more"] * (more > 0)
        if names and self.robot is not None and self.frame is not None:
            lines += [f"  {line}" for line in branch_legend(self.robot, self.frame)]
        return "\n".join(lines)

    def _units(self) -> str:
        """Return the unit of the joints and the largest error as text."""
        unit = "" if self.robot is None else f"; joints [{joint_unit(self.robot)}]"
        p, r = float(self.position_error.max()), float(self.rotation_error.max())
        return f"{unit}, errors of at most {small_errors(p, r)}"

    def _names(self) -> tuple[str, ...]:
        """Return the names of the branches, or nothing if the arm has none."""
        if self.robot is None or self.frame is None or not has_branches(self.robot, self.frame):
            return ()
        return self.branch_names


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
        robot: The robot of the call.
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

        The signs change only where the arm passes a singularity, where they are zero.

        Raises:
            InputError: The arm has no such branches, or the targets are not poses.
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
    """Return all solutions (s, n) of one target as `Solutions`.

    This is faster than the constructor, which would take longer than computing the solutions. The
    other fields, such as `sampled` and `iterations`, are set to zeros when they are first read.
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
        raise InputError('free is for poses solved with solutions="all"; given: other solutions')
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
        raise InputError('branch is for poses solved with solutions="all"; given: other solutions')
    return branch_signs(robot, q, frame)
