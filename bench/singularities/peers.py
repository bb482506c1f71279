"""Run other libraries through the passages, each in its own environment.

    python bench/singularities/peers.py COMMANDS.npz JOINTS.npz [SETTINGS.json]

This file needs only NumPy and the library: supple is not installed in those environments. COMMANDS
contains, for each robot, the placements and limits of the joints that move its end effector (each
rotates about or slides along its z axis) and, for each passage, q0, poses and twists. The joint
angles of every method whose library is installed are written to JOINTS. SETTINGS replaces the
methods by tuned ones: for each library and robot, the settings to run, as lists of the fields of
`Settings`.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Move = Callable[[Array, Array, Array], Array]

GAIN = 10.0  # [1/s], the same for all libraries
SOLVER = "daqp"


class Arm(NamedTuple):
    """A robot as numbers: the poses of its joints and end effector, each in the previous one.

    `slides` is a mask of the prismatic joints; `rows` is 6 for poses and 3 for positions.
    """

    placements: Array
    lower: Array
    upper: Array
    max_speed: Array
    slides: Array
    rows: Array


class Settings(NamedTuple):
    """Settings of Pink and mink: of the task, the regularization and the limits."""

    gain: float = 1.0  # gain of the FrameTask: fraction of the error corrected per step
    lm_damping: float = 1.0  # Levenberg-Marquardt damping of the FrameTask
    damping: float = 1e-12  # Tikhonov regularization of the quadratic program
    posture: float = 1e-3  # cost of the PostureTask
    acceleration: float | Array = 0.0  # acceleration limits [rad/s²], 0 for none


EXAMPLE = Settings()  # the settings of Pink's example of an arm
# The settings that are tried for each robot. (The cost of the posture and the damping of the
# FrameTask are not varied: from 0 to the values of the example, they change the error of a UR5e
# past its wrist singularity by at most ten percent.)
GRID = tuple(
    EXAMPLE._replace(gain=gain, damping=damping)
    for gain, damping in itertools.product((0.1, 0.3, 1.0), (1e-12, 1e-4, 1e-3, 1e-2))
)


def next_pose(twist: Array, pose: Array, dt: float) -> Array:
    """Return the pose after moving with a twist, in world axes, for the time dt."""
    to = pose.copy()
    to[:3, 3] += twist[:3] * dt
    angle = float(np.linalg.norm(twist[3:] * dt))
    if angle > 0:
        x, y, z = twist[3:] * dt / angle
        K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
        to[:3, :3] = (np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K) @ pose[:3, :3]
    return to


def asked(T: Array, twist: Array, pose: Array) -> Array:
    """Return a Servo's command (6,): twist + GAIN (pose - T); rotations must be below 180°."""
    R = pose[:3, :3] @ T[:3, :3].T
    w = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]]) / 2
    sine = float(np.linalg.norm(w))
    if sine > 0:
        w = w * np.arctan2(sine, (np.trace(R) - 1) / 2) / sine
    return np.asarray(twist + GAIN * np.append(pose[:3, 3] - T[:3, 3], w))


