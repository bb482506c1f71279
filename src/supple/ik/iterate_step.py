"""Position inverse kinematics by a given step, repeated until the targets are met.

The loop runs in Python around the kernel's kinematics and steps, so that any step and any task can
be used; the default search of `solve` runs entirely in the kernel. Buss (2009) calls this use of a
step the second mode of inverse kinematics.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple._arrays.checks import number
from supple._core import Rule, StepSpec
from supple.control.controller import AnyStep, PythonStep
from supple.damping import DampingRule, ErrorNorm
from supple.errors import InputError, short_repr
from supple.ik.arguments import SolveOptions, raise_nonfinite
from supple.ik.problem import task_numbers
from supple.ik.seeds import seed_sequence
from supple.ik.solution import Solution
from supple.ik.solutions import Solutions
from supple.ik.status import SolveStatus
from supple.ik.task_errors import TaskTargets, largest_errors
from supple.kinematics import Robot
from supple.kinematics.configuration import (
    difference,
    from_kernel,
    integrate,
    to_kernel,
    within_limits,
)
from supple.motion.linearization import Array, Linearization
from supple.motion.status_array import StatusArray
from supple.redundancy.priority import Augmented, Priority
from supple.steps.basic import DLS
from supple.steps.batch import run_batch
from supple.steps.step import kernel_of
from supple.tasks import Task
from supple.tasks.layout import CompiledTasks, FloatArray, side_by_side, sized

# Tuned constants are explained in docs/constants.md.
MAX_ITERATIONS = 1000  # default number of iterations of each seed
MAX_SEEDS = 8  # default number of seeds
_MAX_DISPLACEMENT = 1.0  # default maximum joint displacement in an iteration [rad or m]
_DAMPING = 0.005  # default damping λ² = _DAMPING ‖J‖ ‖e‖ for open tasks
_SAMPLES = 16  # number of configurations from which the median norm of J is estimated
_PATIENCE = 100  # number of iterations within which the error must decrease by _MIN_PROGRESS
_MIN_PROGRESS = 0.01  # smallest relative decrease of the error that counts as progress
_MIN_DISPLACEMENT = 1e-14  # joint displacement per iteration below which a search stops [rad or m]
_RULES_WITH_HISTORY = (Rule.MANIPULABILITY_RATE, Rule.MAYORGA_RANK)  # use the previous step


def needs_iteration(robot: Robot, tasks: Sequence[Task], step: object) -> bool:
    """Return whether a problem is solved by this module: it has a step or an open task."""
    return step is not None or any(task.on(robot).in_python for task in tasks)


@dataclass(frozen=True, eq=False)
class StepSearch:
    """A search that repeats a step until the tasks of a robot are met.

    Attributes:
        layout: The tasks.
        step: The step.
        max_iterations: Maximum number of iterations of each seed.
        max_step: Maximum joint displacement in an iteration [rad or m].
        options: The other arguments of `solve`.
    """

    layout: CompiledTasks
    step: AnyStep
    max_iterations: int
    max_step: float
    options: SolveOptions
    _kernel: StepSpec | None = field(init=False)

    def __post_init__(self) -> None:
        if any(task.is_preference for task in self.layout.tasks):
            raise InputError(
                "solve takes no PostureTask with step, or with an OpenTask: use "
                "step=redundancy.NullSpace(step, criteria.RestPosture(q)); given: a PostureTask"
            )
        object.__setattr__(self, "_kernel", _kernel_form(self.step, self.layout))

    def targets(self, given: Sequence[ArrayLike]) -> Array:
        """Convert targets, one per task, to the kernel's layout (..., k); NaN if not finite."""
        robot, threads = self.layout.robot, self.options.threads
        each = [
            sized(task_numbers(robot, task, one, threads), size, task, "targets")
            for task, one, size in zip(
                self.layout.tasks, given, self.layout.target_sizes, strict=True
            )
        ]
        return np.ascontiguousarray(side_by_side(each, "targets"))

    def solve_batch(self, targets: Array, seeds: Array | None) -> Solutions:
        """Solve targets (..., k), from the seeds (nv,) or (..., nv) in the kernel's coordinates."""
        lead, n = targets.shape[:-1], self.layout.robot.nv
        flat = targets.reshape(-1, targets.shape[-1])
        start = None if seeds is None else np.broadcast_to(seeds, (*lead, n)).reshape(-1, n)
        found = self._search(flat, start)
        parts = (part.reshape((*lead, *part.shape[1:])) for part in found._parts())
        layout = self.layout
        return Solutions(
            *parts,
            robot=layout.robot,
            q0=None if seeds is None else from_kernel(layout.robot, seeds),
            tasks=layout.tasks,
            _task_targets=self._task_targets(targets),
        )

    def solve_single(self, target: Array, seed: Array | None) -> Solution:
        """Solve one target (k,), from a seed (n,) if there is one."""
        found = self._search(target[None], None if seed is None else seed[None])
        if found.status[0] == SolveStatus.NONFINITE_INPUT:
            raise_nonfinite(target, seed)
        return found[0]

    def _task_targets(self, targets: Array) -> TaskTargets | None:
        """Return the targets and tolerances, if there are several tasks."""
        several = len(self.layout.tasks) > 1
        return TaskTargets(targets, self.options.tolerances[:2]) if several else None

    def _search(self, targets: Array, start: Array | None) -> Solutions:
        """Solve targets (B, k); the first start is from the seeds (B, nv) in kernel coordinates."""
        robot, options = self.layout.robot, self.options
        count = len(targets)
        seed_lower, seed_range, seed_stride = seed_sequence(robot)
        best = np.tile(within_limits(robot, robot.neutral()), (count, 1))
        cost = np.full(count, math.inf)
        iterations, restarts = np.zeros(count, np.int32), np.full(count, -1, np.int32)
        status = np.full(count, SolveStatus.NOT_CONVERGED, np.int8)
        bad = ~np.isfinite(targets).all(axis=1)
        if start is not None:
            bad |= ~np.isfinite(start).all(axis=1)
            start = from_kernel(robot, start)
            best[~bad] = within_limits(robot, start[~bad])
        status[bad] = SolveStatus.NONFINITE_INPUT
        first = best.copy()
        left = np.flatnonzero(~bad)
        for seed in range(options.max_seeds or MAX_SEEDS):
            drawn = from_kernel(robot, seed_lower + (0.5 + seed * seed_stride) % 1 * seed_range)
            q = first[left] if seed == 0 else np.tile(drawn, (len(left), 1))
            restarts[left] += 1
            left = self._descend(left, q, targets, best, cost, iterations, status)
            if options.progress is not None:
                options.progress(count - len(left), count)
            if not len(left) or time.perf_counter() > options.deadline:
                break
        status[left] = np.where(
            time.perf_counter() > options.deadline, SolveStatus.TIMEOUT, SolveStatus.NOT_CONVERGED
        )
        errors = np.full((count, 2), math.inf)
        errors[~bad] = largest_errors(self.layout, self.layout.error(best[~bad], targets[~bad]))
        named = StatusArray.of(SolveStatus, status)
        position, rotation = errors[:, 0].copy(), errors[:, 1].copy()
        restarts = np.maximum(restarts, 0)
        parts = (best, named, position, rotation, iterations, restarts)
        given = self._task_targets(targets)
        return Solutions(
            *parts, robot=robot, q0=start, tasks=self.layout.tasks, _task_targets=given
        )

    def _descend(
        self,
        left: NDArray[np.intp],
        q: Array,
        targets: Array,
        best: Array,
        cost: Array,
        iterations: NDArray[np.int32],
        status: NDArray[np.int8],
    ) -> NDArray[np.intp]:
        """Iterate every unsolved problem from its own seed; return the problems still unsolved.

        Updates best, cost, iterations and status in place.

        Args:
            left: Indices of the unsolved problems (L,).
            q: Seeds of the unsolved problems (L, nq).
            targets: Targets of all problems (B, k).
            best: The configurations with the smallest error so far (B, nq).
            cost: The norms of the errors of `best` (B,).
            iterations: Numbers of iterations (B,).
            status: Statuses (B,).
        """
        move = self._steps(len(left))
        running = np.arange(len(left))
        least, since = np.full(len(left), math.inf), np.zeros(len(left), dtype=int)
        solved = np.zeros(len(left), dtype=bool)
        tolerances = self.options.position_tolerance, self.options.rotation_tolerance
        for k in range(self.max_iterations + 1):
            at, rows = q[running], left[running]
            J, e = self.layout._rows(at, targets[rows])
            size = np.linalg.norm(e, axis=1)
            met = (largest_errors(self.layout, e) <= tolerances).all(axis=1)
            better = met | (size < cost[rows])
            best[rows[better]], cost[rows[better]] = at[better], size[better]
            status[rows[met]], solved[running[met]] = SolveStatus.CONVERGED, True
            gained = size < (1 - _MIN_PROGRESS) * least[running]
            least[running[gained]], since[running[gained]] = size[gained], k
            going = ~met & (k - since[running] < _PATIENCE)
            late = time.perf_counter() > self.options.deadline
            if k == self.max_iterations or late or not going.any():
                break
            running, at = running[going], at[going]
            then = self._limited(move, running, J[going], e[going], at)
            iterations[left[running]] += 1
            moved = np.abs(difference(self.layout.robot, then, at)).max(axis=1) > _MIN_DISPLACEMENT
            q[running] = then
            running = running[moved]  # a start whose configuration no longer changes has ended
            if not len(running):
                break
        return left[~solved]

    def _limited(
        self, move: Move, running: NDArray[np.intp], J: FloatArray, e: FloatArray, q: Array
    ) -> Array:
        """Return the next configurations (B, nq), inside the joint limits.

        A joint at a limit that the step would move out of its range is held, and the step is
        computed again for the other joints.
        """
        robot = self.layout.robot
        x = to_kernel(robot, q)  # one coordinate for each limit
        free = np.ones_like(x, dtype=bool)
        for again in range(robot.nv + 1):
            dq = np.where(free, move(running, J * free[:, None, :], e, q, again > 0), 0.0)
            out = ((x >= robot.upper) & (dq > 0)) | ((x <= robot.lower) & (dq < 0))
            if not (out & free).any():
                break
            free &= ~out
        largest = np.abs(dq).max(axis=1, keepdims=True)
        shorter = np.minimum(1.0, self.max_step / np.maximum(largest, np.finfo(float).tiny))
        return np.asarray(within_limits(robot, integrate(robot, q, shorter * dq)))

    def _steps(self, count: int) -> Move:
        """Return a function that computes the steps of `count` problems.

        A step in Python may have a memory, so each problem gets its own copy.
        """
        spec, threads, effectors = (
            self._kernel,
            self.options.threads,
            self.layout.all_effectors,
        )
        if spec is not None:

            def in_kernel(
                running: NDArray[np.intp], J: Array, e: Array, q: Array, again: bool
            ) -> Array:
                return run_batch(spec, Linearization(J, e, effectors=effectors), threads)[0]

            return in_kernel
        each = [PythonStep(copy.deepcopy(self.step), self.layout) for _ in range(count)]
        for one in each:
            one.forget()

        def in_python(
            running: NDArray[np.intp], J: Array, e: Array, q: Array, again: bool
        ) -> Array:
            made = np.empty((len(q), self.layout.robot.nv))
            for i, k in enumerate(running):
                if again:
                    each[k].undo()
                made[i] = each[k](J[i], e[i], q[i])[0]
            return made

        return in_python


