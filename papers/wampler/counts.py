"""W eqs. (20)-(27): the partial-velocity matrix by recursion in link frames, and its cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from supple.papers import style
from supple.papers.experiment import Claim, Outcome, Progress, Table, each, experiment
from supple.papers.wampler.recursion import Arm, Tally, stanford_counts
from supple.papers.wampler.recursion import values as values_of

from supple.plot import palette

if TYPE_CHECKING:
    from matplotlib.figure import Figure

JOINTS = (2, 3, 6, 7, 10)
CLOSE = 3  # number of multiplications by which a count may exceed the printed one
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
    tallies, kernel, off = {}, {}, 0.0
    for n in each(JOINTS, progress):
        arm, q, tallies[n] = Arm.random(rng, "R" * n), rng.uniform(-3, 3, n), Tally()
        found = values_of(arm.motion(q, tallies[n]).jacobian("tool")).T
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
    stanford = {n: (t.multiplications, t.additions) for n, t in stanford_counts().items()}
    for name, (products, sums) in stanford.items():
        quantities[f"stanford_{name}.multiplications"] = float(products)
        quantities[f"stanford_{name}.additions"] = float(sums)
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
            "compares favorably with Orin & Shrader's 30n - 25 and 15n - 25",
            "fewer multiplications at every n, more additions up to n = 7; supple's kernel, the "
            f"tool's pose included, takes more for n = 6: {kernel[6][0]} and {kernel[6][1]}",
            all(with_ones[n] < 30 * n - 25 for n in JOINTS)
            and all(with_ones[n] + additions[n] < 45 * n - 50 for n in JOINTS if n >= 6),
            "in sum fewer from n = 4 on: 39n - 30 against 45n - 50. The kernel turns whole poses "
            "in the world, which fused multiply-adds do in pairs",
        ),
    )
    columns = {"joints": np.array(JOINTS, dtype=float)} | {
        name: np.array([quantities[f"n{n}.{name}"] for n in JOINTS])
        for name in ("multiplications", "multiplications_without_ones", "additions")
    }
    figure = _figure(with_ones, without, additions, kernel)
    of_stanford = tuple(_of_stanford(stanford, *printed) for printed in STANFORD)
    return Outcome(quantities, claims + of_stanford, figure, (Table("joints", columns),))


def _of_stanford(
    found: dict[str, tuple[int, int]], name: str, says: str, products: int, sums: int
) -> Claim:
    """Return the claim about the operation count of one inverse of the Stanford arm's Jacobian."""
    ours = found[name]
    return Claim(
        f"{says}: {products} multiplications and {sums} additions",
        f"{ours[0]} and {ours[1]}, partial velocities included",
        ours[0] <= products + CLOSE and ours[1] <= sums,
        f"in the cheapest frames, at most {CLOSE} multiplications above the printed count. Only "
        "the author's thesis says what it includes; divisions count as multiplications",
    )


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
            ax.plot(n, slope * n - 25, color=palette.GRAY, linewidth=1.2, label=label)
            label = "supple's kernel, and the tool's pose"
            ax.plot(JOINTS, [kernel[j][k] for j in JOINTS], "s", color=palette.GREEN, label=label)
            ax.plot([], [], "ko", ms=6, label="counted here")
            ax.legend(loc="upper left")
            ax.set_ylim(0)
        style.titled(left, "Multiplications", "joints n", "operations for one Jacobian")
        style.titled(right, "Additions", "joints n", "operations for one Jacobian")

    return draw
