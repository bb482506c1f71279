"""Fixtures of the kernel tests: every law runs on every lane of every instruction set present."""

from __future__ import annotations

import numpy as np
import pytest

from harness import LANES, Lane, compiled, instruction_sets


@pytest.fixture(scope="session", autouse=True)
def _libraries() -> None:
    """Compiles before the first test: an error is then met once, not by every test."""
    for isa in instruction_sets():
        compiled(isa)


@pytest.fixture(scope="session", params=LANES, ids=str)
def lane(request: pytest.FixtureRequest) -> Lane:
    """One of: instruction set × precision × width."""
    return request.param


@pytest.fixture
def rng() -> np.random.Generator:
    """The same random numbers in every run."""
    return np.random.default_rng(1986)
