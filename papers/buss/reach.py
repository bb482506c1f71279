"""B sections 1, 2, 4 and 8: targets at the end of the reach, clamped errors, and rest positions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from supple.papers import style
from supple.papers.buss import figures
from supple.papers.buss.figures import Step
from supple.papers.experiment import Claim, Outcome, Parameter, Progress, Table, each, experiment
from supple.papers.style import Array

import supple
from supple.plot import palette

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REACH = 2.0  # reach of three links of 1, 0.5 and 0.5 m [m]
DISTANCES = (0.7, 0.9, 0.99, 0.999, 1.001, 1.01, 1.1)  # distances of a target, relative to REACH
BARELY, BEYOND, WITHIN = (DISTANCES.index(x) for x in (0.999, 1.001, 0.7))
SIMILAR = 0.05  # largest difference of fractions of reversed updates called similar
LAMBDA = 0.1  # λ of DLS [m]
FOLDED = np.radians([5.0, -175.0, 175.0])  # nearly singular angles of three links [rad]
REST = np.radians([40.0, -120.0, 100.0])  # bent angles of three links [rad]
NAMES = {"transpose": "transpose", "pinv": "pseudoinverse", "dls": "DLS", "dls_clamped": "DLS'"}


def methods() -> dict[str, Step]:
    """Return the methods for one end effector in a plane; errors of DLS' are clamped to 0.25 m."""
    dls = supple.DLS(supple.damping.Constant(LAMBDA**2))
    exact = supple.steps.TruncatedSVD(1e-3)
    return {
        "transpose": supple.steps.Transpose(),
        "pinv": supple.steps.AngleClamp(exact, math.radians(45)),
        "dls": dls,
        "dls_clamped": supple.steps.ErrorClamp(dls, 0.25, group=2),
    }


def reversed_shares(step: Step, starts: Array, updates: int = 40) -> Array:
    """Return the shares (D,) of updates that reverse the previous update, toward a target at rest.

    There is a share for a target at each of the D `DISTANCES`: the mean over starts (S, 3).
    """
    robot, goals = supple.load("planar3"), np.zeros((len(DISTANCES), 1, 2))
    goals[:, 0, 0] = REACH * np.array(DISTANCES)
    q = np.tile(starts, (len(goals), 1, 1))
    before, back = np.zeros_like(q), np.zeros(q.shape[:2])
    for _ in range(updates):
        T, J = robot.fk_jacobian(q)
        dq = step(supple.Linearization(J[..., :2, :], goals - T[..., :2, 3]))
        back += ((dq * before).sum(axis=-1) < 0) & (np.linalg.norm(dq, axis=-1) > 0.02)
        q, before = q + dq, dq
    return np.asarray(back.mean(axis=1) / (updates - 1))


def operations(rows: int, joints: int, effectors: int) -> tuple[int, int]:
    """Return the multiplications of a DLS update, and the additional ones that clamp its errors.

    DLS forms half of JJᵀ, factors it, solves two triangular systems and multiplies by Jᵀ. A clamp
    takes a norm, a quotient and a product for each end effector.
    """
    gram = rows * (rows + 1) // 2 * joints
    factor = rows * (rows * rows - 1) // 6 + rows * (rows + 1) // 2
    return gram + factor + rows * (rows + 1) + rows * joints, effectors * (3 + 1 + 1 + 3)


def least_values(updates: int) -> dict[str, Array]:
    """Return σ_min (K,) of three links by name, without and with a rest position. The links start
    folded, and the hand moves on a circle about the base.
    """
    robot = supple.load("planar3")
    radius = float(np.linalg.norm(robot.fk(FOLDED)[:2, 3]))
    angle = np.arctan2(*robot.fk(FOLDED)[1::-1, 3]) + np.linspace(0, 2, updates)
    path = radius * np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    plain = supple.steps.Pseudoinverse()
    rest = supple.redundancy.NullSpace(plain, supple.criteria.RestPosture(REST), 1.0)
    steps: dict[str, Any] = {"plain": plain, "rest": rest}
    return {
        name: supple.simulate(
            robot,
            FOLDED,
            tasks=supple.PositionTask(rows=("x", "y")),
            target=path,
            dt=2 / updates,
            gain=2.0,
            step=step,
            limits=supple.Limits.none(robot),
        ).sigma_min
        for name, step in steps.items()
    }


