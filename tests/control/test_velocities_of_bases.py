"""`step.velocities` for many robots with moving bases: damped steps, within limits."""

from __future__ import annotations

import numpy as np
import pytest

import supple as sp
from generated import seeds
from sizes import nightly
from supple.motion.status import StepStatus
from whole_bodies import BASES, drawn_batch, slow_limits

STEP = sp.DLS(sp.damping.Constant(1e-4))


@pytest.mark.parametrize("base", BASES)
def test_velocities_of_robots_on_moving_bases_are_the_damped_least_squares_solution(
    base: str,
) -> None:
    for seed in seeds(nightly(30, 4)):
        robot, tasks, q, _, rng = drawn_batch(seed, 0.1, 7, base, followers=seed % 3)
        tip, twist = tasks[0].frame, rng.normal(size=(7, 6))
        J = robot.jacobian(q, tip)
        square = J @ np.swapaxes(J, -1, -2) + 1e-4 * np.eye(6)
        best = (np.swapaxes(J, -1, -2) @ np.linalg.solve(square, twist[..., None]))[..., 0]
        np.testing.assert_allclose(STEP.velocities(robot, q, twist, tip), best, rtol=0, atol=1e-9)
        single = STEP.velocities(robot, q.astype("f4"), twist.astype("f4"), tip)
        assert (single.dtype, single.shape) == (np.float32, (7, robot.nv))
        np.testing.assert_allclose(single, best, rtol=0, atol=0.05)


@pytest.mark.parametrize("base", BASES)
def test_velocities_of_robots_on_moving_bases_keep_speed_limits(base: str) -> None:
    robot, tasks, q, _, rng = drawn_batch(seeds(1)[0], 0.1, 50, base)
    limits, twist = slow_limits(robot, rng), 10 * rng.normal(size=(50, 6))
    options = {"limits": limits, "dt": 0.01, "explain": True}
    found = STEP.velocities(robot, q, twist, tasks[0].frame, **options)
    assert found.qd.shape == found.active.shape == (50, robot.nv)
    assert (np.abs(found.qd) <= limits.max_speed * (1 + 1e-12)).all()
    assert (found.active != 0).any()
    assert not (found.active[:, ~np.isfinite(limits.max_speed)] != 0).any()
    assert any(StepStatus.SPEED_LIMIT in one for one in found.status)
