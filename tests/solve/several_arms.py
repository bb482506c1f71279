"""Robots of several arms, whose tasks fall into parts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import supple
from supple.describe import Description, Joint

HEAD = "head_turn"  # a joint that no arm's task moves


def arms(*names: str, lift: bool = False) -> supple.Robot:
    """Arms side by side on a stand, with a head; on a lift that carries all of them, or not."""
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
