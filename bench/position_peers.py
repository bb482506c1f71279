"""Position inverse kinematics by each library, as a process that times itself when asked.

    python bench/position_peers.py CONTENDER FOLDER

FOLDER holds robot.urdf, robot.npz and targets.npz, which `position.py` writes. A line on the
standard input is a question, a line of JSON on the standard output its answer.

    {"ask": "about"}  -> what it is, or why it cannot run
    {"ask": "solve", "in": SITUATION, "gate": [m, rad], "from": i, "to": k, "seconds": s,
     "clock": NAME}   -> for the targets i to k, as many as fit into the time: {"q", "claims", "ns"}
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

import measure
from position_loops import CONTENDERS as LOOPS
from position_problem import Answer, Array, Contender, Gate, Maker, Problem

TURN = 2 * np.pi
WARM_UP = 0.01  # [s] before the clock starts: this process has slept
RESTARTS = 100  # of those who restart by themselves


def supple_solve(problem: Problem, gate: Gate) -> Contender:
    """supple, at its defaults but for the gate."""
    import supple

    robot, (tip, *more) = supple.urdf(problem.urdf), problem.frames
    accuracy = {"position_tolerance": gate[0], "rotation_tolerance": gate[1]}
    solve = supple.solve
    tasks: Any = problem.frames if more else tip
    prepare: Callable[[Array], Any] = list if more else np.ascontiguousarray
    if problem.axis:
        tasks = (supple.PositionTask(tip), supple.AxisTask(tip))
        prepare = position_and_axis

    def pose(target: Any, start: Array | None) -> Answer:
        found = solve(robot, target, tasks=tasks, q0=start, **accuracy)
        return found.q, bool(found.success)

    return Contender(pose, ("supple",), prepare)


def position_and_axis(T: Array) -> list[Array]:
    """Where the origin is, and where z points."""
    return [T[:3, 3].copy(), T[:3, 2].copy()]


def robotics_toolbox(problem: Problem, gate: Gate) -> Contender:
    """Robotics Toolbox: its compiled Levenberg-Marquardt by Chan's rule, limits, restarts."""
    from roboticstoolbox import ET, ETS

    first, *rest = problem.chain()
    sequence = ETS(ET.SE3(first))
    for lower, upper, T in zip(problem.lower, problem.upper, rest, strict=True):
        sequence = sequence * ET.Rz(qlim=[lower, upper]) * ET.SE3(T)
    options = {"slimit": RESTARTS, "joint_limits": True, "method": "chan", "k": 0.1}
    tolerance, seed = 0.5 * gate[0] ** 2, problem.seed

    def pose(T: Array, start: Array | None) -> Answer:
        found = sequence.ik_LM(T, q0=seed if start is None else start, tol=tolerance, **options)
        return found.q, bool(found.success)

    return Contender(pose, ("roboticstoolbox-python",), note="ik_LM, chan, k = 0.1, 100 restarts.")


def optik(problem: Problem, gate: Gate) -> Contender:
    """OptIK in speed mode, one thread."""
    from optik import Robot, SolverConfig

    problem.chain()
    robot = Robot.from_urdf_file(problem.urdf, "base", problem.frames[0])
    robot.set_parallelism(1)
    config = SolverConfig(
        solution_mode="speed", max_time=0.1, max_restarts=RESTARTS, tol_f=(0.3 * gate[0]) ** 2
    )
    seed = problem.seed

    def pose(T: Array, start: Array | None) -> Answer:
        found = robot.ik(config, T, seed if start is None else start)
        return (None, False) if found is None else (found[0], True)

    return Contender(pose, ("optik-py",), note="Speed mode, 100 restarts, at most 0.1 s.")


def trac_ik(problem: Problem, gate: Gate) -> Contender:
    """TRAC-IK in speed mode."""
    from trac_ik import TracIK

    problem.chain()
    epsilon, seed = 0.5 * gate[0], problem.seed
    solver = TracIK("base", problem.frames[0], problem.urdf, 0.02, epsilon, "Speed")

    def pose(T: Array, start: Array | None) -> Answer:
        found = solver.ik(T[:3, 3], T[:3, :3], seed if start is None else start)
        return found, found is not None

    return Contender(pose, ("pytracik",), note="Speed mode, at most 20 ms.")


def klampt(problem: Problem, gate: Gate) -> Contender:
    """Klampt: Newton's method with limits, random restarts."""
    from klampt import WorldModel
    from klampt.model import ik

    problem.chain()
    world = WorldModel()
    robot = world.loadRobot(problem.urdf)
    if robot.name is None:
        raise RuntimeError("the URDF file does not load")
    link, size = robot.link(problem.frames[0]), robot.numLinks()
    moving = [robot.link(f"link{k + 1}").getIndex() for k in range(len(problem.joints))]
    whole, seed = np.zeros(size), problem.seed
    options = {"iters": 100, "tol": 0.5 * gate[0], "numRestarts": RESTARTS}

    def prepare(T: Array) -> Any:
        return ik.objective(link, R=T[:3, :3].T.ravel().tolist(), t=T[:3, 3].tolist())

    def pose(goal: Any, start: Array | None) -> Answer:
        whole[moving] = seed if start is None else start
        robot.setConfig(whole)
        claimed = ik.solve_global(goal, activeDofs=moving, **options)
        q = robot.getConfig()
        return [q[k] for k in moving], bool(claimed)

    pose.world = world  # type: ignore[attr-defined] # the robot does not keep it alive

    return Contender(pose, ("klampt",), prepare, "solve_global, 100 restarts.")


