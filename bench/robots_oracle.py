"""Forward kinematics by other libraries, which read the file by themselves: Pinocchio, MuJoCo."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

import mujoco
import numpy as np
import pinocchio as pin

import supple

Array = np.ndarray


def oracle(source: Path | str, robot: supple.Robot) -> Pinocchio | Mujoco:
    """Return the library that knows the format of a file; a text is a URDF."""
    if isinstance(source, str):
        return Pinocchio(source, robot)
    text = source.read_text("utf-8", errors="replace")
    return Pinocchio(text, robot) if source.suffix == ".urdf" else Mujoco(source, robot)


def _full(
    names: Sequence[str], robot: supple.Robot, follows: dict[str, tuple[str, float, float]]
) -> tuple[Array, Array]:
    """Return S and offset of q_full = S q + offset for the joints `names`; 0 for welded ones."""
    column = {name: k for k, name in enumerate(robot.joint_names)}
    S, offset = np.zeros((len(names), robot.dof)), np.zeros(len(names))
    for row, name in enumerate(names):
        scale = 1.0
        while name in follows:
            name, multiplier, shift = follows[name]
            offset[row] += scale * shift
            scale *= multiplier
        if name in column:
            S[row, column[name]] = scale
    return S, offset


def _kinematics(text: str) -> ET.Element:
    """Return the links and joints of a URDF text, in a form that Pinocchio's reader takes.

    It refuses prefixes without a namespace, limits without effort or velocity, and odd shapes.
    """
    text = re.sub(r"(</?[\w-]+):", r"\1_", text)
    text = re.sub(r"(\s[\w-]+):([\w-]+\s*=)", r"\1_\2", text)
    whole = ET.fromstring(text.encode())
    root = ET.Element("robot", name="robot")
    for link in whole.findall("link"):
        ET.SubElement(root, "link", name=link.get("name", ""))
    for joint in whole.findall("joint"):
        root.append(joint)
        for tag in ("safety_controller", "dynamics", "calibration"):
            for part in joint.findall(tag):
                joint.remove(part)
        for limit in joint.findall("limit"):
            for name in ("effort", "velocity"):
                limit.set(name, limit.get(name, "1"))
    return root


class Pinocchio:
    """Poses by Pinocchio, of a URDF text."""

    def __init__(self, text: str, robot: supple.Robot) -> None:
        root = _kinematics(text)
        self.model = pin.buildModelFromXML(ET.tostring(root, encoding="unicode"))
        self.data = self.model.createData()
        follows = {}
        for joint in root.findall("joint"):
            mimic = joint.find("mimic")
            if mimic is not None and joint.get("type") != "fixed":
                line = float(mimic.get("multiplier", 1)), float(mimic.get("offset", 0))
                follows[joint.get("name")] = (mimic.get("joint"), *line)
        names = list(self.model.names)[1:]
        self.S, self.offset = _full(names, robot, follows)
        joints = list(self.model.joints)[1:]
        self.plain = [(k, j.idx_q) for k, j in enumerate(joints) if j.nq == 1]
        self.turns = [(k, j.idx_q) for k, j in enumerate(joints) if j.nq == 2]

    def has(self, frame: str) -> bool:
        """Whether the file has a link of this name."""
        return bool(self.model.existFrame(frame, pin.BODY))

    def poses(self, Q: Array, frame: str) -> Array:
        """Return poses (N, 4, 4) of a frame at configurations (N, n)."""
        which = self.model.getFrameId(frame, pin.BODY)
        full = Q @ self.S.T + self.offset
        whole = np.tile(pin.neutral(self.model), (len(Q), 1))
        for k, at in self.plain:
            whole[:, at] = full[:, k]
        for k, at in self.turns:
            whole[:, at], whole[:, at + 1] = np.cos(full[:, k]), np.sin(full[:, k])
        T = np.empty((len(Q), 4, 4))
        model, data = self.model, self.data
        for i, q in enumerate(whole):
            pin.forwardKinematics(model, data, q)
            T[i] = pin.updateFramePlacement(model, data, which).homogeneous
        return T


class Mujoco:
    """Poses by MuJoCo, of an MJCF file."""

    def __init__(self, path: Path, robot: supple.Robot) -> None:
        mujoco.set_mju_user_warning(lambda _: None)  # (of masses and other options)
        self.model = model = mujoco.MjModel.from_xml_path(str(path))
        self.data = mujoco.MjData(model)
        single = {int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)}
        own = [j for j in range(model.njnt) if int(model.jnt_type[j]) in single]
        name = {j: model.joint(j).name or f"joint{j}" for j in range(model.njnt)}
        follows = {}
        rest = {name[j]: model.qpos0[model.jnt_qposadr[j]] for j in own}
        for i in range(model.neq):
            if model.eq_type[i] != mujoco.mjtEq.mjEQ_JOINT or not model.eq_active0[i]:
                continue
            one, two = name[model.eq_obj1id[i]], model.eq_obj2id[i]
            if two >= 0:
                c0, c1 = model.eq_data[i][:2]
                follows[one] = (name[two], c1, rest[one] + c0 - c1 * rest[name[two]])
        names = [name[j] for j in own]
        self.where = [int(model.jnt_qposadr[j]) for j in own]
        self.S, self.offset = _full(names, robot, follows)
        still = [k for k, n in enumerate(names) if n not in follows and not self.S[k].any()]
        for k in still:
            self.offset[k] = rest[names[k]]

    def has(self, frame: str) -> bool:
        """Whether the file has a body of this name."""
        return mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_BODY, frame) > 0

    def poses(self, Q: Array, frame: str) -> Array:
        """Return poses (N, 4, 4) of a body at configurations (N, n)."""
        full = Q @ self.S.T + self.offset
        body = mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_BODY, frame)
        T = np.tile(np.eye(4), (len(Q), 1, 1))
        for i, q in enumerate(full):
            self.data.qpos[self.where] = q
            mujoco.mj_kinematics(self.model, self.data)
            T[i, :3, :3] = self.data.xmat[body].reshape(3, 3)
            T[i, :3, 3] = self.data.xpos[body]
        return T
