"""Arms on a floating base with ball, sliding and mimic joints, at random places."""

from __future__ import annotations

from typing import Any

import numpy as np

import supple
from supple.describe import Description, Joint, Mimic
from trees import pose

KINDS = ("floating", "revolute", "ball", "prismatic", "revolute", "revolute", "ball", "continuous")


def floating_arm(seed: int = 0) -> supple.Robot:
    """Return an arm with one tip and joints of `KINDS`; the fifth joint follows the second."""
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
    """Return equal configurations, whose quaternions have other lengths and signs."""
    q, rng = q.copy(), np.random.default_rng(seed)
    for i, name in enumerate(robot.position_names):
        if name.endswith("qw"):
            size = rng.uniform(0.5, 2.0, (*q.shape[:-1], 1))
            q[..., i : i + 4] *= size * rng.choice([-1.0, 1.0], size.shape)
    return q


def half_turned(seed: int) -> tuple[supple.Robot, np.ndarray]:
    """Return an arm with a ball joint as a wrist, and a q where it is turned by about half a turn.

    The arm has up to four solutions of a pose, and the wrist has one orientation in each of them.
    """
    rng = np.random.default_rng(seed)
    places = np.tile(np.eye(4), (4, 1, 1))
    places[1, 2, 3], places[2, 0, 3], places[3, 0, 3] = 0.3, *rng.uniform(0.4, 0.8, 2)
    kinds = [("revolute", (0, 0, 1), 3.0)] + [("revolute", (0, 1, 0), 3.0)] * 2
    kinds.append(("ball", (0, 0, 1), np.inf))
    joints = tuple(
        Joint(f"j{i}", kind, f"l{i}", f"l{i + 1}", place, axis, lower=-end, upper=end)
        for i, ((kind, axis, end), place) in enumerate(zip(kinds, places, strict=True))
    )
    axis = rng.normal(size=3)
    half = (np.pi - rng.uniform(-1e-7, 1e-7)) / 2
    turn = np.append(np.cos(half), np.sin(half) * axis / np.linalg.norm(axis))
    return supple.Robot(Description("half turned", joints)), np.append(rng.uniform(-2, 2, 3), turn)


def least_difference(robot: supple.Robot, q: np.ndarray) -> float:
    """Return the least maximum norm of the difference of two configurations of q (K, nq)."""
    away = np.abs(robot.difference(q[:, None], q[None])).max(axis=-1)
    return float(away[~np.eye(len(q), dtype=bool)].min(initial=np.inf))
