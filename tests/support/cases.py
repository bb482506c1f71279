"""Cases of a test that run one after another, where a report for each would be noise."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def each(name: str, cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that runs a test for each case, as `parametrize` does, but as one test.

    `name` is the test's argument, or several separated by commas. A failure names its case. A case
    may not be skipped.
    """
    names = [each.strip() for each in name.split(",")]
    every = list(cases)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**given: Any) -> None:
            for case in every:
                values = (case,) if len(names) == 1 else case
                try:
                    test(**given, **dict(zip(names, values, strict=True)))
                except pytest.skip.Exception:
                    raise AssertionError(f"skipped with {name} = {case}") from None
                except Exception as error:
                    raise AssertionError(f"{name} = {case}: {error}") from error

        signature = inspect.signature(test)
        others = [p for p in signature.parameters.values() if p.name not in names]
        run.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return run

    return decorate
