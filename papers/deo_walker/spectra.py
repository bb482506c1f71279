"""DW section 3.1: the cost of each form of Newton's iteration near a singularity."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from supple.papers import style
from supple.papers.deo_walker.counting import STATED, TOLERANCE, Step, iterations
from supple.papers.deo_walker.rectangle import MAX_SPEED as DELTA
from supple.papers.deo_walker.rectangle import around, asked
from supple.papers.deo_walker.shoulder import ALONG_Y, DT, DURATION, START
from supple.papers.experiment import (
    Claim,
    Outcome,
    Parameter,
    Progress,
    Table,
    by_method,
    each,
    experiment,
)

import supple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DECADES = tuple(range(1, 9))  # σ_min = 1e-1 ... 1e-8
ROWS = (2, 6)  # m: a planar and a spatial task
SPECTRA = 200  # number of spectra for each decade and number of rows
MAX_SPEED = 1.0  # Δ, for tasks of length 1

FORMS = ("newton", "reciprocal", "supple")
Counts = dict[str, list[float]]  # method -> mean number of iterations for each decade


def linearization(rng: np.random.Generator, m: int, smallest: float) -> supple.Linearization:
    """Return J with this smallest singular value and others from 0.3 to 2, and a unit vector ẋ."""
    sigma = np.append(rng.uniform(0.3, 2, m - 1), smallest)
    gamma = rng.normal(size=m)
    return supple.Linearization(np.diag(sigma), gamma / np.linalg.norm(gamma))


def of_forms(found: dict[str, float]) -> list[tuple[str, float]]:
    """Return the names and mean numbers of iterations of the searches in `FORMS`."""
    return [(form, found[form]) for form in FORMS]


def own_motions(tolerance: float) -> dict[str, dict[str, float]]:
    """Return the mean numbers of iterations in the paper's two motions, planar and spatial."""
    step: Step = supple.DLS(supple.damping.Optimal(DELTA))
    planar = around(step, 2000, 0.0)
    robot, task = supple.load("puma560_mk"), supple.PoseTask()
    velocity = 0.5 * ALONG_Y
    spatial = supple.simulate(
        robot,
        START,
        tasks=task,
        velocity=velocity,
        dt=DT,
        duration=DURATION,
        step=step,
        limits=supple.Limits.none(robot),
    )
    cases = {
        "planar": asked(planar, planar.lambda2 > 0),
        "spatial": [task.linearize(robot, q, velocity=velocity) for q in spatial.q[:-1]],
    }
    return {name: iterations(each, DELTA, tolerance) for name, each in cases.items()}


