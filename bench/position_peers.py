"""Position IK by each library, in a process that times itself on request.

    python bench/position_peers.py CONTENDER FOLDER

FOLDER holds robot.urdf, robot.npz and targets.npz, which `position.py` writes. Each line of the
standard input is a request, and is answered by a line of JSON on the standard output.

    {"ask": "about"}  -> a description of the contender, or the reason why it cannot run
    {"ask": "solve", "in": SITUATION, "gate": [m, rad], "from": i, "to": k, "seconds": s,
     "clock": NAME}   -> for the targets i to k, as many as fit into the time: {"q", "claims", "ns"}
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import measure
from position_analytic import CONTENDERS as ANALYTIC
from position_loops import CONTENDERS as LOOPS
from position_problem import Answer, Array, Contender, Gate, Maker, Problem

WARM_UP = 0.01  # duration of unmeasured work before the clock starts, after a pause [s]
RESTARTS = 100  # maximum number of restarts, for libraries that restart by themselves


def supple_solve(problem: Problem, gate: Gate) -> Contender:
    """Return supple as a contender, with its defaults except for the tolerances."""
    import supple

    robot, (tip, *more) = supple.urdf(problem.urdf), problem.frames
    accuracy = {"position_tolerance": gate[0], "rotation_tolerance": gate[1]}
    tasks: Any = problem.frames if more else tip
    prepare: Callable[[Array], Any] = list if more else np.ascontiguousarray
    if problem.axis:
        tasks = (supple.PositionTask(tip), supple.AxisTask(tip))
        prepare = position_and_axis
    solver = supple.Solver(robot, tasks, **accuracy)

    def pose(target: Any, start: Array | None) -> Answer:
        found = solver(target, start)
        return found.q, bool(found.success)

    return Contender(pose, ("supple",), prepare)


def position_and_axis(T: Array) -> list[Array]:
    """Return the position of the origin and the direction of z."""
    return [T[:3, 3].copy(), T[:3, 2].copy()]


def robotics_toolbox(problem: Problem, gate: Gate) -> Contender:
    """Return Robotics Toolbox's compiled Levenberg-Marquardt with Chan's damping and limits."""
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
    """Return OptIK as a contender, in speed mode on one thread."""
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
    """Return TRAC-IK as a contender, in speed mode."""
    from trac_ik import TracIK

    problem.chain()
    epsilon, seed = 0.5 * gate[0], problem.seed
    solver = TracIK("base", problem.frames[0], problem.urdf, 0.02, epsilon, "Speed")

    def pose(T: Array, start: Array | None) -> Answer:
        found = solver.ik(T[:3, 3], T[:3, :3], seed if start is None else start)
        return found, found is not None

    return Contender(pose, ("pytracik",), note="Speed mode, at most 20 ms.")


def klampt(problem: Problem, gate: Gate) -> Contender:
    """Return Klampt as a contender: Newton's method with limits and random restarts."""
    from klampt import WorldModel
    from klampt.model import ik

    problem.chain()
    world = WorldModel()
    robot = world.loadRobot(problem.urdf)
    if robot.name is None:
        raise RuntimeError("Klampt cannot load the URDF file")
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

    pose.world = world  # type: ignore[attr-defined] # keeps the world alive

    return Contender(pose, ("klampt",), prepare, "solve_global, 100 restarts.")


CONTENDERS: dict[str, Maker] = {
    "supple": supple_solve,
    "Robotics Toolbox": robotics_toolbox,
    "OptIK": optik,
    "TRAC-IK": trac_ik,
    "Klampt": klampt,
    **ANALYTIC,
    **LOOPS,
}


def timed(
    contender: Contender, given: list[tuple[Any, Array | None]], seconds: float, clock: str
) -> dict[str, list[Any]]:
    """Solve as many targets as fit into the time; return the results and the time of each [ns]."""
    end = time.perf_counter() + WARM_UP
    for target, start in given:
        contender.solve(target, start)
        if time.perf_counter() > end:
            break
    returned: list[Any] = []
    times: list[int] = []
    now: Callable[[], int] = getattr(time, clock)
    looking = min(-now() + now() for _ in range(1000))  # time of reading the clock
    solve = contender.solve
    gc.collect()
    gc.disable()
    last = now() + int(seconds * 1e9)
    for target, start in given:
        before = now()
        answer = solve(target, start)
        after = now()
        times.append(after - before - looking)
        returned.append(answer)
        if after > last:
            break
    gc.enable()
    answers: list[Answer] = returned
    if contender.choose is not None:
        pairs = zip(returned, given, strict=False)
        answers = [contender.choose(each, start) for each, (_, start) in pairs]
    q = [None if q is None else np.asarray(q, dtype=float).tolist() for q, _ in answers]
    return {"q": q, "claims": [claimed for _, claimed in answers], "ns": times}


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of packages; packages without version information are omitted."""
    known = {}
    for package in packages:
        try:
            known[package] = version(package)
        except PackageNotFoundError:
            known[package] = ""
    return known


def main(name: str, folder: str) -> None:
    """Answer requests of the benchmark until stdin ends."""
    measure.one_core()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # discards what libraries print
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
