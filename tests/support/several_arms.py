"""Robots with several arms, whose tasks share no joints unless they have a common lift."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

import supple
from supple import SolveStatus
from supple.describe import Description, Joint
from targets import apart

HEAD = "head_turn"  # name of a joint that moves no arm


@lru_cache(maxsize=64)
def arms(*names: str, lift: bool = False) -> supple.Robot:
    """Return arms side by side on a stand with a head, optionally on a common lift."""
    up = Joint("lift", "prismatic", "floor", "stand", lower=0.0, upper=0.3)
    joints = [up] if lift else []
    joints.append(Joint(HEAD, "revolute", "stand", "head", lower=0.2, upper=1.0))
    tips = []
    for i, name in enumerate(names):
        arm = supple.load(name).description
        at = np.eye(4)
        at[1, 3] = 0.6 * i
        joints.append(Joint(f"{i}: mount", "fixed", "stand", f"{i}: {arm.root}", origin=at))
        joints += [
            replace(j, name=f"{i}: {j.name}", parent=f"{i}: {j.parent}", child=f"{i}: {j.child}")
            for j in arm.joints
        ]
        parents = {joint.parent for joint in arm.joints}
        tips.append(f"{i}: {next(link for link in arm.links if link not in parents)}")
    return supple.Robot(Description("arms", tuple(joints), tips=tuple(tips)))


def somewhere(robot: supple.Robot, count: int) -> list[np.ndarray]:
    q = robot.random(count, seed=21)
    return [robot.fk(q, tip) for tip in robot.tips]


def far_of(robot: supple.Robot, q: np.ndarray, T: list[np.ndarray]) -> np.ndarray:
    """Return the position [m] and rotation [rad] errors (2, tasks, B) of all end effectors."""
    return np.stack([apart(robot.fk(q, t), one) for t, one in zip(robot.tips, T, strict=True)], 1)


def hold(robot: supple.Robot, T: list[np.ndarray], found: supple.Solutions) -> None:
    """Check that the errors and statuses in `found` are those of the worst end effector."""
    far, off = far_of(robot, found.q, T).max(axis=1)
    np.testing.assert_allclose(found.position_error, far, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(found.rotation_error, off, rtol=1e-6, atol=1e-9)
    good = found.status == SolveStatus.CONVERGED
    assert (far[good] <= 1e-6 + 1e-12).all()
    assert (off[good] <= 1e-6 + 1e-12).all()
    assert ((robot.lower <= found.q) & (found.q <= robot.upper)).all()
