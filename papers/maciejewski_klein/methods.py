"""The methods that the paper compares, and its measure of the error."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from supple.papers.style import Array

from supple import DLS, Limits, Robot, Trajectory, damping, simulate
from supple.steps import EstimatedDLS, NumericalFilter

LABELS = {
    "constant": "constant λ",
    "variable": "variable λ, eq. (14)",
    "filtered_as_printed": "filtered, α as printed",
    "filtered": "filtered, α by component",
}
GAIN = 0.1  # feedback gain k_p [1/interval]

DEVIATIONS = (
    "Eq. (14) as printed has no case for σ below λ, where it violates its own bound; the text "
    "before it has one: λ = 1/(2θ̇max).",
    "`filtered_as_printed` takes α from eq. (14), which damps the singular direction even if ẋ "
    "has no component along it. `filtered` derives α from the fraction c of ẋ along the three "
    "weakest directions: the smallest α that keeps the bound for this fraction, and a smooth "
    "addition that prevents chatter at targets out of reach (`NumericalFilter`).",
    "Both filters use z and û of the current interval instead of the previous one (for the square "
    "as printed this changes the integral by less than 5 %), and z_o = z − û(ûᵀz) for eq. (32). "
    "They end with a scaling to the bound, because near two small singular values α and λ alone "
    "do not keep it.",
)


class Moved(Protocol):
    """The protocol of a motion of K intervals, which a `Trajectory` satisfies."""

    @property
    def q(self) -> Array:
        """Joint angles (K + 1, n) [rad]."""

    @property
    def qd(self) -> Array:
        """Joint speeds (K, n) [rad per interval]."""

    @property
    def command(self) -> Array:
        """Commanded velocities ẋ_c (K, m)."""

    @property
    def velocity(self) -> Array:
        """Velocities J θ̇ (K, m)."""


def methods(max_gain: float) -> dict[str, Any]:
    """Return new steps by name, each of which keeps ‖θ̇‖ <= max_gain ‖ẋ_c‖."""
    return {
        "constant": DLS(damping.Constant((1 / (2 * max_gain)) ** 2)),  # eq. (10)
        "variable": EstimatedDLS(damping.SpeedBound(max_gain)),  # section IV
        "filtered_as_printed": NumericalFilter(max_gain, printed=True),
        "filtered": NumericalFilter(max_gain),
    }


def followed(
    robot: Robot, start: Array, path: Array, step: Any, *, gain: float = GAIN, **how: Any
) -> Trajectory:
    """Follow a path with one target for each interval, without joint limits."""
    free = Limits.none(robot)
    return simulate(robot, start, target=path, dt=1.0, gain=gain, step=step, limits=free, **how)


def error(moved: Moved) -> Array:
    """Return ‖ẋ_c - J θ̇‖/‖ẋ_c‖ of each interval, eq. (37)."""
    return norm(moved.command - moved.velocity) / norm(moved.command)


def norm(vectors: Array) -> Array:
    """Return the norms (...) of vectors (..., k)."""
    return np.asarray(np.linalg.norm(vectors, axis=-1), dtype=np.float64)


def percent(share: float) -> str:
    """Return text such as "22.0 %", or "7e-13" for tiny values."""
    return f"{100 * share:.1f} %" if share >= 5e-4 or share == 0 else f"{share:.0e}"
