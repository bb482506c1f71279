"""A program ends with exit status 0 and prints nothing, whichever objects are still alive."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

BEGIN = """
import ctypes, gc, os, threading, time
import numpy as np, supple as sp
robot = sp.load("panda")
q = robot.neutral()
T = robot.fk(q + 0.1)
far = np.repeat(T[None], 200_000, axis=0)
far[:, :3, 3] += 5

def in_background(work):
    began = threading.Event()
    threading.Thread(target=work, args=(began,), daemon=True).start()
    began.wait()
    time.sleep(0.2)

class Cycle:
    def __init__(self, *held):
        self.held, self.itself = held, self
"""

USES = """
sp.solve(robot, T)
sp.Solver(robot).batch(np.array([T, T]))
sp.Solver(robot, damping=sp.damping.Constant(0.1))(T)
sp.Solver(robot).all(T)
sp.DLS(sp.damping.Constant(0.1)).velocities(robot, q, np.zeros(6))
sp.linearize(robot, "panda_hand", q, T)
robot.singular_values(q)
sp.simulate(robot, q, target=T, dt=0.01, duration=0.02)
"""

# Objects of a user's classes, each in a reference cycle: a class refers to the globals of its
# module or to the cells of the function that defines it, and these refer to all objects below.
OF_A_USER = """
import copy
from supple.tasks import Task
from test_copies import EXAMPLES  # an instance of each public class

def derived(example):
    members = {"all": lambda self: every}
    if not hasattr(example, "__dict__"):
        members["__slots__"] = ()
    made = copy.copy(example)
    object.__setattr__(made, "__class__", type("Mine", (type(example),), members))
    return made

def used(function):
    try:
        every.append(function())
        every[-1](q, np.zeros(6)) if isinstance(every[-1], sp.Servo) else every[-1](T)
    except (sp.errors.SuppleError, TypeError):  # not every object can be used in every way
        pass

def program():
    servo = lambda **options: used(lambda: sp.Servo(robot, dt=0.01, **options))
    solver = lambda *task, **options: used(lambda: sp.Solver(robot, *task, **options))
    for mine in [derived(one) for one in EXAMPLES if may_be_derived(one)]:
        every.append(mine)
        if isinstance(mine, Task):
            solver(mine)
            solver([mine, sp.PositionTask()])
            servo(tasks=mine)
            used(lambda: sp.simulate(robot, q, target=T, tasks=mine, dt=0.01, duration=0.02))
            used(lambda: sp.plan_path(robot, np.array([T, T]), tasks=mine))
        elif type(mine).__base__.__module__.startswith("supple.damping"):
            solver(damping=mine)
            used(lambda: sp.Servo(robot, dt=0.01, step=sp.DLS(mine)))
        elif type(mine).__base__.__module__.startswith("supple.criteria"):
            within = sp.DLS(sp.damping.Constant(0.1))
            used(lambda: sp.Servo(robot, dt=0.01, step=sp.redundancy.NullSpace(within, mine)))
        elif isinstance(mine, sp.World):
            solver(world=mine)
            used(lambda: sp.Solver(robot, world=mine).all(T))
            servo(world=mine)
        elif isinstance(mine, sp.Robot):
            used(lambda: sp.Solver(mine))
            used(lambda: sp.Solver(mine).all(T))
            used(lambda: sp.Servo(mine, dt=0.01))
        elif isinstance(mine, sp.Limits):
            servo(limits=mine)
        elif hasattr(mine, "rows"):
            servo(constraints=[mine])
        elif isinstance(mine, sp.Solver):
            used(lambda: mine)
        else:
            servo(step=mine)
            solver(step=mine, max_seeds=1, max_iterations=3)
    servo(step=lambda J: sp.DLS(sp.damping.Constant(0.1))(J))
    servo(step=sp.DLS(lambda J: len(every)))
    servo(tasks=sp.tasks.OpenTask(lambda q: q[0] + 0 * len(every)))
    solver(sp.tasks.OpenTask(lambda q: (every, q[0])[1]))
    used(lambda: sp.Solver(robot, prefer=lambda q: len(every)).several(T, 3))
    assert sum(isinstance(one, sp.Solver | sp.Servo) for one in every) > 100

def may_be_derived(example):
    return type(example).__module__.startswith("supple") and not isinstance(
        example, (BaseException, int)
    )
"""

PROGRAMS = {
    "globals": "servo = sp.Servo(robot, dt=0.01); servo(q, np.zeros(6))",
    "objects of a user in the globals": OF_A_USER + "every = []\nprogram()",
    "objects of a user in a closure": "def main():\n"
    + textwrap.indent(OF_A_USER + "every = []\nprogram()\nreturn program", "    ")
    + "\nkept = main()",
    "objects of a user in a cycle": OF_A_USER + "every = []\nevery.append(every)\nprogram()",
    "a solver in a cycle": """
        solver = sp.Solver(robot)
        solver(T, q0=q)
        cycle = Cycle(solver, solver.batch)
        """,
    "a robot that nobody gives back": "ctypes.pythonapi.Py_IncRef(ctypes.py_object(robot))",
    "a cycle behind the collector's callbacks": """
        cycle = Cycle(robot, sp.solve, globals())
        gc.callbacks.append(lambda *_, cycle=cycle: None)
        """,
    "a batch in a daemon thread": """
        def work(began):
            began.set()
            sp.Solver(robot).batch(far)
        in_background(work)
        """,
    "a batch on one thread in a daemon thread": """
        def work(began):
            began.set()
            sp.Solver(robot, threads=1).batch(far, progress=lambda *_: None)
        in_background(work)
        """,
    "one batch after another in daemon threads": """
        def work(began):
            many = robot.random(100_000, seed=0)
            began.set()
            while True:
                robot.jacobian(many)
        for _ in range(3):
            in_background(work)
        """,
    "a control loop in a daemon thread": """
        def work(began):
            servo, at = sp.Servo(robot, dt=0.001), q
            began.set()
            while True:
                at = servo(at, np.full(6, 0.01))
        in_background(work)
        """,
    "a call after the end has begun": """
        import atexit
        from supple._runtime import leaving
        atexit.unregister(leaving._leave)
        atexit.register(lambda: print(sp.Solver(robot).batch(np.array([T, T])).success.all()))
        atexit.register(leaving._leave)
        """,
    "a child of a fork during a batch": """
        def work(began):
            began.set()
            sp.Solver(robot).batch(far)
        in_background(work)
        child = os.fork()
        if child == 0:
            sp.Solver(robot).batch(np.array([T, T]))
        else:
            assert os.waitpid(child, 0)[1] == 0
        """,
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_ends_without_output_whichever_objects_are_alive(program: str) -> None:
    if "fork" in program and not hasattr(os, "fork"):
        pytest.skip("no fork here")
    code = BEGIN + textwrap.dedent(USES) + textwrap.dedent(PROGRAMS[program])
    paths = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    expected = "True\n" if "print" in PROGRAMS[program] else ""
    assert (done.stderr, done.returncode, done.stdout) == ("", 0, expected)