def pink_method(arm: Arm, dt: float, *, same: bool, how: Settings = EXAMPLE) -> Move:
    """Return Pink with a FrameTask as in its arm example, or with the other methods' command."""
    import pink
    import pinocchio as pin

    model, parent = pin.Model(), 0
    for i, T in enumerate(arm.placements[:-1]):
        ends = [np.array([each[i]]) for each in (arm.max_speed, arm.lower, arm.upper)]
        joint = model.addJoint(
            parent,
            pin.JointModelPZ() if arm.slides[i] else pin.JointModelRZ(),
            pin.SE3(T),
            f"joint{i}",
            np.array([1e9]),
            *ends,
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
            "tip",
            position_cost=1.0,
            orientation_cost=1.0 if arm.rows == 6 else 0.0,
            lm_damping=how.lm_damping,
            gain=how.gain,
        )
        rest = pink.tasks.PostureTask(cost=how.posture) if how.posture else None
    limits, speeds_up = None, None
    if np.any(how.acceleration):
        speeds_up = pink.limits.AccelerationLimit(model, np.full(model.nv, how.acceleration))
        limits = [model.configuration_limit, model.velocity_limit, speeds_up]
        speeds_up.set_last_integration(np.zeros(model.nv), dt)

    def move(q: Array, twist: Array, pose: Array) -> Array:
        configuration.update(q)
        if same:
            T = configuration.get_transform_frame_to_world("tip").homogeneous
            follow.error = -dt * asked(T, twist, pose)
        else:
            follow.set_target(pin.SE3(next_pose(twist, pose, dt)))
            if rest is not None and rest.target_q is None:
                rest.set_target(q)
        tasks = [follow] if rest is None else [follow, rest]
        v = pink.solve_ik(
            configuration,
            tasks,
            dt,
            SOLVER,
            damping=how.damping,
            limits=limits,
            safety_break=False,
        )
        if speeds_up is not None:
            speeds_up.set_last_integration(v, dt)
        return np.asarray(q + v * dt)

    return move


def mink_method(arm: Arm, dt: float, *, same: bool, how: Settings = EXAMPLE) -> Move:
    """Return mink with the tasks and costs of Pink's example, or the other methods' command."""
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
        turns = 1.0 if arm.rows == 6 else 0.0
        follow = mink.FrameTask("tip", "site", 1.0, turns, gain=how.gain, lm_damping=how.lm_damping)
        rest = mink.PostureTask(model, cost=how.posture) if how.posture else None

    def move(q: Array, twist: Array, pose: Array) -> Array:
        configuration.update(q)
        if same:
            T = np.eye(4)
            T[:3, :3], T[:3, 3] = data.site_xmat[tip].reshape(3, 3), data.site_xpos[tip]
            follow.error = -dt * asked(T, twist, pose)
        else:
            follow.set_target(mink.SE3.from_matrix(next_pose(twist, pose, dt)))
            if rest is not None and rest.target_q is None:
                rest.set_target(q)
        tasks = [follow] if rest is None else [follow, rest]
        v = mink.solve_ik(configuration, tasks, dt, SOLVER, damping=how.damping, limits=limits)
        return np.asarray(q + v * dt)

    return move


def mjcf(arm: Arm) -> str:
    """Return the arm as MJCF."""
    text = ""
    for i, T in reversed(list(enumerate(arm.placements[:-1]))):
        known = np.isfinite(arm.upper[i])
        ends = f"{float(arm.lower[i])!r} {float(arm.upper[i])!r}" if known else "0 0"
        text = (
            f'<body {where(T)}><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
            f'<joint name="joint{i}" type="{"slide" if arm.slides[i] else "hinge"}" axis="0 0 1" '
            f'limited="{str(bool(np.isfinite(arm.upper[i]))).lower()}" range="{ends}"/>'
            + (text or f'<site name="tip" {where(arm.placements[-1])}/>')
            + "</body>"
        )
    return f'<mujoco><compiler angle="radian"/><worldbody>{text}</worldbody></mujoco>'


def where(T: Array) -> str:
    """Return a pose (4, 4) as the MJCF attributes pos and xyaxes."""
    numbers = [" ".join(f"{x:.17g}" for x in each) for each in (T[:3, 3], T[:3, 0], T[:3, 1])]
    return f'pos="{numbers[0]}" xyaxes="{numbers[1]} {numbers[2]}"'


def toolbox_method(arm: Arm, dt: float) -> Move:
    """Return resolved rate control with Robotics Toolbox: q̇ = pinv(jacob0(q)) @ v, no limits."""
    import roboticstoolbox as rtb

    ets = rtb.ETS()
    for T, slides in zip(arm.placements[:-1], arm.slides, strict=True):
        ets = ets * rtb.ET.SE3(T) * (rtb.ET.tz() if slides else rtb.ET.Rz())
    ets = ets * rtb.ET.SE3(arm.placements[-1])

    def move(q: Array, twist: Array, pose: Array) -> Array:
        v = asked(ets.fkine(q).A, twist, pose)
        return np.asarray(q + dt * np.linalg.pinv(ets.jacob0(q)) @ v)

    return move


