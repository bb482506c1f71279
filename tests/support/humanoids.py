"""A small humanoid with a foot of boxes, of any size, and its kinematics by Pinocchio."""

from __future__ import annotations

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


def humanoid_text(size: float = 1.0) -> str:
    """Return the URDF of a humanoid of about 1.3 m with 23 joints, times a size."""
    X, Y, Z = "1 0 0", "0 1 0", "0 0 1"
    sole = (
        f'<collision><origin xyz="{0.03 * size} 0 {-0.05 * size}"/><geometry>'
        f'<box size="{0.2 * size} {0.08 * size} {0.02 * size}"/></geometry></collision>'
    )
    parts = [_part("waist", "pelvis", (0, 0, 0.1), Z, (-2, 2), size)]
    for side, s in (("left", 1), ("right", -1)):
        parts += [
            _part(f"{side}_hip_yaw", "pelvis", (0, 0.1 * s, -0.05), Z, (-1.5, 1.5), size),
            _part(f"{side}_hip_roll", f"{side}_hip_yaw", (0, 0, 0), X, (-1, 1), size),
            _part(f"{side}_hip_pitch", f"{side}_hip_roll", (0, 0, 0), Y, (-2.5, 1.2), size),
            _part(f"{side}_knee", f"{side}_hip_pitch", (0, 0, -0.35), Y, (0, 2.6), size),
            _part(f"{side}_ankle_pitch", f"{side}_knee", (0, 0, -0.35), Y, (-1.2, 1.2), size),
            _part(f"{side}_foot", f"{side}_ankle_pitch", (0, 0, 0), X, (-0.6, 0.6), size, sole),
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
