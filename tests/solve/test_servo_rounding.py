"""A servo's last roundings: a limit holds to the bit, and a default gain does not overshoot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import supple
from supple import Limits, PositionTask, PostureTask, Pseudoinverse, Servo


@pytest.mark.parametrize("mode", ["exact", "scale"])
def test_a_joint_stops_at_its_limit_to_the_bit(mode: Any) -> None:
    """From far away one step leads to the limit; speed times dt is rounded, and may be beyond."""
    robot, rng = supple.load("planar2"), np.random.default_rng(51)
    free, reached = np.full(2, np.inf), 0
    for dt in rng.uniform(0.01, 1.0, 300):
        lower, upper = np.sort(rng.uniform(-0.2, 0.2, (2, 2)), axis=0)
        limits = Limits(lower - 3.0, upper, free, free, mode=mode)
        how: dict[str, Any] = {"dt": dt, "limits": limits, "gain": 1 / dt, "step": Pseudoinverse()}
        servo = Servo(robot, PostureTask(), **how)
        q = servo(upper - rng.uniform(0.0, 3.0, 2), target=upper + 2.0)
        assert (limits.lower <= q).all()
        assert (q <= upper).all()
        reached += np.abs(q - upper).min() < 1e-12
    assert reached > 200


@pytest.mark.parametrize("dt", [0.001, 0.1, 0.5, 2.0])
def test_the_default_gain_does_not_overshoot(dt: float) -> None:
    """A step makes good at most the whole error: 10/s would be five times that with dt = 0.5."""
    robot, q0 = supple.load("planar2"), np.array([0.3, 1.2])
    hand = PositionTask(rows=("x", "y"))
    servo = Servo(robot, hand, dt=dt, limits=Limits.none(robot))
    target = robot.fk(q0)[:3, 3] + [1e-3, -2e-3, 0.0]
    error = target - robot.fk(servo(q0, target=target))[:3, 3]
    share = 1 - min(10.0 * dt, 1.0)
    np.testing.assert_allclose(error[:2], share * np.array([1e-3, -2e-3]), atol=2e-5)
