"""Position inverse kinematics: a solver with fixed settings, called with targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from supple import _core
from supple._arrays.checks import library_of, like
from supple._arrays.types import TargetLike
from supple.collision.world import World
from supple.control.arguments import check_robot_first
from supple.control.controller import AnyStep
from supple.damping import DampingRule
from supple.errors import HINTS, InputError, known_arguments, short_repr
from supple.gpu.device import Precision, each_on_gpu, on_a_gpu
from supple.ik.arguments import (
    Progress,
    Settings,
    SolveOptions,
    check_iterated,
    check_no_out,
    check_not_iterated,
    seeds_of,
)
from supple.ik.blocked import free_solutions, settled, settled_batch
from supple.ik.branches.solve_all import TOLERANCE, all_solver, record_all, solve_all
from supple.ik.closed import ClosedSearch, check_closed
from supple.ik.driver import Driver, has_all_solutions, search_spec
from supple.ik.iterate_step import MAX_ITERATIONS, StepSearch, needs_iteration, step_search
from supple.ik.preference import FIRST_FOUND, Preference
from supple.ik.problem import CompiledProblem, compile_problem
from supple.ik.solution import Solution
from supple.ik.solutions import Solutions
from supple.ik.status import NEAR_STATUS, STATUS, SolveStatus
from supple.ik.subproblems import checked_solver, decoupled_solver
from supple.ik.world_check import WorldCheck
from supple.kinematics import Robot
from supple.kinematics.robot import FrameNames
from supple.motion.linearization import Array
from supple.tasks import Task, TaskLike
from supple.tasks.inputs import common_shapes, per_task
from supple.tasks.layout import compile_tasks, selected_tasks

if TYPE_CHECKING:
    from supple.ik.gpu.calls import DeviceCalls, Record

_ARRAY = np.ndarray
_OF_CALLS = {  # hints for `known_arguments`
    "target": "Targets are arguments of the call: solver(target).",
    "q0": "It is an argument of the call: solver(target, q0=...).",
    "explain": "It is an argument of the call: solver(target, explain=True).",
    "progress": "It is an argument of batch: solver.batch(targets, progress=...).",
    "stream": "It is an argument of batch and all: solver.batch(targets, stream=...).",
    "wraps": "It is an argument of all: solver.all(target, wraps=True).",
    "solutions": "Several solutions: solver.several(target, 8), or all: solver.all(target).",
}
_FIXED = {
    name: f"It is fixed between calls: Solver(robot, {name}=...)(target)."
    for name in (
        *("frame", "tasks", "prefer", "max_move", "position_tolerance", "rotation_tolerance"),
        *("damping", "max_step", "step", "max_iterations", "timeout", "max_seeds", "threads"),
        *("device", "precision", "world", "clearance"),
    )
} | {name: hint for name, hint in _OF_CALLS.items() if name not in ("target", "q0", "explain")}


class Solver(_core.TargetSolver):
    """A search for configurations that meet targets, inside the joint limits.

        solver = Solver(robot)             what is fixed between calls
        solver(T)                          one pose (4, 4) -> Solution
        solver(T, q0=q)                    the solution near q, for example along a path
        solver(T, explain=True)            with a diagnosis, `Solution.report`
        solver.batch(poses)                a batch (..., 4, 4) -> Solutions, one of each pose
        solver.several(T, 8)               up to 8 solutions of one pose -> Solutions
        solver.all(T)                      all solutions of one pose or of a batch -> Solutions

    No initial guess is needed: damped least squares starts from many seeds, comfortable ones first,
    and solutions are verified in double precision. If no seed reaches the target, the result is the
    closest pose found (with the smallest weighted error), and the status is
    `SolveStatus.UNREACHABLE` if the target is proven to be out of reach, else
    `SolveStatus.NOT_CONVERGED`. The same arguments give the same result, regardless of the number
    of threads and of the other targets in a batch; but a target alone and the same target in a
    batch may get different solutions.

    A target is (4, 4) for a pose. For several tasks, it is a sequence with one target per task; k
    poses may also be an array (..., k, 4, 4), as `Robot.fk` returns it, and k positions (..., k,
    3). Leading axes are batch axes. q0 is a seed (n,), or in a batch one per target (..., n)
    [rad or m]. `Solution.moved` and `same_branch` say how far the solution is from q0, and whether
    both are on the same branch. A single target or seed that is not finite raises an `InputError`;
    in a batch, such targets get `SolveStatus.NONFINITE_INPUT`.
    """

    @known_arguments(**HINTS, **_OF_CALLS)
    def __init__(
        self,
        robot: Robot,
        tasks: TaskLike | Sequence[TaskLike] | None = None,
        *,
        frame: FrameNames = None,
        prefer: Preference | None = None,
        max_move: float | None = None,
        position_tolerance: float = TOLERANCE,
        rotation_tolerance: float = TOLERANCE,
        damping: DampingRule | None = None,
        max_step: float | None = None,
        step: AnyStep | None = None,
        max_iterations: int | None = None,
        timeout: float | None = None,
        max_seeds: int | None = None,
        threads: int | None = None,
        device: str | None = None,
        precision: Precision = "mixed",
        world: World | None = None,
        clearance: float = 0.0,
    ) -> None:
        """Prepare the search.

        Args:
            robot: The robot to solve for.
            tasks: A task, or a sequence of tasks; by default the poses of all end effectors. A
                `PostureTask` is secondary: the solution moves along its branch toward the posture
                while the other targets stay met.
            frame: Name of a frame, or a sequence of names: their poses are the tasks.
            prefer: Preference among the solutions. "comfortable" (default without q0) starts from
                seeds with joints near the middle of their ranges, at no extra cost. "fast" returns
                the first solution found, wherever it is. "nearest" (default with q0) returns a
                solution near q0 or, if there is none, the solution with the smallest maximum joint
                displacement. "manipulability", "limits" (far from joint limits) or a cost as a
                function of q (n,) return the best of up to 8 solutions. Several solutions are
                ordered by the preference; the default without q0 is then "fast": the search stops
                when it has found as many solutions as wanted, and orders them as by "limits".
            max_move: Largest displacement of each joint from q0 [rad or m]: the search stays in
                this box. If there is no solution in it, the status is `SolveStatus.MAX_MOVE`.
            position_tolerance: Position tolerance of each task [m].
            rotation_tolerance: Rotation tolerance of each task [rad].
            damping: Damping rule of the search; by default `ErrorNorm`, scaled by the robot's
                reach.
            max_step: Maximum joint displacement in an iteration [rad or m], 1 by default. With a
                smaller value the search stays closer to the branch of q0 and takes more iterations.
            step: Step that is repeated until the target is met, instead of the default search: any
                step of a `Servo`. This search starts from q0, or the neutral configuration, then
                from other seeds, and never reports `SolveStatus.UNREACHABLE`. This search and all
                problems with an `OpenTask` run in Python around the kernel; explain, several
                solutions and a GPU are not available.
            max_iterations: Maximum number of iterations of each seed with `step` or an `OpenTask`;
                by default 1000.
            timeout: Time limit of a call [s]; unsolved targets get `SolveStatus.TIMEOUT`.
            max_seeds: Maximum number of seeds of a target, counted separately for tasks that share
                no joint. By default 512; up to 1024 if the smallest error found is below 6 % of the
                reach, and up to 16,384 if it is below 0.06 %. The default stays 512 for a single
                task that fewer than 6 revolute joints move and that has more rows than these
                joints; it is 8 with `step` or an `OpenTask`.
            threads: Maximum number of threads for a batch; all cores by default.
            device: "cpu", or a GPU of `supple.gpu.devices()` ("cuda" for the first); by default the
                device that holds the targets. On a GPU, timeout, explain, threads and progress are
                not available; with max_move, the CPU searches again where the GPU's solution is too
                far from q0.
            precision: Precision of the search: "mixed" (float32, refined in float64) or, on a GPU,
                "double".
            world: Obstacles and shapes of links. Solutions are then free of collisions, checked in
                double precision. If all solutions found collide, the status is
                `SolveStatus.BLOCKED`. For arms all of whose solutions are computed, this is a proof
                (`Solution.is_proven`).
            clearance: Least distance that each checked pair of parts must keep [m].

        Raises:
            InputError: An argument is malformed.
            UnknownNameError: The robot has no link or frame that the world names.
            DescriptionError: A shape of the robot's file or a mesh cannot be read.
        """
        check_robot_first(robot, "Solver(robot, tasks)", tasks)
        selected, self._single = selected_tasks(robot, frame, tasks)
        self._settings = settings = Settings.of(
            prefer=prefer,
            max_move=max_move,
            position_tolerance=position_tolerance,
            rotation_tolerance=rotation_tolerance,
            timeout=timeout,
            max_seeds=max_seeds,
            threads=threads,
            device=device,
            precision=precision,
            check=WorldCheck.of(robot, world, clearance),
        )
        iterates = needs_iteration(robot, selected, step)
        check_iterated(iterates, max_iterations, settings)
        self._robot, self._tasks = robot, selected
        self._given: dict[str, Any] = {
            "frame": frame,
            "tasks": tasks if tasks is None else (selected[0] if self._single else selected),
            "damping": damping,
            "max_step": max_step,
            "step": step,
            "max_iterations": max_iterations,
            "max_seeds": max_seeds,
            "timeout": timeout,
            "prefer": prefer,
            "max_move": max_move,
            "position_tolerance": position_tolerance,
            "rotation_tolerance": rotation_tolerance,
            "threads": threads,
            "device": device,
            "precision": precision,
            "world": world,
            "clearance": clearance,
        }
        self._problem: CompiledProblem | None = None
        self._iterated: Callable[[SolveOptions], StepSearch] | None = None
        self._is_plain = False
        self._calls: DeviceCalls | None = None  # with targets in GPU memory
        self._closed: ClosedSearch | None = None  # of a robot with loops
        if not robot.is_tree:
            check_closed(robot.name, device=None if settings.device == "cpu" else device)
            check_closed(robot.name, **{"an OpenTask or step": step if iterates else None})
            self._closed = ClosedSearch(Solver, robot, selected, self._given)
        elif iterates:
            layout = compile_tasks(robot, selected)
            most = MAX_ITERATIONS if max_iterations is None else max_iterations

            def search(options: SolveOptions) -> StepSearch:
                return step_search(layout, step, damping, max_step, most, options)

            search(settings.options(None, seeded=True))  # raises an error if the step is invalid
            self._iterated = search
        else:
            self._problem = compile_problem(robot, selected, damping, max_step)
            plain = all(one is None for one in (tasks, frame, damping, max_step))
            self._is_plain = plain and settings == _DEFAULTS
        self._prepare()

    @cached_property
    def _all_of_pose(self) -> Callable[[Any], Solutions | None] | None:
        """The fast path of `all`; computed on first use, because finding the arm takes long."""
        return all_solver(self._robot) if self._is_plain else None

    def _prepare(self) -> None:
        """Prepare the kernel for calls with one target."""
        settings, problem = self._settings, self._problem
        kernel, specs = None, dict[bool, _core.SearchSpec | None]()
        on_cpu = settings.device in (None, "cpu") and settings.precision == "mixed"
        # Small steps may take seconds, in which other threads and signal handlers must run.
        quick = self._given["max_step"] is None
        check = settings.check
        known = check is not None and problem is not None and has_all_solutions(problem)
        if problem is not None and on_cpu and quick:
            kernel = (decoupled_solver if check is None else checked_solver)(problem)
        for seeded in (False, True):
            prefer = settings.preference(seeded)
            needs_q0 = prefer == "nearest" or settings.max_move is not None
            first = isinstance(prefer, str) and prefer in FIRST_FOUND
            if kernel is not None and first and (seeded or not needs_q0):
                options = settings.options(None, seeded=seeded)
                specs[seeded] = search_spec(options, settings.timeout, known)
        super().__init__(
            kernel=kernel,
            robot=self._robot,
            balls=list(self._robot._balls),
            prismatic=self._robot.prismatic.tolist(),
            single=self._single,
            without_q0=specs.get(False),
            with_q0=specs.get(True),
            solution=Solution,
            statuses=STATUS if settings.max_move is None else NEAR_STATUS,
            collision=None if check is None else check.kernel,
            check=check,
        )

    @property
    def robot(self) -> Robot:
        """The robot to solve for."""
        return self._robot

    @property
    def world(self) -> World | None:
        """Obstacles, shapes, and the pairs that are checked; None without a world."""
        return None if self._settings.check is None else self._settings.check.model.world

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks, in the order of their targets."""
        return self._tasks

    def __repr__(self) -> str:
        default = {"precision": "mixed", "clearance": 0.0} | dict.fromkeys(
            ("position_tolerance", "rotation_tolerance"), TOLERANCE
        )
        given = {
            name: value
            for name, value in self._given.items()
            if name not in ("tasks", "frame") and value != default.get(name)
        }
        more = "".join(f", {name}={value!r}" for name, value in given.items())
        return f"Solver({self.robot.name!r}, {list(self.tasks)}{more})"

    def __setattr__(self, name: str, value: object) -> None:
        # A subclass may have attributes of its own.
        own = type(self) is not Solver and not hasattr(Solver, name)
        if not own and not name.startswith("_"):
            raise AttributeError(
                f"{name} of a Solver cannot be set: make a new Solver with other arguments"
            )
        super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (type(self), self._robot, self._given)

    if TYPE_CHECKING:

        def __call__(
            self, target: TargetLike, q0: ArrayLike | None = None, explain: bool = False
        ) -> Solution:
            """Return the solution of one target.

            Args:
                target: Target of the task, (4, 4) for a pose; for several tasks, a sequence of
                    targets.
                q0: Seed (n,) [rad or m].
                explain: Whether the solution includes a diagnosis, `Solution.report`.

            Raises:
                InputError: An argument is malformed or not finite, or there are several targets.
                MissingExtraError, DeviceError: The GPU is not available.
            """

        def _known(self, target: Any, q0: ArrayLike | None) -> Solution: ...

    @known_arguments(**_FIXED)
    def _solve_one(self, target: Any, q0: Any = None, explain: bool = False) -> Solution:
        """Return the solution of one target, for arguments that the fast `__call__` cannot read."""
        if on_a_gpu(target):
            raise InputError(
                "a single target must be in host memory; given: a target in GPU memory, which "
                "Solver.batch solves"
            )
        if self._closed is not None:
            return self._closed.solve_one(self._each(target), q0, explain)
        options = self._settings.options(target, seeded=q0 is not None, explain=explain)
        if self._iterated is not None:
            check_not_iterated(explain=explain or None)
        targets, seeds = self._read(target, q0, options)
        if targets.ndim > 1:
            raise InputError(
                f"target must be one target; given: a batch of shape {targets.shape[:-1]}, which "
                "Solver(robot).batch(targets) solves"
            )
        if self._iterated is not None:
            return self._iterated(options).solve_single(targets, seeds)
        found = self._driver(options).solve_single(targets, seeds)
        if found.status == SolveStatus.BLOCKED:
            found = self._settled(found, target, q0)
        other = library_of(target)
        return found if other is None else replace(found, q=like(other, found.q))

    def _settled(self, found: Solution, target: Any, q0: Any) -> Solution:
        """Return a free solution instead of a blocked one, if `settled` finds one."""
        assert self._problem is not None
        options = self._settings.options(target, seeded=q0 is not None)
        targets, seeds = self._read(target, q0, options)
        return settled(self._problem, targets, seeds, options, found)

    def batch(
        self,
        targets: TargetLike,
        q0: ArrayLike | None = None,
        *,
        progress: Progress | None = None,
        stream: object = None,
        out: Solutions | None = None,
    ) -> Solutions:
        """Return one solution of each target of a batch.

        Args:
            targets: Targets of the tasks, (..., 4, 4) for poses. Arrays in GPU memory (CuPy,
                PyTorch, JAX) are solved on their GPU.
            q0: Seed (n,) of all targets, or one per target (..., n) [rad or m].
            progress: Function called repeatedly, with the number of finished targets and the number
                of all targets.
            stream: CUDA stream for targets in GPU memory; by default that of the array, or the
                default stream. The call is asynchronous, and the results stay in GPU memory;
                max_move is not supported. `prefer` "comfortable" and "fast" are the same on a GPU;
                a function is called once, with all solutions (..., n), and returns their costs.
            out: For targets in GPU memory, solutions of an earlier call with targets of the same
                shape, which are overwritten and returned.

        Raises:
            InputError: An argument is malformed.
            MissingExtraError, DeviceError: The GPU is not available.
        """
        if self._calls is not None and progress is None and type(targets) is not _ARRAY:
            again = self._calls.repeat("batch", targets, q0, stream, out)
            if again is not None:
                return again
        if self._closed is not None:
            check_closed(self._robot.name, stream=stream, out=out)
            if on_a_gpu(targets):
                raise InputError("robots with loops need the CPU; given: targets in GPU memory")
            made = self._closed.solve_batch(self._each(targets), q0, progress)
            return _returned(targets, made)
        options = self._settings.options(
            targets, seeded=q0 is not None, progress=progress, stream=stream
        )
        if self._iterated is not None:
            if on_a_gpu(targets):
                raise InputError("step= and OpenTask are only for device='cpu'; given: a GPU")
            return _returned(
                targets, self._iterated(options).solve_batch(*self._read(targets, q0, options))
            )
        driver = self._driver(options)
        if options.gpu is not None and on_a_gpu(targets):
            record = driver.record_on_gpu(listed=False)
            return self._on_device("batch", targets, q0, stream, out, record)
        check_no_out(out)
        read, seeds = self._read(targets, q0, options)
        made = settled_batch(driver.problem, read, seeds, options, driver.solve_batch(read, seeds))
        return _returned(targets, made)

    def several(
        self,
        target: TargetLike,
        count: int,
        q0: ArrayLike | None = None,
        *,
        stream: object = None,
        out: Solutions | None = None,
    ) -> Solutions:
        """Return distinct solutions of one target, ordered by `prefer`, the best first.

        If the target is not reached, the only entry is the closest pose found. Targets in GPU
        memory may be a batch. Their results stay in GPU memory, with `count` entries for each
        target; if a target has fewer solutions, the other entries have NaN in q and infinite
        errors. `Solutions.count` is the number of solutions of each target.

        Args:
            target: Target of the tasks.
            count: Maximum number of solutions, at most 100,000.
            q0: Seed (n,) [rad or m]; for a batch also one per target (..., n).
            stream: CUDA stream for targets in GPU memory, as for `batch`.
            out: For targets in GPU memory, solutions to overwrite, as for `batch`.

        Raises:
            InputError: An argument is malformed, or there are several targets in host memory.
        """
        if self._calls is not None and type(target) is not _ARRAY and isinstance(count, int):
            again = self._calls.repeat(f"several {count}", target, q0, stream, out)
            if again is not None:
                return again
        if self._closed is not None:
            check_closed(self._robot.name, stream=stream, out=out)
            return _returned(target, self._closed.solve_several(self._each(target), count, q0))
        options = self._settings.options(
            target, seeded=q0 is not None, solutions=count, stream=stream
        )
        if self._iterated is not None:
            check_not_iterated(several=count)
        if options.gpu is not None and on_a_gpu(target):
            record = self._driver(options).record_on_gpu(listed=True)
            return self._on_device(f"several {count}", target, q0, stream, out, record)
        check_no_out(out)
        targets, seeds = self._read(target, q0, options)
        if targets.ndim > 1:
            raise InputError(
                f"several needs one target; given: a batch of shape {targets.shape[:-1]}"
            )
        return _returned(target, self._driver(options).solve_several(targets, seeds))

    def all(
        self,
        target: TargetLike,
        q0: ArrayLike | None = None,
        *,
        wraps: bool = False,
        stream: object = None,
        out: Solutions | None = None,
    ) -> Solutions:
        """Return all solutions of one target or of a batch, ordered by `prefer`, the best first.

        For arms of 6 revolute joints, every solution is computed: in closed form if three
        consecutive axes intersect or are parallel (`robot.structure`), also on a GPU; otherwise as
        eigenvalues. For other robots, a search finds solutions. All returned solutions are
        verified; `Solutions.complete` says whether they are all solutions of a target. There are no
        entries for a target without a solution.

        Args:
            target: Target or targets of the tasks, (..., 4, 4) for poses.
            q0: Seed (n,) of all targets, or one per target (..., n) [rad or m].
            wraps: Whether solutions that differ by full turns of a joint are included; otherwise
                only the solution nearest to q0, or to the middle of the joint's range, is given.
            stream: CUDA stream for targets in GPU memory, as for `batch`.
            out: For targets in GPU memory, solutions to overwrite, as for `batch`.

        Raises:
            InputError: An argument is malformed.
            MissingExtraError, DeviceError: The GPU is not available.
        """
        if self._calls is not None and wraps is False and type(target) is not _ARRAY:
            again = self._calls.repeat("all", target, q0, stream, out)
            if again is not None:
                return again
        if self._all_of_pose is not None and q0 is None and wraps is False and stream is None:
            found = self._all_of_pose(target)
            if found is not None:
                return _returned(target, found)
        if self._closed is not None:
            check_closed(self._robot.name, **{"Solver.all": target})
        options = self._settings.options(target, seeded=q0 is not None, every=True, stream=stream)
        if self._problem is None:
            check_not_iterated(all=short_repr(target))
        assert self._problem is not None
        if options.gpu is not None and on_a_gpu(target):
            record = record_all(self._problem, bool(wraps), options)
            return self._on_device("all", target, q0, stream, out, record)
        check_no_out(out)
        every = solve_all(self._problem, target, self._single, q0, bool(wraps), options)
        kept = every if options.check is None else free_solutions(every, options.check)
        return _returned(target, kept)

    def _on_device(
        self, kind: str, targets: Any, q0: Any, stream: Any, out: Solutions | None, record: Record
    ) -> Solutions:
        """Return the solutions of targets in GPU memory, where they stay."""
        from supple.ik.gpu.calls import DeviceCalls  # (NVIDIA's packages are optional)

        if self._calls is None:
            self._calls = DeviceCalls()
        own = self._tasks
        split = partial(each_on_gpu, count=len(own), shapes=common_shapes(own))
        return self._calls.first(kind, targets, q0, stream, out, split, record)

    def _driver(self, options: SolveOptions) -> Driver:
        assert self._problem is not None
        return Driver(self._problem, options)

    def _each(self, given: Any) -> Any:
        """Return one target, or one batch of targets, of each task."""
        return per_task(given, self._single, self._tasks)

    def _read(self, given: Any, q0: Any, options: SolveOptions) -> tuple[Array, Array | None]:
        """Return targets in the kernel's layout (..., k) and seeds (n,), (..., n) or None."""
        each = self._each(given)
        if self._iterated is not None:
            targets = self._iterated(options).targets(each)
        else:
            targets = self._driver(options).problem.targets(each, options.threads)
        return targets, seeds_of(q0, self._robot, targets.shape[:-1])


_DEFAULTS = Settings.of(
    prefer=None,
    max_move=None,
    position_tolerance=TOLERANCE,
    rotation_tolerance=TOLERANCE,
    timeout=None,
    max_seeds=None,
    threads=None,
    device=None,
    precision="mixed",
)


def _returned(targets: Any, found: Solutions) -> Solutions:
    """Return solutions with arrays of the library of the targets."""
    other = library_of(targets)
    return found if other is None else found._of_library(other)


def _remade(kind: type[Solver], robot: Robot, given: dict[str, Any]) -> Solver:
    """Return a solver with the arguments of another, for copies."""
    return kind(robot, **given)
