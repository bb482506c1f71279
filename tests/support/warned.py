"""Warnings of supple, which name the line of the user's code that called it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def warned(match: str) -> Iterator[None]:
    """Expect a warning that matches, and that names the file of the caller."""
    caller = inspect.stack()[2].filename
    with pytest.warns(UserWarning, match=match) as caught:
        yield
    assert {one.filename for one in caught} == {caller}
