"""Numerical filtering: strong damping of the weak singular directions only.

The directions are estimated instead of computed by an SVD (`estimate.py`).
`include/supple/step/filtering.hpp` is the kernel's version. Tuned constants are explained in
docs/constants.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from supple._arrays.checks import number_field
from supple._core import MAX_DIRECTIONS, RESERVE_SIZE, FilterSpec
from supple.errors import InputError, short_repr
from supple.motion.linearization import EPSILON, Array, Linearization
from supple.steps.estimate import (
    Estimates,
    ScaledProblem,
    SingularDirection,
    SingularSubspace,
)


@dataclass(frozen=True)
class NumericalFilter:
    """Damp the weak directions û_i of the task as necessary, and all other directions only little.

        (J Jᵀ + Σ α_i² û_i û_iᵀ + λ² I) z = e,    q̇ = Jᵀ z,  scaled down to ‖q̇‖ <= max_gain ‖e‖

    û_i and σ_i are the three weakest directions of J and their singular values. With a(σ, c) the
    smallest a that keeps  c s/(s² + a) <= max_gain  for all s >= σ,

        a(σ, c) = (c/(2 max_gain))²  if σ <= c/(2 max_gain),   else max(0, σ c/max_gain - σ²)
        c_i²    = Σ_j min(1, a(σ_j, 1)/a(σ_i, 1)) (û_jᵀe)²/‖e‖²
        t_i     = min(1, c_i/(2 max_gain σ_i)) max(0, 1 - (4 max_gain σ_i)²)
        α_i²    = a(σ_i, c_i) + c_i (1 - c_i) t_i a(σ_i, 1)
        λ²      = a(σ_eff, 1),        σ_eff = ‖e‖/‖q̇‖  of the step with λ = 0

    c_i is the fraction of e along û_i and all directions that are about as weak as û_i; if only one
    σ is small, c_i is |û_iᵀe|/‖e‖. If c_i is zero, the motion passes a singularity undamped; if c_i
    is one, α is that of the paper, eq. (14). The first term of α² is the smallest that keeps the
    bound ‖q̇‖ <= max_gain ‖e‖, also for several and for equal σ_i below 1/(2 max_gain). The second
    term makes the gain  c σ/(σ² + α²)  near a singularity independent of c: without this term, the
    gain grows like 1/c, and an arm that is stretched toward a target out of reach chatters. α and λ
    are continuous.

    The step is bounded and finite at every singularity; q̇ = 0 if e = 0 or J = 0. As in the paper,
    the bound is relative to ‖e‖. With more than three small singular values, or several that are
    slightly larger, the step may exceed the bound, and is therefore scaled down.

    The memory is a `SingularSubspace`, updated once per step before α is chosen. If J has changed
    so much that the memory is no longer a usable estimate, the memory starts again from the exact
    directions. Called like a plain step, the filter has no memory and uses the exact directions;
    `Servo` and `StatefulStep(NumericalFilter(...))` keep the memory.

    Attributes:
        max_gain: Bound on ‖q̇‖/‖e‖ (θ̇max).
        printed: Whether to filter one direction as printed in the paper: α² = a(σ_m, 1) regardless
            of e, and σ_eff = ‖e‖/sqrt(‖e_s‖²/σ_m² + ‖e_o‖²/σ_o²). e_s is the component of e along û
            and e_o the rest; σ_m and σ_o are the singular values for e_s and e_o. In this form, the
            arm stops at inner singularities that the default form passes.

    References:
        Maciejewski & Klein 1988, eqs. (27)-(35). Unlike in the paper, z is computed in the same
        interval, not in the previous one, and z_o = z - û(ûᵀz) replaces eq. (32), whose divisor may
        be zero.
    """

    max_gain: float
    printed: bool = False

    def __post_init__(self) -> None:
        number_field(self, "max_gain", above=0.0)
        printed: object = self.printed
        if not isinstance(printed, bool):
            given = short_repr(printed)
            raise InputError(f"NumericalFilter: printed must be True or False; given: {given}")

    def __call__(self, linearization: Linearization) -> Array:
        """Return q̇ (n,), with the exact singular directions instead of estimates."""
        return self.step(linearization, self.start(linearization))[0]

    def start(self, linearization: Linearization) -> SingularSubspace:
        """Return the exact directions, by singular value decomposition."""
        return SingularSubspace.exact(linearization, 1 if self.printed else MAX_DIRECTIONS)

    def step(
        self, linearization: Linearization, memory: SingularSubspace | SingularDirection
    ) -> tuple[Array, SingularSubspace]:
        """Return q̇ (n,) and the directions for the next step."""
        dq, memory, _ = self._taken(linearization, memory)
        return dq, memory

    def estimates(
        self, linearization: Linearization, memory: SingularSubspace | SingularDirection
    ) -> Estimates:
        """Return the `Estimates`, such as σ̂ and α², that `step` chooses for the same arguments."""
        return self._taken(linearization, memory)[2]

    @property
    def kernel(self) -> FilterSpec:
        """The filter for the compiled code."""
        directions = 1 if self.printed else MAX_DIRECTIONS
        return FilterSpec(max_gain=self.max_gain, printed=self.printed, directions=directions)

    def _taken(
        self, linearization: Linearization, memory: SingularSubspace | SingularDirection
    ) -> tuple[Array, SingularSubspace, Estimates]:
        J, count = linearization.J, memory.U.shape[1]
        problem = ScaledProblem.prepare(J, memory.U)
        scale = problem.scale
        if not problem.gram.any():
            still = SingularSubspace(memory.U, np.zeros(count))
            return np.zeros(J.shape[1]), still, Estimates(0.0, math.inf, math.inf, 0.0, 0.0)
        turned = problem.iterate_all()
        if turned is None:
            turned = replace(problem, U=problem.exact()[0][:, :count]).iterate_all()
            assert turned is not None  # exact directions are always a usable estimate
        U, sigma2 = turned
        memory = SingularSubspace(problem.restored(U), np.sqrt(sigma2) * scale)
        size = float(np.abs(linearization.e).max())
        e = problem.reduced(linearization.e / size) if size > 0 else np.zeros(len(U))
        length = float(np.linalg.norm(e))
        edge = 1 / scale / self.max_gain  # the singular value whose undamped gain is max_gain
        if length == 0 or edge >= EPSILON**-2:  # the bound is zero up to rounding
            none = Estimates(memory.sigma, math.inf, math.inf, 0.0, 0.0)
            return np.zeros(J.shape[1]), memory, none
        dq, effective, across, alpha2, lambda2 = self._filtered(
            problem, e / length, U, sigma2, edge
        )
        found = Estimates(
            memory.sigma,
            effective * scale,
            across * scale,
            alpha2 * scale * scale,
            lambda2 * scale * scale,
        )
        return size * length * (dq / scale), memory, found

    def _filtered(
        self, problem: ScaledProblem, e: Array, U: Array, sigma2: Array, edge: float
    ) -> tuple[Array, float, float, float, float]:
        """Return the step, σ_eff, σ_o, α² of û_1 and λ², for a unit e and a J of unit size."""
        J, one, blur = problem.J, np.eye(len(e)), problem.blur
        along = U.T @ e
        alpha2 = self.gains(np.sqrt(sigma2), along, edge)
        A = problem.gram + (U * alpha2) @ U.T + blur * one
        z = np.linalg.solve(A, e)
        dq: Array = J.T @ z
        e_o, z_o = (float(np.linalg.norm(x - U @ (U.T @ x))) for x in (e, z))
        across = math.inf
        if e_o > 64 * EPSILON and z_o > 0:
            across = math.sqrt(max(e_o / z_o - blur, blur))
        gain2 = float(dq @ dq)
        if self.printed:  # the gain without damping
            gain2 = float(along[0]) ** 2 / max(float(sigma2[0]), blur) + (e_o / across) ** 2
        effective = 1 / math.sqrt(gain2) if gain2 > 0 else math.inf
        lambda2 = min_damping(effective, edge, 1.0) if gain2 > 0 else 0.0
        if lambda2 > 0:
            dq = J.T @ np.linalg.solve(A + lambda2 * one, e)
        # Scale to slightly below the bound, by a margin larger than the rounding errors.
        speed = float(np.linalg.norm(dq)) * edge * (1 + 32 * EPSILON)
        return dq / speed if speed > 1 else dq, effective, across, float(alpha2[0]), lambda2

    def gains(self, sigma: Array, along: Array, edge: float) -> Array:
        """Return α² (p,) for singular values and components of a unit e, both (p,).

        Args:
            sigma: The singular values σ_i (p,).
            along: The components û_iᵀe/‖e‖ (p,).
            edge: The singular value whose gain is the bound, 1/max_gain.
        """
        most = np.array([min_damping(s, edge, 1.0) for s in sigma.tolist()])
        if self.printed:
            return most
        w = np.array([min_damping(s / edge, 1.0, 1.0) for s in sigma.tolist()])
        shared = np.where(w[:, None] > w, w / np.where(w > 0, w, 1.0)[:, None], 1.0)
        found = []
        for s, a, c2 in zip(sigma.tolist(), most.tolist(), shared @ along**2, strict=True):
            c = min(1.0, math.sqrt(c2))
            t = 1.0 if 2 * s <= c * edge else c * edge / (2 * s)
            r = s / edge / RESERVE_SIZE
            depth = 1 - r * r if r < 1 else 0.0
            found.append(min_damping(s, edge, c) + c * (1 - c) * t * depth * a)
        return np.array(found)


def min_damping(sigma: float, edge: float, share: float) -> float:
    """Return the smallest λ² with  share s/(s² + λ²) <= 1/edge  for all s >= sigma."""
    reach = share * edge
    return max(0.0, sigma * (reach - sigma)) if 2 * sigma >= reach else (reach / 2) ** 2
