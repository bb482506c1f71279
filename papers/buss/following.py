"""B section 8: how well each method follows targets that leave the reach, and how calmly."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from supple.papers import style
from supple.papers.buss import figures
from supple.papers.buss.figures import Followed, Shape, Step
from supple.papers.experiment import Claim, Outcome, Progress, by_method, each, experiment

import supple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMES = {
    "transpose": "transpose",
    "pinv": "pseudoinverse",
    "dls": "DLS",
    "dls_clamped": "DLS', errors clamped",
    "sdls": "SDLS",
}
RARE = 0.001  # of the moves: oscillation that is no nuisance
DEVIATIONS = (
    "Figures, targets and constants are those of the published program: the paper prints none.",
    "D_max grows by how far the effector's own target ran away; the program takes another "
    "effector's distance where there are several.",
    "SDLS in the soft form of the program; it is not in this edition of the paper.",
    "Judged by numbers: the paper inspected by eye for oscillation.",
    "Times are those of a Servo called from Python on this machine. bench/figures.py runs the loop "
    "inside the kernel: 0.36 and 0.58 µs (Y), 1.5 and 2.5 µs (double Y) on a Neoverse-N1.",
)


@experiment(
    "buss-y",
    paper="B",
    figure="Fig. 1, section 8",
    title="The Y follows two targets that swing out of reach",
    deviations=DEVIATIONS,
)
def y(progress: Progress) -> Outcome:
    """Seven joints, one fork, two effectors: 20 updates to settle, 200 that count. Then DLS again,
    without and with clamped errors, for a row of dampings.
    """
    return _outcome(figures.Y, (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0), "poor", progress)


@experiment(
    "buss-double-y",
    paper="B",
    figure="Fig. 1, section 8",
    title="The double Y follows four targets that swing out of reach",
    deviations=(
        *DEVIATIONS,
        "The double Y of the program has 25 joints; the paper counts 16 links and a 12 × 16 J.",
        "The transpose on the double Y is chaotic: its digits depend on rounding.",
    ),
)
def double_y(progress: Progress) -> Outcome:
    """Forks on forks, 25 joints, four effectors: 400 updates to settle, 2000 that count. Then DLS
    again, without and with clamped errors, for a row of dampings.
    """
    return _outcome(figures.DOUBLE_Y, (0.3, 0.5, 0.7, 0.9, 1.1), "extremely poor", progress)


def _outcome(shape: Shape, lambdas: tuple[float, ...], quality: str, progress: Progress) -> Outcome:
    methods = figures.methods(shape)
    runs: list[tuple[str, Step]] = list(methods.items())
    runs += [("pinv_uncapped", supple.TruncatedSVD(0.01))]
    done = {f"{shape.lambdas[0]}": "dls", f"{shape.lambdas[1]}'": "dls_clamped"}
    runs += [(f"{lam}", figures.dls(lam)) for lam in lambdas if f"{lam}" not in done]
    runs += [
        (f"{lam}'", figures.dls(lam, clamped=True)) for lam in lambdas if f"{lam}'" not in done
    ]
    followed = {name: figures.follow(shape, step) for name, step in each(runs, progress)}
    followed |= {name: followed[method] for name, method in done.items()}
    out = figures.beyond_reach(shape)[1:].any(axis=1)
    pinv = followed["pinv"].reversed
    seconds = figures.update_times(shape)
    # The least damping, down from the largest, before the first that oscillates.
    plain = _calm(lambdas, [followed[f"{lam}"] for lam in lambdas])
    clamped = _calm(lambdas, [followed[f"{lam}'"] for lam in lambdas])
    lowest = min(lambdas, key=lambda lam: followed[f"{lam}"].total_error)
    least = followed[f"{lowest}"]
    best, best_clamped = followed[f"{plain}"], followed[f"{clamped}'"]
    quantities = by_method(
        {
            name: {
                "total_error": followed[name].total_error,
                "oscillation": followed[name].oscillation,
            }
            for name in (*methods, "pinv_uncapped")
        }
    ) | {
        "runtime_ratio": seconds[0] / seconds[1],
        "transpose_us": 1e6 * seconds[0],
        "dls_us": 1e6 * seconds[1],
        "pinv.oscillation_beyond_reach": pinv[out].mean(),
        "pinv.oscillation_else": pinv[~out].mean(),
        "dls.least_calm_lambda": plain,
        "dls_clamped.least_calm_lambda": clamped,
        "dls.least_calm_total_error": best.total_error,
        "dls_clamped.least_calm_total_error": best_clamped.total_error,
    }
    free = followed["pinv_uncapped"]
    poor, good, bounded = followed["transpose"], followed["dls"], followed["dls_clamped"]
    claims = (
        Claim(
            f"the quality of the Jacobian transpose is {quality}",
            f"total error {poor.total_error:.4g} m, the most of the five; "
            f"{poor.oscillation:.0%} of its moves go back",
            poor.total_error
            > max(followed[name].total_error for name in methods if name != "transpose")
            and poor.oscillation > 0.1,
            "its length fits one direction; the others are overshot in every update",
        ),
        Claim(
            "the pseudoinverse works very poorly whenever targets are out of reach",
            f"while some target is out of reach {pinv[out].mean():.1%} of its moves go back, else "
            f"{pinv[~out].mean():.1%}; {good.oscillation:.1%} with DLS",
            bool(pinv[out].mean() > max(RARE, 10 * pinv[~out].mean(), 10 * good.oscillation)),
            "stretched out, a direction is all but lost, and there the pseudoinverse goes farthest",
        ),
        Claim(
            "it is not recommended unless joint angles are severely clamped",
            f"total error {free.total_error:.4g} m uncapped, {followed['pinv'].total_error:.4g} m "
            "with angles cut to 5°",
            free.total_error > 2 * followed["pinv"].total_error,
            "uncapped, joints turn by many radians in one update",
        ),
        Claim(
            "damped least squares works substantially better than the transpose",
            f"total error {good.total_error:.4g} m, {good.total_error / poor.total_error:.0%} of "
            f"the transpose's; {good.oscillation:.1%} of its moves go back",
            good.total_error < 0.9 * poor.total_error and good.oscillation < RARE,
            "much of what is left is out of reach for every method",
        ),
        Claim(
            "where the error of DLS is least there is a lot of oscillation",
            f"least at λ = {lowest:g}: {least.total_error:.4g} m, {least.oscillation:.0%} of moves "
            "go back",
            least.oscillation > 0.01,
            "so the damping is to be raised until oscillation is rare"
            if least.oscillation > 0.01
            else "on the Y oscillation costs more than damping: the error is least at its edge",
        ),
        Claim(
            "clamped errors (DLS') allow a lower damping, which follows more closely",
            f"calm down to λ = {clamped:g} ({best_clamped.total_error:.4g} m) instead of {plain:g} "
            f"({best.total_error:.4g} m); with the program's constants {bounded.total_error:.4g} "
            f"against {good.total_error:.4g} m",
            clamped < plain and best_clamped.total_error < best.total_error,
            "a figure does not stretch out towards what it cannot reach"
            + ("" if shape.lambdas[0] != shape.lambdas[1] else "; the program has one λ for the Y"),
        ),
        Claim(
            f"transpose {shape.paper_us[0]} µs, DLS {shape.paper_us[1]} µs, 1 : "
            f"{shape.paper_us[1] / shape.paper_us[0]:.1f} (2.8 GHz Pentium)",
            f"{1e6 * seconds[0]:.1f} and {1e6 * seconds[1]:.1f} µs, "
            f"1 : {seconds[1] / seconds[0]:.1f}",
            seconds[0] < seconds[1],
            "DLS is somewhat slower, as the paper has it. The call from Python is part of both, "
            "about 1 µs",
        ),
    )
    return Outcome(quantities, claims, _figure(shape, lambdas, followed))


def _calm(lambdas: tuple[float, ...], runs: list[Followed]) -> float:
    """The least damping such that from there on upwards oscillation is rare."""
    least = lambdas[-1]
    for lam, run in zip(reversed(lambdas), reversed(runs), strict=True):
        if run.oscillation > RARE:
            break
        least = lam
    return least


# ---- the figure --------------------------------------------------------------------------------


def _figure(
    shape: Shape, lambdas: tuple[float, ...], followed: dict[str, Followed]
) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        figure.set_size_inches(9.5, 7.5)
        (body, distance), (bars, sweep) = figure.subplots(2, 2)
        _body(body, shape)
        style.titled(body, "The figure, and the ways of its targets", "x [m]", "y [m]")
        _distances(distance, followed)
        style.titled(distance, "Distance to the targets", "update", "mean of the effectors [m]")
        _bars(bars, followed)
        style.titled(bars, "Total error, and moves that go back", "total error [m]", "method")
        _sweep(sweep, lambdas, followed)
        style.titled(sweep, "DLS by its damping", "λ [m]", "total error [m]")
        style.legend(figure, distance)

    return draw


def _body(ax: Axes, shape: Shape) -> None:
    """The figure in its zero pose, seen along z, and where its targets go."""
    robot = supple.load(shape.name)
    zero = robot.neutral()
    for path in np.moveaxis(shape.path(2 * sum(shape.steps)), 1, 0):
        ax.plot(*path[:, :2].T, color=style.VERMILION, linewidth=0.7, alpha=0.7)
    joints = {joint.child: joint.parent for joint in robot.description.joints}
    frames = {frame.name: frame.link for frame in robot.description.frames}
    for name, parent in (joints | frames).items():
        if parent in joints:
            line = robot.fk(zero, [parent, name])[:, :2, 3]
            ax.plot(*line.T, "o-", color="black", linewidth=2.5, ms=4)
    ax.plot(*robot.fk(zero)[:, :2, 3].T, "o", color=style.VERMILION, ms=9, mec="black")
    ax.set_aspect("equal")


def _distances(ax: Axes, followed: dict[str, Followed]) -> None:
    count = len(followed["dls"].distance)
    window = max(1, count // 100)  # so that oscillation does not paint the panel
    middle = np.arange(count // window) * window + window / 2
    means = {
        label: followed[name].distance.mean(axis=1).reshape(-1, window).mean(axis=1)
        for name, label in NAMES.items()
    }
    style.curves(ax, middle, means, linewidth=1.4)
    ax.set_ylim(0)


def _bars(ax: Axes, followed: dict[str, Followed]) -> None:
    for k, name in enumerate(NAMES):
        run = followed[name]
        ax.barh(k, run.total_error, color=style.STYLES[k][0], height=0.62)
        back = f"{run.oscillation:.1%} go back" if run.oscillation else "none goes back"
        ax.text(run.total_error, k, f" {run.total_error:.4g} m, {back}", va="center", fontsize=8.5)
    ax.set_yticks(range(len(NAMES)), list(NAMES.values()))
    ax.invert_yaxis()
    ax.set_xlim(0, 1.85 * followed["transpose"].total_error)
    ax.grid(visible=False, axis="y")


def _sweep(ax: Axes, lambdas: tuple[float, ...], followed: dict[str, Followed]) -> None:
    """Hollow where it oscillates, with how many of the moves go back."""
    for name, mark in (("dls", ""), ("dls_clamped", "'")):
        look = style.style_of(list(NAMES).index(name))
        runs = [followed[f"{lam}{mark}"] for lam in lambdas]
        ax.plot(lambdas, [run.total_error for run in runs], **look)
        for lam, run in zip(lambdas, runs, strict=True):
            calm = run.oscillation <= RARE
            fill = look["color"] if calm else "white"
            ax.plot(lam, run.total_error, "o", color=look["color"], mfc=fill, ms=7)
            if not calm:
                place, off = (lam, run.total_error), (6, -11 if mark else 4)
                share = f"{run.oscillation:.0%}"
                ax.annotate(share, place, off, textcoords="offset points", fontsize=8)
    ax.plot([], [], "o", color=style.GREY, mfc="white", label="% of moves go back")
    ax.plot([], [], "o", color=style.GREY, label="calm")
    ax.legend(loc="lower right")
    ax.margins(0.1)
