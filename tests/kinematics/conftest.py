"""Fixtures of the kinematics tests."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def rng() -> np.random.Generator:
    """Return a random generator that gives the same numbers in every run."""
    return np.random.default_rng(1986)
