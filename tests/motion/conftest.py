"""The lanes of tests/kernel/lab.py are for the steps, too."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "kernel"))
