"""Tests of the note on the damped pseudo-inverse (papers/note.py)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from supple.papers import Outcome, note


def test_gains_of_the_note_are_norms_of_the_damped_inverse() -> None:
    """The gains equal ‖Jᵀ(JJᵀ + ρ²I)⁻¹‖ computed by NumPy."""
    J = np.random.default_rng(3).normal(size=(5, 3, 4))
    for rho in note.RHOS:
        inverse = J.transpose(0, 2, 1) @ np.linalg.inv(
            J @ J.transpose(0, 2, 1) + rho**2 * np.eye(3)
        )
        np.testing.assert_allclose(
            note.gains(J, rho), np.linalg.norm(inverse, ord=2, axis=(-2, -1)), rtol=1e-12
        )


def test_the_gain_is_largest_at_sigma_equal_to_rho_and_reaches_its_bound_there(
    ran: Callable[[str], Outcome],
) -> None:
    found = ran("n-gain").quantities
    assert 1 - 1e-6 < found["max_scaled_gain"] <= 1 + 1e-12
    assert abs(found["scaled_gain_at_rho"] - 1) < 1e-12
    assert found["peak_sigma_over_rho"] == 1
    # At σ/ρ = 1e-4, the scaled gain is 2 (σ/ρ)/((σ/ρ)² + 1): near the singularity, it is far below
    # its maximum at σ = ρ.
    np.testing.assert_allclose(found["scaled_gain_at_singularity"], 2e-4 / (1 + 1e-8), rtol=1e-12)
    assert [claim.holds for claim in ran("n-gain").claims] == [True, True, True, False, True]
    assert 0.99 < found["largest_deviation"] <= 1 + 1e-9