# (indices of problems (B,), J (B, m, nv), e (B, m), q (B, nq), again) -> displacements (B, nv).
# `again` is true if the step of this iteration is computed once more, with some joints held.
Move = Callable[[NDArray[np.intp], Any, Any, Array, bool], Array]


def step_search(
    layout: CompiledTasks,
    step: AnyStep | None,
    damping: DampingRule | None,
    max_step: float | None,
    max_iterations: int,
    options: SolveOptions,
) -> StepSearch:
    """Return the search that repeats a step, by default damped least squares, to meet tasks.

    Raises:
        InputError: Both a step and a damping rule are given, or `step` is not a valid step.
    """
    if step is not None and damping is not None:
        problem = "damping must not be given with step=, because a step has its own damping"
        raise InputError(f"{problem}; given: damping={short_repr(damping)}")
    if step is None:
        step = DLS(default_damping(layout) if damping is None else damping)
    longest = _MAX_DISPLACEMENT if max_step is None else number(max_step, "max_step", above=0)
    return StepSearch(layout, step, max_iterations, longest, options)


def default_damping(layout: CompiledTasks) -> ErrorNorm:
    """Return the default damping of a search with open tasks, from the median norm of J."""
    seed_lower, seed_range, seed_stride = seed_sequence(layout.robot)
    x = seed_lower + (0.5 + np.arange(1, _SAMPLES + 1)[:, None] * seed_stride) % 1 * seed_range
    sizes = np.linalg.norm(layout.jacobian(from_kernel(layout.robot, x)), axis=(1, 2))
    return ErrorNorm(_DAMPING * float(np.median(sizes)))


def _kernel_form(step: Any, layout: CompiledTasks) -> StepSpec | None:
    """Return the kernel's form of a step; None if the step must run in Python."""
    if isinstance(step, Augmented) and step.is_diagonal:
        step = step.as_weighted(layout.counts)
    if isinstance(step, Augmented | Priority):
        return None
    try:
        spec = kernel_of(step)
    except InputError:  # the step, or a rule inside it, is the user's own
        spec = None
    if spec is None or hasattr(step, "start"):
        PythonStep(step, layout)  # raises an error if the step is invalid
        return None
    return None if spec.damping.rule in _RULES_WITH_HISTORY else spec
