"""The recipe for a task in CONTRIBUTING.md, followed in a copy of the tree."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from supple import _core
from task_places import (
    EXAMPLES,
    FILES,
    FORMULAS,
    FUNCTIONS,
    PUBLIC,
    PYTHON,
    TRAITS,
    forgotten,
    strangers,
)

ROOT = Path(__file__).parents[2]
CLASS = '''
@dataclass(frozen=True, eq=False)
class HeightRows(TaskRows):
    """The height of a frame."""

    goal: ClassVar[Goal] = Goal.HEIGHT


@dataclass(frozen=True)
class HeightTask(Task):
    """A task for the height of a frame."""
'''
# The additions of the recipe: file, text before which to insert, inserted text, and the message
# that is reported without the addition.
PLACES = {
    "public": (
        PUBLIC,
        '    "OrientationTask",\n',
        '    "HeightTask",\n',
        "__all__ lacks HeightTask",
    ),
    "example": (EXAMPLES, "    v = rng", "    HeightTask(),\n", "some_tasks lacks HeightTask"),
    "goal": (TRAITS, "  posture,  // ", "  height,   // one number\n", "Goal lacks height"),
    "traits": (
        TRAITS,
        "    case Goal::posture:\n",
        '    case Goal::height:\n      return {"height", 1, 1, true, false, false, false};\n',
        "traits_of lacks height",
    ),
} | {
    function: (
        FORMULAS,
        f"task_{function}(const Chain",
        "",  # see `followed`
        f"task_{function} lacks height",
    )
    for function in FUNCTIONS
}


def followed(folder: Path, left_out: str | None = None) -> list[str]:
    """Add a task to a copy of the sources, without one addition; return what is reported."""
    shutil.copytree(ROOT / PYTHON, folder / PYTHON)
    (folder / PYTHON / "height.py").write_text(CLASS, encoding="utf-8")
    for file in FILES:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, folder / file)
    for name, (file, before, added, _) in PLACES.items():
        if name == left_out:
            continue
        text = (folder / file).read_text(encoding="utf-8")
        assert before in text, f"{file} has changed: adapt PLACES"
        if name in FUNCTIONS:  # a branch at the beginning of the function
            head, _, rest = text.partition(before)
            signature, _, body = rest.partition(") {\n")
            text = (
                f"{head}{before}{signature}) {{\n  if (task.goal == Goal::height) return;\n{body}"
            )
        else:
            text = text.replace(before, added + before, 1)
        (folder / file).write_text(text, encoding="utf-8")
    return forgotten(folder)


def test_every_task_is_in_all_files_of_the_recipe() -> None:
    assert forgotten(ROOT) == []


def test_code_that_depends_on_the_kind_of_goal_is_only_in_files_that_the_recipe_names() -> None:
    assert list(strangers(ROOT)) == []


def test_following_the_recipe_in_contributing_is_sufficient(tmp_path: Path) -> None:
    assert followed(tmp_path) == []


@pytest.mark.parametrize("name", PLACES)
def test_a_step_left_out_of_the_recipe_is_reported_with_its_file(tmp_path: Path, name: str) -> None:
    file, _, _, says = PLACES[name]
    (report,) = followed(tmp_path, left_out=name)
    assert report.startswith(file)
    assert says in report


def test_the_recipe_in_contributing_names_every_file() -> None:
    recipe = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    recipe = recipe.partition("## Add a task")[2].partition("\n## ")[0]
    for file in FILES:
        assert Path(file).name in recipe, file


def test_python_reads_the_traits_of_the_kernel() -> None:
    sizes = {goal.name: _core.traits_of(goal).target_size for goal in _core.Goal}
    assert sizes == {"FRAME": 12, "AXIS": 3, "POSTURE": 0, "POINTS": 3}
