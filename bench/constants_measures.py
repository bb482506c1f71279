"""Measures of the workloads of constants.py: processor times, and means over several robots."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

Measures = dict[str, float]


class Clock:
    """A clock of the processor time since its creation [µs]."""

    def __init__(self) -> None:
        self.begin = time.process_time()

    def us(self, count: int = 1) -> float:
        """Return the time since the creation divided by a count [µs]."""
        return 1e6 * (time.process_time() - self.begin) / count


def mean(several: Sequence[dict[str, Measures]]) -> dict[str, Measures]:
    """Return the means of the measures of several robots."""
    return {
        name: {key: float(np.mean([one[name][key] for one in several])) for key in measures}
        for name, measures in several[0].items()
    }
