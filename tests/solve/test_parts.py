"""Laws of the parts of a search: what shares no joint is solved apart, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from calls import mimicking
from hypothesis import given, settings
from hypothesis import strategies as st
from several_arms import HEAD, arms
from targets import apart
from trees import Tree, trees

import supple
from supple import AxisTask, PoseTask, PositionTask, solve
from supple.solve.parts import Part, parts_of
from supple.solve.search import Search, search_of


def of(robot: supple.Robot, *tasks: supple.Task) -> tuple[Search, tuple[Part, ...]]:
    search = search_of(robot, tasks)
    return search, parts_of(search)


def joints(robot: supple.Robot, *tasks: supple.Task) -> list[list[int]]:
    return [part.joints.tolist() for part in of(robot, *tasks)[1]]


@given(trees(), st.data())
@settings(max_examples=60, deadline=None)
def test_parts_are_apart_and_whole(tree: Tree, data: st.DataObject) -> None:
    """Every task is in one part, no joint in two, and a part's rows move with its joints alone."""
    frames = st.sampled_from(tree.frames)
    axes = st.sampled_from([None, "world", "body", *tree.frames])
    base = st.none() | frames
    tasks = tuple(
        PoseTask(data.draw(frames), base=data.draw(base), axes=data.draw(axes))
        for _ in range(data.draw(st.integers(1, 3)))
    )
    search, parts = of(tree.robot, *tasks)
    numbers = np.concatenate([part.numbers for part in parts])
    assert sorted(numbers) == list(range(search.layout.kernel.targets))
    held = [j for part in parts for j in part.joints]
    assert len(set(held)) == len(held)
    q = np.stack([tree.q, tree.q + tree.qd])
    J = search.layout.jacobian(q)
    goals = search.layout.reached(q[::-1])
    for part in parts:
        k = sorted({int(x) // 12 for x in part.numbers})
        rows = np.concatenate([np.arange(6 * i, 6 * i + 6) for i in k])
        assert not np.delete(J[:, rows], part.joints, axis=2).any()
        # rows and errors of the part alone are those of the whole
        own = part.search.layout
        near = tree.rounding * 1e3
        alone = q[:, part.joints]
        np.testing.assert_allclose(
            own.jacobian(alone), J[:, rows][:, :, part.joints], rtol=0, atol=near
        )
        np.testing.assert_allclose(
            own.reached(alone), search.layout.reached(q)[:, part.numbers], rtol=0, atol=near
        )
        np.testing.assert_allclose(
            own.error(alone, goals[:, part.numbers]),
            search.layout.error(q, goals)[:, rows],
            rtol=0,
            atol=1e-6,
        )


def test_arms_on_a_stand_are_apart_and_on_a_lift_are_not() -> None:
    stand, lift = arms("ur5e", "panda"), arms("ur5e", "panda", lift=True)
    tasks = tuple(PoseTask(tip) for tip in stand.tips)
    assert joints(stand, *tasks) == [[*range(1, 7)], [*range(7, 14)]]
    assert joints(stand, *tasks[::-1]) == [[*range(7, 14)], [*range(1, 7)]]
    assert joints(stand, tasks[1]) == [[*range(7, 14)]]
    assert joints(lift, *tasks) == [[0, *range(2, 15)]]
    assert stand.joint_names[0] == HEAD


def test_one_arm_is_the_search_itself() -> None:
    for robot in (supple.load("panda"), mimicking()):
        search = search_of(robot, None)
        (part,) = parts_of(search)
        assert part.search is search
        assert part.joints.tolist() == list(range(robot.dof))


def test_relative_to_a_base_that_moves() -> None:
    """What carries both does not matter; a base couples, and so do axes of another frame."""
    lift = arms("ur5e", "panda", lift=True)
    one, two = lift.tips
    assert joints(lift, PoseTask(one, base=two)) == [[*range(2, 15)]]
    assert joints(lift, PoseTask(one, base="stand")) == [[*range(2, 8)]]
    assert joints(lift, PoseTask(one, base="stand", axes=two)) == [[0, *range(2, 15)]]
    tasks = (PoseTask(one, base="stand"), PositionTask(two, base="stand"))
    assert joints(lift, *tasks) == [[*range(2, 8)], [*range(8, 15)]]


def test_tasks_that_nothing_moves_are_kept() -> None:
    stand = arms("ur5e", "panda")
    one, two = stand.tips
    still = PositionTask("0: " + supple.load("ur5e").description.root)
    _, parts = of(stand, PoseTask(one), still, AxisTask(two))
    assert [part.search.layout.tasks for part in parts] == [
        (PoseTask(one), still),
        (AxisTask(two),),
    ]
    (whole,) = of(stand, still)[1]
    assert whole.search.layout.robot is stand


def test_what_looks_at_the_whole_is_not_divided() -> None:
    stand = arms("ur5e", "panda")
    tasks = tuple(PoseTask(tip) for tip in stand.tips)
    rule = supple.damping.Region(0.1, 0.1, direction=[1.0] * 12)
    assert len(parts_of(search_of(stand, tasks, rule))) == 1
    posture = (*tasks, supple.PostureTask())
    assert len(parts_of(search_of(stand, posture))) == 1


def test_rule_and_step_go_with_the_parts() -> None:
    stand = arms("ur5e", "panda")
    tasks = tuple(PoseTask(tip) for tip in stand.tips)
    rule = supple.damping.Constant(0.02)
    for part in parts_of(search_of(stand, tasks, rule, 0.2)):
        assert part.search.given == (rule, 0.2)
        assert part.search.rule is rule


def test_answers_of_parts_put_together_are_answers(
    robot_files: Callable[[str, str], Path],
) -> None:
    """Both hands and both feet of a humanoid: solved apart, the whole body is where it shall be."""
    robot = supple.urdf(robot_files("frax", "assets/unitree_g1/g1_29dof_rev_1_0.urdf"))
    ends = [f"{s}_{k}_link" for k in ("wrist_yaw", "ankle_roll") for s in ("left", "right")]
    search, parts = of(robot, *map(PoseTask, ends))
    assert [(len(part.joints), part.search.primary) for part in parts] == [(17, 12), (6, 6), (6, 6)]
    T = robot.fk(robot.random(3, 50), ends)
    goals = search.targets([T[:, k] for k in range(4)])
    q = np.full((50, robot.dof), np.nan)
    for part in parts:
        k = sorted({int(x) // 12 for x in part.numbers})
        np.testing.assert_array_equal(
            goals[:, part.numbers], part.search.targets([T[:, i] for i in k])
        )
        own = part.search.layout
        found = solve(own.robot, [T[:, i] for i in k], tasks=own.tasks)
        assert found.success.all()
        q[:, part.joints] = found.q
    far, off = apart(robot.fk(q, ends), T)
    assert far.max() <= 1e-6 + 1e-12
    assert off.max() <= 1e-6 + 1e-12
    assert ((robot.lower <= q) & (q <= robot.upper)).all()


@pytest.mark.parametrize("count", [1, 3])
def test_mimics_join_what_they_move(count: int) -> None:
    """A joint that follows another couples the frames that both carry."""
    robot = mimicking()
    tasks = [PositionTask(tip) for tip in robot.tips][:count]
    (held,) = joints(robot, *tasks)
    moving = np.abs(robot.jacobian(robot.random(0, 20), list(robot.tips)[:count])).max((0, 1, 2))
    assert held == np.nonzero(moving)[0].tolist()
