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

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from supple.kinematics import Robot
from supple.kinematics.arrays import FloatArray
from supple.kinematics.structure import Structure
from supple.motion.linearization import Array

Flags: TypeAlias = NDArray[np.bool_]

# Coefficients of 1, cos q and sin q, each times 1 + t², as polynomials in t = tan(q/2).
_HALF = np.array([[1.0, 0.0, 1.0], [1.0, 0.0, -1.0], [0.0, 2.0, 0.0]])
# Angles of q3, q4 and q5 [rad] from which half-angle tangents are measured. Half a turn away from
# them a tangent is infinite; a target with such a solution is solved again with the next set.
_ZEROS = ((0.7, -1.1, 0.4), (-1.3, 0.5, 2.2), (2.9, -2.4, -1.7))
# Largest entry of the matrix of the eigenvalue problem; above it, the problem counts as singular.
# Errors of eigenvalues grow with the square of this entry: one factor is due to the equations, one
# to the matrix.
_LARGEST = 1e4
# Imaginary part, relative to 1 + |t|, up to which an eigenvalue t gives a candidate.
_REAL = 1e-4
# Factors for the error of an eigenvalue. A complex pair of eigenvalues may stand for real solutions
# if its imaginary part is below _DOUBLE times the square root of the error. Eigenvectors are not
# accurate if two eigenvalues differ by less than _APART times the error.
_DOUBLE, _APART = 10.0, 1e3
_EPSILON = float(np.finfo(np.float64).eps)
_EYE = np.eye(12)
_ELSEWHERE = 1e3 * _LARGEST * np.arange(1, 25)  # distinct numbers far from all eigenvalues
# Matrices (n², 3) that map the Gram matrix of n terms to the sums of a·a, b·b and a·b over all
# pairs of neighboring terms a, b.
_NEIGHBORS = {
    n: np.stack(
        [np.diag(np.arange(n) < n - 1), np.diag(np.arange(n) > 0), np.eye(n, k=1)], axis=-1
    ).reshape(n * n, 3)
    for n in (3, 4)
}
_TRIALS = 32  # number of random configurations on which the numberings are tested
_REGULAR = 0.8  # fraction of them at which a numbering must be regular
_RECOVERED = 1e-3  # largest error of a configuration that counts as recovered from its pose [rad]
_CHUNK = 4096  # number of poses that are solved at a time; each takes some 20 kB