@experiment(
    "buss-reach",
    paper="B",
    figure="Sections 1, 2, 4 and 8",
    title="At the end of the reach: barely reachable targets, clamped errors, rest positions",
    deviations=(
        "The paper gives no numbers for these remarks. Targets rest at some distance from an arm "
        "of three links, from twelve starts; the Y is that of the program; the hand of the three "
        "links moves on a circle from a start in which they are folded.",
        "Run times of DLS' are compared by operations, because the paper reports none; within 10 % "
        "they count as very close.",
    ),
    parameters=(
        Parameter("starts", 12, "", "starts of the arm of three links", 0, 10000),
        Parameter("updates", 300, "", "updates of the folded arm", 99, 1000000),
    ),
)
def end_of_reach(progress: Progress, *, starts: int, updates: int) -> Outcome:
    """Targets lie within, at and beyond the reach of an arm. SDLS follows the targets of the Y
    without and with clamped errors. The operations of DLS and DLS' are counted. An arm of three
    links moves its hand from a folded start, without and with a rest position.
    """
    first = np.random.default_rng(0).uniform(-1.2, 1.2, (starts, 3))
    shares = {
        name: reversed_shares(step, first) for name, step in each(methods().items(), progress)
    }
    apart = {name: abs(x[BARELY] - x[BEYOND]) for name, x in shares.items()}
    selective = supple.steps.SDLS(math.radians(45), soft=True)
    clamped = supple.steps.ErrorClamp(selective, figures.D_MAX)
    plain, calm = (figures.follow(figures.Y, step).oscillation for step in (selective, clamped))
    counts = {"y": operations(6, 7, 2), "double_y": operations(12, 16, 4)}
    added = {name: more / of for name, (of, more) in counts.items()}
    sigma = least_values(updates)
    half = updates // 2
    quantities = {
        f"{name}.reversed_at_{str(x).replace('.', '_')}": share
        for name, x_shares in shares.items()
        for x, share in zip(DISTANCES, x_shares, strict=True)
    }
    quantities |= {"sdls.oscillation": plain, "sdls_clamped.oscillation": calm}
    quantities |= {f"{name}.clamp_operations_share": x for name, x in added.items()}
    quantities |= {f"{name}.least_sigma": x.min() for name, x in sigma.items()}
    quantities |= {f"{name}.mean_sigma": x.mean() for name, x in sigma.items()}

    def told(names: tuple[str, ...]) -> str:
        return "; ".join(
            f"{NAMES[name]} {shares[name][WITHIN]:.2f}, {shares[name][BARELY]:.2f} and "
            f"{shares[name][BEYOND]:.2f}"
            for name in names
        )

    damped = ("transpose", "dls", "dls_clamped")
    claims = (
        Claim(
            "targets that are barely reachable are very similar to unreachable ones",
            "share of updates that reverse with targets at 0.7, 0.999 and 1.001 of the reach: "
            + told(damped),
            max(apart[name] for name in damped) < SIMILAR
            and shares["transpose"][BARELY] > 5 * shares["transpose"][WITHIN],
            "the arm is stretched out in both cases, and one direction is nearly lost",
        ),
        Claim(
            "the same for the pseudoinverse",
            told(("pinv",)),
            apart["pinv"] < SIMILAR,
            "near a solution it converges like Newton's method, however close to the end of the "
            "reach; beyond it there is none, and it oscillates",
        ),
        Claim(
            "clamping the errors reduces the oscillation of SDLS as well",
            f"share of moves of the Y that reverse: {plain:.1%} without, {calm:.1%} with the clamp",
            calm < plain / 5 and plain > 0.05,
            "the end effectors do not stretch toward targets that are far out of reach",
        ),
        Claim(
            "the runtime of DLS' is very close to that of DLS",
            f"the clamp adds {counts['y'][1]} multiplications to {counts['y'][0]} for the Y, and "
            f"{counts['double_y'][1]} to {counts['double_y'][0]} for the double Y of the text: "
            f"{added['y']:.1%} and {added['double_y']:.1%}",
            max(added.values()) < 0.1,
            "a norm and a product for each end effector",
        ),
        Claim(
            "rest positions in the null space help to avoid singular configurations",
            f"three links start folded, with σ_min = {sigma['plain'][0]:.3f} m. In the second half "
            f"of a motion of the hand it is at most {sigma['plain'][half:].max():.3f} m without, "
            f"at least {sigma['rest'][half:].min():.3f} m with a rest position",
            bool(sigma["rest"][half:].min() > 2 * sigma["plain"][half:].max()),
            "the rest position is far from singularities, and self-motion returns to it; the "
            "pseudoinverse alone stays near the singularity",
        ),
    )
    tables = (
        Table(
            "distance",
            {"distance": np.array(DISTANCES), **{f"{n}.reversed": x for n, x in shares.items()}},
        ),
        Table(
            "update",
            {
                "update": np.arange(float(len(sigma["rest"]))),
                **{f"{n}.sigma": x for n, x in sigma.items()},
            },
        ),
    )
    return Outcome(quantities, claims, _figure(shares, sigma), tables)


def _figure(shares: dict[str, Array], sigma: dict[str, Array]) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        figure.set_size_inches(9.5, 4.4)
        left, right = figure.subplots(1, 2)
        style.titled(left, "A resting target", "distance [reaches]", "updates that reverse [%]")
        place = np.arange(len(DISTANCES))
        style.curves(
            left, place, {NAMES[name]: 100 * x for name, x in shares.items()}, marker="o", ms=4
        )
        left.set_xticks(place, [f"{x:g}" for x in DISTANCES])
        left.axvline((BARELY + BEYOND) / 2, color=palette.GRAY, linewidth=1, linestyle=":")
        left.legend()
        style.titled(right, "Three links that start folded", "update", "σ_min [m]")
        names = {"plain": "without", "rest": "with a rest position"}
        style.curves(
            right, np.arange(len(sigma["rest"])), {names[n]: x for n, x in sigma.items()}, first=4
        )
        right.set_ylim(0)
        right.legend()

    return draw