def axes_and_offsets(problem: Problem) -> tuple[Array, Array, Array]:
    """Axes (6, 3) and offsets (7, 3) of a 6R arm in the base, and the tool's rotation at zero."""
    if len(problem.chain()) != 7:
        raise NotImplementedError("six joints only")
    poses = np.array(list(accumulate(problem.transforms, np.matmul)))
    origins, axes = poses[:, :3, 3].copy(), poses[:6, :3, 2]
    # ik-geo wants a spherical wrist to have one origin: the point nearest to its three axes.
    aside = np.eye(3) - axes[3:, :, None] * axes[3:, None, :]
    centre = np.linalg.solve(aside.sum(0), np.einsum("kij,kj->i", aside, origins[3:6]))
    if np.abs(aside @ (centre - origins[3:6])[..., None]).max() < 1e-9:
        origins[3:6] = centre
    return axes, np.diff(origins, axis=0, prepend=np.zeros((1, 3))), poses[6, :3, :3]


def chosen(problem: Problem, Q: Array, start: Array | None) -> Answer:
    """Of all solutions (k, 6) one inside the limits: the first, or the nearest to the start."""
    lower, upper = problem.lower, problem.upper
    if start is not None:  # each joint in the turn nearest to it, if that is inside
        Q = Q + TURN * np.round((start - Q) / TURN)
    Q = np.where((lower <= Q) & (upper >= Q), Q, Q + TURN * np.ceil((lower - Q) / TURN))
    Q = Q[(upper >= Q).all(axis=1)]
    if not len(Q):
        return None, False
    return Q[0 if start is None else np.abs(Q - start).max(axis=1).argmin()], True


def eaik(problem: Problem, gate: Gate) -> Contender:
    """EAIK: analytic, all solutions, of which one inside the limits is taken."""
    from eaik.IK_HP import HPRobot

    axes, offsets, R = axes_and_offsets(problem)
    robot = HPRobot(axes, offsets)
    if not robot.hasKnownDecomposition():
        raise NotImplementedError("no analytic solution for this arm")

    def prepare(T: Array) -> Array:
        given = T.copy()
        given[:3, :3] = T[:3, :3] @ R.T
        return given

    def pose(T: Array, start: Array | None) -> Answer:
        found = robot.IK(T)
        exact = [q for q, near in zip(found.Q, found.is_LS, strict=True) if not near]
        return chosen(problem, np.array(exact), start) if exact else (None, False)

    return Contender(pose, ("EAIK",), prepare, robot.getKinematicFamily() + ".")


def ik_geo(problem: Problem, gate: Gate) -> Contender:
    """ik-geo: analytic, by the most special of its families that gives this arm's poses back."""
    from ik_geo import Robot

    axes, offsets, R = axes_and_offsets(problem)
    q = problem.seed

    def prepare(T: Array) -> tuple[Array, Array]:
        return np.ascontiguousarray((T[:3, :3] @ R.T).T), T[:3, 3].copy()  # it reads columns

    def arm(family: str) -> Contender:
        robot = getattr(Robot, family)(axes, offsets)

        def pose(T: tuple[Array, Array], start: Array | None) -> Answer:
            exact = [q for q, near in robot.get_ik(*T) if not near]
            return chosen(problem, np.array(exact), start) if exact else (None, False)

        return Contender(pose, ("ik-geo",), prepare, f"{family}.")

    for family in (
        "spherical_two_parallel",
        "spherical_two_intersecting",
        "spherical",
        "three_parallel_two_intersecting",
        "three_parallel",
        "two_parallel",
        "two_intersecting",
    ):
        one = arm(family)
        answer = one.solve(prepare(problem.fk(q)), None)[0]
        if answer is not None and np.allclose(problem.fk(answer), problem.fk(q), atol=1e-6):
            return one
    raise NotImplementedError("no analytic solution for this arm")


def ssik(problem: Problem, gate: Gate) -> Contender:
    """ssik: compiled for a 6R arm; of a 7R arm the one it ships, whose base may stand elsewhere."""
    from ssik import Manipulator
    from ssik._native import native_available

    if not native_available():
        raise ImportError("its compiled part is not there")
    before, after = np.eye(4), np.eye(4)
    if len(problem.chain()) == 7:
        arm = built(problem)
    elif len(problem.transforms) == 8:
        arm = Manipulator.from_prebuilt(problem.name)
        rng = np.random.default_rng(0)
        some = rng.uniform(problem.lower, problem.upper, (8, 7))
        before, after = between([problem.fk(q) for q in some], [arm.fk(q) for q in some])
    else:
        raise NotImplementedError("six or seven joints only")

    def prepare(T: Array) -> Array:
        return np.ascontiguousarray(before @ T @ after)

    def pose(T: Array, start: Array | None) -> Answer:
        found = arm.solve(T, q_seed=start, max_solutions=1)
        return (found[0].q, True) if found else (None, False)

    return Contender(pose, ("ssik",), prepare, "max_solutions = 1.")


