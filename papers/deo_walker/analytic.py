"""DW section 3.1: singular values in closed form, and the cost of the optimal damping factor."""

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

TOLERANCE = 1e-6  # relative difference of ‖q̇‖ from Δ at which the search ends
ROWS = tuple(range(2, 13))
NAMES = {
    "constant": "constant λ",
    "manipulability": "manipulability",
    "optimal": "optimal, (18)",
}


def of_two_rows(trace: Array, determinant: Array) -> Array:
    """Return both singular values (..., 2) of a J with two rows, from the trace t and determinant d
    of JJᵀ: σ₁² = (t + √(t² − 4d))/2, and σ₂ = √d/σ₁, which keeps its digits.
    """
    root = np.sqrt(np.maximum(trace**2 - 4 * determinant, 0))
    first = np.sqrt((trace + root) / 2)
    return np.stack([first, np.sqrt(np.maximum(determinant, 0)) / first], axis=-1)


def planar(q: Array, links: Array) -> Array:
    """Return σ (..., 2) of the hand of a planar arm in its plane, from lengths and joint angles.

    The columns of J are the vectors r_i from joint i to the hand, turned by 90°. So the trace of
    JJᵀ is Σ‖r_i‖², and the determinant of JJᵀ is Σ_{i<j} (r_i × r_j)². For two links this is
    l₁² + 2l₁l₂ cos θ₂ + 2l₂² and (l₁l₂ sin θ₂)².
    """
    angle = np.cumsum(q, axis=-1)
    x, y = (np.cumsum((links * f(angle))[..., ::-1], axis=-1) for f in (np.cos, np.sin))
    cross = x[..., :, None] * y[..., None, :] - y[..., :, None] * x[..., None, :]
    return of_two_rows((x**2 + y**2).sum(axis=-1), (cross**2).sum(axis=(-2, -1)) / 2)


def wrist(q5: Array) -> Array:
    """Return σ (..., 3) of a spherical wrist with right angles: √(1 + |cos θ₅|), 1 and
    √(1 − |cos θ₅|) = |sin θ₅|/√(1 + |cos θ₅|).
    """
    cosine = np.abs(np.cos(q5))
    return np.stack(
        [np.sqrt(1 + cosine), np.ones_like(cosine), np.abs(np.sin(q5)) / np.sqrt(1 + cosine)],
        axis=-1,
    )


def differences(samples: int) -> dict[str, float]:
    """Return, by name, the largest difference of each closed form from the library's results."""
    rng = np.random.default_rng(5)
    found = {}
    for name, links in (("planar2", [1.1, 1.0]), ("planar3", [1.0, 0.5, 0.5])):
        q = rng.uniform(-np.pi, np.pi, (samples, len(links)))
        exact = np.linalg.svd(supple.load(name).jacobian(q)[:, :2], compute_uv=False)
        found[name] = float(np.abs(planar(q, np.array(links)) - exact).max())
    robot = supple.load("puma560")
    q = robot.random(samples, seed=rng)
    exact = np.linalg.svd(robot.jacobian(q)[:, 3:, 3:], compute_uv=False)
    found["wrist"] = float(np.abs(wrist(q[:, 4]) - exact).max())
    return found


def damped_in_closed_form(q: Array, x: Array, links: Array, lambda2: float) -> Array:
    """Return the damped solution (..., 2) of two links: Jᵀ(JJᵀ + λ²I)⁻¹ẋ with the 2 × 2 inverse."""
    a, b = q[..., 0], q.sum(axis=-1)
    hx, hy = links[1] * np.cos(b), links[1] * np.sin(b)
    px, py = links[0] * np.cos(a) + hx, links[0] * np.sin(a) + hy
    xx, yy, xy = py**2 + hy**2 + lambda2, px**2 + hx**2 + lambda2, -px * py - hx * hy
    det = xx * yy - xy**2
    z = np.stack([yy * x[..., 0] - xy * x[..., 1], xx * x[..., 1] - xy * x[..., 0]], -1)
    z = z / det[..., None]
    return np.stack([-py * z[..., 0] + px * z[..., 1], -hy * z[..., 0] + hx * z[..., 1]], axis=-1)


# ---- the cost of the rules -----------------------------------------------------------------------


def operations(m: int, n: int, searches: float) -> dict[str, float]:
    """Return the multiplications of an update with m rows and n joints, by rule.

    All rules form JJᵀ, factor JJᵀ + λI, solve and multiply by Jᵀ. The manipulability also needs a
    factor of JJᵀ, whose diagonal gives the determinant. An iteration of (18) factors JJᵀ + λI,
    solves for z, and computes φ = ‖Jᵀz‖ and its slope −zᵀ(JJᵀ)(JJᵀ + λI)⁻¹z/φ. The last z gives
    the solution.
    """
    gram, factor = m * (m + 1) // 2 * n, m * (m * m - 1) // 6 + m * (m + 1) // 2
    solution, last = m * (m + 1), m * n
    once = factor + solution + last
    slope = n + last + solution // 2 + m + 4  # Jᵀz and its norm, J(Jᵀz), half a solution, a product
    return {
        "constant": float(gram + once),
        "manipulability": float(gram + factor + m + once),
        "optimal": float(gram + once + searches * (once + slope)),
    }


