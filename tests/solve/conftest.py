"""Fixtures of the tests of control loops."""

from __future__ import annotations

import sys
from pathlib import Path

# Random robots live beside the tests of kinematics, rules beside those of motion.
for folder in ("kinematics", "motion"):
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))
