"""The recipe for a damping rule in CONTRIBUTING.md is followed in a copy of the sources."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rule_places import (
    EXAMPLES,
    FILES,
    FORMULAS,
    KERNEL,
    METHODS,
    NAMES,
    PUBLIC,
    PYTHON,
    RULES,
    forgotten,
)

ROOT = Path(__file__).parents[2]
CLASS = '''
@dataclass(frozen=True)
class Twice(KernelRule):
    """Twice the constant damping."""

    rule = Rule.TWICE
    lambda2: float = field(metadata=NOT_NEGATIVE)

    def __call__(self, linearization: Linearization) -> float:
        return 2 * self.lambda2
'''
# The additions of the recipe by name: file, text before which the addition is inserted, inserted
# text, and the message that is reported if the addition is missing.
PLACES = {
    "RULES": (RULES, "    Constant,\n    Manip", "    Twice,\n", "RULES lacks Twice"),
    "public": (PUBLIC, '    "TrackingBound",\n', '    "Twice",\n', "__all__ lacks Twice"),
    "Rule in the kernel": (KERNEL, "  constant,  ", "  twice,  // λ0²\n", "Rule lacks twice"),
    "case": (
        KERNEL,
        "    case Rule::constant:",
        "    case Rule::twice:\n      return 2 * p[0];\n",
        "lambda2 lacks case Rule::twice",
    ),
    "name": (
        NAMES,
        "    SUPPLE_NAME(Rule, constant)",
        "    SUPPLE_NAME(Rule, twice)\n",
        "name_of lacks twice",
    ),
    "formula": (FORMULAS, '    "Constant": ', '    "Twice": twice,\n', "FORMULAS lacks Twice"),
    "example": (EXAMPLES, "    Constant(0.0),", "    Twice(0.1),\n", "EVERY lacks Twice"),
    "numbers": (EXAMPLES, "    Constant: {", "    Twice: {},\n", "NUMBERS lacks Twice"),
    "methods": (METHODS, "| `Constant` |", "| `Twice` | 2λ₀² | yes |\n", "rules lacks Twice"),
}


def followed(folder: Path, left_out: str | None = None) -> list[str]:
    """Add a rule to a copy of the sources, except one addition; return the reported messages."""
    shutil.copytree(ROOT / PYTHON, folder / PYTHON)
    (folder / PYTHON / "twice.py").write_text(CLASS, encoding="utf-8")
    for file in FILES:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, folder / file)
    for name, (file, before, added, _) in PLACES.items():
        if name == left_out:
            continue
        text = (folder / file).read_text(encoding="utf-8")
        assert before in text, f"{file} has changed: adapt PLACES"
        text = text.replace(before, added + before, 1)
        (folder / file).write_text(text, encoding="utf-8")
    return forgotten(folder)


def test_every_damping_rule_is_in_all_files_that_the_recipe_names() -> None:
    assert forgotten(ROOT) == []


def test_a_rule_added_as_the_recipe_says_causes_no_message(tmp_path: Path) -> None:
    assert followed(tmp_path) == []


@pytest.mark.parametrize("name", PLACES)
def test_each_addition_that_is_left_out_is_reported_with_its_file(
    tmp_path: Path, name: str
) -> None:
    file, _, _, says = PLACES[name]
    (report,) = followed(tmp_path, left_out=name)
    assert report.startswith(file)
    assert says in report


def test_the_recipe_for_a_damping_rule_names_every_file() -> None:
    recipe = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    recipe = recipe.partition("## Add a damping rule")[2].partition("\n## ")[0]
    for file in FILES:
        assert Path(file).name in recipe, file