@dataclass(frozen=True, eq=False)
class GeneralArm:
    """An arm with six revolute joints, whose joints are numbered cyclically from `start` on.

    X is the displacement of the frame, which depends on the target. In some numberings X is on the
    right side of the equations, in others X⁻¹ is on the left side. The other side is the same for
    all targets.

    Attributes:
        start: Index of the joint that is number 1.
        on_left: Whether X⁻¹ is on the left side.
        fixed: Coefficients (14, 9) or (14, 27) of the side without X, for the products of 1, cosine
            and sine of q1 and q2, or of q3, q4 and q5. The first of 15 rows, 1 = 1, is omitted.
        elimination: Elimination of q1 and q2, if these are on the side without X.
        before: Coefficients (p, 15, 15) of the rotations that act after X.
        after: Coefficients (15, r) of the line, moved by the rotations that act before X.
        turns: Matrices (5, 3, 3) of the cross products with the directions of axes 1 to 5.
        squares: Their squares (5, 3, 3).
        across: Two vectors (2, 3) orthogonal to axis 6, of the same length; a rotation by 90° about
            axis 6 maps the first to the second.
        center: Mean (3,) of the points on the axes [m], the origin of the coordinates of lines.
        length: Half the length of the arm [m], the unit of the coordinates of lines.
        home: Inverse (4, 4) of the pose of the frame at q = 0.
    """

    start: int
    on_left: bool
    fixed: Array
    elimination: Elimination | None
    before: Array
    after: Array
    turns: Array
    squares: Array
    across: Array
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
        inverse = K * np.array([1.0, 1.0, -1.0])[:, None, None]
        on_left = start in (1, 2, 3)
        # The rotations of each side, in the order in which they act; X acts after some of them.
        left, right = (K[4], K[3], K[2]), (inverse[0], inverse[1])
        moved, still = (left, right) if on_left else (right, left)
        already = start - 1 if on_left else -start % 6
        line, identity = _line(points[5], axes[5]), np.eye(15)
        fixed = (_product(still, not on_left) @ line).T[1:]
        turns = np.cross(axes[:, None], np.eye(3)).swapaxes(-1, -2)
        across = turns[5][:, np.argmax(np.abs(turns[5]).sum(axis=0))]
        return GeneralArm(
            start,
            on_left,
            fixed,
            _eliminated(fixed[None]) if on_left else None,
            _product(moved[already:], on_left) if already < len(moved) else identity[None],
            (_product(moved[:already], on_left) @ line).T if already else line[:, None],
            turns[:5],
            turns[:5] @ turns[:5],
            np.stack([across, turns[5] @ across]),
            center,
            length,
            np.linalg.inv(np.asarray(home, dtype=np.float64)),
        )

    def displacements(self, poses: FloatArray) -> tuple[Array, Array]:
        """Return X for poses (B, 4, 4): rotations (B, 3, 3) and translations (B, 3).

        Translations are in the coordinates of lines (`center`, `length`).
        """
        X = np.asarray(poses, dtype=np.float64) @ self.home
        R = X[:, :3, :3]
        return R, (X[:, :3, 3] + R @ self.center - self.center) / self.length

    def candidates(
        self, poses: FloatArray, zeros: tuple[float, ...] = _ZEROS[0]
    ) -> tuple[Array, NDArray[np.int32], Flags]:
        """Return candidates for the solutions of poses (B, 4, 4).

        Args:
            poses: Poses of the frame.
            zeros: Angles (3,) of q3, q4 and q5 from which half-angle tangents are measured [rad].

        Returns:
            Configurations (K, 6) [rad] of all poses in order, their number for each pose (B,), and
            whether they contain all solutions of the pose (B,).
        """
        R, t = self.displacements(poses)
        left, right = self.equations(R, t)
        of12 = self.elimination or _eliminated(right)
        remaining = of12.rest @ left
        remaining[..., 0] -= (of12.rest @ of12.constant[..., None])[..., 0]
        pose, inner, certain = _eigen(remaining, zeros)
        certain &= np.abs(of12.known).max(axis=(-1, -2)) < _LARGEST
        q = np.empty((len(pose), 6))
        q[:, 2:5] = inner
        q[:, 0], q[:, 1] = of12.angles(left, inner, pose)
        q[:, 5] = self._last(R[pose], q[:, :5])
        made = q[:, (np.arange(6) - self.start) % 6]
        return made, np.bincount(pose, minlength=len(poses)).astype(np.int32), certain

    def equations(self, R: Array, t: Array) -> tuple[Array, Array]:
        """Return both sides of the fourteen equations for displacements X.

        The left side E3 E4 E5 line is (B, 14, 27): coefficients of the products of 1, cosine and
        sine of q3, q4 and q5. The right side E2⁻¹ E1⁻¹ X line is (B, 14, 9): those of q1 and q2. In
        other numberings X is at another place on the right, or X⁻¹ on the left. The side without X
        is the same for all targets, (1, 14, ...).
        """
        if self.on_left:
            R = R.swapaxes(-1, -2)
            t = -(R @ t[..., None])[..., 0]
        side = self.before.reshape(-1, 15) @ (_motion(R, t) @ self.after)
        side = side.reshape(len(R), -1, 15, self.after.shape[1])
        side = side.transpose((0, 2, 1, 3) if self.on_left else (0, 2, 3, 1))
        side = side[:, 1:].reshape(len(R), 14, -1)
        return (side, self.fixed[None]) if self.on_left else (self.fixed[None], side)

    def _last(self, R: Array, q: Array) -> Array:
        """Return the last angles (K,) from the others (K, 5) and the rotations of X (K, 3, 3).

        X, followed by the inverses of the other rotations, rotates a vector orthogonal to axis 6 by
        this angle.
        """
        place = -self.start % 6  # X acts after this number of rotations
        across, side = self.across
        s, c = np.sin(q)[..., None, None], np.cos(q)[..., None, None]
        back = _EYE[:3, :3] - s * self.turns + (1 - c) * self.squares
        turned = np.broadcast_to(across[:, None], (len(q), 3, 1))
        for i in range(6):
            if i == place:
                turned = R @ turned
            if i < 5:
                turned = back[:, i] @ turned
        turned = turned[..., 0]
        return np.asarray(np.arctan2(turned @ side, turned @ across))


