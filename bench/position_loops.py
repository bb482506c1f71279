"""Position IK by libraries that compute single steps: the steps are iterated and restarted.

The iteration from a seed ends when it converges, stalls, or has taken ITERATIONS steps; then
another random seed follows. If no seed converges, the result is the closest pose.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from position_problem import Answer, Array, Contender, Gate, Maker, Problem

STARTS = 20
ITERATIONS = 25  # maximum number of iterations from one seed
STILL = 1e-6  # length of a step below which the search has stalled [rad or m]
DAMPING = 1e-8  # constant part of λ²
LM_DAMPING = 1e-2  # factor of the squared error in λ²

# q (n,) -> errors of all frames (k, 6), position first [m, rad], and a function that returns the
# next q
Step = Callable[[Array], tuple[Array, Callable[[], Array]]]


def descend(problem: Problem, gate: Gate, step: Step, start: Array | None) -> Answer:
    """Return the solution from the first start that converges, or the closest pose."""
    best, least = problem.seed, np.inf
    rng = np.random.default_rng(0)
    q = problem.seed if start is None else start
    for _ in range(STARTS):
        for _ in range(ITERATIONS):
            errors, following = step(q)
            position = np.sqrt((errors[:, :3] ** 2).sum(axis=1)).max()
            rotation = np.sqrt((errors[:, 3:] ** 2).sum(axis=1)).max()
            if position <= gate[0] and rotation <= gate[1]:
                return q, True
            moved = following()
            still = np.abs(moved - q).max() < STILL
            q = moved
            if still:
                break
        if position + rotation < least:
            best, least = q, position + rotation
        q = rng.uniform(problem.lower, problem.upper)
    return best, False


def contender(
    problem: Problem,
    gate: Gate,
    step_to: Callable[[Any], Step],
    packages: tuple[str, ...],
    prepare: Callable[[Array], Any],
    note: str = "",
) -> Contender:
    """Return a contender that iterates the function `step_to(target)`."""

    def pose(target: Any, start: Array | None) -> Answer:
        return descend(problem, gate, step_to(target), start)

    note = f"{note}{ITERATIONS} steps a start, {STARTS} starts."
    return Contender(pose, packages, prepare, note)


def each(T: Array) -> Array:
    """Return one pose, or those of several frames, as an array (k, 4, 4)."""
    return T.reshape(-1, 4, 4)


def order(theirs: list[str], ours: tuple[str, ...]) -> Array:
    """Return the index of each of our degrees of freedom in the other library."""
    return np.array([theirs.index(name) for name in ours])


def pinocchio_loop(problem: Problem, gate: Gate) -> Contender:
    """Return a loop with Pinocchio's kinematics and DLS in NumPy, clipped to the limits."""
    import pinocchio as pin

    model = pin.buildModelFromUrdf(problem.urdf)
    data, frame = model.createData(), model.getFrameId(problem.frames[0])
    problem.chain()
    lower, upper, eye = problem.lower, problem.upper, np.eye(6)

    def step_to(target: Any) -> Step:
        def step(q: Array) -> tuple[Array, Callable[[], Array]]:
            pin.framesForwardKinematics(model, data, q)
            error = pin.log6(data.oMf[frame].actInv(target)).vector

            def following() -> Array:
                J = pin.computeFrameJacobian(model, data, q, frame, pin.LOCAL)
                damping = LM_DAMPING * (error @ error) + DAMPING
                dq = J.T @ np.linalg.solve(J @ J.T + damping * eye, error)
                return np.minimum(np.maximum(q + dq, lower), upper)

            return error[None], following

        return step

    return contender(problem, gate, step_to, ("pin",), pin.SE3, "DLS in NumPy. ")


def quadratic_solver() -> str:
    """Return the fastest installed QP solver of bench/servo.py."""
    import qpsolvers

    return next(name for name in ("quadprog", "daqp") if name in qpsolvers.available_solvers)


def velocity_loop(
    problem: Problem, configuration: Any, tasks: list[Any], index: Any, velocity: Callable[[], Any]
) -> Callable[[Any], Step]:
    """Return the function `step_to` for Pink or mink, which have the same interface."""
    whole = np.zeros(len(configuration.q))

    def step_to(targets: Any) -> Step:
        for task, target in zip(tasks, targets, strict=True):
            task.set_target(target)

        def step(q: Array) -> tuple[Array, Callable[[], Array]]:
            whole[index] = q
            configuration.update(whole)
            errors = np.array([task.compute_error(configuration) for task in tasks])
            return errors, lambda: np.clip(q + velocity()[index], problem.lower, problem.upper)

        return step

    return step_to


