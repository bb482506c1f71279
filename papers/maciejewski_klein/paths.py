"""Claims about trajectories of unstated geometry, tested on hundreds of random paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from supple.papers import style
from supple.papers.experiment import Claim, Outcome, Parameter, Progress, Table, experiment
from supple.papers.maciejewski_klein import crossing, families, many, statements
from supple.papers.maciejewski_klein.courses import Runs, course_a, followed_by_all
from supple.papers.maciejewski_klein.families import Family
from supple.papers.maciejewski_klein.inverse import PUMA
from supple.papers.maciejewski_klein.methods import GAIN, error
from supple.papers.maciejewski_klein.puma import THETA_MAX
from supple.papers.style import Array

from supple.plot import palette

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHUNK = 12, 1500  # candidates drawn at a time: number per path, and largest number

Verdicts: TypeAlias = dict[str, list[bool]]
Statements: TypeAlias = dict[str, tuple[str, Callable[[Runs], bool]]]

COMMON: Statements = {
    "constant_is_15_percent": (
        "a nominal error of 15 % with a constant factor",
        statements.nominal,
    ),
    "constant_throughout": (
        "an error with a constant factor occurs throughout",
        statements.throughout,
    ),
    "filtered_near_zero": ("filtering: near zero away from singularities", statements.near_zero),
    "notched_peak": ("a notched peak at the singularity", statements.notched),
    "filtering_is_better": ("filtering tracks better than a variable factor", statements.better),
    "only_lost": ("only unachievable velocities are lost", statements.only_lost),
}
OF_B = {name: COMMON[name] for name in COMMON if not name.startswith("constant_")} | {
    "constant_is_present": ("an error throughout with a constant factor", statements.present),
    "peak_at_the_end": ("a single peak near the end, from the wrist", statements.ends_at_wrist),
    "switches": ("u6 turns rapidly from the shoulder's to the wrist's", statements.switches),
    "twins_above": ("both σ5 and σ6 are above the threshold when u6 turns", statements.twins_above),
}
OF_C = COMMON | {
    "dips_in_the_middle": ("σ4 to σ6 dip in the middle", statements.dips_in_the_middle),
    "in_order": ("σ6 to σ4 belong to wrist, elbow and shoulder", statements.in_order),
    "within_axes": ("errors up to 0.6, speeds up to 0.01", statements.within_axes),
    "fourth_is_small": ("σ4 is small compared with σ2", statements.fourth_is_small),
}
OF_MODIFIED = {
    "cross_and_turn": "σ5 and σ6 cross, and u6 turns by 90°",
    "error_after_center": "the only noticeable error of σ̂ comes after the center",
    "recovers": "û turns rapidly to the new least singular vector",
    "robust": "even in the worst case the estimate is robust",
}


def draw_family(kind: str, paths: int, rng: np.random.Generator, max_gain: float) -> Family:
    """Return paths of kind "b" or "c", as `families` describes them."""
    start, poses, count = [], [], 0
    chunk = min(CHUNK[0] * paths, CHUNK[1])
    while count < paths:
        drawn = (families.lines if kind == "b" else families.circles)(rng, chunk)
        if kind == "b":
            moved = many.follow(drawn.start, drawn.poses, many.methods(max_gain)["constant"])
            drawn = drawn.only(families.is_like_b(moved.q))
        start.append(drawn.start)
        poses.append(drawn.poses)
        count += len(drawn)
    some = np.arange(paths)
    both = kind == "c"
    return Family(np.concatenate(start), np.concatenate(poses, axis=1), both).only(some)


def judged(family: Family, says: Statements, max_gain: float) -> tuple[Verdicts, dict[str, Array]]:
    """Return the paths on which each statement holds, and the integral errors by method."""
    moved = {
        name: many.follow(family.start, family.poses, step)
        for name, step in many.methods(max_gain).items()
    }
    verdicts: Verdicts = {name: [] for name in says}
    for number in range(len(family)):
        each = {name: motions.path(number) for name, motions in moved.items()}
        runs = Runs(family.course(number), each, max_gain)
        for name, (_, holds) in says.items():
            verdicts[name].append(holds(runs))
    return verdicts, {name: error(motions).sum(axis=0) for name, motions in moved.items()}


def beside_a(max_gain: float) -> Statements:
    """Return the statements of the paper that compare trajectory C with trajectory A."""
    simple = followed_by_all(course_a(), max_gain)
    depth, width = statements.depth(simple), simple.width("filtered_as_printed")
    return {
        "notch_more_pronounced": (
            "the notch is more pronounced than in trajectory A",
            lambda runs: statements.depth(runs) > depth,
        ),
        "region_broader": (
            "filtering: a broader region of error than in trajectory A",
            lambda runs: runs.width("filtered_as_printed") > width,
        ),
    }


# ---- modified C ----------------------------------------------------------------------------------


def held(family: Family, max_gain: float) -> tuple[Array, int]:
    """Return the joint angles (K, P, 6) of motions with the filter as printed, along the first half
    of each path and then with the tool rotating in place; and the number of intervals in a half.
    """
    half = crossing.half_of(len(family.poses))
    step = many.Printed(max_gain)
    first = many.follow(family.start, family.poses[: half + 1], step)
    q, place = first.q[-1], family.poses[half, :, :3, 3]
    every = [*first.q]
    for _ in range(crossing.HELD - 1):
        T, J = PUMA.fk_jacobian(q)
        x = np.concatenate([GAIN * (place - T[:, :3, 3]), -crossing.TURN * J[:, 3:, 4]], axis=1)
        q = q + step(J, x)
        every.append(q)
    return np.array(every), half


def judged_crossing(family: Family, max_gain: float) -> Verdicts:
    """Return the paths on which each statement about the estimate of σ_min holds."""
    q, half = held(family, max_gain)
    each, edge = np.arange(len(family)), 1 / max_gain
    every: list[tuple[Array, ...]] = []
    u: Array = np.zeros((0, 6))
    estimate: Array = np.zeros(0)
    for now in q:
        J = PUMA.jacobian(now)
        U, spectrum, _ = np.linalg.svd(J)
        true = U[:, :, -1]
        if not u.size:
            u, estimate = true, spectrum[:, -1]
        else:
            lambda2 = many.least_damping(estimate, edge)
            A = J @ J.swapaxes(1, 2) + lambda2[:, None, None] * np.eye(6)
            u, size = many.iterated(A, u)
            estimate = np.sqrt(np.maximum(size - lambda2, 0))
        aligned = np.abs((u * true).sum(axis=1))
        every.append((estimate, aligned, spectrum[:, -1], spectrum[:, -2] - spectrum[:, -1], true))
    sigma, alignment, least, gap, vectors = map(np.array, zip(*every, strict=True))
    found: Verdicts = {name: [] for name in OF_MODIFIED}
    for k in each:
        measured = crossing.Estimate(sigma[:, k], alignment[:, k]).measures(least[:, k], half)
        angle = crossing.turned(vectors[half:, k])
        found["cross_and_turn"].append(crossing.crosses(gap[half:, k], angle))
        found["error_after_center"].append(crossing.after_the_center(measured, max_gain))
        found["recovers"].append(crossing.recovers(measured))
        found["robust"].append(crossing.is_robust(measured, max_gain))
    return found


# ---- the experiment ------------------------------------------------------------------------------


@experiment(
    "mk-paths",
    paper="MK",
    figure="Fig. 7-10",
    title="PUMA: the share of paths of the described kinds on which each claim holds",
    deviations=(
        "The lines of B and the circles of C cannot be read in print; the text describes the "
        "singularities that they pass and where they end. Random paths of these kinds are drawn. "
        "A statement holds if it holds on all of them; if it does on some, the text does not "
        "decide it. mk-puma-b and mk-puma-c show one path each that wider searches found "
        "(`tools/readings.py`).",
        "The filter uses α as printed, which does not depend on the components of ẋ.",
    ),
    parameters=(
        THETA_MAX,
        Parameter("paths", 500, "", "paths of each kind", 0, 20000),
        Parameter("seed", 1, "", "seed of the random numbers", -1),
    ),
)
def share_of_paths(progress: Progress, *, max_gain: float, paths: int, seed: int) -> Outcome:
    """Random paths of three kinds, like trajectories B, C and modified C of the paper.

    B: horizontal lines of 0.654 m. After 0.2 to 0.45 m the wrist passes a shoulder singularity,
    with any angles of upper arm and elbow, at a distance of at most 10 mm and at most 10° off the
    tangent of the cylinder that the wrist cannot enter; the start is on any of the eight branches
    with σ_min ≥ λ. Only those paths are kept on which the arm, with a constant damping factor,
    comes within 20 mm of that singularity in the middle half of the path, is more than 30° away
    from the wrist singularity there, and ends less than 15° away from the wrist singularity.

    C: vertical circular arcs of 1.18 m, with radii of 0.2 to 0.4 m, in planes at up to 20° to the
    x-z plane, starting on any branch with σ_min ≥ λ. The middle of each arc is its top, and the arm
    is at the triple singularity there.

    Modified C: the first halves of the same arcs, then 400 intervals in which the tool is commanded
    to stay in place and turn about the axis of joint 5 by 0.003 rad.
    """
    rng = np.random.default_rng(seed)
    progress(0.0)
    b = draw_family("b", paths, rng, max_gain)
    progress(0.2)
    shares, sums = {}, {}
    shares["b"], sums["b"] = judged(b, OF_B, max_gain)
    progress(0.4)
    c = draw_family("c", paths, rng, max_gain)
    of_c = OF_C | beside_a(max_gain)
    shares["c"], sums["c"] = judged(c, of_c, max_gain)
    progress(0.7)
    shares["c_modified"] = judged_crossing(c, max_gain)
    progress(1.0)
    words = {("b", k): v[0] for k, v in OF_B.items()} | {("c", k): v[0] for k, v in of_c.items()}
    words |= {("c_modified", k): v for k, v in OF_MODIFIED.items()}
    found = {
        (kind, name): float(np.mean(verdicts))
        for kind, each in shares.items()
        for name, verdicts in each.items()
    }
    claims = tuple(
        Claim(
            f"trajectory {NAMES[kind]}: {words[kind, name]}",
            f"on {share:.0%} of {paths} paths",
            True if share == 1 else None if share > 0 else False,
            _why(kind, name, share, sums),
            own=True,
        )
        for (kind, name), share in found.items()
    )
    quantities = {f"{kind}.{name}": share for (kind, name), share in found.items()}
    columns: dict[str, Array] = {"path": np.arange(float(paths))}
    for kind, verdicts in shares.items():
        columns |= {f"{kind}.{name}": np.array(x, dtype=float) for name, x in verdicts.items()}
    for kind, errors in sums.items():
        columns |= {f"{kind}.{method}.integral_error": x for method, x in errors.items()}
    columns |= {"b.start": b.start, "c.start": c.start}
    return Outcome(quantities, claims, _figure(found, words, sums), (Table("path", columns),))


NAMES = {"b": "B", "c": "C", "c_modified": "C modified"}


def _why(kind: str, name: str, share: float, sums: dict[str, dict[str, Array]]) -> str:
    if name == "filtering_is_better":
        ratio = np.median(sums[kind]["filtered_as_printed"] / sums[kind]["variable"])
        return f"the integral error is {ratio:.2f} times that of a variable factor in the median"
    if share in (0, 1):
        return "whatever the path"
    return "it depends on the path: on the elbow, the bend of the wrist and the angle of ẋ and û"


def _figure(
    found: dict[tuple[str, str], float],
    words: dict[tuple[str, str], str],
    sums: dict[str, dict[str, Array]],
) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        figure.set_size_inches(11, 8)
        panels = figure.subplot_mosaic([["shares", "b"], ["shares", "c"]], width_ratios=[1.6, 1])
        ax = style.titled(
            panels["shares"], "Share of the paths", "[%] on which a statement holds", "statement"
        )
        labels = [f"{NAMES[kind]}: {words[kind, name]}" for kind, name in found]
        ax.barh(
            range(len(found)), [100 * x for x in found.values()], color=palette.BLUE, height=0.7
        )
        ax.set_yticks(range(len(found)), labels, fontsize=8)
        ax.invert_yaxis()
        ax.set_xlim(0, 100)
        ax.grid(visible=False, axis="y")
        for kind in ("b", "c"):
            ax = panels[kind]
            ax.plot(
                sums[kind]["variable"],
                sums[kind]["filtered_as_printed"],
                ".",
                ms=3,
                color=palette.GREEN,
            )
            most = max(float(x.max()) for x in sums[kind].values())
            ax.plot([0, most], [0, most], color=palette.GRAY, linewidth=1)
            title = f"{NAMES[kind]}: integral errors"
            style.titled(ax, title, "variable λ [intervals]", "filtered, as printed [intervals]")

    return draw
