"""A whole-body control loop of each library, in a process that times itself on request.

    python bench/whole_body_peers.py CONTENDER FILE.urdf MOTION.npz

The robot has a floating base. Two hands follow curves, the feet and the center of mass stay where
they are, and a weak task holds the posture, within the limits of positions and speeds. Weights are
the same for all libraries and multiply rows of J and e. Each library moves its own robot.
`whole_body.py` asks:

    {"ask": "about"}  -> a description, or the reason why it cannot run
    {"ask": "time"}   -> median nanoseconds of a step in one pass over the motion
    {"ask": "tail"}   -> 99th percentile of the nanoseconds of a step, each the shortest of 3 passes
    {"ask": "moves"}  -> the configuration after each step: position and quaternion (w, x, y, z) of
                         the base, then the joints by name
"""

from __future__ import annotations

import json
import statistics
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

import measure

Array = NDArray[np.float64]

DT = 0.005  # length of a step [s]
HAND, FOOT, CENTER, POSTURE = 1.0, 100.0, 10.0, 0.02  # weights of rows
DAMPING = 1e-9


@dataclass(frozen=True)
class Motion:
    """The commands of a motion.

    Attributes:
        hands, feet: Names of the frames.
        targets: Poses of the hands in each step (steps, 2, 4, 4).
        stands: Poses of the feet (2, 4, 4).
        center: Position of the center of mass (3,).
        joints: Names of the joints.
        q: The first configuration: position and quaternion (w, x, y, z) of the base, joints (n,).
    """

    hands: list[str]
    feet: list[str]
    targets: Array
    stands: Array
    center: Array
    joints: list[str]
    q: Array


@dataclass(frozen=True)
class Contender:
    """A control loop of one library.

    Attributes:
        reset: Function that returns to the first configuration.
        step: Function that takes a step toward poses of the hands, as made by `command`.
        command: Function that converts the poses of both hands (2, 4, 4); not timed.
        q: Function that returns the configuration, as in `Motion.q`.
        packages: Packages whose versions are reported.
        note: Settings that differ from the library's defaults.
    """

    reset: Callable[[], None]
    step: Callable[[Any], object]
    command: Callable[[Array], Any]
    q: Callable[[], Array]
    packages: tuple[str, ...]
    note: str = ""


def supple_servo(urdf: str, motion: Motion) -> Contender:
    """Return supple's Servo with its default step, which reaches targets in one step."""
    import supple as sp

    robot = sp.urdf(urdf)
    tasks = [
        *(sp.PoseTask(frame, weight=HAND) for frame in motion.hands),
        *(sp.PoseTask(frame, weight=FOOT) for frame in motion.feet),
        sp.tasks.CenterOfMassTask(("x", "y"), weight=CENTER),
        sp.PostureTask(weight=POSTURE),
    ]
    servo = sp.Servo(robot, tasks, dt=DT, limits=sp.Limits.for_robot(robot), gain=1 / DT)
    start = robot.neutral()
    start[:7] = motion.q[:7]
    places = [robot.position_names.index(name) for name in motion.joints]
    start[places] = motion.q[7:]
    q = start.copy()

    def reset() -> None:
        q[:] = start
        servo.reset()

    def command(hands: Array) -> Any:
        return [*hands, *motion.stands, motion.center, start]

    return Contender(
        reset,
        lambda target: servo(q, target=target, out=q),
        command,
        lambda: np.concatenate([q[:7], q[places]]),
        ("supple",),
        "gain 1/dt: targets are reached in one step.",
    )


