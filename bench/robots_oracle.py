"""Forward kinematics by Pinocchio and MuJoCo, which read the robot's file by themselves."""

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


class NoOracleError(Exception):
    """The other library cannot read this file; the message is that of the library."""


def oracle(source: Path | str, robot: supple.Robot) -> Pinocchio | Mujoco:
    """Return the kinematics of a file, or of a URDF text, by a library that reads its format.

    Raises:
        NoOracleError: MuJoCo rejects the file, even with everything but kinematics removed.
    """
    if isinstance(source, str):
        return Pinocchio(source, robot)
    text = source.read_text("utf-8", errors="replace")
    return Pinocchio(text, robot) if source.suffix == ".urdf" else Mujoco(source, robot)


def _full(
    names: Sequence[str], robot: supple.Robot, follows: dict[str, tuple[str, float, float]]
) -> tuple[Array, Array]:
    """Return S and offset of q_full = S q + offset for the joints `names`; welded joints are 0."""
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
    """Return the links and joints of a URDF text in a form that Pinocchio's parser accepts.

    Pinocchio rejects undeclared namespace prefixes, limits without effort or velocity, and
    malformed geometry.
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
    """Pinocchio's forward kinematics of a URDF text."""

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


# Elements to delete because they may need other files, in an order that leaves no dangling
# reference.
_REFERRING = ("keys", "sensors", "actuators", "tendons", "excludes", "pairs", "flexes", "skins")
_ASSETS = ("meshes", "hfields", "materials", "textures")
_NO_KINEMATICS = (*_REFERRING, "geoms", "cameras", "lights", "tuples", "plugins", *_ASSETS)


def kinematics_of(path: Path) -> mujoco.MjModel:
    """Return MuJoCo's model of the bodies, joints, sites and joint equalities of an MJCF file.

    No mesh, texture or other asset is opened. Every body has mass 1 and its frame in the file:
    static bodies are not fused, and free bodies are not aligned with their inertia.

    Raises:
        ValueError: MuJoCo rejects the file.
    """
    mujoco.set_mju_user_warning(lambda _: None)  # otherwise MuJoCo writes warnings to a file
    spec = mujoco.MjSpec.from_file(str(path))
    for kind in _NO_KINEMATICS:
        for part in list(getattr(spec, kind)):
            spec.delete(part)
    for equality in list(spec.equalities):
        if equality.type != mujoco.mjtEq.mjEQ_JOINT:
            spec.delete(equality)
    for site in spec.sites:
        site.material = ""
    for body in spec.bodies[1:]:
        body.explicitinertial, body.mass = True, 1.0
        body.ipos, body.iquat, body.inertia = np.zeros(3), np.array([1.0, 0, 0, 0]), np.ones(3)
        body.fullinertia = np.full(6, np.nan)  # NaN means that no inertia is given
        body.ialt.type = mujoco.mjtOrientation.mjORIENTATION_QUAT
    for joint in spec.joints:
        joint.align = False
    spec.compiler.alignfree = spec.compiler.fusestatic = False
    spec.compiler.settotalmass = -1  # -1 means that no total mass is given
    return spec.compile()


class Mujoco:
    """MuJoCo's forward kinematics of an MJCF file."""

    def __init__(self, path: Path, robot: supple.Robot) -> None:
        try:
            self.model = model = kinematics_of(path)
        except ValueError as error:
            raise NoOracleError(str(error)) from error
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
        """Whether the file has a body or a site of this name."""
        return self._body(frame) > 0 or self._site(frame) >= 0

    def poses(self, Q: Array, frame: str) -> Array:
        """Return poses (N, 4, 4) of a body, or of a site, at configurations (N, n)."""
        full = Q @ self.S.T + self.offset
        body, site, data = self._body(frame), self._site(frame), self.data
        mats, places = (data.xmat, data.xpos) if body > 0 else (data.site_xmat, data.site_xpos)
        index = body if body > 0 else site
        T = np.tile(np.eye(4), (len(Q), 1, 1))
        for i, q in enumerate(full):
            data.qpos[self.where] = q
            mujoco.mj_kinematics(self.model, data)
            T[i, :3, :3] = mats[index].reshape(3, 3)
            T[i, :3, 3] = places[index]
        return T

    def _body(self, name: str) -> int:
        return int(mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_BODY, name))

    def _site(self, name: str) -> int:
        return int(mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_SITE, name))
