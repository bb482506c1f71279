"""Tasks with priorities at limits: a lower task hardly increases the error of a higher one."""

from __future__ import annotations

import numpy as np
import pytest

from loops import robot
from supple import DLS, Limits, OrientationTask, PositionTask, Servo, damping
from supple.redundancy import Priority


@pytest.mark.parametrize("transition", [0.0, 0.01])  # in the kernel, in Python
def test_at_limits_a_lower_task_hardly_increases_the_error_of_a_higher_one(
    transition: float,
) -> None:
    """Where limits act, a second task raises the mean error of the first by less than 5 %."""
    arm, dt, rng = robot("panda"), 0.01, np.random.default_rng(61)
    slow = Limits.for_robot(arm, speed_factor=0.1)
    tasks = (PositionTask("panda_link8"), OrientationTask("panda_link8"))
    step = DLS(damping.Constant(1e-6))
    order = Priority((step, step), transition=transition)
    alone, missed = [], []
    for q in 0.7 * arm.random(40, seed=62):
        v, w = 0.3 * rng.normal(size=3), rng.normal(size=3)
        both = Servo(arm, tasks, dt=dt, limits=slow, step=order)
        one = Servo(arm, tasks[:1], dt=dt, limits=slow, step=step)
        both(q, [v, w])
        one(q, [v])
        J = arm.jacobian(q, "panda_link8")[:3]
        alone.append(np.linalg.norm(J @ one.qd - v))
        missed.append(np.linalg.norm(J @ both.qd - v))
    assert np.mean(alone) > 0.01  # limits act
    assert np.mean(missed) < 1.05 * np.mean(alone)
