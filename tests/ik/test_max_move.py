"""`max_move` bounds the move of each joint from q0; solutions within the bound are found."""

import numpy as np
import pytest

import supple as sp
from cases import each
from sizes import nightly
from solving import solve
from supple.ik.driver import Driver

ROBOTS = ["ur5e", "panda", "iiwa14", "puma560"]
ROUNDING = 1e-12


def inside(robot, count, seed=0):
    """Return q0 (count, n), at least a tenth of the joints' ranges away from the limits."""
    low, high = np.maximum(robot.lower, -np.pi), np.minimum(robot.upper, np.pi)
    return low + (high - low) * np.random.default_rng(seed).uniform(0.1, 0.9, (count, robot.dof))


@pytest.mark.parametrize("bound", [0.1, 0.8])
@pytest.mark.parametrize("name", ROBOTS)
def test_solutions_within_max_move_of_q0_are_found(name, bound):
    robot, rng = sp.load(name), np.random.default_rng(1)
    total = nightly(300, 60)
    q0 = inside(robot, total)
    goal = np.clip(q0 + rng.uniform(-bound, bound, q0.shape), robot.lower, robot.upper)
    poses = robot.fk(goal)
    for count, options in ((total, {}), (total, {"prefer": "fast"}), (5, {"prefer": "limits"})):
        found = solve(robot, poses[:count], q0=q0[:count], max_move=bound, **options)
        assert found.success.all(), found
        assert (found.moved <= bound + ROUNDING).all()
        assert ((robot.lower <= found.q) & (found.q <= robot.upper)).all()
    for i in range(10):
        assert solve(robot, poses[i], q0=q0[i], max_move=bound).moved <= bound + ROUNDING


@pytest.mark.parametrize("name", ["ur5e", "puma560"])
def test_a_search_with_max_move_converges_exactly_where_a_solution_is_within_the_bound(name):
    robot = sp.load(name)
    count, half = nightly(200, 100), nightly(100, 50)
    q0 = inside(robot, count, seed=2)
    poses = robot.fk(inside(robot, count, seed=3))
    poses[:half] = robot.fk(q0[:half] + np.random.default_rng(4).uniform(-1.02, 1.02, (half, 6)))
    bound = 1.0
    found = solve(robot, poses, q0=q0, max_move=bound)
    decided = 0
    for i, pose in enumerate(poses):
        every = solve(robot, pose, q0=q0[i], solutions="all", wraps=True)
        moves = every.moved if len(every) else np.array([np.inf])
        if np.abs(moves - bound).min() < 1e-3:
            continue
        assert bool(found.success[i]) == bool((moves < bound).any())
        near = solve(robot, pose, q0=q0[i], solutions="all", max_move=bound)
        assert len(near) == (moves < bound).sum()
        decided += 1
    assert decided > 0.75 * count
    assert 0.2 * count < found.success.sum() < 0.8 * count
    far = ~found.success
    assert (found.status[far] == sp.SolveStatus.MAX_MOVE).all()
    assert (found.moved <= bound + ROUNDING).all()  # the closest pose also keeps the bound
    assert "max_move" in str(found)
    assert "max_move" in str(found[np.flatnonzero(far)[0]])
    batch = solve(robot, poses[:20], q0=q0[:20], solutions="all", max_move=bound)
    assert ((batch.count > 0) == found.success[:20]).all()


def test_max_move_gives_equal_results_with_and_without_a_report():
    robot = sp.load("ur5e")
    q0 = inside(robot, 40, seed=5)
    poses = robot.fk(q0 + np.random.default_rng(6).uniform(-0.6, 0.6, q0.shape))
    statuses = set()
    for pose, q in zip(poses, q0, strict=True):
        fast = solve(robot, pose, q0=q, max_move=0.5)
        whole = solve(robot, pose, q0=q, max_move=0.5, explain=True)
        assert (fast.q == whole.q).all()
        assert fast.status == whole.status
        statuses.add(fast.status)
    assert statuses == {sp.SolveStatus.CONVERGED, sp.SolveStatus.MAX_MOVE}


def test_a_huge_max_move_does_not_change_solutions():
    robot = sp.load("panda")
    q0 = inside(robot, 20, seed=7)
    poses = robot.fk(inside(robot, 20, seed=8))
    wide = solve(robot, poses, q0=q0, max_move=1e3)
    plain = solve(robot, poses, q0=q0)
    assert (wide.q == plain.q).all()


