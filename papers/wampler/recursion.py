"""W eqs. (12), (16), (20)-(27): partial velocities by recursion in link frames.

With `Counted` numbers, the arithmetic also counts its operations. As in the paper, operations with
zeros that are known from the arm's structure are free, and multiplications by ones are counted
separately.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from supple.papers.style import Array

import supple

# ---- operation-counting numbers ----------------------------------------------------------------


@dataclass
class Tally:
    """Counts of operations; operations with a known zero are free."""

    multiplications: int = 0  # multiplications by numbers other than ±1, and divisions
    by_one: int = 0  # multiplications by ±1
    additions: int = 0


@dataclass(frozen=True)
class Counted:
    """A number that counts operations with itself; exact zeros are free, ones counted apart."""

    value: float
    tally: Tally

    @property
    def is_zero(self) -> bool:
        """Whether the number is a known zero, which makes operations with it free."""
        return self.value == 0

    def __mul__(self, other: Counted) -> Counted:
        if self.is_zero or other.is_zero:
            return Counted(0.0, self.tally)
        if abs(self.value) == 1 or abs(other.value) == 1:
            self.tally.by_one += 1
        else:
            self.tally.multiplications += 1
        return Counted(self.value * other.value, self.tally)

    def __truediv__(self, other: Counted) -> Counted:
        return self * Counted(1 / other.value, self.tally)

    def __add__(self, other: Counted) -> Counted:
        if self.is_zero or other.is_zero:
            return other if self.is_zero else self
        self.tally.additions += 1
        return Counted(self.value + other.value, self.tally)

    def __sub__(self, other: Counted) -> Counted:
        return self + -other

    def __neg__(self) -> Counted:
        return Counted(-self.value, self.tally)


Vector: TypeAlias = Sequence[Counted]
Rows: TypeAlias = Sequence[Vector]


def dot(a: Vector, b: Vector) -> Counted:
    """Return the dot product of two vectors of `Counted` numbers."""
    first, *rest = (x * y for x, y in zip(a, b, strict=True))
    for term in rest:
        first = first + term
    return first


def times(C: Rows, v: Vector) -> list[Counted]:
    """Return the product of a matrix, given by rows, and a vector."""
    return [dot(row, v) for row in C]


def product(A: Rows, B: Rows) -> list[list[Counted]]:
    """Return the product of two matrices, given by rows."""
    columns = list(zip(*B, strict=True))
    return [[dot(row, column) for column in columns] for row in A]


def transpose(A: Rows) -> list[Vector]:
    """Return the rows of the transpose."""
    return list(zip(*A, strict=True))


def values(numbers: Sequence[Vector]) -> Array:
    """Return the values of rows of `Counted` numbers as an array."""
    return np.array([[x.value for x in row] for row in numbers])


# ---- the recursion -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Arm:
    """An arm in the paper's notation: rotational or translational joints, any twists, a tool.

    Attributes:
        a, b: Lengths and offsets of the links (n,). The first n - 1 are those of the paper, and
            the last one is part of the tool. The offset of a translational joint is added to the
            joint's q.
        twists: Twists β (n,) [deg]; multiples of 90 are exact.
        thetas: Constant part of the rotation angles (n,) [deg].
        translational: Mask (n,) of the joints that slide.
        tool: Pose (4, 4) of the tool in the frame of link n.
    """

    a: Array
    b: Array
    twists: Array
    thetas: Array
    translational: Array
    tool: Array

    @classmethod
    def from_table(cls, table: Array, kinds: str, tool: Array | None = None) -> Arm:
        """Return the arm of a standard Denavit-Hartenberg table (a, alpha [deg], d, theta [deg]).

        Of the last row, only theta belongs to the last joint; the rest is part of the tool's pose.
        """
        a, twists, b, thetas = np.asarray(table, dtype=np.float64).T
        slides = np.array([kind == "P" for kind in kinds])
        last = np.eye(4)
        c, s = right_angle(twists[-1])
        last[1:3, 1:3] = ((c, -s), (s, c))
        last[0, 3], last[2, 3] = a[-1], b[-1]
        return cls(a, b, twists, thetas, slides, last if tool is None else last @ tool)

    @classmethod
    def random(cls, rng: np.random.Generator, kinds: str, right_angles: bool = True) -> Arm:
        """Return a random arm; its only known zeros are the cosines of right-angled twists."""
        n = len(kinds)
        turned, _ = np.linalg.qr(rng.normal(size=(3, 3)))
        tool = np.eye(4)
        tool[:3, :3] = turned * np.sign(np.linalg.det(turned))
        tool[:3, 3] = rng.uniform(0.1, 0.3, 3)
        twists = rng.choice([-90.0, 90.0], n) if right_angles else rng.uniform(20, 70, n)
        table = np.stack([*rng.uniform(0.1, 0.5, (1, n)), twists, *rng.uniform(0.1, 0.5, (1, n))])
        return cls.from_table(np.vstack([table, np.zeros(n)]).T, kinds, tool)

    def robot(self) -> supple.Robot:
        """Return the same arm as a supple robot: Wampler's links are rows of the standard table."""
        rows = np.stack([self.a, np.radians(self.twists), self.b, np.radians(self.thetas)], axis=1)
        rows[-1, :3] = 0.0
        kinds = "".join("P" if slides else "R" for slides in self.translational)
        return supple.dh(rows, kinds=kinds).with_tool(self.tool)

    def motion(self, q: Array, tally: Tally | None = None) -> PartialVelocities:
        """Return the vector elements of Ĵ at a configuration, each in its link's frame."""
        tally = tally or Tally()

        def number(x: float) -> Counted:
            return Counted(float(x), tally)

        n, known = len(q), [self._conversion(i, q, number) for i in range(len(q))]
        # p^{R/Q_{n-1}}, from the origin Q_{n-1} to the endpoint R, in the frame of link n. It is
        # constant unless joint n is translational.
        point = [number(x) for x in self.tool[:3, 3]]
        points: list[Vector] = [point] * n
        for i in reversed(range(n)):
            if self.translational[i]:  # (18): the displacement of the joint itself
                point = [point[0], point[1], point[2] + number(q[i])]
            points[i] = point
            if i == 0:
                break
            # (21), (23): the vector across link i, whose offset is constant unless its joint slides
            link = [number(self.a[i - 1]), number(0.0), number(self.b[i - 1])]
            point = [x + y for x, y in zip(times(known[i], point), link, strict=True)]
        tool = [[number(x) for x in row] for row in self.tool[:3, :3]]
        return PartialVelocities(known, points, list(self.translational), tool, number)

    def _conversion(self, i: int, q: Array, number: Callable[[float], Counted]) -> Rows:
        """Return ⁱC^{i+1} of (22), the rotation from link i + 1 to link i with link i's twist."""
        cos, sin = right_angle(self.twists[i - 1]) if i else (1.0, 0.0)
        angle = self.thetas[i] + (0.0 if self.translational[i] else np.degrees(q[i]))
        c, s = right_angle(angle)
        rows = ([c, -s, 0.0], [cos * s, cos * c, -sin], [sin * s, sin * c, cos])
        return [[number(x) for x in row] for row in rows]


