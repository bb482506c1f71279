"""The start posture of humanoids: they stand symmetrically on flat feet."""

from __future__ import annotations

import numpy as np
import pytest

import supple as sp
from supple.view.posture import comfortable

X, Y, Z = "1 0 0", "0 1 0", "0 0 1"


def part(name: str, parent: str, at: str, axis: str, lower: float, upper: float) -> str:
    return (
        f'<link name="{name}"/><joint name="{name}" type="revolute"><parent link="{parent}"/>'
        f'<child link="{name}"/><origin xyz="{at}"/><axis xyz="{axis}"/>'
        f'<limit lower="{lower}" upper="{upper}" velocity="6" effort="1"/></joint>'
    )


def humanoid(seed: int) -> sp.Robot:
    """Return a humanoid with straight, mirrored legs and arms of random lengths and ranges."""
    random = np.random.default_rng(seed)
    thigh, shin, upper, fore = random.uniform(0.2, 0.6, 4)
    spread, bend = random.uniform(0.4, 3.0), random.uniform(1.5, 2.8)
    parts = [part("torso", "pelvis", "0 0 0.2", Z, -2, 2)]
    for side, y in (("left", 1), ("right", -1)):
        wide = sorted((-0.5 * y, spread * y))  # the range is much wider outward than inward
        parts += [
            part(f"{side}_hip_yaw", "pelvis", f"0 {0.1 * y} 0", Z, -2.7, 2.7),
            part(f"{side}_hip_roll", f"{side}_hip_yaw", "0 0 0", X, *wide),
            part(f"{side}_hip", f"{side}_hip_roll", "0 0 0", Y, -2.5, 2.5),
            part(f"{side}_knee", f"{side}_hip", f"0 0 {-thigh}", Y, -0.1, bend),
            part(f"{side}_ankle", f"{side}_knee", f"0 0 {-shin}", Y, -0.9, 0.9),
            part(f"{side}_foot", f"{side}_ankle", "0 0 0", X, -0.4, 0.4),
            part(f"{side}_shoulder", "torso", f"0 {0.2 * y} 0.4", Y, -3, 3),
            part(f"{side}_arm_roll", f"{side}_shoulder", "0 0 0", X, *wide),
            part(f"{side}_arm", f"{side}_arm_roll", "0 0 0", Z, -2.6, 2.6),
            part(f"{side}_elbow", f"{side}_arm", f"0 0 {-upper}", Y, -bend, 0.1),
            part(f"{side}_wrist", f"{side}_elbow", f"0 0 {-fore}", Z, -2, 2),
            part(f"{side}_hand", f"{side}_wrist", "0 0 0", X, -1, 1),
        ]
    return sp.urdf(f'<robot name="figure"><link name="pelvis"/>{"".join(parts)}</robot>')


@pytest.mark.parametrize("seed", range(8))
def test_a_humanoid_starts_in_a_symmetric_standing_posture(seed: int) -> None:
    robot = humanoid(seed)
    q = comfortable(robot)
    named = dict(zip(robot.joint_names, q, strict=True))
    assert ((q >= robot.lower) & (q <= robot.upper)).all()
    for part_of, sign in (("hip_yaw", -1), ("hip_roll", -1), ("knee", 1), ("elbow", 1)):
        left, right = named[f"left_{part_of}"], named[f"right_{part_of}"]
        assert left == pytest.approx(sign * right, abs=1e-4)  # left and right are mirror images
    for side in ("left", "right"):
        assert abs(named[f"{side}_hip_roll"]) < 0.1  # the legs are not spread
        assert 0.2 < named[f"{side}_knee"] < 1.0
        assert -1.0 < named[f"{side}_elbow"] < -0.2
        foot = robot.fk(q, f"{side}_foot")
        # The foot is flat on the ground.
        np.testing.assert_allclose(foot[:3, 2], [0, 0, 1], atol=1e-3)
        straight = robot.fk(robot.neutral(), f"{side}_foot")
        assert foot[2, 3] - straight[2, 3] > 0.01
    J = robot.jacobian(q, tuple(robot.tips))[:, :3]
    assert np.linalg.svd(J, compute_uv=False)[:, -1].min() > 1e-2