def test_the_report_names_the_joint_that_max_move_blocks():
    elbow = sp.dh([(1.0, 0, 0, 0), (1.0, 0, 0, 0)], limits=[(-3, 3), (-3, 3)])
    hand = sp.PositionTask(rows=["x", "y"])
    q0 = np.array([0.2, 1.0])
    goal = elbow.fk(q0 + np.array([0.0, 0.5]))[:2, 3]
    found = solve(elbow, [*goal, 0.0], tasks=hand, q0=q0, max_move=0.3, explain=True)
    assert found.status == sp.SolveStatus.MAX_MOVE
    assert ("joint2", "max_move") in found.report.blocking
    assert "joint2 blocks at max_move from q0" in str(found.report)
    assert found.q[1] == pytest.approx(1.3)


def test_max_move_is_measured_from_a_q0_outside_the_limits():
    robot = sp.load("panda")
    q0 = robot.neutral()
    q0[3] = robot.upper[3] + 0.3
    goal = np.clip(q0, robot.lower, robot.upper)
    for one in (
        solve(robot, robot.fk(goal), q0=q0, max_move=0.2),
        solve(robot, robot.fk(goal), q0=q0, max_move=0.2, explain=True),
    ):
        assert one.status == sp.SolveStatus.MAX_MOVE
        assert one.restarts == 0
        assert (one.q == goal).all()
    assert solve(robot, robot.fk(goal), q0=q0, max_move=0.31)


def test_max_move_also_bounds_joints_that_move_no_task():
    robot = sp.load("panda").with_tips(["panda_link5"])
    q0 = inside(robot, 1, seed=9)[0]
    goal = robot.fk(q0 + 0.05)
    assert solve(robot, goal, q0=q0, max_move=0.1)
    q0[6] = robot.upper[6] + 0.3  # moves no task, and must return by more than max_move
    found = solve(robot, goal, q0=q0, max_move=0.1)
    assert found.status == sp.SolveStatus.MAX_MOVE
    assert found.moved == pytest.approx(0.3)


def test_several_solutions_are_all_within_max_move():
    robot = sp.load("panda")
    q0 = inside(robot, 1, seed=10)[0]
    found = solve(robot, robot.fk(q0 + 0.1), q0=q0, max_move=0.6, solutions=5)
    assert len(found) > 1
    assert found.success.all()
    assert (found.moved <= 0.6 + ROUNDING).all()
    every = solve(robot, robot.fk(q0 + 0.1), q0=q0, max_move=0.6, solutions="all")
    assert (every.moved <= 0.6 + ROUNDING).all()


def test_targets_whose_gpu_solutions_exceed_max_move_are_searched_again(monkeypatch):
    robot = sp.load("ur5e")
    q0 = inside(robot, 50, seed=11)
    poses = robot.fk(q0 + np.random.default_rng(12).uniform(-0.53, 0.53, q0.shape))

    class Anywhere:
        """A replacement for a GPU solver that searches on the CPU without `max_move`."""

        device = None

        def solve(self, targets, seeds, options):
            found = solve(robot, poses, q0=seeds, prefer="fast")
            effort = np.stack([found.iterations, found.restarts + 1], axis=-1)
            error = np.stack([found.position_error, found.rotation_error], axis=-1)
            parts = (found.q, np.asarray(found.status), error, effort)
            return (*(part[:, None].copy() for part in parts), np.ones(len(poses), np.int32))

    here = solve(robot, poses, q0=q0, max_move=0.5)
    monkeypatch.setattr(Driver, "gpu_solver", lambda self: Anywhere())
    monkeypatch.setattr("supple.ik.arguments.device_named", lambda name: "cuda:0")
    there = solve(robot, poses, q0=q0, max_move=0.5, device="cuda")
    assert (there.status == here.status).all()
    assert 5 < here.success.sum() < 45
    assert (there.moved <= 0.5 + ROUNDING).all()


@each(
    ("options", "words"),
    [
        ({"max_move": 0.1}, "max_move needs q0"),
        ({"max_move": 0.0, "q0": np.zeros(6)}, "max_move must be"),
        ({"max_move": -1.0, "q0": np.zeros(6)}, "max_move must be"),
        ({"max_move": np.nan, "q0": np.zeros(6)}, "max_move must be"),
        ({"max_move": "far", "q0": np.zeros(6)}, "max_move must be"),
        (
            {"max_move": 0.1, "q0": np.zeros(6), "step": sp.steps.Pseudoinverse()},
            "max_move is not available",
        ),
    ],
)
def test_bad_values_of_max_move_are_refused(options, words):
    robot = sp.load("ur5e")
    with pytest.raises(sp.errors.InputError, match=words):
        solve(robot, robot.fk(np.full(6, 0.3)), **options)