def pink(problem: Problem, gate: Gate) -> Contender:
    """Return a loop of Pink's frame tasks with Levenberg-Marquardt damping and position limits."""
    import pink
    import pinocchio as pin

    model = pin.buildModelFromUrdf(problem.urdf)
    configuration = pink.Configuration(model, model.createData(), pin.neutral(model))
    index = order([name for name in model.names if name != "universe"], problem.joints)
    costs = {"position_cost": 1.0, "orientation_cost": 1.0, "lm_damping": LM_DAMPING}
    tasks = [pink.tasks.FrameTask(frame, **costs) for frame in problem.frames]
    limits, solver = [model.configuration_limit], quadratic_solver()
    options = {"damping": DAMPING, "limits": limits}
    velocity = partial(pink.solve_ik, configuration, tasks, 1.0, solver, **options)
    step_to = velocity_loop(problem, configuration, tasks, index, velocity)

    def prepare(T: Array) -> list[Any]:
        return [pin.SE3(one) for one in each(T)]

    packages = ("pin-pink", "pin", solver)
    return contender(problem, gate, step_to, packages, prepare, f"QP solver {solver}. ")


def mink(problem: Problem, gate: Gate) -> Contender:
    """Return a loop of mink, with the same tasks as Pink and MuJoCo's kinematics."""
    import mink
    import mujoco

    model = mujoco.MjModel.from_xml_path(problem.urdf)
    configuration = mink.Configuration(model)
    index = order([model.joint(k).name for k in range(model.njnt)], problem.joints)
    costs = {"position_cost": 1.0, "orientation_cost": 1.0, "lm_damping": LM_DAMPING}
    tasks = [mink.FrameTask(frame, "body", **costs) for frame in problem.frames]
    limits, solver = [mink.ConfigurationLimit(model)], quadratic_solver()
    options = {"damping": DAMPING, "limits": limits}
    velocity = partial(mink.solve_ik, configuration, tasks, 1.0, solver, **options)
    step_to = velocity_loop(problem, configuration, tasks, index, velocity)

    def prepare(T: Array) -> list[Any]:
        return [mink.SE3.from_matrix(one) for one in each(T)]

    packages = ("mink", "mujoco", solver)
    return contender(problem, gate, step_to, packages, prepare, f"QP solver {solver}. ")


def placo(problem: Problem, gate: Gate) -> Contender:
    """Return a loop of placo's frame tasks with position limits."""
    import placo

    robot = placo.RobotWrapper(problem.urdf, placo.Flags.ignore_collisions)
    solver = placo.KinematicsSolver(robot)
    solver.mask_fbase(True)
    solver.enable_joint_limits(True)
    tasks = [solver.add_frame_task(frame, np.eye(4)) for frame in problem.frames]
    for frame, task in zip(problem.frames, tasks, strict=True):
        task.configure(frame, "soft", 1.0, 1.0)
    solver.add_regularization_task(1e-3)
    index = 7 + order(list(robot.joint_names()), problem.joints)  # a floating base comes first
    whole, state = np.array(robot.state.q), robot.state

    def step_to(targets: Any) -> Step:
        for task, target in zip(tasks, targets, strict=True):
            task.T_world_frame = target

        def step(q: Array) -> tuple[Array, Callable[[], Array]]:
            whole[index] = q
            state.q = whole
            robot.update_kinematics()
            dq = solver.solve(False)[index - 1]  # this call also updates the errors
            errors = np.zeros((len(tasks), 6))
            for row, task in zip(errors, tasks, strict=True):
                row[0], row[3] = task.position().error_norm(), task.orientation().error_norm()

            def following() -> Array:
                return np.clip(q + dq, problem.lower, problem.upper)

            return errors, following

        return step

    return contender(problem, gate, step_to, ("placo", "pin"), lambda T: list(each(T)))


CONTENDERS: dict[str, Maker] = {
    "Pinocchio loop": pinocchio_loop,
    "Pink": pink,
    "mink": mink,
    "placo": placo,
}
