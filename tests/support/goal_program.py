"""The kernel's formulas of one task on one robot: kernel/harness_goal.cpp, compiled with g++."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import supple as sp
from compile_once import only_one
from harness import FLAGS, HERE
from supple.control.velocity_ik import velocity_ik

ROOT = Path(__file__).parents[2]
# Without -fno-gnu-unique, all libraries in a process would share the constants of the first one.
OPTIONS = (*FLAGS, "-fno-gnu-unique")
Array = np.ndarray


class Given(ctypes.Structure):
    """Mirrors `Given` of harness_goal.cpp: the same members in the same order."""

    _fields_ = (
        *((name, ctypes.c_int) for name in ("goal", "frame", "base", "axes", "rows")),
        ("row", ctypes.c_int * 6),
        ("points", ctypes.c_int),
        ("point", ctypes.c_int * 8),
        ("weight", ctypes.c_double * 6),
        ("share", ctypes.c_double * 8),
    )


@dataclass(frozen=True)
class Formulas:
    """The values of a task at a configuration: J, e, J̇q̇, the target reached, and a velocity."""

    J: Array
    e: Array
    bias: Array
    reached: Array
    command: Array


class Program:
    """The tasks of frames of a robot, compiled with the headers in a folder."""

    def __init__(self, robot: sp.Robot, frames: Sequence[str], headers: Path) -> None:
        self.robot, self.n, self.frames = robot, robot.nv, list(frames)
        poses = tuple(map(sp.PoseTask, frames))
        step = sp.DLS(sp.damping.Constant(1e-3))
        constants = velocity_ik(robot, poses, step, None, None).kernel.constants()
        self.library = ctypes.CDLL(str(_compiled(constants, headers)))
        self.library.move.argtypes = (*(ctypes.c_void_p,) * 2, ctypes.c_double, ctypes.c_void_p)

    def task(
        self,
        goal: str,
        *,
        frame: str = "",
        base: str | None = None,
        axes: int = -1,
        rows: Sequence[int] = (0,),
        weights: Sequence[float] = (1.0,),
        points: Sequence[str] = (),
        shares: Sequence[float] = (),
    ) -> Given:
        """Return a task for frames of the robot."""
        given = Given(
            self.library.goal_named(goal.encode()),
            self.frames.index(frame) if frame else 0,
            -1 if base is None else self.frames.index(base),
            axes,
            len(rows),
        )
        assert given.goal >= 0, goal
        given.row[: len(rows)], given.weight[: len(rows)] = list(rows), list(weights)
        given.points = len(points)
        given.point[: len(points)] = [self.frames.index(one) for one in points]
        given.share[: len(points)] = list(shares)
        return given

    def sizes(self, task: Given) -> tuple[int, int]:
        """Return the number of values in a target and the number of values in a velocity."""
        found = (ctypes.c_int * 2)()
        self.library.sizes(ctypes.byref(task), found)
        return found[0], found[1]

    def moved(self, q: Array, v: Array, time: float) -> Array:
        """Return the coordinates (n,) after moving from q at velocities v for a time [s]."""
        to = np.empty(self.n)
        self.library.move(_at(q), _at(v), time, _at(to))
        return to

    def evaluate(
        self,
        task: Given,
        q: Array,
        qd: Array | None = None,
        target: Array | None = None,
        velocity: Array | None = None,
    ) -> Formulas:
        """Return the values of a task at coordinates (n,)."""
        (k, length), m = self.sizes(task), task.rows
        qd = np.zeros(self.n) if qd is None else qd
        target = np.zeros(k) if target is None else target
        velocity = np.zeros(length) if velocity is None else velocity
        made = Formulas(*(np.zeros(size) for size in ((m, self.n), m, m, k, m)))
        out = (made.J, made.e, made.bias, made.reached, made.command)
        self.library.evaluate(ctypes.byref(task), *map(_at, (q, qd, target, velocity, *out)))
        return made

    def bends(self, task: Given, q: Array, u: Array, v: Array) -> tuple[Array, Array, Array, Array]:
        """Return ∂(u·J v)/∂q and ∂²(u·f)/∂q², then both by the methods that suit any goal."""
        n = self.n
        out = tuple(np.zeros(shape) for shape in (n, (n, n), n, (n, n)))
        self.library.bends(ctypes.byref(task), *map(_at, (q, u, v, *out)))
        return out  # type: ignore[return-value]

    def structure(self, task: Given, v: Array) -> tuple[Array, Array, Array, bool]:
        """Return nonzero columns of J, labels of subproblems, and whether v moves the task."""
        column, label, rows = (np.zeros(size, np.int32) for size in (self.n, self.n, 12))
        moves = self.library.structure(ctypes.byref(task), *map(_at, (v, column, label, rows)))
        return column != 0, label, rows[: 2 * task.rows], bool(moves)


def _at(array: Array) -> ctypes.c_void_p:
    assert array.flags.c_contiguous
    return ctypes.c_void_p(array.ctypes.data)


def _compiled(constants: str, headers: Path) -> Path:
    """Return the library for a robot, cached by a hash of its sources."""
    source = HERE / "harness_goal.cpp"
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    digest = hashlib.sha256(shlex.join([*compiler, *OPTIONS, constants]).encode())
    digest.update(subprocess.check_output([*compiler, "--version"]))
    for path in (source, *sorted((headers / "supple").rglob("*.hpp"))):
        digest.update(path.read_bytes())
    library = ROOT / "build/harness" / f"goal-{digest.hexdigest()[:16]}.so"
    with only_one(library):
        if not library.exists():
            given = library.with_suffix("") / "given.hpp"
            given.parent.mkdir(parents=True, exist_ok=True)
            given.write_text(constants, encoding="utf-8")
            partial = library.with_suffix(f".{os.getpid()}")
            folders = ["-I", str(headers), "-I", str(given.parent)]
            subprocess.run(
                [*compiler, *OPTIONS, *folders, str(source), "-o", str(partial)], check=True
            )
            partial.replace(library)
    return library
