"""Joined motions, accelerations of motions, and motion files of another robot."""

from __future__ import annotations

from dataclasses import fields
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

import supple as sp
from supple._arrays.tables import FORMATS
from supple.errors import InputError

ROBOTS = ("planar3", "panda", "ur5e", "y")


def motion(robot: sp.Robot, q0: np.ndarray, seed: int, steps: int = 12) -> sp.Trajectory:
    """Return a motion from q0 with random velocities and uneven steps."""
    random = np.random.default_rng(seed)
    t = np.append(0.0, np.cumsum(random.uniform(0.002, 0.01, steps)))
    shape = (steps, 6) if len(robot.tips) == 1 else (steps, len(robot.tips), 6)
    return sp.simulate(
        robot, q0, velocity=0.3 * random.normal(size=shape), times=t + random.uniform()
    )


def three(name: str) -> list[sp.Trajectory]:
    robot = sp.load(name)
    made = [motion(robot, robot.neutral() + 0.2, 0)]
    for seed in (1, 2):
        made.append(motion(robot, made[-1].q[-1], seed))
    return made


def same(one: sp.Trajectory, other: sp.Trajectory) -> bool:
    exact = all(
        np.array_equal(getattr(one, each.name), getattr(other, each.name))
        for each in fields(sp.Trajectory)
        if each.name not in ("t", "robot", "estimates", "rows")
    )
    return exact and one.rows == other.rows and np.allclose(one.t, other.t, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ROBOTS)
def test_joining_motions_is_associative_and_keeps_every_step(name: str) -> None:
    a, b, c = three(name)
    assert same((a + b) + c, a + (b + c))
    both = a + b
    assert len(both) == len(a) + len(b)
    np.testing.assert_allclose(np.diff(both.t), np.append(np.diff(a.t), np.diff(b.t)), atol=1e-12)
    np.testing.assert_array_equal(both.q[len(a) :], b.q)
    np.testing.assert_array_equal(both.qd[len(a) :], b.qd)
    assert [both.status[k] for k in (0, -1)] == [a.status[0], b.status[-1]]


def test_joined_motions_keep_their_estimated_singular_values() -> None:
    robot = sp.load("ur5e")
    q0 = np.array([0.3, -1.2, 1.5, -0.7, 0.9, 0.4])
    step = sp.steps.NumericalFilter(2.0)
    a = sp.simulate(robot, q0, velocity=[0.1, 0, 0, 0, 0, 0], dt=0.01, duration=0.1, step=step)
    both = a + sp.simulate(robot, a.q[-1], velocity=[0.1, 0, 0, 0, 0, 0], dt=0.01, duration=0.1)
    assert both.estimates is None  # the second motion has no estimates
    b = sp.simulate(robot, a.q[-1], velocity=[0.1, 0, 0, 0, 0, 0], dt=0.01, duration=0.2, step=step)
    both = a + b
    assert both.estimates is not None
    for each in fields(both.estimates):
        assert np.shape(getattr(both.estimates, each.name)) == (len(both),)


@pytest.mark.parametrize("name", ROBOTS)
def test_accelerations_of_a_motion_sum_to_its_speeds_and_keep_their_limit(name: str) -> None:
    robot = sp.load(name)
    bound = 3.0
    limits = sp.Limits.for_robot(robot, max_acceleration=bound)
    shape = (50, 6) if len(robot.tips) == 1 else (50, len(robot.tips), 6)
    twist = np.zeros(shape)
    twist[..., 0] = 0.4
    made = sp.simulate(
        robot,
        robot.neutral() + 0.2,
        velocity=twist,
        dt=0.01,
        limits=limits,
    )
    assert made.qdd.shape == (len(made) - 1, robot.dof)
    speeds = made.qd[0] + np.append(
        np.zeros((1, robot.dof)), np.cumsum(made.qdd * np.diff(made.t)[1:, None], axis=0), axis=0
    )
    np.testing.assert_allclose(speeds, made.qd, atol=1e-12)
    assert 0 < np.abs(made.qdd).max() <= bound * (1 + 1e-9)


@pytest.mark.parametrize("suffix", FORMATS)
def test_loading_a_motion_file_for_another_robot_than_its_own_is_refused(
    suffix: str, tmp_path: Path
) -> None:
    robots = {name: sp.load(name) for name in ("panda", "iiwa14", "ur5e", "puma560", "puma560_mk")}
    files = {
        name: motion(robot, robot.neutral() + 0.2, 0).save(tmp_path / f"{name}{suffix}")
        for name, robot in robots.items()
    }
    for name, robot in robots.items():
        again = sp.Trajectory.load(files[name], robot)
        assert again.robot is robot
        anyone = sp.Trajectory.load(files[name])
        if anyone.q.shape[1] == robot.dof:
            sp.Trajectory.load(anyone.save(tmp_path / f"without{suffix}"), robot)  # has no robot
    for one, other in permutations(robots, 2):
        with pytest.raises(InputError, match="Load the motion without a robot") as found:
            sp.Trajectory.load(files[one], robots[other])
        assert repr(one) in str(found.value)
        assert other in str(found.value)


def test_motions_of_different_robots_or_tasks_or_with_a_gap_are_not_joined() -> None:
    panda, ur5e = sp.load("panda"), sp.load("ur5e")
    q = panda.neutral() + 0.1
    a = motion(panda, q, 0)
    with pytest.raises(InputError, match=r"must begin where the first one ends, with q0=first\.q"):
        a + motion(panda, q, 1)
    with pytest.raises(InputError, match="same robot; given: 7 and 6 joints"):
        a + motion(ur5e, ur5e.neutral(), 1)
    iiwa = sp.load("iiwa14")
    with pytest.raises(InputError, match=r"same robot; given: panda .* and iiwa14"):
        a + motion(iiwa, a.q[-1], 1)
    position = sp.simulate(
        panda, a.q[-1], velocity=[0, 0, 0.1], tasks=sp.PositionTask(), dt=0.01, duration=0.1
    )
    with pytest.raises(InputError, match="the same tasks; given: the rows"):
        a + position
    with pytest.raises(TypeError):
        a + 1  # type: ignore[operator]
