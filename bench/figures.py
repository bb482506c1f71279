"""Time updates of Buss's articulated figures in the kernel, and compare them with his paper.

    python bench/figures.py [ROUNDS]

An update is forward kinematics, Jacobian, error, one step by the transpose or by damped least
squares, and the clamp on angles. The end effectors of the figures, the Y (6 rows, 7 joints) and the
double Y (12 rows, 25 joints), follow the moving targets of his program. Prints a table and writes
it to bench/results/.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from supple._core import Method
from supple.papers.buss import figures as buss

import measure
import supple as sp
from supple.kinematics.chain import chain_specs

Array = NDArray[np.float64]

HERE = Path(__file__).resolve().parent
UPDATES = 2000
FEW = 200  # number of updates; over many more, the transpose method amplifies rounding errors
SHAPES = {shape.name: shape for shape in (buss.Y, buss.DOUBLE_Y)}
METHODS = ("transpose", "DLS")

# The memory layouts of Joint<double>, Frame<double> and Support in include/supple/robot/chain.hpp.
JOINT = np.dtype(
    [(name, np.int32) for name in ("parent", "motion", "placement", "q_index", "v_index")]
    + [("branches", np.bool_), ("scale", float), ("offset", float), ("phase", float, 2)]
    + [("rotation", float, 9), ("position", float, 3)],
    align=True,
)
FRAME = np.dtype(
    [(name, np.int32) for name in ("joint", "support_begin", "support_end")]
    + [("rotation", float, 9), ("position", float, 3)],
    align=True,
)
JOINT_FIELDS = ("parent", "q_index", "v_index", "scale", "offset", "phase", "rotation", "position")
SUPPORT = np.dtype([("joint", np.int32), ("first", np.bool_)], align=True)


def flat_chain(robot: sp.Robot) -> tuple[Array, Array, Array, bool]:
    """Return joints, frames and ancestors for the kernel, and whether a joint has a phase."""
    tree = robot._tree
    joint_specs, frame_specs = chain_specs(tree.joints, [tree.frames[tip] for tip in robot.tips])
    joints, frames = np.zeros(len(joint_specs), JOINT), np.zeros(len(frame_specs), FRAME)
    for j, (joint, spec) in enumerate(zip(joints, joint_specs, strict=True)):
        for name in JOINT_FIELDS:
            joint[name] = getattr(spec, name)
        joint["motion"], joint["placement"] = spec.motion.value, spec.placement.value
        if 0 <= spec.parent != j - 1:
            joints["branches"][spec.parent] = True
    for frame, spec in zip(frames, frame_specs, strict=True):
        for name in ("joint", "rotation", "position"):
            frame[name] = getattr(spec, name)
        joints["branches"][spec.joint] = True
    support: list[int] = []
    for frame in frames:
        path, j = [], int(frame["joint"])
        while j >= 0:
            path.append(j)
            j = joints["parent"][j]
        frame["support_begin"] = len(support)
        support += reversed(path)
        frame["support_end"] = len(support)
    supports = np.zeros(len(support), SUPPORT)
    supports["joint"], supports["first"] = support, True
    return joints, frames, supports, bool((joints["phase"] != (1, 0)).any())


def library() -> ctypes.CDLL:
    """Compile figures.cpp like the package's kernels, for the best instruction set available."""
    sys.path.insert(0, str(HERE.parent / "tests/support"))
    from harness import instruction_sets

    isa, flags = list(instruction_sets().items())[-1]
    out = HERE.parent / "build/bench/figures.so"
    out.parent.mkdir(parents=True, exist_ok=True)
    options = shlex.split("-std=c++20 -O3 -ffp-contract=off -fno-math-errno -Wall -Wextra -Werror")
    compiler = [*shlex.split(os.environ.get("CXX", "g++")), *options, *flags, f"-DSUPPLE_ISA={isa}"]
    source = ["-fPIC", "-shared", f"-I{HERE.parent / 'include'}", str(HERE / "figures.cpp")]
    subprocess.run([*compiler, *source, "-o", str(out)], check=True)
    built = ctypes.CDLL(str(out))
    sizes = [built.joint_bytes(), built.frame_bytes(), built.support_bytes()]
    if sizes != [JOINT.itemsize, FRAME.itemsize, SUPPORT.itemsize]:
        raise RuntimeError(f"JOINT, FRAME and SUPPORT must have the C++ structs' sizes {sizes}")
    built.figure_updates.restype = ctypes.c_double
    return built


