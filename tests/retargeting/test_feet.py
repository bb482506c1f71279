"""Laws of the feet of humanoids of any shape: they neither sink nor slide in walks."""

from __future__ import annotations

import numpy as np
import pytest

from humanoids import drawn_humanoid
from sizes import nightly
from supple.motion.linearization import Array
from supple.retargeting import HumanMotion, retarget, walking
from supple.retargeting.points import words_of

SEEDS = range(nightly(60, 6))


def bent(motion: HumanMotion, radius: float) -> HumanMotion:
    """Return a walk along x, bent to a circle to the left; points at rest stay at rest."""
    angle = motion.positions[..., 0] / radius
    out = radius - motion.positions[..., 1]
    at = np.stack([out * np.sin(angle), radius - out * np.cos(angle)], axis=-1)
    positions = np.concatenate([at, motion.positions[..., 2:]], axis=-1)
    return HumanMotion(motion.names, positions, motion.fps, contacts=motion.contacts)


def walk(seed: int) -> HumanMotion:
    """Return a walk, or a turn for odd seeds."""
    fps = [30.0, 60.0, 100.0][seed % 3]
    if seed % 2:
        return bent(walking(1.5, fps=fps), np.random.default_rng(seed).uniform(2, 5))
    return walking(1.5, fps=fps, seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_feet_neither_sink_nor_slide(seed: int) -> None:
    # Legs of five or six joints, slow ones, ankles that hardly turn, soles of boxes or capsules.
    found = retarget(drawn_humanoid(seed), walk(seed))
    assert found.penetration.max() < 2e-4
    assert found.slide.max() < 2e-4
    for k, points in enumerate(found.soles):
        low: Array = points[found.contacts[:, k], :, 2].min(axis=1)
        assert low.max() < 5e-4  # standing feet touch the ground


def test_legs_of_five_joints_stand_below_the_hips() -> None:
    for seed in (0, 3, 6):
        found = retarget(drawn_humanoid(seed), walking(1.0, seed=seed))
        body = found.humanoid
        assert not body.turns_feet
        for k, leg in enumerate(body.legs):
            up = found.robot.fk(found.q, leg.end)[:, 2, :3] @ body.at[leg.end][2, :3]
            assert np.arccos(up[found.contacts[:, k]].clip(-1, 1)).max() < 0.05  # level


def test_sides_are_read_from_names_without_separators() -> None:
    assert words_of("LLEG_HIP_R")[:2] == ["left", "leg"]
    assert words_of("rArm1")[:2] == ["right", "arm"]
    assert words_of("lower_leg")[0] == "lower"
