"""Position inverse kinematics: which configuration meets a target."""

from __future__ import annotations

import math
import operator
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from supple.errors import InputError, shown
from supple.kinematics import Robot
from supple.kinematics.arrays import coordinates, number
from supple.kinematics.environment import thread_count
from supple.motion.damping import DampingRule
from supple.motion.linearization import Array
from supple.motion.task import Task, TaskLike
from supple.solve.cuda.arrays import on_gpu
from supple.solve.preference import Preference, checked, costs
from supple.solve.result import Status
from supple.solve.search import Search, search_of
from supple.solve.solution import STATUS, Solution
from supple.solve.story import story_of

Progress: TypeAlias = Callable[[int, int], object]
Found: TypeAlias = tuple[Any, ...]  # arrays (B, s, ...): q, status, errors, efforts, and more

_ARRAY = np.ndarray
_COMPARED = 8  # solutions that a criterion chooses from
_PIECE = 4096  # targets whose solutions are compared at a time


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
    max_starts: int = 256,
    explain: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
    device: str | None = None,
    stream: Any = None,
) -> Solution:
    """Find configurations that meet targets, inside the joint limits.

        solve(robot, T)                    one pose (4, 4)
        solve(robot, T, q0=q)              near q: the same branch along a path
        solve(robot, poses)                a batch (..., 4, 4), on SIMD lanes and threads

    Many starts descend side by side by damped least squares; what they find is finished and
    verified in double precision. A target that no start reaches gives the closest pose, with
    `Status.UNREACHABLE`: what is smallest there is the norm of the weighted error, so the weights
    of tasks trade position for orientation. Deterministic: the same numbers in give the same
    numbers out, whatever else is in the batch and however many threads there are.

    Args:
        robot: That shall reach it.
        target: What the one task takes, (4, 4) for a pose; of several tasks a sequence with one for
            each. Leading axes are batch axes.
        tasks: A task, a frame's name (for its pose), or a sequence of those; the poses of all end
            frames if left out. A `PostureTask` is secondary: the posture is come near as far as the
            others' targets allow.
        q0: Where to start (n,), or one for each of a batch (..., n) [rad or m].
        prefer: "fast": the first answer found (default without q0). "nearest" (default with q0):
            the answer from q0 if it is near, else of several the one with the smallest largest move
            of a joint. "manipulability", "limits" (far from them) or a function of q (n,), the less
            the better: the best of up to 8 answers.
        solutions: Up to so many distinct answers to one target: q is (s, n), best first.
        position_tolerance: What is near enough [m], in every task.
        rotation_tolerance: Likewise [rad].
        damping: How starts descend: a rule of `supple.damping`. Left out, `ErrorNorm` with a
            two-hundredth of the robot's reach: docs/solve.md compares them.
        max_step: No joint moves farther in an iteration [rad or m], 1 if left out. A short one
            stays nearer to the branch of q0, and takes more iterations.
        timeout: Time for the whole call [s]; what is not solved by then gets `Status.TIMEOUT`.
        max_starts: After so many starts a target is held to be unreachable.
        explain: Tell how it went: `story` of the `Solution` of one target.
        threads: How many to use at most for a batch; all cores if left out.
        progress: Called now and then in a batch with how many targets are done, and of how many.
        device: Where: "cpu", or a GPU of `supple.devices()`, "cuda" for the first. There targets
            take tasks, damping, max_step, tolerances, max_starts, and q0 with prefer="fast". Left
            out, it is where the target is: poses (..., 4, 4) in a GPU's memory (CuPy, PyTorch, JAX)
            give a `Solution` of arrays there, without waiting for it.
        stream: On which to work, of a target in a GPU's memory; the default stream if neither it
            nor the array says.

    Raises:
        InputError: malformed input, or one target or start that is not finite. In a batch those
            get `Status.NONFINITE_INPUT`.
        MissingExtraError, DeviceError: a GPU is asked for that is not there.
    """
    if device != "cpu" and (device is not None or (type(target) is not _ARRAY and on_gpu(target))):
        refused = {
            "prefer": prefer if prefer != "fast" and (prefer or q0 is not None) else None,
            "solutions": solutions if solutions != 1 else None,
            "timeout": timeout,
            "explain": explain or None,
            "threads": threads,
            "progress": progress,
        }
        for name, given in refused.items():
            if given is not None:
                hint = '; q0 needs prefer="fast" on a GPU' if q0 is not None else ""
                raise InputError(f"{name} is for device='cpu' alone; given: {shown(given)}{hint}")
        search = search_of(robot, tasks, damping, max_step)
        bounds = _bounds(position_tolerance, rotation_tolerance, max_starts)
        return _on_gpu(search, target, tasks, q0, bounds, _device(device), stream)
    if stream is not None:
        raise InputError(f"stream is for targets in a GPU's memory; given: {shown(stream)}")
    began = time.perf_counter() if explain or timeout is not None else 0.0
    search = search_of(robot, tasks, damping, max_step)
    near = q0 is not None and (prefer is None or prefer == "nearest")
    if solutions == 1 and (prefer is None or near or prefer == "fast") and not explain:
        ends = math.inf if timeout is None else timeout
        try:  # the commonest call; what it does not take is looked at below
            made: Solution | None = search.kernel.one(
                Solution,
                STATUS,
                target,
                q0,
                position_tolerance,
                rotation_tolerance,
                max_starts,
                ends,
                near,
            )
        except TypeError:
            made = None
        if made is not None:
            return made
    bounds = _bounds(position_tolerance, rotation_tolerance, max_starts)
    ends = math.inf if timeout is None else began + number(timeout, "timeout", least=0)
    if prefer is None:
        prefer = "fast" if q0 is None else "nearest"
    goals = search.targets(_each(target, tasks, search))
    checked(prefer, q0 is not None)
    start = None if q0 is None else _start(q0, robot, goals.shape[:-1])
    call = _Call(
        search,
        bounds,
        ends,
        prefer,
        _count(solutions, "solutions"),
        thread_count(threads),
        progress,
        began if explain else None,
    )
    return call.one(goals, start) if goals.ndim == 1 else call.batch(goals, start)


