"""W eqs. (20)-(27): the partial-velocity matrix by recursion in link frames, and its cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from supple.papers import style
from supple.papers.experiment import Claim, Outcome, Progress, Table, each, experiment
from supple.papers.wampler.recursion import Arm, Counted, Tally, stanford_counts, times
from supple.papers.wampler.recursion import values as values_of

from supple.plot import palette

if TYPE_CHECKING:
    from matplotlib.figure import Figure

JOINTS = (2, 3, 6, 7, 10)
STANFORD = (
    ("wrist", "the Stanford arm inverted by its spherical wrist", 42, 28),
    ("damped", "the Stanford arm by damped least squares", 210, 140),
    ("damped_wrist", "the Stanford arm by damped least squares in two parts", 66, 38),
)


@experiment(
    "w-counts",
    paper="W",
    figure="Comparison to other methods",
    title="What the partial-velocity matrix costs by recursion in link frames",
    deviations=(
        "Operations are counted by numbers that record each operation, in a transcription of "
        "(20)-(27). supple's kernel computes the same matrix in world axes from poses; its "
        "operations are counted in the kernel and reported for comparison.",
        "Sines and cosines are not counted, as in the paper; changes of sign are free.",
    ),
)
def counts(progress: Progress) -> Outcome:
    """Operations are counted for arms of 2 to 10 revolute joints with right-angle twists; all other
    dimensions are random. The result is compared with `Robot.jacobian` in the tool's frame.
    """
    rng = np.random.default_rng(4)
    tallies, base, pose, kernel, off = {}, {}, {}, {}, 0.0
    for n in each(JOINTS, progress):
        arm, q = Arm.random(rng, "R" * n), rng.uniform(-3, 3, n)
        tallies[n], base[n], pose[n] = Tally(), Tally(), Tally()
        found = values_of(arm.motion(q, tallies[n]).jacobian("tool")).T
        kernel[n] = arm.robot().operations()
        off = max(off, float(np.abs(found - arm.robot().jacobian(q, axes="body")).max()))
        arm.motion(q, base[n]).jacobian("base")
        arm.motion(q, pose[n]).into("base")  # (21) and (26): position and orientation of the tool
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
            ("base_multiplications", {n: t.multiplications + t.by_one for n, t in base.items()}),
            ("base_additions", {n: t.additions for n, t in base.items()}),
            ("pose_operations", {n: _all(t) for n, t in pose.items()}),
            ("base_operations", {n: _all(t) for n, t in base.items()}),
            ("kernel_multiplications", {n: count[0] for n, count in kernel.items()}),
            ("kernel_additions", {n: count[1] for n, count in kernel.items()}),
        )
    } | {"max_difference": off}
    conversion, general, special = conversions(rng)
    quantities |= {
        "conversion.multiplications": float(conversion.multiplications),
        "conversion.additions": float(conversion.additions),
        "columns.saved": 1 - _all(special) / _all(general),
    }
    stanford = stanford_counts()
    for name, tally in stanford.items():
        quantities[f"stanford_{name}.multiplications"] = float(tally.multiplications)
        quantities[f"stanford_{name}.by_one"] = float(tally.by_one)
        quantities[f"stanford_{name}.additions"] = float(tally.additions)
    bases = {n: int(quantities[f"n{n}.base_multiplications"]) for n in JOINTS}
    more = {n: (bases[n] + base[n].additions) / (with_ones[n] + additions[n]) for n in JOINTS}
    shared = {n: _all(pose[n]) / _all(base[n]) for n in JOINTS}
    line = "n = " + ", ".join(map(str, JOINTS)) + ": "

    def listed(values: dict[int, int]) -> str:
        return line + ", ".join(str(values[n]) for n in JOINTS)

    claims = (
        Claim(
            "26n - 20 multiplications",
            listed(with_ones),
            all(with_ones[n] == 26 * n - 20 for n in JOINTS),
            "5 for each conversion of a vector between frames, four of them per joint, and 6 per "
            "column",
        ),
        Claim(
            "13n - 10 additions",
            listed(additions),
            all(additions[n] == 13 * n - 10 for n in JOINTS),
            "2 for each conversion, 2 per link and 3 per column",
        ),
        Claim(
            "22n - 16 multiplications if those by ±1 are excluded",
            listed(without),
            all(without[n] == 22 * n - 16 for n in JOINTS),
            "a right-angle twist leaves one ±1 in each frame change of a vector",
        ),
        Claim(
            "the recursion compares favorably with Orin & Shrader's 30n - 25 and 15n - 25",
            "fewer multiplications at every n, more additions up to n = 7; supple's kernel, the "
            f"tool's pose included, takes more for n = 6: {kernel[6][0]} and {kernel[6][1]}",
            all(with_ones[n] < 30 * n - 25 for n in JOINTS)
            and all(with_ones[n] + additions[n] < 45 * n - 50 for n in JOINTS if n >= 6),
            "in sum fewer from n = 4 on: 39n - 30 against 45n - 50. The kernel turns whole poses "
            "in the world, which fused multiply-adds do in pairs",
        ),
        Claim(
            "a conversion between link frames takes 8 multiplications and 4 additions",
            f"{conversion.multiplications} and {conversion.additions}",
            (conversion.multiplications, conversion.additions) == (8, 4),
            "a rotation about z and one about x; half as many if the twist is a right angle",
        ),
        Claim(
            "zeros in link frames save about 70 percent of the conversion of the columns",
            f"{quantities['columns.saved']:.0%}: {_all(special)} operations instead of "
            f"{_all(general)}",
            abs(quantities["columns.saved"] - 0.7) < 0.02,
            "v has a zero in its own link's frame, and ω is a column of the rotation matrix",
        ),
        Claim(
            "the choice of the frame hardly changes the cost",
            f"in the base's frame {listed(bases)} multiplications: in all "
            f"{min(more.values()):.0%} to {max(more.values()):.0%} of the operations in the tool's",
            all(bases[n] == 26 * n - 31 for n in JOINTS[1:])
            and all(base[n].additions == 13 * n - 19 for n in JOINTS[1:]),
            "26n - 31 and 13n - 19 for n > 2: the same for each joint",
        ),
        Claim(
            "if the tool's pose is needed too, most of the cost of J is shared with it",
            f"the pose takes {', '.join(f'{x:.0%}' for x in shared.values())} of the operations of "
            "J in the base's frame",
            min(shared.values()) > 0.5,
            "positions by (21) and orientations by (26) are the recursion itself; only the columns "
            "(27) are added",
        ),
    )
    columns = {"joints": np.array(JOINTS, dtype=float)} | {
        name: np.array([quantities[f"n{n}.{name}"] for n in JOINTS])
        for name in ("multiplications", "multiplications_without_ones", "additions")
    }
    figure = _figure(with_ones, without, additions, kernel)
    of_stanford = tuple(_of_stanford(stanford, *printed) for printed in STANFORD)
    return Outcome(quantities, claims + of_stanford, figure, (Table("joints", columns),))


def _of_stanford(found: dict[str, Tally], name: str, says: str, products: int, sums: int) -> Claim:
    """Return the claim about the operation count of one inverse of the Stanford arm's Jacobian."""
    ours = found[name]
    same = (ours.multiplications, ours.additions) == (products, sums)
    return Claim(
        f"{says}: {products} multiplications and {sums} additions",
        f"{ours.multiplications} and {ours.additions}, and {ours.by_one} multiplications by ±1; "
        "partial velocities included",
        True if same else None,
        "only the author's thesis says what the printed numbers include. Here frames are the "
        "cheapest ones, v̂ is given in the frame of the problem, and divisions count as products",
    )


