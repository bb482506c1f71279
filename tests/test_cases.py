"""A test of many cases (tests/support/cases.py) runs all of them and names those that fail."""

from __future__ import annotations

import pytest

from cases import each


def test_a_failure_names_all_failing_cases() -> None:
    ran = []

    @each("a, b", [(1, 2), (3, 4)])
    @each("c", [5, 6], ids=["five", "six"])
    def test(a: int, b: int, c: int, offset: int) -> None:
        ran.append((a, b, c))
        assert a + b + c + offset != 9, "nine"
        with pytest.raises(ZeroDivisionError):
            _ = 1 / (c - 5) if a == 3 else 1 / 0
        if (a, c) == (3, 5):
            pytest.skip("no reason")

    with pytest.raises(AssertionError) as caught:
        test(offset=0)
    assert ran == [(1, 2, 5), (1, 2, 6), (3, 4, 5), (3, 4, 6)]
    assert str(caught.value).splitlines() == [
        "3 of 4 cases failed:",
        "a = 1, b = 2, six: nine",
        "a = 3, b = 4, five: skipped: no reason",
        "a = 3, b = 4, six: DID NOT RAISE ZeroDivisionError",
    ]
    assert isinstance(caught.value.__cause__, AssertionError)


def test_a_test_without_failures_passes_with_its_other_arguments() -> None:
    @each("a", "xy", ids=str.upper)
    def test(a: str, kept: list[str]) -> None:
        kept.append(a)

    kept: list[str] = []
    test(kept=kept)
    assert kept == ["x", "y"]
