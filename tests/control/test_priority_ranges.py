"""Tasks with ranges and priorities: each misses as little as the tasks above it allow."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

from generated import seeds
from loops import robot
from supple import DLS, Limits, PositionTask, PostureTask, Servo, StepStatus, damping
from supple.redundancy import Priority
from supple.steps import Pseudoinverse
from supple.tasks import OpenTask

Array = np.ndarray
Level = tuple[Array, Array, Array]  # J (m, n) and the ends of the intervals of J q̇ (m,), (m,)
FRAMES = ("panda_link8", "panda_link8", "panda_link4")
GAIN = 10.0


def misses(levels: list[Level], dq: Array) -> list[float]:
    """Return, for each level, the distance of J q̇ from its intervals."""
    return [
        float(np.linalg.norm(np.maximum(np.maximum(low - J @ dq, J @ dq - high), 0)))
        for J, low, high in levels
    ]


def inverse(J: Array) -> Array:
    """Return the pseudoinverse of J; singular values below 1e-9 count as zero."""
    U, sigma, Vt = np.linalg.svd(J, full_matrices=False)
    return np.asarray((Vt.T * np.where(sigma > 1e-9, 1 / np.maximum(sigma, 1e-300), 0)) @ U.T)


def least_misses(levels: list[Level]) -> list[float]:
    """Return the least misses in lexicographic order, by trying all sets of active rows.

    In the optimum, active rows are equations at an end of their interval; other rows do not act.
    """
    n = levels[0][0].shape[1]
    ranged = [(k, i) for k, (_, low, high) in enumerate(levels) for i in np.flatnonzero(low < high)]
    found = []
    for ends in product((0, 1, -1), repeat=len(ranged)):
        held = dict(zip(ranged, ends, strict=True))
        dq, above = np.zeros(n), np.zeros((0, n))
        for k, (J, low, high) in enumerate(levels):
            rows = [i for i in range(len(J)) if held.get((k, i), 1) != 0]
            if not rows:
                continue
            e = np.array([high[i] if held.get((k, i), 1) > 0 else low[i] for i in rows])
            if not np.isfinite(e).all():
                break
            N = np.eye(n) - inverse(above) @ above
            dq = dq + inverse(J[rows] @ N) @ (e - J[rows] @ dq)
            above = np.concatenate([above, J[rows]])
        else:
            found.append(tuple(np.round(misses(levels, dq), 8)))
    return list(min(found))


def drawn(rng: np.random.Generator) -> tuple[Array, list[PositionTask], list[Array], list[Level]]:
    """Return q, three tasks of a Panda with up to five ranges, and their targets and levels."""
    arm = robot("panda")
    q = 0.7 * arm.random(1, seed=int(rng.integers(1 << 30)))[0]
    tasks, targets, levels, left = [], [], [], 5
    for frame in FRAMES:
        rows = [row for row in range(3) if rng.random() < 0.7] or [0]
        ends = np.zeros((3, 2))
        for row in rows:
            if left and rng.random() < 0.6:
                ends[row] = rng.normal() * 0.1 + abs(rng.normal()) * 0.15 * np.array([-1, 1])
                open_end = rng.integers(3)
                ends[row, open_end:] = np.inf if open_end == 1 else ends[row, open_end:]
                ends[row, :1] = -np.inf if open_end == 0 else ends[row, :1]
                left -= 1
        ranges = {"xyz"[i]: tuple(ends[i]) for i in rows if ends[i, 0] < ends[i, 1]}
        offset = 0.1 * rng.normal(size=3)
        tasks.append(PositionTask(frame, rows=["xyz"[i] for i in rows], tolerance=ranges or None))
        targets.append(arm.fk(q, frame)[:3, 3] + offset)
        low, high = GAIN * (offset[rows] + ends[rows, 0]), GAIN * (offset[rows] + ends[rows, 1])
        levels.append((arm.jacobian(q, frame)[rows], low, high))
    return q, tasks, targets, levels


@cache
def problem(seed: int) -> tuple[Array, list[PositionTask], list[Array], list[Level], list[float]]:
    """Return the results of `drawn`, and the least possible errors of the levels."""
    made = drawn(np.random.default_rng(seed))
    return (*made, least_misses(made[3]))


def as_open(task: PositionTask) -> OpenTask:
    """Return an open task with the rows and ranges of a position task."""
    arm, rows = robot("panda"), ["xyz".index(row) for row in task.rows or "xyz"]

    def position(q: Array) -> tuple[Array, Array]:
        return arm.fk(q, task.frame)[rows, 3], arm.jacobian(q, task.frame)[rows]

    return OpenTask(position, rows=[f"p{k}" for k in rows], tolerance=renamed(task))


def renamed(task: PositionTask) -> dict[str, tuple[float, float]] | None:
    """Return the ranges of a task by the names of rows that `as_open` uses."""
    given: Any = dict(task.tolerance or ())
    return {f"p{'xyz'.index(row)}": ends for row, ends in given.items()} or None


@pytest.mark.parametrize("own", [False, True], ids=["kernel", "open tasks"])
@pytest.mark.parametrize("seed", seeds(30))
def test_tasks_with_ranges_and_priorities_miss_as_little_as_possible(seed: int, own: bool) -> None:
    """The misses, in the order of the tasks, are the least that any set of active rows gives."""
    q, tasks, targets, levels, least = problem(seed)
    given: Any = tasks
    if own:
        given = [as_open(task) for task in tasks]
        targets = [
            target[["xyz".index(row) for row in task.rows or "xyz"]]
            for task, target in zip(tasks, targets, strict=True)
        ]
    free = Limits.none(robot("panda"))
    for step in (Pseudoinverse(), DLS(damping.Constant(1e-14))):
        servo = Servo(robot("panda"), given, dt=1e-3, step=Priority(step), limits=free, gain=GAIN)
        servo(q, target=targets)
        np.testing.assert_allclose(misses(levels, servo.qd), least, atol=1e-6)
        np.testing.assert_allclose(servo.missed, least, atol=1e-6)


def test_random_tasks_with_ranges_conflict_at_every_level_but_the_first() -> None:
    missed = np.array([problem(seed)[4] for seed in range(40)])
    assert (missed[:, 1:] > 1e-3).sum(axis=0).min() >= 3


def test_joint_limits_take_precedence_over_ranges_of_tasks() -> None:
    arm, rng = robot("panda"), np.random.default_rng(0)
    limits = Limits.for_robot(arm, speed_factor=0.1)
    tasks = [PositionTask("panda_link8", tolerance=0.01), PostureTask(tolerance=0.2)]
    servo = Servo(arm, tasks, dt=0.01, limits=limits, step=Priority(DLS(damping.Constant(1e-4))))
    q = arm.neutral()
    target = (arm.fk(q + 0.2 * rng.normal(size=7), "panda_link8")[:3, 3], q + 1.0)
    held = False
    for _ in range(900):
        q = servo(q, target=target)
        assert (np.abs(servo.qd) <= 0.1 * arm.max_speed * (1 + 1e-12)).all()
        assert ((q >= arm.lower) & (q <= arm.upper)).all()
        held = held or StepStatus.SPEED_LIMIT in servo.status
    assert held
    assert np.abs(arm.fk(q, "panda_link8")[:3, 3] - target[0]).max() < 0.011
