"""Position inverse kinematics: which configuration meets a target."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from supple import _core
from supple.control.trajectory import Status
from supple.errors import InputError, short_repr
from supple.gpu.device import (
    Precision,
    check_precision,
    device_named,
    each_on_gpu,
    is_named,
    on_a_gpu,
)
from supple.ik.arguments import (
    MOST_SOLUTIONS,
    MOST_STARTS,
    count_of,
    each_of,
    refuse,
    seconds,
    start_of,
)
from supple.ik.preference import Preference, checked, costs
from supple.ik.problem import Search, search_of
from supple.ik.report import make_report
from supple.ik.solution import STATUS, Answers, Solution
from supple.ik.subproblems import Found, Progress, divided, is_separable, solve_subproblems
from supple.kinematics import Robot
from supple.kinematics.arrays import number
from supple.kinematics.environment import thread_count
from supple.motion.damping import DampingRule
from supple.motion.linearization import Array
from supple.motion.task import Task, TaskLike

Function = TypeVar("Function", bound=Callable[..., Any])

_COMPARED = 8  # solutions that a criterion chooses from
_PIECE = 4096  # targets whose solutions are compared at a time
_PIECES = (65_536, 1024)  # targets that are put together of parts at a time; with a timeout


def _kernel_of(robot: Robot, tasks: Any, damping: Any) -> Any:
    return divided(search_of(robot, tasks, damping))


def _directly(whole: Function) -> Function:
    """The same function, but one target and usual arguments go straight to the kernel.

    That is too short for signals and other threads to wait, and for Python to look at arguments.
    """
    made: Function = _core.direct(whole, _kernel_of, Solution, STATUS, Task)
    return made


@_directly
def solve(
    robot: Robot,
    target: Any,
    *,
    tasks: TaskLike | Sequence[TaskLike] | None = None,
    q0: ArrayLike | None = None,
    prefer: Preference | None = None,
    solutions: int = 1,
    position_tolerance: float = 1e-6,
    rotation_tolerance: float = 1e-6,
    damping: DampingRule | None = None,
    max_step: float | None = None,
    timeout: float | None = None,
    max_starts: int | None = None,
    explain: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
    device: str | None = None,
    stream: Any = None,
    precision: Precision = "mixed",
) -> Solution:
    """Find configurations that meet targets, inside the joint limits.

        solve(robot, T)                    one pose (4, 4)
        solve(robot, T, q0=q)              near q: the same branch along a path
        solve(robot, poses)                a batch (..., 4, 4), on SIMD lanes and threads

    Many starts descend side by side by damped least squares; what they find is finished and
    verified in double precision. A target that no start reaches gives the closest pose, with
    `Status.UNREACHABLE`: what is smallest there is the norm of the weighted error, so the weights
    of tasks trade position for orientation. Deterministic: the same numbers in give the same
    numbers out, whatever else is in the batch and however many threads there are. One target alone
    may get other bits than in a batch: alone, its starts compete; in a batch they take turns.

    Args:
        robot: That shall reach it.
        target: What the one task takes, (4, 4) for a pose; of several tasks a sequence with one for
            each, or, if all k of them are poses, an array (..., k, 4, 4) as `Robot.fk` returns it.
            Leading axes are batch axes.
        tasks: A task, a frame's name (for its pose), or a sequence of those; the poses of all end
            frames if left out. A `PostureTask` is secondary: the answer is moved along its branch,
            the others' targets kept, until no small move brings it nearer to the posture; another
            branch may be nearer. Its weights matter only relative to each other.
        q0: Where to start (n,), or one for each of a batch (..., n) [rad or m].
        prefer: "fast": the first answer found (default without q0). "nearest" (default with q0):
            the answer from q0 if it is near, else of several the one with the smallest largest move
            of a joint. "manipulability", "limits" (far from them) or a function of q (n,), the less
            the better: the best of up to 8 answers. It is not asked about a target with only one.
        solutions: Up to so many distinct answers to one target, at most 100 000: q is (s, n), best
            first.
        position_tolerance: What is near enough [m], in every task.
        rotation_tolerance: Likewise [rad].
        damping: How starts descend: a rule of `supple.damping`. Left out, `ErrorNorm` with a
            two-hundredth of the robot's reach: docs/solve.md compares them.
        max_step: No joint moves farther in an iteration [rad or m], 1 if left out. A short one
            stays nearer to the branch of q0, and takes more iterations.
        timeout: Time for the whole call [s], from its beginning; what is not solved by then gets
            `Status.TIMEOUT`. None and infinity are no bound.
        max_starts: Number of starts after which a target is reported unreachable, counted
            separately for tasks that share no joint. If None, 256, up to
            1024 for targets that starts come near to, and 16,384 for those nearly met.
        explain: Tell how it went: `story` of the `Solution` of one target.
        threads: How many to use at most for a batch; all cores if left out.
        progress: Called now and then in a batch with how many targets are done, and of how many;
            of tasks that share no joint, how many that is the work of.
        device: Where: "cpu", or a GPU of `supple.devices()`, "cuda" for the first. There is no
            timeout, explain, threads or progress. Left out, it is where the target is: arrays in a
            GPU's memory (CuPy, PyTorch, JAX) give a `Solution` of arrays there, without waiting for
            it; of those neither solutions nor preferences but "fast" and "nearest" are to be had.
        stream: On which to work, of a target in a GPU's memory; the default stream if neither it
            nor the array says.
        precision: Of the search: "mixed", floats search and doubles finish; "double", doubles do
            all, on a GPU.

    Raises:
        InputError: malformed input, or one target or start that is not finite. In a batch those
            get `Status.NONFINITE_INPUT`.
        MissingExtraError, DeviceError: a GPU is asked for that is not there.
    """
    if not is_named(device, "cpu") and (device is not None or on_a_gpu(target)):
        refused = {
            "timeout": timeout,
            "explain": explain or None,
            "threads": threads,
            "progress": progress,
        }
        for name, given in refused.items():
            if given is not None:
                raise InputError(f"{name} is for device='cpu' alone; given: {short_repr(given)}")
        search = search_of(robot, tasks, damping, max_step)
        bounds = _bounds(position_tolerance, rotation_tolerance, max_starts)
        check_precision(precision, "cuda")
        if prefer is None:
            prefer = "fast" if q0 is None else "nearest"
        checked(prefer, q0 is not None)
        most = count_of(solutions, "solutions", MOST_SOLUTIONS)
        several = prefer != "fast" or most > 1
        place = (device_named(device), precision, several)
        call = _Call(search, bounds, math.inf, prefer, most, 1, None, None, place)
        return _on_gpu(call, target, tasks, q0, stream)
    if stream is not None:
        raise InputError(f"stream is for targets in a GPU's memory; given: {short_repr(stream)}")
    if not is_named(precision, "mixed"):
        check_precision(precision, "cpu")
    began = time.perf_counter() if explain or timeout is not None else 0.0
    search = search_of(robot, tasks, damping, max_step)
    ends = math.inf if timeout is None else began + seconds(timeout)
    if threads is not None:
        thread_count(threads)
    if progress is not None and not callable(progress):
        raise InputError(f"progress must be a function, or None; given: {short_repr(progress)}")
    bounds = _bounds(position_tolerance, rotation_tolerance, max_starts)
    if prefer is None:
        prefer = "fast" if q0 is None else "nearest"
    most = thread_count(threads)
    goals = search.targets(each_of(target, tasks, search), most)
    checked(prefer, q0 is not None)
    start = None if q0 is None else start_of(q0, robot, goals.shape[:-1])
    call = _Call(
        search,
        bounds,
        ends,
        prefer,
        count_of(solutions, "solutions", MOST_SOLUTIONS),
        most,
        progress,
        began if explain else None,
    )
    return call.one(goals, start) if goals.ndim == 1 else call.batch(goals, start)


def _bounds(position: float, rotation: float, max_starts: int | None) -> tuple[float, float, int]:
    return (
        number(position, "position_tolerance", above=0),
        number(rotation, "rotation_tolerance", above=0),
        0 if max_starts is None else count_of(max_starts, "max_starts", MOST_STARTS),
    )


def _on_gpu(
    call: _Call, target: Any, tasks: TaskLike | Sequence[TaskLike] | None, q0: Any, stream: Any
) -> Solution:
    search = call.search
    if on_a_gpu(target):
        if call.solutions > 1 or call.prefer not in ("fast", "nearest"):
            raise InputError(
                "of targets in a GPU's memory answers are not compared there but by "
                'prefer="nearest"; solutions and other preferences take arrays of NumPy, also with '
                f"device=; given: prefer={short_repr(call.prefer)}, solutions={call.solutions}"
            )
        given = each_on_gpu(target, len(search.layout.tasks))
        made: Solution = call.gpu().solve_there(given, q0, call.wanted(1), stream)
        return made
    if stream is not None:
        raise InputError(f"stream is for targets in a GPU's memory; given: {short_repr(stream)}")
    goals = search.targets(each_of(target, tasks, search))
    start = None if q0 is None else start_of(q0, search.layout.robot, goals.shape[:-1])
    return call.one(goals, start) if goals.ndim == 1 else call.batch(goals, start)


@dataclass(frozen=True)
class _Call:
    """What is the same for all targets of a call: one that is not the simplest."""

    search: Search
    bounds: tuple[float, float, int]
    ends: float  # when, by time.perf_counter
    prefer: Preference
    solutions: int
    threads: int
    progress: Progress | None
    explain: float | None  # since when, by the same clock; None: not asked for
    place: tuple[str, str, bool] | None = None  # a GPU, a precision, whether answers are compared

    def gpu(self) -> Any:
        """What solves on the GPU."""
        from supple.ik.gpu.position import solver_of  # (NVIDIA's packages are optional)

        assert self.place is not None
        return solver_of(self.search, *self.place)

    def wanted(self, most: int) -> Any:
        """What is wanted of the GPU."""
        from supple.ik.gpu.position import Bounds

        return Bounds(*self.bounds, self.prefer == "nearest" and most == 1, most)

    def one(self, goal: Array, start: Array | None) -> Solution:
        """A target (k,)."""
        if self.explain is not None and self.solutions > 1:
            raise InputError(f"explain is of one solution; given: solutions={self.solutions}")
        *found, failed = self._chosen(goal[None], start)
        if found[1][0, 0] == Status.NONFINITE_INPUT:
            refuse(goal, start)
        if self.solutions > 1:
            return Answers._make(_solution(*(part[0] for part in found)))
        q, status, error, effort = (part[0, 0] for part in found)
        position, rotation = error.tolist()
        iterations, starts = effort.tolist()
        made = Solution(q, STATUS[status], position, rotation, iterations, starts - 1)
        if self.explain is None:
            return made
        took = time.perf_counter() - self.explain
        told = make_report(self.search, goal, q, int(status), int(effort[0]), failed[0], took)
        return made._replace(story=told)

    def batch(self, goals: Array, start: Array | None) -> Solution:
        """Targets (..., k)."""
        if self.solutions > 1:
            raise InputError(f"solutions are of one target; given: {goals.shape[:-1]} targets")
        if self.explain is not None:
            raise InputError(
                f"explain is of one target; given: {goals.shape[:-1]} targets. Of a batch, solve "
                "those again that are to be explained"
            )
        lead, flat = goals.shape[:-1], goals.reshape(-1, goals.shape[-1])
        if start is not None and start.ndim > 1:
            start = start.reshape(-1, start.shape[-1])
        if self.prefer in ("fast", "nearest"):
            found = self._run(flat, start, most=1, progress=self.progress)
        else:
            found = self._piecewise(flat, start)
        return _solution(*(part[:, 0].reshape(*lead, *part.shape[2:]) for part in found[:4]))

    def _piecewise(self, goals: Array, start: Array | None) -> Found:
        """The chosen ones of many: a piece at a time, for there are several of each."""
        pieces = []
        for first in range(0, max(len(goals), 1), _PIECE):
            piece = slice(first, first + _PIECE)
            own = start if start is None or start.ndim == 1 else start[piece]
            pieces.append(self._chosen(goals[piece], own))
            if self.progress is not None:
                self.progress(min(first + _PIECE, len(goals)), len(goals))
        return tuple(np.concatenate(parts) for parts in zip(*pieces, strict=True))

    def _chosen(self, goals: Array, start: Array | None) -> Found:
        """The best solutions of targets (B, k), and what there is to tell of failed starts."""
        alone = self.solutions == 1 and self.prefer in ("fast", "nearest")
        most = 1 if alone else self.solutions
        if self.prefer != "fast" and not alone:
            most = max(most, _COMPARED)
        *found, count, failed = self._run(goals, start, most=most, single=True)
        if alone:
            return (*found, failed)
        cost = self._costs(found[0], count, start)
        keep = int(min(self.solutions, count.min(initial=self.solutions)))
        order = np.argsort(cost, axis=1, kind="stable")[:, :keep]
        rows = np.arange(len(goals))[:, None]
        return (*(part[rows, order] for part in found), failed)

    def _costs(self, q: Array, count: Any, start: Array | None) -> Array:
        """Costs (B, s) of solutions (B, s, n), of which so many (B,) are there; others' infinite.

        Those of targets with only one are not asked for: when time was up there may be millions.
        """
        there = np.arange(q.shape[1]) < count[:, None]
        cost = np.where(there, 0.0, math.inf)
        compared = there & (count > 1)[:, None]
        if start is not None and start.ndim > 1:
            start = start[np.nonzero(compared)[0]]
        cost[compared] = costs(self.prefer, self.search, q[compared], start)
        return cost

    def _run(
        self,
        goals: Array,
        start: Array | None,
        *,
        most: int,
        single: bool = False,
        progress: Progress | None = None,
    ) -> Found:
        if self.place is not None:
            return (*self.gpu().solve(goals, start, self.wanted(most)), np.empty((0, 4)))
        begin = self.search.rests(goals) if start is None else start
        many = partial(self._many, most=most, single=single)
        if most > 1 or not is_separable(self.search):
            return many(self.search, goals, begin, progress)
        size = _PIECES[math.isfinite(self.ends)]
        return solve_subproblems(self.search, many, goals, begin, size, progress)

    def _many(
        self,
        search: Search,
        goals: Array,
        start: Array | None,
        progress: Progress | None,
        share: int = 1,
        *,
        most: int,
        single: bool,
    ) -> Found:
        """One of some shares of the time that is left is for this."""
        return search.kernel.many(
            goals,
            start,
            *self.bounds,
            _left(self.ends) / share,
            most,
            single,
            self.prefer == "nearest" and most == 1,
            self.threads,
            progress,
            self.explain is not None,
        )


def _solution(q: Array, status: Any, error: Array, effort: Any) -> Solution:
    restarts = np.maximum(effort[..., 1] - 1, 0)  # (what is not looked at has no start)
    return Solution(q, status, error[..., 0], error[..., 1], effort[..., 0], restarts)


def _left(ends: float) -> float:
    """The time that is left [s]."""
    return max(0.0, ends - time.perf_counter())
