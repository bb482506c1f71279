"""The simulated robot of the viewer follows targets within limits and records its motion."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import supple as sp
from cases import each
from supple import errors
from supple.describe import builtin_names
from supple.view.methods import method, method_names, numbers_of
from supple.view.panel import EXPORTS, exported
from supple.view.posture import comfortable, up_axis
from supple.view.simulation import DT, MODES, Settings, Simulation


def through_singularity(simulation: Simulation, seconds: float = 4.0) -> None:
    """Move the target far beyond the reach and back, so that the arm is stretched."""
    home = simulation.targets[0]
    for k in range(round(seconds / 0.02)):
        T = home.copy()
        T[:3, 3] *= 1 + 2 * np.sin(np.pi * k * 0.02 / seconds)
        simulation.set_target(0, T)
        simulation.advance(0.02)
    simulation.set_target(0, home)


@pytest.mark.parametrize("name", builtin_names())
def test_a_robot_starts_inside_its_limits_and_rests(name: str) -> None:
    robot = sp.load(name)
    q = comfortable(robot)
    assert (q >= robot.lower).all()
    assert (q <= robot.upper).all()
    simulation = Simulation(robot)
    for _ in range(5):
        measured = simulation.advance(0.02)
    np.testing.assert_allclose(simulation.q, q, atol=1e-9)
    assert measured.position_error < 1e-9
    assert measured.sigma_min > 1e-3


@each("name", ["panda", "ur5e", "iiwa14", "puma560", "youbot"])
def test_an_arm_starts_above_its_base_with_the_tool_away_from_the_base(name: str) -> None:
    """No link is below the base; the tool is over 0.2 of the workspace size from the base."""
    robot = sp.load(name)
    places = robot.fk(comfortable(robot), robot.description.links)[:, :3, 3]
    assert places[:, 2].min() >= min(robot.base[2, 3], places[0, 2]) - 1e-9
    tool = robot.fk(comfortable(robot))[:3, 3]
    assert np.linalg.norm(tool - places[0]) > 0.2 * np.ptp(robot.fk(robot.random(99))[:, :3, 3])


def test_the_status_names_the_joints_at_a_limit() -> None:
    joint = sp.load("ur5e").joint_names[0]
    robot = sp.load("ur5e").with_limits(upper={joint: 0.1}, lower={joint: -0.1})
    simulation = Simulation(robot)
    turned = simulation.q
    turned[0] = 0.6  # the joint would have to exceed its limit
    simulation.set_target(0, sp.load("ur5e").fk(turned))
    for _ in range(200):
        measured = simulation.advance(0.02)
    assert "position_limit" in measured.status
    assert joint in measured.status


@each(("name", "axis"), [("panda", 2), ("youbot", 2), ("double_y", 1), ("y", 1)])
def test_the_view_has_y_up_for_planar_robots_and_z_up_for_others(name: str, axis: int) -> None:
    assert up_axis(sp.load(name)) == axis


@pytest.mark.parametrize("name", method_names())
def test_every_method_in_the_viewer_keeps_limits_through_a_singularity(name: str) -> None:
    """Speeds and positions are within limits while the target is beyond the reach and back."""
    robot = sp.load("ur5e")
    simulation = Simulation(robot, method=name)
    before = simulation.q
    through_singularity(simulation)
    for one in simulation.history:
        assert np.abs(one.speeds).max() <= 1 + 1e-9
        assert np.isfinite([one.sigma_min, one.damping, one.position_error]).all()
    q = simulation.q
    assert (q >= robot.lower).all()
    assert (q <= robot.upper).all()
    assert np.abs(q - before).max() > 1e-3


def test_the_simulated_robot_meets_a_target_within_its_reach() -> None:
    robot = sp.load("panda")
    simulation = Simulation(robot)
    T = simulation.targets[0]
    T[:3, 3] += [0.1, 0.05, -0.05]
    simulation.set_target(0, T)
    for _ in range(150):
        measured = simulation.advance(0.02)
    np.testing.assert_allclose(robot.fk(simulation.q), T, atol=1e-6)
    assert measured.position_error < 1e-6
    assert measured.status == "following"


def test_through_a_singularity_the_ghost_of_the_pseudoinverse_is_over_3_times_as_fast() -> None:
    simulation = Simulation(sp.load("ur5e"))
    simulation.show_ghost(True)
    ghost = [simulation.ghost_q]
    home = simulation.targets[0]
    for k in range(200):
        T = home.copy()
        T[:3, 3] *= 1 + 2 * np.sin(np.pi * k / 200)
        simulation.set_target(0, T)
        simulation.advance(0.02)
        ghost.append(simulation.ghost_q)
    fastest = np.abs(np.diff(ghost, axis=0)).max() / 0.02
    damped = max(np.abs(one.speeds).max() for one in simulation.history) * np.pi
    assert fastest > 3 * damped


@each("lost", [1e9, -1e9])
def test_a_ghost_that_diverges_is_reset_to_the_configuration_of_the_robot(lost: float) -> None:
    simulation = Simulation(sp.load("ur5e"))
    simulation.show_ghost(True)
    simulation._ghost_q[1] = lost
    simulation.advance(DT * 1.0001)
    np.testing.assert_array_equal(simulation.ghost_q, simulation.q)


def test_a_long_pause_does_not_make_the_robot_jump() -> None:
    simulation = Simulation(sp.load("panda"))
    T = simulation.targets[0]
    T[:3, 3] += 0.2
    simulation.set_target(0, T)
    before = simulation.q
    simulation.advance(3600.0)
    assert np.abs(simulation.q - before).max() <= 0.11 * simulation.robot.max_speed.max()


@each(
    "settings",
    [
        {"method": "Magic"},
        {"parameters": {"max_sped": 1.0}},
        {"speed_factor": 0.0},
        {"max_acceleration": -1.0},
        {"mode": "sideways"},
        {"gain": -1.0},
    ],
)
def test_a_wrong_setting_in_the_viewer_changes_nothing(settings: dict[str, Any]) -> None:
    simulation = Simulation(sp.load("planar3"), task="position")
    before = simulation.settings
    with pytest.raises(errors.SuppleError):
        simulation.change(**settings)
    assert simulation.settings == before
    simulation.advance(0.1)


@pytest.mark.parametrize("mode", MODES)
def test_limits_set_in_the_viewer_bound_the_norm_of_speeds(mode: str) -> None:
    simulation = Simulation(sp.load("ur5e"))
    simulation.change(speed_factor=0.1, max_acceleration=5.0, max_norm=0.2, mode=mode)
    through_singularity(simulation, 1.0)
    norm = [np.linalg.norm(one.speeds * np.pi) for one in simulation.history]
    assert max(norm) <= 0.2 + 1e-9
    assert max(norm) > 0.05


@each("pose", [np.full((4, 4), np.nan), np.zeros((4, 4)), np.eye(3), "x"])
def test_the_viewer_refuses_a_bad_target(pose: Any) -> None:
    simulation = Simulation(sp.load("panda"))
    before = simulation.targets
    with pytest.raises((errors.SuppleError, ValueError)):
        simulation.set_target(0, pose)
    np.testing.assert_array_equal(simulation.targets, before)


def test_setting_a_joint_clips_it_to_its_limits_and_moves_the_targets() -> None:
    robot = sp.load("panda")
    simulation = Simulation(robot)
    simulation.set_joint(0, 99.0)
    assert simulation.q[0] == robot.upper[0]
    np.testing.assert_allclose(simulation.targets[0], robot.fk(simulation.q), atol=1e-12)


@pytest.mark.parametrize("name", ["y", "double_y", "double_y16"])
def test_robots_with_several_end_effectors_do_not_jump_while_targets_move(name: str) -> None:
    """Some targets leave the reach; joint angles stay finite."""
    simulation = Simulation(sp.load(name), task="position")
    simulation.move_targets(True)
    first, path = simulation.targets, [simulation.q]
    for _ in range(300):
        simulation.advance(0.02)
        path.append(simulation.q)
    assert np.abs(simulation.targets - first).max() > 0.1
    assert np.isfinite(path).all()
    assert np.abs(np.diff(path, axis=0)).max() < 0.5
    simulation.move_targets(False)
    still = simulation.targets
    simulation.advance(0.1)
    np.testing.assert_array_equal(simulation.targets, still)


def test_solutions_in_the_viewer_meet_the_target() -> None:
    robot = sp.load("ur5e")
    simulation = Simulation(robot)
    found = simulation.solutions().q
    assert len(found) > 1
    np.testing.assert_allclose(
        robot.fk(found), np.tile(simulation.targets, (len(found), 1, 1)), atol=2e-6
    )
    T = simulation.targets[0]
    T[:3, 3] = 9.0
    simulation.set_target(0, T)
    assert len(simulation.solutions()) == 0


# ---- recording -----------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["pose", "position"])
def test_a_recording_agrees_with_the_simulated_motion(task: str) -> None:
    """Recorded q are the sums of recorded speeds, velocities are J q̇, errors are those of fk."""
    simulation = Simulation(sp.load("ur5e"), task=task)
    simulation.record(True)
    path = [simulation.q]
    home = simulation.targets[0]
    for k in range(60):
        T = home.copy()
        T[:3, 3] += 0.002 * k
        simulation.set_target(0, T)
        simulation.advance(DT * 1.0001)
        path.append(simulation.q)
    simulation.record(False)
    motion = simulation.trajectory()
    assert motion is not None
    np.testing.assert_array_equal(motion.q, path)
    np.testing.assert_allclose(np.diff(motion.q, axis=0) / DT, motion.qd, atol=1e-9)
    J = simulation.robot.jacobian(motion.q[:-1])[:, : len(motion.rows)]
    np.testing.assert_allclose(motion.velocity, np.einsum("kmn,kn->km", J, motion.qd), atol=1e-9)
    away = simulation.targets[0][:3, 3] - simulation.robot.fk(motion.q[-1])[:3, 3]
    np.testing.assert_allclose(motion.error[-1, :3], away, atol=1e-12)
    assert len(motion.rows) == (6 if task == "pose" else 3)


def test_a_change_of_task_ends_a_recording_and_does_not_change_it() -> None:
    simulation = Simulation(sp.load("ur5e"), task="pose")
    simulation.record(True)
    through_singularity(simulation, 0.2)
    before = simulation.trajectory()
    simulation.change(task="position")
    assert not simulation.recording
    after = simulation.trajectory()
    assert before is not None
    assert after is not None
    assert before.rows == after.rows
    np.testing.assert_array_equal(before.error, after.error)


def test_a_replay_ends_at_the_last_configuration_of_the_recording() -> None:
    simulation = Simulation(sp.load("panda"))
    assert not simulation.replay()
    simulation.record(True)
    through_singularity(simulation, 0.5)
    simulation.record(False)
    motion = simulation.trajectory()
    assert motion is not None
    simulation.go_to(motion.q[0])
    assert simulation.replay()
    for _ in range(100):
        simulation.advance(0.02)
    assert not simulation.replaying
    np.testing.assert_allclose(simulation.q, motion.q[-1], atol=1e-12)


@pytest.mark.parametrize("suffix", EXPORTS.values())
def test_a_recording_is_exported_in_every_format(suffix: str) -> None:
    simulation = Simulation(sp.load("panda"))
    with pytest.raises(errors.InputError, match="Nothing is recorded"):
        exported(simulation, suffix)
    simulation.record(True)
    through_singularity(simulation, 0.2)
    assert len(exported(simulation, suffix)) > 1000


# ---- threads and names ---------------------------------------------------------------------------


def test_the_simulation_may_be_changed_from_several_threads() -> None:
    simulation = Simulation(sp.load("ur5e"))
    stop, problems = threading.Event(), []

    def meddle(seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            while not stop.is_set():
                T = simulation.targets[0]
                T[:3, 3] += 0.02 * rng.normal(size=3)
                simulation.set_target(0, T)
                simulation.set_joint(int(rng.integers(6)), float(rng.normal()))
                simulation.change(method=str(rng.choice(["Optimal", "Constant"])), parameters={})
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=meddle, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(100):
        assert np.isfinite(simulation.advance(0.01).speeds).all()
    stop.set()
    for thread in threads:
        thread.join()
    assert not problems


@each("name", method_names())
def test_given_parameters_of_a_method_replace_its_defaults(name: str) -> None:
    robot = sp.load("panda")
    numbers = numbers_of(method(name, robot, dt=DT))
    for key, value in numbers.items():
        changed = method(name.lower(), robot, dt=DT, **{key: 0.9 * value})
        assert numbers_of(changed)[key] == pytest.approx(0.9 * value)
    with pytest.raises(errors.UnknownNameError, match=r"Available|available"):
        method(name, robot, dt=DT, nothing=1.0)


def test_the_error_about_an_unknown_method_suggests_a_similar_name() -> None:
    with pytest.raises(errors.UnknownNameError, match="did you mean 'Optimal'"):
        method("optimum", sp.load("panda"), dt=DT)


def test_the_default_method_of_the_viewer_is_that_of_a_servo() -> None:
    robot = sp.load("panda")
    # With None, a Servo uses its default step.
    assert method(Settings().method, robot, dt=DT) is None
