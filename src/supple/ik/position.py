"""Position inverse kinematics: configurations that meet targets."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar

from numpy.typing import ArrayLike

from supple import _core
from supple.control.arguments import check_robot_first
from supple.control.controller import AnyStep
from supple.damping import DampingRule
from supple.errors import HINTS, known_arguments
from supple.gpu.device import Precision, each_on_gpu, on_a_gpu
from supple.ik.arguments import (
    Progress,
    check_iterated,
    parse_options,
    seeds_of,
)
from supple.ik.branches.solve_all import all_solver, check_all, solve_all
from supple.ik.driver import Driver
from supple.ik.iterate_step import MAX_ITERATIONS, needs_iteration, step_search
from supple.ik.preference import Preference
from supple.ik.problem import compile_problem
from supple.ik.solution import Solution
from supple.ik.solutions import Solutions
from supple.ik.status import NEAR_STATUS, STATUS
from supple.ik.subproblems import decoupled_solver
from supple.kinematics import Robot
from supple.kinematics.robot import FrameNames
from supple.tasks import Task, TaskLike
from supple.tasks.inputs import common_shapes, per_task
from supple.tasks.layout import compile_tasks, selected_tasks

if TYPE_CHECKING:
    from typing import overload

    from typing_extensions import Unpack

Function = TypeVar("Function", bound=Callable[..., Any])


def _solver_of(robot: Robot, tasks: Any, damping: Any) -> Any:
    return decoupled_solver(compile_problem(robot, tasks, damping))


def _fast_path(function: Function) -> Function:
    """Return the function with a fast path in C++, for one target and common arguments.

    Parsing the arguments in Python would take about as long as the solve itself. The fast path
    neither checks for signals nor releases the GIL.
    """
    whole = known_arguments(**HINTS)(function)
    wrapped: Function = _core.with_fast_path(
        whole, _solver_of, all_solver, Solution, STATUS, NEAR_STATUS, Task
    )
    return wrapped


class Options(TypedDict, total=False):
    """The keyword arguments that do not change the type that `solve` returns."""

    frame: FrameNames
    tasks: TaskLike | Sequence[TaskLike] | None
    q0: ArrayLike | None
    prefer: Preference | None
    max_move: float | None
    position_tolerance: float
    rotation_tolerance: float
    damping: DampingRule | None
    max_step: float | None
    step: AnyStep | None
    max_iterations: int | None
    timeout: float | None
    max_seeds: int | None
    threads: int | None
    progress: Progress | None
    device: str | None
    stream: Any
    precision: Precision


# For type checkers only: at run time, typing's registry of overloads would keep this module and its
# compiled objects alive beyond the end of the interpreter.
if TYPE_CHECKING:
    # The type of an array does not contain its shape, so the type checker cannot distinguish one
    # target from a batch: the result is Any.
    @overload
    def solve(
        robot: Robot, target: Any, *, explain: Literal[True], **options: Unpack[Options]
    ) -> Solution: ...
    @overload
    def solve(
        robot: Robot, target: Any, *, solutions: int, **options: Unpack[Options]
    ) -> Solutions: ...
    @overload
    def solve(
        robot: Robot,
        target: Any,
        *,
        solutions: Literal["all"],
        wraps: bool = False,
        **options: Unpack[Options],
    ) -> Any: ...
    @overload
    def solve(
        robot: Robot,
        target: Any,
        *,
        solutions: None = None,
        explain: bool = False,
        **options: Unpack[Options],
    ) -> Any: ...


@_fast_path
def solve(
    robot: Robot,
    target: Any,
    *,
    frame: FrameNames = None,
    tasks: TaskLike | Sequence[TaskLike] | None = None,
    q0: ArrayLike | None = None,
    prefer: Preference | None = None,
    max_move: float | None = None,
    solutions: int | Literal["all"] | None = None,
    wraps: bool = False,
    position_tolerance: float = 1e-6,
    rotation_tolerance: float = 1e-6,
    damping: DampingRule | None = None,
    max_step: float | None = None,
    step: AnyStep | None = None,
    max_iterations: int | None = None,
    timeout: float | None = None,
    max_seeds: int | None = None,
    explain: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
    device: str | None = None,
    stream: Any = None,
    precision: Precision = "mixed",
) -> Any:
    """Find configurations that meet targets, inside the joint limits.

        solve(robot, T)                    one pose (4, 4) -> Solution
        solve(robot, T, q0=q)              the solution near q, for example along a path
        solve(robot, poses)                a batch (..., 4, 4) -> BatchSolution
        solve(robot, T, solutions=8)       several solutions of one pose -> Solutions
        solve(robot, T, solutions="all")   all of them; for a batch -> BatchSolutions

    No initial guess is needed: damped least squares starts from many seeds, comfortable ones first,
    and solutions are verified in double precision. If no seed reaches the target, the result is the
    No initial guess is needed: damped least squares starts from many seeds, comfortable ones first,
    and solutions are verified in double precision. If no seed reaches the target, the result is the
    closest pose found (with the smallest weighted error), and the status is
    `SolveStatus.UNREACHABLE` if the target is proven to be out of reach, else
    `SolveStatus.NOT_CONVERGED`. The same arguments give the same result, regardless of the number
    of threads and of the other targets in a batch; but a target alone and the same target in a
    batch may get different solutions.

    Args:
        robot: The robot to solve for.
        target: Target of the task, (4, 4) for a pose. For several tasks, a sequence with one target
            per task; k poses may also be an array (..., k, 4, 4), as `Robot.fk` returns it, and k
            positions (..., k, 3). Leading axes are batch axes. Arrays in GPU memory (CuPy, PyTorch,
            JAX) are solved on their GPU.
        frame: Name of a frame, or a sequence of names: their poses are the tasks.
        tasks: A task, or a sequence of tasks; by default the poses of all end effectors. A
            `PostureTask` is secondary: the solution moves along its branch toward the posture
            while the other targets stay met.
        q0: Seed (n,), or one per target (..., n) [rad or m]. `Solution.moved` and `same_branch` say
            how far the solution is from it, and whether it is on the same branch.
        prefer: Preference among the solutions. "comfortable" starts from seeds with joints near the
            middle of their ranges, at no extra cost (default without q0). "fast" returns the first
            solution found, wherever it is. "nearest" returns one near q0 or, if there is none, the
            solution with the smallest maximum joint displacement (default with q0).
            "manipulability", "limits" (far from joint limits) or a cost as a function of q (n,)
            return the best of up to 8 solutions.
        max_move: Largest displacement of each joint from q0 [rad or m]: the search stays in this
            box. If there is no solution in it, the status is `SolveStatus.MAX_MOVE`.
        solutions: Maximum number of distinct solutions of one target, at most 100,000, ordered by
            `prefer`. With "fast" (default without q0) the search stops at this number and orders
            them as "limits". "all"
            gives every solution of one pose or of a batch, for arms of 6 revolute joints: in closed
            form if three consecutive axes intersect or are parallel (`robot.structure`), also on a
            GPU; otherwise as eigenvalues. For other robots, they are searched. All are verified;
            `Solutions.complete` says whether these are all solutions.
        wraps: Whether `solutions="all"` includes solutions that differ by full turns of a joint;
            otherwise only the one nearest to q0, or to the middle of the joint's range, is given.
        position_tolerance: Position tolerance of each task [m].
        rotation_tolerance: Rotation tolerance of each task [rad].
        damping: Damping rule of the search; by default `ErrorNorm`, scaled by the robot's reach.
        max_step: Maximum joint displacement in an iteration [rad or m], 1 by default. With a
            smaller value the search stays closer to the branch of q0 and takes more iterations.
        step: Step that is repeated until the target is met, instead of the default search: any step
            of a `Servo`. It starts from q0, or the neutral configuration, then from other seeds,
            and never reports `SolveStatus.UNREACHABLE`. This search and all problems with an
            `OpenTask` run in Python around the kernel, without explain, solutions or device.
        max_iterations: Maximum number of iterations of each seed with `step` or an `OpenTask`; by
            default 1000.
        timeout: Time limit of the whole call [s]; unsolved targets get `SolveStatus.TIMEOUT`.
        max_seeds: Maximum number of seeds of a target, counted separately for tasks that share no
            joint. By default 512; up to 1024 if the smallest error found is below 6 % of the reach,
            and up to 16,384 if it is below 0.06 %, except with fewer than 6 joints for more rows;
            8 with `step` or an `OpenTask`.
        explain: Whether the solution includes a diagnosis, `Solution.report`; for one target only.
        threads: Maximum number of threads for a batch; all cores by default.
        progress: Function called repeatedly during a batch, with the number of finished targets and
            the number of all targets.
        device: "cpu", or a GPU of `supple.devices()` ("cuda" for the first); by default the device
            that holds the target. On a GPU, timeout, explain, threads and progress are not
            available; with max_move, the CPU searches again where the GPU's solution is too far.
        stream: CUDA stream for targets in GPU memory; by default that of the array, or the default
            stream. The call is asynchronous and returns a `GpuSolution`, or `GpuSolutions` with
            solutions="all"; max_move and a number of solutions are not supported, and `prefer` must
            be "comfortable", "fast" or "nearest"; the first two are the same on a GPU.
        precision: Precision of the search: "mixed" (float32, refined in float64) or, on a GPU,
            "double".

    Raises:
        InputError: An argument is malformed, or a single target or seed is not finite; in a batch,
            such targets get `SolveStatus.NONFINITE_INPUT`.
        MissingExtraError, DeviceError: The GPU is not available.
    """
    began = time.perf_counter()
    check_robot_first(robot, "solve(robot, target)", target)
    selected, single = selected_tasks(robot, frame, tasks)
    iterates = needs_iteration(selected, step)
    every = check_all(solutions, wraps)
    check_iterated(
        iterates,
        target,
        max_iterations,
        device,
        prefer,
        max_move=max_move,
        solutions=solutions,
        explain=explain or None,
    )
    if prefer is None and q0 is None and solutions is not None:
        prefer = "fast"
    options = parse_options(
        target,
        began=began,
        seeded=q0 is not None,
        prefer=prefer,
        solutions=None if isinstance(solutions, str) else solutions,
        position_tolerance=position_tolerance,
        rotation_tolerance=rotation_tolerance,
        timeout=timeout,
        max_seeds=max_seeds,
        explain=explain,
        threads=threads,
        progress=progress,
        device=device,
        stream=stream,
        precision=precision,
        max_move=max_move,
    )
    if iterates:
        layout = compile_tasks(robot, selected)
        most = MAX_ITERATIONS if max_iterations is None else max_iterations
        search = step_search(layout, step, damping, max_step, most, options)
        targets = search.targets(per_task(target, single, layout.tasks))
        return search.solve(targets, seeds_of(q0, robot, targets.shape[:-1]))
    problem = compile_problem(robot, selected, damping, max_step)
    if every:
        return solve_all(problem, target, single, q0, bool(wraps), options, stream)
    driver = Driver(problem, options)
    if options.gpu is not None and on_a_gpu(target):
        own = problem.layout.tasks
        arrays = each_on_gpu(target, len(own), common_shapes(own))
        return driver.gpu_solver().solve_on_device(arrays, q0, driver.gpu_options(), stream)
    targets = problem.targets(per_task(target, single, selected), options.threads)
    seeds = seeds_of(q0, robot, targets.shape[:-1])
    if targets.ndim == 1:
        return driver.solve_single(targets, seeds)
    return driver.solve_batch(targets, seeds)
