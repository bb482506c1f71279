"""DW Fig. 1-3: rules that depend on J alone, and the norm φ(λ) without and with a subtask."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from supple.papers import style
from supple.papers.deo_walker.counting import Step
from supple.papers.experiment import Claim, Outcome, Parameter, Progress, Table, experiment
from supple.papers.style import Array

import supple
from supple.plot import palette

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_SPEED = 2.0  # Δ [rad/s]
SPEED = 0.5  # ‖ẋ‖ [m/s]
BEND = 1.0  # angle of the elbow [deg]: the arm is nearly stretched out along X
SHIFT = 1e-4  # T of (28)


def rules(max_speed: float) -> dict[str, Step]:
    """Return steps by name: first those whose damping depends on J alone, then those that use ẋ."""
    d = supple.damping
    return {
        "constant": supple.DLS(d.Constant(0.05**2)),
        "manipulability": supple.DLS(d.Manipulability(0.05, 0.3)),
        "speed_bound": supple.DLS(d.SpeedBound(max_speed / SPEED)),
        "condition_bound": supple.DLS(d.ConditionBound(20.0)),
        "region": supple.DLS(d.Region(0.05, 0.2)),
        "filter": supple.steps.NumericalFilter(max_speed / SPEED),
        "optimal": supple.DLS(d.Optimal(max_speed)),
    }


BLIND = ("constant", "manipulability", "speed_bound", "condition_bound", "region")


@experiment(
    "dw-choice",
    paper="DW",
    figure="Fig. 1, section 3",
    title="Near a singularity: harmless and harmful velocities, and rules that look at J alone",
    deviations=(
        "Fig. 1 has no dimensions. Here two links of 1.1 and 1 m are stretched along X, except for "
        "a bend of 1°, with ‖ẋ‖ = 0.5 m/s and Δ = 2 rad/s; the threshold of each rule is such that "
        "it damps there.",
    ),
    parameters=(
        Parameter("max_speed", MAX_SPEED, "rad/s", "Δ, the bound on ‖θ̇‖", 0),
        Parameter("bend", BEND, "deg", "bend of the elbow; 0 is singular", 0, 90),
    ),
)
def choice(progress: Progress, *, max_speed: float, bend: float) -> Outcome:
    """Two links, nearly stretched out along X, are commanded to move along X, the singular
    direction, and along Y: with five rules that depend on J alone, with the filter of Maciejewski &
    Klein, and with the optimal damping. Then the command points in every direction.
    """
    robot = supple.load("planar2")
    q = np.radians([-bend / 2, bend])
    J = np.asarray(robot.jacobian(q)[:2])
    angles = np.radians(np.arange(0.0, 181.0, 2.0))
    asked = SPEED * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    pinv = np.linalg.norm(asked @ np.linalg.pinv(J).T, axis=1)
    steps = rules(max_speed)
    errors, speeds = {}, {}
    for name, step in steps.items():
        found = np.array([step(supple.Linearization(J, x)) for x in asked])
        errors[name] = np.linalg.norm(asked - found @ J.T, axis=1) / SPEED
        speeds[name] = np.linalg.norm(found, axis=1)
    x, y = 0, len(angles) // 2
    progress(1.0)
    harmless, others = commands(J, max_speed, 2000)
    exact = {name: feasible_errors(J, harmless, step) for name, step in steps.items()}
    rule = supple.damping.Optimal(max_speed)
    damped = [rule(supple.Linearization(J, x)) > 0 for x in others]
    quantities = {"pinv.speed_x": pinv[x], "pinv.speed_y": pinv[y]}
    for name in steps:
        quantities |= {
            f"{name}.error_x": errors[name][x],
            f"{name}.error_y": errors[name][y],
            f"{name}.speed_x": speeds[name][x],
            f"{name}.largest_harmless_error": exact[name].max(initial=0.0),
        }
    quantities |= {"feasible_commands": len(harmless), "infeasible_commands": len(others)}
    least = min(errors[name][y] for name in BLIND)

    def told(names: tuple[str, ...]) -> str:
        return ", ".join(f"{name.replace('_', ' ')} {errors[name][y]:.1%}" for name in names)

    claims = (
        Claim(
            "a small velocity along X, the singular direction, results in high joint velocities; "
            "one along Y does not",
            f"by the pseudoinverse {pinv[x]:.1f} rad/s along X, {pinv[y]:.2f} along Y; Δ is "
            f"{max_speed:g}",
            bool(pinv[x] > max_speed >= pinv[y]),
            "X is the direction of the least singular value",
        ),
        Claim(
            "rules that look at J alone damp both velocities, although this is unnecessary along Y",
            f"errors along Y: {told(BLIND)}",
            bool(least > 1e-3),
            "J is the same in both cases, and so is λ",
        ),
        Claim(
            "the filter and the optimal factor do not damp the harmless velocity",
            f"errors along Y: {told(('filter', 'optimal'))}",
            max(errors["filter"][y], errors["optimal"][y]) < 1e-5,
            "the filter adds damping only along û, the optimal factor none while the pseudoinverse "
            "keeps Δ",
        ),
        Claim(
            "the optimal factor naturally chooses the pseudoinverse whenever it is feasible",
            f"of {len(harmless)} random commands that are feasible its error is at most "
            f"{exact['optimal'].max(initial=0.0):.0e}, and it damps {sum(damped)} of "
            f"{len(others)} that are not; the others' error is at least "
            f"{min(exact[name].max(initial=0.0) for name in BLIND):.1%} somewhere",
            bool(exact["optimal"].max(initial=0.0) < 1e-9 and all(damped)),
            "λ = 0 where ‖J⁺ẋ‖ ≤ Δ",
        ),
    )
    columns = {"direction": np.degrees(angles), "pinv.speed": pinv}
    for name in steps:
        columns |= {f"{name}.error": errors[name], f"{name}.speed": speeds[name]}
    places = robot.fk(q, ["link0", "link1", "link2"])[:, :2, 3]
    return Outcome(
        quantities,
        claims,
        _choice_figure(places, angles, errors, speeds, pinv, max_speed),
        (Table("direction", columns),),
    )


def commands(J: Array, max_speed: float, count: int) -> tuple[Array, Array]:
    """Return random commands (K, 2) of any direction and of speeds from 0.005 to 0.5 m/s, in two
    groups: those whose pseudoinverse solution keeps the bound, and all others.
    """
    rng = np.random.default_rng(2)
    angle, size = rng.uniform(0, 2 * np.pi, count), SPEED * 10 ** rng.uniform(-2, 0, count)
    x = size[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    kept = np.linalg.norm(x @ np.linalg.pinv(J).T, axis=1) <= max_speed
    return x[kept], x[~kept]


def feasible_errors(J: Array, x: Array, step: Step) -> Array:
    """Return the relative errors ‖ẋ − Jθ̇‖/‖ẋ‖ (K,) of a step for commands (K, 2)."""
    found = np.array([step(supple.Linearization(J, each)) for each in x]).reshape(-1, J.shape[1])
    return np.asarray(np.linalg.norm(x - found @ J.T, axis=1) / np.linalg.norm(x, axis=1))


def _choice_figure(
    places: Array,
    angles: Array,
    errors: dict[str, Array],
    speeds: dict[str, Array],
    pinv: Array,
    max_speed: float,
) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        figure.set_size_inches(11, 6.5)
        panels = figure.subplot_mosaic([["arm", "arm"], ["error", "speed"]], height_ratios=[1, 2])
        ax = style.titled(panels["arm"], "A singular configuration (Fig. 1)", "x [m]", "y [m]")
        style.arms(ax, places[None], 1)
        for direction, text in (((0.4, 0.0), "X: lost"), ((0.0, 0.4), "Y: harmless")):
            tip = places[-1] + np.array(direction)
            style.arrow(ax, places[-1], tip, palette.VERMILION)
            style.note(ax, f" {text}", (tip[0], tip[1]))
        degrees = np.degrees(angles)
        names = {name: name.replace("_", " ") for name in errors}
        title = "Error ‖ẋ − Jθ̇‖/‖ẋ‖"
        style.titled(panels["error"], title, "direction of ẋ from X [°]", "[%]")
        style.curves(panels["error"], degrees, {names[k]: 100 * v for k, v in errors.items()})
        style.titled(panels["speed"], "Joint speed", "direction of ẋ from X [°]", "‖θ̇‖ [rad/s]")
        style.curves(panels["speed"], degrees, {names[k]: v for k, v in speeds.items()})
        panels["speed"].plot(degrees, pinv, color=palette.GRAY, linewidth=1)
        panels["speed"].set_ylim(0, 2.5 * max_speed)
        style.bound(panels["speed"], max_speed, f"Δ = {max_speed:g}")
        style.legend(figure, panels["error"])

    return draw


# ---- Fig. 2 and 3 ------------------------------------------------------------------------------


@experiment(
    "dw-phi",
    paper="DW",
    figure="Fig. 2-3",
    title="The norm of the damped velocity over the damping factor, and its shifted axis",
    deviations=(
        "Fig. 2 has no scale. Here J has the singular values stated above, and ẋ has equal "
        "components.",
        "The signs of (25)-(27) are corrected, as in dw-obstacle. The paper's λ is λ² elsewhere in "
        "supple.",
    ),
    parameters=(
        Parameter("sigma_min", 0.05, "m", "the smallest singular value", 0, 1.0),
        Parameter("max_speed", 5.0, "rad/s", "Δ, the bound on the norm", 0),
    ),
)
def phi(progress: Progress, *, sigma_min: float, max_speed: float) -> Outcome:
    """The norm φ(λ) = ‖q̇‖, eq. (13), is computed for a J (2 × 3) with singular values 1.2 and 0.05
    and ẋ = U (0.6, 0.6); then the norm of (25), which has a pole at λ = 0, with
    ∇h = (0.3, −0.2, 0.4) in the coordinates of V.
    """
    sigma, gamma = np.array([1.2, sigma_min]), np.array([0.6, 0.6])
    beta = np.array([0.3, -0.2, 0.4])
    J = np.column_stack([np.diag(sigma), np.zeros(2)])
    lam = np.concatenate([[0.0], np.logspace(-6, 0, 241)])

    def norms(x: Array) -> Array:
        steps = [supple.DLS(supple.damping.Constant(v)) for v in x]
        return np.array([np.linalg.norm(step(supple.Linearization(J, gamma))) for step in steps])

    def total(x: Array) -> Array:
        inside = ((sigma * gamma - beta[:2]) / (sigma**2 + x[:, None])) ** 2
        return np.asarray(np.sqrt(inside.sum(axis=1) + (beta[2] / x) ** 2))

    phis = norms(lam)
    formula = np.sqrt(((sigma * gamma / (sigma**2 + lam[:, None])) ** 2).sum(axis=1))
    off = float(np.abs(phis / formula - 1).max())
    root = supple.damping.Optimal(max_speed)(supple.Linearization(J, gamma))
    needs = phis[0] > max_speed
    # The curvatures of 1/φ and φ between 0 and the root are their largest distances from the chord.
    near = np.linspace(0, max(root, 1e-9), 101)
    bent = {}
    for name, values in (("phi", norms(near)), ("reciprocal", 1 / norms(near))):
        chord = np.linspace(values[0], values[-1], len(near))
        bent[name] = float(np.abs(values - chord).max() / max(np.ptp(values), 1e-300))
    shifted = lam + SHIFT
    totals = total(shifted)
    close = total(np.array([1e-8]))[0]
    progress(1.0)
    quantities = {
        "phi_at_zero": phis[0],
        "root": root,
        "bend_of_phi": bent["phi"],
        "bend_of_reciprocal": bent["reciprocal"],
        "total_at_shift": totals[0],
        "total_near_zero": close,
        "formula_difference": off,
    }
    claims = (
        Claim(
            "the norm decreases monotonically with the damping factor (Fig. 2)",
            f"from {phis[0]:.1f} rad/s at λ = 0 to {phis[-1]:.2f} at λ = 1, in every step",
            bool((np.diff(phis) < 0).all()),
            "each term of (15) decreases",
        ),
        Claim(
            "φ(λ) is approximately a/(b + λ), so that 1/φ is almost linear",
            f"between 0 and the root 1/φ is off its chord by {bent['reciprocal']:.1%} of its rise, "
            f"φ by {bent['phi']:.0%}",
            bool(bent["reciprocal"] < 0.05 < bent["phi"]) if needs else False,
            "one singular value dominates where it is small"
            if needs
            else "Δ needs no damping here",
        ),
        Claim(
            "with a subtask the norm goes to infinity at λ = 0 (27)",
            f"{close:.1e} rad/s at λ = 10⁻⁸",
            bool(close > 1e6),
            "β/λ in the null space of J",
        ),
        Claim(
            "shifting the axis by T = 0.0001 makes the norm finite at zero (28), and keeps it "
            "monotone (Fig. 3)",
            f"{totals[0]:.0f} rad/s at α = λ − T = 0, then falling to {totals[-1]:.2f}",
            bool(np.isfinite(totals[0]) and (np.diff(totals) < 0).all()),
            "the pole is at α = −T; the root for any Δ below that value is not moved",
        ),
    )
    table = Table(
        "lambda",
        {"lambda": lam, "phi": phis, "reciprocal": 1 / phis, "shifted_total": totals},
    )
    return Outcome(quantities, claims, _phi_figure(lam, phis, totals, root, max_speed), (table,))


def _phi_figure(
    lam: Array, phis: Array, totals: Array, root: float, max_speed: float
) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        figure.set_size_inches(11, 4.2)
        one, two, three = figure.subplots(1, 3)
        near = lam <= max(5 * root, 1e-3)
        style.titled(one, "φ(λ), Fig. 2", "λ [m²]", "‖θ̇‖ [rad/s]")
        one.plot(lam[near], phis[near], **style.style_of(0))
        one.plot(root, max_speed, "o", color=palette.BLACK)
        style.bound(one, max_speed, f"Δ = {max_speed:g}")
        style.titled(two, "1/φ(λ), nearly a line", "λ [m²]", "1/‖θ̇‖ [s/rad]")
        two.plot(lam[near], 1 / phis[near], **style.style_of(1))
        two.plot(root, 1 / max_speed, "o", color=palette.BLACK)
        style.titled(three, "With a subtask, shifted (Fig. 3)", "α = λ − T [m²]", "‖θ̇‖ [rad/s]")
        three.loglog(lam[1:], totals[1:], **style.style_of(2))
        style.bound(three, max_speed, f"Δ = {max_speed:g}")

    return draw
