"""Fixtures of the solve tests."""

from __future__ import annotations

import sys
from pathlib import Path

# Other libraries' kinematics live beside the tests of kinematics.
sys.path.insert(0, str(Path(__file__).parents[1] / "kinematics"))
