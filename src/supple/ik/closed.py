"""Position inverse kinematics of robots with loops and couplings.

The search runs on the tree, with the loops as further tasks. Its solutions are then moved onto the
loops by Newton's method, and verified: loops and couplings hold to 1e-9 m and rad in every result,
whether the targets are met or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from supple._arrays.checks import library_of, like
from supple.errors import InputError, short_repr
from supple.ik.limbs import kernel_order
from supple.ik.solution import Solution
from supple.ik.solutions import Solutions
from supple.ik.status import SolveStatus
from supple.ik.task_errors import TaskTargets, solution_errors
from supple.kinematics import Robot
from supple.kinematics.loops import CLOSED_ERROR, closed_near, coupling_rows, moved_within
from supple.motion.linearization import Array
from supple.motion.status_array import StatusArray
from supple.tasks import Task
from supple.tasks.closure import loop_tasks

if TYPE_CHECKING:
    from supple.ik.solver import Solver

# Tuned constants are explained in docs/constants.md.
_NEWTON_TOLERANCE = 1e-13  # error at which Newton's method ends [m, rad]
# Largest tolerance of the search [m, rad]: with a larger one, a nearly singular solution of the
# tree may be far from every closed solution.
_MAX_SEARCH_TOLERANCE = 1e-8
_MAX_SEEDS = 4096  # default number of seeds; with loops, few seeds are near a solution
_PATIENCE = 12  # iterations within which the error must be halved, for robots with couplings
_NEWTON_STARTS = 64  # number of random starts of Newton's method, for robots with couplings


class ClosedSearch:
    """The search of a solver for a robot with loops.

    Attributes:
        robot: The robot.
        tasks: The tasks of the caller.
        inner: The solver of the tree, whose tasks are those of the caller and the loops.
        held: The targets of the loops.
    """

    def __init__(
        self, kind: type[Solver], robot: Robot, tasks: tuple[Task, ...], given: dict[str, Any]
    ) -> None:
        """Prepare the search; the arguments are the same as for a `Solver`.

        Raises:
            InputError: An argument is not available with loops.
        """
        self.robot, self.tasks = robot, tasks
        self.tree = robot.without_loops()
        more, self.held = loop_tasks(robot)
        each = {name: value for name, value in given.items() if name not in ("frame", "tasks")}
        self._tolerances = given["position_tolerance"], given["rotation_tolerance"]
        for name in ("position_tolerance", "rotation_tolerance"):
            each[name] = min(each[name], _MAX_SEARCH_TOLERANCE)
        each["max_seeds"] = each["max_seeds"] or _MAX_SEEDS
        self.inner = kind(self.tree, (*tasks, *more), **each)

    def solve_one(self, targets: Sequence[Any], q0: Any, explain: bool) -> Solution:
        """Solve one target of each task."""
        found: Solution = self.inner._solve_one((*targets, *self.held), q0, explain)
        numbers = self._numbers(targets)
        q, status, errors = self._settled(np.asarray(found.q)[None], [found.status], numbers[None])
        several = TaskTargets(self._own(numbers), self._tolerances) if len(self.tasks) > 1 else None
        other = library_of(found.q)
        return replace(
            found,
            q=q[0] if other is None else like(other, q[0]),
            status=SolveStatus(int(status[0])),
            position_error=float(errors[0, 0]),
            rotation_error=float(errors[0, 1]),
            robot=self.robot,
            tasks=self.tasks,
            _task_targets=None if several is None else several.tobytes(),
        )

    def solve_batch(self, targets: Sequence[Any], q0: Any, progress: Any) -> Solutions:
        """Solve a batch of targets of each task."""
        found = self.inner.batch((*targets, *self.held), q0, progress=progress)
        return self._of_inner(found, self._numbers(targets))

    def solve_several(self, targets: Sequence[Any], count: int, q0: Any) -> Solutions:
        """Return several solutions of one target of each task."""
        found = self.inner.several((*targets, *self.held), count, q0)
        return self._of_inner(found, self._numbers(targets))

    def _of_inner(self, found: Solutions, numbers: Array) -> Solutions:
        """Return solutions of the tree moved onto the loops."""
        lead = found.q.shape[:-1]
        q = np.asarray(found.q, np.float64).reshape(-1, self.robot.nq)
        aims = np.broadcast_to(numbers, (*lead, numbers.shape[-1])).reshape(len(q), -1)
        made, status, errors = self._settled(q, np.ravel(found.status), aims)
        given = TaskTargets(self._own(numbers), self._tolerances) if len(self.tasks) > 1 else None
        return replace(
            found,
            q=made.reshape(*lead, -1),
            status=StatusArray.of(SolveStatus, status.reshape(lead)),
            position_error=errors[:, 0].reshape(lead),
            rotation_error=errors[:, 1].reshape(lead),
            robot=self.robot,
            tasks=self.tasks,
            _task_targets=given,
        )

    def _numbers(self, targets: Sequence[Any]) -> Array:
        """Return the targets of tasks and loops in the kernel's layout (..., k)."""
        assert self.inner._problem is not None
        problem = self.inner._problem
        threads = self.inner._settings.threads or 1
        numbers: Array = problem.targets((*targets, *self.held), threads)
        return numbers

    def _own(self, numbers: Array) -> Array:
        """Return the targets of the caller's tasks (..., k), in the order of `kernel_order`."""
        assert self.inner._problem is not None
        problem = self.inner._problem
        part_of = dict(zip(problem.order, problem.layout._split(numbers), strict=True))
        own = [part_of[i] for i in kernel_order(self.robot, self.tasks)]
        return np.ascontiguousarray(np.concatenate(own, axis=-1))

    def _settled(
        self, q: Array, status: Any, numbers: Array
    ) -> tuple[Array, NDArray[np.int8], Array]:
        """Return closed configurations with statuses and errors (k, 2), from solutions of the tree.

        Args:
            q: Configurations (k, nq) that the search has found.
            status: Statuses of these configurations (k,).
            numbers: Targets in the kernel's layout (k, t).
        """
        status = np.array(status, np.int8)
        known = status != SolveStatus.NONFINITE_INPUT
        made, errors = q.copy(), np.full((len(q), 2), np.inf)
        if not known.any():
            return made, status, errors
        met = known & ((status == SolveStatus.CONVERGED) | (status == SolveStatus.BLOCKED))
        made[met] = self._met(q[met], numbers[met])
        made[known], closed = closed_near(self.robot, made[known])
        lost = np.flatnonzero(known)[~closed]
        made[lost] = self.robot.neutral()
        own = self._own(numbers)
        each = solution_errors(self.robot, self.tasks, made[known], own[known])
        errors[known] = each.max(axis=-2, initial=0.0)
        within = np.asarray((errors <= self._tolerances).all(axis=1))
        status[met & ~within] = SolveStatus.NOT_CONVERGED
        status[known & ~met & within] = SolveStatus.CONVERGED
        self._check(made, status, within)
        return made, status, errors

    def _check(self, q: Array, status: NDArray[np.int8], within: NDArray[np.bool_]) -> None:
        """Mark solutions that collide after they were moved onto the loops."""
        check = self.inner._settings.check
        rows = np.flatnonzero(within & (status == SolveStatus.CONVERGED))
        if check is not None and len(rows):
            status[rows[~check.free(q[rows])]] = SolveStatus.BLOCKED

    def _met(self, q: Array, numbers: Array) -> Array:
        """Return configurations (k, nq) at which loops, couplings and targets are met.

        Newton's method for all rows together starts from q. If this fails, a robot with couplings,
        which the search ignores, gets further starts from random closed configurations.
        """
        if not self.robot.couplings:
            return self._newton(q, numbers, patience=1)[0]
        best, size = self._newton(q, numbers, patience=_PATIENCE)
        for seed in range(_NEWTON_STARTS):
            left = np.flatnonzero(size > CLOSED_ERROR)
            if not len(left):
                break
            start = self.robot.random(len(left), seed=seed)
            found, error = self._newton(start, numbers[left], patience=_PATIENCE)
            better = error < size[left]
            best[left[better]], size[left[better]] = found[better], error[better]
        return best

    def _newton(self, q: Array, numbers: Array, patience: int) -> tuple[Array, Array]:
        """Return configurations (k, nq) after Newton's method for all rows, and their errors (k,).

        If the rows cannot all be met exactly, because a target is met only within the tolerance or
        a joint is at a limit, the best configuration so far is returned.

        Args:
            q: Configurations to start from (k, nq).
            numbers: Targets in the kernel's layout (k, t).
            patience: Maximum number of iterations until the error is halved.
        """
        best, at = q.copy(), q.copy()
        least, left = np.full(len(q), np.inf), np.arange(len(q))
        waited = np.zeros(len(q), int)
        while len(left):
            J, e = self._rows(at[left], numbers[left])
            size = np.abs(e).max(axis=1, initial=0.0)
            better = size < 0.5 * least[left]
            best[left[better]], least[left[better]] = at[left[better]], size[better]
            waited[left] = np.where(better, 0, waited[left] + 1)
            going = (waited[left] < patience) & (size > _NEWTON_TOLERANCE)
            left, J, e = left[going], J[going], e[going]
            if len(left):
                at[left] = moved_within(self.tree, at[left], J, e)
        return best, least

    def _rows(self, q: Array, numbers: Array) -> tuple[Array, Array]:
        """Return J and e of all rows at configurations (k, nq), not weighted."""
        assert self.inner._problem is not None
        problem = self.inner._problem
        rows, layout = slice(0, problem.primary), problem.layout
        weights = layout.weights[rows]
        J, e = layout._rows(q, numbers)
        J, e = J[:, rows] / weights[:, None], e[:, rows] / weights
        if not self.robot.couplings:
            return J, e
        error, slopes = coupling_rows(self.robot, q)
        return np.concatenate([J, slopes], axis=1), np.concatenate([e, -error], axis=1)


def check_closed(solver: str, **arguments: object) -> None:
    """Raise an error if an argument is given that is not available for robots with loops."""
    for name, value in arguments.items():
        if value is not None:
            raise InputError(
                f"{name} is not available for robots with loops or couplings, such as {solver}; "
                f"given: {short_repr(value)}. robot.without_loops() is the robot as a tree"
            )
