"""Closed configurations, in which the loops and couplings of a robot are satisfied.

Methods of `Robot`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple._arrays.checks import FloatArray, coordinates, like
from supple.errors import InputError, short_repr
from supple.kinematics.configuration import from_kernel, integrate, to_kernel
from supple.kinematics.rotation import cross, cross_matrix, log

if TYPE_CHECKING:
    from supple.kinematics.chain import Matrix
    from supple.kinematics.robot import Robot

CLOSED_ERROR = 1e-9  # largest error of a closed configuration [m, rad]
_NEWTON_TOLERANCE = 1e-13  # error at which the iterations end [m, rad]
_MAX_ITERATIONS = 200
_MAX_STEP = 0.5  # largest displacement of a joint in an iteration [rad or m]
# Maximum number of successive draws without a closed configuration, and the least size of a draw.
_MAX_ATTEMPTS, _MIN_DRAW_SIZE = 12, 16
_RANK_TOLERANCE = 1e-10  # singular values below this fraction of the largest count as zero


def loop_error(self: Robot, q: ArrayLike) -> FloatArray:  # noqa: D417
    """Return the errors of the loops and couplings at configurations, (..., m).

    For each loop, the position of frame_a relative to frame_b in the axes of frame_b (3) [m] and,
    for a weld, its rotation vector (3) [rad]; then, for each coupling, the position of the follower
    minus the polynomial [rad or m]. `loop_rows` returns the names of the errors. All errors are
    zero in a closed configuration.

    Args:
        q: Configurations (..., nq) [rad or m].
    """
    at = coordinates(q, self.nq, "q")
    made, _ = _evaluate(self, np.asarray(at, np.float64), jacobian=False)
    return like(q, made.astype(at.dtype, copy=False))  # type: ignore[no-any-return]


def loop_jacobian(self: Robot, q: ArrayLike) -> FloatArray:  # noqa: D417
    """Return the derivatives of `loop_error` with respect to displacements, (..., m, nv).

    Velocities q̇ with `loop_jacobian(q) @ qd = 0` keep loops closed.

    Args:
        q: Configurations (..., nq) [rad or m].
    """
    at = coordinates(q, self.nq, "q")
    _, made = _evaluate(self, np.asarray(at, np.float64))
    return like(q, made.astype(at.dtype, copy=False))  # type: ignore[no-any-return]


def loop_rows(robot: Robot) -> tuple[str, ...]:
    """Return the name of each entry of `loop_error`."""
    rows = [
        f"{row} of {loop.name}"
        for loop in robot.loops
        for row in ("x", "y", "z", "rx", "ry", "rz")[: 3 if loop.kind == "point" else 6]
    ]
    return (*rows, *(f"{each.follower} by {each.leader}" for each in robot.couplings))


def close_loops(self: Robot, q: ArrayLike) -> FloatArray:  # noqa: D417
    """Return closed configurations near the given ones, inside the joint limits, (..., nq).

    Newton's method moves the joints as little as possible in each iteration, until loops and
    couplings hold to 1e-9 m and rad (in general to 1e-13). Without loops and couplings, the result
    is a copy.

    Args:
        q: Configurations (..., nq) [rad or m].

    Raises:
        InputError: The iterations from one of the configurations do not end at a closed one; the
            message names the loop or coupling that remains open. Either no closed configuration
            exists, or only another q leads to one.
    """
    at = coordinates(q, self.nq, "q")
    if not np.isfinite(at).all():
        raise InputError(f"q must be finite; given: {short_repr(q)}")
    made, closed = closed_near(self, np.asarray(at, np.float64).reshape(-1, self.nq))
    if not closed.all():
        first = int(np.argmin(closed))
        raise InputError(_open_text(self, made[first], at.shape[:-1], first))
    return like(q, made.reshape(at.shape).astype(at.dtype, copy=False))  # type: ignore[no-any-return]


def _open_text(robot: Robot, q: Matrix, shape: tuple[int, ...], index: int) -> str:
    """Return a sentence that says why a configuration could not be closed."""
    error = np.abs(_evaluate(robot, q, jacobian=False)[0])
    worst = int(np.argmax(error))
    which = f" {np.unravel_index(index, shape)}" if shape else ""
    return (
        f"q{which} must lead to a closed configuration; given: one from which "
        f"{loop_rows(robot)[worst]} remains open by {error[worst]:.3g} within the joint limits"
    )


def refuse_loops(robot: Robot, what: str) -> None:
    """Raise an error for a robot with loops or couplings, which a function does not support.

    Raises:
        InputError: The robot has loops or couplings; the message names the first one.
    """
    if not robot.is_tree:
        raise InputError(
            f"{what} does not support loops and couplings; given: {robot.name} with "
            f"{_first_words(robot)} (robot.without_loops() is the robot as a tree)"
        )


def _first_words(robot: Robot) -> str:
    """Return the first loop or coupling of a robot as text."""
    if robot.loops:
        return f"the loop {robot.loops[0].name!r}"
    return f"{robot.couplings[0].follower!r} coupled to {robot.couplings[0].leader!r}"


def neutral_closed(robot: Robot, q: Matrix) -> Matrix:
    """Return a closed configuration (nq,) near the neutral q, or, if none is found, a random q."""
    made: Matrix | None = vars(robot).get("_neutral")
    if made is None:
        near, closed = closed_near(robot, q[None])
        if not closed[0]:
            near = random_closed(robot, robot.without_loops().random(1, seed=0))
        made = vars(robot)["_neutral"] = near[0]
    return np.array(made)


def random_closed(robot: Robot, drawn: Matrix) -> Matrix:
    """Return closed configurations near random ones (..., nq); after a failure, draw another.

    Raises:
        InputError: No closed configuration is found.
    """
    made, closed = closed_near(robot, drawn.reshape(-1, robot.nq))
    left = np.flatnonzero(~closed)
    attempt = failed = 0
    while len(left) and failed < _MAX_ATTEMPTS:
        # The seed is computed from `drawn`, so that the same draw always has the same result.
        seed = np.random.default_rng([attempt, *drawn.view(np.uint32).ravel()[:64].tolist()])
        more = robot.without_loops().random(max(_MIN_DRAW_SIZE, len(left)), seed=seed)
        others = _first_closed(robot, more, len(left))
        made[left[: len(others)]] = others
        left = left[len(others) :]
        attempt, failed = attempt + 1, 0 if len(others) else failed + 1
    if not len(left):
        return np.asarray(made.reshape(drawn.shape))
    raise InputError(
        f"the loops of {robot.name} must have closed configurations inside the joint limits; "
        f"given: {', '.join(loop_rows(robot)[:3])}, for which none is found"
    )


def _first_closed(robot: Robot, q: Matrix, count: int) -> Matrix:
    """Return up to `count` closed configurations, near the first of q (k, nq) that can be closed.

    The first groups are small, because configurations that cannot be closed take the most
    iterations.
    """
    found, tried = np.empty((0, robot.nq)), 0
    while tried < len(q) and len(found) < count:
        made, closed = closed_near(robot, q[tried : tried + max(count - len(found), tried)])
        found, tried = np.concatenate([found, made[closed]]), tried + len(made)
    return found[:count]


def closed_near(robot: Robot, q: Matrix) -> tuple[Matrix, NDArray[np.bool_]]:
    """Return configurations (k, nq) after Newton's method, and a mask (k,) of the closed ones.

    A joint that would leave its range is held at its limit while the others go on.
    """
    best = from_kernel(robot, np.clip(to_kernel(robot, q), robot.lower, robot.upper))
    best = np.array(best, np.float64)
    if not (robot.loops or robot.couplings) or not len(best):
        return best, np.ones(len(best), np.bool_)
    least = np.full(len(best), np.inf)
    at, left = best.copy(), np.arange(len(best))
    stalled = np.zeros(len(best), int)
    for _ in range(_MAX_ITERATIONS):
        e, J = _evaluate(robot, at[left])
        size = np.abs(e).max(axis=1)
        better = size < least[left]
        stalled[left] = np.where(size < 0.9 * least[left], 0, stalled[left] + 1)
        best[left[better]], least[left[better]] = at[left[better]], size[better]
        # Give up where the error stalls: after 30 iterations or, below 1e-9, after only 2.
        going = (size > _NEWTON_TOLERANCE) & (stalled[left] < np.where(size < CLOSED_ERROR, 2, 30))
        left, e, J = left[going], e[going], J[going]
        if not len(left):
            break
        at[left] = moved_within(robot, at[left], J, -e)
    return best, least <= CLOSED_ERROR


def moved_within(robot: Robot, q: Matrix, J: Matrix, e: Matrix) -> Matrix:
    """Return configurations (k, nq) after one step with J step = e, within the joint limits.

    Joints that the least-norm step would move beyond a limit go to that limit, and the step of the
    other joints is computed again. A step that moves a joint by more than `_MAX_STEP` is shortened.

    Args:
        robot: The robot.
        q: Configurations (k, nq).
        J: Derivatives of the rows (k, m, nv).
        e: Changes of the rows (k, m).
    """
    x = np.asarray(to_kernel(robot, q))
    held, free = np.zeros(x.shape), np.ones(x.shape, np.bool_)
    step, left = np.empty(x.shape), np.arange(len(x))
    for _ in range(robot.nv):
        rest = e[left] - np.einsum("kij,kj->ki", J[left], held[left])
        least = least_norm_step(J[left] * free[left, None, :], rest)
        step[left] = np.where(free[left], least, held[left])
        bound = np.clip(step, robot.lower - x, robot.upper - x)
        outside = free & (bound != step)
        held, free = np.where(outside, bound, held), free & ~outside
        left = np.flatnonzero(outside.any(axis=1))
        if not len(left):
            break
    largest = np.abs(step).max(axis=1, keepdims=True)
    step = step * np.minimum(1.0, _MAX_STEP / np.maximum(largest, 1e-300))
    moved = to_kernel(robot, integrate(robot, q, step))
    return np.asarray(from_kernel(robot, np.clip(moved, robot.lower, robot.upper)))


def least_norm_step(J: Matrix, e: Matrix) -> Matrix:
    """Return the damped least-norm steps (k, n) of J (k, m, n) step = e (k, m).

    The damping falls with ‖e‖², so that Newton's method converges quadratically; rows that depend
    on each other, as those of a planar loop, are no obstacle.
    """
    U, S, Vt = np.linalg.svd(J, full_matrices=False)
    damping = 1e-2 * np.minimum((e * e).sum(axis=1, keepdims=True), 1.0) * S[:, :1] ** 2
    small = _RANK_TOLERANCE * S[:, :1] >= S
    gains = np.where(small, 0.0, S / np.where(small, 1.0, S * S + damping))
    return np.asarray(np.einsum("kij,ki->kj", Vt, gains * np.einsum("kij,ki->kj", U, e)))


def _evaluate(robot: Robot, q: Matrix, *, jacobian: bool = True) -> tuple[Matrix, Matrix]:
    """Return the error (..., m) and its derivatives (..., m, nv) at configurations (..., nq)."""
    lead = q.shape[:-1]
    errors, slopes = [np.empty((*lead, 0))], [np.empty((*lead, 0, robot.nv))]
    if robot.loops:
        names = tuple(name for loop in robot.loops for name in (loop.frame_a, loop.frame_b))
        if jacobian:
            T, J = robot.fk_jacobian(q, names, threads=1)
        else:
            T, J = robot.fk(q, names, threads=1), np.zeros((*lead, len(names), 6, robot.nv))
        for k, loop in enumerate(robot.loops):
            a, b = 2 * k, 2 * k + 1
            R = T[..., b, :3, :3].swapaxes(-1, -2)
            away = T[..., a, :3, 3] - T[..., b, :3, 3]
            errors.append(np.einsum("...ij,...j->...i", R, away))
            turning = J[..., b, 3:, :]
            lever = cross(turning.swapaxes(-1, -2), away[..., None, :]).swapaxes(-1, -2)
            slopes.append(R @ (J[..., a, :3, :] - J[..., b, :3, :] - lever))
            if loop.kind == "weld":
                r = log(R @ T[..., a, :3, :3])
                errors.append(r)
                slopes.append(_log_rates(r) @ R @ (J[..., a, 3:, :] - turning))
    if robot.couplings:
        e, slope = coupling_rows(robot, q)
        errors.append(e)
        slopes.append(slope)
    return np.concatenate(errors, axis=-1), np.concatenate(slopes, axis=-2)


def coupling_rows(robot: Robot, q: Matrix) -> tuple[Matrix, Matrix]:
    """Return the errors (..., c) of the couplings and their derivatives (..., c, nv)."""
    one, two, coefficients = _couplings(robot)
    x = np.asarray(to_kernel(robot, q))
    leader = x[..., two]
    value, slope = np.zeros(leader.shape), np.zeros(leader.shape)
    for c, rate in coefficients:  # Horner's rule
        value, slope = c + value * leader, rate + slope * leader
    rows = np.arange(len(one))
    slopes = np.zeros((*leader.shape, robot.nv))
    slopes[..., rows, one] += 1.0
    slopes[..., rows, two] -= slope
    return x[..., one] - value, slopes


@lru_cache(maxsize=64)
def _couplings(robot: Robot) -> tuple[NDArray[np.intp], NDArray[np.intp], Matrix]:
    """Return the indices of followers and leaders (c,), and their coefficients (degree + 1, 2, c).

    The second axis has the polynomial, then its derivative. The highest powers are first.
    """
    names = [(each.follower, each.leader) for each in robot.couplings]
    index = np.array([[robot.joint_names.index(name) for name in pair] for pair in names], np.intp)
    length = max(len(each.coefficients) for each in robot.couplings)
    made = np.zeros((length, 2, len(names)))
    for k, each in enumerate(robot.couplings):
        for power, c in enumerate(each.coefficients):
            made[length - 1 - power, 0, k] = c
            if power > 0:
                made[length - power, 1, k] = power * c
    return index[:, 0], index[:, 1], made


def _log_rates(r: Matrix) -> Matrix:
    """Return the matrices (..., 3, 3) from angular velocities to the rates of rotation vectors.

    ṙ = (I - [r]×/2 + c [r]×²) ω,   c = (1 - (θ/2) cot(θ/2))/θ²,   ω in the unrotated axes
    """
    K = cross_matrix(r)
    angle = np.linalg.norm(r, axis=-1)
    small = angle < 1e-3
    half = np.where(small, 1.0, angle) / 2
    c = np.where(small, 1 / 12, (1 - half / np.tan(half)) / (4 * half * half))
    return np.asarray(np.eye(3) - K / 2 + c[..., None, None] * (K @ K))