def right_angle(degrees: float) -> tuple[float, float]:
    """Return cosine and sine of an angle [deg], exact at multiples of 90."""
    quarters = degrees / 90
    if quarters == round(quarters):
        return ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[round(quarters) % 4]
    return float(np.cos(np.radians(degrees))), float(np.sin(np.radians(degrees)))


@dataclass(frozen=True, eq=False)
class PartialVelocities:
    """The vector elements of Ĵ, column i in the frame of link i.

    Attributes:
        conversions: Rotation matrices ⁱC^{i+1} (n), each from the frame of link i + 1 to that of
            link i. Link 0 is the base.
        points: Vectors p^{R/Q_{i-1}} (n) from the origin Q_{i-1} on joint i's axis to the
            endpoint R, each in the frame of link i.
        translational: Whether each joint slides (n).
        tool: Rotation matrix ⁿC^T from the tool frame T to the frame of link n.
        number: Function that converts a constant to a `Counted` number.
    """

    conversions: list[Rows]
    points: list[Vector]
    translational: list[bool]
    tool: Rows
    number: Callable[[float], Counted]

    def column(self, i: int) -> tuple[list[Counted], list[Counted]]:
        """Return v_i and w_i in the frame of link i by (12), (16) and (20), without arithmetic."""
        zero, one = self.number(0.0), self.number(1.0)
        z = [zero, zero, one]
        if self.translational[i]:
            return z, [zero, zero, zero]
        x, y, _ = self.points[i]
        return [-y, x, zero], z

    def resolved(self, i: int, C: Rows) -> tuple[list[Counted], list[Counted]]:
        """Return v_i and w_i by (27) in another frame, to which C rotates from link i."""
        z = [row[2] for row in C]
        if self.translational[i]:
            return z, [self.number(0.0)] * 3
        x, y, _ = self.points[i]
        return [dot(row[:2], [-y, x]) for row in C], z

    def into(self, frame: str | int) -> list[Rows]:
        """Return the rotations ᴹC^i, (25) and (26), from each link to a frame M.

        M is "base", "tool" or the index of a link. From a link in the middle, the recursion runs
        both toward the base and toward the tool.
        """
        n = len(self.points)
        zero, one = self.number(0.0), self.number(1.0)
        unit: Rows = [[one, zero, zero], [zero, one, zero], [zero, zero, one]]
        if frame == "tool":
            found: list[Rows] = [transpose(self.tool)]
            for i in reversed(range(1, n)):
                found.append(product(found[-1], transpose(self.conversions[i])))
            return found[::-1]
        at = 0 if frame == "base" else int(frame)
        matrices: list[Rows] = [unit] * n
        if frame == "base":
            matrices[0] = self.conversions[0]
        for i in range(at + 1, n):
            inner = matrices[i - 1] is unit
            matrices[i] = (
                self.conversions[i] if inner else product(matrices[i - 1], self.conversions[i])
            )
        for i in reversed(range(at)):
            back = transpose(self.conversions[i + 1])
            matrices[i] = back if matrices[i + 1] is unit else product(matrices[i + 1], back)
        return matrices

    def jacobian(self, frame: str | int = "tool") -> list[list[Counted]]:
        """Return the columns of Ĵ (n, 6), resolved in a frame by (27)."""
        parts = [self.resolved(i, C) for i, C in enumerate(self.into(frame))]
        return [[*v, *w] for v, w in parts]

    def torques(self, wrench: Vector) -> list[Counted]:
        """Return τ = Ĵᵀ[f; t] (n), (24), for a wrench in the tool's axes.

        The force and the torque are converted from link to link, and each dot product with a column
        uses the zeros and ones of that column.
        """
        f, t = times(self.tool, wrench[:3]), times(self.tool, wrench[3:])
        torques = []
        for i in reversed(range(len(self.points))):
            if self.translational[i]:
                torques.append(f[2])
            else:
                x, y, _ = self.points[i]
                torques.append(x * f[1] - y * f[0] + t[2])
            f, t = times(self.conversions[i], f), times(self.conversions[i], t)
        return torques[::-1]


