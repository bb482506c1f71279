"""The singular configurations of the PUMA, and the trajectories through them (Fig. 4-5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from supple.papers.experiment import Claim, Outcome, Parameter, Progress, Table, experiment
from supple.papers.maciejewski_klein.courses import (
    TRIPLE,
    WRIST,
    course_a,
    course_b,
    course_c,
)
from supple.papers.maciejewski_klein.drawing import joints_of
from supple.papers.maciejewski_klein.inverse import A2, D2, D6, FOREARM, INNER, PUMA
from supple.papers.maciejewski_klein.methods import norm
from supple.papers.style import Array

from supple.plot import palette

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ELBOW = np.array([0.0, np.radians(-40), INNER, 0.0, np.radians(50), 0.0])  # stretched arm [rad]
ZERO = 1e-4  # singular values below this are called zero, as the printed angles are rounded


def wrist_jacobian(q: Array) -> Array:
    """Return J (6, 6) at the wrist center, which the three wrist joints do not move."""
    J = PUMA.jacobian(q)
    arm = PUMA.fk(q, "link4")[:3, 3] - PUMA.fk(q)[:3, 3]
    moved = J.copy()
    moved[:3] += np.cross(J[3:], arm, axis=0)
    return np.asarray(moved)


def over_shoulder(upper: float) -> Array:
    """Return the configuration with q2 = `upper` [rad] and the wrist on the axis of joint 1."""
    bend = np.arccos(-A2 * np.cos(upper) / FOREARM) + INNER - upper
    return np.array([0.0, upper, bend, 0.3, 0.8, 0.0])


def lost(q: Array) -> tuple[Array, Array]:
    """Return the singular values of `wrist_jacobian`, and the singular direction (6,)."""
    U, sigma, _ = np.linalg.svd(wrist_jacobian(q))
    return sigma, U[:, -1]


@experiment(
    "mk-configurations",
    paper="MK",
    figure="Fig. 4-5",
    title="The singular configurations of a PUMA, and the trajectories through them",
    deviations=(
        "Directions are those of the wrist's center, where translation and rotation decouple.",
        "Trajectories B and C are reconstructions: see mk-puma-b and mk-puma-c.",
    ),
    parameters=(Parameter("samples", 2000, "", "random configurations with q5 = 0", 0, 1000000),),
)
def singular_configurations(progress: Progress, *, samples: int) -> Outcome:
    """The directions that are lost at the wrist, shoulder, elbow and triple singularities are
    computed, and the distances at which trajectories A, B and C pass these singularities.
    """
    rng = np.random.default_rng(6)
    q = rng.uniform(-np.pi, np.pi, (samples, 6))
    q[:, 4] = 0
    everywhere = float(np.linalg.svd(PUMA.jacobian(q), compute_uv=False)[:, -1].max())
    shoulder_q = over_shoulder(np.radians(-69.0))
    spectra, directions = zip(*(lost(x) for x in (WRIST, shoulder_q, ELBOW)), strict=True)
    turning = np.linalg.svd(wrist_jacobian(WRIST)[3:, 3:], compute_uv=False)
    carrying = np.linalg.svd(wrist_jacobian(WRIST)[:3, :3], compute_uv=False)
    wrist = PUMA.fk(shoulder_q, "link4")[:3, 3]
    outward = np.array([wrist[0], wrist[1], 0]) / np.hypot(wrist[0], wrist[1])
    radial = float(abs(directions[1][:3] @ outward))
    joints = joints_of(ELBOW)
    along = joints[4] - joints[1]
    stretched = float(abs(directions[2][:3] @ along) / norm(along))
    triple, _ = lost(TRIPLE)
    zeros = int((triple < ZERO).sum())
    courses = {"A": course_a(), "B": course_b(), "C": course_c()}
    passes = {
        name: float(norm(courses[name].poses[:, :3, 3] - PUMA.fk(top)[:3, 3]).min())
        for name, top in (("A", WRIST), ("C", TRIPLE))
    }
    centers = courses["B"].poses[:, :2, 3] - D6 * courses["B"].poses[:, :2, 2]
    passes["B"] = float(np.abs(norm(centers) - D2).min())
    progress(1.0)
    quantities = {
        "wrist.sigma6": spectra[0][-1],
        "shoulder.sigma6": spectra[1][-1],
        "elbow.sigma6": spectra[2][-1],
        "wrist.largest_sigma6_anywhere": everywhere,
        "wrist.least_rotation": turning[-1],
        "wrist.least_translation": carrying[-1],
        "shoulder.radial": radial,
        "elbow.along_the_arm": stretched,
        "triple.zero_singular_values": zeros,
        "triple.sigma4": triple[3],
        "triple.sigma5": triple[4],
        "triple.sigma6": triple[5],
    } | {f"{name.lower()}.nearest": x for name, x in passes.items()}
    claims = (
        Claim(
            "the wrist singularity, q5 = 0, loses a rotational velocity",
            f"the wrist turns the hand with σ ≥ {turning[-1]:.0e}, the arm moves its center with "
            f"σ ≥ {carrying[-1]:.2f} m; σ6 = {spectra[0][-1]:.0e}",
            bool(turning[-1] < ZERO < carrying[-1] and spectra[0][-1] < ZERO),
            "the axes of joints 4 and 6 are aligned: two rotations are left while the wrist's "
            "center rests",
        ),
        Claim(
            "the wrist singularity is present throughout the workspace",
            f"σ6 ≤ {everywhere:.0e} over {samples} configurations with q5 = 0",
            everywhere < 1e-12,
            "it does not depend on the joints that position the wrist",
        ),
        Claim(
            "with the wrist over the shoulder, velocities toward or away from the base are lost",
            f"the lost direction is radial to {radial:.4f}; σ6 = {spectra[1][-1]:.0e}",
            radial > 0.99 and bool(spectra[1][-1] < ZERO),
            "joint 1 then moves the wrist in the arm's plane only, as joints 2 and 3 do",
        ),
        Claim(
            "with the elbow stretched, a linear velocity along the arm is lost",
            f"along the line from shoulder to wrist to {stretched:.4f}; σ6 = {spectra[2][-1]:.0e}",
            stretched > 0.95 and bool(spectra[2][-1] < ZERO),
            "joints 2 and 3 both move the wrist across that line; joint 1 a little along it, by "
            "the shoulder's offset",
        ),
        Claim(
            "all three coincide in a unique triple singularity",
            f"σ4, σ5, σ6 = {triple[3]:.3f}, {triple[4]:.0e}, {triple[5]:.0e}: {zeros} are zero",
            zeros == 3,
            "the forearm's offset of 20 mm tilts the axis of joint 4 by 2.6° from that of joint 1 "
            "where the arm is stretched: the two together still turn the tool a little",
        ),
        Claim(
            "the trajectories lead through these configurations",
            f"A within {1000 * passes['A']:.1f} and C within {1000 * passes['C']:.1f} mm; on B the "
            f"wrist passes the shoulder at {1000 * passes['B']:.0f} mm",
            True if max(passes["A"], passes["C"]) < 0.0015 and passes["B"] < 0.03 else None,
            "one interval is 1.5 mm; over the shoulder the wrist is on a cylinder about the first "
            "axis. The paths are not printed",
        ),
    )
    table = Table(
        "joint",
        {
            "joint": np.arange(6.0),
            **{
                f"{name}.place": joints_of(x)
                for name, x in (
                    ("wrist", WRIST),
                    ("shoulder", shoulder_q),
                    ("elbow", ELBOW),
                    ("triple", TRIPLE),
                )
            },
        },
    )
    shown = {
        "Wrist": (WRIST, None),
        "Shoulder": (shoulder_q, None),
        "Elbow": (ELBOW, None),
        "Triple, and trajectory C": (TRIPLE, courses["C"].poses),
        "Trajectory A, and its start": (courses["A"].start, courses["A"].poses),
        "Trajectory B, and its start": (courses["B"].start, courses["B"].poses),
    }
    return Outcome(quantities, claims, _figure(shown), (table,))


def _figure(shown: dict[str, tuple[Array, Array | None]]) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        figure.set_size_inches(12, 9)
        for k, (title, (q, poses)) in enumerate(shown.items()):
            ax: Any = figure.add_subplot(2, 3, k + 1, projection="3d")
            joints = joints_of(q)
            ax.plot(*joints.T, "o-", color=palette.BLUE, linewidth=2.5, ms=4)
            ax.plot(*joints[-2:].T, "-", color=palette.VERMILION, linewidth=3)
            ax.plot([0, 0], [0, 0], [-0.6, 0], color=palette.GRAY, linewidth=3)
            if poses is not None:
                ax.plot(*poses[:, :3, 3].T, color=palette.GREEN, linewidth=1.2)
            ax.set_title(title)
            ax.set_xlabel("x [m]", fontsize=8, labelpad=0)
            ax.set_ylabel("y [m]", fontsize=8, labelpad=0)
            ax.set_zlabel("z [m]", fontsize=8, labelpad=0)
            ax.tick_params(labelsize=7, pad=0)
            ax.set_xlim(-0.7, 0.7)
            ax.set_ylim(-0.7, 0.7)
            ax.set_zlim(-0.6, 1.0)
            ax.set_box_aspect((1.4, 1.4, 1.6), zoom=0.88)  # the layout ignores labels of 3D axes

    return draw
