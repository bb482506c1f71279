"""The places that must list every damping rule, according to CONTRIBUTING.md."""

from __future__ import annotations

import re
from pathlib import Path

PYTHON = "src/supple/damping"  # one file per kind of rule
RULES = "src/supple/damping/__init__.py"
PUBLIC = RULES
KERNEL = "include/supple/step/damping.hpp"
NAMES = "src/core/drivers/enum_names.hpp"
FORMULAS = "tests/support/damping_paper.py"
EXAMPLES = "tests/support/rules.py"
METHODS = "docs/methods.md"
FILES = (RULES, KERNEL, NAMES, FORMULAS, EXAMPLES, METHODS)
CLASS = re.compile(r"^class (\w+)\(KernelRule\):\n(.*?)(?=^@|^class |\Z)", re.DOTALL | re.MULTILINE)


def forgotten(root: Path) -> list[str]:
    """Return a sentence for each list or document that does not mention a damping rule."""
    text = {file: (root / file).read_text(encoding="utf-8") for file in FILES}
    found = []

    def expect(file: str, pattern: str, place: str, name: str) -> None:
        if not re.search(pattern, text[file], re.MULTILINE | re.DOTALL):
            found.append(f"{file}: {place} lacks {name}")

    sources = sorted((root / PYTHON).glob("*.py"))
    for name, body in [one for path in sources for one in CLASS.findall(path.read_text("utf-8"))]:
        rule = re.search(r"^    rule = Rule\.(\w+)", body, re.MULTILINE)
        if not rule:
            found.append(f"{PYTHON}: {name} lacks `rule = Rule....`")
            continue
        kernel = rule[1].lower()
        expect(RULES, rf"^RULES = \([^)]*\b{name},", "RULES", name)
        expect(PUBLIC, rf"^__all__ = \[[^]]*\"{name}\",", "__all__", name)
        expect(KERNEL, rf"^enum class Rule[^}}]*\b{kernel},", "the enum Rule", kernel)
        expect(KERNEL, rf"case Rule::{kernel}:", "lambda2", f"case Rule::{kernel}")
        expect(NAMES, rf"\(Rule, {kernel}\)", "name_of", kernel)
        if name not in ("Optimal", "ResidualOptimal"):  # in no table
            expect(FORMULAS, rf"^FORMULAS[^}}]*\"{name}\":", "FORMULAS", name)
        expect(EXAMPLES, rf"^EVERY\b.*?^    {name}\(.*?^NUMBERS", "EVERY", name)
        expect(EXAMPLES, rf"^NUMBERS\b.*^    {name}: ", "NUMBERS", name)
        expect(METHODS, rf"^\| [^|]*`{name}`", "the table of damping rules", name)
    return found
