"""Run the search of `Solver` on the CPU or a GPU, and choose among the solutions found.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from supple import _core
from supple.ik.arguments import Progress, SolveOptions, raise_nonfinite
from supple.ik.branches.arms import AnyArm, ClosedFormArm, arm_of
from supple.ik.branches.same_branch import largest_move
from supple.ik.preference import FIRST_FOUND, costs
from supple.ik.problem import CompiledProblem
from supple.ik.report import make_report
from supple.ik.solution import Solution
from supple.ik.solutions import Solutions
from supple.ik.status import NEAR_STATUS, STATUS, SolveStatus
from supple.ik.subproblems import (
    Subproblem,
    checked_solver,
    decoupled_solver,
    moving_subproblem,
)
from supple.ik.task_errors import TaskTargets
from supple.kinematics.configuration import from_kernel, to_kernel
from supple.motion.linearization import Array
from supple.tasks import Task

if TYPE_CHECKING:
    from supple.ik.gpu.calls import Record

_COMPARED_SOLUTIONS = 8  # number of solutions of a target among which a preference chooses
# Number of solutions of a target that are checked for collisions: _CHECKED_PER_SOLUTION times the
# number of wanted solutions, but at most the larger of _MAX_CHECKED and the wanted number.
_CHECKED_PER_SOLUTION, _MAX_CHECKED = 8, 1024
# Number of colliding solutions after which a search ends: first for arms all of whose solutions can
# then be computed, second for other robots.
_MAX_REJECTED_KNOWN = 32
_MAX_REJECTED = 256
_CHUNK = 4096  # number of targets whose solutions are compared at a time
# Number of targets whose subproblems are solved and merged at a time, without and with a timeout.
_MERGED_AT_ONCE = (65_536, 1024)

# For up to s solutions of each of B targets: q (B, s, n) in the kernel's coordinates, status
# (B, s), errors (B, s, 2), and numbers of iterations and seeds (B, s, 2); then the number of
# solutions (B,), which `_best` omits, and the statistics of failed seeds (B, 4).
RawSolutions: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True)
class Driver:
    """The search of one call of a `Solver`: a problem and the options of the call.

    Seeds are in the kernel's coordinates; results have configurations.
    """

    problem: CompiledProblem
    options: SolveOptions

    @property
    def _tasks(self) -> tuple[Task, ...]:
        """The tasks of the call, in its order."""
        given: Any = self.problem.kernel.given_tasks
        return given  # type: ignore[no-any-return]

    def solve_several(self, target: Array, seed: Array | None) -> Solutions:
        """Return several solutions of one target (k,), from a seed (n,) if there is one."""
        *found, _ = self._best(target[None], seed)
        if found[1][0, 0] == SolveStatus.NONFINITE_INPUT:
            raise_nonfinite(target, seed)
        return Solutions(
            *self._fields(*(part[0] for part in found)),
            robot=self.problem.layout.robot,
            q0=self._q0(seed),
            tasks=self._tasks,
            _task_targets=self._task_targets(target),
            _targets=(),
            _check=self.options.check,
        )

    def solve_single(self, target: Array, seed: Array | None) -> Solution:
        """Solve one target (k,) in the kernel's layout, from a seed (n,) if there is one."""
        options = self.options
        *found, failed = self._best(target[None], seed)
        if found[1][0, 0] == SolveStatus.NONFINITE_INPUT:
            raise_nonfinite(target, seed)
        robot, tasks = self.problem.layout.robot, self._tasks
        given = self._task_targets(target)
        x, status, error, effort = (part[0, 0] for part in found)
        position, rotation = error.tolist()
        iterations, starts = effort.tolist()
        q0 = self._q0(seed)
        solution = Solution(
            from_kernel(robot, x),
            STATUS[status],
            position,
            rotation,
            iterations,
            max(starts - 1, 0),
            robot=robot,
            _q0=None if q0 is None else q0.tobytes(),
            tasks=tasks,
            _task_targets=None if given is None else given.tobytes(),
            _check=options.check,
        )
        if not options.explain:
            return solution
        took = time.perf_counter() - options.began
        report = make_report(
            self.problem, target, solution, failed[0], took, max_move=options.max_move
        )
        return replace(solution, report=report)

    def solve_batch(self, targets: Array, seeds: Array | None) -> Solutions:
        """Solve targets (..., k) in the kernel's layout, from seeds (n,) or (..., n) if any."""
        options, batch = self.options, targets.shape[:-1]
        flat, q0 = targets.reshape(-1, targets.shape[-1]), seeds
        if seeds is not None and seeds.ndim > 1:
            seeds = seeds.reshape(-1, seeds.shape[-1])
        if options.prefer in FIRST_FOUND:
            found = self._run(flat, seeds, progress=options.progress)
        else:
            found = self._best_by_chunks(flat, seeds)
        parts = (part[:, 0].reshape((*batch, *part.shape[2:])) for part in found[:4])
        return Solutions(
            *self._fields(*parts),
            reason="only one was searched",
            robot=self.problem.layout.robot,
            q0=self._q0(q0),
            tasks=self._tasks,
            _task_targets=self._task_targets(targets),
            _check=options.check,
        )

    def _configurations(self, x: Array) -> Array:
        """Return the configurations that belong to coordinates of the kernel."""
        return np.asarray(from_kernel(self.problem.layout.robot, x))

    def _q0(self, seeds: Array | None) -> Array | None:
        """Return the configurations of seeds."""
        return None if seeds is None else self._configurations(seeds)

    def _fields(self, x: Array, status: Any, error: Array, effort: Any) -> tuple[Any, ...]:
        """Return the arrays of solutions in the order of the fields of `Solutions`."""
        restarts = np.maximum(effort[..., 1] - 1, 0)  # targets that were not tried have 0 seeds
        q = self._configurations(x)
        return q, status, error[..., 0], error[..., 1], effort[..., 0], restarts

    def _task_targets(self, targets: Array) -> TaskTargets | None:
        """Return the targets and tolerances, if there are several tasks."""
        if len(self.problem.layout.tasks) == 1:
            return None
        return TaskTargets(targets, self.options.tolerances[:2])

    def _best_by_chunks(self, targets: Array, seeds: Array | None) -> RawSolutions:
        """Return the best solutions of targets (B, k), computed in chunks to bound memory."""
        chunks, progress = [], self.options.progress
        for first in range(0, max(len(targets), 1), _CHUNK):
            chunk = slice(first, first + _CHUNK)
            own = seeds if seeds is None or seeds.ndim == 1 else seeds[chunk]
            chunks.append(self._best(targets[chunk], own))
            if progress is not None:
                progress(min(first + _CHUNK, len(targets)), len(targets))
        return tuple(np.concatenate(parts) for parts in zip(*chunks, strict=True))

    def _best(self, targets: Array, seeds: Array | None) -> RawSolutions:
        """Return the best solutions of targets (B, k), and the statistics of failed seeds."""
        prefer, wanted = self.options.prefer, self.options.solutions or 1
        alone = wanted == 1 and prefer in FIRST_FOUND
        most = self.compared
        *found, count, failed = self._run(targets, seeds, max_solutions=most, single=True)
        if alone:
            return (*found, failed)
        if self._sorts_on_gpu:
            keep = int(min(wanted, count.min(initial=wanted)))
            return (*(part[:, :keep] for part in found), failed)
        cost = self._costs(found[0], count, seeds)
        keep = int(min(wanted, count.min(initial=wanted)))
        order = np.argsort(cost, axis=1, kind="stable")[:, :keep]
        rows = np.arange(len(targets))[:, None]
        return (*(part[rows, order] for part in found), failed)

    @property
    def compared(self) -> int:
        """Number of solutions of a target among which the preference chooses."""
        wanted, prefer = self.options.solutions or 1, self.options.prefer
        alone = wanted == 1 and prefer in FIRST_FOUND
        return wanted if alone or prefer == "fast" else max(wanted, _COMPARED_SOLUTIONS)

    @property
    def _sorts_on_gpu(self) -> bool:
        """Whether a GPU sorts several solutions: not with max_move or by a function."""
        options = self.options
        return options.gpu is not None and options.max_move is None and not callable(options.prefer)

    def solve_branches(self, targets: Array) -> RawSolutions:
        """Return up to `solutions` solutions of each target (B, k), the best first.

        The result consists of arrays (B, s, ...) and, last, the number of solutions of each target
        (B,). Entries beyond this number are undefined.
        """
        chunks: list[RawSolutions] = []
        most = self.options.solutions or 1
        for first in range(0, max(len(targets), 1), _CHUNK):
            *found, count, _ = self._run(
                targets[first : first + _CHUNK], None, max_solutions=most, single=True
            )
            order = np.argsort(self._costs(found[0], count, None), axis=1, kind="stable")
            rows = np.arange(len(count))[:, None]
            chunks.append((*(part[rows, order] for part in found), count))
        return tuple(np.concatenate(parts) for parts in zip(*chunks, strict=True))

    def _costs(self, q: Array, count: Any, seeds: Array | None) -> Array:
        """Return the costs (B, s) of solutions (B, s, n), infinite beyond their counts (B,).

        A solution without alternatives has the cost 0 and is not evaluated: after a timeout there
        may be millions of targets with only one solution.
        """
        there = np.arange(q.shape[1]) < count[:, None]
        cost = np.where(there, 0.0, math.inf)
        compared = there & (count > 1)[:, None]
        if seeds is not None and seeds.ndim > 1:
            seeds = seeds[np.nonzero(compared)[0]]
        cost[compared] = costs(self.options.prefer, self.problem, q[compared], seeds)
        return cost

    def _run(
        self,
        targets: Array,
        seeds: Array | None,
        *,
        max_solutions: int = 1,
        single: bool = False,
        progress: Progress | None = None,
    ) -> RawSolutions:
        """Search for up to `max_solutions` solutions of each target."""
        options = self.options
        if options.gpu is not None:
            found = (
                *self.gpu_solver().solve(targets, seeds, self.gpu_options(max_solutions)),
                np.empty((0, 4)),
            )
            return found if options.max_move is None else self._near(found, targets, seeds)
        if options.check is not None and max_solutions > 1:
            return self._run_free(targets, seeds, max_solutions)
        moving = moving_subproblem(self.problem) if max_solutions > 1 else None
        if moving is not None:
            return self._run_moving(moving, targets, seeds, max_solutions, progress)
        spec = search_spec(
            options,
            timeout=max(0.0, options.deadline - time.perf_counter()),
            known=options.check is not None and has_all_solutions(self.problem),
        ).replace(
            max_solutions=max_solutions,
            single=single,
            nearest=options.prefer == "nearest" and max_solutions == 1,
            comfortable=options.prefer == "comfortable" and max_solutions == 1,
        )
        seeds = self.problem.rests(targets) if seeds is None else seeds
        if options.check is None or options.check.kernel is None:
            found = decoupled_solver(self.problem).solve_batch(targets, seeds, spec, progress)
        else:
            found = checked_solver(self.problem).solve_batch(
                targets, seeds, spec, progress, options.check.kernel
            )
        if options.max_move is None:
            return found
        return (found[0], np.array(NEAR_STATUS, dtype=np.int8)[found[1]], *found[2:])

    def _run_free(self, targets: Array, seeds: Array | None, max_solutions: int) -> RawSolutions:
        """Search for more solutions than wanted; return the solutions that keep the clearance.

        A target without such a solution has only the first one found, with the status BLOCKED if it
        meets the target.
        """
        check = self.options.check
        assert check is not None
        most = min(_CHECKED_PER_SOLUTION * max_solutions, max(_MAX_CHECKED, max_solutions))
        unchecked = replace(self, options=replace(self.options, check=None))
        *found, count, failed = unchecked._run(targets, seeds, max_solutions=most, single=True)
        there = np.arange(most) < count[:, None]
        solved = there & (found[1] == SolveStatus.CONVERGED)
        free = np.zeros_like(solved)
        free[solved] = check.free(self._configurations(found[0][solved]))
        found[1][solved & ~free] = SolveStatus.BLOCKED
        order = np.argsort(~free, axis=1, kind="stable")[:, :max_solutions]
        rows = np.arange(len(count))[:, None]
        kept = np.maximum(np.minimum(free.sum(axis=1), max_solutions), 1).astype(count.dtype)
        return (*(part[rows, order] for part in found), kept, failed)

    def _run_moving(
        self,
        moving: Subproblem,
        targets: Array,
        seeds: Array | None,
        max_solutions: int,
        progress: Progress | None,
    ) -> RawSolutions:
        """Search with the joints that move a task; the others stay at q0, or neutral without q0."""
        robot, joints = self.problem.layout.robot, moving.joints
        start = to_kernel(robot, robot.neutral()) if seeds is None else seeds
        still = np.clip(start, robot.lower, robot.upper)
        own = seeds
        if seeds is not None:  # a q0 that is not finite is rejected as a whole
            finite = np.isfinite(seeds).all(axis=-1, keepdims=True)
            own = np.where(finite, seeds, np.nan)[..., joints]
        found = replace(self, problem=moving.problem)._run(
            targets, own, max_solutions=max_solutions, single=True, progress=progress
        )
        q = np.empty((*found[0].shape[:-1], robot.nv))
        q[...] = still if still.ndim == 1 else still[:, None]
        q[..., joints] = found[0]
        return (q, *found[1:])

    def _near(self, found: RawSolutions, targets: Array, seeds: Array | None) -> RawSolutions:
        """Return the GPU's solutions; where one fails or is too far from q0, the CPU's solution.

        If several solutions of a target are wanted, the CPU always computes them.

        Joint limits are constants of the CUDA kernels, which therefore cannot narrow them around
        the q0 of each target.
        """
        assert self.options.max_move is not None
        assert seeds is not None
        most = found[0].shape[1]
        q, q0 = self._configurations(found[0]), self._configurations(seeds)[..., None, :]
        far = largest_move(self.problem.layout.robot, q, q0) > self.options.max_move
        again = (far | (found[1] != SolveStatus.CONVERGED)).any(axis=1) | (most > 1)
        own = seeds if seeds.ndim == 1 else seeds[again]
        cpu = replace(self, options=replace(self.options, gpu=None))
        more = cpu._run(targets[again], own, max_solutions=most, single=True)
        for part, new in zip(found[:-1], more, strict=False):
            part[again] = new
        return found

    def gpu_solver(self) -> Any:
        """Return the solver on the GPU."""
        from supple.ik.gpu.solvers import gpu_solver  # (NVIDIA's packages are optional)
        from supple.ik.gpu.world import world_sizes

        gpu = self.options.gpu
        assert gpu is not None
        sizes = world_sizes(self.options.check)
        return gpu_solver(self.problem, gpu.device, gpu.precision, gpu.several, sizes)

    def record_on_gpu(self, listed: bool) -> Record:
        """Return a function that records a call with targets in GPU memory.

        Args:
            listed: Whether the results have an axis with the solutions of each target.
        """
        prefer = self.options.prefer
        return partial(
            self.gpu_solver().record,
            options=self.gpu_options(self.compared),
            check=self.options.check,
            listed=listed,
            prefer=prefer if callable(prefer) else None,
        )

    def gpu_options(self, max_solutions: int = 1) -> Any:
        """Return the options of a search on the GPU."""
        from supple.ik.gpu.request import SearchOptions
        from supple.ik.gpu.world import gpu_check

        prefer = self.options.prefer
        nearest = prefer == "nearest" and max_solutions == 1
        check = gpu_check(self.options.check, self.gpu_solver().device, _MAX_REJECTED)
        order = None if callable(prefer) or not self._sorts_on_gpu else prefer
        order = order if max_solutions > 1 else None
        kept = self.options.solutions or 1
        return SearchOptions(
            *self.options.tolerances, nearest, max_solutions, check, order=order, kept=kept
        )


def has_all_solutions(problem: CompiledProblem) -> bool:
    """Return whether all solutions of a target can be computed."""
    return isinstance(arm_of(problem), ClosedFormArm | AnyArm)


def search_spec(options: SolveOptions, timeout: float, known: bool) -> _core.SearchSpec:
    """Return the settings of the kernel for one solution of one target.

    Args:
        options: The options of a call.
        timeout: Time limit [s].
        known: Whether all solutions of a target can be computed.
    """
    return _core.SearchSpec(
        position_tolerance=options.position_tolerance,
        rotation_tolerance=options.rotation_tolerance,
        max_seeds=options.max_seeds,
        timeout=timeout,
        max_solutions=1,
        single=True,
        nearest=options.prefer == "nearest",
        comfortable=options.prefer == "comfortable",
        max_move=options.max_move or 0.0,
        explain=options.explain,
        threads=options.threads,
        merged_at_once=_MERGED_AT_ONCE[math.isfinite(timeout)],
        clearance=0.0 if options.check is None else options.check.clearance,
        max_rejected=_MAX_REJECTED_KNOWN if known else _MAX_REJECTED,
    )
