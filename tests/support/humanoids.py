"""A scalable small humanoid with feet of boxes or capsules, and poses computed by Pinocchio."""

from __future__ import annotations

from functools import cache

import numpy as np
import pinocchio as pin

import supple as sp
from supple.motion.linearization import Array

_LIMIT = '<limit lower="{}" upper="{}" velocity="{}" effort="100"/>'


def _part(
    name: str,
    parent: str,
    at: tuple[float, ...],
    axis: str,
    ends: tuple[float, float],
    size: float,
    body: str = "",
    speed: float = 12.0,
) -> str:
    x, y, z = (size * value for value in at)
    return f"""<link name="{name}">{body}</link><joint name="{name}_joint" type="revolute">
      <parent link="{parent}"/><child link="{name}"/><origin xyz="{x} {y} {z}"/>
      <axis xyz="{axis}"/>{_LIMIT.format(*ends, speed)}</joint>"""


_SOLE = '<collision><origin xyz="{} 0 {}"/><geometry><box size="{} {} {}"/></geometry></collision>'


def humanoid_text(
    size: float = 1.0,
    *,
    sole: str = "",
    hips: float = 0.1,
    ankle: tuple[float, float] = (1.2, 0.6),
    speed: float = 12.0,
) -> str:
    """Return the URDF of a humanoid with 23 joints, about 1.3 m tall times `size`.

    Args:
        size: Factor of all lengths but those of `sole`.
        sole: Shapes of a foot, by default a box.
        hips: Half the distance of the hips [m].
        ankle: Range of the ankles' pitch and roll [rad].
        speed: Largest speed of the legs' joints [rad/s].
    """
    X, Y, Z = "1 0 0", "0 1 0", "0 0 1"
    sole = sole or _SOLE.format(*(size * each for each in (0.03, -0.05, 0.2, 0.08, 0.02)))
    pitch, roll = ((-each, each) for each in ankle)
    parts = [_part("waist", "pelvis", (0, 0, 0.1), Z, (-2, 2), size)]
    for side, s in (("left", 1), ("right", -1)):
        parts += [
            _part(
                f"{side}_hip_yaw", "pelvis", (0, hips * s, -0.05), Z, (-1.5, 1.5), size, "", speed
            ),
            _part(f"{side}_hip_roll", f"{side}_hip_yaw", (0, 0, 0), X, (-1, 1), size, "", speed),
            _part(
                f"{side}_hip_pitch", f"{side}_hip_roll", (0, 0, 0), Y, (-2.5, 1.2), size, "", speed
            ),
            _part(f"{side}_knee", f"{side}_hip_pitch", (0, 0, -0.35), Y, (0, 2.6), size, "", speed),
            _part(f"{side}_ankle_pitch", f"{side}_knee", (0, 0, -0.35), Y, pitch, size, "", speed),
            _part(f"{side}_foot", f"{side}_ankle_pitch", (0, 0, 0), X, roll, size, sole, speed),
            _part(f"{side}_shoulder_pitch", "waist", (0, 0.18 * s, 0.35), Y, (-3, 2), size),
            _part(
                f"{side}_shoulder_roll", f"{side}_shoulder_pitch", (0, 0, 0), X, (-1.6, 1.6), size
            ),
            _part(f"{side}_shoulder_yaw", f"{side}_shoulder_roll", (0, 0, 0), Z, (-1.5, 1.5), size),
            _part(f"{side}_elbow", f"{side}_shoulder_yaw", (0, 0, -0.25), Y, (-2.4, 0), size),
            f'<link name="{side}_hand"/><joint name="{side}_hand_fixed" type="fixed">'
            f'<parent link="{side}_elbow"/><child link="{side}_hand"/>'
            f'<origin xyz="0 0 {-0.25 * size}"/></joint>',
        ]
    return f'<robot name="small"><link name="pelvis"/>{"".join(parts)}</robot>'


def drawn_humanoid(seed: int) -> sp.Robot:
    """Return a humanoid with a foot, ankles, hips and speeds drawn from a seed.

    Every third humanoid has ankles without roll, so that its legs have five joints.
    """
    rng = np.random.default_rng(seed)
    length, width, high = rng.uniform((0.14, 0.05, 0.03), (0.26, 0.1, 0.06))
    sole = _SOLE.format(0.2 * length, -high, length, width, 0.02)
    if seed % 2:  # capsules, of which the outer ones are higher
        one = '<collision><origin xyz="{} {} {}" rpy="0 1.57079633 0"/><geometry>'
        one += '<capsule radius="{}" length="{}"/></geometry></collision>'
        sole = "".join(
            one.format(0.2 * length, y, -high + abs(y) * rng.uniform(0, 0.2), 0.02, length - 0.04)
            for y in (-0.5 * width, 0, 0.5 * width)
        )
    text = humanoid_text(
        rng.uniform(0.7, 1.3),
        sole=sole,
        hips=rng.uniform(0.06, 0.18),
        ankle=(rng.uniform(0.3, 1.0), rng.uniform(0.1, 0.5)),
        speed=rng.uniform(2.5, 8),
    )
    if seed % 3 == 0:
        text = text.replace('_foot_joint" type="revolute"', '_foot_joint" type="fixed"')
    return sp.urdf(text)


@cache
def humanoid(size: float = 1.0) -> sp.Robot:
    """Return the humanoid, with a fixed base."""
    return sp.urdf(humanoid_text(size))


def poses_by_pinocchio(text: str, q: Array, frame: str) -> Array:
    """Return the poses (T, 4, 4) of a frame at configurations with quaternions wxyz."""
    model = pin.buildModelFromXML(text, pin.JointModelFreeFlyer())
    data = model.createData()
    names = sp.urdf(text).joint_names
    made = np.empty((len(q), 4, 4))
    for k, row in enumerate(q):
        x = pin.neutral(model)
        x[:7] = row[[0, 1, 2, 4, 5, 6, 3]]
        for name, value in zip(names, row[7:], strict=True):
            x[model.joints[model.getJointId(name)].idx_q] = value
        pin.framesForwardKinematics(model, data, x)
        made[k] = data.oMf[model.getFrameId(frame)].homogeneous
    return made