@dataclass(frozen=True, eq=False)
class Elimination:
    """The elimination of q1 and q2 from fourteen equations.

    All arrays have a first axis of targets (B, ...), or (1, ...) if they are equal for all targets.

    Attributes:
        rest: Combinations (B, 6, 14) of the equations that do not contain q1 and q2.
        known: Matrices (B, 4, 14) that map the left side minus the constants to the cosine and sine
            of q2 and of q1.
        constant: Constants (B, 14) of the right side.
    """

    rest: Array
    known: Array
    constant: Array

    def angles(self, left: Array, inner: Array, pose: NDArray[np.intp]) -> tuple[Array, Array]:
        """Return q1 and q2 (K,) from q3, q4 and q5 (K, 3) of the poses with indices `pose` (K,)."""

        def of(side: Array) -> Array:
            return side if len(side) == 1 else side[pose]

        x, y, z = np.stack([np.ones_like(inner), np.cos(inner), np.sin(inner)]).transpose(2, 1, 0)
        products = (x[:, :, None, None] * y[:, None, :, None] * z[:, None, None]).reshape(-1, 27, 1)
        value = of(self.known) @ (of(left) @ products - of(self.constant)[..., None])
        c2, s2, c1, s1 = value[..., 0].T
        return np.arctan2(s1, c1), np.arctan2(s2, c2)


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
        candidates, count, complete = general_candidates((arm,), poses)
        of = np.repeat(np.arange(_TRIALS), count)
        off = np.abs((candidates - inner[of] + np.pi) % (2 * np.pi) - np.pi).max(axis=1)
        nearest = np.full(_TRIALS, np.pi)
        np.minimum.at(nearest, of, off)
        if complete.mean() > _REGULAR and nearest.max() < _RECOVERED:
            found.append((float(np.median(nearest)), start, arm))
    return tuple(arm for _, _, arm in sorted(found, key=lambda one: one[:2]))


def general_candidates(
    arms: tuple[GeneralArm, ...], poses: FloatArray
) -> tuple[Array, NDArray[np.int32], Flags]:
    """Return candidates as `GeneralArm.candidates` does, for several numberings of an arm.

    A pose is solved with one numbering after the other, and with all zeros of half-angle tangents,
    until its solutions are complete.
    """
    parts: list[Array] = []
    owners: list[NDArray[np.intp]] = []
    complete = np.zeros(len(poses), dtype=np.bool_)
    for arm, zeros in product(arms, _ZEROS):
        left = np.nonzero(~complete)[0]
        if not len(left):
            break
        for first in range(0, len(left), _CHUNK):
            some = left[first : first + _CHUNK]
            q, count, complete[some] = arm.candidates(poses[some], zeros)
            if len(some) == len(poses) and complete.all():
                return q, count, complete
            parts.append(q)
            owners.append(np.repeat(some, count))
    if not parts:
        return np.empty((0, 6)), np.zeros(len(poses), dtype=np.int32), complete
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    count = np.bincount(owner, minlength=len(poses)).astype(np.int32)
    return np.concatenate(parts)[order], count, complete


def _line(p: Array, h: Array) -> Array:
    """Return the fifteen numbers of the line with the point p and the direction h."""
    return np.concatenate(
        [[1.0], p, h, [p @ p, p @ h], np.cross(p, h), (p @ p) * h - 2 * (p @ h) * p]
    )


def _motion(R: Array, t: Array) -> Array:
    """Return the matrices (B, 15, 15) by which rotations R and translations t transform lines."""
    S = np.zeros_like(R)  # matrices of the cross products with t
    S[:, 0, 1], S[:, 0, 2], S[:, 1, 2] = -t[:, 2], t[:, 1], -t[:, 0]
    S -= S.swapaxes(-1, -2)
    SR, tR = S @ R, (t[:, None] @ R)[:, 0]
    t2 = (t * t).sum(axis=1)
    M = np.zeros((len(R), 15, 15))
    M[:, 0, 0] = M[:, 7, 7] = M[:, 8, 8] = 1.0
    for i in (1, 4, 9, 12):
        M[:, i : i + 3, i : i + 3] = R
    M[:, 1:4, 0] = t
    M[:, 7, 0], M[:, 7, 1:4] = t2, 2 * tR
    M[:, 8, 4:7] = tR
    M[:, 9:12, 4:7] = SR
    M[:, 12:15, 9:12] = -2 * SR
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


def _product(rotations: Sequence[Array], last_is_slowest: bool) -> Array:
    """Return the coefficients (3^k, 15, 15) of the product of k rotations (3, 15, 15).

    The rotations are in the order in which they act. Along the axis of 3^k, the terms of the last
    rotation vary slowest if `last_is_slowest`, else fastest.
    """
    made = np.eye(15)[None]
    for one in rotations:
        pair = one[:, None] @ made if last_is_slowest else one @ made[:, None]
        made = pair.reshape(-1, 15, 15)
    return made


