"""Robots with loops: all solutions close the loops, as judged by MuJoCo, and reachable targets are
met.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

import mechanisms
import supple as sp
from cases import each
from sizes import nightly
from supple.collision import Sphere
from supple.errors import InputError

Array = np.ndarray
CLOSED = 1e-9
FEW = nightly(1000, 12)

# Name of a robot -> its MJCF text, end effectors, tasks.
CASES: dict[str, tuple[str, Any, Any]] = {
    **{
        f"four_bar{seed}": (mechanisms.four_bar(seed), "tip", sp.PositionTask("tip"))
        for seed in range(3)
    },
    "weld9": (mechanisms.spatial_loop(1, 9, "weld"), "tip", sp.PositionTask("tip")),
    "weld12": (mechanisms.spatial_loop(0, 12, "weld"), "tip", None),
    "connect9": (mechanisms.spatial_loop(1, 9, "connect"), "tip", None),
    "leg": (mechanisms.leg(floating=False, sides="l"), "toe_l", sp.PositionTask("toe_l")),
    "legs": (
        mechanisms.leg(),
        ["toe_l", "toe_r"],
        [sp.PoseTask("toe_l"), sp.PoseTask("toe_r"), sp.PoseTask("pelvis")],
    ),
    "gripper": (mechanisms.gripper(), "tip", None),
    "coupled": (mechanisms.coupled(0), "tip", sp.PositionTask("tip")),
}


@cache
def drawn(name: str) -> tuple[sp.Robot, sp.Solver, list[Array], Array]:
    """Return a robot, a solver, targets for each task, and the configurations that reach them."""
    text, tips, tasks = CASES[name]
    robot = sp.mjcf(text, tips=tips)
    solver = sp.Solver(robot, tasks)
    q = robot.random(FEW, seed=7)
    targets = [
        robot.fk(q, task.frame)[..., :3, 3]
        if isinstance(task, sp.PositionTask)
        else robot.fk(q, task.frame)
        for task in solver.tasks
    ]
    return robot, solver, targets, q


def given(targets: Sequence[Array]) -> Any:
    return targets[0] if len(targets) == 1 else list(targets)


@pytest.mark.parametrize("name", CASES)
def test_reachable_targets_are_met_by_closed_configurations(name: str) -> None:
    robot, solver, targets, _ = drawn(name)
    found = solver.batch(given(targets))
    assert found.success.mean() >= 0.999
    assert mechanisms.MuJoCo(CASES[name][0]).residual(robot, found.q[:30]) <= CLOSED
    assert abs(robot.loop_error(found.q)).max() <= CLOSED
    if robot.nq == robot.nv:
        assert ((found.q >= robot.lower) & (found.q <= robot.upper)).all()
    for task, target in zip(solver.tasks, targets, strict=True):
        p = robot.fk(found.q[found.success], task.frame)[..., :3, 3]
        shall = target if target.shape[-1] == 3 else target[..., :3, 3]
        assert np.linalg.norm(p - shall[found.success], axis=-1).max() <= 1e-6
    assert found.robot is robot
    assert found.tasks == solver.tasks
    assert found.position_errors.shape == (len(found.q), len(solver.tasks))


@pytest.mark.parametrize("name", ["four_bar0", "weld9", "legs", "coupled"])
def test_solutions_of_one_target_without_q0_with_q0_and_in_groups_close_the_loops(
    name: str,
) -> None:
    robot, solver, targets, q = drawn(name)
    one = [target[0] for target in targets]
    single = solver(given(one))
    near = solver(given(one), q0=robot.integrate(q[0], 1e-3 * np.ones(robot.nv)))
    more = solver.several(given(one), 3)
    for item in (single.q, near.q, *more.q):
        assert abs(robot.loop_error(item)).max() <= CLOSED
    assert single.success
    assert near.success
    assert near.moved <= 0.1
    assert more.success.all()
    again = pickle.loads(pickle.dumps(solver))(given(one))
    np.testing.assert_array_equal(again.q, single.q)
    assert "PoseTask" in repr(solver) or "PositionTask" in repr(solver)


def test_solutions_that_miss_their_targets_still_close_the_loops() -> None:
    for name in ("four_bar1", "leg", "connect9"):
        robot, solver, targets, _ = drawn(name)
        far = targets[0][:3].copy()
        if far.shape[-1] == 3:
            far += [9.0, 0, 0]
        else:
            far[..., :3, 3] += [9.0, 0, 0]
        found = solver.batch(far)
        assert not found.success.any()
        assert abs(robot.loop_error(found.q)).max() <= CLOSED
        assert (found.position_error > 5).all()
        assert found.status.count(sp.SolveStatus.UNREACHABLE) == 3
        far[1, 0] = np.nan
        mixed = solver.batch(far)
        assert mixed.status[1] == sp.SolveStatus.NONFINITE_INPUT
        text = str(solver(targets[0][0]))
        assert "converged" in text


def test_no_solution_of_a_robot_whose_loop_cannot_be_closed_is_called_converged() -> None:
    arm = sp.load("panda")
    far = arm.with_frame("far", "panda_link0", sp.pose([9, 0, 0]))
    wrong = far.with_loop("panda_link6", "far")
    with pytest.raises(InputError, match="none is found"):
        sp.solve(wrong, arm.fk(arm.neutral()))


def test_tolerances_of_the_solver_apply_to_the_tasks_but_not_to_the_loops() -> None:
    robot, _, targets, _ = drawn("leg")
    solver = sp.Solver(robot, sp.PositionTask("toe_l"), position_tolerance=1e-3)
    found = solver.batch(targets[0])
    assert found.success.all()
    assert abs(robot.loop_error(found.q)).max() <= CLOSED


def test_solutions_of_robots_with_loops_avoid_obstacles() -> None:
    text, tips, task = CASES["leg"]
    robot = sp.mjcf(text, tips=tips)
    ball = sp.World(
        {"ball": Sphere(0.05, pose=sp.pose([0.05, 0.2, -0.9]))}, links={"foot_l": Sphere(0.03)}
    )
    q = robot.random(20, seed=0)
    targets = robot.fk(q)[:, :3, 3]
    found = sp.Solver(robot, task, world=ball).batch(targets)
    assert abs(robot.loop_error(found.q)).max() <= CLOSED
    assert found.success.any()
    for k in np.flatnonzero(found.success):
        assert found[int(k)].clearance >= 0


@each(
    "call",
    [
        lambda robot: sp.Solver(robot, device="cuda"),
        lambda robot: sp.Solver(robot, step=sp.DLS(sp.damping.Constant(1e-3))),
        lambda robot: sp.Solver(robot).all(np.eye(4)),
        lambda robot: sp.plan_path(robot, np.eye(4)[None]),
        lambda robot: sp.paths.JointPath(robot, robot.random(3, seed=0)),
        lambda robot: sp.DLS(sp.damping.Constant(1e-3)).velocities(
            robot, "tip", robot.neutral(), np.zeros(6)
        ),
        lambda robot: sp.redundancy.self_motion(robot, robot.neutral()),
        lambda robot: sp.Servo(robot, dt=0.01, world=sp.World({})),
        lambda robot: sp.simulate(
            robot,
            robot.neutral(),
            target=np.eye(4),
            dt=0.1,
            duration=1,
            limits=sp.Limits.for_robot(robot, mode="path"),
        ),
    ],
)
def test_functions_that_do_not_support_loops_say_so(call: Any) -> None:
    robot = sp.mjcf(CASES["weld9"][0], tips="tip")
    with pytest.raises(InputError, match=r"loops") as caught:
        call(robot)
    assert "without_loops()" in str(caught.value)
