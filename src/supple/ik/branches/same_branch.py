"""Decide whether a solution is on the branch of q0, joined by a motion without a singularity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from supple.kinematics import Robot
from supple.kinematics.branch import branch_signs, has_branches
from supple.kinematics.configuration import difference, integrate
from supple.motion.linearization import Array
from supple.tasks import TaskLike
from supple.tasks.layout import CompiledTasks, compile_tasks, selected_tasks

_MAX_SAMPLE_STEP = 0.02  # largest joint displacement between two samples of a motion [rad or m]
_MOST_SAMPLES = 2048  # maximum number of samples of one motion
_SAMPLES_AT_ONCE = 1 << 14  # number of samples whose J is computed at a time
# Where the sign of J seems to change, a step is divided into this number of parts, and such parts
# are divided again, this number of times.
_REFINEMENT_PARTS, _REFINEMENT_LEVELS = 16, 4
_SINGULAR = 1e-9  # singular value below which J has lost rank, relative to the largest


def largest_move(robot: Robot | None, q: Array, q0: Array) -> Array:
    """Return the largest joint displacement (...) of q from q0, both (..., nq) [rad or m].

    The robot is None where every joint has one coordinate.
    """
    return np.asarray(np.abs(difference(robot, q, q0)).max(axis=-1, initial=0.0))


def on_same_branch(
    robot: Robot,
    tasks: TaskLike | Sequence[TaskLike] | None,
    q0: Array,
    q: Array,
) -> NDArray[np.bool_]:
    """Return whether q (..., n) is on the branch of q0 (..., n): see `Solution.same_branch`."""
    every = selected_tasks(robot, None, tasks)[0]
    met = tuple(task for task in every if not task.is_preference)
    shape = np.broadcast_shapes(q0.shape, q.shape)
    a, b = (np.array(np.broadcast_to(x, shape)).reshape(-1, robot.nq) for x in (q0, q))
    same = np.asarray(np.isfinite(a).all(axis=-1) & np.isfinite(b).all(axis=-1))
    a[~same], b[~same] = robot.neutral(), robot.neutral()
    check = same.copy()  # motions to be sampled
    frame = None
    if len(met) == 1 and (rows := met[0].on(robot)).is_whole_pose:
        frame = rows.frame
    if frame is not None and has_branches(robot, frame):
        # Elbow and wrist depend on one joint each and change their sign every half turn, so equal
        # signs within half a turn are enough.
        signs = branch_signs(robot, a, frame) * branch_signs(robot, b, frame)
        same &= (signs >= 0).all(axis=-1)
        check = same & (largest_move(robot, b, a) > np.pi)
    if check.any():
        same[check] = ~_crosses(compile_tasks(robot, met), a[check], b[check])
    return np.asarray(same.reshape(shape[:-1]))


def _crosses(layout: CompiledTasks, q0: Array, q: Array, level: int = 0) -> NDArray[np.bool_]:
    """Return whether the straight motions from q0 to q, both (B, n), cross a singularity (B,).

    If J has fewer rows than columns, a motion may pass a singularity so closely that the null space
    rotates by more than 90° between two samples, which looks like a crossing. Where a crossing is
    found, samples are therefore taken closer together, up to `_REFINEMENT_LEVELS` times.
    """
    steps = np.ceil(largest_move(layout.robot, q, q0) / _MAX_SAMPLE_STEP)
    count = np.clip(steps, 1, _MOST_SAMPLES).astype(int)
    count = np.full_like(count, _REFINEMENT_PARTS) if level else count
    order = np.argsort(-count, kind="stable")
    crosses = np.zeros(len(q), dtype=np.bool_)
    while len(order):
        samples = count[order[0]]
        some, order = np.split(order, [max(1, _SAMPLES_AT_ONCE // samples)])
        share = np.linspace(0.0, 1.0, samples + 1)[:, None]
        away = difference(layout.robot, q[some], q0[some])
        motion = integrate(layout.robot, q0[some, None], share * away[:, None])
        of, begin, end = _sign_changes(np.asarray(layout.jacobian(motion), dtype=np.float64))
        if level < _REFINEMENT_LEVELS and len(of):
            real = _crosses(layout, motion[of, begin], motion[of, end], level + 1)
            of = of[real]
        crosses[some[of]] = True
    return crosses


def _sign_changes(J: Array) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Return each change of sign of J (B, K, m, n): its motion and the two samples around it.

    The sign of a square J is that of det J. For other shapes and a rank r, the sign is defined
    relative to the singular vectors of J = U S Vᵀ at the first of two neighboring samples: J
    becomes S with det S > 0, and J' at the second sample becomes Uᵀ J' V, both r × r. If the
    determinant of the latter is negative, the motion has crossed a singularity in between. Singular
    samples are skipped.
    """
    U, S, Vt = np.linalg.svd(J, full_matrices=False)
    rank = (_SINGULAR * S.max(axis=(1, 2), keepdims=True) < S).sum(axis=-1)
    regular = rank == rank.max(axis=1, keepdims=True)
    index = np.where(regular, np.arange(J.shape[1]), -1)
    before = np.maximum.accumulate(index, axis=1)[:, :-1]  # the regular sample before each
    row = np.arange(len(J))[:, None]
    seen = U[row, before].swapaxes(-1, -2) @ J[:, 1:] @ Vt[row, before].swapaxes(-1, -2)
    kept = np.arange(S.shape[-1]) < rank.max(axis=1)[:, None, None]
    block = kept[..., :, None] & kept[..., None, :]
    sign, _ = np.linalg.slogdet(np.where(block, seen, np.eye(S.shape[-1])))
    of, which = np.nonzero((sign < 0) & regular[:, 1:] & (before >= 0))
    return of, before[of, which], which + 1
