"""All limits hold together in every step of random motions that start at rest.

The motions are those of tools/soak_servo.py (`make soak-servo` runs many more). SUPPLE_MOTIONS sets
their number.
"""

from __future__ import annotations

import os
from types import ModuleType

import numpy as np
import pytest

from generated import seeds
from loops import robot
from programs import tool
from supple import Limits, Servo, StepStatus

MOTIONS = int(os.environ.get("SUPPLE_MOTIONS", "24"))
EXCEEDED = (
    StepStatus.ACCELERATION_EXCEEDED
    | StepStatus.JERK_EXCEEDED
    | StepStatus.SPEED_EXCEEDED
    | StepStatus.NORM_EXCEEDED
)


@pytest.fixture(scope="module")
def soak() -> ModuleType:
    return tool("soak_servo")


@pytest.mark.parametrize("seed", seeds(MOTIONS))
def test_random_motions_keep_all_limits(soak: ModuleType, seed: int) -> None:
    """Robots, limits, modes, steps, tasks, commands and noise are random."""
    found, about = soak.motion(seed, 400)
    assert set(found) <= {"steps"}, (about, found)


@pytest.mark.parametrize("seed", seeds(MOTIONS // 2))
def test_all_limits_hold_where_constraints_conflict_with_them(soak: ModuleType, seed: int) -> None:
    """The rows of the constraints change in each step; many rows conflict with the limits."""
    found, about = soak.motion(1000 + seed, 300, constrained=True)
    assert set(found) <= {"steps"}, (about, found)


@pytest.mark.parametrize("seed", seeds(MOTIONS // 8))
@pytest.mark.parametrize("jerk", [100.0, 1000.0])
@pytest.mark.parametrize("mode", ["exact", "scale"])
def test_limits_on_the_norm_and_on_jerk_hold_together(mode: str, jerk: float, seed: int) -> None:
    """A new reachable target every 100 steps makes both limits act, often in the same step."""
    arm, dt, rng = robot("panda"), 0.002, np.random.default_rng((4, seed))
    limits = Limits.for_robot(arm, max_acceleration=10.0, max_jerk=jerk, max_norm=1.0, mode=mode)  # type: ignore[arg-type]
    servo = Servo(arm, dt=dt, limits=limits)
    q = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])
    speeds = [np.zeros(7), np.zeros(7)]
    for k in range(600):
        if k % 100 == 0:
            target = arm.fk(arm.random(seed=rng))
        q = servo(q, target=target)
        speeds.append(servo.qd)
        assert not servo.status & EXCEEDED
    qd = np.array(speeds)
    assert (np.linalg.norm(qd, axis=1) <= 1.0).all()
    assert np.abs(np.diff(qd, axis=0)).max() <= 10.0 * dt * (1 + 1e-9)
    assert np.abs(np.diff(qd, n=2, axis=0)).max() <= jerk * dt * dt * (1 + 1e-9)
    if mode == "exact":
        assert np.linalg.norm(qd, axis=1).max() > 0.999  # the bound is used
