"""Random targets of robots on free bases: floating, planar, or virtual joints with long ranges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import supple as sp
from sizes import nightly
from supple.describe import Joint

TARGETS = nightly(100_000 // 12, 400)  # of each robot on each base
FILES = {
    "g1": ("frax", "assets/unitree_g1/g1_29dof_rev_1_0.urdf"),
    "anymal": (
        "cmeel.prefix",
        "share/example-robot-data/robots/anymal_c_simple_description/urdf/anymal.urdf",
    ),
}
LONG = 1000.0  # [m]


def virtual(robot: sp.Robot) -> sp.Robot:
    """Return a robot on three prismatic joints of a kilometer and three revolute joints."""
    described, axes = robot.description, np.eye(3)
    made, parent = [], "far"
    for i in range(6):
        child = described.root if i == 5 else f"virtual_link{i}"
        kind, most = ("prismatic", LONG) if i < 3 else ("revolute", np.pi)
        axis = axes[i % 3]
        made.append(Joint(f"virtual{i}", kind, parent, child, axis=axis, lower=-most, upper=most))
        parent = child
    joints = (*made, *described.joints)
    return sp.Robot(replace(described, joints=joints, tips=robot.tips))


@pytest.mark.parametrize("base", ["floating", "planar", "virtual"])
@pytest.mark.parametrize("name", ["panda", "ur5e", *FILES])
def test_nearly_all_random_targets_are_solved(
    name: str, base: str, robot_files: Callable[[str, str], Path]
) -> None:
    """99.99 % of them in a nightly run, and all of the first ones."""
    fixed = sp.urdf(robot_files(*FILES[name])) if name in FILES else sp.load(name)
    robot = virtual(fixed) if base == "virtual" else fixed.with_base(base)
    tip = fixed.tips[-1]
    targets = robot.fk(robot.random(TARGETS, seed=1), tip)
    found = sp.Solver(robot, frame=tip).batch(targets)
    assert np.count_nonzero(~np.asarray(found.success)) <= 1e-4 * TARGETS
    away = robot.fk(found.q, tip) - targets
    assert np.abs(away[np.asarray(found.success)]).max() < 1e-5
