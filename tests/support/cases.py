"""A decorator that runs the cases of a test one after another and reports them as one test."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

LONGEST = 200  # most characters that a failure shows of a case
Test = Callable[..., None]
Case = tuple[dict[str, Any], Callable[[], str]]  # the arguments, and a function that shows them


def each(
    names: str | Sequence[str],
    cases: Iterable[Any],
    *,
    ids: Iterable[str] | Callable[[Any], Any] = repr,
) -> Callable[[Test], Test]:
    """Return a decorator that runs a test for each case, as `parametrize` does, but as one test.

    All cases run; several decorators run every combination. A failure names the cases that failed,
    with the traceback of the first one. All cases share the same fixtures, and none may be skipped.

    Args:
        names: The test's argument, or several separated by commas.
        cases: The values, a tuple of them for several arguments.
        ids: What a failure shows: a name for each case, or a function of a value.
    """
    arguments = [name.strip() for name in (names.split(",") if isinstance(names, str) else names)]
    values = [
        dict(zip(arguments, (case,) if len(arguments) == 1 else case, strict=True))
        for case in cases
    ]
    shown: Iterable[Callable[[], str]]
    if callable(ids):
        shown = [functools.partial(_shown, value, ids) for value in values]
    else:
        shown = [functools.partial(str, name) for name in ids]
    own: list[Case] = list(zip(values, shown, strict=True))

    def decorate(test: Test) -> Test:
        body, inner = getattr(test, "each_of", (test, []))
        every = list(itertools.product(own, *inner))

        @functools.wraps(test)
        def run(**given: Any) -> None:
            __tracebackhide__ = True
            failures = []
            for parts in every:
                try:
                    body(**given, **{name: x for case, _ in parts for name, x in case.items()})
                except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
                    failures.append((", ".join(shown() for _, shown in parts), error))
            if failures:
                lines = [f"{name}: {_summary(error)}" for name, error in failures]
                lines.insert(0, f"{len(failures)} of {len(every)} cases failed:")
                raise AssertionError("\n".join(lines)) from failures[0][1]

        signature = inspect.signature(test)
        others = [p for p in signature.parameters.values() if p.name not in arguments]
        run.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        run.each_of = (body, [own, *inner])  # type: ignore[attr-defined]
        return run

    return decorate


def _shown(case: dict[str, Any], show: Callable[[Any], Any]) -> str:
    """Return the arguments of a case in one line."""
    each = (f"{name} = {show(value)}" for name, value in case.items())
    text = " ".join(", ".join(each).split())
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def _summary(error: BaseException) -> str:
    """Return the first line of an error."""
    text = next(filter(None, str(error).splitlines()), type(error).__name__)
    return f"skipped: {text}" if isinstance(error, pytest.skip.Exception) else text
