"""Solutions as text: a list of the solutions of one target, or a summary of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from supple.ik.report import unit_hint
from supple.ik.solution import small_errors
from supple.ik.status import SolveStatus
from supple.ik.task_errors import surplus_rows
from supple.kinematics.branch import branch_legend, has_branches
from supple.motion.unit_text import error_text, joint_unit
from supple.tasks.inputs import task_name

if TYPE_CHECKING:
    from supple.ik.solutions import Solutions

_MAX_LISTED = 20  # maximum number of solutions in a list


def short_text(found: Solutions) -> str:
    """Return the shape of solutions and how many have converged, for a repr."""
    if found._on_gpu:
        return f"{found.shape}, in GPU memory"
    if found._targets:
        return f"{found.shape}: solutions of {found.count.size} targets"
    missed = "".join(f", {count} miss {name}" for name, count, _, _ in missed_tasks(found))
    return f"{found.shape}: {int(found.success.sum())} of {found.size} converged{missed}"


def summary(found: Solutions) -> str:
    """Return the text that `str()` gives."""
    if found._on_gpu:
        targets = found.size if found._targets is None else int(np.prod(found._targets))
        every = "all solutions of " * (found._targets is not None)
        return f"{every}{targets} targets, in GPU memory"
    if found._targets is None:
        return _of_batch(found)
    return _of_each(found) if found._targets else _of_one(found)


def missed_tasks(found: Solutions) -> list[tuple[str, int, float, float]]:
    """Return the tasks that are missed, if there are several tasks.

    Each entry has the name of the task, the number of targets at which it is missed, and its
    largest position and rotation error among the missed targets whose errors are finite.
    """
    if found._task_targets is None or found.success.all():
        return []
    failed = found[~found.success]
    errors = failed._errors().reshape(-1, len(found.tasks), 2)
    errors = errors[np.isfinite(errors).all(axis=(1, 2))]
    above = np.any(errors > found._task_targets.tolerances, axis=-1)
    return [
        (task_name(task), int(above[:, k].sum()), *errors[:, k].max(axis=0).tolist())
        for k, task in enumerate(found.tasks)
        if above[:, k].any()
    ]


def _of_batch(found: Solutions) -> str:
    """Return, as text, the number of targets of a batch with each status."""
    counts = [(status, found.status.count(status)) for status in SolveStatus]
    lines = [f"{found.size} target{'s' if found.size != 1 else ''}"]
    lines += [f"  {n:>6} {status}: {status.sentence}" for status, n in counts if n]
    lines += [
        f"  {n:>6} miss {name}, by up to {error_text(position, rotation)}"
        for name, n, position, rotation in missed_tasks(found)
    ]
    if found.robot is not None and found.tasks and not found.success.all():
        surplus = surplus_rows(found.robot, found.tasks)
        lines += [surplus] * bool(surplus)
    if found.robot is not None and found.status.count(SolveStatus.UNREACHABLE) == found.size > 0:
        hint = unit_hint(found.robot, float(found.position_error.min()))
        lines += [hint] * bool(hint)
    return "\n".join(lines)


def _of_each(found: Solutions) -> str:
    """Return, as text, the numbers of targets and solutions, and of targets with all solutions."""
    count, complete = found.count.ravel(), int(found.complete.sum())
    lines = [f"{len(found.q)} solutions of {count.size} targets, {complete} of them complete"]
    numbers, targets = np.unique(count, return_counts=True)
    lines += [f"  {t:>6} with {n}" for n, t in zip(numbers, targets, strict=True)]
    return "\n".join(lines)


def _of_one(found: Solutions) -> str:
    """Return a list of the solutions of one target."""
    count = found.status.count(SolveStatus.CONVERGED)
    if not count:
        return f"no solution; {found[0]}" if len(found) else "no solution"
    every = "all " * (bool(found.complete) and count > 1)
    lines = [f"{every}{count} solution{'s' * (count != 1)} of one target, the best first"]
    lines[0] += _units(found)
    named = found.robot is not None and found.frame is not None
    names = found.branch_names if named and has_branches(found.robot, found.frame) else ()  # type: ignore[arg-type]
    for k in range(min(len(found), _MAX_LISTED)):
        joints = " ".join(f"{x:9.4f}" for x in found.q[k])
        lines.append(f"{k:>4}: {joints}{'   ' * bool(names)}{names[k] if names else ''}")
    more = len(found) - _MAX_LISTED
    lines += [f"  and {more} more"] * (more > 0)
    if names:
        assert found.robot is not None
        assert found.frame is not None
        lines += [f"  {line}" for line in branch_legend(found.robot, found.frame)]
    return "\n".join(lines)


def _units(found: Solutions) -> str:
    """Return the unit of the joints and the largest error as text."""
    unit = "" if found.robot is None else f"; joints [{joint_unit(found.robot)}]"
    p, r = float(found.position_error.max()), float(found.rotation_error.max())
    return f"{unit}, errors of at most {small_errors(p, r)}"
