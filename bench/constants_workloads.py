"""The workloads of constants.py, which measure what a tuned constant may change.

    python bench/constants_workloads.py FILE [GROUP...] [NAME=VALUE]

runs groups of these workloads with the installed supple ("solve", "control", "paths" or "gpu"; by
default the first three), and prints {workload: {measure: value}} as JSON. NAME=VALUE first sets a
Python constant in its module, as in "supple.ik.problem._SEED_TABLE_SIZE=4096". FILE stores the
targets, and is created if it is missing. Measures are counts, which are deterministic, and "µs",
the processor time of one target, step or path (on a GPU, the time of the whole call). The measures
of the three arms are averaged. tests/support must be on PYTHONPATH.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import supple as sp
from chains import chain, corner_configurations
from constants_measures import Clock, Measures, mean
from constants_paths import of_paths
from mobile import mobile
from position_targets import singular
from several_arms import arms
from supple.ik import problem
from targets import boundary

Array = NDArray[np.float64]
ARMS = ("panda", "ur5e", "iiwa14")
BEYOND = 0.05  # distance of the targets of `boundary` beyond the workspace [m]
JUMP = 0.5  # joint displacement between two targets of a path that is called a jump [rad]
TIMEOUT = 1e-3  # time limit that ends a longer search [s]
COUNTS = (1_000, 2_000, 4_000, 8_000, 100_000)  # numbers of targets in a batch on a GPU


# ---- targets -----------------------------------------------------------------------------------


def targets(robot: sp.Robot) -> dict[str, Array]:
    """Return the targets of an arm by kind, and initial guesses q0 for some of the kinds."""
    rng = np.random.default_rng(7)
    q, other = robot.random(10_000, seed=1), robot.random(400, seed=2)
    start, opposite = other.copy(), other.copy()
    start[:, 0] = np.minimum(other[:, 0], robot.upper[0] - np.pi)
    opposite[:, 0] = start[:, 0] + np.pi
    corner = np.where(rng.random((600, robot.dof)) < 0.5, robot.lower, robot.upper)
    farthest, edge, beyond = boundary(robot, 200)

    def around(q: Array, most: float) -> Array:
        noise = np.random.default_rng(9).uniform(-most, most, q.shape)
        return np.clip(q + noise, robot.lower, robot.upper)

    anywhere = robot.fk(q[:80])
    anywhere[:, :3, :3] = robot.fk(q[-80:])[:, :3, :3]
    return {
        "random": robot.fk(q),
        "near q0": np.clip(q[:400] + rng.uniform(-0.1, 0.1, other.shape), robot.lower, robot.upper),
        "medium q0": around(q[:400], 0.6),
        "far q0": other,
        "half turn": robot.fk(opposite),
        "half turn q0": start,
        "corner": robot.fk(corner),
        "singular": robot.fk(singular(robot, 300)),
        "edge": edge,
        "edge q0": around(farthest, 0.1),
        "beyond": beyond,
        "anywhere": anywhere,
    }


def load(file: Path) -> dict[str, dict[str, Array]]:
    """Return the targets of each arm from a file; if the file is missing, create it."""
    if not file.is_file():
        made = {arm: targets(sp.load(arm)) for arm in ARMS}
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, **{f"{a}/{k}": x for a, every in made.items() for k, x in every.items()})
    every: dict[str, dict[str, Array]] = {arm: {} for arm in ARMS}
    for key, array in np.load(file).items():
        arm, _, kind = key.partition("/")
        every[arm][kind] = array
    return every


# ---- measures ----------------------------------------------------------------------------------


def batch(robot: sp.Robot, T: Any, **options: Any) -> tuple[sp.Solutions, Measures]:
    """Solve a batch on one thread; return the solutions, and the measures of `effort`.

    The first target is solved beforehand, to build the table of seeds.
    """
    several = isinstance(T, list)
    first = [one[:1] for one in T] if several else T[:1]
    q0 = options.pop("q0", None)
    solver = sp.Solver(robot, threads=1, **options)
    solver.batch(first)
    clock = Clock()
    found = solver.batch(T, q0)
    return found, effort(found, clock.us(len(found)))


def effort(found: sp.Solutions | list[sp.Solution], us: float) -> Measures:
    """Return the fraction of solved targets, and mean restarts, iterations and time per target."""

    def average(name: str) -> float:
        one_by_one = isinstance(found, list)
        values = [getattr(one, name) for one in found] if one_by_one else getattr(found, name)
        return float(np.mean(values))

    return {
        "solved [%]": 100 * average("success"),
        "restarts": average("restarts"),
        "iterations": average("iterations"),
        "µs": us,
    }


def distance(q: Array, q0: Array) -> Measures:
    """Return the largest joint displacement from q0, averaged over all targets."""
    return {"displacement [rad]": float(np.abs(q - q0).max(axis=-1).mean())}


# ---- workloads of an arm -----------------------------------------------------------------------


def of_arm(arm: str, at: dict[str, Array]) -> dict[str, Measures]:
    """Solve all targets of an arm; each kind of target is one workload."""
    robot = sp.load(arm)
    made = {kind: batch(robot, at[kind])[1] for kind in ("random", "singular", "edge", "corner")}
    made["any orientation"] = batch(robot, at["anywhere"])[1]
    few, near = at["random"][:400], at["near q0"]
    clock = Clock()
    alone = [sp.solve(robot, target) for target in few]
    made["one by one"] = effort(alone, clock.us(len(few)))
    clock = Clock()
    alone = [sp.solve(robot, target, q0=q0) for target, q0 in zip(few, near, strict=True)]
    used = clock.us(len(few))
    made["near q0"] = effort(alone, used) | distance(np.array([one.q for one in alone]), near)
    for name, T, q0 in (
        ("q0 within 0.6 rad", few, at["medium q0"]),
        ("far q0", few, at["far q0"]),
        ("half turn", at["half turn"], at["half turn q0"]),
        ("edge, q0 within 0.1 rad", at["edge"], at["edge q0"]),
    ):
        found, measures = batch(robot, T, q0=q0)
        made[name] = measures | distance(found.q, q0)
    found, measures = batch(robot, at["beyond"])
    excess = 1e3 * float(found.position_error.mean() - BEYOND)
    made["beyond reach"] = measures | {"excess [mm]": excess}
    made["path beyond reach"] = path_beyond_reach(robot, at["beyond"][:10])
    return made | of_tasks(robot, at)


def path_beyond_reach(robot: sp.Robot, starts: Array) -> Measures:
    """Solve for targets out of reach along horizontal lines, each from the previous solution."""
    jumps, error, used = 0, [], 0.0
    for start in starts:
        q, target = sp.solve(robot, start).q, start.copy()
        for share in np.linspace(0.05, 1, 20):
            target[:3, 3] = start[:3, 3] + share * np.cross(start[:3, 3], (0, 0, 1))
            clock = Clock()
            found = sp.solve(robot, target, q0=q)
            used += clock.us()
            jumps += int(np.abs(found.q - q).max() > JUMP)
            error.append(found.position_error)
            q = found.q
    return {"jumps": jumps, "error [mm]": 1e3 * float(np.mean(error)), "µs": used / len(error)}


def of_tasks(robot: sp.Robot, at: dict[str, Array]) -> dict[str, Measures]:
    """Solve tasks with weights, tasks with a posture, and targets for several solutions."""
    light = sp.PoseTask(weight=(1, 1, 1, 1e-3, 1e-3, 1e-3))
    made = {"unequal weights": batch(robot, at["random"][:400], tasks=light)[1]}
    T, rest = at["random"][:150], at["far q0"][:150]
    for name, task, wanted in (
        ("posture", sp.PoseTask(), T),
        ("posture, position", sp.PositionTask(), T[:, :3, 3]),
    ):
        found, measures = batch(robot, [wanted, rest], tasks=(task, sp.PostureTask()))
        left = float(np.linalg.norm(found.q - rest, axis=1).mean())
        made[name] = measures | {"distance [rad]": left}
    few = T[: 60 if robot.dof > 6 else 5]  # arms with six joints rarely have 8 solutions
    clock = Clock()
    several = [sp.Solver(robot).several(target, 8) for target in few]
    used = clock.us(len(few))
    made["8 solutions"] = {"found": float(np.mean([len(one) for one in several])), "µs": used}
    found, measures = batch(robot, few, prefer="manipulability")
    best = float(np.mean(np.prod(robot.singular_values(found.q), axis=-1)))
    return made | {"best manipulability": {"manipulability": best, "µs": measures["µs"]}}


# ---- other workloads ---------------------------------------------------------------------------


def of_two_arms() -> dict[str, Measures]:
    """Solve for both hands of a robot whose arms share a lift, within and beyond its reach."""
    robot = arms("panda", "ur5e", lift=True)
    q = robot.random(300, seed=3)
    T = [robot.fk(q, tip) for tip in robot.tips]
    made = {"two arms": batch(robot, T)[1]}
    far = [one[:40].copy() for one in T]
    far[0][:, :3, 3] *= 2
    made["two arms, beyond reach"] = batch(robot, far)[1]
    late, solver = [], sp.Solver(robot, timeout=TIMEOUT)
    for pair in zip(*far, strict=True):
        begin = time.perf_counter()
        solver(list(pair))
        late.append(time.perf_counter() - begin)
    return made | {"timeout of 1 ms": {"µs": 1e6 * float(np.median(late))}}


def of_chains() -> dict[str, Measures]:
    """Solve for poses with every joint at a limit, which are the hardest reachable targets."""
    every = []
    for seed in range(6):
        for joints in (9, 10, 12, 14):
            robot = chain(seed, joints)
            every.append(batch(robot, robot.fk(corner_configurations(robot, 300, seed)))[1])
    return mean([{f"corners of {len(every)} chains": one} for one in every])


def of_long_joints() -> dict[str, Measures]:
    """Solve for mobile manipulators whose base has a large range or no limits."""
    made = {}
    for name, limit, far in (
        ("base ±3 m", 3.0, 1.0),
        ("base ±10 m", 10.0, 1.0),
        ("base ±1 km", 1e3, 1.0),
        ("base without limits", None, 1e6),
    ):
        robot = mobile(limit)
        q = robot.random(400, seed=4)
        q[:, :2] *= far
        made[name] = batch(robot, robot.fk(q))[1]
        del made[name]["µs"]  # the time is too short to be measured
    return made


def at_limits(robot: sp.Robot, tasks: Any = None, step: Any = None) -> Measures:
    """Take single steps of a Servo whose tasks need speeds far above the speed limits."""
    limits = sp.Limits.for_robot(robot, speed_factor=0.2)
    servo = sp.Servo(robot, tasks, dt=0.01, limits=limits, step=step)
    q = 0.7 * robot.random(1000, seed=5) + 0.3 * robot.neutral()
    twists = np.random.default_rng(9).normal(size=(len(q), len(robot.tips), 6))
    goals = [list(several) if len(several) > 1 else several[0] for several in twists]
    if step is not None:  # a step for priorities: position and orientation as two tasks
        goals = [[twist[:3], twist[3:]] for (twist,) in twists]
    speeds, clock = [], Clock()
    for start, goal in zip(q, goals, strict=True):
        servo.reset()
        servo(start, goal)
        speeds.append(servo.qd)
    used = clock.us(len(q))
    J = np.stack([robot.jacobian(q, tip) for tip in robot.tips], axis=1)
    missed = np.einsum("btij,bj->bti", J, np.array(speeds)) - twists
    return {
        "missed [m/s]": float(np.linalg.norm(missed[..., :3], axis=-1).mean()),
        "missed [rad/s]": float(np.linalg.norm(missed[..., 3:], axis=-1).mean()),
        "µs": used,
    }


def of_control() -> dict[str, Measures]:
    """Follow twists inside tight limits: without and with priorities, and with optimal damping."""
    robot, rng = sp.load("panda"), np.random.default_rng(8)
    two, step = arms("panda", "ur5e", lift=True), sp.DLS(sp.damping.Constant(1e-6))
    tasks = (sp.PositionTask(), sp.OrientationTask())
    made = {
        "servo at limits": at_limits(robot),
        "servo of two arms at limits": at_limits(two, tuple(sp.PoseTask(tip) for tip in two.tips)),
        "priorities at limits": at_limits(robot, tasks, sp.redundancy.Priority((step, step))),
    }
    J, e = robot.jacobian(robot.random(20_000, seed=6)), rng.normal(size=(20_000, 6))
    lines, clock = sp.Linearization(J, e), Clock()
    speed = sp.DLS(sp.damping.Optimal(1.0))(lines)
    used = clock.us(len(e))
    size = float(np.linalg.norm(speed, axis=1).mean())
    return made | {"optimal damping": {"speed [rad/s]": size, "µs": used}}


def of_calls(T: Array) -> dict[str, Measures]:
    """Time first calls, which build a table of seeds, and batches with a timeout of zero."""
    robot = sp.load("panda")
    clock = Clock()
    for _ in range(3):
        problem._compiled.cache_clear()
        sp.Solver(robot)(T[0])
    made = {"first call": {"µs": clock.us(3)}}
    many, times = np.resize(T, (100_000, 4, 4)), []
    for _ in range(5):
        clock = Clock()
        sp.Solver(robot, threads=1, timeout=1e-9).batch(many)
        times.append(clock.us(len(many)))
    return made | {"batch out of time": {"µs": min(times)}}


def of_solve(every: dict[str, dict[str, Array]]) -> dict[str, Measures]:
    """Run the workloads of `solve`."""
    made = mean([of_arm(arm, at) for arm, at in every.items()])
    made |= of_two_arms() | of_chains() | of_long_joints()
    return made | of_calls(every["panda"]["random"])


def of_gpu(every: dict[str, dict[str, Array]]) -> dict[str, Measures]:
    """Solve batches of several sizes, and batches of hard targets, on a GPU."""
    made = []
    for arm, at in every.items():
        robot, found = sp.load(arm), {}
        sets = {f"{n} random": np.resize(at["random"], (n, 4, 4)) for n in COUNTS}
        sets |= {kind: at[kind] for kind in ("singular", "edge", "corner", "beyond", "anywhere")}
        for name, T in sets.items():
            solver = sp.Solver(robot, device="cuda")
            solver.batch(T)  # compiles the CUDA code
            times = []
            for _ in range(5):
                begin = time.perf_counter()
                solution = solver.batch(T)
                times.append(time.perf_counter() - begin)
            found[name] = effort(solution, 1e6 * float(np.median(times)))
        made.append(found)
    return mean(made)


GROUPS: dict[str, Callable[[dict[str, dict[str, Array]]], dict[str, Measures]]] = {
    "solve": of_solve,
    "control": lambda every: of_control(),
    "paths": lambda every: of_paths(),
    "gpu": of_gpu,
}


def main(file: str, *words: str) -> None:
    """Set the constants given as NAME=VALUE, run groups of workloads and print measures."""
    for setting in words:
        name, is_setting, value = setting.partition("=")
        module, _, constant = name.rpartition(".")
        if is_setting:
            place = importlib.import_module(module)
            setattr(place, constant, type(getattr(place, constant))(float(value)))
    groups = [word for word in words if "=" not in word] or ["solve", "control", "paths"]
    every, made = load(Path(file)), {}
    for group in groups:
        made |= GROUPS[group](every)
    print(json.dumps(made))


if __name__ == "__main__":
    main(*sys.argv[1:])
