"""A change of the unit of length changes only the units of the result of `plan_path`.

SUPPLE_PATHS sets the number of paths (default 30); a sixth of the paths is solved again in another
unit.
"""

from __future__ import annotations

import os
from functools import lru_cache

import numpy as np
import pytest

import supple as sp
from drawn_paths import Drawn
from generated import seeds
from rescaled import moved, rescaled, with_length

PATHS = int(os.environ.get("SUPPLE_PATHS", "30")) // 6
# Paths of arms on a long slide, of misaligned arms and of mobile arms.
FAR = (37, 51, 67, 73, 116, 117, 141, 11, 85)


@lru_cache(maxsize=64)
def own(seed: int) -> sp.paths.PlannedPath:
    """Return the result of a case whose lengths are in meters."""
    return followed(Drawn(seed), 1.0)


def followed(case: Drawn, factor: float) -> sp.paths.PlannedPath:
    """Return the result for a case with all its lengths multiplied by a factor."""
    robot = rescaled(case.robot, factor)
    options = case.options | {"position_tolerance": case.tolerances[0] * factor}
    if "q0" in options:
        options["q0"] = options["q0"] * np.where(robot.prismatic, factor, 1.0)
    tasks = tuple(with_length(task, factor) for task in case.tasks)
    targets = [moved(T, task, factor) for T, task in zip(case.targets, case.tasks, strict=True)]
    return sp.plan_path(robot, targets, tasks=tasks, **options)


@pytest.mark.parametrize("exponent", [-13, 10])
def test_paths_with_lengths_multiplied_by_a_power_of_two_have_exactly_scaled_results(
    exponent: int,
) -> None:
    """Multiplying floating-point numbers by a power of two causes no rounding errors."""
    factor = 2.0**exponent
    for seed in (*FAR, *seeds(PATHS)):
        case = Drawn(seed)
        found, other = own(seed), followed(case, factor)
        unit = np.where(case.robot.prismatic, factor, 1.0)
        np.testing.assert_array_equal(other.q, found.q * unit, err_msg=str(seed))
        assert [len(each) for each in other.pieces] == [len(each) for each in found.pieces], seed
        for mine, its in zip(found.pieces, other.pieces, strict=True):
            np.testing.assert_array_equal(its.s, mine.s)
            np.testing.assert_array_equal(its.q, mine.q * unit)
        changes = [(each.at, each.reason) for each in found.reconfigurations]
        assert [(each.at, each.reason) for each in other.reconfigurations] == changes, seed
        assert other.success == found.success
        assert other.position_deviation == found.position_deviation * factor
        assert other.rotation_deviation == found.rotation_deviation
