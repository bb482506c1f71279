"""Reasons of `retarget` state what exceeds 1 mm and when, and the joints at limits."""

from __future__ import annotations

import copy
import pickle
import re
from dataclasses import replace

import numpy as np
import pytest

import supple as sp
from humanoids import humanoid
from sizes import nightly
from stairs import stairs
from supple.retargeting import Humanoid, Retargeted, default_limits

SAID = re.compile(
    r"(?P<frame>\S+) (?P<what>slides|is in \S+|overlaps with \S+) by (?P<size>[\d.]+) mm at "
    r"(?P<time>[\d.]+) s, and by more than 1 mm in (?P<count>\d+) of (?P<frames>\d+) frames"
    r"(; at limits when it began: (?P<joints>.+))?"
)


def hurried(seed: int, share: float) -> Retargeted:
    """Return a walk on boxes under `share` times the default speed and acceleration limits."""
    motion, mapping, world = stairs(seed, Humanoid.of(humanoid()).robot)
    limits = default_limits(mapping.humanoid.robot)
    limits = replace(
        limits,
        max_speed=share * limits.max_speed,
        max_acceleration=share * limits.max_acceleration,
    )
    return sp.retarget(mapping.humanoid.robot, motion, mapping=mapping, world=world, limits=limits)


def joints_above(robot: sp.Robot, link: str) -> set[str]:
    """Return the names of the joints from the root to a link."""
    by_child = {joint.child: joint for joint in robot.description.joints}
    made = set()
    while link in by_child:
        made.add(by_child[link].name)
        link = by_child[link].parent
    return made


def test_a_motion_without_errors_above_a_millimeter_has_no_reasons() -> None:
    found = hurried(0, 1.0)
    assert max(found.slide.max(), found.penetration.max(), found.collision.max()) < 1e-3
    assert found.reasons == ()
    assert str(found).count("\n") == 2


def test_a_motion_that_was_printed_can_be_pickled_and_copied() -> None:
    found = hurried(0, 0.1)
    said = str(found)
    for other in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found), copy.copy(found)):
        assert str(other) == said
        np.testing.assert_array_equal(other.penetration, found.penetration)


@pytest.mark.parametrize("seed", range(nightly(20, 3)))
def test_reasons_state_each_error_above_a_millimeter_with_its_frame_and_time(seed: int) -> None:
    found = hurried(seed, np.random.default_rng(seed).uniform(0.02, 0.12))
    feet = [leg.end for leg in found.humanoid.legs]
    sizes = {"is": found.penetration, "overlaps": found.collision}
    told = 0
    for reason in found.reasons:
        said = SAID.fullmatch(reason)
        assert said is not None, reason
        what = said["what"].split()[0]
        own = found.slide[:, feet.index(said["frame"])] if what == "slides" else sizes[what]
        assert float(said["size"]) == pytest.approx(1e3 * own.max(), abs=0.051)
        assert float(said["time"]) == pytest.approx(found.t[own.argmax()], abs=0.0051)
        assert int(said["count"]) == (own > 1e-3).sum()
        assert reason in str(found)
        told += 1
    largest = (*found.slide.max(axis=0), found.penetration.max(), found.collision.max())
    assert told == sum(size > 1e-3 for size in largest)
    assert told > 0


@pytest.mark.parametrize("seed", range(nightly(20, 3)))
def test_joints_named_in_a_reason_reach_a_limit_and_move_the_named_frames(seed: int) -> None:
    found = hurried(seed, 0.1)
    robot, limits = found.robot, found.limits
    ratio = np.abs(found.qd) / limits.max_speed
    change = np.abs(np.diff(found.qd, axis=0)) * found.fps / limits.max_acceleration
    joints = found.q[:, 7:]
    room = np.minimum(joints - limits.lower[6:], limits.upper[6:] - joints)
    ever = ratio.max(axis=0) > 0.999
    ever |= change.max(axis=0) > 0.999
    ever[6:] |= room.min(axis=0) < 1e-6
    named = 0
    for reason in found.reasons:
        said = SAID.fullmatch(reason)
        assert said is not None
        above = joints_above(robot, said["frame"])
        if said["what"].startswith("overlaps"):
            above |= joints_above(robot, said["what"].split()[-1])
        for name in re.findall(r"'([^']+)'", said["joints"] or ""):
            assert ever[robot.joint_names.index(name)]
            assert name in above
            named += 1
    assert named > 0
