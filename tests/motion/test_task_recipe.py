"""The recipe for a task in CONTRIBUTING.md is followed in a copy of the sources.

`test_new_goals.py` compiles the headers of the copy; `make test-recipes` compiles all files.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from supple import _core
from task_places import FILES, PYTHON, distinctions, forgotten, strangers
from task_recipe import NEW, ROOT, add_to, additions

PLACES = [(goal, name) for goal in NEW for name, added in additions(goal).items() if added.missing]


def followed(folder: Path, goal: str, left_out: str | None = None) -> list[str]:
    """Add a task to a copy of the sources, except one addition; return the reported messages."""
    shutil.copytree(ROOT / PYTHON, folder / PYTHON)
    for file in FILES:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, folder / file)
    add_to(folder, goal, left_out)
    return forgotten(folder)


def test_every_task_is_in_all_files_that_the_recipe_names() -> None:
    assert forgotten(ROOT) == []


def test_code_that_depends_on_the_kind_of_goal_is_only_in_files_that_the_recipe_names() -> None:
    assert list(strangers(ROOT)) == []


@pytest.mark.parametrize(
    "code",
    [
        "isinstance(task, PoseTask)",
        "isinstance(rows, (AxisRows, sp.tasks.OpenRows))",
        "type(task) is PoseTask",
        "KINDS = {PoseTask: 0, AxisTask: 1}",
        "plain = [PoseTask, AxisTask]",
        "type(task).__name__ == 'PoseTask'",
        "KINDS[type(task).__name__]",
        "next(one for one in type(task).__mro__ if one in KINDS)",
        "kind = PoseTask",
        "rows.goal == Goal.POINTS",
        "match task:\n    case PoseTask():\n        pass",
    ],
)
def test_code_that_distinguishes_classes_of_tasks_is_found(code: str) -> None:
    assert list(distinctions(code, {"PoseTask", "AxisTask", "AxisRows", "OpenRows"}))


def test_code_that_creates_tasks_or_names_them_in_annotations_is_not_reported() -> None:
    code = (
        "from supple.tasks import PoseTask\n"
        "def f(task: PoseTask | None, *, others: list[AxisTask]) -> AxisRows:\n"
        "    made: PoseTask = PoseTask(type(task).__name__)\n"
        "    return sp.AxisTask('PoseTask').on(made)\n"
    )
    assert not list(distinctions(code, {"PoseTask", "AxisTask", "AxisRows"}))


@pytest.mark.parametrize("goal", NEW)
def test_a_task_added_as_the_recipe_says_causes_no_message(goal: str, tmp_path: Path) -> None:
    assert followed(tmp_path, goal) == []


@pytest.mark.parametrize(("goal", "name"), PLACES)
def test_each_addition_that_is_left_out_is_reported_with_its_file(
    tmp_path: Path, goal: str, name: str
) -> None:
    place = additions(goal)[name]
    (report,) = followed(tmp_path, goal, left_out=name)
    assert report.startswith(place.file)
    assert place.missing in report


def test_the_recipe_for_a_task_names_every_file() -> None:
    recipe = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    recipe = recipe.partition("## Add a task")[2].partition("\n## ")[0]
    for file in FILES:
        assert Path(file).name in recipe, file


def test_traits_of_goals_in_python_are_those_of_the_kernel() -> None:
    traits = {goal.name: _core.traits_of(goal) for goal in _core.Goal}
    for goal, size, form in (
        ("FRAME", 12, "POSE"),
        ("AXIS", 3, "DIRECTION"),
        ("POSTURE", 0, "NUMBERS"),
        ("POINTS", 3, "POSITION"),
    ):
        assert (traits[goal].target_size, traits[goal].target.name) == (size, form)
