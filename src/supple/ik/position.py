"""Position inverse kinematics of one target, in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from threading import Lock
from typing import Any, TypeVar

from numpy.typing import ArrayLike

from supple.collision.world import World
from supple.control.arguments import check_robot_first
from supple.errors import HINTS, known_arguments
from supple.ik.branches.solve_all import TOLERANCE
from supple.ik.preference import Preference
from supple.ik.solution import Solution
from supple.ik.solver import Solver
from supple.kinematics import Robot
from supple.kinematics.robot import FrameNames
from supple.tasks import Task, TaskLike

Function = TypeVar("Function", bound=Callable[..., Any])

_OF_SOLVER = ("damping", "max_step", "step", "max_iterations", "timeout", "max_seeds", "threads")
_MOVED = {  # hints for `known_arguments`
    **{
        name: f"It is an argument of Solver: supple.Solver(robot, {name}=...)(target)."
        for name in (*_OF_SOLVER, "device", "precision")
    },
    "solutions": "Several solutions: supple.Solver(robot).several(target, 8), or all of them: "
    "supple.Solver(robot).all(target).",
    "wraps": "It is an argument of Solver.all: supple.Solver(robot).all(target, wraps=True).",
    **{
        name: f"It is an argument of Solver.batch: supple.Solver(robot).batch(targets, {name}=...)."
        for name in ("progress", "stream")
    },
}


class _Solvers:
    """The solvers of the last calls.

    A key is a robot, or a tuple of a robot and the options of a call as pairs of name and value.
    Reading needs no lock, also in free-threaded Python: an entry is replaced as a whole.
    """

    def __init__(self, most: int) -> None:
        self.known: dict[object, Solver] = {}
        self._most = most
        self._lock = Lock()

    def of(self, robot: Robot, options: dict[str, Any]) -> Solver:
        """Return the solver of a robot with options, made on first use."""
        if not all(map(_is_constant, options.values())):
            return Solver(robot, **options)
        key: object = (robot, *options.items()) if options else robot
        # As parts of a key, 0 and 1 equal False and True, which are not valid numbers.
        if any(isinstance(one, float | int) and one in (0, 1) for one in options.values()):
            key = (key, "numbers")
        solver = self.known.get(key)
        if solver is None:
            solver = Solver(robot, **options)
            with self._lock:
                while len(self.known) >= self._most:
                    del self.known[next(iter(self.known))]
                self.known[key] = solver
        return solver

    def cache_clear(self) -> None:
        """Release all solvers."""
        with self._lock:
            self.known.clear()


_solvers = _Solvers(64)


def _with_known_solver(function: Function) -> Function:
    """Return the function with a short way for the options of previous calls.

    Checking all arguments and making a solver would take longer than most searches.
    """
    known, every = _solvers.known, known_arguments(**HINTS, **_MOVED)(function)

    @wraps(function)
    def call(robot: Any, target: Any, *others: Any, q0: Any = None, **options: Any) -> Any:
        if not others:
            try:
                solver = known[(robot, *options.items()) if options else robot]
            except (KeyError, TypeError, ValueError):  # new options, or options without a hash
                pass
            else:
                return solver(target, q0)
        return every(robot, target, *others, q0=q0, **options)

    return call  # type: ignore[return-value]


@_with_known_solver
def solve(
    robot: Robot,
    target: Any,
    *,
    frame: FrameNames = None,
    tasks: TaskLike | Sequence[TaskLike] | None = None,
    q0: ArrayLike | None = None,
    prefer: Preference | None = None,
    max_move: float | None = None,
    position_tolerance: float = TOLERANCE,
    rotation_tolerance: float = TOLERANCE,
    world: World | None = None,
    clearance: float = 0.0,
    explain: bool = False,
) -> Solution:
    """Find a configuration that meets a target, inside the joint limits.

        solve(robot, T)                    one pose (4, 4) -> Solution
        solve(robot, T, q0=q)              the solution near q, for example along a path

    This is the call of a `Solver` in one line. Batches, several solutions and all solutions are
    methods of `Solver`, which also has more settings: `Solver(robot).batch(poses)`.

    Args:
        robot: The robot to solve for.
        target: Target of the task, (4, 4) for a pose. For several tasks, a sequence with one target
            per task; k poses may also be an array (k, 4, 4), as `Robot.fk` returns it, and k
            positions (k, 3).
        frame: Name of a frame, or a sequence of names: their poses are the tasks.
        tasks: A task, or a sequence of tasks; by default the poses of all end effectors. A
            `PostureTask` is secondary: the solution moves along its branch toward the posture
            while the other targets stay met.
        q0: Seed (n,) [rad or m]. `Solution.moved` and `same_branch` say how far the solution is
            from it, and whether it is on the same branch.
        prefer: Preference among the solutions. "comfortable" starts from seeds with joints near the
            middle of their ranges, at no extra cost (default without q0). "fast" returns the first
            solution found, wherever it is. "nearest" returns one near q0 or, if there is none, the
            solution with the smallest maximum joint displacement (default with q0).
            "manipulability", "limits" (far from joint limits) or a cost as a function of q (n,)
            return the best of up to 8 solutions.
        max_move: Largest displacement of each joint from q0 [rad or m]: the search stays in this
            box. If there is no solution in it, the status is `SolveStatus.MAX_MOVE`.
        position_tolerance: Position tolerance of each task [m].
        rotation_tolerance: Rotation tolerance of each task [rad].
        world: Obstacles and shapes of links. The solution is then free of collisions, checked in
            double precision; if all solutions found collide, the status is `SolveStatus.BLOCKED`.
        clearance: Least distance of all pairs of parts that are checked [m].
        explain: Whether the solution includes a diagnosis, `Solution.report`.

    Raises:
        InputError: An argument is malformed or not finite, or there are several targets.
    """
    check_robot_first(robot, "solve(robot, target)", target)
    given: dict[str, Any] = {
        "frame": frame,
        "tasks": tasks,
        "prefer": prefer,
        "max_move": max_move,
        "position_tolerance": position_tolerance,
        "rotation_tolerance": rotation_tolerance,
        "world": world,
        "clearance": clearance,
    }
    defaults = {
        "position_tolerance": TOLERANCE,
        "rotation_tolerance": TOLERANCE,
        "clearance": 0.0,
    }
    options: dict[str, Any] = {
        name: one for name, one in given.items() if one is not defaults.get(name)
    }
    if type(clearance) is float and clearance == 0.0:
        options.pop("clearance", None)
    return _solvers.of(robot, options)(target, q0, explain)


def _is_constant(given: object) -> bool:
    """Return whether a value means the same in a later call; a list may then have other entries."""
    if type(given) is tuple:
        return all(isinstance(one, str | Task) for one in given)
    number = isinstance(given, float | int) and not isinstance(given, bool)
    return number or isinstance(given, str | Task | World)
