"""Motion of a task due to a joint motion that should be in its null space."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from supple.errors import InputError, short_repr
from supple.motion.linearization import Linearization, numbers_of


def null_space_leakage(linearization: Linearization, null: ArrayLike) -> float:
    """Return the task motion per unit of the joint motion q̇ = `null` (n,):  ‖J q̇‖/‖q̇‖.

    The result is zero for a motion in the null space of J and for no motion, and at most the
    largest singular value. Damped projections leak (Deo & Walker 1995, eqs. (23), (24)).
    """
    given: object = linearization
    if not isinstance(given, Linearization):
        raise InputError(f"linearization must be a Linearization; given: {short_repr(given)}")
    dq = numbers_of(null, "null")
    if dq.shape != linearization.J.shape[1:]:
        raise InputError(f"null must have shape {linearization.J.shape[1:]}; given: {dq.shape}")
    largest = float(np.abs(dq).max())
    if largest == 0:
        return 0.0
    unit = dq / largest  # squares of scaled entries neither overflow nor vanish
    return float(np.linalg.norm(linearization.J @ unit) / np.linalg.norm(unit))