def placo(urdf: str, motion: Motion, *, feet: str = "soft") -> Contender:
    """Return placo's solver, with feet as soft tasks or as constraints."""
    import placo

    robot = placo.RobotWrapper(urdf, placo.Flags.ignore_collisions)
    solver = placo.KinematicsSolver(robot)
    solver.dt = DT
    solver.enable_joint_limits(True)
    solver.enable_velocity_limits(True)
    robot.set_T_world_frame("pelvis", base_pose(motion.q))
    for name, angle in zip(motion.joints, motion.q[7:], strict=True):
        robot.set_joint(name, angle)
    robot.update_kinematics()
    start = np.array(robot.state.q)
    hands = [solver.add_frame_task(name, np.eye(4)) for name in motion.hands]
    for name, task in zip(motion.hands, hands, strict=True):  # placo's weights multiply squares
        task.configure(name, "soft", HAND**2, HAND**2)
    for name, pose in zip(motion.feet, motion.stands, strict=True):
        solver.add_frame_task(name, pose).configure(name, feet, FOOT**2, FOOT**2)
    center = solver.add_com_task(motion.center)
    center.mask.set_axises("xy")
    center.configure("com", "soft", CENTER**2)
    posture = solver.add_joints_task()
    posture.set_joints(dict(zip(motion.joints, motion.q[7:].tolist(), strict=True)))
    posture.configure("posture", "soft", POSTURE**2)
    solver.add_regularization_task(DAMPING)

    def reset() -> None:
        robot.state.q = start
        robot.update_kinematics()

    def step(targets: list[Array]) -> None:
        hands[0].T_world_frame = targets[0]
        hands[1].T_world_frame = targets[1]
        solver.solve(True)
        robot.update_kinematics()

    def configuration() -> Array:
        q = np.array(robot.state.q)
        joints = [robot.get_joint(name) for name in motion.joints]
        return np.array([*q[:3], q[6], *q[3:6], *joints])

    note = f"Feet: {feet}."
    return Contender(reset, step, list, configuration, ("placo", "pin"), note)


def pink(urdf: str, motion: Motion) -> Contender:
    """Return Pink's solve_ik with the fastest installed QP solver."""
    import pink
    import pinocchio as pin

    model = pin.buildModelFromUrdf(urdf)
    data = model.createData()
    start = pin.neutral(model)
    start[:7] = [*motion.q[:3], *motion.q[4:7], motion.q[3]]
    places = [model.joints[model.getJointId(name)].idx_q for name in motion.joints]
    start[places] = motion.q[7:]
    configuration = pink.Configuration(model, data, start)
    hands = [pink.tasks.FrameTask(name, HAND, HAND) for name in motion.hands]
    feet = [pink.tasks.FrameTask(name, FOOT, FOOT) for name in motion.feet]
    for task, pose in zip(feet, motion.stands, strict=True):
        task.set_target(pin.SE3(pose))
    center = pink.tasks.ComTask(np.array([CENTER, CENTER, 1e-9]))
    center.set_target(motion.center)
    posture = pink.tasks.PostureTask(POSTURE)
    posture.set_target(start)
    tasks = [*hands, *feet, center, posture]
    limits = [configuration.model.configuration_limit, configuration.model.velocity_limit]

    def reset() -> None:
        configuration.update(start)

    def step(solver: str, targets: list[Any]) -> None:
        hands[0].set_target(targets[0])
        hands[1].set_target(targets[1])
        v = pink.solve_ik(configuration, tasks, DT, solver, damping=DAMPING, limits=limits)
        configuration.integrate_inplace(v, DT)

    def now() -> Array:
        q = configuration.q
        return np.array([*q[:3], q[6], *q[3:6], *q[places]])

    def command(poses: Array) -> list[Any]:
        return [pin.SE3(pose) for pose in poses]

    return fastest(reset, step, command, now, motion, ("pin-pink", "pin", "qpsolvers"))


