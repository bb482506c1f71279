"""The papers' steps, transcribed literally with NumPy's decompositions; they are slow.

They are written from Buss 2009 (B), Maciejewski & Klein 1988 (MK), Deo & Walker 1995 (DW), Wampler
1986 (W) and Buss & Kim 2005, not from supple's code. Damping is λ² throughout.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Array = np.ndarray


def transpose(J: Array, e: Array) -> Array:
    """Return α Jᵀe with α = ⟨e, JJᵀe⟩/⟨JJᵀe, JJᵀe⟩  (B §3)."""
    JJe = J @ J.T @ e
    return float(e @ JJe / (JJe @ JJe)) * J.T @ e


def truncated(J: Array, e: Array, kept: Array) -> Array:
    """Return Σ_i (1/σ_i) v_i u_iᵀ e over the kept i  (MK 13)."""
    U, sigma, Vt = np.linalg.svd(J)
    total = np.zeros(J.shape[1])
    for i in np.flatnonzero(kept & (sigma > 1e-12 * sigma[0])):
        total += Vt[i] * (U[:, i] @ e) / sigma[i]
    return total


def pseudoinverse(J: Array, e: Array) -> Array:
    """Return J⁺e  (B §4); singular values up to 1e-12 of the largest count as zero."""
    sigma = np.linalg.svd(J, compute_uv=False)
    return truncated(J, e, sigma > 1e-12 * sigma[0])


def damped(J: Array, e: Array, lambda2: float) -> Array:
    """Return (JᵀJ + λ² I)⁻¹ Jᵀe, by least squares of the stacked matrix  (W 34, DW 4)."""
    n = J.shape[1]
    stacked = np.vstack([J, np.sqrt(lambda2) * np.eye(n)])
    return np.linalg.lstsq(stacked, np.concatenate([e, np.zeros(n)]), rcond=None)[0]


def weighted(J: Array, e: Array, lambda2: float, W1: Array, W2: Array) -> Array:
    """Return (JᵀW1J + λ²W2)⁻¹ JᵀW1e  (DW 2)."""
    return np.linalg.solve(J.T @ W1 @ J + lambda2 * W2, J.T @ W1 @ e)


def clamp_mag(w: Array, d: float) -> Array:
    """Return w, shortened to the length d if it is longer: ClampMag  (B §2)."""
    size = np.linalg.norm(w)
    return w if size <= d else d * w / size


def clamped_error(e: Array, d: float, effectors: Sequence[Sequence[int]]) -> Array:
    """Return e with each end effector's part clamped separately."""
    e = e.copy()
    for rows in effectors:
        e[list(rows)] = clamp_mag(e[list(rows)], d)
    return e


def clamp_max_abs(w: Array, d: float) -> Array:
    """Return w, scaled so that no entry exceeds d: ClampMaxAbs  (Buss & Kim)."""
    return w if np.abs(w).max() <= d else d * w / np.abs(w).max()


def selective(
    J: Array, e: Array, gamma_max: float, effectors: Sequence[Sequence[int]], soft: bool
) -> Array:
    """Return the SDLS step  (Buss & Kim, section 3), or, if `soft`, that of the authors' program.

    N_i = Σ_k ‖u_i,k‖,  ρ_k,j = ‖∂s_k/∂θ_j‖,  M_i,k = 1/σ_i Σ_j |v_j,i| ρ_k,j,
    γ_i = γ_max min(1, N_i/M_i)
    """
    U, sigma, Vt = np.linalg.svd(J)
    total = np.zeros(J.shape[1])
    for i in range(min(J.shape)):
        if sigma[i] <= 1e-12 * sigma[0]:
            continue
        N = sum(np.linalg.norm(U[list(rows), i]) for rows in effectors)
        M = sum(
            abs(Vt[i, j]) * np.linalg.norm(J[list(rows), j]) / sigma[i]
            for rows in effectors
            for j in range(J.shape[1])
        )
        gamma = gamma_max * min(1.0, N / M)
        phi = (U[:, i] @ e) / sigma[i] * Vt[i]
        total += phi * gamma / (gamma + np.abs(phi).max()) if soft else clamp_max_abs(phi, gamma)
    return clamp_max_abs(total, gamma_max)
