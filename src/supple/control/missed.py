"""How much of its tasks a motion did not perform, as numbers and as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.motion.linearization import Array
from supple.motion.status import StepStatus
from supple.tasks import Task
from supple.tasks.inputs import task_name
from supple.tasks.layout import CompiledTasks

_MENTIONED_LOSS = 1e-3  # smallest loss that is mentioned, as a fraction of the largest command


@dataclass(frozen=True, eq=False)
class TaskShares:
    """The commands of each task in the steps of a motion, and the parts not performed.

    Attributes:
        commanded: Norm of each task's command in each step (K, tasks), of weighted rows.
        missed: Norm of the part of this command that the step did not perform (K, tasks).
        tasks: Names of the tasks as text.
    """

    commanded: Array
    missed: Array
    tasks: tuple[str, ...]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TaskShares):
            return NotImplemented
        return (
            self.tasks == other.tasks
            and np.array_equal(self.commanded, other.commanded)
            and np.array_equal(self.missed, other.missed)
        )

    __hash__ = None  # type: ignore[assignment]  # arrays have no hash

    @staticmethod
    def of(layout: CompiledTasks, commanded: Array, left: Array) -> TaskShares:
        """Return the shares, given weighted rows (K, m): commands, and the parts `left` undone."""
        begin = np.cumsum([0, *layout.counts[:-1]])
        commanded, left = (np.hypot.reduceat(np.abs(x), begin, axis=-1) for x in (commanded, left))
        return TaskShares(commanded, left, unique_names(layout.tasks))

    def part(self, index: Any) -> TaskShares:
        """Return the shares of the steps that an index selects."""
        return replace(self, commanded=self.commanded[index], missed=self.missed[index])

    def then(self, other: TaskShares | None) -> TaskShares | None:
        """Return the shares of this motion and then `other`; None if their tasks differ."""
        if other is None or other.tasks != self.tasks:
            return None
        commanded = np.concatenate([self.commanded, other.commanded])
        return replace(
            self, commanded=commanded, missed=np.concatenate([self.missed, other.missed])
        )

    def sentences(self, status: NDArray[np.int32]) -> tuple[str, ...]:
        """Return a sentence about each task that steps with these statuses (K,) have missed."""
        told = []
        for k, name in enumerate(self.tasks):
            commanded, missed = self.commanded[:, k], self.missed[:, k]
            there = missed > _MENTIONED_LOSS * np.maximum(commanded, commanded.max(initial=0.0))
            if not there.any():
                continue
            share = (missed[there] / np.maximum(commanded[there], missed[there])).max()
            steps = f"{there.sum()} of {len(commanded)} steps"
            told.append(
                f"{name} misses up to {share:.1%} of its command in {steps}: "
                f"{_causes(status[there], len(self.tasks) > 1)}"
            )
        return tuple(told)


def _causes(status: NDArray[np.int32], several: bool) -> str:
    """Return the causes in steps with these statuses and their counts, most frequent first.

    If no limit and no damping acted, the cause is that the joints cannot perform the task, or not
    all tasks at the same time.
    """
    counts = {cause: int(np.count_nonzero(status & int(cause))) for cause in StepStatus}
    told = [
        f"{cause} in {count}"
        for cause, count in sorted(counts.items(), key=lambda item: -item[1])
        if count
    ]
    none = int(np.count_nonzero(status == 0))
    if none:
        what = "the other tasks" if several else "joints that cannot perform it"
        told.append(f"{what} in {none}")
    return ", ".join(told)


def unique_names(tasks: Sequence[Task]) -> tuple[str, ...]:
    """Return the names of tasks as text; a name that several tasks share is numbered."""
    names = [task_name(task) for task in tasks]
    return tuple(
        name if names.count(name) == 1 else f"{name} ({names[: k + 1].count(name)})"
        for k, name in enumerate(names)
    )
