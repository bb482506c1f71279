"""W eqs. (20)-(27): the partial-velocity matrix by recursion in link frames, and its cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from supple.papers import style
from supple.papers.experiment import Claim, Outcome, Progress, each, experiment
from supple.papers.style import Array

import supple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

JOINTS = (2, 3, 6, 7, 10)
RIGHT_ANGLES = {90.0: (0.0, 1.0), -90.0: (0.0, -1.0)}  # cosine and sine, exactly


# ---- operation-counting numbers ----------------------------------------------------------------


@dataclass
class Tally:
    """Counts of operations; operations with a zero are free."""

    multiplications: int = 0  # multiplications by numbers other than ±1
    by_one: int = 0  # by ±1
    additions: int = 0


@dataclass(frozen=True)
class Counted:
    """A number that counts its operations. Only *known* zeros and ones count as such."""

    value: float
    tally: Tally

    @property
    def is_zero(self) -> bool:
        """Whether operations with it are free."""
        return self.value == 0

    def __mul__(self, other: Counted) -> Counted:
        if self.is_zero or other.is_zero:
            return Counted(0.0, self.tally)
        if abs(self.value) == 1 or abs(other.value) == 1:
            self.tally.by_one += 1
        else:
            self.tally.multiplications += 1
        return Counted(self.value * other.value, self.tally)

    def __add__(self, other: Counted) -> Counted:
        if self.is_zero or other.is_zero:
            return other if self.is_zero else self
        self.tally.additions += 1
        return Counted(self.value + other.value, self.tally)

    def __neg__(self) -> Counted:
        return Counted(-self.value, self.tally)


Vector = Sequence[Counted]


def dot(a: Vector, b: Vector) -> Counted:
    """Return the dot product of two vectors of counting numbers."""
    first, *rest = (x * y for x, y in zip(a, b, strict=True))
    for term in rest:
        first = first + term
    return first


# ---- the recursion -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Arm:
    """Revolute joints with right-angle twists, and a tool anywhere on the last link.

    Attributes:
        a, b: Lengths and offsets of the links between joints (n - 1,).
        twists: Their twists (n - 1,) [deg]: 90 or -90.
        tool: Pose (4, 4) of the tool in the last link's frame.
    """

    a: Array
    b: Array
    twists: Array
    tool: Array

    @classmethod
    def random(cls, rng: np.random.Generator, n: int) -> Arm:
        """Return an arm of n joints in which only the numbers of right angles are zero."""
        tool = np.eye(4)
        tool[:3, :3] = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        tool[:3, 2] *= np.linalg.det(tool[:3, :3])
        tool[:3, 3] = rng.uniform(0.1, 0.3, 3)
        a, b = rng.uniform(0.1, 0.5, (2, n - 1))
        return cls(a, b, rng.choice([-90.0, 90.0], n - 1), tool)

    def robot(self) -> supple.Robot:
        """Return the same arm as a supple robot: his links are rows of the standard table."""
        rows = [
            (a, np.radians(twist), b, 0.0)
            for a, twist, b in zip(self.a, self.twists, self.b, strict=True)
        ]
        return supple.dh([*rows, (0.0, 0.0, 0.0, 0.0)]).with_tool(self.tool)

    def partial_velocities(self, q: Array, tally: Tally) -> Array:
        """Return Ĵ (6, n) at the tool's point, in the tool's frame."""

        def number(x: float) -> Counted:
            return Counted(float(x), tally)

        point = [number(x) for x in self.tool[:3, 3]]  # p^{R/Q_{n-1}} in link n
        turned = [[number(x) for x in row] for row in self.tool[:3, :3]]  # ⁿC^T
        columns = []
        for i in reversed(range(len(q))):
            # (20): z × p is a rearrangement. (27): to the tool's frame, by the transpose of ⁱC^T.
            velocity = [-point[1], point[0]]
            v = [dot(velocity, [turned[0][k], turned[1][k]]) for k in range(3)]
            columns.append([x.value for x in (*v, *turned[2])])  # (12): w is z_i
            if i == 0:
                break
            # (22), with what is known of a right angle
            c, s = np.cos(q[i]), np.sin(q[i])
            cos, sin = RIGHT_ANGLES[self.twists[i - 1]]
            C = [
                [number(x) for x in row]
                for row in ([c, -s, 0.0], [cos * s, cos * c, -sin], [sin * s, sin * c, cos])
            ]
            offset = [number(self.a[i - 1]), number(0.0), number(self.b[i - 1])]
            point = [dot(row, point) + x for row, x in zip(C, offset, strict=True)]  # (21), (23)
            turned = [  # (26)
                [dot(row, [turned[j][k] for j in range(3)]) for k in range(3)] for row in C
            ]
        return np.array(columns[::-1]).T


# ---- the experiment ----------------------------------------------------------------------------


@experiment(
    "w-counts",
    paper="W",
    figure="Comparison to other methods",
    title="What the partial-velocity matrix costs by recursion in link frames",
    deviations=(
        "Counted by numbers that tell what is done with them, in a transcription of (20)-(27). "
        "supple's kernel makes the same matrix in world axes, from poses, another way; what that "
        "takes is counted in the kernel itself and given beside.",
        "Sines and cosines are not counted, as in the paper; changes of sign are free.",
    ),
)
def counts(progress: Progress) -> Outcome:
    """Arms of 2 to 10 revolute joints with right-angle twists, all other dimensions random; the
    result is compared with `Robot.jacobian` in the tool's frame.
    """
    rng = np.random.default_rng(4)
    tallies, kernel, off = {}, {}, 0.0
    for n in each(JOINTS, progress):
        arm, q, tallies[n] = Arm.random(rng, n), rng.uniform(-3, 3, n), Tally()
        found = arm.partial_velocities(q, tallies[n])
        kernel[n] = arm.robot().operations()
        off = max(off, float(np.abs(found - arm.robot().jacobian(q, axes="body")).max()))
    with_ones = {n: t.multiplications + t.by_one for n, t in tallies.items()}
    without = {n: t.multiplications for n, t in tallies.items()}
    additions = {n: t.additions for n, t in tallies.items()}
    quantities = {
        f"n{n}.{name}": float(values[n])
        for n in JOINTS
        for name, values in (
            ("multiplications", with_ones),
            ("multiplications_without_ones", without),
            ("additions", additions),
            ("kernel_multiplications", {n: count[0] for n, count in kernel.items()}),
            ("kernel_additions", {n: count[1] for n, count in kernel.items()}),
        )
    } | {"max_difference": off}
    line = "n = " + ", ".join(map(str, JOINTS)) + ": "

    def listed(values: dict[int, int]) -> str:
        return line + ", ".join(str(values[n]) for n in JOINTS)

    claims = (
        Claim(
            "26n - 20 multiplications",
            listed(with_ones),
            all(with_ones[n] == 26 * n - 20 for n in JOINTS),
            "5 for each vector that changes frames, of which a step has four, and 6 a column",
        ),
        Claim(
            "13n - 10 additions",
            listed(additions),
            all(additions[n] == 13 * n - 10 for n in JOINTS),
            "2 for each vector, 2 for the link, 3 a column",
        ),
        Claim(
            "22n - 16 multiplications if those by ±1 are excluded",
            listed(without),
            all(without[n] == 22 * n - 16 for n in JOINTS),
            "a right-angle twist leaves one ±1 in each frame change of a vector",
        ),
        Claim(
            "compares favourably with Orin & Shrader's 30n - 25 and 15n - 25",
            "fewer multiplications at every n, more additions up to n = 7; supple's kernel, the "
            f"tool's pose included, takes more for n = 6: {kernel[6][0]} and {kernel[6][1]}",
            all(with_ones[n] < 30 * n - 25 for n in JOINTS)
            and all(with_ones[n] + additions[n] < 45 * n - 50 for n in JOINTS if n >= 6),
            "in sum fewer from n = 4 on: 39n - 30 against 45n - 50. The kernel turns whole poses "
            "in the world, which fused multiply-adds do in pairs",
        ),
    )
    return Outcome(quantities, claims, _figure(with_ones, without, additions, kernel))


def _figure(
    with_ones: dict[int, int],
    without: dict[int, int],
    additions: dict[int, int],
    kernel: dict[int, tuple[int, int]],
) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        figure.set_size_inches(9.5, 4.6)
        left, right = figure.subplots(1, 2, sharey=True)
        n = np.array([1.5, 10.5])
        for ax, rows in (
            (left, ((with_ones, 26, 20, "Wampler"), (without, 22, 16, "without those by ±1"))),
            (right, ((additions, 13, 10, "Wampler"),)),
        ):
            for k, (values, slope, less, label) in enumerate(rows):
                look = style.style_of(k)
                ax.plot(n, slope * n - less, label=f"{label}, {slope}n - {less}", **look)
                ax.plot(list(values), list(values.values()), "o", color=look["color"], ms=7)
        for k, (ax, slope) in enumerate(((left, 30), (right, 15))):
            label = f"Orin & Shrader, {slope}n - 25"
            ax.plot(n, slope * n - 25, color=style.GREY, linewidth=1.2, label=label)
            label = "supple's kernel, and the tool's pose"
            ax.plot(JOINTS, [kernel[j][k] for j in JOINTS], "s", color=style.GREEN, label=label)
            ax.plot([], [], "ko", ms=6, label="counted here")
            ax.legend(loc="upper left")
            ax.set_ylim(0)
        style.titled(left, "Multiplications", "joints n", "operations for one Jacobian")
        style.titled(right, "Additions", "joints n", "operations for one Jacobian")

    return draw
