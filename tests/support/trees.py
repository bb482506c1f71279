"""Random robots: branches, all kinds of joints, mimics, child placements, extra frames."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

import supple
from supple.describe import Description, Frame, Joint, Mimic

Array = np.ndarray
KINDS = ("revolute", "revolute", "continuous", "prismatic", "fixed")
TILTS = (0.0, 0.0, 1e-16, 1e-12, 1e-8, 1e-4, 1.0)  # tilts of an axis; small ones are hard


@dataclass(frozen=True)
class Tree:
    """A robot with q and q̇, and bounds on its size, speeds and rounding errors."""

    robot: supple.Robot
    q: Array  # (n,)
    qd: Array  # (n,)

    def __repr__(self) -> str:
        joints = [
            f"{j.name}: {j.kind} on {j.parent}" + (f" as {j.mimic}" if j.mimic else "")
            for j in self.robot.description.joints
        ]
        return f"Tree({'; '.join(joints)}; q={self.q.tolist()}, qd={self.qd.tolist()})"

    @property
    def frames(self) -> tuple[str, ...]:
        return self.robot.frames

    @property
    def reach(self) -> float:
        """A bound [m], at least 1, on the distances of frames from the origin and each other."""
        joints, frames = self.robot.description.joints, self.robot.description.frames
        poses = [self.robot.base, *(f.placement for f in frames)]
        poses += [T for j in joints for T in (j.origin, j.child_placement)]
        slides = sum(
            self.gain(j) * abs(x) for j, x in self._moving(self.q) if j.kind == "prismatic"
        )
        offsets = sum(abs(j.mimic.offset) for j in joints if j.mimic)
        return max(1.0, sum(np.linalg.norm(T[:3, 3]) for T in poses) + slides + offsets)

    def speed(self, qd: Array) -> float:
        """Return the sum of all joint speeds, a bound on the angular velocity of any frame."""
        return max(1.0, sum(self.gain(joint) * abs(x) for joint, x in self._moving(qd)))

    @property
    def rounding(self) -> float:
        """Rounding error of a chain of all joints [m or 1]: a few eps times the reach per joint."""
        return 4 * (len(self.robot.description.joints) + 1) * np.finfo(float).eps * self.reach

    @staticmethod
    def gain(joint: Joint) -> float:
        return abs(joint.mimic.multiplier) if joint.mimic else 1.0

    def _moving(self, values: Array) -> list[tuple[Joint, float]]:
        value = dict(zip(self.robot.joint_names, values, strict=True))
        moving = [joint for joint in self.robot.description.joints if joint.moves]
        return [(j, float(value[j.mimic.joint if j.mimic else j.name])) for j in moving]


def rotation(rng: np.random.Generator, tidy: bool) -> Array:
    """Return any rotation (3, 3), or one of the 24 that permute the axes."""
    if tidy:
        R = np.eye(3)[rng.permutation(3)] * rng.choice([-1.0, 1.0], 3)
    else:
        R = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    return R if np.linalg.det(R) > 0 else -R


def pose(rng: np.random.Generator, tidy: bool = False) -> Array:
    """Return a pose (4, 4) within half a meter; a tidy pose has right angles and some zeros."""
    T = np.eye(4)
    T[:3, :3] = rotation(rng, tidy)
    T[:3, 3] = rng.uniform(-0.5, 0.5, 3) * (rng.random(3) < 0.5 if tidy else 1.0)
    return T


def axis(rng: np.random.Generator, tidy: bool) -> Array:
    """Return a coordinate axis, possibly tilted slightly, or any direction."""
    if not tidy:
        return rng.normal(size=3)
    return rng.choice([-1.0, 1.0]) * np.eye(3)[rng.integers(3)] + rng.choice(TILTS) * rng.normal(
        size=3
    )


@st.composite
def trees(draw: st.DrawFn, most: int = 9) -> Tree:
    """Draw trees of up to `most` joints: Hypothesis draws the shape, a seed sets the numbers."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    joints: list[Joint] = []
    leaders: list[str] = []
    for i in range(draw(st.integers(1, most))):
        kind = draw(st.sampled_from(KINDS)) if i else "revolute"
        tidy = draw(st.booleans())
        parent = draw(st.integers(max(0, i - 3), i))
        mimic = None
        if kind != "fixed":
            if leaders and draw(st.integers(0, 3)) == 0:
                multiplier = draw(st.sampled_from((1.0, -1.0, 0.0, 0.5, -2.0)))
                mimic = Mimic(draw(st.sampled_from(leaders)), multiplier, rng.uniform(-1, 1))
            else:
                leaders.append(f"joint{i}")
        joints.append(
            Joint(
                name=f"joint{i}",
                kind=kind,
                parent=f"link{parent}",
                child=f"link{i + 1}",
                origin=pose(rng, tidy),
                axis=axis(rng, tidy),
                child_placement=pose(rng, tidy) if draw(st.booleans()) else np.eye(4),
                mimic=mimic,
            )
        )
    frames = [Frame(f"frame{k}", f"link{rng.integers(len(joints) + 1)}", pose(rng)) for k in (1, 2)]
    base = pose(rng) if draw(st.booleans()) else None
    robot = supple.Robot(Description("tree", tuple(joints), tuple(frames)), base=base)
    q = draw(st.sampled_from((0.0, 1.0, 3.0))) * rng.uniform(-1, 1, robot.dof)
    return Tree(robot, q, rng.uniform(-1, 1, robot.dof))
