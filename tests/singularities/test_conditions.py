"""Disturbed commands, robots from files, and the best settings of other libraries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from singularities import METHODS, measured, passage, run
from singularities.arms import MORE, more_arms
from singularities.conditions import CONDITIONS, Condition, disturbed, exact
from singularities.figures import front
from singularities.others import moving, placements, whole
from singularities.passages import STRETCHED
from singularities.peers import GRID, Settings
from singularities.singular import difference
from singularities.tuning import LIBRARIES, SMOOTH, best, rank, tried

NAMED = {method.name: method for method in METHODS}
THERE = [name for name in MORE if name in more_arms()]


def test_noise_has_the_stated_size_and_is_repeatable() -> None:
    condition = CONDITIONS[1]
    here = passage("ur5e", "wrist", condition.dt)
    one, other = disturbed(here, condition), disturbed(here, condition)
    assert here.dt == pytest.approx(1 / 250)
    np.testing.assert_array_equal(one.poses, other.poses)
    off = np.array([difference(a, b) for a, b in zip(here.poses, one.poses, strict=True)])
    np.testing.assert_allclose(off[:, :3].std(), condition.pose[0], rtol=0.1)
    np.testing.assert_allclose(off[:, 3:].std(), condition.pose[1], rtol=0.1)
    np.testing.assert_allclose((one.twists - here.twists)[:, :3].std(), 2e-3, rtol=0.1)
    np.testing.assert_allclose(one.noise.std(), condition.angle, rtol=0.1)


def test_a_run_with_zero_noise_and_delay_equals_the_undisturbed_run() -> None:
    here = passage("ur5e", "elbow")
    np.testing.assert_allclose(
        run(NAMED["Servo"], here, exact(here)), run(NAMED["Servo"], here), atol=1e-9
    )


def test_a_delayed_method_is_given_the_joint_angles_of_earlier_steps() -> None:
    here = passage("ur5e", "elbow")
    seen = []

    def watch(robot, dt):
        def move(q, twist, pose):
            seen.append(q.copy())
            return q + 0.001

        return move

    late = disturbed(here, Condition("late", "", dt=here.dt, delay=3))
    q = run(replace(NAMED["Servo"], make=watch), here, late)
    np.testing.assert_allclose(np.diff(q, axis=0), 0.001)  # the step is added to the true angles
    np.testing.assert_allclose(seen[10], q[7])
    np.testing.assert_allclose(seen[0], q[0])


@pytest.mark.parametrize("name", THERE)
@pytest.mark.parametrize("kind", STRETCHED)
def test_robots_from_files_pass_singularities_inside_all_limits(name: str, kind: str) -> None:
    here = passage(name, kind)
    robot = here.robot
    assert here.sigma.min() < 0.01
    inside = (here.nominal >= robot.lower - 1e-9) & (here.nominal <= robot.upper + 1e-9)
    assert inside.all()
    idle = [j for j in range(robot.dof) if j not in moving(robot)]
    assert idle  # such as joints of fingers, wheels, a head or another arm
    m = measured(here, run(NAMED["Servo"], here))
    assert m.finite
    assert m.violations == 0
    # The placements given to other libraries describe the same chain.
    q = robot.random(seed=1)
    T = np.eye(4)
    parts = placements(robot)
    for part, j in zip(parts, moving(robot), strict=False):
        turn = np.eye(4)
        if robot.prismatic[j]:
            turn[2, 3] = q[j]
        else:
            c, s = np.cos(q[j]), np.sin(q[j])
            turn[:2, :2] = [[c, -s], [s, c]]
        T = T @ part @ turn
    np.testing.assert_allclose(robot.base @ T @ parts[-1], robot.fk(q), atol=1e-12)
    np.testing.assert_array_equal(
        whole(here, q[moving(robot)][None])[0][moving(robot)], q[moving(robot)]
    )


def test_settings_with_smooth_motion_rank_first_and_then_by_accuracy() -> None:
    here = passage("ur5e", "elbow")
    m = measured(here, run(NAMED["Servo"], here))
    smooth = replace(m, acceleration=SMOOTH - 1, position_rms=2.0)
    better = replace(m, acceleration=SMOOTH, position_rms=1.0)
    rough = replace(m, acceleration=SMOOTH + 1, position_rms=0.1)
    rougher = replace(m, acceleration=9e3, position_rms=0.0)
    assert rank([better]) < rank([smooth]) < rank([rough]) < rank([rougher])
    assert rank([better, rough]) > rank([smooth, smooth])  # the least smooth passage decides


def test_the_stored_best_settings_are_among_the_settings_that_were_tried() -> None:
    assert len(tried("Pink")) == len(tried("mink")) == len(GRID)
    for name in LIBRARIES:
        for robot, (how,) in best(["puma560", "ur5e", "panda", "iiwa14"])[name].items():
            assert list(Settings(*how)) in tried(name), robot


def test_a_pareto_front_has_all_points_that_no_other_dominates() -> None:
    points = {"a": (1.0, 5.0), "b": (2.0, 3.0), "c": (3.0, 4.0), "d": (4.0, 1.0), "e": (4.0, 2.0)}
    assert front(points) == [(1.0, 5.0), (2.0, 3.0), (4.0, 1.0)]
