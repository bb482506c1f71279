"""Run a search for targets on the CPU or a GPU, and choose among the solutions it finds."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from supple.errors import InputError
from supple.ik.arguments import Progress, SolveOptions, raise_nonfinite
from supple.ik.preference import costs
from supple.ik.problem import CompiledProblem
from supple.ik.report import make_report
from supple.ik.solution import STATUS, BatchSolution, Solution, Solutions
from supple.ik.status import SolveStatus
from supple.ik.subproblems import RawSolutions, is_separable, solve_subproblems
from supple.motion.linearization import Array

_COMPARED = 8  # solutions of a target that a preference chooses from
_CHUNK = 4096  # targets whose solutions are compared at a time
_MERGED = (65_536, 1024)  # targets merged at a time: without and with a timeout


@dataclass(frozen=True)
class Driver:
    """A problem and the options of one call of `solve`."""

    problem: CompiledProblem
    options: SolveOptions

    def solve_single(self, target: Array, seed: Array | None) -> Solution | Solutions:
        """Solve one target (k,)."""
        options = self.options
        if options.explain and options.solutions is not None:
            raise InputError(f"explain needs one solution; given: solutions={options.solutions}")
        *found, failed = self._best(target[None], seed)
        if found[1][0, 0] == SolveStatus.NONFINITE_INPUT:
            raise_nonfinite(target, seed)
        if options.solutions is not None:
            return Solutions(*_fields(*(part[0] for part in found)))
        q, status, error, effort = (part[0, 0] for part in found)
        position, rotation = error.tolist()
        iterations, starts = effort.tolist()
        solution = Solution(q, STATUS[status], position, rotation, iterations, starts - 1)
        if not options.explain:
            return solution
        took = time.perf_counter() - options.began
        report = make_report(self.problem, target, q, solution.status, iterations, failed[0], took)
        return replace(solution, report=report)

    def solve_batch(self, targets: Array, seeds: Array | None) -> BatchSolution:
        """Solve targets (..., k)."""
        options, batch = self.options, targets.shape[:-1]
        if options.solutions is not None:
            raise InputError(f"solutions needs one target; given: a batch of shape {batch}")
        if options.explain:
            raise InputError(
                f"explain needs one target; given: a batch of shape {batch}. Solve the targets "
                "of interest again, one by one"
            )
        flat = targets.reshape(-1, targets.shape[-1])
        if seeds is not None and seeds.ndim > 1:
            seeds = seeds.reshape(-1, seeds.shape[-1])
        if options.prefer in ("fast", "nearest"):
            found = self._run(flat, seeds, most=1, progress=options.progress)
        else:
            found = self._best_by_chunks(flat, seeds)
        parts = (part[:, 0].reshape(*batch, *part.shape[2:]) for part in found[:4])
        return BatchSolution(*_fields(*parts))

    def _best_by_chunks(self, targets: Array, seeds: Array | None) -> RawSolutions:
        """Return the best solution of each target, in chunks: each target has several."""
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
        alone = wanted == 1 and prefer in ("fast", "nearest")
        most = wanted if alone or prefer == "fast" else max(wanted, _COMPARED)
        *found, count, failed = self._run(targets, seeds, most=most, single=True)
        if alone:
            return (*found, failed)
        cost = self._costs(found[0], count, seeds)
        keep = int(min(wanted, count.min(initial=wanted)))
        order = np.argsort(cost, axis=1, kind="stable")[:, :keep]
        rows = np.arange(len(targets))[:, None]
        return (*(part[rows, order] for part in found), failed)

    def _costs(self, q: Array, count: Any, seeds: Array | None) -> Array:
        """Return the costs (B, s) of solutions (B, s, n), infinite beyond their counts (B,).

        Targets with only one solution cost nothing: after a timeout there may be millions.
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
        most: int,
        single: bool = False,
        progress: Progress | None = None,
    ) -> RawSolutions:
        """Search for up to `most` solutions of each target."""
        if self.options.gpu is not None:
            return (
                *self.gpu_solver().solve(targets, seeds, self.gpu_options(most)),
                np.empty((0, 4)),
            )
        seeds = self.problem.rests(targets) if seeds is None else seeds
        run = partial(self._run_on_cpu, most=most, single=single)
        if most > 1 or not is_separable(self.problem):
            return run(self.problem, targets, seeds, progress)
        size = _MERGED[math.isfinite(self.options.deadline)]
        return solve_subproblems(self.problem, run, targets, seeds, size, progress)

    def _run_on_cpu(
        self,
        problem: CompiledProblem,
        targets: Array,
        seeds: Array | None,
        progress: Progress | None,
        shares: int = 1,
        *,
        most: int,
        single: bool,
    ) -> RawSolutions:
        """Search on the CPU, in one of `shares` equal shares of the time that is left."""
        return problem.kernel.many(
            targets,
            seeds,
            *self.options.tolerances,
            _remaining(self.options.deadline) / shares,
            most,
            single,
            self.options.prefer == "nearest" and most == 1,
            self.options.threads,
            progress,
            self.options.explain,
        )

    def gpu_solver(self) -> Any:
        """Return the solver on the GPU."""
        from supple.ik.gpu.solvers import gpu_solver  # (NVIDIA's packages are optional)

        gpu = self.options.gpu
        assert gpu is not None
        return gpu_solver(self.problem, gpu.device, gpu.precision, gpu.several)

    def gpu_options(self, most: int = 1) -> Any:
        """Return the options of a search on the GPU."""
        from supple.ik.gpu.position import SearchOptions

        nearest = self.options.prefer == "nearest" and most == 1
        return SearchOptions(*self.options.tolerances, nearest, most)


def _fields(q: Array, status: Any, error: Array, effort: Any) -> tuple[Any, ...]:
    """Return the fields of `SolutionArrays`."""
    restarts = np.maximum(effort[..., 1] - 1, 0)  # (a target that is not tried has no seed)
    return q, status, error[..., 0], error[..., 1], effort[..., 0], restarts


def _remaining(deadline: float) -> float:
    """Return the time until a deadline [s]."""
    return max(0.0, deadline - time.perf_counter())
