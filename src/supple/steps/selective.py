"""Selectively damped least squares."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from supple._arrays.checks import number_field
from supple._core import Method, StepSpec
from supple.motion.linearization import Array, Linearization
from supple.steps.clamp import factor, scaled_down
from supple.steps.step import BatchStep, batched, check_group, effectors_of, finite_step


@dataclass(frozen=True)
class SDLS(BatchStep):
    """Selectively damped least squares: a separate limit for each singular direction.

    For each singular direction i with σ_i > 0, end effectors k and joints j:

        φ_i = (u_iᵀe/σ_i) v_i,  limited to max|φ_i| <= γ_i
        γ_i = max_angle min(1, N_i/M_i)      N_i = Σ_k ‖u_i,k‖      M_i = Σ_j |v_ji| Σ_k ‖J_k,j‖/σ_i

    u_i,k are the entries of u_i in the rows of end effector k, and J_k,j is column j of J in these
    rows. The sum of all φ_i is limited to max_angle as well. Where singular values coincide, the
    step depends on the basis that the decomposition chooses for their directions. The position rows
    of a task count as one end effector, and its rotation rows as another.

    Attributes:
        max_angle: γ_max [rad], or [rad/s] if e is a velocity, as in a `Servo`.
        soft: Whether to limit by φ γ/(γ + max|φ|), as in the authors' program, instead of clamping.
        group: Number of successive rows that form one end effector. If None, rows are grouped by
            the end effectors of the tasks; without tasks, every three rows form one.

    References:
        Buss & Kim 2005.
    """

    max_angle: float = math.pi / 4
    soft: bool = False
    group: int | None = None

    def __post_init__(self) -> None:
        number_field(self, "max_angle", above=0.0)
        check_group(self, self.group)

    @batched
    def __call__(self, linearization: Linearization) -> Array:  # noqa: D102
        lin = linearization
        effectors = effectors_of(lin, self.group)
        blocks = [effectors == k for k in np.unique(effectors)]
        total = np.zeros(lin.J.shape[1])
        if not lin.rank:
            return total
        relative = lin.J / lin.sigma[0]  # its squares neither overflow nor vanish
        reaches = sum(np.linalg.norm(relative[block], axis=0) for block in blocks)
        N = sum(np.linalg.norm(lin.U[block], axis=0) for block in blocks)
        M = np.abs(lin.V).T @ reaches
        for i in range(lin.rank):
            v, sigma = lin.V[:, i], lin.sigma[i]
            gamma = self.max_angle * min(1.0, N[i] / (M[i] * lin.sigma[0] / sigma))
            with np.errstate(over="ignore"):
                phi = finite_step(lin.gamma[i] / sigma * v)
            size = np.abs(phi).max()
            cut = gamma / (gamma + size) if self.soft else factor(size, gamma)
            total += cut * phi
        return scaled_down(total, self.max_angle)

    @property
    def kernel(self) -> StepSpec:  # noqa: D102
        method = Method.SELECTIVE_SOFT if self.soft else Method.SELECTIVE
        return StepSpec(method=method, parameter=self.max_angle, group=self.group or 0)