# ---- damped least squares ----------------------------------------------------------------------


def damped(columns: Sequence[Vector], task: Vector, damping: Counted) -> list[Counted]:
    """Return the solution of (ĴᵀĴ + α²I) q̇ = Ĵᵀv̂, (47) and (48), by Cholesky's method as L D Lᵀ.

    Args:
        columns: Columns of Ĵ (n, m).
        task: v̂ (m,).
        damping: α².
    """
    n = len(columns)
    x = [dot(column, task) for column in columns]
    P = [[dot(columns[i], columns[j]) if j <= i else damping for j in range(n)] for i in range(n)]
    for i in range(n):
        P[i][i] = P[i][i] + damping
    for j in range(n):  # P = L D Lᵀ in place: D on the diagonal, L below it
        for i in range(j + 1, n):
            scaled = P[i][j]
            P[i][j] = scaled / P[j][j]
            for k in range(j + 1, i + 1):
                P[i][k] = P[i][k] - scaled * P[k][j] if k < i else P[i][i] - scaled * P[i][j]
    for i in range(n):
        for k in range(i):
            x[i] = x[i] - P[i][k] * x[k]
    for i in reversed(range(n)):
        x[i] = x[i] / P[i][i]
        for k in range(i + 1, n):
            x[i] = x[i] - P[k][i] * x[k]
    return x


