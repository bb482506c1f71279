"""The places that must list every task and goal of the kernel, according to CONTRIBUTING.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

PYTHON = "src/supple/tasks"  # one file per kind of task
PUBLIC = "src/supple/tasks/__init__.py"
TRAITS = "include/supple/task/spec.hpp"
FORMULAS = "include/supple/task/task.hpp"
EXAMPLES = "tests/support/some_tasks.py"
FILES = (PUBLIC, TRAITS, FORMULAS, EXAMPLES)
TASK = re.compile(r"^class ([A-Z]\w*Task)\(", re.MULTILINE)
GOAL = re.compile(r"^    goal: ClassVar\[Goal\] = Goal\.(\w+)", re.MULTILINE)
FUNCTIONS = ("jacobian", "offset", "reached", "bias_acceleration", "command")
# Code that tests the kind of a task. It may test for poses, which alone have closed forms and
# conversions of their own, and for open tasks, which are evaluated in Python; all other code reads
# class attributes of `Task`.
DISTINGUISHED = re.compile(r"isinstance\([^()]*\)|\bis \w+Task\b")
# An OpenTask is public in `supple.redundancy`, and a CouplingTask is internal to robots with
# couplings; both have tests of their own.
ELSEWHERE = {"OpenTask", "CouplingTask"}
DEFAULT = "frame"  # the goal that the functions of the kernel compute where no branch is taken
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
        expect(PUBLIC, rf"^__all__ = \[[^]]*\"{name}\",", "__all__", name)
        expect(EXAMPLES, rf"\b{name}\(|\b{name}[,}}]", "some_tasks", name)
    for goal in {goal.lower() for source in sources for goal in GOAL.findall(source)}:
        expect(TRAITS, rf"^enum class Goal[^}}]*\b{goal},", "the enum Goal", goal)
        expect(TRAITS, rf"case Goal::{goal}:\n +return {{\"{goal}\",", "traits_of", goal)
        for function in () if goal == DEFAULT else FUNCTIONS:
            twist = goal in TURNED and function in ("jacobian", "bias_acceleration")
            if not twist and f"Goal::{goal}" not in body_of(text[FORMULAS], f"task_{function}"):
                found.append(f"{FORMULAS}: task_{function} lacks {goal}")
    return found


def body_of(text: str, function: str) -> str:
    """Return the text of a C++ function, up to the brace that ends it."""
    return text[re.search(rf"\b{function}\(const Chain", text).start() :].partition("\n}\n")[0]  # type: ignore[union-attr]


def strangers(root: Path) -> Iterator[str]:
    """Yield the files besides those of the recipe that ask which kind or goal a task has."""
    for folder in ("include", "src/core"):
        for path in (root / folder).rglob("*.[ch]pp"):
            place = path.relative_to(root).as_posix()
            if place not in FILES and re.search(r"\bGoal::", path.read_text("utf-8")):
                yield place
    for path in (root / "src/supple").rglob("*.py"):
        place = path.relative_to(root).as_posix()
        if place.startswith(PYTHON):
            continue
        text = path.read_text("utf-8")
        if re.search(r"\bGoal\.[A-Z]", text) or any(map(_is_special, DISTINGUISHED.findall(text))):
            yield place


def _is_special(kinds: str) -> bool:
    """Return whether a test of the kind of a task names others than poses and open tasks."""
    return bool(set(re.findall(r"\w+Task\b", kinds)) - {"Task", "PoseTask", "OpenTask"})