def _all(tally: Tally) -> int:
    return tally.multiplications + tally.by_one + tally.additions


def conversions(rng: np.random.Generator) -> tuple[Tally, Tally, Tally]:
    """Count the conversion of a vector by rotations about z and x, and the conversion of v and ω of
    a column by the product of such matrices: in general, and with the zeros of the link's frame.
    """
    one, general, special = Tally(), Tally(), Tally()
    (a, b), (c, d) = ((np.cos(x), np.sin(x)) for x in rng.uniform(0.2, 1.2, 2))
    about_z, about_x = [[a, -b, 0], [b, a, 0], [0, 0, 1]], [[1, 0, 0], [0, c, -d], [0, d, c]]

    def rows(matrix: ArrayLike, tally: Tally) -> list[list[Counted]]:
        return [[Counted(float(x), tally) for x in row] for row in np.asarray(matrix)]

    def vector(values: Sequence[float], tally: Tally) -> list[Counted]:
        return [Counted(x, tally) for x in values]

    times(rows(about_x, one), times(rows(about_z, one), vector([0.3, -0.4, 0.5], one)))
    both = np.array(about_x) @ about_z @ about_x
    for values in ([0.3, -0.4, 0.5], [0.1, 0.2, 0.3]):
        times(rows(both, general), vector(values, general))
    times(rows(both, special), vector([0.3, -0.4, 0.0], special))
    return one, general, special


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
                at = {"color": look["color"], "ms": 7, "label": None if k else "counted here"}
                ax.plot(list(values), list(values.values()), "o", **at)
        for k, (ax, slope) in enumerate(((left, 30), (right, 15))):
            label = f"Orin & Shrader, {slope}n - 25"
            ax.plot(n, slope * n - 25, color=palette.GRAY, linewidth=1.2, label=label)
            label = "supple's kernel, and the tool's pose"
            ax.plot(JOINTS, [kernel[j][k] for j in JOINTS], "s", color=palette.GREEN, label=label)
            ax.legend(loc="upper left")
            ax.set_ylim(0)
        style.titled(left, "Multiplications", "joints n", "operations for one Jacobian")
        style.titled(right, "Additions", "joints n", "operations for one Jacobian")

    return draw
