"""The places that know every damping rule, as the recipe in CONTRIBUTING.md lists them."""

from __future__ import annotations

import re
from pathlib import Path

PYTHON = "src/supple/motion/damping.py"
KERNEL = "include/supple/damping.hpp"
FORMULAS = "tests/support/damping_paper.py"
EXAMPLES = "tests/support/rules.py"
README = "README.md"
METHODS = "docs/methods.md"
FILES = (PYTHON, KERNEL, FORMULAS, EXAMPLES, README, METHODS)
CLASS = re.compile(r"^class (\w+)\(KernelRule\):\n(.*?)(?=^@|^class |\Z)", re.DOTALL | re.MULTILINE)


def forgotten(root: Path) -> list[str]:
    """Name each place that lacks a rule of damping.py, one sentence each."""
    text = {file: (root / file).read_text(encoding="utf-8") for file in FILES}
    found = []

    def expect(file: str, pattern: str, place: str, name: str) -> None:
        if not re.search(pattern, text[file], re.MULTILINE | re.DOTALL):
            found.append(f"{file}: {place} lacks {name}")

    classes = re.findall(
        r"^class (\w+)\(KernelRule\):\n(.*?)(?=^@|^class |\Z)", text[PYTHON], re.S | re.M
    )
    for name, body in classes:
        rule = re.search(r"^    rule = Rule\.(\w+)", body, re.MULTILINE)
        if not rule:
            found.append(f"{PYTHON}: {name} lacks `rule = Rule....`")
            continue
        kernel = rule[1].lower()
        expect(PYTHON, rf"^class Rule\b[^@]*^    {rule[1]} = \d+", "the enum Rule", rule[1])
        expect(PYTHON, rf"^RULES = \([^)]*\b{name},", "RULES", name)
        expect(KERNEL, rf"^enum class Rule[^}}]*\b{kernel},", "the enum Rule", kernel)
        expect(KERNEL, rf"case Rule::{kernel}:", "lambda2", f"case Rule::{kernel}")
        if name != "Optimal":  # defined by a search, transcribed on its own
            expect(FORMULAS, rf"^FORMULAS[^}}]*\"{name}\":", "FORMULAS", name)
        expect(EXAMPLES, rf"^EVERY\b.*?^    {name}\(.*?^NUMBERS", "EVERY", name)
        expect(EXAMPLES, rf"^NUMBERS\b.*^    {name}: ", "NUMBERS", name)
        expect(README, rf"^\| [^|]*`{name}`", "the table of damping rules", name)
        expect(METHODS, rf"^\| [^|]*`{name}`", "the table of damping rules", name)
    last = re.findall(
        r"^  (\w+),", text[KERNEL].partition("enum class Rule")[2].partition("}")[0], re.M
    )
    expect(KERNEL, rf"last_rule = Rule::{last[-1]};", "last_rule", f"Rule::{last[-1]}")
    return found
