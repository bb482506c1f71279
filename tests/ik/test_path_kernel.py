"""The compiled parts of `plan_path`: interpolated targets, tracks, and the choice of samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import supple as sp
from cases import each
from generated import seeds
from moving_trees import moving
from supple import _core
from supple.ik.problem import compile_problem
from supple.kinematics.rotation import exp
from supple.paths.graph import Cost, PathGraph
from supple.paths.problem import MAX_JUMP, PathProblem
from supple.paths.targets import PathTargets
from supple.tasks.layout import selected_tasks

Array = NDArray[np.float64]

PANDA = sp.load("panda")
HOME = np.array([0.2, 0.5, 0.1, -1.6, 0.2, 1.5, 0.3])


def problem(poses: Array, robot: sp.Robot = PANDA) -> PathProblem:
    selected, single = selected_tasks(robot, robot.tips[0], None)
    own = compile_problem(robot, selected)
    targets = PathTargets.of(own, poses, single, None, 1)
    return PathProblem(own, targets, np.array([1e-4, 1e-3]), Cost(), 1)


def matrices(numbers: Array) -> Array:
    """Return the poses (K, 4, 4) of targets that are given in the kernel's layout (K, 12)."""
    made = np.tile(np.eye(4), (len(numbers), 1, 1))
    made[:, :3] = numbers.reshape(-1, 4, 3).swapaxes(1, 2)
    return made


def line(move: Array, turn: float, count: int) -> Array:
    first, last = PANDA.fk(HOME), PANDA.fk(HOME)
    last[:3, 3] += move
    last[:3, :3] = last[:3, :3] @ exp(np.array([0.6, 0.0, 0.8]) * turn)
    return np.asarray(sp.poses.interpolate(first, last, np.linspace(0, 1, count)))


@each("turn", [0.0, 1e-12, 1e-5, 1.0, 3.0])
def test_targets_between_samples_of_a_path_are_interpolated_poses(turn: float) -> None:
    rng = np.random.default_rng(0)
    poses = line(rng.uniform(-1, 1, 3), turn, 2)
    f = np.concatenate([[0.0, 1.0], rng.random(20)])
    made = matrices(problem(poses).targets(f))
    np.testing.assert_allclose(made, sp.poses.interpolate(*poses, f), atol=1e-12)


@each("seed", ["ur5e", *seeds(12)])
def test_unwinding_a_sequence_keeps_its_poses_and_removes_full_turns(seed: str | int) -> None:
    """The robots include some with ball joints, for which q is not the sum of displacements."""
    robot = sp.load(seed) if isinstance(seed, str) else moving(seed)
    q = robot.random(30, seed=1)
    path = problem(robot.fk(q[:2], robot.tips[0]), robot)
    turned = np.random.default_rng(2).integers(-1, 2, (30, robot.nv)) * path.turns
    made = path.unwound(robot.integrate(q, turned))
    np.testing.assert_array_equal(made[0], robot.integrate(q, turned)[0])
    steps = robot.difference(made[1:], made[:-1])
    assert (np.abs(steps[:, path.turns > 0]) <= np.pi + 1e-9).all()
    np.testing.assert_allclose(steps, path.away(q[1:], q[:-1]), atol=1e-9, rtol=1e-12)
    away = robot.difference(made, q)
    np.testing.assert_allclose(path.wrapped(away), 0, atol=1e-9 * (1 + np.abs(q).max()))


def test_a_track_meets_every_pose_without_jumps_and_can_be_tracked_back() -> None:
    poses = line(np.array([0.05, -0.1, 0.05]), 0.2, 9)
    path = problem(poses)
    x = np.arange(9.0)[None]
    start = np.stack([HOME, sp.redundancy.self_motion(PANDA, HOME).q[10]])
    made = path.tracked(start, path.course(x, 2), 2)
    assert made.shape == (9, 2, 7)
    np.testing.assert_array_equal(made[0], start)
    for at, q in enumerate(made):
        assert np.abs(PANDA.fk(q) - poses[at]).max() < 2e-7
    assert np.abs(np.diff(made, axis=0)).max() < MAX_JUMP
    back = path.tracked(made[-1], path.course(x[:, ::-1], 2), 2)
    assert np.isfinite(back).all()


