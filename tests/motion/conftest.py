"""Fixtures of the motion tests."""

from __future__ import annotations

import sys
from pathlib import Path

# Random robots live beside the tests of kinematics, lanes beside those of the kernel.
for folder in ("kinematics", "kernel"):
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))
