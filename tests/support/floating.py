"""Arms on a floating base with ball, sliding and mimic joints, at random places."""

from __future__ import annotations

from typing import Any

import numpy as np

import supple
from supple.describe import Description, Joint, Mimic
from trees import pose

KINDS = ("floating", "revolute", "ball", "prismatic", "revolute", "revolute", "ball", "continuous")


def floating_arm(seed: int = 0) -> supple.Robot:
    """Return an arm of `KINDS` with one tip, whose fifth joint follows the second one."""
    rng, joints = np.random.default_rng(seed), []
    for k, kind in enumerate(KINDS):
        more: dict[str, Any] = {}
        if kind in ("revolute", "prismatic"):
            more = {"lower": -2.0, "upper": 2.0}
        if k == 4:
            more |= {"mimic": Mimic("joint1", 0.5, 0.1)}
        parent = f"link{k - 1}" if k else "world"
        axis = rng.normal(size=3)
        joints.append(Joint(f"joint{k}", kind, parent, f"link{k}", pose(rng), axis, **more))  # type: ignore[arg-type]
    return supple.Robot(Description("floating_arm", tuple(joints)))


def rescaled(robot: supple.Robot, q: np.ndarray, seed: int = 0) -> np.ndarray:
    """Return the same configurations with quaternions of other lengths and signs."""
    q, rng = q.copy(), np.random.default_rng(seed)
    for i, name in enumerate(robot.position_names):
        if name.endswith("qw"):
            size = rng.uniform(0.5, 2.0, (*q.shape[:-1], 1))
            q[..., i : i + 4] *= size * rng.choice([-1.0, 1.0], size.shape)
    return q