def mink(urdf: str, motion: Motion) -> Contender:
    """Return mink's solve_ik with the fastest installed QP solver."""
    import mink
    import mujoco

    model = mujoco.MjModel.from_xml_path(urdf)
    configuration = mink.Configuration(model)
    start = np.zeros(model.nq)
    start[:7] = motion.q[:7]
    places = [model.joint(name).qposadr[0] for name in motion.joints]
    start[places] = motion.q[7:]
    configuration.update(start)
    made = partial(mink.FrameTask, frame_type="body")
    hands = [made(name, position_cost=HAND, orientation_cost=HAND) for name in motion.hands]
    feet = [made(name, position_cost=FOOT, orientation_cost=FOOT) for name in motion.feet]
    for task, pose in zip(feet, motion.stands, strict=True):
        task.set_target(mink.SE3.from_matrix(pose))
    center = mink.ComTask([CENTER, CENTER, 0.0])
    center.set_target(motion.center)
    posture = mink.PostureTask(model, POSTURE)
    posture.set_target(start)
    tasks = [*hands, *feet, center, posture]
    speeds = {
        joint.get("name"): float(joint.find("limit").get("velocity"))
        for joint in ET.parse(urdf).getroot().iter("joint")
        if joint.get("name") in motion.joints
    }
    limits = [mink.ConfigurationLimit(model), mink.VelocityLimit(model, speeds)]

    def reset() -> None:
        configuration.update(start)

    def step(solver: str, targets: list[Any]) -> None:
        hands[0].set_target(targets[0])
        hands[1].set_target(targets[1])
        v = mink.solve_ik(configuration, tasks, DT, solver, damping=DAMPING, limits=limits)
        configuration.integrate_inplace(v, DT)

    def now() -> Array:
        return np.array([*configuration.q[:7], *configuration.q[places]])

    def command(poses: Array) -> list[Any]:
        return [mink.SE3.from_matrix(pose) for pose in poses]

    return fastest(reset, step, command, now, motion, ("mink", "mujoco", "qpsolvers"))


def base_pose(q: Array) -> Array:
    """Return the pose (4, 4) of the base at a configuration, as in `Motion.q`."""
    w, x, y, z = q[3:7]
    T = np.eye(4)
    T[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    T[:3, 3] = q[:3]
    return T


def fastest(
    reset: Callable[[], None],
    step: Callable[[str, Any], None],
    command: Callable[[Array], Any],
    now: Callable[[], Array],
    motion: Motion,
    packages: tuple[str, ...],
) -> Contender:
    """Return the control loop with the fastest installed QP solver that solves the motion."""
    import qpsolvers

    took = {}
    for solver in qpsolvers.available_solvers:
        one = Contender(reset, partial(step, solver), command, now, packages)
        try:
            took[solver] = median_time(one, motion, 40)
        except Exception:
            continue
    ordered = sorted(took, key=lambda solver: took[solver])
    note = "QP solvers: " + ", ".join(f"{name} {took[name] / 1e3:.0f} µs" for name in ordered) + "."
    return Contender(reset, partial(step, ordered[0]), command, now, packages, note)


def median_time(contender: Contender, motion: Motion, steps: int | None = None) -> float:
    """Return the median time of a step [ns] in one pass over the motion."""
    return statistics.median(step_times(contender, motion, steps))


def step_times(contender: Contender, motion: Motion, steps: int | None = None) -> list[int]:
    """Return the times of the steps [ns] in one pass over the motion."""
    commands = [contender.command(poses) for poses in motion.targets[:steps]]
    contender.reset()
    times = []
    for given in commands:
        begin = time.perf_counter_ns()
        contender.step(given)
        times.append(time.perf_counter_ns() - begin)
    return times


CONTENDERS: dict[str, Callable[[str, Motion], Contender]] = {
    "supple": supple_servo,
    "placo": placo,
    "placo, feet as constraints": partial(placo, feet="hard"),
    "Pink": pink,
    "mink": mink,
}


def main(name: str, urdf: str, file: str) -> None:
    """Answer requests of the benchmark until stdin ends."""
    measure.one_core()
    with np.load(file) as arrays:
        given = {key: arrays[key] for key in arrays.files}
    names = {key: given.pop(key).tolist() for key in ("hands", "feet", "joints")}
    motion = Motion(**names, **given)
    try:
        contender = CONTENDERS[name](urdf, motion)
        median_time(contender, motion, 3)
    except Exception as error:
        print(json.dumps({"missing": f"{type(error).__name__}: {error}"}), flush=True)
        return
    for line in sys.stdin:
        question = json.loads(line)["ask"]
        answer: object
        if question == "about":
            versions = {package: version(package) for package in contender.packages}
            answer = {"note": contender.note, "versions": versions}
        elif question == "time":
            answer = median_time(contender, motion)
        elif question == "tail":
            passes = [step_times(contender, motion) for _ in range(3)]
            answer = float(np.percentile(np.min(passes, axis=0), 99))
        else:
            contender.reset()
            moves = []
            for poses in motion.targets:
                contender.step(contender.command(poses))
                moves.append(contender.q().tolist())
            answer = moves
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
