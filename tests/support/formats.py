"""Random robots with every kind of joint, and the states of MuJoCo and Pinocchio at their q."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import pinocchio as pin

import supple as sp
from supple.describe import Description, Frame, Inertia, Joint, Mimic
from trees import axis, pose

Array = np.ndarray
URDF_KINDS = ("revolute", "continuous", "prismatic", "fixed", "planar", "floating")
KINDS = (*URDF_KINDS, "ball", "screw")
ONE = ("revolute", "continuous", "prismatic", "screw")  # kinds with one degree of freedom


def drawn_robot(seed: int, kinds: tuple[str, ...] = KINDS) -> sp.Robot:
    """Return a robot with limits, followers, masses, a tool, a frozen joint and a base."""
    rng = np.random.default_rng(seed)
    joints: list[Joint] = []
    for i, kind in enumerate([*rng.permutation(kinds), *rng.choice(ONE[:3], 3)]):
        leaders = [j for j in joints if j.kind in ONE and j.mimic is None]
        mimic = None
        if kind in ONE and leaders and rng.random() < 0.4:
            mimic = Mimic(rng.choice([j.name for j in leaders]), rng.normal(), rng.normal())
        limits = {}
        if kind in ("revolute", "prismatic", "screw") and mimic is None:
            low, high = np.sort(rng.uniform(-2, 2, 2))
            limits = {"lower": low if rng.random() < 0.8 else -np.inf, "upper": high}
        if kind in ONE and rng.random() < 0.7:
            limits |= {"max_speed": rng.uniform(1, 3)}
        if kind in ONE and rng.random() < 0.3:
            limits |= {"max_acceleration": rng.uniform(1, 3), "max_jerk": rng.uniform(1, 3)}
        joints.append(
            Joint(
                f"j{i}",
                str(kind),
                f"l{rng.integers(i + 1)}",
                f"l{i + 1}",
                pose(rng),
                axis(rng, rng.random() < 0.5),
                pose(rng) if rng.random() < 0.5 else np.eye(4),
                pitch=rng.uniform(0.1, 1) if kind == "screw" else 0.0,
                mimic=mimic,
                **limits,
            )
        )
    masses = [drawn_inertia(f"l{i}", rng) for i in range(1, len(joints)) if rng.random() < 0.8]
    frames = (Frame("probe", "l2", pose(rng)),)
    robot = sp.Robot(Description("drawn", tuple(joints), frames, inertias=tuple(masses)))
    free = [j.name for j in robot.description.joints if j.moves and j.mimic is None]
    robot = robot.freeze([str(rng.choice(free))]).with_base(pose(rng))
    return robot.with_tips("probe").with_tool(pose(rng), name="tool")


def drawn_inertia(link: str, rng: np.random.Generator) -> Inertia:
    """Return the inertia of three point masses, which is a possible inertia of a rigid body."""
    mass, at = rng.uniform(0.1, 2, 4), rng.normal(size=(4, 3))
    center = mass @ at / mass.sum()
    r = at - center
    matrix = sum(m * (x @ x * np.eye(3) - np.outer(x, x)) for m, x in zip(mass, r, strict=True))
    return Inertia(link, mass.sum(), center, matrix)


def followers(robot: sp.Robot) -> dict[str, tuple[str, float, float]]:
    """Return leader, multiplier and offset of each joint of MuJoCo that follows another one."""
    found = {}
    for joint in robot.description.joints:
        line = (joint.name, 1.0, 0.0)
        if joint.mimic is not None:
            line = joint.mimic.joint, joint.mimic.multiplier, joint.mimic.offset
            found[joint.name] = line
        if joint.kind == "screw":
            found[f"{joint.name}/slide"] = line[0], joint.pitch * line[1], joint.pitch * line[2]
    return found


def in_mujoco(model: Any, robot: sp.Robot, q: Array) -> tuple[Any, Array]:
    """Return MuJoCo's data at q, and S of q̇_mujoco = S q̇."""
    data = mujoco.MjData(model)
    value = dict(zip(robot.position_names, q, strict=True))
    column = {each: i for i, each in enumerate(robot.joint_names)}
    S = np.zeros((model.nv, robot.nv))
    follow = followers(robot)
    parts = {0: ("x", "y", "z", "qw", "qx", "qy", "qz"), 1: ("qw", "qx", "qy", "qz")}
    rates = {0: ("x", "y", "z", "rx", "ry", "rz"), 1: ("rx", "ry", "rz")}
    for i in range(model.njnt):
        name, kind = model.joint(i).name or f"joint{i}", int(model.jnt_type[i])
        at, dof = int(model.jnt_qposadr[i]), int(model.jnt_dofadr[i])
        if kind in parts:
            for k, part in enumerate(parts[kind]):
                data.qpos[at + k] = value[f"{name}/{part}"]
            for k, part in enumerate(rates[kind]):
                S[dof + k, column[f"{name}/{part}"]] = 1
        else:
            leader, multiplier, offset = follow.get(name, (name, 1.0, 0.0))
            data.qpos[at] = multiplier * value[leader] + offset
            S[dof, column[leader]] = multiplier
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    return data, S


def in_pinocchio(model: Any, robot: sp.Robot, q: Array) -> tuple[Array, Array]:
    """Return Pinocchio's q, and S of q̇_pinocchio = S q̇."""
    value = dict(zip(robot.position_names, q, strict=True))
    column = {name: i for i, name in enumerate(robot.joint_names)}
    theirs, S = pin.neutral(model), np.zeros((model.nv, robot.nv))
    for name, joint in zip(model.names, model.joints, strict=True):
        if name == "universe" or joint.nv == 0:
            continue
        at, dof = joint.idx_q, joint.idx_v
        if joint.nv == 1:
            x = value[name]
            theirs[at : at + joint.nq] = x if joint.nq == 1 else (np.cos(x), np.sin(x))
            S[dof, column[name]] = 1
            continue
        rates = {3: ("rx", "ry", "rz"), 6: ("x", "y", "z", "rx", "ry", "rz")}[joint.nv]
        R = np.eye(joint.nv)
        if joint.shortname() == "JointModelPlanar":
            rates = ("x", "y", "rz")
            x, y, a = (value[f"{name}/{part}"] for part in rates)
            theirs[at : at + 4] = x, y, np.cos(a), np.sin(a)
            R[:2, :2] = [[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]]
        else:
            turn = [value[f"{name}/{part}"] for part in ("qx", "qy", "qz", "qw")]
            theirs[at + joint.nq - 4 : at + joint.nq] = turn
            if joint.nv == 6:
                theirs[at : at + 3] = [value[f"{name}/{part}"] for part in ("x", "y", "z")]
                R[:3, :3] = pin.Quaternion(np.array(turn)).toRotationMatrix().T
        S[dof : dof + joint.nv, [column[f"{name}/{rate}"] for rate in rates]] = R
    return theirs, S