def test_a_track_ends_where_the_path_jumps() -> None:
    """The last pose is near the first one in joints, but the pose between them is out of reach."""
    poses = line(np.array([0.0, 0.02, 0.0]), 0.0, 3)
    path = problem(poses)
    far = path.targets.numbers.copy()
    far[1, 9:] += [0.0, 0.0, 1.5]  # out of reach
    made = path.tracked(HOME[None], far[None], 0)
    assert np.isfinite(path.tracked(HOME[None], path.targets.numbers[None], 0)).all()
    assert np.isnan(made[1]).all()


def test_a_track_divides_a_joint_motion_that_is_too_long_for_one_step() -> None:
    s = np.linspace(0, 1, 33)[:, None]
    path = problem(PANDA.fk(HOME + s * [1.8, 0, 0, 0, 0, 0, 0]))
    x = path.targets.x[[0, -1]][None]
    assert np.isnan(path.tracked(HOME[None], path.course(x, 0), 0)[1]).all()
    made = path.tracked(HOME[None], path.course(x, 4), 4)[1]
    assert np.abs(made - HOME).max() > MAX_JUMP
    expected = PANDA.fk(HOME + s[-1] * [1.8, 0, 0, 0, 0, 0, 0])
    np.testing.assert_allclose(PANDA.fk(made)[0], expected, atol=2e-7)


def test_thinning_keeps_each_configuration_at_a_minimum_distance_from_those_kept_before() -> None:
    rng = np.random.default_rng(0)
    q, known = rng.uniform(-4, 4, (60, 2)), rng.uniform(-4, 4, (5, 2))
    turns = np.array([2 * np.pi, 0.0])

    def distance(a: Array, b: Array) -> float:
        change = b - a
        change[0] -= 2 * np.pi * np.rint(change[0] / (2 * np.pi))
        return float(np.abs(change).max())

    kept: list[int] = []
    for i, one in enumerate(q):
        if all(distance(one, other) >= 0.5 for other in [*known, *q[kept]]):
            kept.append(i)
    assert 5 < len(kept) < 50
    assert _core.apart(q, known, turns, 0.5).tolist() == kept


def test_the_path_graph_has_all_steps_to_near_configurations() -> None:
    rng = np.random.default_rng(1)
    q = rng.uniform(-4, 4, (4, 9, 2))
    q[1, 7:] = np.nan
    reach, turns = np.array([1.0, 0.6]), np.array([2 * np.pi, 0.0])
    made = PathGraph(np.arange(4.0), q, None, Cost(turns=turns)).with_near_steps(reach)
    assert made.steps is not None
    for i, (a, b) in enumerate(made.steps):
        change = q[i + 1] - q[i, :, None]
        change[..., 0] -= 2 * np.pi * np.rint(change[..., 0] / (2 * np.pi))
        near = np.nonzero((np.abs(change) < reach).all(axis=2))
        np.testing.assert_array_equal([a, b], near)


def test_mutually_nearest_configurations_are_those_of_an_exhaustive_comparison() -> None:
    rng = np.random.default_rng(2)
    before, after = rng.uniform(-4, 4, (2, 30, 5, 2))
    before[3, 4] = after[5, 3:] = np.nan
    sides = rng.choice([-1.0, 0.0, 1.0], (2, 30, 5))
    made = _core.nearest_pairs(before, after, *sides, np.array([2 * np.pi, 0.0]), 1.5)
    change = after[:, None] - before[:, :, None]
    change[..., 0] -= 2 * np.pi * np.rint(change[..., 0] / (2 * np.pi))
    far = np.nan_to_num(np.abs(change).max(axis=3), nan=np.inf)
    far[sides[1][:, None] * sides[0][:, :, None] < 0] = np.inf
    assert 20 < (made >= 0).sum() < 120
    for r, a in np.ndindex(made.shape):
        b = int(far[r, a].argmin())
        mutual = far[r, a, b] < 1.5 and far[r, :, b].argmin() == a
        assert made[r, a] == (b if mutual else -1)
