"""Other libraries through the passages, each in its own environment.

    python bench/singularities/peers.py COMMANDS.npz JOINTS.npz

This file needs only NumPy and the library: supple is not in those environments. COMMANDS has, for
each robot, the placements of its joints, which all turn about their z axis, and its limits; for
each passage q0, poses and twists. JOINTS gets the joint angles of every method available here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Move = Callable[[Array, Array, Array], Array]

GAIN = 10.0  # [1/s], the same for all libraries
SOLVER = "daqp"


class Arm(NamedTuple):
    """A robot as numbers: T of each joint in the previous one, and of the end effector."""

    placements: Array
    lower: Array
    upper: Array
    max_speed: Array


def next_pose(twist: Array, pose: Array, dt: float) -> Array:
    """Return the pose after a twist over dt, world axes."""
    to = pose.copy()
    to[:3, 3] += twist[:3] * dt
    angle = float(np.linalg.norm(twist[3:] * dt))
    if angle > 0:
        x, y, z = twist[3:] * dt / angle
        K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
        to[:3, :3] = (np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K) @ pose[:3, :3]
    return to


def asked(T: Array, twist: Array, pose: Array) -> Array:
    """Return twist + GAIN (pose - T) (6,), as a Servo does; for rotations below half a turn."""
    R = pose[:3, :3] @ T[:3, :3].T
    w = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]]) / 2
    sine = float(np.linalg.norm(w))
    if sine > 0:
        w = w * np.arctan2(sine, (np.trace(R) - 1) / 2) / sine
    return np.asarray(twist + GAIN * np.append(pose[:3, 3] - T[:3, 3], w))


def pink_method(arm: Arm, dt: float, *, same: bool) -> Move:
    """Pink with a FrameTask as in its example of an arm, or with the same command as the others."""
    import pink
    import pinocchio as pin

    model, parent = pin.Model(), 0
    for i, T in enumerate(arm.placements[:-1]):
        ends = [np.array([each[i]]) for each in (arm.max_speed, arm.lower, arm.upper)]
        joint = model.addJoint(
            parent, pin.JointModelRZ(), pin.SE3(T), f"joint{i}", np.array([1e9]), *ends
        )
        model.appendBodyToJoint(joint, pin.Inertia.Random(), pin.SE3.Identity())
        parent = joint
    tip = model.addFrame(
        pin.Frame("tip", parent, pin.SE3(arm.placements[-1]), pin.FrameType.OP_FRAME)
    )
    configuration = pink.Configuration(model, model.createData(), np.zeros(model.nq))

    class TwistTask(pink.tasks.Task):
        def compute_error(self, configuration: Any) -> Array:
            return self.error

        def compute_jacobian(self, configuration: Any) -> Array:
            axes = pin.LOCAL_WORLD_ALIGNED
            return np.asarray(pin.getFrameJacobian(model, configuration.data, tip, axes))

        def __repr__(self) -> str:
            return "TwistTask()"

    follow, rest = TwistTask(), None
    if not same:
        follow = pink.tasks.FrameTask(
            "tip", position_cost=1.0, orientation_cost=1.0, lm_damping=1.0
        )
        rest = pink.tasks.PostureTask(cost=1e-3)

    def move(q: Array, twist: Array, pose: Array) -> Array:
        configuration.update(q)
        if same:
            T = configuration.get_transform_frame_to_world("tip").homogeneous
            follow.error = -dt * asked(T, twist, pose)
        else:
            follow.set_target(pin.SE3(next_pose(twist, pose, dt)))
            if rest.target_q is None:
                rest.set_target(q)
        tasks = [follow] if rest is None else [follow, rest]
        v = pink.solve_ik(configuration, tasks, dt, SOLVER, safety_break=False)
        return np.asarray(q + v * dt)

    return move


def mink_method(arm: Arm, dt: float, *, same: bool) -> Move:
    """Mink with the tasks and costs of Pink's example, or with the same command as the others."""
    import mink
    import mujoco

    model = mujoco.MjModel.from_xml_string(mjcf(arm))
    configuration = mink.Configuration(model)
    speeds = {f"joint{i}": each for i, each in enumerate(arm.max_speed)}
    limits = [mink.ConfigurationLimit(model), mink.VelocityLimit(model, speeds)]
    data, tip = configuration.data, model.site("tip").id

    class TwistTask(mink.Task):
        def compute_error(self, configuration: Any) -> Array:
            return self.error

        def compute_jacobian(self, configuration: Any) -> Array:
            J = np.zeros((6, model.nv))
            mujoco.mj_jacSite(model, data, J[:3], J[3:], tip)
            return J

    follow, rest = TwistTask(cost=np.ones(6)), None
    if not same:
        follow = mink.FrameTask("tip", "site", 1.0, 1.0, lm_damping=1.0)
        rest = mink.PostureTask(model, cost=1e-3)

    def move(q: Array, twist: Array, pose: Array) -> Array:
        configuration.update(q)
        if same:
            T = np.eye(4)
            T[:3, :3], T[:3, 3] = data.site_xmat[tip].reshape(3, 3), data.site_xpos[tip]
            follow.error = -dt * asked(T, twist, pose)
        else:
            follow.set_target(mink.SE3.from_matrix(next_pose(twist, pose, dt)))
            if rest.target_q is None:
                rest.set_target(q)
        tasks = [follow] if rest is None else [follow, rest]
        v = mink.solve_ik(configuration, tasks, dt, SOLVER, limits=limits)
        return np.asarray(q + v * dt)

    return move