def _bounds(position: float, rotation: float, max_starts: int) -> tuple[float, float, int]:
    return (
        number(position, "position_tolerance", above=0),
        number(rotation, "rotation_tolerance", above=0),
        _count(max_starts, "max_starts"),
    )


def _on_gpu(
    search: Search,
    target: Any,
    tasks: TaskLike | Sequence[TaskLike] | None,
    q0: Any,
    bounds: tuple[float, float, int],
    device: str,
    stream: Any,
) -> Solution:
    from supple.solve.cuda.position import Bounds, solver_of  # (NVIDIA's packages are optional)

    solver = solver_of(search, device)
    if type(target) is not _ARRAY and on_gpu(target):
        return solver.solve_there(target, q0, Bounds(*bounds), stream)
    if stream is not None:
        raise InputError(f"stream is for targets in a GPU's memory; given: {shown(stream)}")
    goals = search.targets(_each(target, tasks, search))
    lead, flat = goals.shape[:-1], goals.reshape(-1, goals.shape[-1])
    start = None
    if q0 is not None:
        own = _start(q0, search.layout.robot, lead)
        start = np.ascontiguousarray(np.broadcast_to(own, (*lead, own.shape[-1])))
        start = start.reshape(-1, own.shape[-1])
    found = solver.solve(flat, start, Bounds(*bounds))
    parts: list[Any] = [found.q, found.outcome, found.error, found.effort]
    q, status, error, effort = (part.reshape((*lead, *part.shape[1:])) for part in parts)
    made = Solution(q, status, error[..., 0], error[..., 1], effort[..., 0], effort[..., 1])
    if lead:
        return made
    if made.status == Status.NONFINITE_INPUT:
        raise InputError(f"target and q0 must be finite, and within 1e9; given: {shown(target)}")
    return Solution(
        made.q,
        STATUS[int(made.status)],
        float(made.position_error),
        float(made.rotation_error),
        int(made.iterations),
        int(made.restarts),
    )


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

    def one(self, goal: Array, start: Array | None) -> Solution:
        """A target (k,)."""
        if self.explain is not None and self.solutions > 1:
            raise InputError(f"explain is of one solution; given: solutions={self.solutions}")
        *found, failed = self._chosen(goal[None], start)
        if found[1][0, 0] == Status.NONFINITE_INPUT:
            raise InputError(f"target and q0 must be finite, and within 1e9; given: {shown(goal)}")
        if self.solutions > 1:
            return _solution(*(part[0] for part in found))
        q, status, error, effort = (part[0, 0] for part in found)
        position, rotation = error.tolist()
        iterations, starts = effort.tolist()
        made = Solution(q, STATUS[status], position, rotation, iterations, starts - 1)
        if self.explain is None:
            return made
        took = time.perf_counter() - self.explain
        told = story_of(self.search, goal, q, int(status), int(effort[0]), failed[0], took)
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
        cost = costs(self.prefer, self.search, found[0], start)
        cost[np.arange(most) >= count[:, None]] = math.inf
        keep = int(min(self.solutions, count.min(initial=self.solutions)))
        order = np.argsort(cost, axis=1, kind="stable")[:, :keep]
        rows = np.arange(len(goals))[:, None]
        return (*(part[rows, order] for part in found), failed)

    def _run(
        self,
        goals: Array,
        start: Array | None,
        *,
        most: int,
        single: bool = False,
        progress: Progress | None = None,
    ) -> Found:
        nearest = self.prefer == "nearest" and most == 1
        begin = self.search.rests(goals) if start is None else start
        left = max(0.0, self.ends - time.perf_counter())
        explained = self.explain is not None
        return self.search.kernel.many(
            goals,
            begin,
            *self.bounds,
            left,
            most,
            single,
            nearest,
            self.threads,
            progress,
            explained,
        )


