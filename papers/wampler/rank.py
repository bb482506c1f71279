"""W, "Rank-deficient configurations": removing rows, thresholds on σ, and damping instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from supple.papers import style
from supple.papers.experiment import (
    THESIS,
    Claim,
    Outcome,
    Parameter,
    Progress,
    Table,
    each,
    experiment,
)
from supple.papers.style import Array
from supple.papers.wampler.arms import ARMS, NAMES, ScaledArm

import supple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALPHA = 0.03  # damping factor [reaches]
STRETCHED = np.radians([45.0, 0.0])  # two stretched links, whose J has rank one
NEAR = 1e-3  # angle of a wrist that is nearly singular [rad]


def without_row(J: Array, v: Array, row: int) -> Array:
    """Return q̇ (..., n) by the pseudoinverse of J without one row."""
    kept = np.delete(np.arange(J.shape[-2]), row)
    return supple.steps.Pseudoinverse()(supple.Linearization(J[..., kept, :], v[..., kept]))


def between(a: Array, b: Array) -> Array:
    """Return the angle between vectors [deg]; zero if one of them is zero."""
    size = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    cosine = np.where(size > 1e-12, (a * b).sum(axis=-1) / np.maximum(size, 1e-300), 1.0)
    return np.asarray(np.degrees(np.arccos(np.clip(cosine, -1, 1))))


@experiment(
    "w-rank",
    paper="W",
    figure="Rank deficiency",
    title="At a singularity: rows removed, singular values cut, or the solution damped",
    deviations=(
        "The original experiment with removed rows is in the author's thesis. Here two stretched "
        "links are used, and a PUMA and a Stanford arm with straight wrists.",
        "A solution counts as useful if it is finite, continuous and at most ‖v̂‖/(2α), and if "
        "its residual exceeds the smallest possible one by at most the bound (43).",
    ),
    parameters=(
        Parameter("alpha", ALPHA, "reaches", "damping factor", 0),
        Parameter("samples", 2000, "", "configurations of each arm", 0, 1000000),
    ),
)
def rank(progress: Progress, *, alpha: float, samples: int) -> Outcome:
    """Two stretched links are commanded to move in every direction, with either row of J removed.
    Then two arms move at random configurations, with straight wrists and with wrists bent by
    0.001 rad, by the pseudoinverse with a threshold and by damped least squares.
    """
    angle = np.radians(np.arange(0.0, 360.0, 1.0))
    asked = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    J = np.asarray(supple.load("planar2").jacobian(STRETCHED)[:2])
    moved: list[Array] = [asked, asked]
    for row in (0, 1):
        many = np.broadcast_to(J, (len(asked), 2, 2))
        moved[row] = np.einsum("mn,kn->km", J, without_row(many, asked, row))
    apart = between(*moved)
    rng = np.random.default_rng(8)
    damped = supple.DLS(supple.damping.Constant(alpha**2))
    pinv = supple.steps.Pseudoinverse()
    turned, fastest, pinv_fastest, excess, jumps = {}, {}, {}, {}, {}
    for name, robot in each(ARMS.items(), progress):
        arm = ScaledArm.of(robot)
        q = arm.robot.random(samples, seed=rng)
        v = rng.normal(size=(samples, 6))
        v /= np.linalg.norm(v, axis=1, keepdims=True)
        every = []
        for bend in (None, 0.0, NEAR):
            if bend is not None:
                q[:, 4] = bend
            J6 = arm.jacobian(q)
            lin = supple.Linearization(J6, v)
            dq, exact = damped(lin), pinv(lin)
            off = [np.linalg.norm(v - np.einsum("kmn,kn->km", J6, x), axis=1) for x in (dq, exact)]
            sigma = np.linalg.svd(J6, compute_uv=False)
            rank_ = (sigma > 1e-9).sum(axis=1)
            least = sigma[np.arange(samples), rank_ - 1]
            over = (off[0] - off[1]) / (alpha**2 / (least**2 + alpha**2))
            every.append((np.linalg.norm(dq, axis=1), np.linalg.norm(exact, axis=1), over))
            if bend == 0.0:
                rows = [np.einsum("kmn,kn->km", J6, without_row(J6, v, row)) for row in range(6)]
                pairs = [between(a, b) for i, a in enumerate(rows) for b in rows[:i]]
                turned[name] = np.max(pairs, axis=0)
                straight = dq
        fastest[name] = max(float(x[0].max()) for x in every)
        pinv_fastest[name] = max(float(x[1].max()) for x in every)
        excess[name] = max(float(x[2].max()) for x in every)
        jumps[name] = float(np.linalg.norm(dq - straight, axis=1).max())
    worst = float(apart.max())
    share = {name: float((x > 90).mean()) for name, x in turned.items()}
    quantities = {
        "two_links.largest_angle": worst,
        "two_links.share_reversed": float((apart > 179.9).mean()),
    }
    for name in ARMS:
        quantities |= {
            f"{name}.largest_angle": float(turned[name].max()),
            f"{name}.share_above_90": share[name],
            f"{name}.damped_max_speed": fastest[name],
            f"{name}.pinv_max_speed": pinv_fastest[name],
            f"{name}.residual_over_bound": excess[name],
            f"{name}.jump_at_singularity": jumps[name],
        }

    def both(values: dict[str, float], form: str) -> str:
        return ", ".join(f"{values[name]:{form}} ({NAMES[name]})" for name in ARMS)

    bound = 1 / (2 * alpha)
    claims = (
        Claim(
            "with a dependent row removed, the resultant velocity may turn by 180° depending on "
            "which row",
            f"two stretched links: by {worst:.1f}° for {float((apart > 179.9).mean()):.0%} of all "
            "directions asked; with straight wrists by more than 90° in "
            f"{both(share, '.0%')} of the cases",
            worst > 179.9,
            "each row alone is met exactly, and the two ask for opposite motions along the one "
            "direction that is left",
        ),
        Claim(
            f"{THESIS}damped least squares yields useful results for all configurations",
            f"α = {alpha:g}: at most {both(fastest, '.1f')} of a bound of {bound:.1f} per ‖v̂‖, the "
            f"pseudoinverse up to {both(pinv_fastest, '.0f')}; residuals grow by at most "
            f"{both(excess, '.2f')} of (43)",
            max(fastest.values()) <= bound * (1 + 1e-9) and max(excess.values()) <= 1 + 1e-6,
            "the gain σ/(σ² + α²) is bounded by 1/(2α) for every σ, and no rank must be decided",
        ),
        Claim(
            "discontinuities and dead zones are eliminated",
            f"a bend of {NEAR:g} rad changes q̇ by at most {both(jumps, '.2f')}, the slope allows "
            f"{NEAR / alpha**2:.2f}",
            max(jumps.values()) <= NEAR * 4 / alpha**2,
            "q̇ is nowhere steeper than about 1/α² in J, where the pseudoinverse jumps",
        ),
    )
    table = Table(
        "direction",
        {
            "direction": np.degrees(angle),
            "angle_between": apart,
            "without_x": moved[0],
            "without_y": moved[1],
        },
    )
    return Outcome(quantities, claims, _figure(angle, asked, moved, apart), (table,))


def _figure(
    angle: Array, asked: Array, moved: list[Array], apart: Array
) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        figure.set_size_inches(9.5, 4.6)
        left, right = figure.subplots(1, 2)
        places = supple.load("planar2").fk(STRETCHED, ["link0", "link1", "link2"])[:, :2, 3]
        style.arms(left, places[None], 1)
        hand = places[-1]
        for k, (name, x) in enumerate(
            {"asked": asked, "row x removed": moved[0], "row y removed": moved[1]}.items()
        ):
            arrow = 0.6 * x[60] / max(1.0, float(np.linalg.norm(x[60])))
            style.arrow(left, hand, hand + arrow, style.STYLES[k][0])
            left.plot([], [], color=style.STYLES[k][0], label=name)
        left.legend(loc="lower right")
        style.titled(left, "Two stretched links, asked for 60°", "x [m]", "y [m]")
        style.titled(right, "Angle between the two results", "direction asked [°]", "angle [°]")
        right.plot(np.degrees(angle), apart, **style.style_of(0))
        style.bound(right, 180, "180°", below=True)

    return draw