def _eliminated(right: Array) -> Elimination:
    """Eliminate q1 and q2 from fourteen equations with the right sides (B, 14, 9)."""
    Q, upper = np.linalg.qr(right[..., 1:], mode="complete")
    Q = Q.swapaxes(-1, -2)
    # The order of the products is c2, s2, c1, c1 c2, c1 s2, s1, s1 c2, s1 s2.
    known = _solved(upper[:, :8], Q[:, :8])[:, [0, 1, 2, 5]]
    return Elimination(Q[:, 8:], known, right[..., 0])


def _solved(A: Array, b: Array) -> Array:
    """Return A⁻¹ b for a batch; a singular A gives large entries instead of an error."""
    try:
        return np.asarray(np.linalg.solve(A, b))
    except np.linalg.LinAlgError:
        tiny = 1e-14 * np.abs(A).max(axis=(-1, -2), keepdims=True) + 1e-300
        k = np.arange(A.shape[-1])
        dense = np.cos(np.outer(k, k + 1))  # with a diagonal change, A may remain singular
        return np.asarray(np.linalg.solve(A + tiny * dense, b))


@lru_cache
def _powers(zeros: tuple[float, ...]) -> Array:
    """Return the matrix (27, 27) that maps coefficients of cosines and sines to those of tangents.

    The coefficients are those of products of 1, cosine and sine of three angles, and of products of
    powers of their half-angle tangents.
    """
    made = np.eye(1)
    for zero in zeros:
        c, s = np.cos(zero), np.sin(zero)
        made = np.kron(made, np.array([[1, 0, 0], [0, c, -s], [0, s, c]]) @ _HALF)
    return made


def _eigen(equations: Array, zeros: tuple[float, ...]) -> tuple[NDArray[np.intp], Array, Flags]:
    """Solve six equations (B, 6, 27) in the products of 1, cosine and sine of q3, q4 and q5.

    Returns:
        The pose (K,) of each solution, its angles q3, q4, q5 (K, 3) [rad], and whether these are
        all solutions of the pose (B,): the eigenvalue problem is regular, and its eigenvalues are
        separate.
    """
    batch = len(equations)
    powers = (equations @ _powers(zeros)).reshape(batch, 6, 3, 3, 3).swapaxes(1, 2)
    stacked = np.zeros((batch, 3, 12, 4, 3))
    stacked[:, :, :6, :3] = powers
    stacked[:, :, 6:, 1:] = powers  # times tan(q4/2)
    A = stacked.reshape(batch, 3, 12, 12)
    C = np.zeros((batch, 24, 24))
    C[:, :12, 12:] = _EYE
    C[:, 12:] = -_solved(A[:, 2], A[:, :2].swapaxes(1, 2).reshape(batch, 12, 24))
    largest = np.abs(C).max(axis=(-1, -2))
    regular = largest < _LARGEST
    if not regular.all():
        C[~np.isfinite(largest)] = 0.0
    t, vectors = np.linalg.eig(C)
    off_axis = np.abs(t.imag) / (1 + np.abs(t))
    pose, which = np.nonzero(off_axis <= _REAL)
    # An eigenvector is (v, t v), where v are the products of powers of the tangents of q4 and q5.
    real, vector = t.real[pose, which], vectors[pose, :, which].real
    v = np.where(np.abs(real[:, None]) < 1, vector[:, :12], vector[:, 12:]).reshape(-1, 4, 3)
    across = v.swapaxes(-1, -2)
    angles = np.stack([2 * np.arctan(real), _double(v @ across), _double(across @ v)], axis=-1)
    error = _EPSILON * np.minimum(largest, _LARGEST) ** 2
    is_complex = off_axis > 0
    doubtful = is_complex & (off_axis <= _DOUBLE * np.sqrt(error)[:, None])
    on_axis = np.where(is_complex, _ELSEWHERE, t.real)
    on_axis.sort(axis=1)
    gap = (on_axis[:, 1:] - on_axis[:, :-1]).min(axis=1)
    certain = regular & ~doubtful.any(axis=1) & (gap > _APART * error)
    return pose, angles + zeros, certain


def _double(gram: Array) -> Array:
    """Return 2 arctan(r) (K,) [rad], with the ratios r of K geometric sequences of n vectors.

    The ratio b / a is fitted to all pairs of neighboring terms a, b, from their Gram matrices
    (K, n, n).
    """
    n = gram.shape[-1]
    aa, bb, ab = (gram.reshape(-1, n * n) @ _NEIGHBORS[n]).T
    steep = bb > aa
    return np.asarray(2 * np.arctan2(np.where(steep, bb, ab), np.where(steep, ab, aa)))