def built(problem: Problem) -> Any:
    """The module that `ssik build` makes of the file; an unpacked environment brings it along."""
    name = f"ssik_{problem.name}"
    if importlib.util.find_spec(name) is None:
        folder = Path(problem.urdf).parent
        to = ["--out", str(folder / f"{name}.py"), "--validate-poses", "0"]
        ends = ["--base", "base", "--ee", problem.frames[0]]
        command = [sys.executable, "-m", "ssik.cli", "build", problem.urdf, *ends, *to]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        sys.path.append(str(folder))
    return importlib.import_module(name)


def between(ours: list[Array], theirs: list[Array]) -> tuple[Array, Array]:
    """X and Y (4, 4) with X T Y equal to the other's pose for all poses: base and tool differ."""
    # Relative motions share the base: theirs_0^-1 theirs_k = Y^-1 (ours_0^-1 ours_k) Y.
    inverse = np.linalg.inv
    A = [inverse(ours[0]) @ T for T in ours[1:]]
    B = [inverse(theirs[0]) @ T for T in theirs[1:]]
    eye = np.eye(3)
    rows = [np.kron(a[:3, :3], eye) - np.kron(eye, b[:3, :3].T) for a, b in zip(A, B, strict=True)]
    R = np.linalg.svd(np.vstack(rows))[2][-1].reshape(3, 3)
    R = R * np.sign(np.linalg.det(R)) / np.cbrt(abs(np.linalg.det(R)))
    left = np.vstack([a[:3, :3] - eye for a in A])
    right = np.concatenate([R @ b[:3, 3] - a[:3, 3] for a, b in zip(A, B, strict=True)])
    Y = np.eye(4)
    Y[:3, :3], Y[:3, 3] = R, np.linalg.lstsq(left, right, rcond=None)[0]
    X = theirs[0] @ inverse(ours[0] @ Y)
    if not all(np.allclose(X @ a @ Y, b, atol=1e-6) for a, b in zip(ours, theirs, strict=True)):
        raise NotImplementedError("the arm it ships has other kinematics")
    return X, Y


CONTENDERS: dict[str, Maker] = {
    "supple": supple_solve,
    "Robotics Toolbox": robotics_toolbox,
    "OptIK": optik,
    "TRAC-IK": trac_ik,
    "Klampt": klampt,
    "ssik": ssik,
    "EAIK": eaik,
    "ik-geo": ik_geo,
    **LOOPS,
}


def timed(
    contender: Contender, given: list[tuple[Any, Array | None]], seconds: float, clock: str
) -> dict[str, list[Any]]:
    """Answers to as many as fit into the time, with the time of each [ns]."""
    end = time.perf_counter() + WARM_UP
    for target, start in given:
        contender.solve(target, start)
        if time.perf_counter() > end:
            break
    answers: list[Answer] = []
    times: list[int] = []
    now: Callable[[], int] = getattr(time, clock)
    looking = min(-now() + now() for _ in range(1000))  # what it takes to look at the clock
    solve = contender.solve
    gc.collect()
    gc.disable()
    last = now() + int(seconds * 1e9)
    for target, start in given:
        before = now()
        answer = solve(target, start)
        after = now()
        times.append(after - before - looking)
        answers.append(answer)
        if after > last:
            break
    gc.enable()
    q = [None if q is None else np.asarray(q, dtype=float).tolist() for q, _ in answers]
    return {"q": q, "claims": [claimed for _, claimed in answers], "ns": times}


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Of the packages; an unpacked one may not know its own."""
    known = {}
    for package in packages:
        try:
            known[package] = version(package)
        except PackageNotFoundError:
            known[package] = ""
    return known


def main(name: str, folder: str) -> None:
    """Answer questions until there are none."""
    measure.one_core()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # some libraries talk
    problem = Problem.read(Path(folder))
    with np.load(Path(folder) / "targets.npz") as stored:
        arrays = dict(stored)
    made: dict[Gate, Contender] = {}
    for line in sys.stdin:
        question = json.loads(line)
        try:
            gate = tuple(question.get("gate", (1e-4, 1e-3)))
            if gate not in made:
                made[gate] = CONTENDERS[name](problem, gate)
            contender, answer = made[gate], {}
            if question["ask"] == "about":
                answer = {"note": contender.note, "versions": versions(contender.packages)}
            else:
                part, key = slice(question["from"], question["to"]), question["in"]
                starts = arrays.get(f"{key} start")
                targets = [contender.prepare(T) for T in arrays[key][part]]
                begin = [None] * len(targets) if starts is None else list(starts[part])
                pairs = list(zip(targets, begin, strict=True))
                answer = timed(contender, pairs, question["seconds"], question["clock"])
        except Exception as error:
            answer = {"missing": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
