"""Fixtures of the kinematics tests."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

# The slow oracle lives beside the tests of descriptions.
sys.path.insert(0, str(Path(__file__).parents[1] / "describe"))


@pytest.fixture
def rng() -> np.random.Generator:
    """The same random numbers in every run."""
    return np.random.default_rng(1986)
