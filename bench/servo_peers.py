"""One servo step of each library, in a process that times itself on request.

    python bench/servo_peers.py CONTENDER FILE.urdf SITUATIONS.npz

Libraries cannot share an environment (placo pins an older Pinocchio), so each contender runs in its
own process and `servo.py` lets them take turns: each line of the standard input is a request, and
is answered by a line of JSON on the standard output.

    {"ask": "about"}                   -> a description, or the reason why it cannot run
    {"ask": "time", "in": SITUATION}   -> nanoseconds per step
    {"ask": "moves", "in": SITUATION}  -> the next q of each step
"""

from __future__ import annotations

import json
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

import measure

Array = NDArray[np.float64]

DT = 1e-3  # length of a step [s]
MAX_SPEED = 1.5  # [rad/s], Δ of the optimal damping
LAMBDA2 = 1e-8  # constant damping, so small that q̇ is nearly that of the pseudoinverse
FRAME = "panda_hand"
INPUTS = ("q", "twist", "target")  # (count, 7), (count, 6), (count, 4, 4)
ROUND = 0.02  # approximate duration of one round of measurements [s]


@dataclass(frozen=True)
class Contender:
    """A servo step of one library; constant data is prepared outside of `step`.

    Attributes:
        step: (q (7,), command) -> next q (7,).
        command: Function that converts a twist (6,) and a target pose (4, 4) to the command of
            `step`; not timed.
        packages: Packages whose versions are reported.
        note: Settings that differ from the library's defaults, and the reasons.
    """

    step: Callable[[Array, Any], Array]
    command: Callable[[Array, Array], Any]
    packages: tuple[str, ...]
    note: str = ""


# (step, command) -> nanoseconds per step
Timing = Callable[[Callable[[Array, Any], Array], Callable[[Array, Array], Any]], float]


def twist_alone(twist: Array, target: Array) -> Array:
    """Return the twist, for libraries that take a twist."""
    return twist


def minus_displacement(twist: Array, target: Array) -> Array:
    """Return the error of a pose, for libraries that drive an error to zero."""
    return -DT * twist


def pose_alone(made: Callable[[Array], Any], twist: Array, target: Array) -> Any:
    """Return the pose, converted by `made`, for libraries that take a pose."""
    return made(target)


def supple_servo(urdf: str, time_of: Timing) -> Contender:
    """Return supple's Servo: optimal damping with bound Δ, position and speed limits."""
    import supple

    if not hasattr(supple, "Servo"):
        raise ImportError("this version of supple has no Servo")
    robot = supple.urdf(urdf)
    servo = supple.Servo(
        robot,
        FRAME,
        step=supple.DLS(supple.damping.Optimal(max_speed=MAX_SPEED)),
        dt=DT,
        limits=supple.Limits.for_robot(robot),
    )
    return Contender(servo, twist_alone, ("supple",))


def pinocchio_numpy(urdf: str, time_of: Timing) -> Contender:
    """Return a step with Pinocchio's Jacobian and damped least squares in NumPy, no limits."""
    import pinocchio as pin

    model = pin.buildModelFromUrdf(urdf)
    data, frame, axes = model.createData(), model.getFrameId(FRAME), pin.LOCAL_WORLD_ALIGNED
    damping, solve, jacobian = LAMBDA2 * np.eye(6), np.linalg.solve, pin.computeFrameJacobian

    def step(q: Array, twist: Array) -> Array:
        J = jacobian(model, data, q, frame, axes)
        moved: Array = q + J.T @ solve(J @ J.T + damping, twist) * DT
        return moved

    return Contender(step, twist_alone, ("pin",))


def pink(urdf: str, time_of: Timing, *, frame_task: bool = False) -> Contender:
    """Return Pink's step with minimal tasks, or with a FrameTask as in its documentation."""
    import pink
    import pinocchio as pin

    model = pin.buildModelFromUrdf(urdf)
    configuration = pink.Configuration(model, model.createData(), pin.neutral(model))
    frame, axes = model.getFrameId(FRAME), pin.LOCAL_WORLD_ALIGNED
    limits = [model.configuration_limit, model.velocity_limit]

    class TwistTask(pink.tasks.Task):
        def set_target(self, error: Array) -> None:
            self.error = error

        def compute_error(self, configuration: Any) -> Array:
            return self.error

        def compute_jacobian(self, configuration: Any) -> Array:
            return pin.getFrameJacobian(model, configuration.data, frame, axes)

        def __repr__(self) -> str:
            return "TwistTask()"

    packages = ("pin-pink", "pin")
    if frame_task:
        task = pink.tasks.FrameTask(FRAME, position_cost=1.0, orientation_cost=1.0)
        command = partial(pose_alone, pin.SE3)
    else:
        task, command = TwistTask(), minus_displacement
    return quadratic(pink, configuration, task, limits, command, time_of, packages)


def mink(urdf: str, time_of: Timing, *, frame_task: bool = False) -> Contender:
    """Return mink's step with minimal tasks, or with a FrameTask as in its documentation."""
    import mink
    import mujoco

    model = mujoco.MjModel.from_xml_path(urdf)
    configuration = mink.Configuration(model)
    limits = [mink.ConfigurationLimit(model), mink.VelocityLimit(model, joint_speeds(urdf))]
    data, body, J = configuration.data, model.body(FRAME).id, np.zeros((6, model.nv))

    class TwistTask(mink.Task):
        def set_target(self, error: Array) -> None:
            self.error = error

        def compute_error(self, configuration: Any) -> Array:
            return self.error

        def compute_jacobian(self, configuration: Any) -> Array:
            mujoco.mj_jacBody(model, data, J[:3], J[3:], body)
            return J

    packages = ("mink", "mujoco")
    if frame_task:
        task = mink.FrameTask(FRAME, "body", position_cost=1.0, orientation_cost=1.0)
        command = partial(pose_alone, mink.SE3.from_matrix)
    else:
        task, command = TwistTask(cost=np.ones(6)), minus_displacement
    return quadratic(mink, configuration, task, limits, command, time_of, packages)