def in_kernel(
    built: ctypes.CDLL, robot: sp.Robot, method: str, updates: int
) -> Callable[[], tuple[float, Array]]:
    """Return a function that runs updates from q = 0 and returns ns per update and the final q."""
    joints, frames, support, phases = flat_chain(robot)
    shape = SHAPES[robot.description.name]
    goals = shape.path(updates).reshape(updates, -1)
    kind = {"transpose": Method.TRANSPOSE, "DLS": Method.DAMPED_CHOLESKY}[method]
    step = _step(shape, method)

    def run() -> tuple[float, Array]:
        q = np.zeros(robot.dof)
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (joints, frames, support)]
        ns = built.figure_updates(
            *(robot.dof, len(joints), len(frames), int(phases)),
            *pointers,
            *(kind.value, ctypes.c_double(shape.lambdas[0] ** 2), ctypes.c_double(step.max_angle)),
            *(ctypes.c_long(updates), ctypes.c_void_p(goals.ctypes.data)),
            ctypes.c_void_p(q.ctypes.data),
        )
        return float(ns), q

    return run


def in_python(robot: sp.Robot, method: str, updates: int) -> Array:
    """Run the same loop through the public interface; return the final q (n,)."""
    shape = SHAPES[robot.description.name]
    step = _step(shape, method)
    q = np.zeros(robot.dof)
    for goal in shape.path(updates).reshape(updates, -1):
        T, J = robot.fk_jacobian(q, robot.tips)
        e = goal - T[:, :3, 3].ravel()
        q = q + step(sp.Linearization(J[:, :3].reshape(len(e), -1), e))
    return q


def _step(shape: buss.Shape, method: str) -> sp.steps.AngleClamp:
    return buss.transpose() if method == "transpose" else buss.dls(shape.lambdas[0])


def _time(run: Callable[[], tuple[float, Array]]) -> float:
    return run()[0]


def main(rounds: int) -> None:
    """Measure the updates, check them against Python, and print and write the table."""
    measure.one_core()
    built = library()
    robots = {name: sp.load(name) for name in SHAPES}
    paper_us = {
        (name, method): us
        for name, shape in SHAPES.items()
        for method, us in zip(METHODS, shape.paper_us, strict=True)
    }
    runs = {key: in_kernel(built, robots[key[0]], key[1], UPDATES) for key in paper_us}
    timed = {", ".join(key): partial(_time, run) for key, run in runs.items()}
    took = measure.medians(measure.interleaved(timed, rounds))
    rows = []
    for (figure, method), paper in paper_us.items():
        ns, robot = took[f"{figure}, {method}"], robots[figure]
        off = in_kernel(built, robot, method, FEW)()[1] - in_python(robot, method, FEW)
        rows.append(
            f"| {figure}, {method} | {ns:.0f} | {paper * 1e3:.0f} | {paper * 1e3 / ns:.1f} "
            f"| {np.abs(off).max():.1e} |"
        )
    ratio = {f: took[f"{f}, DLS"] / took[f"{f}, transpose"] for f in SHAPES}
    lines = [
        "# One update of Buss's figures, inside the kernel",
        "",
        "Forward kinematics, Jacobian, error, step, cap on angles; positions of 2 and 4 effectors "
        "(6 rows, 7 joints; 12 rows, 25 joints) that follow the targets of Buss's program; DLS by "
        f"Cholesky. float64, one at a time, one core, {UPDATES} updates a round, {rounds} "
        "interleaved rounds, medians of processor time. The paper's times are of a 2.8 GHz "
        "Pentium.",
        measure.provenance(("supple", "numpy")),
        "",
        f"| | ns per update | the paper's | faster | q after {FEW} updates, from Python's |",
        "|---|---:|---:|---:|---:|",
        *rows,
        "",
        f"Transpose : DLS is 1 : {ratio['y']:.1f} for the Y (the paper's 1 : 2.0) and 1 : "
        f"{ratio['double_y']:.1f} for the double Y (1 : 2.8).",
        "",
    ]
    print("\n".join(lines))
    print("written to", measure.write("figures", "\n".join(lines)))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 21)
