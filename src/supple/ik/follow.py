"""Whole paths: configurations along a sequence of targets, on one branch wherever one exists.

From a place on the path, every known solution is tracked as far as it goes. If one reaches the end,
the cheapest of these is the result. Otherwise the robot changes its branch where the farthest track
ends, and all solutions are tracked from there: no other way has fewer changes.

6-joint arms have finitely many solutions of a pose, all of which are known. Their tracks connect
the solutions of successive poses. Other robots and tasks have a continuum: sampled solutions are
tracked by damped least squares, which slides along the limits of the joints.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple import _core
from supple.control.joint_path import JointPath
from supple.errors import HINTS, InputError, known_arguments, short_repr
from supple.ik.arguments import SolveOptions
from supple.ik.arms import AnyArm, Arm, ClosedFormArm, arm_of
from supple.ik.branches import SAMPLES
from supple.ik.driver import Driver
from supple.ik.followed import Followed, Reconfiguration
from supple.ik.iterate_step import largest_errors, rotating_rows
from supple.ik.path_targets import PathTargets
from supple.ik.problem import CompiledProblem, compile_problem, turns
from supple.kinematics import Robot
from supple.kinematics.arrays import finite_array, number
from supple.kinematics.environment import thread_count
from supple.kinematics.robot import FrameNames, check_robot
from supple.motion.layout import selected_tasks
from supple.motion.linearization import Array
from supple.motion.task import TaskLike

PathPreference = Literal["motion", "limits", "manipulability"] | Callable[[Array], float]

PREFERENCES = ("motion", "limits", "manipulability")
EXACT = 1e-7  # error at the samples of a path [m], [rad]
_JUMP = 0.6  # displacement of a joint above which a step of a track is divided [rad or m]
_LAYERS = 32  # steps in which sampled solutions are tracked, before the path is filled in
_TRACKS = 96  # number of sampled solutions that are tracked
_FEW = 16  # of these, at first
_COARSE = 2  # how often a step of a sampled solution is halved
_DIVISIONS = 7  # how often a step of a track is halved
_HALVINGS = 12  # how often an interval between samples is halved
_CHECKS = np.array([0.25, 0.5, 0.75])  # places between samples where the deviation is measured
_BEYOND = 1e-6  # how far the spline may go beyond a joint limit [rad or m]
_SINGULAR = 0.02  # smallest singular value below which a track ends at a singularity


class Track(NamedTuple):
    """Configurations (K, n) at places (K,) of the path, and why the track ends before its end."""

    x: Array
    q: Array
    reason: str = ""


@known_arguments(**HINTS)
def follow(
    robot: Robot,
    path: Any,
    *,
    frame: FrameNames = None,
    tasks: TaskLike | Sequence[TaskLike] | None = None,
    q0: ArrayLike | None = None,
    prefer: PathPreference = "motion",
    length: float | None = None,
    position_tolerance: float = 1e-4,
    rotation_tolerance: float = 1e-3,
    threads: int | None = None,
) -> Followed:
    """Find configurations along a whole path, without a jump wherever that is possible.

        follow(robot, poses)                    a sequence of poses (N, 4, 4) -> Followed
        follow(robot, f, length=0.5)            a function of the path length
        follow(robot, poses).timed(limits)      the fastest motion -> Trajectory

    The result stays on one branch if a branch goes along the whole path. Otherwise it has the
    fewest reconfigurations, each with its place and its reason. For arms of 6 joints all solutions
    of each pose are compared; for redundant robots and other tasks, sampled solutions are tracked.
    Between the targets, the path is interpolated (`poses.interpolate`), and configurations are
    added until the tool stays within the tolerances.

    Args:
        robot: The robot.
        path: Targets of the tasks with one leading axis, (N, 4, 4) for poses; for several tasks,
            a sequence with one array per task. Or a function from the path length to a target.
        frame: Name of a frame, or a sequence of names: their poses are the tasks.
        tasks: A task, or a sequence of tasks; by default the poses of all end effectors.
        q0: Configuration at the first target (n,) [rad or m]; by default the best one.
        prefer: Choice among paths with equally few reconfigurations: "motion" for the least sum of
            joint displacements, "limits" (far from joint limits), "manipulability", or a cost as a
            function of q (n,), whose mean along the path is compared.
        length: Length of a path that is a function.
        position_tolerance: Largest deviation of the tool between the targets [m].
        rotation_tolerance: The same for its rotation [rad].
        threads: Maximum number of threads; by default all cores.

    Raises:
        InputError: A malformed path, or a q0 that is not at its first target.
    """
    check_robot(robot)
    selected, single = selected_tasks(robot, frame, tasks)
    problem = compile_problem(robot, selected)
    if problem.layout.open or problem.rest:
        raise InputError("follow needs tasks of frames; given: an open task or a PostureTask")
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
    search = Search(problem, targets, tolerances, prefer, count)
    start = None if q0 is None else search.start(finite_array(q0, (robot.dof,), "q0"))
    return search.run(start)


@dataclass(frozen=True, eq=False)
class Search:
    """The search for a path, from any place on it.

    Attributes:
        problem: The tasks.
        targets: Their targets.
        tolerances: Allowed deviations between samples (2,) [m, rad].
        prefer: Choice among tracks to the end.
        threads: Maximum number of threads.
    """

    problem: CompiledProblem
    targets: PathTargets
    tolerances: Array
    prefer: PathPreference
    threads: int

    @property
    def robot(self) -> Robot:
        """The robot."""
        return self.problem.layout.robot

    @cached_property
    def arm(self) -> Arm | str:
        """How all solutions of a pose are computed, or why they are not."""
        return arm_of(self.problem)

    @cached_property
    def spec(self) -> _core.BranchSpec:
        """How solutions are verified."""
        return _core.BranchSpec(
            position_tolerance=EXACT,
            rotation_tolerance=EXACT,
            samples=SAMPLES,
            wraps=False,
            nearest=False,
            threads=self.threads,
        )

    @cached_property
    def rotating(self) -> list[NDArray[np.bool_]]:
        """Which rows of each task are rotations."""
        return rotating_rows(self.problem.layout)

    @cached_property
    def reach(self) -> float:
        """A length of the robot: the largest lever arm of a joint [m]."""
        q = self.robot.random(16, seed=0)
        rows = np.abs(self.problem.layout.jacobian(q) / self.problem.layout.weights[:, None])
        return float(rows.max(initial=0.1))

    def start(self, q0: Array) -> Array:
        """Return q0 after a check that it is at the first target, inside the limits."""
        outside = (q0 < self.robot.lower) | (q0 > self.robot.upper)
        if outside.any():
            j = int(np.argmax(outside))
            given = f"{q0[j]:g} for {self.robot.joint_names[j]}"
            raise InputError(f"q0 must be inside the limits of the joints; given: {given}")
        first = self.targets.numbers[:1]
        error = self.errors(q0[None], first)[0]
        if (error > self.tolerances).any():
            raise InputError(
                f"q0 must be at the first target; given: a configuration {error[0] * 1e3:.3g} mm "
                f"and {error[1] * 1e3:.3g} mrad away"
            )
        found = self.driver().solve_batch(first, q0[None])
        return found.q[0] if found.success[0] else q0

    def run(self, start: Array | None) -> Followed:
        """Follow the path, from a configuration or from the best one."""
        x, at, reason = self.targets.x, 0, ""
        pieces: list[Track] = []
        changes: list[Reconfiguration] = []
        obstacle = None
        while True:
            track = self.farthest(at, start if not pieces else None)
            if pieces and (track is None or len(track.x) < 2):
                track = self.farthest(at + 1, None)  # no branch leads on from here
            if track is None:
                obstacle = f"at {x[at]:g}: {reason or self.out_of_reach(at)}"
                break
            if pieces:
                before = pieces[-1].q[-1]
                changes.append(Reconfiguration(float(x[at]), before, track.q[0], reason))
            pieces.append(track)
            at = int(np.searchsorted(x, track.x[-1] - 1e-9))
            if at == len(x) - 1:
                break
            reason = track.reason
            if not len(self.solutions(at + 1)):
                obstacle = f"at {x[at + 1]:g}: {self.out_of_reach(at + 1)}"
                break
            if len(pieces) > len(x):
                break
        return self.result(pieces, changes, obstacle)

    def result(
        self, pieces: list[Track], changes: list[Reconfiguration], obstacle: str | None
    ) -> Followed:
        """Return the pieces with their deviation from the path."""
        q = np.full((len(self.targets.x), self.robot.dof), np.nan)
        worst, made = np.zeros(2), []
        for piece in pieces:
            keep = np.append(True, np.abs(np.diff(piece.q, axis=0)).max(axis=1, initial=0) > 1e-9)
            own = JointPath(self.robot, piece.q[keep], piece.x[keep])
            made.append(own)
            places = np.searchsorted(piece.x, self.targets.x)
            places = np.minimum(places, len(piece.x) - 1)
            here = np.abs(piece.x[places] - self.targets.x) < 1e-9
            q[here] = piece.q[places[here]]
            if len(own) > 1:
                between = (own.s[:-1, None] + np.diff(own.s)[:, None] * np.arange(1, 8) / 8).ravel()
                worst = np.maximum(worst, self.deviation(own.at(between), between).max(axis=0))
        return Followed(
            self.robot, q, tuple(made), tuple(changes), obstacle, float(worst[0]), float(worst[1])
        )

    # ---- tracks ----------------------------------------------------------------------------------

    def farthest(self, at: int, start: Array | None) -> Track | None:
        """Return the best track from a target: to the end, or the one that goes farthest."""
        if at == len(self.targets.x) - 1:
            found = self.solutions(at) if start is None else start[None]
            return Track(self.targets.x[at:], found[:1]) if len(found) else None
        tracks = self.connected(at, start) if isinstance(self.arm, ClosedFormArm | AnyArm) else []
        if not tracks:
            tracks = self.sampled(at, start)
        done = [each for each in tracks if each.x[-1] == self.targets.x[-1]]
        for track in sorted(done, key=self.cost):
            made = self.refined(track)
            if not made.reason:
                return made
            tracks.append(made)
        ends = sorted((each for each in tracks if each.reason), key=lambda each: -each.x[-1])
        for track in ends[:8]:
            made = self.refined(track)
            if len(made.x) > 1 and made.x[-1] == track.x[-1]:
                return made._replace(reason=track.reason)
        return max(map(self.refined, ends[:8]), key=lambda each: each.x[-1], default=None)

    def cost(self, track: Track) -> float:
        """Return the cost by which tracks to the end are compared."""
        if callable(self.prefer):
            return float(np.mean([self.prefer(q) for q in track.q[:: max(1, len(track.q) // 64)]]))
        if self.prefer == "manipulability":
            return -float(
                np.mean(self.robot.manipulability(track.q[:: max(1, len(track.q) // 64)]))
            )
        if self.prefer == "limits":
            span = self.robot.upper - self.robot.lower
            room = np.minimum(track.q - self.robot.lower, self.robot.upper - track.q) / span
            return -float(np.min(np.where(np.isfinite(room), room, np.inf)))
        return float(np.abs(np.diff(track.q, axis=0)).sum())

    # ---- arms with finitely many solutions -------------------------------------------------------

    def connected(self, at: int, start: Array | None) -> list[Track]:
        """Return the tracks through all solutions of successive targets."""
        x, layers = self.targets.x[at:], self.layers[at:]
        k = layers.shape[1]
        following, sound = (each[at:].tolist() for each in self.edges)
        if start is None:
            nodes = [i for i in range(k) if np.isfinite(layers[0, i, 0])]
        else:
            away = np.abs(self.wrapped(layers[0] - start)).max(axis=1)
            nodes = [int(np.nanargmin(away))] if (away < 1e-4).any() else []
        chains = {node: [node] for node in nodes}
        alive, ends = dict.fromkeys(nodes, True), []
        for i in range(len(x) - 1):
            gone = [node for node in alive if not sound[i][chains[node][-1]]]
            if len(gone) == len(alive):
                # the last ones: smaller steps may lead on
                saved = self.bridged(at + i, [chains[node][-1] for node in gone])
                ends += [(node, i) for node in gone if chains[node][-1] not in saved]
                for node in gone:
                    if chains[node][-1] in saved:
                        chains[node].append(saved[chains[node][-1]])
                    else:
                        del alive[node]
                if not alive:
                    break
                continue
            for node in gone:
                ends.append((node, i))
                del alive[node]
            for node in alive:
                chains[node].append(following[i][chains[node][-1]])
        tracks = [self.chain(at, chains[node], "") for node in alive]
        last = max((i for _, i in ends), default=0)
        if not tracks:
            for node, i in ends:
                if i >= last:
                    q = layers[i, chains[node][-1]]
                    tracks.append(self.chain(at, chains[node], self.why(at + i, q)))
        return [each for track in tracks for each in self.inside(track, start)]

    @cached_property
    def layers(self) -> Array:
        """All solutions of each target (N, k, n), filled up with NaN."""
        found = self.arm.solve(self.problem, self.targets.numbers, None, self.spec)  # type: ignore[union-attr]
        q, count = found[0], found[4]
        made = np.full((len(count), max(1, int(count.max())), self.robot.dof), np.nan)
        made[np.arange(made.shape[1]) < count[:, None]] = q
        return made

    @cached_property
    def edges(self) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """The nearest solution of the next target (N - 1, k), and whether a step there is sound.

        It is if the joints move little, and the tool stays on the path halfway.
        """
        layers = self.layers
        steps = self.wrapped(layers[1:, None] - layers[:-1, :, None])
        far = np.abs(steps).max(axis=-1)
        far[np.isnan(far)] = np.inf
        following = far.argmin(axis=2)
        nearest = np.take_along_axis(far, following[..., None], 2)[..., 0]
        sound = nearest < _JUMP
        i, a = np.nonzero(sound)
        middle = layers[i, a] + steps[i, a, following[i, a]] / 2
        x = (self.targets.x[1:] + self.targets.x[:-1]) / 2
        error = self.errors(middle, self.targets(x)[i])
        sound[i, a] = (error <= 4 * self.tolerances).all(axis=1)
        return following, sound

    def chain(self, at: int, nodes: list[int], reason: str) -> Track:
        """Return a track through solutions of successive targets, without 2π jumps."""
        q = self.layers[np.arange(at, at + len(nodes)), nodes]
        steps = self.wrapped(np.diff(q, axis=0))
        return Track(
            self.targets.x[at : at + len(nodes)],
            np.concatenate([q[:1], q[0] + np.cumsum(steps, axis=0)]),
            reason,
        )

    def inside(self, track: Track, start: Array | None) -> list[Track]:
        """Return the track with full turns of joints such that it stays inside the limits."""
        low, high = self.robot.lower - 1e-9, self.robot.upper + 1e-9
        if start is None and (low <= track.q).all() and (track.q <= high).all():
            return [track]
        q, turn = track.q.copy(), turns(self.robot)
        end, joint = len(q), -1
        for j in np.nonzero(turn)[0]:
            column = q[:, j]
            shifts = turn[j] * np.arange(-3, 4)
            if start is not None:
                shifts = np.array([turn[j] * np.round((start[j] - column[0]) / turn[j])])
            out = (column[:, None] + shifts < low[j]) | (column[:, None] + shifts > high[j])
            reach = np.where(out.any(axis=0), out.argmax(axis=0), len(q))
            middle = (low[j] + high[j]) / 2 if np.isfinite(low[j] + high[j]) else 0.0
            mean = column[: max(1, int(reach.max()))].mean() + shifts
            best = min(range(len(shifts)), key=lambda i: (-reach[i], abs(mean[i] - middle)))
            q[:, j] += shifts[best]
            if reach[best] < end:
                end, joint = int(reach[best]), int(j)
        if end == 0:
            return []
        if joint < 0:
            return [track._replace(q=q)]
        return [Track(track.x[:end], q[:end], self.limit(joint))]

    def bridged(self, at: int, nodes: list[int]) -> dict[int, int]:
        """Return the solutions of the next target that smaller steps lead to from some of this."""
        q = self.layers[at, nodes]
        x0, x1 = self.targets.x[at], self.targets.x[at + 1]
        then, good = self.advanced(q, x0, x1)
        made = {}
        for node, arrived, fine in zip(nodes, then, good, strict=True):
            away = np.abs(self.wrapped(self.layers[at + 1] - arrived)).max(axis=1)
            if fine and (away < 1e-3).any():
                made[node] = int(np.nanargmin(away))
        return made

    # ---- redundant robots ------------------------------------------------------------------------

    def sampled(self, at: int, start: Array | None) -> list[Track]:
        """Return tracks of sampled solutions, by damped least squares."""
        x = self.targets.x[at:]
        layers = np.unique(np.linspace(0, len(x) - 1, min(_LAYERS, len(x) - 1) + 1).astype(int))
        begin = self.solutions(at) if start is None else start[None]
        few = begin[:: max(1, len(begin) // _FEW)]
        forward = self.tracked(few, x[layers])
        if not self.reachable(at + layers, forward):
            reached = max(len(each.x) for each in forward)
            every = self.tracked(begin, x[layers[: reached + 1]])
            return self.continued([each._replace(reason="unknown") for each in every])
        if all(each.reason for each in forward) and len(few) < len(begin):
            forward = self.tracked(begin, x[layers])
        if any(not each.reason for each in forward) or start is not None or at > 0:
            return self.continued(forward)
        backward = self.tracked(self.solutions(len(self.targets.x) - 1), x[layers[::-1]])
        whole = [Track(each.x[::-1], each.q[::-1]) for each in backward if not each.reason]
        if whole:
            return whole
        middle = len(layers) // 2
        there = self.solutions(int(layers[middle]))
        after = self.tracked(there, x[layers[middle:]])
        before = self.tracked(there, x[layers[middle::-1]])
        both = [
            Track(np.append(a.x[:0:-1], b.x), np.concatenate([a.q[:0:-1], b.q]))
            for a, b in zip(before, after, strict=True)
            if not a.reason and not b.reason
        ]
        return both or self.continued(forward)

    def reachable(self, layers: NDArray[np.intp], tracks: list[Track]) -> bool:
        """Return whether there are solutions of all targets that no track has reached."""
        reached = max((len(each.x) for each in tracks), default=0)
        left = layers[reached:]
        return not len(left) or bool(
            self.driver(seeds=_FEW).solve_batch(self.targets.numbers[left], None).success.all()
        )

    def tracked(self, q: Array, x: Array) -> list[Track]:
        """Return the tracks of configurations (K, n) through places (L,), in their order."""
        count = len(q)
        every = np.full((len(x), count, self.robot.dof), np.nan)
        lengths = np.ones(count, dtype=int)
        every[0] = q
        alive = np.arange(count)
        goals = self.targets(np.stack([(x[1:] + x[:-1]) / 2, x[1:]], 1).ravel())
        for i in range(1, len(x)):
            then, good = self.advanced(
                every[i - 1, alive], x[i - 1], x[i], goals[2 * i - 2 : 2 * i], _COARSE
            )
            alive, then = alive[good], then[good]
            if not len(alive):
                break
            every[i, alive] = then
            lengths[alive] = i + 1
        return [
            Track(x[:n], every[:n, k], "" if n == len(x) else "unknown")
            for k, n in enumerate(lengths)
        ]

    def continued(self, tracks: list[Track]) -> list[Track]:
        """Return the tracks to the end; if there is none, the farthest, as far as they go."""
        done = [each for each in tracks if not each.reason]
        if done or not tracks:
            return done
        far = max(each.x[-1] for each in tracks)
        made = []
        for track in [each for each in tracks if each.x[-1] == far][:8]:
            xs, qs = [track.x], [track.q]
            at = int(np.searchsorted(self.targets.x, far - 1e-9))
            q = track.q[-1]
            while at + 1 < len(self.targets.x):
                then, good = self.advanced(q[None], self.targets.x[at], self.targets.x[at + 1])
                if not good[0]:
                    break
                at, q = at + 1, then[0]
                xs.append(self.targets.x[at : at + 1])
                qs.append(then)
            whole = at == len(self.targets.x) - 1
            reason = "" if whole else self.why(at, q)
            made.append(Track(np.concatenate(xs), np.concatenate(qs), reason))
        return made

    def advanced(
        self,
        q: Array,
        x0: float,
        x1: float,
        goals: Array | None = None,
        divisions: int = _DIVISIONS,
    ) -> tuple[Array, NDArray[np.bool_]]:
        """Track configurations (K, n) from one place to another: where they end, and which do.

        `goals` are the targets halfway and there, if they are known.
        """
        halfway, goal = self.targets(np.array([(x0 + x1) / 2, x1])) if goals is None else goals
        found = self.driver().solve_batch(np.tile(goal, (len(q), 1)), q)
        step = found.q - q
        good = found.success & (np.abs(step).max(axis=1) < _JUMP)
        middle = self.errors(q + step / 2, np.tile(halfway, (len(q), 1)))
        # the path bends between; a jump does more than that
        moved = np.abs(step).max(axis=1)[:, None]
        bend = moved**2 * [self.reach, 1.0] + EXACT
        good &= (middle <= np.maximum(bend, self.tolerances)).all(axis=1)
        again = np.nonzero(~good)[0]
        if len(again) and divisions:
            half = (x0 + x1) / 2
            then, fine = self.advanced(q[again], x0, half, None, divisions - 1)
            rest = again[fine]
            if len(rest):
                then, fine = self.advanced(then[fine], half, x1, None, divisions - 1)
                found.q[rest[fine]] = then[fine]
                good[rest[fine]] = True
        return found.q, good

    # ---- between the samples ---------------------------------------------------------------------

    def refined(self, track: Track) -> Track:
        """Return a track with all targets and more samples, so that the tool keeps to the path.

        A track that jumps ends there.
        """
        x = np.union1d(
            track.x,
            self.targets.x[(track.x[0] <= self.targets.x) & (self.targets.x <= track.x[-1])],
        )
        if len(x) < 2:
            return track
        q, reason = track.q, ""
        if len(x) > len(track.x):
            guess = np.stack([np.interp(x, track.x, column) for column in track.q.T], axis=-1)
            q, end = self.nearby(guess, x)
            if end < len(x):
                x, q = x[:end], q[:end]
                reason = self.why(int(np.searchsorted(self.targets.x, x[-1])), q[-1])
            if len(x) < 2:
                return Track(x, q, reason)
        smallest = np.diff(self.targets.x).min() / 2**_HALVINGS
        for _ in range(_HALVINGS + 1):
            spline = JointPath(self.robot, q, x)
            between = (x[:-1, None] + np.diff(x)[:, None] * _CHECKS).ravel()
            there = spline.at(between)
            error = self.deviation(there, between).reshape(len(x) - 1, -1, 2).max(axis=1)
            linear = (q[1:] + q[:-1]) / 2
            error = np.maximum(error, self.deviation(linear, (x[1:] + x[:-1]) / 2) / 4)
            # between the checks, the deviation may be somewhat larger
            beyond = np.maximum(self.robot.lower - there, there - self.robot.upper)
            out = beyond.reshape(len(x) - 1, -1).max(axis=1) > _BEYOND
            bad = np.nonzero((error > 0.5 * self.tolerances).any(axis=1) | out)[0]
            if not len(bad):
                return Track(x, q, reason)
            if (np.diff(x)[bad] < smallest).any():
                break
            middle = (x[bad] + x[bad + 1]) / 2
            found = self.driver().solve_batch(self.targets(middle), linear[bad])
            if not found.success.all():
                bad = bad[~found.success]
                break
            x, q = np.insert(x, bad + 1, middle), np.insert(q, bad + 1, found.q, axis=0)
        first = int(bad[0])
        place = int(np.searchsorted(self.targets.x, x[first] + 1e-9)) - 1
        keep = x <= self.targets.x[place]
        return Track(x[keep], q[keep], self.why(place, q[keep][-1]))

    def nearby(self, guess: Array, x: Array) -> tuple[Array, int]:
        """Return solutions near configurations (K, n) at places (K,), and how many from the first.

        Where there is none near, the one before is tracked.
        """
        found = self.driver().solve_batch(self.targets(x), guess)
        for i in np.nonzero(~found.success)[0]:
            if i == 0:
                return found.q, 1
            then, good = self.advanced(found.q[i - 1 : i], x[i - 1], x[i])
            if not good[0]:
                return found.q, int(i)
            found.q[i] = then[0]
        return found.q, len(x)

    # ---- the robot at targets --------------------------------------------------------------------

    def errors(self, q: Array, targets: Array) -> Array:
        """Return position and rotation errors (K, 2) at configurations (K, n)."""
        layout = self.problem.layout
        return largest_errors(layout, layout.error(q, targets), self.rotating)

    def deviation(self, q: Array, x: Array) -> Array:
        """Return the errors (K, 2) at places of the path (K,)."""
        return self.errors(q, self.targets(x))

    def driver(self, solutions: int | None = None, seeds: int = 1) -> Driver:
        """Return a solver that starts at given configurations and goes nowhere else."""
        now = time.perf_counter()
        return Driver(
            self.problem,
            SolveOptions(
                position_tolerance=EXACT,
                rotation_tolerance=EXACT,
                max_seeds=seeds,
                prefer="fast",
                solutions=solutions,
                began=now,
                deadline=np.inf,
                explain=False,
                threads=self.threads,
                progress=None,
                gpu=None,
            ),
        )

    def wrapped(self, change: Array) -> Array:
        """Return displacements without full turns of joints that may turn fully."""
        turn = turns(self.robot)
        if not turn.any():
            return change
        return change - turn * np.rint(change * np.where(turn > 0, 1 / (2 * np.pi), 0))

    def solutions(self, at: int) -> Array:
        """Return solutions (s, n) of a target: all of them, or samples."""
        target = self.targets.numbers[at : at + 1]
        q = np.empty((0, self.robot.dof))
        if not isinstance(self.arm, str):
            q = self.arm.solve(self.problem, target, None, self.spec)[0]
        if not len(q) and not isinstance(self.arm, ClosedFormArm | AnyArm):
            found: Any = self.driver(_TRACKS // 2, seeds=0).solve_single(target[0], None)
            return np.asarray(found.q[found.success])
        if len(q) > _TRACKS:
            q = q[np.linspace(0, len(q) - 1, _TRACKS).astype(int)]
        return np.asarray(q)

    def limit(self, joint: int) -> str:
        """Return that a joint is at its limit, in words."""
        return f"{self.robot.joint_names[joint]} is at its limit"

    def out_of_reach(self, at: int) -> str:
        """Return that a target is out of reach, in words."""
        driver = self.driver(seeds=64)
        found = driver.solve_batch(self.targets.numbers[at : at + 1], None)
        return (
            f"the target is out of reach by {found.position_error[0] * 1e3:.3g} mm and "
            f"{found.rotation_error[0] * 1e3:.3g} mrad"
        )

    def why(self, at: int, q: Array) -> str:
        """Return why a track ends between a target and the next one, in words."""
        if at + 1 >= len(self.targets.x):
            return ""
        robot = self.robot
        found = self.driver().solve_batch(self.targets.numbers[at + 1 : at + 2], q[None])
        held = np.minimum(found.q[0] - robot.lower, robot.upper - found.q[0]) < 1e-6
        if not found.success[0] and held.any():
            return self.limit(int(np.argmax(held)))
        near = np.minimum(q - robot.lower, robot.upper - q)
        sigma = np.linalg.svd(self.problem.layout.jacobian(q[None])[0], compute_uv=False)[-1]
        if near.min() < 0.05 and sigma > _SINGULAR:
            return self.limit(int(np.argmin(near)))
        if sigma < 5 * _SINGULAR:
            return f"the arm is singular, smallest singular value {sigma:.2g}"
        return "no solution of the next target is near"