# Name -> function that makes the method, packages whose versions are reported, and a description.
PEERS: dict[str, tuple[Callable[[Arm, float], Move], tuple[str, ...], str]] = {
    "Pink": (
        partial(pink_method, same=False),
        ("pin-pink", "pin", "qpsolvers", SOLVER),
        "FrameTask (costs 1, lm_damping 1) and PostureTask (1e-3), as in its example of an arm",
    ),
    "Pink, same law": (
        partial(pink_method, same=True),
        ("pin-pink",),
        "a task with the velocity that is commanded to a Servo",
    ),
    "mink": (
        partial(mink_method, same=False),
        ("mink", "mujoco", "qpsolvers", SOLVER),
        "the same tasks and costs as Pink",
    ),
    "mink, same law": (
        partial(mink_method, same=True),
        ("mink",),
        "a task with the velocity that is commanded to a Servo",
    ),
    "Robotics Toolbox": (
        toolbox_method,
        ("roboticstoolbox-python",),
        "resolved rate, pinv(jacob0) @ v; no limits",
    ),
}


def run(make: Callable[[Arm, float], Move], arm: Arm, commands: dict[str, Array]) -> Array:
    """Return a method's joint angles (K + 1, n) in a passage; the run stops at the first NaN."""
    dt, twists, poses = float(commands["dt"]), commands["twists"], commands["poses"]
    delay, noise = int(commands["delay"]), commands["noise"]
    move = make(arm, dt)
    q = np.repeat(commands["q0"][None], len(poses), axis=0)
    for k, twist in enumerate(twists):
        seen = q[max(k - delay, 0)] + noise[k]
        then = move(seen, twist, poses[k])
        q[k + 1] = then if delay == 0 and not noise[k].any() else q[k] + (then - seen)
        if not np.isfinite(q[k + 1]).all():
            break
    return q


TUNED = {"Pink": pink_method, "mink": mink_method}
Job = tuple[str, int, list[float], str, Arm, dict[str, Array]]


def tuned_run(job: Job) -> tuple[str, Array]:
    """Run a library with given settings through a passage; return the key and the joint angles."""
    name, number, how, place, arm, commands = job
    make = partial(TUNED[name], same=False, how=Settings(*how))
    try:
        return f"{name}#{number}/{place}", run(make, arm, commands)
    except Exception:  # the quadratic program has no solution with these settings
        return f"{name}#{number}/{place}", np.full((len(commands["poses"]), len(arm.lower)), np.nan)


def tuned(
    chosen: dict[str, dict[str, list[list[float]]]],
    arms: dict[str, Arm],
    given: dict[str, dict[str, Array]],
) -> dict[str, Array]:
    """Return the joint angles of each library with the settings chosen for each robot."""
    jobs: list[Job] = []
    for name, robots in chosen.items():
        for place, commands in given.items():
            if place not in arms:
                robot = place.split()[0]
                jobs += [
                    (name, i, how, place, arms[robot], commands)
                    for i, how in enumerate(robots[robot])
                ]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return dict(pool.map(tuned_run, jobs, chunksize=4))


def main(commands: str, joints: str, settings: str | None = None) -> None:
    """Run all methods of this environment, or the tuned methods if settings are given."""
    given: dict[str, dict[str, Array]] = {}
    with np.load(commands) as arrays:
        for key in arrays.files:
            place, name = key.split("/")
            given.setdefault(place, {})[name] = arrays[key]
    arms = {k: Arm(**v) for k, v in given.items() if " " not in k}
    results: dict[str, Any] = {}
    if settings is not None:
        results = dict(tuned(json.loads(Path(settings).read_text()), arms, given))
        np.savez(joints, **results)
        return
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