def eliminated(columns: Sequence[Vector], task: Vector) -> list[Counted]:
    """Return the solution of Ĵ q̇ = v̂ with square Ĵ by elimination, rows with few nonzeros first.

    Args:
        columns: Columns of Ĵ (n, n), not singular.
        task: v̂ (n,).
    """
    rows = [[*row, x] for row, x in zip(transpose(columns), task, strict=True)]
    left = list(range(len(rows)))
    order: list[tuple[int, int]] = []
    while left:
        # The pivot with the cheapest elimination: a sparse row, and a column with few nonzeros.
        def cost(place: tuple[int, int]) -> tuple[int, int]:
            i, j = place
            inside = sum(not rows[i][k].is_zero for k in range(len(task)))
            return inside, sum(not rows[k][j].is_zero for k in left)

        taken = {j for _, j in order}
        places = [
            (i, j)
            for i in left
            for j in range(len(task))
            if j not in taken and abs(rows[i][j].value) > 1e-9
        ]
        i, j = min(places, key=cost)
        left.remove(i)
        order.append((i, j))
        for k in left:
            if not rows[k][j].is_zero:
                ratio = rows[k][j] / rows[i][j]
                for c in range(len(task) + 1):
                    if c == j:
                        rows[k][c] = Counted(0.0, ratio.tally)
                    elif c not in taken:
                        rows[k][c] = rows[k][c] - ratio * rows[i][c]
    x: dict[int, Counted] = {}
    for i, j in reversed(order):
        rest = rows[i][-1]
        for k, known in x.items():
            rest = rest - rows[i][k] * known
        x[j] = rest / rows[i][j]
    return [x[j] for j in range(len(task))]


def by_wrist(
    motion: PartialVelocities, twist: Vector, frames: tuple[int, int], damping: Counted | None
) -> list[Counted]:
    """Return the joint speeds of a six-joint arm with a spherical wrist, by two problems.

    As in the paper's remarks, joints 1 to 3 produce the velocity of the wrist's center, and joints
    4 to 6 the remaining angular velocity.

    Args:
        motion: Partial velocities of an arm whose endpoint R is the wrist's center.
        twist: v̂ at R, in the frame of the first problem.
        frames: Indices of the links whose frames the two problems are solved in.
        damping: α² of both problems; None for the exact solution.
    """

    def solve(columns: Sequence[Vector], task: Vector) -> list[Counted]:
        return eliminated(columns, task) if damping is None else damped(columns, task, damping)

    into = motion.into(frames[0])
    parts = [motion.resolved(i, into[i]) for i in range(3)]
    first = solve([v for v, _ in parts], twist[:3])
    rest = list(twist[3:])
    for speed, (_, axis) in zip(first, parts, strict=True):
        rest = [x - a * speed for x, a in zip(rest, axis, strict=True)]
    turned = times(transpose(into[frames[1]]), rest)  # from the first frame to the second
    wrist = motion.into(frames[1])
    last = solve([motion.resolved(i, wrist[i])[1] for i in range(3, 6)], turned)
    return [*first, *last]


# ---- the Stanford arm --------------------------------------------------------------------------


def stanford(endpoint: float) -> Arm:
    """Return the built-in Stanford arm with R at `endpoint` [m] beyond the wrist's center."""
    rows = [(0, -90, 0.412, 0), (0, 90, 0.154, 0), (0, 0, 0, -90), (0, -90, 0, 0), (0, 90, 0, 0)]
    return Arm.from_table(np.array([*rows, (0, 0, endpoint, 0)]), "RRPRRR")


def stanford_counts() -> dict[str, Tally]:
    """Count the operations for the Stanford arm's joint rates, in the cheapest link frames.

        "wrist"          the exact solution, two problems of three joints
        "damped"         damped least squares of all six joints, with the tool's endpoint
        "damped_wrist"   damped least squares of two problems of three joints

    Each count includes the computation of the partial velocities. v̂ is given in the frame of the
    (first) problem; if the problem is split, v̂ is the velocity at the wrist's center.
    """
    q, twist = np.array([0.3, 0.5, 0.7, 0.4, 0.6, 0.8]), np.array([0.3, -0.4, 0.5, 0.7, 0.2, -0.6])
    links = range(6)

    def split(frames: tuple[int, int], alpha2: float | None) -> Tally:
        tally = Tally()
        damping = None if alpha2 is None else Counted(alpha2, tally)
        task = [Counted(x, tally) for x in twist]
        by_wrist(stanford(0.0).motion(q, tally), task, frames, damping)
        return tally

    def whole(frame: int) -> Tally:
        tally = Tally()
        columns = stanford(0.263).motion(q, tally).jacobian(frame)
        damped(columns, [Counted(x, tally) for x in twist], Counted(0.01, tally))
        return tally

    def total(tally: Tally) -> int:
        return tally.multiplications + tally.additions

    pairs = [(i, j) for i in links for j in (3, 4, 5)]
    return {
        "wrist": min((split(pair, None) for pair in pairs), key=total),
        "damped": min((whole(i) for i in links), key=total),
        "damped_wrist": min((split(pair, 0.01) for pair in pairs), key=total),
    }
