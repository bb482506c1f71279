"""How a solve went, in words: what is hard there, what blocks, what the failed starts came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from supple.control.trajectory import Status
from supple.ik.problem import Search
from supple.motion.diagnostics import Report, explain
from supple.motion.linearization import Array, Linearization
from supple.motion.steps.step import DLS

AtLimit: TypeAlias = tuple[str, Literal["lower", "upper"]]  # which joint, and at which end
_NEAR = 1e-6  # of a limit [rad or m]
_PULL = 1e-6  # of what e could ask of a joint: what is less cannot be told from rounding


@dataclass(frozen=True)
class SolveReport:
    """What `solve` with `explain=True` tells of an answer; `str()` of it is a few sentences.

    Attributes:
        report: Of the weighted J and e at the answer, as `supple.explain` makes it: all singular
            directions in words, what is lost, the damping there and why.
        sigma_min: The least singular value there.
        lambda2: The damping there.
        at_limit: The joints that sit at a limit, each with its end: "lower" or "upper".
        blocking: Those of them that keep the answer from coming closer: the error pulls them out.
        starts: How many there were, those that ran side by side included.
        failed: How many of them came to rest elsewhere, or got nowhere.
        best_failed: How far the best of those was from the target [m], [rad]; None if none failed.
            Tasks that share no joint have starts of their own: that is the worst of their best.
        iterations: Of the search, until it found the answer.
        seconds: That the call took.
    """

    report: Report
    sigma_min: float
    lambda2: float
    at_limit: tuple[AtLimit, ...]
    blocking: tuple[AtLimit, ...]
    starts: int
    failed: int
    best_failed: tuple[float, float] | None
    iterations: int
    seconds: float

    def __str__(self) -> str:
        ran = f"{self.starts} start{'s' if self.starts != 1 else ''}"
        lines = [f"{ran}, {self.iterations} iterations, {1e6 * self.seconds:.0f} µs"]
        if self.best_failed is not None:
            far, off = self.best_failed
            came = f"the best of them came to {1e3 * far:.1f} mm and {1e3 * off:.1f} mrad"
            lines.append(f"{self.failed} failed: {came}")
        lines += [f"lost: {words}" for words in self.report.lost]
        if not self.report.lost:
            weakest = self.report.directions[-1].words
            lines.append(f"hardest: {weakest}, singular value {self.sigma_min:.3g}")
        lines.append(self.report.reason)
        for name, end in self.at_limit:
            does = "blocks" if (name, end) in self.blocking else "sits"
            lines.append(f"{name} {does} at its {end} limit")
        return "\n".join(lines)


def make_report(
    search: Search,
    goal: Array,
    q: Array,
    status: int,
    iterations: int,
    failed: Array,
    seconds: float,
) -> SolveReport:
    """The story of an answer q (n,) to a target, as the kernel's numbers (k,).

    `failed` (4,) is how many starts there were and failed, and the errors of the best of those.
    """
    layout, rows = search.layout, slice(search.primary)
    lin = Linearization(
        np.asarray(layout.jacobian(q)[rows], dtype=np.float64),
        np.asarray(layout.error(q, goal)[rows], dtype=np.float64),
        rows=layout.rows[rows],
        q=q,
    )
    report = explain(lin, DLS(search.rule))
    at_limit, blocking = _limits(search, lin, q)
    starts, count, far, off = failed.tolist()
    return SolveReport(
        report=report,
        sigma_min=lin.sigma_min,
        lambda2=report.lambda2 or 0.0,
        at_limit=at_limit,
        blocking=() if status == Status.CONVERGED else blocking,
        starts=int(starts),
        failed=int(count),
        best_failed=(far, off) if count else None,
        iterations=iterations,
        seconds=seconds,
    )


def _limits(
    search: Search, lin: Linearization, q: Array
) -> tuple[tuple[AtLimit, ...], tuple[AtLimit, ...]]:
    """The joints at a limit, and those that the error pulls out."""
    robot = search.layout.robot
    pull = lin.J.T @ lin.e
    enough = _PULL * np.linalg.norm(lin.J, axis=0) * np.linalg.norm(lin.e)
    at: list[AtLimit] = []
    blocking: list[AtLimit] = []
    for j, name in enumerate(robot.joint_names):
        if q[j] <= robot.lower[j] + _NEAR:
            at.append((name, "lower"))
        elif q[j] >= robot.upper[j] - _NEAR:
            at.append((name, "upper"))
        else:
            continue
        if (pull[j] if at[-1][1] == "upper" else -pull[j]) > enough[j]:
            blocking.append(at[-1])
    return tuple(at), tuple(blocking)
