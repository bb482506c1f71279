"""Position IK by analytic solvers, which return all solutions; one within limits is selected."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from position_problem import Answer, Array, Contender, Gate, Maker, Problem

TURN = 2 * np.pi
ALL = "The time is that of the call for all solutions, without choosing one inside the limits."


def axes_and_offsets(problem: Problem) -> tuple[Array, Array, Array]:
    """Return axes (6, 3) and offsets (7, 3) of a 6R arm, and the tool's rotation at q = 0."""
    if len(problem.chain()) != 7:
        raise NotImplementedError("the library needs an arm with six joints")
    poses = np.array(list(accumulate(problem.transforms, np.matmul)))
    origins, axes = poses[:, :3, 3].copy(), poses[:6, :3, 2]
    # ik-geo requires the three wrist axes to share one origin: the point nearest to all of them.
    aside = np.eye(3) - axes[3:, :, None] * axes[3:, None, :]
    center = np.linalg.solve(aside.sum(0), np.einsum("kij,kj->i", aside, origins[3:6]))
    if np.abs(aside @ (center - origins[3:6])[..., None]).max() < 1e-9:
        origins[3:6] = center
    return axes, np.diff(origins, axis=0, prepend=np.zeros((1, 3))), poses[6, :3, :3]


def chosen(problem: Problem, Q: Array, start: Array | None) -> Answer:
    """Return one of the solutions (k, 6) inside the limits: the first, or the nearest to q0."""
    lower, upper = problem.lower, problem.upper
    if start is not None:  # wrap each joint by 2π toward q0, if it stays inside its limits
        Q = Q + TURN * np.round((start - Q) / TURN)
    Q = np.where((lower <= Q) & (upper >= Q), Q, Q + TURN * np.ceil((lower - Q) / TURN))
    Q = Q[(upper >= Q).all(axis=1)]
    if not len(Q):
        return None, False
    return Q[0 if start is None else np.abs(Q - start).max(axis=1).argmin()], True


def eaik(problem: Problem, gate: Gate) -> Contender:
    """Return EAIK as a contender; of its analytic solutions, one inside the limits is chosen."""
    from eaik.IK_HP import HPRobot

    axes, offsets, R = axes_and_offsets(problem)
    robot = HPRobot(axes, offsets)
    if not robot.hasKnownDecomposition():
        raise NotImplementedError("no analytic solution for this arm")

    def prepare(T: Array) -> Array:
        given = T.copy()
        given[:3, :3] = T[:3, :3] @ R.T
        return given

    def pose(T: Array, start: Array | None) -> Any:
        return robot.IK(T)

    def choose(found: Any, start: Array | None) -> Answer:
        exact = [q for q, near in zip(found.Q, found.is_LS, strict=True) if not near]
        return chosen(problem, np.array(exact), start) if exact else (None, False)

    note = f"{robot.getKinematicFamily()}. {ALL}"
    return Contender(pose, ("EAIK",), prepare, note, choose)


def ik_geo(problem: Problem, gate: Gate) -> Contender:
    """Return ik-geo as a contender, with its most specialized analytic solver for this arm."""
    from ik_geo import Robot

    axes, offsets, R = axes_and_offsets(problem)
    q = problem.seed

    def prepare(T: Array) -> tuple[Array, Array]:
        return np.ascontiguousarray((T[:3, :3] @ R.T).T), T[:3, 3].copy()  # ik-geo reads columns

    def arm(family: str) -> Contender:
        robot = getattr(Robot, family)(axes, offsets)

        def pose(T: tuple[Array, Array], start: Array | None) -> Any:
            return robot.get_ik(*T)

        def choose(found: Any, start: Array | None) -> Answer:
            exact = [q for q, near in found if not near]
            return chosen(problem, np.array(exact), start) if exact else (None, False)

        return Contender(pose, ("ik-geo",), prepare, f"{family}. {ALL}", choose)

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
        assert one.choose is not None
        answer = one.choose(one.solve(prepare(problem.fk(q)), None), None)[0]
        if answer is not None and np.allclose(problem.fk(answer), problem.fk(q), atol=1e-6):
            return one
    raise NotImplementedError("no analytic solution for this arm")


def ssik(problem: Problem, gate: Gate) -> Contender:
    """Return ssik as a contender: a solver built for a 6R arm, or shipped with ssik for a 7R arm.

    The shipped solver may have other base and tool frames; targets are converted to them.
    """
    from ssik import Manipulator
    from ssik._native import native_available

    if not native_available():
        raise ImportError("ssik's compiled module is missing")
    before, after = np.eye(4), np.eye(4)
    if len(problem.chain()) == 7:
        arm = built(problem)
    elif len(problem.transforms) == 8:
        arm = Manipulator.from_prebuilt(problem.name)
        rng = np.random.default_rng(0)
        some = rng.uniform(problem.lower, problem.upper, (8, 7))
        before, after = between([problem.fk(q) for q in some], [arm.fk(q) for q in some])
    else:
        raise NotImplementedError("the library needs an arm with six or seven joints")

    def prepare(T: Array) -> Array:
        return np.ascontiguousarray(before @ T @ after)

    def pose(T: Array, start: Array | None) -> Answer:
        found = arm.solve(T, q_seed=start, max_solutions=1)
        return (found[0].q, True) if found else (None, False)

    return Contender(pose, ("ssik",), prepare, "max_solutions = 1.")


def built(problem: Problem) -> Any:
    """Return the module made by `ssik build`, which is run if the module is not installed."""
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
    """Return X and Y (4, 4) such that the other library's poses are X T Y for our poses T."""
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
        raise NotImplementedError("the shipped solver is for an arm with other kinematics")
    return X, Y


CONTENDERS: dict[str, Maker] = {"ssik": ssik, "EAIK": eaik, "ik-geo": ik_geo}