def _solution(q: Array, status: Any, error: Array, effort: Any) -> Solution:
    restarts = np.maximum(effort[..., 1] - 1, 0)  # (what is not looked at has no start)
    return Solution(q, status, error[..., 0], error[..., 1], effort[..., 0], restarts)


def _each(
    target: Any, tasks: TaskLike | Sequence[TaskLike] | None, search: Search
) -> Sequence[ArrayLike]:
    """One target for each task."""
    alone = len(search.layout.tasks) == 1
    if isinstance(tasks, str | Task) or (
        alone and (tasks is None or isinstance(target, np.ndarray))
    ):
        return (target,)
    if isinstance(target, str) or not isinstance(target, Sequence):
        raise InputError(
            f"target must be a sequence with one for each of {len(search.layout.tasks)} tasks; "
            f"given: {shown(target)}"
        )
    return target


def _start(q0: ArrayLike, robot: Robot, lead: tuple[int, ...]) -> Array:
    """A start for all (n,), or one for each (..., n)."""
    q = np.ascontiguousarray(coordinates(q0, robot.dof, "q0"), dtype=np.float64)
    if q.ndim == 1:
        if not np.isfinite(q).all():
            raise InputError(f"q0 must be finite; given: {shown(q0)}")
        return q
    if q.shape[:-1] != lead:
        raise InputError(
            f"q0 must be ({robot.dof},), or have the batch axes of the targets, {lead}; "
            f"given: {q.shape}"
        )
    return q


def _device(given: object) -> str:
    """The name of a GPU; of the first, if none is named.

    Raises:
        InputError: it is none.
    """
    if given is None:
        return "cuda"
    if not isinstance(given, str) or not re.fullmatch(r"cuda(:\d+)?", given):
        raise InputError(f'device must be "cpu", "cuda" or "cuda:0"; given: {shown(given)}')
    return given


def _count(given: int, what: str) -> int:
    try:
        count = 0 if isinstance(given, bool) else operator.index(given)
    except TypeError:
        count = 0
    if not 0 < count < 1 << 30:
        raise InputError(f"{what} must be a whole number from 1 on; given: {shown(given)}")
    return count
