"""A program ends with exit status 0 and prints nothing, whichever objects are still alive."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

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

PROGRAMS = {
    "globals": "servo = sp.Servo(robot, dt=0.01); servo(q, np.zeros(6))",
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
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    expected = "True\n" if "print" in PROGRAMS[program] else ""
    assert (done.stderr, done.returncode, done.stdout) == ("", 0, expected)
