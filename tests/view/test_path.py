"""Solutions and paths in the viewer: names of branches, lines, marks, and played motions."""

from __future__ import annotations

import numpy as np
import pytest

import supple as sp
from supple import errors
from supple.view.branch_names import branch_names
from supple.view.path import ToolPath, straight_motion
from supple.view.simulation import DT, Simulation

UR5E = sp.load("ur5e")
HOME = np.array([0.4, -1.2, 1.4, -0.6, 1.0, 0.3])


def line(q: np.ndarray, end: list[float]) -> list[np.ndarray]:
    """Return two targets (1, 4, 4): the pose at q, and this pose shifted by `end` [m]."""
    start = UR5E.fk(q)
    then = start.copy()
    then[:3, 3] += end
    return [start[None], then[None]]


def test_every_solution_in_the_viewer_has_its_own_branch_name() -> None:
    simulation = Simulation(UR5E, HOME)
    found = simulation.solutions()
    names = branch_names(found)
    assert len(set(names)) == len(found) == 8
    signs = [name.partition(": ")[2] for name in names]
    assert len(set(signs)) == 8
    assert signs[0].startswith("shoulder ")
    assert np.abs(found.q[0] - HOME).max() < 1e-5  # the nearest solution is first


@pytest.mark.parametrize("name", ["panda", "planar3", "double_y"])
def test_solutions_of_arms_without_branch_names_are_numbered(name: str) -> None:
    found = Simulation(sp.load(name)).solutions()
    assert branch_names(found) == tuple(str(k + 1) for k in range(len(found)))


def test_a_planned_line_is_drawn_between_its_targets_and_played_to_its_end() -> None:
    simulation = Simulation(UR5E, HOME)
    targets = line(HOME, [0.0, 0.15, 0.1])
    path = ToolPath.of(simulation.plan_path(targets), UR5E, DT)
    assert len(path.lines) == 1
    assert path.lines[0].shape[::2] == (1, 3)
    assert len(path.marks) == 0
    start, end = (target[0, :3, 3] for target in targets)
    way = (end - start) / np.linalg.norm(end - start)
    away = path.lines[0][0] - start
    np.testing.assert_allclose(away - np.outer(away @ way, way), 0, atol=1.1e-4)
    np.testing.assert_allclose(path.lines[0][0, [0, -1]], [start, end], atol=1e-5)
    speeds = np.abs(np.diff(path.q, axis=0)) / DT
    assert (speeds <= UR5E.max_speed * (1 + 1e-6)).all()
    simulation.play(path.q)
    for _ in range(len(path.q) * 2):
        simulation.advance(DT)
        if not simulation.replaying:
            break
    np.testing.assert_allclose(simulation.q, path.q[-1], atol=1e-9)
    np.testing.assert_allclose(simulation.targets[0, :3, 3], end, atol=1e-5)


def test_reconfigurations_are_marked_on_the_drawn_line() -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        ends = UR5E.fk(rng.uniform(-2, 2, (2, 6)))
        found = Simulation(UR5E).plan_path(list(ends[:, None]))
        if found and found.reconfigurations:
            break
    else:
        pytest.fail("no line needs a reconfiguration")
    path = ToolPath.of(found, UR5E, DT)
    assert len(path.lines) == len(path.marks) + 1
    for mark, before, after in zip(path.marks, path.lines, path.lines[1:], strict=False):
        np.testing.assert_allclose(mark, before[:, -1], atol=1e-5)
        step = np.linalg.norm(ends[1, :3, 3] - ends[0, :3, 3]) / 50
        assert np.linalg.norm(after[:, 0] - mark) < step + 1e-3
    assert "reconfiguration" in path.words


def test_the_part_of_a_path_before_its_early_end_is_played() -> None:
    simulation = Simulation(UR5E, HOME)
    path = ToolPath.of(simulation.plan_path(line(HOME, [0.0, 2.0, 0.0])), UR5E, DT)
    assert "followed" in path.words
    assert len(path.q) > 2
    assert np.abs(np.diff(path.q, axis=0)).max() <= DT * 1.001  # 1 rad/s


def test_a_trajectory_can_be_played_as_a_path() -> None:
    goal = UR5E.fk(HOME + 0.2)
    motion = sp.simulate(UR5E, HOME, target=goal, dt=0.01, duration=1.0)
    path = ToolPath.of(motion, UR5E, DT)
    assert len(path.q) == pytest.approx(1.0 / DT, rel=0.05)
    np.testing.assert_allclose(path.lines[0][0, -1], UR5E.fk(path.q[-1])[:3, 3], atol=1e-9)


def test_the_arm_moves_from_rest_and_without_jumps_to_a_solution() -> None:
    simulation = Simulation(UR5E, HOME)
    goal = simulation.solutions().q[3]
    simulation.move_along(goal[None])
    steps = [simulation.q]
    while simulation.replaying:
        simulation.advance(DT)
        steps.append(simulation.q)
    np.testing.assert_allclose(simulation.q, goal, atol=1e-9)
    way = straight_motion(UR5E, HOME, goal, DT)
    assert np.abs(np.diff(way[:2], axis=0)).max() < 1e-4  # the first step is small
    assert np.abs(np.diff(steps, axis=0)).max() < 0.02 * np.abs(goal - HOME).max()


def test_a_path_of_one_target_is_refused() -> None:
    with pytest.raises(errors.InputError, match="two targets"):
        Simulation(UR5E, HOME).plan_path([UR5E.fk(HOME)[None]])