@experiment(
    "dw-analytic",
    paper="DW",
    figure="Section 3.1",
    title="Singular values in closed form, and what the optimal damping factor costs",
    deviations=(
        "The paper refers to [15, 16] for closed forms: here they are derived for planar arms of "
        "any number of links and for a spherical wrist.",
        "Costs are multiplications; (18) is done by Cholesky factors, with the mean number of "
        "iterations from zero on random J whose pseudoinverse exceeds Δ by up to ten times.",
    ),
    parameters=(Parameter("samples", 500, "", "random configurations of each arm", 0, 1000000),),
)
def closed_forms(progress: Progress, *, samples: int) -> Outcome:
    """Singular values of planar arms and of a wrist, and the damped solution of two links, are
    computed in closed form and compared with the library. Then the operations of an update with the
    optimal factor are compared with those of simpler rules.
    """
    off = differences(samples)
    rng = np.random.default_rng(6)
    q, x = rng.uniform(-3, 3, (samples, 2)), rng.normal(size=(samples, 2))
    J = supple.load("planar2").jacobian(q)[:, :2]
    step = supple.DLS(supple.damping.Constant(0.01))
    closed = damped_in_closed_form(q, x, np.array([1.1, 1.0]), 0.01)
    of_step = float(np.abs(closed - step(supple.Linearization(J, x))).max())
    searches = {m: _iterations(rng, m) for m in each(ROWS, progress)}
    costs = {m: operations(m, m + 1, searches[m]) for m in ROWS}
    ratio = {m: c["optimal"] / c["constant"] for m, c in costs.items()}
    quantities = {f"{name}.largest_difference": x for name, x in off.items()}
    quantities |= {"damped.largest_difference": of_step}
    quantities |= {f"m6.{name}_operations": x for name, x in costs[6].items()}
    quantities |= {"m6.iterations": searches[6], "m6.optimal_ratio": ratio[6]}
    claims = (
        Claim(
            "for certain manipulators, singular values have been obtained in closed form",
            "largest difference from the library: "
            + ", ".join(f"{x:.0e} ({name})" for name, x in off.items()),
            max(off.values()) < 1e-12,
            "planar arms have two rows: σ² are the roots of a quadratic. The axes of a wrist are "
            "unit vectors, and the middle one is orthogonal to both others",
        ),
        Claim(
            "for these manipulators, so has the damped least-squares solution",
            f"that of two links differs by at most {of_step:.0e}",
            of_step < 1e-10,
            "the inverse of JJᵀ + λ²I with two rows is a formula",
        ),
        Claim(
            "the optimal factor is computationally more expensive than the other methods",
            f"6 rows and 7 joints: {costs[6]['optimal']:.0f} multiplications with "
            f"{searches[6]:.1f} iterations of (18), {costs[6]['constant']:.0f} with a constant "
            f"factor, {costs[6]['manipulability']:.0f} by manipulability: {ratio[6]:.1f} times",
            min(ratio.values()) > 1.5,
            "each iteration factors JJᵀ + λI again; where the pseudoinverse keeps Δ there is none",
        ),
    )
    columns = {"rows": np.array(ROWS, dtype=float)} | {
        f"{name}.operations": np.array([costs[m][name] for m in ROWS]) for name in NAMES
    }
    return Outcome(quantities, claims, _figure(columns), (Table("rows", columns),))


def _iterations(rng: np.random.Generator, m: int) -> float:
    """Return the mean number of iterations of (18) from λ = 0, for random J with m rows."""
    counts = []
    for _ in range(20):
        J, e = rng.normal(size=(m, m + 1)), rng.normal(size=m)
        size = float(np.linalg.norm(supple.steps.Pseudoinverse()(supple.Linearization(J, e))))
        rule = supple.damping.Optimal(size / 10 ** rng.uniform(0.1, 1))
        given = supple.Linearization(J, e)
        counts.append(rule.solve(given, tolerance=TOLERANCE, from_zero=True)[1])
    return float(np.mean(counts))


def _figure(columns: dict[str, Array]) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        figure.set_size_inches(9.5, 4.4)
        left, right = figure.subplots(1, 2)
        bend = np.linspace(-np.pi, np.pi, 401)
        q = np.stack([0 * bend, bend], axis=1)
        style.titled(left, "Two links, in closed form", "bend of the elbow [°]", "σ [m]")
        sigma = planar(q, np.array([1.1, 1.0]))
        style.curves(left, np.degrees(bend), {"σ1": sigma[:, 0], "σ2": sigma[:, 1]})
        left.legend()
        style.titled(right, "The cost of a rule", "rows of J", "multiplications of an update")
        named = {NAMES[n]: columns[f"{n}.operations"] for n in NAMES}
        style.curves(right, columns["rows"], named)
        right.set_yscale("log")
        right.legend()

    return draw
