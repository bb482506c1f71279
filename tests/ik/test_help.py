"""`solve` has the signature and the help of a plain function."""

from __future__ import annotations

import inspect
import pydoc

import supple
from supple import solve


def test_help_shows_the_signature_and_documentation_of_solve() -> None:
    text = pydoc.render_doc(solve, renderer=pydoc.plaintext)
    assert "solve(robot: Robot, target: TargetLike, *, frame:" in text.replace("'", "")
    assert inspect.getdoc(solve) in inspect.cleandoc(text.replace("\n    ", "\n"))


def test_pydoc_shows_the_documentation_of_solve() -> None:
    first = inspect.getdoc(solve).splitlines()[0]
    assert first in pydoc.render_doc(supple.solve, renderer=pydoc.plaintext)
    assert first in pydoc.plaintext.docroutine(supple.solve, "solve")


def test_inspect_treats_solve_as_a_plain_function() -> None:
    assert inspect.isfunction(solve)
    assert inspect.isroutine(solve)
    assert list(inspect.signature(solve).parameters)[:3] == ["robot", "target", "frame"]
    assert inspect.getsource(solve).startswith("@_with_known_solver\ndef solve(")
    assert object.__getattribute__(solve, "__doc__") == solve.__doc__
