"""Other libraries' kinematics behind one small interface: Pinocchio, MuJoCo, yourdfpy.

Each oracle reads the robot's file with its own reader. Coordinates are matched by name. Pinocchio
and MuJoCo treat a mimic joint as independent, so q_full = S q + offset and J = J_full S, where
q_full and J_full include all joints.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

import mujoco
import numpy as np
import pinocchio as pin

Array = np.ndarray


def followers(path: Path) -> dict[str, tuple[str, float, float]]:
    """Return the mimic joints of a URDF file: name -> (leader, multiplier, offset)."""
    follows = {}
    for joint in ET.parse(path).getroot().findall("joint"):
        mimic = joint.find("mimic")
        if mimic is not None and joint.get("type") != "fixed":
            number = (float(mimic.get("multiplier", 1)), float(mimic.get("offset", 0)))
            follows[joint.get("name")] = (mimic.get("joint"), *number)
    return follows


def selection(full: Sequence[str], names: Sequence[str], follows: dict) -> tuple[Array, Array]:
    """Return S and offset of q_full = S q + offset, for joints `full` and `names`."""
    S, offset = np.zeros((len(full), len(names))), np.zeros(len(full))
    for row, name in enumerate(full):
        scale = 1.0
        while name in follows:
            name, multiplier, shift = follows[name]
            offset[row] += scale * shift
            scale *= multiplier
        S[row, list(names).index(name)] = scale
    return S, offset


def in_axes(R: Array, J: Array) -> Array:
    """Return twists (first axis of J) in the axes R: blockdiag(R^T, R^T) J."""
    return np.concatenate([R.T @ J[:3], R.T @ J[3:]])


class Pinocchio:
    """Pinocchio's own algorithms for world (LOCAL_WORLD_ALIGNED) and body (LOCAL) axes."""

    axes = {"world": pin.LOCAL_WORLD_ALIGNED, "body": pin.LOCAL}  # noqa: RUF012

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        mjcf = path.suffix == ".xml"
        build = pin.buildModelFromMJCF if mjcf else pin.buildModelFromUrdf
        self.model = build(str(path))
        self.data = self.model.createData()
        joints = sorted(zip(self.model.joints, self.model.names, strict=True), key=_speed_index)
        self.joints = [joint for joint, name in joints if name != "universe"]
        full = [name for _, name in joints if name != "universe"]
        self.S, self.offset = selection(full, names, {} if mjcf else followers(path))

    def at(self, q: Array, qd: Array) -> None:
        """Set the configuration q and joint velocities qd."""
        self.q = pin.neutral(self.model)
        for joint, x in zip(self.joints, self.S @ q + self.offset, strict=True):
            turn = (np.cos(x), np.sin(x)) if joint.nq == 2 else x
            self.q[joint.idx_q : joint.idx_q + joint.nq] = turn
        zero = np.zeros(self.model.nv)
        pin.forwardKinematics(self.model, self.data, self.q, self.S @ qd, zero)

    def has(self, frame: str) -> bool:
        return self.model.existFrame(frame, pin.BODY)

    def fk(self, frame: str) -> Array:
        return pin.updateFramePlacement(self.model, self.data, self._id(frame)).homogeneous

    def jacobian(self, frame: str, axes: str) -> Array:
        J = pin.computeFrameJacobian(
            self.model, self.data, self.q, self._id(frame), self.axes[axes]
        )
        return J.reshape(6, -1) @ self.S

    def bias_acceleration(self, frame: str, axes: str) -> Array:
        # The derivative of the body twist's components is the spatial acceleration.
        of = pin.getFrameAcceleration if axes == "body" else pin.getFrameClassicalAcceleration
        return of(self.model, self.data, self._id(frame), self.axes[axes]).vector

    def _id(self, frame: str) -> int:
        return self.model.getFrameId(frame, pin.BODY)


def _speed_index(joint_and_name: tuple) -> int:
    return joint_and_name[0].idx_v


