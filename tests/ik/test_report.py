"""Reports of solutions state the true singular values, damping, limits that block, and failed
seeds.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import supple
from solving import solve
from supple import PoseTask, PositionTask, SolveReport, SolveStatus, damping
from supple.errors import InputError
from targets import boundary

PANDA = supple.load("panda")
T = PANDA.fk(PANDA.random(30, seed=41))


def told(target: np.ndarray, **options: object) -> tuple[supple.Solution, SolveReport]:
    found = solve(PANDA, target, explain=True, **options)  # type: ignore[arg-type]
    assert found.report is not None
    return found, found.report


RULES = [None, damping.Constant(1e-3), damping.SpeedBound.for_robot(PANDA)]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("start", [False, True])
def test_a_solution_is_the_same_with_and_without_a_report(
    rule: damping.DampingRule | None, start: bool
) -> None:
    q0 = PANDA.neutral() if start else None
    for target in T[:8]:
        plain = solve(PANDA, target, q0=q0, damping=rule)
        found, report = told(target, q0=q0, damping=rule)
        assert plain.report is None
        assert (found.q == plain.q).all()
        assert report.iterations == plain.iterations
        assert report.seeds >= plain.restarts + 1
        sigma = np.linalg.svd(PANDA.jacobian(found.q), compute_uv=False)
        assert report.sigma_min == pytest.approx(sigma[-1], rel=1e-9)
        lin = PoseTask().linearize(PANDA, found.q, target)
        if rule is not None:
            assert report.lambda2 == pytest.approx(rule(lin), rel=1e-6)
        assert 0 <= report.failed <= report.seeds
        assert (report.best_failed is None) == (report.failed == 0)
        assert report.blocking == ()
        assert report.seconds > 0
        text = str(report)
        assert "singular value" in text
        assert f"{report.iterations} iterations" in text


def test_the_report_counts_failed_seeds_and_describes_the_one_that_came_closest() -> None:
    for far in (0.3, 2.0):
        target = T[0].copy()
        target[2, 3] += far
        found, report = told(target, max_seeds=40)
        assert found.status is SolveStatus.UNREACHABLE
        assert 8 <= report.failed <= report.seeds <= 40
        assert report.best_failed is not None
        # The search for the closest pose starts from the best failed seed, so its error is not
        # larger.
        assert np.hypot(*report.best_failed) >= 0.999 * np.hypot(
            found.position_error, found.rotation_error
        )
        assert report.failed + report.stopped == report.seeds
        says = f"{report.failed} failed" + f", {report.stopped} stopped" * (report.stopped > 0)
        assert says in str(report)
        # The text has only the error of the closest pose: a second one would seem to contradict it.
        assert str(found).count("away") == 1


def test_the_report_names_a_joint_limit_that_blocks_the_target() -> None:
    # A planar arm with two joints; the elbow's range is 0.2 to 1 rad, and the targets need 2 or 0.
    robot = supple.dh([(1.0, 0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0)], limits=[(-3, 3), (0.2, 1.0)])
    free = supple.dh([(1.0, 0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0)])
    hand = PositionTask(rows=("x", "y"))
    for bend, end in ((2.0, "upper"), (0.0, "lower")):
        goal = free.fk([0.4, bend])[:3, 3]
        found = solve(robot, goal, tasks=hand, explain=True)
        # The target is in a hole of the workspace, so no plane separates it from the reach.
        hole, far = SolveStatus.NOT_CONVERGED, SolveStatus.UNREACHABLE
        assert found.status is (hole if end == "upper" else far)
        assert found.report is not None
        assert found.report.blocking == ((robot.joint_names[1], end),)
        assert f"{robot.joint_names[1]} blocks at its {end} limit" in str(found.report)
    # If the target is straight ahead and out of reach, no joint is reported at a limit.
    found = solve(free, [3.0, 0.0, 0.0], tasks=hand, explain=True)
    assert found.report is not None
    assert found.report.at_limit == ()


def test_the_report_names_no_joint_at_a_limit_that_does_not_move_the_frame() -> None:
    finger = """
        <robot name="r"><link name="a"/><link name="b"/><link name="c"/><link name="f"/>
          <joint name="shoulder" type="continuous"><parent link="a"/><child link="b"/>
            <axis xyz="0 0 1"/></joint>
          <joint name="tool" type="fixed"><parent link="b"/><child link="c"/>
            <origin xyz="1 0 0"/></joint>
          <joint name="finger" type="prismatic"><parent link="c"/><child link="f"/>
            <axis xyz="0 1 0"/><limit lower="0" upper="0.04"/></joint></robot>"""
    robot = supple.urdf(finger, tips="c")
    found = solve(robot, [3.0, 0.0, 0.0], tasks=PositionTask("c"), explain=True)
    assert found.status is SolveStatus.UNREACHABLE
    assert robot.joint_names == ("shoulder", "finger")
    assert found.q[1] == 0.0  # at its limit
    assert found.report.at_limit == ()
    assert "finger" not in str(found.report)


@pytest.mark.parametrize("task", [PoseTask(), PositionTask()])
def test_a_target_in_millimeters_gets_a_hint(task: PoseTask | PositionTask) -> None:
    pose = isinstance(task, PoseTask)
    for scale, hint in ((1.0, False), (5.0, False), (1000.0, True)):
        target = supple.pose(scale * np.array([0.4, 0.1, 0.5]), rpy=[np.pi, 0, 0])
        _, report = told(target if pose else target[:3, 3], tasks=task)
        assert bool(report.hint) == hint
        assert ("in meters" in str(report)) == hint


def test_a_batch_in_millimeters_gets_a_hint() -> None:
    near = supple.pose([[0.4, 0.1, 0.5], [0.3, 0.2, 0.5]], rpy=[np.pi, 0, 0])
    far = supple.pose(1000 * near[:, :3, 3], rotation=near[:, :3, :3])
    assert "in meters" in str(solve(PANDA, far))
    assert "in meters" not in str(solve(PANDA, near))
    assert "in meters" not in str(solve(PANDA, np.concatenate([near[:1], far[:1]])))


def test_at_the_workspace_boundary_the_report_names_the_direction_that_cannot_be_moved_in() -> None:
    q, T0, _ = boundary(PANDA, 3)
    for at, target in zip(q, T0, strict=True):
        found, report = told(target, q0=at)
        assert found.success
        assert report.sigma_min < 1e-3
        assert ("lost: " in str(report)) or ("weakest: " in str(report))


def test_a_report_on_a_batch_or_several_solutions_is_refused() -> None:
    with pytest.raises(InputError, match="one target"):
        solve(PANDA, T, explain=True)
    solver: Any = supple.Solver(PANDA)
    with pytest.raises(TypeError, match="explain"):
        solver.several(T[0], 3, explain=True)


def test_a_report_is_immutable_and_can_be_pickled() -> None:
    found, report = told(T[0], prefer="limits")
    again = pickle.loads(pickle.dumps(found))
    assert again.report == report
    with pytest.raises(AttributeError):
        report.failed = 0  # type: ignore[misc]
