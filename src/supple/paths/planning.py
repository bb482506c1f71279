"""Whole paths: configurations along a sequence of targets, on one branch wherever one exists.

Configurations along the path form a graph (`branches.py`, `self_motion.py`, `tracks.py`). The route
with the fewest reconfigurations (`graph.py`) is refined until the tool stays on the path
(`refine.py`). A connection of the route that turns out to leave the path is removed from the graph,
and the next route is tried.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from supple._arrays.checks import finite_array, number
from supple._arrays.types import TargetLike
from supple._runtime.environment import thread_count
from supple.collision.certificate import Certificate
from supple.collision.world import World
from supple.errors import HINTS, InputError, known_arguments, short_repr
from supple.ik.branches.arms import AnyArm, ClosedFormArm, RedundantArm
from supple.ik.preference import costs
from supple.ik.problem import compile_problem
from supple.ik.world_check import WorldCheck
from supple.kinematics import Robot
from supple.kinematics.configuration import of_positions, to_kernel
from supple.kinematics.loops import refuse_loops
from supple.kinematics.robot import FrameNames, check_robot
from supple.motion.linearization import Array
from supple.motion.plausible import check_plausible
from supple.paths.branches import Branches
from supple.paths.graph import Cost, Part, fewest_changes
from supple.paths.joint_path import JointPath
from supple.paths.layers import Layers
from supple.paths.obstacles import SAMPLES, Obstacles
from supple.paths.planned_path import PlannedPath, Reconfiguration
from supple.paths.problem import PathProblem, Track
from supple.paths.reasons import blocked, out_of_reach, why
from supple.paths.refine import Refined, refined
from supple.paths.self_motion import SelfMotion
from supple.paths.targets import PathTargets
from supple.paths.tracks import Tracks
from supple.tasks import TaskLike
from supple.tasks.layout import selected_tasks

PathPreference = Literal["motion", "limits", "manipulability"] | Callable[[Array], float]

PREFERENCES = ("motion", "limits", "manipulability")
_ROUTES = 40  # number of routes that are tried; the one that follows the path farthest is kept
_CHECKED_ROUTES = 400  # number of routes whose steps are tested for collisions


@known_arguments(**HINTS)
def plan_path(
    robot: Robot,
    path: TargetLike | Callable[[float], TargetLike],
    *,
    frame: FrameNames = None,
    tasks: TaskLike | Sequence[TaskLike] | None = None,
    q0: ArrayLike | None = None,
    prefer: PathPreference = "motion",
    length: float | None = None,
    position_tolerance: float = 1e-4,
    rotation_tolerance: float = 1e-3,
    threads: int | None = None,
    world: World | None = None,
    clearance: float = 0.0,
    samples: int = SAMPLES,
) -> PlannedPath:
    """Find configurations along a whole path, without a jump wherever that is possible.

        plan_path(robot, poses)                    a sequence of poses (N, 4, 4) -> PlannedPath
        plan_path(robot, f, length=0.5)            a function of the path length
        plan_path(robot, poses).timed(limits)      the fastest motion -> Trajectory

    The result stays on one branch if a branch goes along the whole path. Otherwise it has the
    fewest reconfigurations, with the place and reason of each. For arms of 6 joints all solutions
    of each pose are compared; for redundant robots and other tasks, sampled solutions are tracked.
    Between the targets, the path is interpolated (`poses.interpolate`), and configurations are
    added until the tool stays within the tolerances.

    Args:
        robot: The robot.
        path: Targets of the tasks with one leading axis, (N, 4, 4) for poses; for several tasks,
            a sequence with one array per task. Or a function from the path length to a target.
        frame: Name of a frame, or a sequence of names: their poses are the tasks.
        tasks: A task, or a sequence of tasks; by default the poses of all end effectors.
        q0: Configuration at the first target (n,) [rad or m]; by default the best one. If it is
            outside the position limits, the joints first return inside: the first of
            `reconfigurations` leads from q0 to the beginning of the path.
        prefer: Choice among paths with equally few reconfigurations: "motion" for the least sum of
            joint displacements [rad, or relative to the robot's size for prismatic joints],
            "limits" (far from joint limits), "manipulability", or a cost as a function of q (n,),
            whose mean along the path is compared.
        length: Length of the path if `path` is a function, which is called with values from 0 to
            `length`.
        position_tolerance: Largest allowed distance of the tool from the path [m].
        rotation_tolerance: Largest allowed rotation of the tool away from the path [rad].
        threads: Maximum number of threads; by default all cores.
        world: Obstacles and the shapes of the robot. Configurations and motions between them, also
            reconfigurations, keep the clearance; `PlannedPath.certificate` has what is proven about
            the whole motion.
        clearance: Distance that all pairs must keep [m].
        samples: Number of random configurations of each search for a reconfiguration around
            obstacles. 1000 of them take about a second if no motion is found.

    Raises:
        InputError: The path is malformed, or q0 does not reach its first target.
    """
    check_robot(robot)
    refuse_loops(robot, "plan_path")
    selected, single = selected_tasks(robot, frame, tasks)
    problem = compile_problem(robot, selected)
    if problem.layout.open or problem.rest:
        raise InputError("plan_path needs tasks of frames; given: an open task or a PostureTask")
    if not callable(prefer) and prefer not in PREFERENCES:
        names = ", ".join(f'"{each}"' for each in PREFERENCES)
        raise InputError(f"prefer must be {names} or a function; given: {short_repr(prefer)}")
    count = thread_count(threads)
    targets = PathTargets.of(problem, path, single, length, count)
    tolerances = np.array(
        [
            number(position_tolerance, "position_tolerance", above=0),
            number(rotation_tolerance, "rotation_tolerance", above=0),
        ]
    )
    cost = Cost(units=targets.units)
    if prefer != "motion":
        cost = Cost(lambda q: costs(prefer, problem, to_kernel(robot, q), None))
    tried = int(number(samples, "samples", least=1, most=1e7))
    obstacles = Obstacles.of(WorldCheck.of(robot, world, clearance), tried)
    own = PathProblem(problem, targets, tolerances, cost, count, obstacles=obstacles)
    if q0 is None:
        return _farthest(own, None)
    given = finite_array(q0, (robot.nq,), "q0")
    check_plausible(robot, given, "q0")
    found, joint = _farthest(own, own.start(given)), own.outside(given)
    if joint is None or not found.pieces:
        return found
    after, reason = found.pieces[0].q[0], f"{joint} starts outside its limits"
    change = Reconfiguration(float(targets.x[0]), given, after, reason, _robot=robot)
    back = _around(own, change)
    certificate = found.certificate
    if obstacles is not None and certificate is not None:
        certificate = obstacles.line(back.q).at(back.at) & certificate
    every = (back, *found.reconfigurations)
    return replace(found, reconfigurations=every, certificate=certificate)


def _farthest(path: PathProblem, start: Array | None) -> PlannedPath:
    """Return the best route along a path; targets are met less closely if that leads farther."""
    found, exact = _followed(path, start)
    if exact is None or np.isfinite(found.q[path.targets.place == exact]).all():
        return found
    again, _ = _followed(replace(path, loosest=path.fractions), start)
    farther = np.isfinite(again.q[:, 0]).sum() >= np.isfinite(found.q[:, 0]).sum()
    return again if farther else found


class _Route(NamedTuple):
    """The pieces of a path, the reasons for the changes between them, and the targets in reach."""

    pieces: list[Refined]
    reasons: list[str]
    reachable: int


def _followed(path: PathProblem, start: Array | None) -> tuple[PlannedPath, int | None]:
    """Return the best route along a path, from the configuration `start` or, if None, from any.

    The second result is the index of the first target that is met less closely than others.
    """
    layers = _layers(path, start)
    if not layers.count or not len(layers.begin):
        q = np.full((len(path.targets.place), path.robot.nq), np.nan)
        reason = out_of_reach(path, 0) or blocked(path, 0, start)
        reason = reason or "no solution found keeps the clearance"
        obstacle = f"at {path.targets.name(0):g}: {reason}"
        return PlannedPath(path.robot, q, (), (), obstacle, 0.0, 0.0), None
    best: _Route | None = None
    for attempt in range(_ROUTES):
        parts = fewest_changes(layers.graph, layers.begin)
        for _ in range(_CHECKED_ROUTES):
            if not layers.without_collisions(parts):
                break
            parts = fewest_changes(layers.graph, layers.begin)
        end = int(layers.layers[parts[-1].layers[-1]])
        changes = len(parts) > 1 or end + 1 < layers.count
        if changes and attempt + 1 < _ROUTES and layers.improved(parts):
            continue
        path = layers.path
        pieces: list[Refined] = []
        for track in _turned(path, [*map(layers.track, parts)]):
            pieces.append(_clear(path, refined(path, track)))
            if not pieces[-1].whole:
                break
        end_of_route = pieces[-1].joints.s[-1]
        before = -np.inf if best is None else best.pieces[-1].joints.s[-1]
        if end_of_route > before or (pieces[-1].whole and end_of_route == before):
            reasons = [_reason(layers, part) for part in parts[: len(pieces) - 1]]
            best = _Route(pieces, reasons, layers.count)
        if pieces[-1].whole:
            break
        layers.cut(parts[len(pieces) - 1], end_of_route)
    assert best is not None
    return _result(path, best), layers.exact


def _clear(path: PathProblem, piece: Refined) -> Refined:
    """Return a piece of a path up to the last target before a collision."""
    if path.obstacles is None:
        return piece
    joints = piece.joints
    found = path.obstacles.along(joints, first=True)
    if found.interval is None:
        return piece
    targets = path.targets.x
    last = max(targets[targets <= max(found.interval[0], joints.s[0])][-1], joints.s[0])
    keep = joints.s <= last
    short = JointPath(path.robot, joints.q[keep], joints.s[keep])
    return Refined(short, piece.deviation, False)


def _around(path: PathProblem, change: Reconfiguration) -> Reconfiguration:
    """Return a reconfiguration whose motion leads around obstacles, if one is found."""
    if path.obstacles is None:
        return change
    via, said = path.obstacles.around(change.before, change.after)
    return replace(change, via=via, reason=f"{change.reason}; {said}" if said else change.reason)


def _layers(path: PathProblem, start: Array | None) -> Layers:
    """Return the configurations, layer by layer, among which a joint path is searched for."""
    if isinstance(path.arm, ClosedFormArm | AnyArm):
        made = Branches(path, start)
        if made.count and len(made.begin):
            return made
    if isinstance(path.arm, RedundantArm):
        return SelfMotion(path, start)
    return Tracks(path, start)


def _turned(path: PathProblem, tracks: list[Track]) -> list[Track]:
    """Return the tracks, with 2π wraps of joints that make the motions between tracks short."""
    made, robot = tracks[:1], path.robot
    for track in tracks[1:]:
        turned = path.turned(track.q, track.q[0], made[-1].q[-1])
        at = to_kernel(robot, turned)
        inside = ((robot.lower <= at) & (at <= robot.upper)).all(axis=0)
        chosen = of_positions(robot, inside)
        made.append(track._replace(q=np.where(chosen, turned, track.q)))
    return made


def _reason(layers: Layers, part: Part) -> str:
    """Return why a part of a route cannot be continued to the end of the path.

    The place of the obstacle is added if it is beyond the end of the part.
    """
    graph, path = layers.graph, layers.path
    i, column = graph.farthest(int(part.layers[0]), int(part.columns[0]))
    reason = why(path, int(layers.layers[i]), graph.q[i, column])
    place = path.targets.name(int(layers.layers[i]))
    return reason if i == part.layers[-1] else f"{reason} at {place:g}"


def _result(path: PathProblem, route: _Route) -> PlannedPath:
    """Return the result of `plan_path` from the pieces of a path and the changes between them."""
    x, pieces = path.targets.x, route.pieces
    q = np.full((len(x), path.robot.nq), np.nan)
    for joints, _, _ in pieces:
        places = np.minimum(np.searchsorted(joints.s, x), len(joints) - 1)
        here = np.abs(joints.s[places] - x) < 1e-9
        q[here] = joints.q[places[here]]
    end = int(np.searchsorted(x, pieces[-1].joints.s[-1] + 1e-9)) - 1
    obstacle = None
    if end + 1 < len(x):
        last = pieces[-1].joints.q[-1]
        far = out_of_reach(path, end + 1) if end + 1 == route.reachable else None
        reason = far or why(path, end, last)
        if not far and end + 1 == route.reachable:
            reason = blocked(path, end + 1) or reason
        obstacle = f"at {path.targets.name(end + 1):g}: {reason}"
    changes = [
        _around(
            path,
            Reconfiguration(
                path.targets.name(int(np.searchsorted(x, after.joints.s[0] - 1e-9))),
                before.joints.q[-1],
                after.joints.q[0],
                reason,
                _robot=path.robot,
            ),
        )
        for (before, after), reason in zip(pairwise(pieces), route.reasons, strict=True)
    ]
    position, rotation = np.max([each.deviation for each in pieces], axis=0).tolist()
    return PlannedPath(
        path.robot,
        q[path.targets.place],
        tuple(each.joints for each in pieces),
        tuple(changes),
        obstacle,
        position,
        rotation,
        _certificate(path, [each.joints for each in pieces], changes),
    )


def _certificate(
    path: PathProblem, pieces: list[JointPath], changes: list[Reconfiguration]
) -> Certificate | None:
    """Return the certificate of the pieces of a path and the motions between them."""
    obstacles = path.obstacles
    if obstacles is None:
        return None
    made = obstacles.along(pieces[0])
    for piece, change in zip(pieces[1:], changes, strict=True):
        made = made & obstacles.line(change.q).at(change.at) & obstacles.along(piece)
    return made
