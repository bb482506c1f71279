"""`plan_path` never needs more reconfigurations than an exhaustive search over dense samples."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import supple as sp
from sizes import nightly
from solving import solve
from supple.paths.refine import refined

Array = NDArray[np.float64]

UR5E = sp.load("ur5e")
PANDA = sp.load("panda")
DENSE = 20  # number of samples in the exhaustive search for each target
# Largest step between samples of one branch [rad]; near a fold, the tool moves by 0.05 mm.
NEAR = 0.02


def wandering(rng: np.random.Generator, joints: int, turns: Array) -> Array:
    """Return joint coordinates (80, n) along a smooth random path."""
    s = np.linspace(0, 1, 80)[:, None]
    return rng.uniform(-1, 1, joints) + s * turns + 0.6 * np.sin(5 * s + rng.uniform(0, 6, joints))


def dense(poses: Array) -> Array:
    """Return the poses of a path, with interpolated poses between them: DENSE per interval."""
    f = np.arange(DENSE) / DENSE
    every = [sp.poses.interpolate(A, B, f) for A, B in pairwise(poses)]
    return np.concatenate([*every, poses[-1:]])


def solutions(robot: sp.Robot, poses: Array) -> list[Array]:
    """Return all solutions (s, n) of each pose."""
    found = solve(robot, poses, solutions="all")
    return np.split(found.q, np.cumsum(found.count)[:-1])


def fewest(layers: list[Array], each: int, near: float) -> int | None:
    """Return the fewest reconfigurations along a path; None if a target has no solution.

    `layers` are the solutions of all samples; every `each`-th sample is a target. A motion may
    continue to every solution within `near`. Reconfigurations are allowed at targets, and between
    two targets only if no motion connects them.
    """
    if any(not len(q) for q in layers[::each]):
        return None
    changes = np.zeros(len(layers[0]))
    for i in range(0, len(layers) - 1, each):
        interval = layers[i : i + each + 1]
        # The motion enters the interval without a change, or after one at the target before it.
        passed = carried(np.minimum(changes, changes.min() + 1), interval, near)
        if not np.isfinite(passed).any():
            passed[:] = changes.min() + 1
        changes = np.minimum(passed, passed.min() + 1)
    return int(changes.min())


def carried(changes: Array, layers: list[Array], near: float) -> Array:
    """Return, for each solution of the last layer, the fewest changes of a motion that ends there
    without a change between the layers.
    """
    for before, after in pairwise(layers):
        step = np.abs(after[:, None] - before).max(axis=2, initial=0.0)
        changes = np.where(step < near, changes, np.inf).min(axis=1, initial=np.inf)
    return changes


MIDDLE, ROOM = (PANDA.upper + PANDA.lower) / 2, (PANDA.upper - PANDA.lower) / 2
LIMITED = PANDA.with_limits(lower=MIDDLE - 0.85 * ROOM, upper=MIDDLE + 0.85 * ROOM)
JOINT = PANDA.joint_names.index("panda_joint5")


@cache
def frozen() -> list[tuple[float, sp.Solver]]:
    """Return a solver of LIMITED with joint 5 frozen, for each value of a grid."""
    grid = np.linspace(LIMITED.lower[JOINT], LIMITED.upper[JOINT], 120)
    return [(x, sp.Solver(LIMITED.freeze({PANDA.joint_names[JOINT]: x}))) for x in grid]


def on_grid(poses: Array) -> list[Array]:
    """Return all solutions (s, 7) of each pose with joint 5 on the grid."""
    found = [(x, solver.all(poses)) for x, solver in frozen()]
    q = np.concatenate([np.insert(every.q, JOINT, x, axis=1) for x, every in found])
    of = np.concatenate([every.target for _, every in found])
    ends = np.cumsum(np.bincount(of, minlength=len(poses)))
    return np.split(q[np.argsort(of, kind="stable")], ends[:-1])


# 38: targets beside a fold of the elbow
@pytest.mark.parametrize("seed", [*range(nightly(24, 4)), 38])
def test_planned_paths_of_six_joints_have_the_fewest_reconfigurations(seed: int) -> None:
    """Limits force reconfigurations; `plan_path` needs no more of them than the
    exhaustive search.
    """
    rng = np.random.default_rng(seed)
    middle = rng.uniform(-1, 1, 6)
    room = rng.uniform(2.6, 3.1, 6)
    robot = UR5E.with_limits(lower=middle - room, upper=middle + room)
    turns = rng.uniform(-1, 1, 6) * [4, 0.6, 0.6, 4, 4, 9]
    poses = UR5E.fk(middle + wandering(rng, 6, turns))
    least = fewest(solutions(robot, dense(poses)), DENSE, NEAR)
    found = sp.plan_path(robot, poses)
    assert found.success == (least is not None)
    if least is not None:
        assert len(found.reconfigurations) <= least
    for change in found.reconfigurations:
        at = int(change.at)
        assert np.abs(robot.fk(change.after) - poses[at]).max() < 1e-6
        assert min(np.abs(robot.fk(change.before) - poses[at - k]).max() for k in (0, 1)) < 1e-6


@pytest.mark.parametrize("seed", [*range(nightly(8, 1)), 45])  # 45: a motion along joint limits
def test_planned_paths_of_seven_joints_have_the_fewest_reconfigurations(seed: int) -> None:
    rng = np.random.default_rng(seed)
    turns = rng.uniform(-1, 1, 7) * ROOM
    q = np.clip(wandering(rng, 7, turns) + MIDDLE, PANDA.lower, PANDA.upper)
    poses = PANDA.fk(q)
    least = fewest(on_grid(poses), 1, 0.15)
    found = sp.plan_path(LIMITED, poses)
    if least is None:
        return
    assert found.success
    assert len(found.reconfigurations) <= least


@pytest.mark.parametrize(
    "tasks", [None, sp.PositionTask("panda_hand_tcp")], ids=["pose", "position"]
)
@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("first", [3, 200, 333, 490])
def test_a_path_ends_at_a_target_out_of_reach_after_refining_few_routes(
    monkeypatch: pytest.MonkeyPatch, first: int, count: int, tasks: sp.PositionTask | None
) -> None:
    """Only targets in reach have sampled configurations; few routes through them are refined."""
    routes: list[Any] = []
    T = np.tile(PANDA.fk([0.0, -0.6, 0.0, -2.2, 0.0, 1.7, 0.8]), (500, 1, 1))
    T[:, 1, 3] += np.linspace(-0.03, 0.03, 500)
    T[first : first + count, 0, 3] += 2.0
    path = T if tasks is None else T[:, :3, 3]

    def counted(*arguments: Any) -> Any:
        routes.append(arguments)
        return refined(*arguments)

    monkeypatch.setattr("supple.paths.planning.refined", counted)
    found = sp.plan_path(PANDA, path, tasks=tasks)
    assert np.isfinite(found.q).all(axis=1).sum() == first
    assert found.obstacle is not None
    assert found.obstacle.startswith(f"at {first}: the target is out of reach")
    assert len(routes) <= 3
