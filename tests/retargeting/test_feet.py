"""Feet of humanoids of any shape neither sink nor slide in retargeted walks."""

from __future__ import annotations

import numpy as np
import pytest

import supple as sp
from humanoids import drawn_humanoid, humanoid
from sizes import nightly
from supple.motion.linearization import Array
from supple.retargeting import HumanMotion, PointMapping, walking
from supple.retargeting.contacts import is_still
from supple.retargeting.points import words_of

SEEDS = range(nightly(60, 6))


def bent(motion: HumanMotion, radius: float) -> HumanMotion:
    """Return a walk along x, bent to a circle to the left; resting points still rest."""
    angle = motion.positions[..., 0] / radius
    out = radius - motion.positions[..., 1]
    at = np.stack([out * np.sin(angle), radius - out * np.cos(angle)], axis=-1)
    positions = np.concatenate([at, motion.positions[..., 2:]], axis=-1)
    return HumanMotion(motion.names, positions, motion.fps, contacts=motion.contacts)


def walk(seed: int) -> HumanMotion:
    """Return a straight walk for even seeds, and a walk on a circle for odd seeds."""
    fps = [30.0, 60.0, 100.0][seed % 3]
    if seed % 2:
        return bent(walking(1.5, fps=fps), np.random.default_rng(seed).uniform(2, 5))
    return walking(1.5, fps=fps, seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_standing_feet_of_random_humanoids_neither_sink_nor_slide(seed: int) -> None:
    # Legs have five or six joints, some slow, some ankles hardly turn; soles are boxes or capsules.
    found = sp.retarget(drawn_humanoid(seed), walk(seed))
    assert found.penetration.max() < 2e-4
    assert found.slide.max() < 2e-4
    for k, points in enumerate(found.soles):
        low: Array = points[found.contacts[:, k], :, 2].min(axis=1)
        assert low.max() < 5e-4  # standing feet touch the ground


def test_soles_of_legs_with_five_joints_are_level_while_they_stand() -> None:
    for seed in (0, 3, 6):
        found = sp.retarget(drawn_humanoid(seed), walking(1.0, seed=seed))
        body = found.humanoid
        assert not body.turns_feet
        for k, leg in enumerate(body.legs):
            up = found.robot.fk(found.q, leg.end)[:, 2, :3] @ body.at[leg.end][2, :3]
            assert np.arccos(up[found.contacts[:, k]].clip(-1, 1)).max() < 0.05  # level


def test_a_foot_turns_about_its_toe_where_the_human_does() -> None:
    human = walking(0.5)
    at = {name: human.names.index(f"left_{name}") for name in ("ankle", "toe")}
    short = human.positions.copy()  # the feet of the human are shorter than those of the robot
    for side in ("left", "right"):
        one, other = (human.names.index(f"{side}_{name}") for name in ("ankle", "toe"))
        short[:, other, 0] -= 0.5 * (short[:, other, 0] - short[:, one, 0])
    human = HumanMotion(human.names, short, human.fps, contacts=human.contacts)
    mapping = PointMapping.guess(humanoid(), human)
    positions = np.repeat(human.positions[:1], 30, axis=0)
    ankle, toe = positions[0, at["ankle"]], positions[0, at["toe"]]
    angle = np.linspace(0, 0.6, 30)
    cos, sin = np.cos(angle), np.sin(angle)
    x, z = (ankle - toe)[[0, 2]]
    positions[:, at["ankle"], 0] = toe[0] + cos * x + sin * z
    positions[:, at["ankle"], 2] = toe[2] + cos * z - sin * x
    raised = HumanMotion(human.names, positions, human.fps)
    foot = [follow.frame for follow in mapping.follows].index("left_foot")
    T = mapping.targets(raised)[:, foot]
    front = T[:, :3, :3] @ mapping.humanoid.soles[0][:, :3].max(axis=0) + T[:, :3, 3]
    assert np.ptp(T[:, 2, 3]) > 0.05  # the heel rises
    assert np.ptp(front, axis=0).max() < 0.02


def test_a_standing_foot_stands_until_it_tilts_or_its_toe_moves() -> None:
    heights, tilts, level = np.zeros((1, 2)), np.zeros((1, 2)), np.zeros((3, 2, 2, 3))
    rising = level.copy()
    rising[:, :, 0, 2] = [[-0.02], [0.0], [0.02]]  # ankles rise at 0.6 m/s
    leaving = level.copy()
    leaving[:, :, 1, 0] = [[-0.02], [0.0], [0.02]]  # toes move forward
    stood, flew = np.ones(2, dtype=bool), np.zeros(2, dtype=bool)
    assert is_still(rising, 30.0, heights, tilts, stood).all()
    assert not is_still(rising, 30.0, heights, tilts, flew).any()
    assert not is_still(rising, 30.0, heights, tilts + 0.6, stood).any()
    assert not is_still(leaving, 30.0, heights, tilts, stood).any()


def test_left_and_right_are_read_from_link_names_without_separators() -> None:
    assert words_of("LLEG_HIP_R")[:2] == ["left", "leg"]
    assert words_of("rArm1")[:2] == ["right", "arm"]
    assert words_of("lower_leg")[0] == "lower"