@experiment(
    "dw-newton",
    paper="DW",
    figure="Section 3.1",
    title="Newton's steps near a singularity: (17) takes more with every decade, (18) does not",
    deviations=(
        "The paper gives no spectra: these have one small singular value, 1e-1 to 1e-8, and the "
        f"others between 0.3 and 2; ‖ẋ‖ = Δ = 1, from λ = 0. {STATED}",
        "The tolerance is one-sided: the search ends only if ‖q̇‖ is below the bound.",
    ),
    parameters=(
        Parameter("spectra", SPECTRA, "", "random spectra at each σ_min", 0, 100000),
        Parameter("max_speed", MAX_SPEED, "", "Δ, for ‖ẋ‖ = 1", 0),
        Parameter(
            "tolerance", TOLERANCE, "", "relative distance from Δ that ends a search", 0, 0.5
        ),
    ),
)
def newton(progress: Progress, *, spectra: int, max_speed: float, tolerance: float) -> Outcome:
    """The iterations of Newton's method on φ(λ) - Δ, eq. (17), and on 1/φ(λ) - 1/Δ, eq. (18), are
    counted for random spectra with 2 and 6 rows, in which one singular value shrinks by decades.
    """
    rng = np.random.default_rng(1)
    counts: dict[int, Counts] = {m: {form: [] for form in FORMS} for m in ROWS}
    for m, decade in each([(m, decade) for m in ROWS for decade in DECADES], progress):
        lins = [linearization(rng, m, 10.0**-decade) for _ in range(spectra)]
        for form, mean in of_forms(iterations(lins, max_speed, tolerance)):
            counts[m][form].append(mean)
    quantities = {
        f"m{m}.{form}_{decade}": mean
        for m in ROWS
        for form, means in counts[m].items()
        for decade, mean in zip(DECADES, means, strict=True)
    }
    grows = {  # iterations per decade, from σ_min = 1e-3 down, where one direction needs damping
        (m, form): float(np.polyfit(DECADES[2:], means[2:], 1)[0])
        for m in ROWS
        for form, means in counts[m].items()
    }
    quantities |= {f"m{m}.{form}_per_decade": value for (m, form), value in grows.items()}

    def told(form: str, at: slice | int = slice(None)) -> str:
        return " and ".join(f"{np.mean(counts[m][form][at]):.1f}" for m in ROWS)

    own = own_motions(tolerance)
    quantities |= by_method(own)
    usual = [own[arm]["reciprocal"] for arm in own]
    claims = (
        Claim(
            "(18) usually converges in 2-3 iterations (planar arm 2, spatial arm 3)",
            "on the paper's own motions, planar and spatial, from zero: "
            + " and ".join(f"{own[arm]['reciprocal']:.1f}" for arm in own),
            all(1.5 <= count <= 3.5 for count in usual),
            f"to a relative tolerance of {TOLERANCE:.0e}; the paper gives none",
        ),
        Claim(
            "(17) usually converges in 2-3 iterations as well",
            "on the same motions, from zero: "
            + " and ".join(f"{own[arm]['newton']:.1f}" for arm in own)
            + "; from λ of the previous step "
            + " and ".join(f"{own[arm]['newton_warm']:.1f}" for arm in own),
            True if all(1.5 <= own[arm]["newton"] <= 3.5 for arm in own) else None,
            "φ is steep at zero. The paper recommends starting from the factor of the previous "
            "step, and gives no tolerance: for 1e-5 to 1e-10 it is then 2 to 3",
        ),
        Claim(
            "(17) and (18) converge in 2-3 iterations on random spectra, from zero",
            f"with 2 and 6 rows (17) takes {told('newton')} on average, (18) {told('reciprocal')}",
            all(np.mean(counts[m][form]) <= 3 for m in ROWS for form in ("newton", "reciprocal")),
            "where Δ is so small that other directions are damped too, as in many of these "
            "spectra, 1/φ is not as straight; and (17) takes long near any singularity",
            own=True,
        ),
        Claim(
            "(18) performs better than (17) when a singular value is very close to zero",
            f"at σ_min = 1e-8: {told('reciprocal', -1)} steps against {told('newton', -1)}",
            all(counts[m]["reciprocal"][-1] < counts[m]["newton"][-1] for m in ROWS),
            "φ is nearly a/(b + λ): its reciprocal is nearly a line, φ itself is steep at 0",
        ),
        Claim(
            "in such situations Newton's method (17) can take more iterations to converge",
            "a decade of σ_min costs (17) "
            + " and ".join(f"{grows[m, 'newton']:.1f}" for m in ROWS)
            + " steps, (18) "
            + " and ".join(f"{grows[m, 'reciprocal']:.2f}" for m in ROWS),
            all(grows[m, "newton"] > 1 > 10 * abs(grows[m, "reciprocal"]) for m in ROWS),
            "far from the root a step of (17) only doubles σ² + λ, from σ² up to about σγ/Δ: that "
            "is log₂10 = 3.3 steps a decade",
        ),
    )
    columns = {"sigma_min": 10.0 ** -np.array(DECADES)}
    for m in ROWS:
        columns |= {f"m{m}.{form}.iterations": np.array(x) for form, x in counts[m].items()}
    return Outcome(quantities, claims, _figure(counts), (Table("sigma_min", columns),))


def _figure(counts: dict[int, Counts]) -> Callable[[Figure], None]:
    names = {
        "newton": "Newton on φ, eq. (17)",
        "reciprocal": "Newton on 1/φ, eq. (18)",
        "supple": "(18) from a lower bound, to the last digit (supple)",
    }

    def draw(figure: Figure) -> None:
        figure.set_size_inches(9.5, 4.4)
        panels = figure.subplots(1, len(ROWS), sharey=True)
        sigma = 10.0 ** -np.array(DECADES)
        for ax, m in zip(panels, ROWS, strict=True):
            style.titled(ax, f"{m} rows", "smallest singular value of J", "mean steps")
            ax.set_xscale("log")
            style.curves(ax, sigma, {names[k]: v for k, v in counts[m].items()}, marker="o", ms=4)
            ax.invert_xaxis()
            ax.set_ylim(0)
        style.legend(figure, panels[0])

    return draw
