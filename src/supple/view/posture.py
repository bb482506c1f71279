"""The initial configuration of a robot in the viewer, and the rows that it can control."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

import supple as sp

Array = NDArray[np.float64]

ROWS = ("x", "y", "z", "rx", "ry", "rz")
_NO_MOTION = 1e-9  # entry of a Jacobian that counts as zero, relative to the largest one
_EQUAL_HEIGHT = 1e-9  # difference of heights that counts as zero [m]
_TRIED_CONFIGURATIONS = 600  # number of configurations to choose from
_MAX_BEND = 0.4  # largest angle of a bent joint in a standing posture [rad or m]
_MIN_SIGMA_RISE = 0.2  # rise of σ_min for which a joint is bent, relative to the largest σ_min
_REGULAR_SIGMA = 1e-3  # σ_min of a regular posture, relative to the largest singular value
_OFFSET_LENGTH_RATIO = 0.3  # length below which a link is an offset, relative to the longest


def controlled_rows(robot: sp.Robot, positions: bool) -> tuple[str, ...]:
    """Return the rows that the end effectors can move, such as x, y and rz for a planar arm.

    Args:
        robot: The robot.
        positions: Whether to return position rows only.
    """
    J = np.abs(robot.jacobian(robot.random(32, seed=0), tuple(robot.tips)))
    moves = J.max(axis=(0, 1, 3)) > _NO_MOTION * J.max()
    return tuple(row for row, can in zip(ROWS[: 3 if positions else 6], moves, strict=False) if can)


def followed_frames(robot: sp.Robot) -> tuple[str, ...]:
    """Return the frames with a target: the end effectors, and the floating base if there is one."""
    free = [each.child for each in robot.description.joints if each.kind == "floating"]
    return (*robot.tips, *(link for link in free if link not in robot.tips))


def scalar_positions(robot: sp.Robot) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the indices of joints with one coordinate: in a velocity, and in a configuration."""
    place = {name: at for at, name in enumerate(robot.position_names)}
    known = [(j, place[name]) for j, name in enumerate(robot.joint_names) if name in place]
    both = np.array(known, dtype=np.intp).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def coordinates(robot: sp.Robot, q: Array) -> Array:
    """Return one number for each velocity (nv,): for a quaternion, its rotation vector."""
    j, at = scalar_positions(robot)
    x = np.array(robot.difference(q, robot.neutral()), dtype=np.float64)
    x[j] = q[at]
    return x


def from_coordinates(robot: sp.Robot, x: Array) -> Array:
    """Return the configuration (nq,) with given coordinates."""
    j, at = scalar_positions(robot)
    turned = x.copy()
    turned[j] = 0.0
    q = np.array(robot.integrate(robot.neutral(), turned), dtype=np.float64)
    q[at] = x[j]
    return q


def inside_limits(robot: sp.Robot, q: Array) -> Array:
    """Return configurations (..., nq) with joints in their ranges and quaternions of length one."""
    made = np.array(robot.integrate(q, np.zeros(robot.nv)), dtype=np.float64)
    j, at = scalar_positions(robot)
    made[..., at] = np.clip(made[..., at], robot.lower[j], robot.upper[j])
    return made


def up_axis(robot: sp.Robot) -> int:
    """Return the index of the axis that points up: 1 (y) for a robot in the x-y plane, else 2."""
    heights = robot.fk(robot.neutral(), tuple(robot.description.links))[:, 2, 3]
    return 1 if np.ptp(heights) < _EQUAL_HEIGHT else 2


def comfortable(robot: sp.Robot) -> Array:
    """Return a configuration (n,) away from limits and singularities, for a first view.

    A robot with several end effectors, such as a humanoid or a hand, stands as in its file, with
    bent knees and elbows (`_standing`). An arm is placed at one of some random configurations near
    the middle of the ranges: the one with the largest σ_min, preferring configurations with all
    links above the base and no link folded back onto the previous one.
    """
    if len(robot.tips) > 1:
        q = _standing(robot)
        J = robot.jacobian(q, tuple(robot.tips))[:, : len(controlled_rows(robot, True))]
        sigma = np.linalg.svd(J.reshape(-1, robot.dof), compute_uv=False)
        if sigma[-1] > _REGULAR_SIGMA * sigma[0]:
            return q
    low = np.where(np.isfinite(robot.lower), robot.lower, -math.pi / 2)
    high = np.where(np.isfinite(robot.upper), robot.upper, math.pi / 2)
    low, high = np.maximum(low, -math.pi), np.minimum(high, math.pi)
    low, high = np.minimum(low, robot.upper), np.maximum(high, robot.lower)
    share = np.random.default_rng(0).uniform(0.25, 0.75, (_TRIED_CONFIGURATIONS, robot.dof))
    v = low + share * (high - low)
    j, at = scalar_positions(robot)
    turned = v.copy()
    turned[:, _of_bases(robot)] = turned[:, j] = 0.0  # bases stay where they are
    q = np.asarray(robot.integrate(robot.neutral(), turned))
    own = ~_of_bases(robot)[j]
    q[:, at[own]] = v[:, j[own]]
    sigma = robot.singular_values(q, tuple(robot.tips))
    rank = max(int((sigma.max(axis=0) > 1e-9 * sigma.max()).sum()), 1)
    up = up_axis(robot)
    lowest, straightness = _posture(robot, q, up)
    above = lowest >= min(robot.base[up, 3], lowest.max()) - 1e-9
    score = sigma[:, rank - 1] * (1 + np.minimum(straightness, 0))
    return np.asarray(q[np.argmax(np.where(above, score, -1.0))])


