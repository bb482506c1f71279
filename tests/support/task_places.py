"""The places that must list every task and goal of the kernel, according to CONTRIBUTING.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import supple

PYTHON = "src/supple/tasks"  # one file per kind of task
PUBLIC = "src/supple/tasks/__init__.py"
TRAITS = "include/supple/task/spec.hpp"
FORMULAS = "include/supple/task/task.hpp"
EXAMPLES = "tests/support/some_tasks.py"
COPIES = "tests/test_copies.py"
FILES = (PUBLIC, TRAITS, FORMULAS, EXAMPLES, COPIES)
TASK = re.compile(r"^class ([A-Z]\w*Task)\(", re.MULTILINE)
ROWS = re.compile(r"^class ([A-Z]\w*Rows)\(", re.MULTILINE)
GOAL = re.compile(r"^    goal: ClassVar\[Goal\] = Goal\.(\w+)", re.MULTILINE)
FUNCTIONS = ("jacobian", "offset", "reached", "bias_acceleration", "command")
# A CouplingTask is internal to robots with couplings. CouplingTask and OpenTask have own tests.
ELSEWHERE = {"CouplingTask", "OpenTask"}
TOP_LEVEL = set(supple.__all__)  # other public tasks are in the `__all__` of `supple.tasks`
DEFAULT = "frame"  # the goal that needs no branch in the kernel
TURNED = {"axis"}  # goals whose J and J̇q̇ are rows of a frame's twist


def forgotten(root: Path) -> list[str]:
    """Return a sentence for each list or function that does not mention a task or its goal."""
    text = {file: (root / file).read_text(encoding="utf-8") for file in FILES}
    sources = [path.read_text("utf-8") for path in sorted((root / PYTHON).glob("*.py"))]
    found = []

    def expect(file: str, pattern: str, place: str, name: str) -> None:
        if not re.search(pattern, text[file], re.MULTILINE | re.DOTALL):
            found.append(f"{file}: {place} lacks {name}")

    for name in {task for source in sources for task in TASK.findall(source)} - ELSEWHERE:
        if name not in TOP_LEVEL:
            expect(PUBLIC, rf"^__all__ = \[[^]]*\"{name}\"[,\]]", "__all__", name)
        expect(EXAMPLES, rf"\b{name}\(|\b{name}[,}}]", "some_tasks", name)
        expect(COPIES, rf"\b{name}\(", "EXAMPLES", name)
    for goal in {goal.lower() for source in sources for goal in GOAL.findall(source)}:
        expect(TRAITS, rf"^enum class Goal[^}}]*\b{goal},", "the enum Goal", goal)
        expect(TRAITS, rf"case Goal::{goal}:\n +return {{\.name = \"{goal}\",", "traits_of", goal)
        for function in () if goal == DEFAULT else FUNCTIONS:
            twist = goal in TURNED and function in ("jacobian", "bias_acceleration")
            if not twist and f"Goal::{goal}" not in body_of(text[FORMULAS], f"task_{function}"):
                found.append(f"{FORMULAS}: task_{function} lacks {goal}")
    return found


def body_of(text: str, function: str) -> str:
    """Return the text of a C++ function, up to the brace that ends it."""
    return text[re.search(rf"\b{function}\(const Chain", text).start() :].partition("\n}\n")[0]  # type: ignore[union-attr]


def strangers(root: Path) -> Iterator[str]:
    """Yield the places besides those of the recipe that ask which kind or goal a task has."""
    for folder in ("include", "src"):
        for path in (root / folder).rglob("*.[hc][pu]*"):
            place = path.relative_to(root).as_posix()
            if place not in FILES and re.search(r"\bGoal::|\bgoal ==", path.read_text("utf-8")):
                yield place
    sources = [path.read_text("utf-8") for path in sorted((root / PYTHON).glob("*.py"))]
    kinds = {name for source in sources for kind in (TASK, ROWS) for name in kind.findall(source)}
    mentioned = re.compile(rf"\b({'|'.join(kinds)}|__mro__|Goal)\b")
    for path in sorted((root / "src/supple").rglob("*.py")):
        place, text = path.relative_to(root).as_posix(), path.read_text("utf-8")
        if not place.startswith(PYTHON) and mentioned.search(text):
            for line in distinctions(text, kinds):
                yield f"{place}:{line}"


def distinctions(text: str, kinds: set[str]) -> Iterator[int]:
    """Yield the lines of Python code that tell classes of tasks or goals apart.

    Code may call a class, import it and name it in annotations. Any other use of the class name,
    such as in `isinstance`, in a comparison or in a table, is a distinction. So are comparisons
    with the name as a string, uses of the order of base classes, and members of `Goal`.
    """
    tree = ast.parse(text)
    allowed: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            allowed.add(node.func)
        for field in ("annotation", "returns"):
            if isinstance(annotation := getattr(node, field, None), ast.AST):
                allowed.update(ast.walk(annotation))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and node not in allowed:
            name = node.id if isinstance(node, ast.Name) else node.attr
            owner = getattr(node, "value", None)
            if name in kinds or name == "__mro__" or getattr(owner, "id", "") == "Goal":
                yield node.lineno
        if isinstance(node, ast.Compare | ast.MatchValue | ast.Subscript):
            for one in ast.walk(node):
                named = isinstance(one, ast.Attribute) and one.attr == "__name__"
                if named or (isinstance(one, ast.Constant) and one.value in kinds):
                    yield one.lineno
