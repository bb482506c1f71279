"""The types that public functions return, and the types of public attributes."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import textwrap
import typing
from collections.abc import Callable, Iterator
from types import GenericAlias, ModuleType
from typing import Any

Found = tuple[str, Any]  # the name of a function or an attribute, and its type

MISSING = inspect.Signature.empty
_CALLED = ("__call__", "__getitem__", "__iter__", "__len__", "__bool__")  # also public
_ABOUT_TYPES = "TYPE_CHECKING"


def public_types(modules: list[ModuleType]) -> Iterator[Found]:
    """Yield the types of all results and attributes of the public names of modules.

    Classes of supple that occur in these types count as public too, because users get their
    instances.
    """
    waiting = [(f"{m.__name__}.{name}", getattr(m, name)) for m in modules for name in m.__all__]
    seen = set()
    while waiting:
        name, value = waiting.pop()
        if not (inspect.isclass(value) or inspect.isfunction(value)) or value in seen:
            continue
        seen.add(value)
        found = types_in_class if inspect.isclass(value) else types_of_results
        for place, each in found(name, value):
            yield place, each
            waiting += [(f"{k.__module__}.{k.__name__}", k) for k in classes_in(each)]


def has_any(found: Any) -> bool:
    """Return whether a type is Any or has a parameter Any, which only NumPy's types may have."""
    if found is Any or found is MISSING:
        return True
    origin = typing.get_origin(found)
    if origin is typing.Literal or getattr(origin, "__module__", "").startswith("numpy"):
        return False
    if isinstance(found, list):
        return any(map(has_any, found))
    return any(map(has_any, typing.get_args(found)))


def classes_in(found: Any) -> Iterator[type]:
    """Yield the classes of supple in a type, but not those of the extension module."""
    if isinstance(found, list):
        for one in found:
            yield from classes_in(one)
    origin = typing.get_origin(found) or found
    if inspect.isclass(origin) and is_python(origin):
        yield origin
    for one in typing.get_args(found):
        yield from classes_in(one)


def is_python(kind: type) -> bool:
    """Return whether a class belongs to supple, but not to its extension module."""
    return kind.__module__.startswith("supple.") and kind.__module__ != "supple._core"


def types_of_results(name: str, function: Callable[..., Any]) -> Iterator[Found]:
    """Yield the type that a function returns, once for each of its overloads."""
    overloads = getattr(typing, "get_overloads", lambda _: ())(function)  # (from Python 3.11 on)
    for one in (*overloads, function):
        found = one.__annotations__.get("return", MISSING)
        yield name, evaluated(found, importlib.import_module(one.__module__))


def evaluated(found: Any, module: ModuleType) -> Any:
    """Return the type of an annotation in a module."""
    return eval(found, names_for_types(module)) if isinstance(found, str) else found


def types_in_class(name: str, kind: type) -> Iterator[Found]:
    """Yield the types of the public attributes of a class, and of the results of its methods."""
    for base in kind.__mro__:
        if is_python(base):
            module = importlib.import_module(base.__module__)
            for attribute, text in annotations_of(base).items():
                yield f"{name}.{attribute}", evaluated(text, module)
            shown = methods_for_types(base)
            for attribute, text in shown:
                yield f"{name}.{attribute}", evaluated(text, module)
            for attribute, value in vars(base).items():
                function = None if attribute in dict(shown) else function_of(value)
                if function and (attribute in _CALLED or not attribute.startswith("_")):
                    yield from types_of_results(f"{name}.{attribute}", function)


def function_of(value: object) -> Callable[..., Any] | None:
    """Return the function behind an attribute of a class; None if it is not computed."""
    if isinstance(value, property):
        value = value.fget
    elif isinstance(value, functools.cached_property):
        value = value.func
    elif isinstance(value, staticmethod | classmethod):
        value = value.__func__
    return value if inspect.isfunction(value) else None


def annotations_of(kind: type) -> dict[str, str]:
    """Return the annotations of the public attributes of a class, also from its methods.

    An attribute that a method sets without any annotation is missing from the result.
    """
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(node, ast.ClassDef)
    found: dict[str, str] = {}
    inside = [each for one in node.body if isinstance(one, ast.If) for each in one.body]
    for one in (*node.body, *inside):
        if isinstance(one, ast.AnnAssign):
            found[ast.unparse(one.target)] = ast.unparse(one.annotation)
        for inner in ast.walk(one) if isinstance(one, ast.FunctionDef) else ():
            if isinstance(inner, ast.AnnAssign):
                for name in own_names(inner.target):
                    found[name] = ast.unparse(inner.annotation)
            for target in inner.targets if isinstance(inner, ast.Assign) else ():
                for name in own_names(target):
                    found.setdefault(name, "MISSING")
    return {name: text for name, text in found.items() if not name.startswith("_")}


def methods_for_types(kind: type) -> list[tuple[str, str]]:
    """Return the methods that a class defines for type checkers only, and their return types."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    return [
        (one.name, "MISSING" if one.returns is None else ast.unparse(one.returns))
        for block in ast.walk(node)
        if isinstance(block, ast.If) and ast.unparse(block.test) == _ABOUT_TYPES
        for one in block.body
        if isinstance(one, ast.FunctionDef)
    ]


def own_names(target: ast.expr) -> list[str]:
    """Return the attributes of `self` in the target of an assignment."""
    every = [one for one in ast.walk(target) if isinstance(one, ast.Attribute)]
    return [one.attr for one in every if ast.unparse(one.value) == "self"]


@functools.cache
def names_for_types(module: ModuleType) -> dict[str, Any]:
    """Return the names of a module, with those that it imports or defines for type checkers only.

    A name from a library that is not installed becomes an empty class.
    """
    names: dict[str, Any] = {**vars(module), "MISSING": MISSING}
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == _ABOUT_TYPES:
            for inner in node.body:
                try:
                    exec(compile(ast.Module([inner], []), module.__name__, "exec"), names)
                except ModuleNotFoundError:
                    if not isinstance(inner, ast.Import | ast.ImportFrom):
                        raise
                    inside = {"__class_getitem__": classmethod(GenericAlias)}
                    for alias in inner.names:
                        names[alias.asname or alias.name] = type(alias.name, (), inside)
    return names
