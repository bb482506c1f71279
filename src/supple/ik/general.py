"""All solutions of arms with six revolute joints of any geometry, as eigenvalues.

A line with the point p and the direction l, such as a joint axis, is represented by fifteen numbers

    1,  p,  l,  p·p,  p·l,  p × l,  (p·p) l - 2 (p·l) p

which a rigid motion transforms by a matrix. The matrix E_i of a rotation about axis i is linear in
the cosine and sine of q_i. Let X be the displacement of the frame from its pose at q = 0. The
condition E1 E2 E3 E4 E5 E6 = X, applied to the line of axis 6, which E6 does not move, gives

    E3 E4 E5 line = E2⁻¹ E1⁻¹ X line

These are fourteen equations. The eight products of cosines and sines of q1 and q2 are eliminated,
which leaves six equations in q3, q4 and q5, linear in the products of their cosines and sines. In
half-angle tangents, and multiplied by 1 and by tan(q4/2), these are twelve equations in twelve
products of powers of the tangents of q4 and q5, with coefficients that are quadratic in tan(q3/2).
This is an eigenvalue problem of size 24, whose real eigenvalues give the solutions, at most 16.

The joints can be renumbered cyclically, which moves X to another place in the product. For arms
with parallel or intersecting axes, some of the six numberings are degenerate; the best one is
selected with random configurations.

References:
    Raghavan & Roth 1993; Manocha & Canny 1994 (the eigenvalue problem).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from supple.kinematics import Robot
from supple.kinematics.arrays import FloatArray
from supple.kinematics.structure import Structure
from supple.motion.linearization import Array

# Coefficients of 1, cos q and sin q, each times 1 + t², as polynomials in t = tan(q/2).
_HALF = np.array([[1.0, 0.0, 1.0], [1.0, 0.0, -1.0], [0.0, 2.0, 0.0]])
# Angles of q3, q4 and q5 [rad] from which half-angle tangents are measured. Half a turn away from
# them a tangent is infinite; a target with such a solution is solved again with the second set.
_ZEROS = ((0.7, -1.1, 0.4), (-1.3, 0.5, 2.2))
# Largest entry of the matrix of the eigenvalue problem; above it, the problem counts as singular.
_LARGEST = 1e7
# Imaginary part below which an eigenvalue counts as real. The error of a double eigenvalue is the
# square root of rounding errors.
_REAL = 1e-4
# Smallest difference of q3 between two solutions [rad]; below it, eigenvectors are not accurate.
_APART = 1e-6
_TRIALS = 32  # number of random configurations that select the numberings
_REGULAR = 0.8  # fraction of them at which a numbering must be regular
_RECOVERED = 1e-3  # largest error of a configuration that counts as recovered from its pose [rad]
_CHUNK = 4096  # number of poses that are solved at a time; each takes some 20 kB


@dataclass(frozen=True, eq=False)
class GeneralArm:
    """An arm with six revolute joints, whose joints are numbered cyclically from `start` on.

    Attributes:
        K: Matrices (6, 3, 15, 15); the matrix of rotation i is K[i, 0] + cos(q) K[i, 1] +
            sin(q) K[i, 2].
        line: Line (15,) of the last joint.
        turns: Matrices (6, 3, 3) of the cross products with the directions of the axes.
        start: Index of the joint that is number 1.
        center: Mean (3,) of the points on the axes [m], the origin of the coordinates of lines.
        length: Half the length of the arm [m], the unit of the coordinates of lines.
        home: Inverse (4, 4) of the pose of the frame at q = 0.
    """

    K: Array
    line: Array
    turns: Array
    start: int
    center: Array
    length: float
    home: Array

    @staticmethod
    def of(structure: Structure, home: FloatArray, start: int) -> GeneralArm:
        """Return the arm of a structure, with its joints numbered from `start` on."""
        center = structure.points.mean(axis=0)
        length = 0.5 * structure.length
        order = (np.arange(6) + start) % 6
        axes, points = structure.axes[order], (structure.points[order] - center) / length
        K = np.array([_rotation(h, p) for h, p in zip(axes, points, strict=True)])
        line = _line(points[5], axes[5])
        inverse = np.linalg.inv(np.asarray(home, dtype=np.float64))
        turns = np.cross(axes[:, None], np.eye(3)).swapaxes(-1, -2)
        return GeneralArm(K, line, turns, start, center, length, inverse)

    def displacements(self, poses: FloatArray) -> tuple[Array, Array]:
        """Return X for poses (B, 4, 4): rotations (B, 3, 3) and translations (B, 3).

        Translations are in the coordinates of lines (`center`, `length`).
        """
        X = np.asarray(poses, dtype=np.float64) @ self.home
        R = X[:, :3, :3]
        return R, (X[:, :3, 3] + R @ self.center - self.center) / self.length

    def candidates(self, poses: FloatArray) -> tuple[Array, NDArray[np.int32], NDArray[np.bool_]]:
        """Return candidates for the solutions of poses (B, 4, 4).

        Returns:
            Configurations (K, 6) [rad] of all poses in order, their number for each pose (B,), and
            whether they contain all solutions of the pose (B,).
        """
        R, t = self.displacements(poses)
        left, right = self._equations(R, t)
        known, constant, remaining = _eliminated(left, right)
        found = _eigen(remaining, _ZEROS[0])
        again = ~found[-1]
        if again.any():
            for part, new in zip(found, _eigen(remaining[again], _ZEROS[1]), strict=True):
                part[again] = new
        angles, real, apart, regular = found
        pose, which = np.nonzero(real)
        inner = angles[pose, which]
        q = np.empty((len(pose), 6))
        q[:, 2:5] = inner
        q[:, 0], q[:, 1] = _outer(left[pose], known[pose], constant[pose], inner)
        q[:, 5] = self._last(R[pose], q[:, :5])
        order = (np.arange(6) + self.start) % 6
        made = np.empty_like(q)
        made[:, order] = q
        return made, real.sum(axis=1).astype(np.int32), regular & apart

    def _equations(self, R: Array, t: Array) -> tuple[Array, Array]:
        """Return both sides of the equations for displacements X; the first of 15 rows is 1 = 1.

        The left side E3 E4 E5 line is (B, 15, 3, 3, 3): coefficients of the products of 1, cosine
        and sine of q3, q4 and q5. The right side E2⁻¹ E1⁻¹ X line is (B, 15, 3, 3): those of q1 and
        q2. In other numberings X is at another place on the right, or X⁻¹ on the left.
        """
        K, gap = self.K, 6 - self.start  # X⁻¹ follows rotation number `gap`
        K_inverse = K[:2] * np.array([1.0, 1.0, -1.0])[:, None, None]
        back = R.swapaxes(-1, -2)
        on_left = gap in (3, 4, 5)
        X = _motion(back, -np.einsum("bij,bj->bi", back, t)) if on_left else _motion(R, t)
        line = np.broadcast_to(self.line, (len(R), 15))
        side = np.einsum("bij,bj->bi", X, line) if gap == 6 else line
        side = np.einsum("uij,bj->biu", K_inverse[0], side)
        side = np.einsum("bij,bju->biu", X, side) if gap == 1 else side
        side = np.einsum("vij,bju->biuv", K_inverse[1], side)
        side = np.einsum("bij,bjuv->biuv", X, side) if gap == 2 else side
        other = np.einsum("bij,bj->bi", X, line) if gap == 5 else line
        other = np.einsum("zij,bj->biz", K[4], other)
        other = np.einsum("bij,bjz->biz", X, other) if gap == 4 else other
        other = np.einsum("yij,bjz->biyz", K[3], other)
        other = np.einsum("bij,bjyz->biyz", X, other) if gap == 3 else other
        return np.einsum("xij,bjyz->bixyz", K[2], other), side

    def _last(self, R: Array, q: Array) -> Array:
        """Return the last angles (K,) from the others (K, 5) and the rotations of X (K, 3, 3).

        X, followed by the inverses of the other rotations, turns a vector orthogonal to axis 6 by
        this angle.
        """
        turns, gap = self.turns[5], 6 - self.start
        across = turns[:, np.argmax(np.abs(turns).sum(axis=0))]
        turned = np.broadcast_to(across, (len(q), 3))
        for i in range(6):
            if gap == (i or 6):
                turned = np.einsum("kij,kj->ki", R, turned)
            if i < 5:
                turned = _turned(turned, self.turns[i], -q[:, i])
        return np.asarray(np.arctan2(turned @ (turns @ across), turned @ across))


@lru_cache(maxsize=64)
def general_arms(robot: Robot, frame: str) -> tuple[GeneralArm, ...]:
    """Return the arm that moves a frame, in all numberings that are not degenerate, best first.

    A numbering is not degenerate if it recovers random configurations from their poses. The best
    one is the most accurate.
    """
    structure = robot._structure(frame)
    home = robot.fk(np.zeros(robot.dof), frame)
    inner = np.random.default_rng(0).uniform(-np.pi, np.pi, (_TRIALS, 6))
    q = np.zeros((_TRIALS, robot.dof))
    q[:, [robot.joint_names.index(name) for name in structure.joints]] = inner
    poses = robot.fk(q, frame)
    found: list[tuple[float, int, GeneralArm]] = []
    for start in range(6):
        arm = GeneralArm.of(structure, home, start)
        candidates, count, complete = arm.candidates(poses)
        of = np.repeat(np.arange(_TRIALS), count)
        off = np.abs((candidates - inner[of] + np.pi) % (2 * np.pi) - np.pi).max(axis=1)
        nearest = np.full(_TRIALS, np.pi)
        np.minimum.at(nearest, of, off)
        if complete.mean() > _REGULAR and nearest.max() < _RECOVERED:
            found.append((float(np.median(nearest)), start, arm))
    return tuple(arm for _, _, arm in sorted(found, key=lambda one: one[:2]))


def general_candidates(
    arms: tuple[GeneralArm, ...], poses: Array
) -> tuple[Array, NDArray[np.int32], NDArray[np.bool_]]:
    """Return candidates as `GeneralArm.candidates` does, for several numberings of an arm.

    A pose is solved with one numbering after the other until its solutions are complete.
    """
    parts = [np.empty((0, 6))] * len(poses)
    complete = np.zeros(len(poses), dtype=np.bool_)
    for arm in arms:
        left = np.nonzero(~complete)[0]
        for first in range(0, len(left), _CHUNK):
            some = left[first : first + _CHUNK]
            q, count, certain = arm.candidates(poses[some])
            for i, one in zip(some, np.split(q, np.cumsum(count)[:-1]), strict=True):
                parts[i] = np.concatenate([parts[i], one])
            complete[some] = certain
    count = np.array([len(part) for part in parts], dtype=np.int32)
    return np.concatenate([np.empty((0, 6)), *parts]), count, complete


def _line(p: Array, h: Array) -> Array:
    """Return the fifteen numbers of the line with the point p and the direction h."""
    return np.concatenate(
        [[1.0], p, h, [p @ p, p @ h], np.cross(p, h), (p @ p) * h - 2 * (p @ h) * p]
    )


def _motion(R: Array, t: Array) -> Array:
    """Return the matrices (B, 15, 15) by which rotations R and translations t transform lines."""
    S = np.zeros_like(R)  # t ×
    S[:, 0, 1], S[:, 0, 2], S[:, 1, 2] = -t[:, 2], t[:, 1], -t[:, 0]
    S -= S.swapaxes(-1, -2)
    t2 = np.einsum("bi,bi->b", t, t)
    tR = np.einsum("bi,bij->bj", t, R)
    M = np.zeros((len(R), 15, 15))
    M[:, [0, 7, 8], [0, 7, 8]] = 1.0
    for i in (1, 4, 9, 12):
        M[:, i : i + 3, i : i + 3] = R
    M[:, 1:4, 0] = t
    M[:, 7, 0], M[:, 7, 1:4] = t2, 2 * tR
    M[:, 8, 4:7] = tR
    M[:, 9:12, 4:7] = S @ R
    M[:, 12:15, 9:12] = -2 * S @ R
    M[:, 12:15, 4:7] = t2[:, None, None] * R - 2 * t[:, :, None] * tR[:, None, :]
    M[:, 12:15, 8] = -2 * t
    return M


def _rotation(h: Array, p: Array) -> Array:
    """Return the coefficients (3, 15, 15) of 1, cosine and sine in the matrix of a rotation.

    The axis of the rotation has the direction h and the point p.
    """
    there, back = _motion(np.stack([np.eye(3)] * 2), np.stack([p, -p]))
    along = np.outer(h, h)
    K = np.zeros((3, 15, 15))
    K[0, [0, 7, 8], [0, 7, 8]] = 1.0
    for i in (1, 4, 9, 12):
        part = slice(i, i + 3)
        K[0, part, part], K[1, part, part] = along, np.eye(3) - along
        K[2, part, part] = np.cross(h, np.eye(3)).T
    return np.asarray(there @ K @ back)


def _turned(v: Array, turn: Array, angle: Array) -> Array:
    """Return vectors (K, 3) rotated by angles (K,) about an axis, given by its cross product."""
    c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
    side = v @ turn.T
    return np.asarray(v + s * side + (1 - c) * (side @ turn.T))


def _eliminated(left: Array, right: Array) -> tuple[Array, Array, Array]:
    """Eliminate q1 and q2 from fourteen equations.

    Returns:
        Matrices (B, 8, 14) that map the left side minus the constants to the products of cosines
        and sines of q1 and q2; the constants (B, 14) of the right side; and the six remaining
        equations (B, 6, 3, 3, 3) in q3, q4 and q5.
    """
    columns = right.reshape(len(right), 15, 9)[:, 1:]
    constant = columns[..., 0]
    Q, upper = np.linalg.qr(columns[..., 1:], mode="complete")
    rest = Q[..., 8:]
    remaining = np.einsum("bie,bixyz->bexyz", rest, left[:, 1:])
    remaining[:, :, 0, 0, 0] -= np.einsum("bie,bi->be", rest, constant)
    return _solved(upper[:, :8], Q[..., :8].swapaxes(-1, -2)), constant, remaining


def _solved(A: Array, b: Array) -> Array:
    """Return A⁻¹ b for a batch; a singular A gives large entries instead of an error."""
    try:
        return np.asarray(np.linalg.solve(A, b))
    except np.linalg.LinAlgError:
        tiny = 1e-14 * np.abs(A).max(axis=(-1, -2), keepdims=True) + 1e-300
        return np.asarray(np.linalg.solve(A + tiny * np.eye(A.shape[-1]), b))


def _eigen(
    equations: Array, zeros: tuple[float, ...]
) -> tuple[Array, NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Solve six equations (B, 6, 3, 3, 3) in 1, cosine and sine of q3, q4 and q5.

    Returns:
        Angles q3, q4, q5 (B, 24, 3) [rad], which of them are real solutions (B, 24), whether these
        all differ in q3 (B,), and whether the eigenvalue problem is regular (B,).
    """
    bases = []
    for zero in zeros:
        c, s = np.cos(zero), np.sin(zero)
        bases.append(np.array([[1, 0, 0], [0, c, -s], [0, s, c]]) @ _HALF)
    batch = len(equations)
    powers = equations @ bases[2]
    powers = (powers.swapaxes(-1, -2) @ bases[1]).swapaxes(-1, -2)
    powers = np.einsum("bexjk,xi->biejk", powers, bases[0])
    stacked = np.zeros((batch, 3, 12, 4, 3))
    stacked[:, :, :6, :3] = powers
    stacked[:, :, 6:, 1:] = powers  # times tan(q4/2)
    A = stacked.reshape(batch, 3, 12, 12)
    C = np.zeros((batch, 24, 24))
    C[:, :12, 12:] = np.eye(12)
    C[:, 12:] = -_solved(A[:, 2], np.concatenate([A[:, 0], A[:, 1]], axis=-1))
    regular = np.abs(C).max(axis=(-1, -2), initial=0.0) < _LARGEST
    C[~np.isfinite(C).all(axis=(-1, -2))] = 0.0
    t, vectors = np.linalg.eig(C)
    real = np.abs(t.imag) <= _REAL * (1 + np.abs(t))
    # An eigenvector is (v, t v), where v are the products of powers of the tangents of q4 and q5.
    small = (np.abs(t) < 1)[:, None, :]
    v = np.where(small, vectors[:, :12], vectors[:, 12:]).real
    v = v.swapaxes(-1, -2).reshape(batch, 24, 4, 3)
    angles = np.stack(
        [
            2 * np.arctan(t.real),
            _double(v[:, :, :-1], v[:, :, 1:]),
            _double(v[..., :-1], v[..., 1:]),
        ],
        axis=-1,
    )
    apart = np.where(real, angles[..., 0], 10.0 * np.arange(1, 25))
    apart = np.diff(np.sort(apart, axis=1), axis=1).min(axis=1) > _APART
    return angles + np.array(zeros), real, apart, regular


def _double(a: Array, b: Array) -> Array:
    """Return twice the angles (...) whose tangents are b / a, fitted to all entries (..., i, j)."""
    aa, bb, ab = (np.einsum("...ij,...ij->...", x, y) for x, y in ((a, a), (b, b), (a, b)))
    steep = bb > aa
    return np.asarray(2 * np.arctan2(np.where(steep, bb, ab), np.where(steep, ab, aa)))


def _outer(left: Array, known: Array, constant: Array, inner: Array) -> tuple[Array, Array]:
    """Return q1 and q2 (K,) from q3, q4 and q5 (K, 3)."""
    basis = np.stack([np.ones_like(inner), np.cos(inner), np.sin(inner)], axis=-1)
    x, y, z = (basis[:, i] for i in range(3))
    value = np.einsum("kixyz,kz->kixy", left[:, 1:], z)
    value = np.einsum("kixy,kx,ky->ki", value, x, y)
    products = np.einsum("kpi,ki->kp", known, value - constant)
    # The order of the products is c2, s2, c1, c1 c2, c1 s2, s1, s1 c2, s1 s2.
    return (
        np.arctan2(products[:, 5], products[:, 2]),
        np.arctan2(products[:, 1], products[:, 0]),
    )
