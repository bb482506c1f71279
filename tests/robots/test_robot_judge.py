"""The verification of solutions (bench/robots_judge.py) detects wrong solutions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import supple
from robots_files import End, bases, ends, load, robot_files
from robots_judge import judged, poses_of
from robots_sets import sets

Array = np.ndarray


@pytest.fixture(scope="module")
def arm() -> tuple[Path, End]:
    files = dict(robot_files())
    path = files["frax/assets/iiwa/iiwa14.urdf"]
    return path, next(iter(ends(load(path).robot)))


def outcome(arm: tuple[Path, End], q: Array, moved: float = 0.0, met: bool = True) -> tuple:
    path, end = arm
    T = end.robot.fk(q, end.frame)
    q = q + moved
    one = judged(end, poses_of(path, end)[0], T, (q, np.full(len(q), met)), 0.0)
    return one.false, one.outside, len(one.missed)


def test_the_judge_accepts_right_solutions(arm: tuple[Path, End]) -> None:
    assert outcome(arm, arm[1].robot.random(50, seed=0)) == (0, 0, 0)


def test_the_judge_rejects_solutions_that_miss_their_target(arm: tuple[Path, End]) -> None:
    q = 0.5 * arm[1].robot.random(50, seed=0)
    assert outcome(arm, q, 2e-6)[0] == 50
    assert outcome(arm, q, 2e-6, met=False) == (0, 0, 50)


def test_the_judge_detects_solutions_outside_the_limits(arm: tuple[Path, End]) -> None:
    upper = np.tile(arm[1].robot.upper, (3, 1))
    assert outcome(arm, upper) == (0, 0, 0)
    assert outcome(arm, upper, 1e-9)[1] == 3


def test_target_sets_have_the_properties_of_their_names(arm: tuple[Path, End]) -> None:
    end = arm[1]
    robot = end.robot
    made = sets(end, 100, 400)
    q = made["limits"].q
    assert (((q == robot.lower) | (q == robot.upper)).all(axis=1)).all()
    assert len(np.unique(q, axis=0)) == len(q) <= 2**7
    quarter = made["singular"].q[:-10]
    assert robot.singular_values(quarter, end.frame)[:, -1].max() < 1e-9
    half = made["half turn"]
    R = (
        robot.fk(half.q, end.frame)[:, :3, :3].swapaxes(1, 2)
        @ robot.fk(half.q0, end.frame)[:, :3, :3]
    )
    np.testing.assert_allclose(np.trace(R, axis1=1, axis2=2), -1, atol=1e-12)
    for one in made.values():
        assert ((robot.lower <= one.q) & (one.q <= robot.upper)).all()


def test_targets_of_a_mobile_base_are_spread_over_its_range() -> None:
    for _, _, end, spread in bases():
        q = sets(end, 1000, 0, spread=spread)["random"].q
        assert np.abs(q[:, :2]).max() > 0.99 * spread


def test_the_same_arm_in_two_files_counts_as_one_chain() -> None:
    panda = supple.load("panda")
    (here,), (there,) = ends(panda), ends(panda.with_base(np.diag([-1.0, -1.0, 1.0, 1.0])))
    assert here.key == there.key
    assert here.key != next(iter(ends(supple.load("iiwa14")))).key
