"""Fixtures of the kernel tests, which run on every lane of every available instruction set."""

from __future__ import annotations

import numpy as np
import pytest

from harness import LANES, Lane, compiled, instruction_sets


@pytest.fixture(scope="session", autouse=True)
def _libraries() -> None:
    """Compile the libraries before the first test, so that an error of the compiler is reported
    only once.
    """
    for isa in instruction_sets():
        compiled(isa)


@pytest.fixture(scope="session", params=LANES, ids=str)
def lane(request: pytest.FixtureRequest) -> Lane:
    """Return a lane type: an instruction set, a precision and a width."""
    return request.param


@pytest.fixture
def rng() -> np.random.Generator:
    """Return a random generator that gives the same numbers in every run."""
    return np.random.default_rng(1986)
