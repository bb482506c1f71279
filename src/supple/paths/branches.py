"""Branches along a path, for arms with finitely many solutions of each pose.

All solutions of all targets are known. Each solution is connected to the nearest solution of the
next target, if the joints move little and the tool is on the path halfway between these solutions.
The resulting curves are the branches; 2π wraps are chosen so that the branches stay inside the
joint limits.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple.ik.branches.arms import AnyArm, ClosedFormArm
from supple.kinematics.configuration import integrate, integrate_coordinate
from supple.motion.linearization import Array
from supple.paths.graph import Indices, Part, PathGraph
from supple.paths.layers import Layers
from supple.paths.problem import LIMIT_TOLERANCE, MAX_JUMP, PathProblem

# Joint displacement below which the solution of the same index is the continuation [rad].
_SAME_BRANCH_WITHIN = 0.05
_MAX_TURNS = 3  # number of full turns of a joint that are tried in each direction
_SMALL_STEPS = 32  # number of small steps between two targets where branches are not connected
_EQUAL_DISTANCE = 1e-3  # distance below which two solutions are the same [rad]
_SINGULAR_DET = 1e-6  # |det J| of singular configurations, relative to the columns of J


class Curve(NamedTuple):
    """A branch from the target `first` on: configurations (K, n) without 2π jumps."""

    first: int
    q: Array


class Branches(Layers):
    """The branches of an arm with finitely many solutions of each pose."""

    is_free = True

    def __init__(self, path: PathProblem, start: Array | None) -> None:
        self.path, self.start = path, start
        x = path.targets.x
        self.solutions = _solutions(path, x)
        if len(self.solutions) < len(x) and self.loosened(len(self.solutions)):
            self.solutions = _solutions(self.path, x, slide=True)
        self.count = len(self.solutions)
        if path.obstacles is not None:
            self.solutions = path.obstacles.free(self.solutions)
        self.following = _following(self.path, x[: self.count], self.solutions)
        self.bridged = False
        self.barred: set[tuple[int, int, int]] = set()
        super().__init__(self.path, start, np.arange(self.count), self._graph())

    def _graph(self) -> PathGraph:
        """Return the branches inside the joint limits, one in each column."""
        curves = [each for curve in self._curves() for each in self._inside(curve)]
        q = np.full((self.count, max(1, len(curves)), self.path.robot.nq), np.nan)
        for column, curve in enumerate(curves):
            q[curve.first : curve.first + len(curve.q), column] = curve.q
        return PathGraph(self.path.targets.x[: self.count], q, None, self.path.cost)

    def improved(self, parts: list[Part]) -> bool:
        """Connect branches by smaller steps where they end; return whether that was possible."""
        if self.bridged:
            return False
        self.bridged = True
        before = self.following.copy()
        ends = (self.following < 0) & np.isfinite(self.solutions[:-1, :, 0])
        for i in np.nonzero(ends.any(axis=1))[0].tolist():
            self._keep(i, self._between(i))
        self._bridge()
        if (self.following == before).all():
            return False
        self.graph = self._graph()
        return True

    def cut(self, part: Part, x: float) -> None:
        """Remove the connection at x of a part of the route; find other connections there."""
        i = min(int(np.searchsorted(self.graph.x, x, side="right")) - 1, int(part.layers[-1]) - 1)
        q = self.graph.q[i, part.columns[0]]
        a = int(np.nanargmin(np.abs(self.path.away(self.solutions[i], q)).max(axis=1)))
        self.barred.add((i, a, int(self.following[i, a])))
        before, self.following[i] = self.following[i].copy(), self._between(i)
        self._keep(i, before)
        self.graph = self._graph()

    def _between(self, i: int) -> Indices:
        """Connect the solutions of target i to the solutions of target i + 1 by small steps.

        Return, for each solution of target i, the index of the reached solution (k,), or -1 if none
        is reached. The steps lead through all solutions at places between the two targets.
        """
        x0, x1 = self.path.targets.x[i : i + 2].tolist()
        x = np.linspace(x0, x1, _SMALL_STEPS + 1)
        inner = _solutions(self.path, x[1:-1])
        k = max(self.solutions.shape[1], inner.shape[1])
        row = np.full(self.solutions.shape[1], -1)
        if len(inner) < len(x) - 2:
            return row
        layers = np.full((len(x), k, self.path.robot.nq), np.nan)
        layers[[0, -1], : len(row)] = self.solutions[i : i + 2]
        layers[1:-1, : inner.shape[1]] = inner
        there, sides = np.isfinite(layers[..., 0]), np.zeros(layers.shape[:2])
        sides[there] = _sides(self.path, layers[there])
        for each in (sides, None):
            node = list(range(len(row)))
            for step in _following(self.path, x, layers, each, across=each is None).tolist():
                node = [step[b] if b >= 0 else -1 for b in node]
            for a, b in enumerate(node):
                if row[a] < 0 and b >= 0 and b not in row and (i, a, b) not in self.barred:
                    row[a] = b
            if (row[np.isfinite(self.solutions[i, :, 0])] >= 0).all():
                break
        return row

    def _bridge(self) -> None:
        """Connect branches by damped least squares, which chooses the length of its steps."""
        i, a = np.nonzero((self.following < 0) & np.isfinite(self.solutions[:-1, :, 0]))
        if not len(i):
            return
        x = self.path.targets.x
        then, good = self.path.advanced(self.solutions[i, a], x[i], x[i + 1])
        away = np.abs(self.path.away(self.solutions[i + 1], then[:, None])).max(axis=2)
        away[np.isnan(away)] = np.inf
        nearest = away.argmin(axis=1)
        good &= away[np.arange(len(i)), nearest] < _EQUAL_DISTANCE
        for at, node, to in zip(i[good], a[good], nearest[good], strict=True):
            row = np.full(self.following.shape[1], -1)
            row[node] = to
            self._keep(int(at), row)

    def _keep(self, i: int, row: Indices) -> None:
        """Connect the solutions of target i to the solutions of target i + 1 with indices `row`
        (k,).

        Connections that are barred, or one of whose ends is already connected, are left out.
        """
        for a, b in enumerate(row.tolist()):
            free = self.following[i, a] < 0 and b not in self.following[i]
            if b >= 0 and free and (i, a, b) not in self.barred:
                self.following[i, a] = b

    def _curves(self) -> list[Curve]:
        """Return the branches: the longest sequences of connected solutions."""
        there = np.isfinite(self.solutions[..., 0])
        number = self._numbers(there)
        order = np.argsort(number[there], kind="stable")
        layer, column = (each[order] for each in np.nonzero(there))
        q = self.solutions[layer, column]
        ends = np.searchsorted(number[there][order], np.arange(number.max(initial=-1) + 2))
        made = []
        for begin, end in pairwise(ends):
            made.append(Curve(int(layer[begin]), self.path.unwound(q[begin:end])))
        return made

    def _numbers(self, there: NDArray[np.bool_]) -> Indices:
        """Return the number of the branch of each solution (N, k), or -1 for a missing solution."""
        k = there.shape[1]
        if not len(there):
            return np.empty((0, k), dtype=np.intp)
        numbers, every, new = [-1] * k, [], 0
        following = [[-1] * k, *self.following.tolist()]
        for after, here in zip(following, there.tolist(), strict=True):
            before, numbers = numbers, [-1] * k
            for a, b in enumerate(after):
                if b >= 0:
                    numbers[b] = before[a]
            for a in range(k):
                if here[a] and numbers[a] < 0:
                    numbers[a], new = new, new + 1
            every.append(numbers)
        return np.array(every)

    def _inside(self, curve: Curve) -> list[Curve]:
        """Return a branch with 2π wraps of joints such that it stays inside the limits.

        If no wraps keep the whole branch inside, the result is several parts of the branch.
        """
        robot = self.path.robot
        low, high = robot.lower - LIMIT_TOLERANCE, robot.upper + LIMIT_TOLERANCE
        made: list[Curve] = []
        start = self.start if curve.first == 0 else None
        if start is not None and np.abs(self.path.away(start, curve.q[0])).max() < 1e-4:
            q = self.path.turned(curve.q, curve.q[0], start)
            out = ((q < low) | (q > high)).any(axis=1)
            end = int(out.argmax()) if out.any() else len(q)
            made += [Curve(0, q[:end])] if end else []
        least, most = curve.q.min(axis=0), curve.q.max(axis=0)
        leaving = np.nonzero((least < low) | (most > high))[0]
        if not len(leaving):
            return [*made, curve]
        choices = [_valid(curve.q[:, j], low[j], high[j], self.path.turns[j]) for j in leaving]
        for several in product(*choices):
            begin = max(each[1] for each in several)
            end = min(each[2] for each in several)
            if begin < end:
                q = curve.q[begin:end].copy()
                shifts = [each[0] for each in several]
                q[:, leaving] = integrate_coordinate(q[:, leaving], shifts)
                made.append(Curve(curve.first + begin, q))
        return made


def _solutions(path: PathProblem, x: Array, slide: bool = False) -> Array:
    """Return all solutions (N, k, n) at the places x, up to the first place without a solution.

    Places with fewer solutions than others are padded with NaN. With `slide`, x are the targets,
    and targets just out of reach get the nearest configurations.
    """
    found = path.arm.solve(path.problem, path.targets(x), None, path.spec)  # type: ignore[union-attr]
    q, sampled, count = found[0], found[3], found[4]
    singular = np.unique(np.repeat(np.arange(len(x)), count)[sampled])
    if slide:
        q, count = _with_slid(path, q, count.astype(np.intp))
    empty = np.nonzero(count == 0)[0]
    count = count[: empty[0]] if len(empty) else count
    made = np.full((len(count), max(1, int(count.max(initial=0))), path.robot.nq), np.nan)
    made[np.arange(made.shape[1]) < count[:, None]] = q[: count.sum()]
    for i in singular[singular < len(count)].tolist():
        made = _with_continued(path, x, made, i)
    return made


def _with_slid(path: PathProblem, q: Array, count: Indices) -> tuple[Array, Indices]:
    """Add configurations with the allowed errors of the path at targets without solutions.

    Damped least squares slides there from the target before, along joint limits and folds.

    Args:
        path: The path.
        q: Solutions of all targets (S, n).
        count: Number of solutions of each target (N,).

    Returns:
        q and count, with these configurations.
    """
    parts = np.split(q, np.cumsum(count)[:-1])
    for begin, end in _runs(count == 0):
        before = max(0, begin - 1)
        start = parts[before] if begin else path.closest(0).q
        course = path.course(path.targets.x[None, before:end], 0)
        for i, every in enumerate(path.tracked(start, course, 0)[begin - before :], begin):
            own = every[np.isfinite(every[:, 0])]
            parts[i] = own[_core.apart(own, own[:0], path.turns, _EQUAL_DISTANCE)]
        if not len(parts[end - 1]):
            break
    return np.concatenate(parts), np.array([len(each) for each in parts])


def _with_continued(path: PathProblem, x: Array, layers: Array, i: int) -> Array:
    """Return solutions (N, k, n), plus solutions at a singular place i that continue its neighbors.

    The sampled solutions of the singular place are not on the branches that pass through it. If
    both neighbors lead to nearly the same solution, the mean of the two results is taken, since
    each result has drifted a little in the continuum of solutions.
    """
    made: list[Array] = []
    for j in (i - 1, i + 1):
        if not 0 <= j < len(layers):
            continue
        start = layers[j][np.isfinite(layers[j, :, 0])]
        then, good = path.advanced(start, np.full(len(start), x[j]), np.full(len(start), x[i]))
        for q in then[good]:
            away = [path.away(q, other) for other in made]
            close = [k for k, each in enumerate(away) if np.abs(each).max() < _SAME_BRANCH_WITHIN]
            if close:
                made[close[0]] = integrate(path.robot, made[close[0]], away[close[0]] / 2)
            else:
                made.append(q)
    if not made:
        return layers
    exact, good = path.near(np.full(len(made), x[i]), np.array(made))
    more = np.full((len(layers), int(good.sum()), layers.shape[2]), np.nan)
    more[i] = exact[good]
    return np.concatenate([layers, more], axis=1)


def _following(
    path: PathProblem,
    x: Array,
    layers: Array,
    sides: Array | None = None,
    across: bool = False,
) -> Indices:
    """Return the index (N - 1, k) of the next place's solution that continues each one, or -1.

    A solution continues at most one solution of the previous place.

    Args:
        path: The path.
        x: Places (N,).
        layers: All solutions at these places (N, k, n).
        sides: Signs of det J (N, k), which steps must keep: next to a fold, the solutions on its
            two sides are near each other. None to compare the signs on long steps only.
        across: Whether long steps may change the sign, if `sides` is None.
    """
    k = layers.shape[1]
    steps = path.away(layers[1:], layers[:-1])
    far = np.abs(steps).max(axis=2)
    with np.errstate(invalid="ignore"):
        made = np.where(far < (_SAME_BRANCH_WITHIN if sides is None else 0), np.arange(k), -1)
    # Where this fails, the order of the solutions has changed, or one has appeared or vanished.
    again = np.nonzero(((made < 0) & np.isfinite(layers[:-1, :, 0])).any(axis=1))[0]
    side = np.zeros(layers.shape[:2]) if sides is None else sides
    before, after = layers[again], layers[again + 1]
    nearest = _core.nearest_pairs(
        before, after, side[again], side[again + 1], path.turns, MAX_JUMP
    ).astype(np.intp)
    made[again] = nearest
    steps[again] = path.away(np.take_along_axis(after, nearest[..., None], 1), before)
    i, a = np.nonzero(made >= 0)
    step = steps[i, a]
    doubtful = (path.bend(step) > 4 * path.tolerances).any(axis=1)
    i, a, step = i[doubtful], a[doubtful], step[doubtful]
    if len(i):
        middle = integrate(path.robot, layers[i, a], step / 2)
        error = path.deviation(middle, (x[i] + x[i + 1]) / 2)
        bad = (error > 4 * path.tolerances).any(axis=1)
        if sides is None and not across:
            bad |= _sides(path, layers[i, a]) * _sides(path, layers[i + 1, made[i, a]]) < 0
        made[i[bad], a[bad]] = -1
    return made


def _sides(path: PathProblem, q: Array) -> Array:
    """Return the signs of det J (K,) of the arm's six joints at configurations (K, n).

    The sign is 0 at a singularity, which a branch may leave on either side.
    """
    assert isinstance(path.arm, ClosedFormArm | AnyArm)
    J = path.problem.layout.jacobian(q)[..., np.array(path.arm.coordinates)]
    det, size = np.linalg.det(J), np.linalg.norm(J, axis=-2).prod(axis=-1)
    return np.asarray(np.where(np.abs(det) > _SINGULAR_DET * size, np.sign(det), 0.0))


def _valid(q: Array, low: float, high: float, turn: float) -> list[tuple[float, int, int]]:
    """Return shifts of a joint q (K,) by full turns, and where the shifted q is inside its limits.

    Each entry is (shift, begin, end). If some shifts keep all of q inside, only the shift that
    brings q nearest to the middle of its range is returned.
    """
    shifts = turn * np.arange(-_MAX_TURNS, _MAX_TURNS + 1) if turn else np.zeros(1)
    moved = integrate_coordinate(q, shifts[:, None])
    inside = (low <= moved) & (moved <= high)
    whole = np.nonzero(inside.all(axis=1))[0]
    if len(whole):
        middle = (low + high) / 2 if np.isfinite(low + high) else 0.0
        best = whole[np.argmin(np.abs(q.mean() + shifts[whole] - middle))]
        return [(float(shifts[best]), 0, len(q))]
    return [
        (float(shift), begin, end)
        for shift, row in zip(shifts, inside, strict=True)
        for begin, end in _runs(row)
    ]


def _runs(row: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the intervals (begin, end) of consecutive true values."""
    edges = np.diff(np.concatenate([[0], row.astype(int), [0]]))
    return list(
        zip(np.nonzero(edges > 0)[0].tolist(), np.nonzero(edges < 0)[0].tolist(), strict=True)
    )
