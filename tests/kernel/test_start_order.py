"""The order of the seeds of a search: each source of seeds is used from its first seed on."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest

from harness import compiled, instruction_sets

OWN, NEAR_OWN, PLACED, LISTED, SEQUENCE = range(5)  # the enumerators of `Seed`


def others(placed: int, listed: int) -> Iterator[tuple[int, int]]:
    """Yield the seeds other than q0 and the seeds near q0."""
    yield from ((PLACED, k) for k in range(placed))
    yield from ((LISTED, k) for k in range(listed))
    yield from ((SEQUENCE, k) for k in range(1_000))


def in_order(own: bool, nearest: bool, placed: int, listed: int) -> Iterator[tuple[int, int]]:
    """Yield all seeds: q0 first if it is given (`own`); if `nearest`, every second one after it is
    near q0.
    """
    if own:
        yield OWN, 0
    for k, seed in enumerate(others(placed, listed)):
        if own and nearest:
            yield NEAR_OWN, k
        yield seed


@pytest.mark.parametrize("isa", instruction_sets())
def test_a_search_starts_from_the_seeds_of_each_source_in_order_and_skips_none(isa: str) -> None:
    library, rng = compiled(isa, "harness_starts.cpp"), np.random.default_rng(0)
    for _ in range(200):
        own, nearest = map(bool, rng.integers(0, 2, 2))
        placed, listed, count = map(int, rng.integers(0, (4, 6, 100)))
        seeds = np.full((count, 2), -1, np.int32)
        library.start_seeds(own, nearest, placed, listed, count, ctypes.c_void_p(seeds.ctypes.data))
        assert list(map(tuple, seeds.tolist())) == [
            *islice(in_order(own, nearest, placed, listed), count)
        ]
