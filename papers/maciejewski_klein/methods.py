"""The methods that the paper compares, and its measure of the error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from supple.papers.style import Array

from supple import DLS, Limits, Linearization, Robot, Trajectory, damping, track
from supple.steps import NumericalFilter, SingularDirection, StatefulStep

LABELS = {
    "constant": "constant λ",
    "variable": "variable λ, eq. (14)",
    "estimated": "variable λ, σ estimated",
    "filtered_as_printed": "filtered, α as printed",
    "filtered": "filtered, α by component",
}
GAIN = 0.1  # k_p, per interval

DEVIATIONS = (
    "Eq. (14) as printed has no case below σ = λ, where it breaks its own bound; the text before "
    "it has: λ = 1/(2θ̇max).",
    "α from eq. (14) as printed damps the singular direction whether ẋ asks for it or not: "
    "`filtered_as_printed`. `filtered` takes it from the share c of ẋ along û: α² = (c/2θ̇max)² if "
    "σ_m ≤ c/(2θ̇max), else max(0, σ_m c/θ̇max − σ_m²).",
    "Both filters take z and û of the present interval instead of the one before (for the square "
    "as printed this changes the integral by less than 5 %), z_o = z − û(ûᵀz) for eq. (32), and "
    "end with a cut to the bound: near two small singular values α and λ alone do not keep it.",
)


class Moved(Protocol):
    """What a motion of K intervals must have: a `Trajectory` does."""

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
    """Return the steps by name, each with ‖θ̇‖ <= max_gain ‖ẋ_c‖ and at the start of a motion."""
    return {
        "constant": DLS(damping.Constant((1 / (2 * max_gain)) ** 2)),  # eq. (10)
        "variable": DLS(damping.SpeedBound(max_gain)),
        "estimated": StatefulStep(Estimated(damping.SpeedBound(max_gain))),
        "filtered_as_printed": StatefulStep(NumericalFilter(max_gain, printed=True)),
        "filtered": StatefulStep(NumericalFilter(max_gain)),
    }


@dataclass(frozen=True)
class Estimated:
    """Damping by eq. (14) for the estimate of the interval before, without an SVD (section IV)."""

    rule: damping.SpeedBound

    def start(self, linearization: Linearization) -> SingularDirection:
        """Return the exact direction, as at the start of the paper's trajectories."""
        return SingularDirection.exact(linearization)

    def step(
        self, linearization: Linearization, memory: SingularDirection
    ) -> tuple[Array, SingularDirection]:
        """Return θ̇ for λ of the previous σ̂, and the estimate by (22) and (25)."""
        lambda2 = self.rule(Linearization(np.array([[memory.sigma]]), np.ones(1)))
        dq = DLS(damping.Constant(lambda2))(linearization)
        return dq, memory.update(linearization.J, lambda2)


def followed(
    robot: Robot, start: Array, path: Array, step: Any, *, gain: float = GAIN, **how: Any
) -> Trajectory:
    """Follow a path, one target for each interval, without limits except the step's own."""
    free = Limits.none(robot)
    return track(robot, start, target=path, dt=1.0, gain=gain, step=step, limits=free, **how)


def error(moved: Moved) -> Array:
    """Return ‖ẋ_c - J θ̇‖/‖ẋ_c‖ of each interval, eq. (37)."""
    return norm(moved.command - moved.velocity) / norm(moved.command)


def norm(vectors: Array) -> Array:
    """Return the norm of each row."""
    return np.asarray(np.linalg.norm(vectors, axis=-1), dtype=np.float64)


def percent(share: float) -> str:
    """Return text such as "22.0 %", or "7e-13" for tiny values."""
    return f"{100 * share:.1f} %" if share >= 5e-4 or share == 0 else f"{share:.0e}"
