"""Diagnosis of a solution: nearly singular directions, blocking joints and failed seeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from supple.control.diagnostics import Report, explain
from supple.ik.problem import CompiledProblem
from supple.ik.status import SolveStatus
from supple.ik.task_errors import missed_text, surplus_rows
from supple.kinematics import Robot
from supple.kinematics.configuration import difference, to_kernel
from supple.motion.linearization import Array, Linearization
from supple.steps.basic import DLS

if TYPE_CHECKING:
    from supple.ik.solution import Solution

# Name of a joint, and the bound that it is at: a joint limit, or `max_move` from q0.
AtLimit: TypeAlias = tuple[str, Literal["lower", "upper", "max_move"]]
_AT_LIMIT = 1e-6  # distance from a limit below which a joint is at the limit [rad or m]
# Smallest relevant |Jᵀe| of a joint, relative to its largest possible value, ‖column of J‖ ‖e‖.
_SMALLEST_PULL = 1e-6
_SUSPECT_DISTANCE = 20.0  # distance of a target, in units of the reach, that suggests millimeters
_SAMPLES = 64  # number of random configurations from which the reach is estimated


@dataclass(frozen=True)
class SolveReport:
    """The diagnosis of a solution by `solve(explain=True)`; `str()` returns it in sentences.

    Attributes:
        explanation: The report of `supple.explain` at the solution: all singular directions of the
            weighted J, the damping and its reason.
        sigma_min: Smallest singular value of the weighted J at the solution.
        lambda2: Damping at the solution.
        at_limit: Joints that move a task and are at a bound: the name of each, with "lower" or
            "upper" for a joint limit, or "max_move" for the largest displacement from q0.
        blocking: Joints whose limit keeps the solution from coming closer to the target: the
            gradient of the error would move them out of their range.
        seeds: Number of seeds, including those that ran in parallel.
        failed: Number of seeds that did not lead to a solution.
        stopped: Number of seeds that were still running when the target was given up.
        best_failed: Position and rotation error of the best failed seed [m], [rad]; None if no seed
            failed. If the problem was split, the largest errors among its subproblems.
        iterations: Iterations of the search until it found the solution.
        seconds: Time of the call [s].
        hint: A likely mistake in the target; empty if there is none.
        missed: Tasks that are not met, if the call has several tasks: for each its name in words,
            and its position and rotation error [m], [rad].
        surplus: A sentence if the tasks have more rows than joints that move them, so that only
            special targets can be met; else empty.
    """

    explanation: Report
    sigma_min: float
    lambda2: float
    at_limit: tuple[AtLimit, ...]
    blocking: tuple[AtLimit, ...]
    seeds: int
    failed: int
    stopped: int
    best_failed: tuple[float, float] | None
    iterations: int
    seconds: float
    hint: str = ""
    missed: tuple[tuple[str, float, float], ...] = ()
    surplus: str = ""

    def __str__(self) -> str:
        lines = [missed_text(self.missed)] if self.missed else []
        lines += [line for line in (self.surplus, self.hint) if line]
        ran = f"{self.seeds} seed{'s' if self.seeds != 1 else ''}"
        lines.append(f"{ran}, {self.iterations} iterations, {1e6 * self.seconds:.0f} µs")
        if self.failed:
            ended = f", {self.stopped} stopped early" if self.stopped else ""
            lines.append(f"{self.failed} failed{ended}")
        lines += [f"lost: {words}" for words in self.explanation.lost]
        if not self.explanation.lost:
            weakest = self.explanation.directions[-1].words
            lines.append(f"weakest: {weakest}, singular value {self.sigma_min:.3g}")
        else:  # the reason for the damping
            lines.append(self.explanation.reason)
        for name, end in self.at_limit:
            does = "blocks" if (name, end) in self.blocking else "sits"
            limit = "max_move from q0" if end == "max_move" else f"its {end} limit"
            lines.append(f"{name} {does} at {limit}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from supple.plot.html import solve_report_html

        return solve_report_html(self)


def make_report(
    problem: CompiledProblem,
    target: Array,
    solution: Solution,
    failed: Array,
    seconds: float,
    max_move: float | None = None,
) -> SolveReport:
    """Return the diagnosis of a solution.

    Args:
        problem: The problem.
        target: The target (k,) in the kernel's layout.
        solution: The solution.
        failed: Number of seeds, number of failed seeds, and the position and rotation error of the
            best failed seed [m], [rad] (4,).
        seconds: Time of the call [s].
        max_move: Largest joint displacement from q0 [rad or m]; None for no bound.
    """
    q, status = solution.q, solution.status
    layout, rows = problem.layout, slice(problem.primary)
    J, e = layout._rows(q, target)
    lin = Linearization(
        np.asarray(J[rows], dtype=np.float64),
        np.asarray(e[rows], dtype=np.float64),
        rows=layout.rows[rows],
        q=q,
    )
    explanation = explain(lin, DLS(problem.rule))
    at_limit, blocking = _limits(problem, lin, q, solution.q0, max_move or np.inf)
    seeds, count, position, rotation = failed.tolist()
    met = status == SolveStatus.CONVERGED
    return SolveReport(
        explanation=explanation,
        sigma_min=lin.sigma_min,
        lambda2=explanation.lambda2 or 0.0,
        at_limit=at_limit,
        blocking=() if met else blocking,
        seeds=int(seeds),
        failed=int(count),
        stopped=0 if met else int(seeds - count),
        best_failed=(position, rotation) if count else None,
        iterations=solution.iterations,
        seconds=seconds,
        hint="" if met else unit_hint(layout.robot, solution.position_error),
        missed=() if met else solution._missed_tasks,
        surplus="" if met else surplus_rows(layout.robot, layout.tasks),
    )


def unit_hint(robot: Robot, away: float) -> str:
    """Return a sentence if the target is so far away [m] that its unit is in doubt, else ""."""
    frames = robot.fk(robot.random(_SAMPLES, seed=0), robot.tips)[..., :3, 3]
    reach = float(np.linalg.norm(frames - frames.mean(axis=0), axis=-1).max())
    if not away > _SUSPECT_DISTANCE * reach:
        return ""
    return (
        f"the target is {away:.3g} m away, and the robot reaches about {reach:.2g} m: are the "
        "target's coordinates in meters?"
    )


def _limits(
    problem: CompiledProblem, lin: Linearization, q: Array, q0: Array | None, max_move: float
) -> tuple[tuple[AtLimit, ...], tuple[AtLimit, ...]]:
    """Return the joints at a limit, and the joints among them that block: see `SolveReport`."""
    robot = problem.layout.robot
    pull = lin.J.T @ lin.e
    smallest = _SMALLEST_PULL * np.linalg.norm(lin.J, axis=0) * np.linalg.norm(lin.e)
    moved = np.zeros(robot.nv) if q0 is None else difference(robot, q, q0)
    x = to_kernel(robot, q)  # one coordinate for each limit
    at: list[AtLimit] = []
    blocking: list[AtLimit] = []
    moves = lin.J.any(axis=0)  # joints that move a task; joints of fingers do not move the hand
    for j in np.flatnonzero(moves).tolist():
        name = robot.joint_names[j]
        if x[j] <= robot.lower[j] + _AT_LIMIT:
            at.append((name, "lower"))
        elif x[j] >= robot.upper[j] - _AT_LIMIT:
            at.append((name, "upper"))
        elif abs(moved[j]) >= max_move - _AT_LIMIT:
            at.append((name, "max_move"))
        else:
            continue
        outward = at[-1][1] == "upper" or (at[-1][1] == "max_move" and moved[j] > 0)
        if (pull[j] if outward else -pull[j]) > smallest[j]:
            blocking.append(at[-1])
    return tuple(at), tuple(blocking)