def mjcf(arm: Arm) -> str:
    """Return the arm as MJCF."""
    text = ""
    for i, T in reversed(list(enumerate(arm.placements[:-1]))):
        ends = f"{arm.lower[i]!r} {arm.upper[i]!r}".replace("np.float64(", "").replace(")", "")
        text = (
            f'<body {where(T)}><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
            f'<joint name="joint{i}" axis="0 0 1" limited="true" range="{ends}"/>'
            + (text or f'<site name="tip" {where(arm.placements[-1])}/>')
            + "</body>"
        )
    return f'<mujoco><compiler angle="radian"/><worldbody>{text}</worldbody></mujoco>'


def where(T: Array) -> str:
    """Return a pose as MJCF attributes."""
    numbers = [" ".join(f"{x:.17g}" for x in each) for each in (T[:3, 3], T[:3, 0], T[:3, 1])]
    return f'pos="{numbers[0]}" xyaxes="{numbers[1]} {numbers[2]}"'


def toolbox_method(arm: Arm, dt: float) -> Move:
    """Resolved rate with Robotics Toolbox:  q̇ = pinv(jacob0(q)) @ v,  no limits."""
    import roboticstoolbox as rtb

    ets = rtb.ETS()
    for T in arm.placements[:-1]:
        ets = ets * rtb.ET.SE3(T) * rtb.ET.Rz()
    ets = ets * rtb.ET.SE3(arm.placements[-1])

    def move(q: Array, twist: Array, pose: Array) -> Array:
        v = asked(ets.fkine(q).A, twist, pose)
        return np.asarray(q + dt * np.linalg.pinv(ets.jacob0(q)) @ v)

    return move


# name -> its maker, the packages whose versions are reported, and a description
PEERS: dict[str, tuple[Callable[[Arm, float], Move], tuple[str, ...], str]] = {
    "Pink": (
        partial(pink_method, same=False),
        ("pin-pink", "pin", "qpsolvers", SOLVER),
        "FrameTask (costs 1, lm_damping 1) and PostureTask (1e-3), as in its example of an arm",
    ),
    "Pink, same law": (
        partial(pink_method, same=True),
        ("pin-pink",),
        "a task whose velocity is what a Servo is asked",
    ),
    "mink": (
        partial(mink_method, same=False),
        ("mink", "mujoco", "qpsolvers", SOLVER),
        "the same tasks and costs as Pink",
    ),
    "mink, same law": (
        partial(mink_method, same=True),
        ("mink",),
        "a task whose velocity is what a Servo is asked",
    ),
    "Robotics Toolbox": (
        toolbox_method,
        ("roboticstoolbox-python",),
        "resolved rate, pinv(jacob0) @ v; no limits",
    ),
}


def run(make: Callable[[Arm, float], Move], arm: Arm, commands: dict[str, Array]) -> Array:
    """Return joint angles (K + 1, n) of a method through a passage; constant after a failure."""
    dt, twists, poses = float(commands["dt"]), commands["twists"], commands["poses"]
    move = make(arm, dt)
    q = np.repeat(commands["q0"][None], len(poses), axis=0)
    for k, twist in enumerate(twists):
        q[k + 1] = move(q[k], twist, poses[k])
        if not np.isfinite(q[k + 1]).all():
            break
    return q


def main(commands: str, joints: str) -> None:
    """Run all methods of this environment."""
    given: dict[str, dict[str, Array]] = {}
    with np.load(commands) as arrays:
        for key in arrays.files:
            place, name = key.split("/")
            given.setdefault(place, {})[name] = arrays[key]
    arms = {k: Arm(**v) for k, v in given.items() if " " not in k}
    results: dict[str, Any] = {}
    for name, (make, packages, about) in PEERS.items():
        try:
            versions = ", ".join(f"{each} {version(each)}" for each in packages)
            for place, each in given.items():
                if place not in arms:
                    results[f"{name}/{place}"] = run(make, arms[place.split()[0]], each)
            results[f"{name}/about"] = json.dumps(f"{about}. {versions}")
        except ImportError:
            continue  # not installed in this environment
        except Exception as error:
            results[f"{name}/missing"] = json.dumps(f"{type(error).__name__}: {error}")
    np.savez(joints, **results)


if __name__ == "__main__":
    main(*sys.argv[1:])