def joint_speeds(urdf: str) -> dict[str, float]:
    """Return the joints' speed limits [rad/s] from the URDF; MuJoCo does not read such limits."""
    return {
        joint.get("name"): float(joint.find("limit").get("velocity"))
        for joint in ET.parse(urdf).getroot().iter("joint")
        if joint.get("type") == "revolute"
    }


def quadratic(
    library: Any,
    configuration: Any,
    task: Any,
    limits: list[Any],
    command: Callable[[Array, Array], Any],
    time_of: Timing,
    packages: tuple[str, ...],
) -> Contender:
    """Return the step of Pink or mink with the fastest installed QP solver."""
    import qpsolvers

    solve_ik, tasks = library.solve_ik, [task]

    def with_solver(solver: str) -> Callable[[Array, Any], Array]:
        def step(q: Array, given: Any) -> Array:
            configuration.update(q)
            task.set_target(given)
            v = solve_ik(configuration, tasks, DT, solver, damping=LAMBDA2, limits=limits)
            moved: Array = q + v * DT
            return moved

        return step

    solvers = {s: partial(time_of, with_solver(s), command) for s in qpsolvers.available_solvers}
    took = measure.medians(measure.interleaved(solvers, 5))
    ordered = sorted(took, key=lambda solver: took[solver])
    note = "QP solvers: " + ", ".join(f"{name} {took[name] / 1e3:.0f} µs" for name in ordered)
    return Contender(with_solver(ordered[0]), command, (*packages, "qpsolvers"), note)


def placo(urdf: str, time_of: Timing) -> Contender:
    """Return placo's step: a frame task with a target pose, position and speed limits."""
    import placo

    robot = placo.RobotWrapper(urdf, placo.Flags.ignore_collisions)
    solver = placo.KinematicsSolver(robot)
    solver.mask_fbase(True)
    solver.dt = DT
    solver.enable_joint_limits(True)
    solver.enable_velocity_limits(True)
    task = solver.add_frame_task(FRAME, np.eye(4))
    task.configure(FRAME, "soft", 1.0, 1.0)
    solver.add_regularization_task(LAMBDA2)
    whole = np.array(robot.state.q)  # a floating base comes first
    state = robot.state

    def step(q: Array, target: Array) -> Array:
        whole[7:] = q
        state.q = whole
        robot.update_kinematics()
        task.T_world_frame = target
        moved: Array = q + solver.solve(False)[6:]
        return moved

    return Contender(step, partial(pose_alone, np.array), ("placo", "pin"))


CONTENDERS: dict[str, Callable[[str, Timing], Contender]] = {
    "supple": supple_servo,
    "Pinocchio + NumPy": pinocchio_numpy,
    "Pink": pink,
    "Pink, FrameTask": partial(pink, frame_task=True),
    "mink": mink,
    "mink, FrameTask": partial(mink, frame_task=True),
    "placo": placo,
}


def per_step(
    step: Callable[[Array, Any], Array], pairs: Iterable[tuple[Array, Any]], repeat: int
) -> float:
    """Return the processor time per step [ns], averaged over `repeat` passes over a sequence."""
    pairs = list(pairs)
    for q, given in pairs:  # unmeasured work after a pause
        step(q, given)
    start = time.process_time()  # processor time of this process alone
    for _ in range(repeat):
        for q, given in pairs:
            step(q, given)
    return (time.process_time() - start) / (repeat * len(pairs)) * 1e9


def main(name: str, urdf: str, file: str) -> None:
    """Answer requests of the benchmark until stdin ends."""
    measure.one_core()
    with np.load(file) as arrays:
        situations = {
            key: list(zip(*(arrays[f"{key} {what}"] for what in INPUTS), strict=True))
            for key in sorted({key.split()[0] for key in arrays.files})
        }

    def pairs(key: str, command: Callable[[Array, Array], Any]) -> list[tuple[Array, Any]]:
        return [(q, command(twist, target)) for q, twist, target in situations[key]]

    try:
        contender = CONTENDERS[name](
            urdf, lambda step, command: per_step(step, pairs("regular", command), 1)
        )
    except Exception as error:
        print(json.dumps({"missing": f"{type(error).__name__}: {error}"}), flush=True)
        return
    prepared = {key: pairs(key, contender.command) for key in situations}
    once = per_step(contender.step, prepared["regular"], 1) * len(prepared["regular"])
    repeat = max(1, round(ROUND * 1e9 / once))
    for line in sys.stdin:
        question = json.loads(line)
        answer: object
        if question["ask"] == "about":
            versions = {package: version(package) for package in contender.packages}
            answer = {"note": contender.note, "versions": versions}
        elif question["ask"] == "time":
            answer = per_step(contender.step, prepared[question["in"]], repeat)
        else:
            moves = (contender.step(q, given) for q, given in prepared[question["in"]])
            answer = [np.array(q).tolist() for q in moves]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
