"""A check of warnings of supple, which must name the file of the caller."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def warned(match: str) -> Iterator[None]:
    """Expect a warning that matches and names the file of the caller."""
    caller = inspect.stack()[2].filename
    with pytest.warns(UserWarning, match=match) as caught:
        yield
    assert {one.filename for one in caught} == {caller}
