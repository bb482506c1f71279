"""DW section 4: a main task with a constraint task, by augmentation and by projection."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from supple.papers import style
from supple.papers.experiment import Claim, Outcome, Parameter, Progress, Table, each, experiment
from supple.papers.style import Array

import supple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_SPEED = 2.0  # Δ [rad/s]
LINKS = {  # link lengths of the paper's planar arms [m]
    "3 links": (1.0, 0.5, 0.5),
    "4 links": (0.5, 0.5, 0.5, 0.5),
}
BASE = {"3 links": (30.0, 60.0), "4 links": (20.0, 50.0, 40.0)}  # angles of the other joints [deg]
BENDS = np.linspace(40.0, 0.0, 81)  # angles of the last joint [deg]: at 0 the two tasks conflict
MAIN = np.array([-0.3, 0.3])  # commanded velocity of the hand [m/s]
WANTED = 1.0  # commanded rate of the constraint [rad/s]
SMALL = 1e-2  # weight w of the constraint task, as in Egeland et al. 1991


def planar(lengths: tuple[float, ...], q: Array) -> Array:
    """Return J (2, n) of the hand of a planar arm; q are angles between successive links."""
    angle = np.cumsum(q)
    x, y = np.array(lengths) * np.cos(angle), np.array(lengths) * np.sin(angle)
    return np.array([-np.cumsum(y[::-1])[::-1], np.cumsum(x[::-1])[::-1]])


@experiment(
    "dw-augmentation",
    paper="DW",
    figure="Section 4",
    title="A constraint task near an artificial singularity: augmentation and projection",
    deviations=(
        "The paper has no such example. Here planar arms of 3 and 4 links are used, whose first "
        "joints should turn at 1 rad/s while the hand moves. Where the last two links are aligned, "
        "hand and constraint conflict, but the task of the hand alone is well conditioned.",
        "For the projection, the constraint is v with the same rates.",
    ),
    parameters=(
        Parameter("max_speed", MAX_SPEED, "rad/s", "Δ, the bound on ‖θ̇‖", 0),
        Parameter("weight", SMALL, "", "w of the constraint in the weighted form", 0, 1.0),
    ),
)
def augmentation(progress: Progress, *, max_speed: float, weight: float) -> Outcome:
    """The last joint straightens from 40° to 0, where the augmented Jacobian is singular and that
    of the hand is not. The tasks are augmented with equal weights and with w ≪ 1, both with the
    optimal damping for Δ, or combined by projection onto the null space, eq. (20). The error of the
    main task and the joint speed are measured.
    """
    errors: dict[str, dict[str, Array]] = {}
    speeds: dict[str, dict[str, Array]] = {}
    parts: dict[str, Array] = {}
    condition: dict[str, float] = {}
    for arm, lengths in each(LINKS.items(), progress):
        found: dict[str, list[tuple[float, float]]] = {
            "augmented": [],
            "weighted": [],
            "projected": [],
        }
        own, worst = [], np.inf
        for bend in BENDS:
            q = np.radians([*BASE[arm], bend])
            n = len(q)
            J, C = planar(lengths, q), np.eye(n)[: n - 2]
            main = supple.Linearization(J, MAIN, q=q)
            constraint = supple.Linearization(C, np.full(n - 2, WANTED), q=q)
            pull = C.T @ np.full(n - 2, WANTED)
            optimal = supple.damping.Optimal(max_speed)
            projected = supple.redundancy.NullSpace(
                supple.steps.Pseudoinverse(), lambda _, v=pull: -v, 1.0
            )
            steps = {
                "augmented": supple.redundancy.Augmented(optimal, (1.0, 1.0))([main, constraint]),
                "weighted": supple.redundancy.Augmented(
                    supple.damping.Constant(weight / 10), (1.0, weight)
                )([main, constraint]),
                "projected": projected(main),
            }
            for name, dq in steps.items():
                off = float(np.linalg.norm(MAIN - J @ dq) / np.linalg.norm(MAIN))
                found[name].append((off, float(np.linalg.norm(dq))))
            own.append(float(np.linalg.norm(steps["projected"] - np.linalg.pinv(J) @ MAIN)))
            worst = min(worst, float(np.linalg.svd(J, compute_uv=False)[-1]))
        errors[arm] = {name: np.array(x)[:, 0] for name, x in found.items()}
        speeds[arm] = {name: np.array(x)[:, 1] for name, x in found.items()}
        parts[arm], condition[arm] = np.array(own), worst
    most = {
        name: max(float(errors[arm][name].max()) for arm in LINKS) for name in errors["3 links"]
    }
    fast = max(float(speeds[arm]["projected"].max()) for arm in LINKS)
    alone = max(
        float(np.linalg.norm(np.linalg.pinv(planar(LINKS[a], np.radians([*BASE[a], 0.0]))) @ MAIN))
        for a in LINKS
    )
    end = {arm: float(parts[arm][-1] / np.sqrt(len(BASE[arm]) - 1)) for arm in LINKS}
    quantities = {f"{name}.largest_error": value for name, value in most.items()} | {
        "projected.max_speed": fast,
        "main_alone_speed": alone,
        "three_links.least_sigma": condition["3 links"],
        "four_links.least_sigma": condition["4 links"],
    }
    claims = (
        Claim(
            "augmentation introduces artificial singularities: damping is needed although the main "
            "task is attainable without, and unnecessary errors enter the main task",
            f"the hand alone needs {alone:.2f} rad/s, σ_min ≥ {min(condition.values()):.2f} m; "
            f"augmented and damped to Δ = {max_speed:g} it is off by up to {most['augmented']:.0%}",
            bool(alone < max_speed and most["augmented"] > 0.05),
            "one λ damps all rows",
        ),
        Claim(
            "gradient projection avoids this problem: the main task is not damped",
            f"off by at most {most['projected']:.0e}, at {fast:.2f} rad/s",
            bool(most["projected"] < 1e-12 and fast <= max_speed),
            "the constraint acts in the null space of J alone; what is left of it there is small "
            "where the tasks conflict"
            + "".join(f"; {arm}: {end[arm]:.2f} of its rate" for arm in LINKS),
        ),
        Claim(
            "with W_c = wI, w ≪ 1, and λ < w the damping does not seriously affect the main task",
            f"w = {weight:g}: the hand is off by up to {most['weighted']:.1%}",
            bool(most["weighted"] < 0.05),
            "the error of the main task is of the order of w",
        ),
    )
    columns: dict[str, Array] = {"bend": BENDS}
    for arm in LINKS:
        key = "three_links" if arm == "3 links" else "four_links"
        columns |= {f"{key}.{name}_error": x for name, x in errors[arm].items()}
        columns |= {f"{key}.{name}_speed": x for name, x in speeds[arm].items()}
    return Outcome(
        quantities, claims, _figure(errors, speeds, max_speed), (Table("bend", columns),)
    )


def _figure(
    errors: dict[str, dict[str, Array]], speeds: dict[str, dict[str, Array]], max_speed: float
) -> Callable[[Figure], None]:
    names = {"augmented": "augmented", "weighted": "augmented, w ≪ 1", "projected": "projected"}

    def draw(figure: Figure) -> None:
        figure.set_size_inches(11, 6.5)
        panels = figure.subplots(2, 3)
        for row, arm in zip(panels, LINKS, strict=True):
            q = np.radians([*BASE[arm], 0.0])
            ends = np.array(LINKS[arm])[:, None] * np.stack(
                [np.cos(np.cumsum(q)), np.sin(np.cumsum(q))], 1
            )
            places = np.vstack([np.zeros(2), np.cumsum(ends, axis=0)])
            style.titled(row[0], f"{arm}, at the conflict", "x [m]", "y [m]")
            style.arms(row[0], places[None], 1)
            row[0].margins(0.3)
            title = "Error of the main task"
            style.titled(row[1], title, "bend of the last joint [°]", "[%]")
            style.curves(row[1], BENDS, {names[k]: 100 * v for k, v in errors[arm].items()})
            style.titled(row[2], "Joint speed", "bend of the last joint [°]", "‖θ̇‖ [rad/s]")
            style.curves(row[2], BENDS, {names[k]: v for k, v in speeds[arm].items()})
            style.bound(row[2], max_speed, f"Δ = {max_speed:g}")
        style.legend(figure, panels[0, 1])

    return draw