class Mujoco:
    """MuJoCo's Jacobian and its time derivative, in world axes or rotated into body axes."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        mjcf = path.suffix == ".xml"
        self.model = mujoco.MjModel.from_xml_path(str(path)) if mjcf else _from_urdf(path)
        self.data = mujoco.MjData(self.model)
        joints = [self.model.joint(i) for i in range(self.model.njnt)]
        self.where = [joint.qposadr[0] for joint in joints]
        full = [joint.name for joint in joints]
        self.S, self.offset = selection(full, names, {} if mjcf else followers(path))

    def at(self, q: Array, qd: Array) -> None:
        """Set the configuration q and joint velocities qd."""
        self.data.qpos[self.where] = self.S @ q + self.offset
        self.data.qvel[:] = self.S @ qd
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_comVel(self.model, self.data)

    def has(self, frame: str) -> bool:
        return mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_BODY, frame) > 0

    def fk(self, frame: str) -> Array:
        body = self.data.body(frame)
        T = np.eye(4)
        T[:3, :3], T[:3, 3] = body.xmat.reshape(3, 3), body.xpos
        return T

    def jacobian(self, frame: str, axes: str) -> Array:
        J = self._six_rows(mujoco.mj_jac, frame) @ self.S
        return in_axes(self.fk(frame)[:3, :3], J) if axes == "body" else J

    def bias_acceleration(self, frame: str, axes: str) -> Array:
        drift = self._six_rows(mujoco.mj_jacDot, frame) @ self.data.qvel
        if axes == "world":
            return drift
        # d/dt R^T v = R^T (a - w × v)
        v, w = np.split(self._six_rows(mujoco.mj_jac, frame) @ self.data.qvel, 2)
        drift = drift - np.concatenate([np.cross(w, v), np.zeros(3)])
        return in_axes(self.fk(frame)[:3, :3], drift)

    def _six_rows(self, function, frame: str) -> Array:
        J = np.zeros((6, self.model.nv))
        body = self.data.body(frame)
        function(self.model, self.data, J[:3], J[3:], body.xpos, body.id)
        return J


def _from_urdf(path: Path) -> mujoco.MjModel:
    """Return the kinematics of a URDF file, without shapes and masses; links are not merged."""
    root = ET.parse(path).getroot()
    for tag in ("mujoco", "transmission", "gazebo"):
        for element in root.findall(tag):
            root.remove(element)
    for body in root.iter("link"):
        for tag in ("visual", "collision", "inertial"):
            for element in body.findall(tag):
                body.remove(element)
    options = {"fusestatic": "false", "boundmass": "1e-3", "boundinertia": "1e-6"}
    ET.SubElement(ET.SubElement(root, "mujoco"), "compiler", options)
    return mujoco.MjSpec.from_string(ET.tostring(root, encoding="unicode")).compile()


class Yourdfpy:
    """Names, limits and poses of a URDF file by yourdfpy, a third oracle."""

    def __init__(self, path: Path) -> None:
        import yourdfpy  # the import takes a second

        self.urdf = yourdfpy.URDF.load(str(path), load_meshes=False, build_scene_graph=True)

    @property
    def links(self) -> set[str]:
        return set(self.urdf.link_map)

    @property
    def limits(self) -> dict[str, tuple[float, float]]:
        """Limits of the independent joints; infinite for continuous ones."""
        joints = {name: self.urdf.joint_map[name] for name in self.urdf.actuated_joint_names}
        return {
            name: (-np.inf, np.inf)
            if joint.type == "continuous"
            else (joint.limit.lower, joint.limit.upper)
            for name, joint in joints.items()
        }

    def at(self, q: dict[str, float]) -> None:
        """Set the configuration."""
        self.urdf.update_cfg(np.array([q[name] for name in self.urdf.actuated_joint_names]))

    def fk(self, frame: str) -> Array:
        return self.urdf.get_transform(frame)
