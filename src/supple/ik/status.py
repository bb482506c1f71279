"""Statuses of a solve."""

from __future__ import annotations

from enum import IntEnum

from supple._core import Outcome


class SolveStatus(IntEnum):
    """The status of a solve.

    A status prints as a word, and `sentence` explains it.

    Attributes:
        CONVERGED: The solution was verified in double precision.
        UNREACHABLE: A plane separates the target from everything that the robot reaches: no
            solution exists. The closest pose found is returned.
        TIMEOUT: The time limit was reached; the best configuration so far is returned.
        NONFINITE_INPUT: A target or a seed is not finite; nothing was solved.
        NOT_CONVERGED: No seed led to a solution, and nothing proves that there is none. The
            closest pose found is returned; `restarts` and `iterations` say how much was tried.
        MAX_MOVE: No solution was found within `max_move` of q0; the closest pose found there is
            returned. The target may be reachable farther from q0.
        BLOCKED: The target is reachable, but all solutions found collide, or come closer than the
            clearance; one of them is returned. `Solution.pairs` names what collides, and
            `Solution.is_proven` says whether no other solution exists.
    """

    CONVERGED = Outcome.SOLVED.value
    UNREACHABLE = Outcome.UNREACHABLE.value
    TIMEOUT = Outcome.TIMEOUT.value
    NONFINITE_INPUT = Outcome.NONFINITE.value
    NOT_CONVERGED = Outcome.NOT_CONVERGED.value
    MAX_MOVE = Outcome.MAX_MOVE.value
    BLOCKED = Outcome.BLOCKED.value

    @property
    def sentence(self) -> str:
        """The status in a sentence."""
        return _SENTENCES[self]

    def __str__(self) -> str:
        return self.name.lower()

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


_SENTENCES = {
    SolveStatus.CONVERGED: "the targets are met within the tolerances",
    SolveStatus.UNREACHABLE: "the target is out of reach; this is the closest pose found",
    SolveStatus.TIMEOUT: "the time limit was reached; this is the best pose so far",
    SolveStatus.NONFINITE_INPUT: "the target or the seed is not finite; nothing was solved",
    SolveStatus.NOT_CONVERGED: "no solution was found; this is the closest pose found, and the "
    "targets may still be reachable",
    SolveStatus.MAX_MOVE: "no solution was found within max_move of q0; this is the closest pose "
    "found there",
    SolveStatus.BLOCKED: "the targets can be met, but all solutions found collide; this is one of "
    "them",
}

STATUS = tuple(SolveStatus)  # statuses, indexed by their values
# Statuses of a search within `max_move` of q0, indexed by the same values.
NEAR_STATUS = tuple(
    SolveStatus.MAX_MOVE
    if status in (SolveStatus.UNREACHABLE, SolveStatus.NOT_CONVERGED)
    else status
    for status in STATUS
)
