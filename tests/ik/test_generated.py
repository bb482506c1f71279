"""Targets made by forward kinematics are met, for robots, tasks and units of every kind.

`make test-nightly` draws thousands of robots (`tests/support/generated.py`).
"""

from __future__ import annotations

import numpy as np
import pytest

import generated
import supple
from generated import CASES, FIRST, TARGETS
from supple import SolveStatus
from supple.describe import Description, Joint

# Robots whose targets were missed by an earlier search: some rows in the axes of the frame,
# half-open prismatic joints, sizes of kilometers, frames that only turn.
HARD = (123227, 186260, 183276, 181420, 179676, 122272, 141774, 138666, 1023, 1326, 1438, 96)


def test_reachable_targets_are_met() -> None:
    """No reachable target is called unreachable, and at most 1 in 10^5 is not converged."""
    missed = []
    for seed in (*HARD, *range(FIRST, FIRST + CASES)):
        found = generated.case(seed, TARGETS).solve()
        assert not (found.status == SolveStatus.UNREACHABLE).any(), seed
        missed += [seed] * int((~found.success).sum())
    assert len(missed) <= CASES * TARGETS / 1e5, missed


def rescaled(robot: supple.Robot, factor: float) -> supple.Robot:
    """Return a robot with all lengths multiplied by a factor."""

    def pose(T: np.ndarray) -> np.ndarray:
        T = T.copy()
        T[:3, 3] *= factor
        return T

    joints = []
    for joint in robot.description.joints:
        unit = factor if joint.kind == "prismatic" else 1.0
        mimic = joint.mimic
        if mimic is not None:
            leader = next(j for j in robot.description.joints if j.name == mimic.joint)
            other = factor if leader.kind == "prismatic" else 1.0
            mimic = type(mimic)(mimic.joint, mimic.multiplier * unit / other, mimic.offset * unit)
        joints.append(
            Joint(
                joint.name,
                joint.kind,
                joint.parent,
                joint.child,
                origin=pose(joint.origin),
                axis=joint.axis,
                child_placement=pose(joint.child_placement),
                lower=joint.lower * unit,
                upper=joint.upper * unit,
                mimic=mimic,
                pitch=joint.pitch * factor,
            )
        )
    return supple.Robot(Description("rescaled", tuple(joints)))


@pytest.mark.parametrize("exponent", [-20, -7, 1, 20])
def test_a_power_of_two_changes_only_the_unit(exponent: int) -> None:
    """Floating-point numbers scale exactly by powers of two, so the results do as well."""
    factor = 2.0**exponent
    for seed in range(FIRST, FIRST + max(8, CASES // 4)):
        case = generated.case(seed, TARGETS, size=1.0)
        robot = rescaled(case.robot, factor)
        tasks = tuple(_with_length(task, factor) for task in case.tasks)
        targets = [
            _moved(T, task, factor) for T, task in zip(case.targets, case.tasks, strict=True)
        ]
        for options in ({}, {"q0": case.q[0]}):
            found = case.solve(**options)
            if options:
                options = {"q0": case.q[0] * np.where(robot.prismatic, factor, 1.0)}
            other = supple.solve(
                robot, targets, tasks=tasks, position_tolerance=1e-6 * factor, **options
            )
            unit = np.where(robot.prismatic, factor, 1.0)
            np.testing.assert_array_equal(other.status, found.status)
            np.testing.assert_array_equal(other.q, found.q * unit)
            np.testing.assert_array_equal(other.restarts, found.restarts)


@pytest.mark.parametrize("factor", [1e-6, 1e-3, 1e3, 1e6])
def test_robots_of_any_size_are_solved(factor: float) -> None:
    for name in ("panda", "ur5e", "stanford"):
        robot = rescaled(supple.load(name), factor)
        T = robot.fk(supple.load(name).random(500, seed=2) * np.where(robot.prismatic, factor, 1.0))
        assert supple.solve(robot, T, position_tolerance=1e-6 * factor).success.all()


def _with_length(task: object, factor: float) -> object:
    import dataclasses

    if hasattr(task, "length"):
        return dataclasses.replace(task, length=task.length * factor)
    return task


def _moved(T: np.ndarray, task: object, factor: float) -> np.ndarray:
    T = T.copy()
    if isinstance(task, supple.PoseTask):
        T[..., :3, 3] *= factor
    elif isinstance(task, supple.PositionTask):
        T *= factor
    return T