def _of_bases(robot: sp.Robot) -> NDArray[np.bool_]:
    """Return a mask (n,) of the velocities of floating joints."""
    free = [each.name for each in robot.description.joints if each.kind == "floating"]
    return np.array([name.rpartition("/")[0] in free for name in robot.joint_names])


def _standing(robot: sp.Robot) -> Array:
    """Return the neutral configuration with some joints bent, so that it is not singular.

    A straight leg is singular until its knee bends, and a straight arm until its elbow does. Each
    joint is tried separately: it moves toward the middle of its range, by at most _MAX_BEND, and
    stays there if this raises the smallest singular value of the position of an end effector.
    Joints that spread legs or turn a head do not raise it; mirrored joints behave alike. Then end
    effectors that came closer to the base are given their neutral orientation again, on the line
    from the base through their neutral position, so that the feet are flat on the ground.
    """
    neutral = np.asarray(robot.neutral(), np.float64)
    low, high = (np.where(np.isfinite(x), x, 0.0) for x in (robot.lower, robot.upper))
    middle = np.where(
        np.isfinite(robot.lower) & np.isfinite(robot.upper), (low + high) / 2, _MAX_BEND
    )
    j, at = scalar_positions(robot)
    toward = neutral.copy()
    toward[at] = middle[j]
    move = np.clip(robot.difference(toward, neutral), -_MAX_BEND, _MAX_BEND)
    move[_of_bases(robot)] = 0.0
    tried = np.vstack([neutral, robot.integrate(neutral, np.diag(move))])
    J = np.asarray(robot.jacobian(tried, tuple(robot.tips)))[..., :3, :]  # (1 + n, tips, 3, n)
    sigma = np.linalg.svd(J, compute_uv=False)[..., -1]
    raises = (sigma[1:] > sigma[0] + _MIN_SIGMA_RISE * sigma.max(axis=0)).any(axis=1)
    bent = inside_limits(robot, np.asarray(robot.integrate(neutral, raises * move), np.float64))
    straight, T = (np.asarray(robot.fk(x, tuple(robot.tips)), np.float64) for x in (neutral, bent))
    before, after = (x[:, :3, 3] - robot.base[:3, 3] for x in (straight, T))
    far, near = (np.linalg.norm(x, axis=1) for x in (before, after))
    closer = near < far  # feet; a hand that hangs beside the body comes no closer to it
    T[closer] = straight[closer]
    T[closer, :3, 3] = robot.base[:3, 3] + before[closer] * (near / far)[closer, None]
    tasks = [sp.PoseTask(tip) for tip in robot.tips]
    found = sp.solve(robot, list(T), tasks=tasks, q0=bent, max_move=_MAX_BEND)
    return np.asarray(found.q if found else bent)


def _posture(robot: sp.Robot, q: Array, up: int) -> tuple[Array, Array]:
    """Return two scores (k,) of configurations (k, n).

    The first is the lowest height of a link [m], the second the smallest cosine of the angle
    between successive links: -1 if a link is folded back.
    """
    lowest, smallest = np.full(len(q), np.inf), np.ones(len(q))
    parents = {joint.child: joint.parent for joint in robot.description.joints}
    parents |= {frame.name: frame.link for frame in robot.description.frames}
    for tip in robot.tips:
        path = [tip]
        while path[-1] in parents:
            path.append(parents[path[-1]])
        places = np.asarray(robot.fk(q, tuple(reversed(path))))[..., :3, 3]
        lowest = np.minimum(lowest, places[..., up].min(axis=1))
        bones = np.diff(places, axis=1)
        lengths = np.linalg.norm(bones, axis=2)
        long = lengths.mean(axis=0) > _OFFSET_LENGTH_RATIO * lengths.mean(axis=0).max(initial=0.0)
        ways = bones[:, long] / np.maximum(lengths[:, long, None], 1e-12)
        cosines = np.einsum("kij,kij->ki", ways[:, 1:], ways[:, :-1])
        smallest = np.minimum(smallest, cosines.min(axis=1, initial=1.0))
    return lowest, smallest
