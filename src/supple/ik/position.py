"""Position inverse kinematics of one target, in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from threading import Lock
from typing import Any, TypeVar

from numpy.typing import ArrayLike

from supple._arrays.types import TargetLike
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

_MOST_ROBOTS = 64  # maximum number of robots whose solvers are kept
_MOST_OPTIONS = 16  # maximum number of sets of options of one robot whose solvers are kept

_OF_SOLVER = ("damping", "max_step", "step", "max_iterations", "timeout", "max_seeds", "threads")
_MOVED = {  # hints for `known_arguments`
    **{
        name: f"It is an argument of Solver: supple.Solver(robot, {name}=...)(target)."
        for name in (*_OF_SOLVER, "device", "precision")
    },
    **dict.fromkeys(
        ("seed", "q_init", "initial_guess", "initial_position"), "The seed is called q0."
    ),
    "mask": 'A task names its rows: tasks=supple.PoseTask(rows=("x", "y", "z")).',
    "solutions": "Several solutions: supple.Solver(robot).several(target, 8), or all of them: "
    "supple.Solver(robot).all(target).",
    "wraps": "It is an argument of Solver.all: supple.Solver(robot).all(target, wraps=True).",
    **{
        name: f"It is an argument of Solver.batch: supple.Solver(robot).batch(targets, {name}=...)."
        for name in ("progress", "stream")
    },
}


_DEFAULTS = {
    **dict.fromkeys(("frame", "tasks", "prefer", "max_move", "world")),
    "position_tolerance": TOLERANCE,
    "rotation_tolerance": TOLERANCE,
    "clearance": 0.0,
}


def _changed(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that differ from their defaults."""
    return {
        name: one
        for name, one in options.items()
        if name not in _DEFAULTS
        or not (one is _DEFAULTS[name] or (type(one) is float and one == _DEFAULTS[name]))
    }


class _Known:
    """The solvers of one robot: one without options, and one for each known set of options.

    Reading needs no lock, also in free-threaded Python: attributes are replaced as a whole.
    """

    __slots__ = ("others", "plain")

    def __init__(self) -> None:
        self.plain: Solver | None = None
        # Options; names and types of the options that are numbers; and the solver. The latest is
        # first.
        self.others: tuple[tuple[dict[str, Any], list[tuple[str, type]], Solver], ...] = ()

    def find(self, options: dict[str, Any]) -> Solver | None:
        """Return the solver with these options, if it is known."""
        if not options:
            return self.plain
        try:
            for known, numbers, solver in self.others:
                if known == options:
                    for name, kind in numbers:  # 1 equals True, which is not a valid number
                        if type(options[name]) is not kind:
                            break
                    else:
                        return solver
        except Exception:  # raised by == of an array or another object
            pass
        return None

    def find_given(self, options: dict[str, Any]) -> Solver | None:
        """Return the solver with these options; options with their default values are ignored."""
        return self.find(options) or self.find(_changed(options))

    def add(self, options: dict[str, Any], solver: Solver) -> None:
        """Add a solver. The oldest of too many sets of options is forgotten."""
        if not options:
            self.plain = solver
            return
        kinds = [(name, type(one)) for name, one in options.items()]
        numbers = [(name, kind) for name, kind in kinds if issubclass(kind, float | int)]
        self.others = ((options, numbers, solver), *self.others[: _MOST_OPTIONS - 1])


class _Solvers:
    """The solvers of the last calls. Each robot has its own as the attribute `_solvers`."""

    def __init__(self, most: int) -> None:
        self.robots: dict[Robot, None] = {}  # the oldest first
        self._most = most
        self._lock = Lock()

    def of(self, robot: Robot, options: dict[str, Any]) -> Solver:
        """Return the solver of a robot with options, made on first use."""
        if not all(map(_is_constant, options.values())):
            return Solver(robot, **options)
        known: _Known | None = robot._solvers
        if known is not None:
            found = known.find(options)
            if found is not None:
                return found
        solver = Solver(robot, **options)
        with self._lock:
            while robot not in self.robots and len(self.robots) >= self._most:
                self._forget(next(iter(self.robots)))
            self.robots[robot] = None
            known = vars(robot)["_solvers"] = robot._solvers or _Known()
            known.add(options, solver)
        return solver

    def _forget(self, robot: Robot) -> None:
        del self.robots[robot]
        vars(robot)["_solvers"] = None  # ends the reference cycle of robot and solvers

    def cache_clear(self) -> None:
        """Release all solvers."""
        with self._lock:
            for robot in list(self.robots):
                self._forget(robot)


_solvers = _Solvers(_MOST_ROBOTS)


def _with_known_solver(function: Function) -> Function:
    """Return a function that uses the solver of an earlier call with the same robot and options.

    Checking all arguments and making a solver would take longer than most searches.
    """
    every = known_arguments(**HINTS, **_MOVED)(function)

    @wraps(function)
    def call(robot: Any, target: Any, *others: Any, q0: Any = None, **options: Any) -> Any:
        try:
            known = robot._solvers
            solver = known.find_given(options) if options else known.plain
        except AttributeError:  # the first call, or not a robot
            solver = None
        if solver is None or others:
            return every(robot, target, *others, q0=q0, **options)
        return solver._known(target, q0)

    return call  # type: ignore[return-value]


@_with_known_solver
def solve(
    robot: Robot,
    target: TargetLike,
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
            from q0, and whether both are on the same branch.
        prefer: Preference among the solutions. "comfortable" (default without q0) starts from seeds
            with joints near the middle of their ranges, at no extra cost. "fast" returns the first
            solution found, wherever it is. "nearest" (default with q0) returns a solution near q0
            or, if there is none, the solution with the smallest maximum joint displacement.
            "manipulability", "limits" (far from joint limits) or a cost as a function of q (n,)
            return the best of up to 8 solutions.
        max_move: Largest displacement of each joint from q0 [rad or m]: the search stays in this
            box. If there is no solution in it, the status is `SolveStatus.MAX_MOVE`.
        position_tolerance: Position tolerance of each task [m].
        rotation_tolerance: Rotation tolerance of each task [rad].
        world: Obstacles and shapes of links. The solution is then free of collisions, checked in
            double precision; if all solutions found collide, the status is `SolveStatus.BLOCKED`.
        clearance: Least distance that each checked pair of parts must keep [m].
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
    solver = _solvers.of(robot, _changed(given))
    return solver(target, q0, explain) if explain else solver(target, q0)


def _is_constant(given: object) -> bool:
    """Return whether a value cannot change between calls; a list, for example, can change."""
    if type(given) is tuple:
        return all(isinstance(one, str | Task) for one in given)
    number = isinstance(given, float | int) and not isinstance(given, bool)
    return number or isinstance(given, str | Task | World)
