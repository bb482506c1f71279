"""All public functions and attributes have types, none of which is Any."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray
from test_architecture import PUBLIC_MODULES

import supple as sp
from public_types import MISSING, has_any, public_types, types_in_class
from supple.motion.status_array import StatusArray

SOURCES = Path(sp.__file__).resolve().parent
# Modules that import libraries that may not be installed.
OPTIONAL = [SOURCES / "torch.py", SOURCES / "jax.py"]


def test_results_and_attributes_of_public_names_have_types_without_any() -> None:
    modules = [importlib.import_module(name) for name in PUBLIC_MODULES]
    found = dict(public_types(modules))
    for kind in ("Robot", "Servo", "Solution", "Animation", "Structure", "StatusArray", "Device"):
        assert any(f".{kind}." in place for place in found), f"{kind} is not scanned"
    wrong = [place for place, each in public_types(modules) if has_any(each)]
    assert not wrong


@pytest.mark.parametrize("path", OPTIONAL, ids=lambda path: path.stem)
def test_functions_of_optional_modules_have_types_without_any(path: Path) -> None:
    tree = ast.parse(path.read_text())
    public = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    ]
    (names,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    assert {node.name for node in public} == set(names)
    for node in public:
        arguments = [*node.args.args, *node.args.kwonlyargs]
        for annotation in (node.returns, *(one.annotation for one in arguments)):
            assert annotation is not None, node.name
            assert "Any" not in ast.unparse(annotation), node.name


def test_arguments_of_public_functions_have_types_other_than_any() -> None:
    for name in PUBLIC_MODULES:
        module = importlib.import_module(name)
        for public in module.__all__:
            value = getattr(module, public)
            functions = {public: value} if inspect.isfunction(value) else {}
            if inspect.isclass(value) and value.__module__.startswith("supple."):
                functions = {
                    f"{public}.{key}": getattr(value, key)
                    for key in dir(value)
                    if not key.startswith("_") and inspect.isfunction(getattr(value, key))
                }
            for place, function in functions.items():
                for argument, one in inspect.signature(function).parameters.items():
                    if argument not in ("self", "cls"):
                        assert one.annotation not in (MISSING, "Any", Any), f"{place}({argument})"


class Drawn:
    """Attributes and methods whose types are missing, Any or others."""

    kind: ClassVar[type[Any]]
    number: int
    words: Mapping[str, Any]
    array: NDArray[Any]
    given: ArrayLike | None
    choice: Literal["Any"]
    called: Callable[[int], Any]
    statuses: StatusArray[sp.StepStatus]
    _hidden: Any

    def __init__(self) -> None:
        self.number = 1
        self.untyped = np.ones(3)
        self.typed: float = 2.0
        self._other = 3

    if TYPE_CHECKING:
        seen: Any

        def shown(self) -> Any: ...

        def better(self) -> int: ...

    def better(self) -> Any:
        """Return a number; the type of the overloads applies."""

    @property
    def value(self) -> Any:
        """A value."""

    @cached_property
    def kept(self) -> list[Any]:
        """Some values."""

    @classmethod
    def made(cls):  # type: ignore[no-untyped-def]
        """Return an object."""

    def plain(self) -> dict[str, NDArray[np.floating[Any]]]:
        """Return arrays."""
        return {}

    def _private(self) -> Any: ...


def test_the_scan_finds_any_and_missing_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("public_types.is_python", lambda kind: kind is Drawn)
    wrong = {place for place, found in types_in_class("Drawn", Drawn) if has_any(found)}
    expected = "kind words called untyped seen shown value kept made"
    assert wrong == {f"Drawn.{name}" for name in expected.split()}
