"""Steps of robots with a floating base: hands, feet, center of mass and posture together."""

from __future__ import annotations

import numpy as np
import pytest

import supple as sp
from generated import seeds
from humanoids import humanoid
from sizes import nightly
from whole_bodies import command, drawn, targets_near

Array = np.ndarray
DT = 0.005


def test_a_step_with_a_posture_minimizes_the_norm_of_all_task_errors() -> None:
    exact = 0
    for seed in seeds(nightly(300, 30)):
        robot, tasks, rng = drawn(seed)
        servo = sp.Servo(robot, tasks, dt=DT, limits=sp.Limits.none(robot), gain=1 / DT)
        q = robot.random(seed=rng)
        servo(q, target=command(tasks, targets_near(robot, q, 1e-5, rng)))
        lin = servo.linearization
        assert lin.J.shape[0] > lin.J.shape[1]
        if servo.lambda2 > 0:  # a singular direction was damped
            continue
        exact += 1
        best = np.linalg.lstsq(lin.J, lin.e, rcond=None)[0]
        np.testing.assert_allclose(servo.qd, best, atol=1e-9 * np.abs(best).max())
    assert exact > nightly(300, 30) / 2


def test_undamped_steps_are_least_squares_solutions_also_for_a_distant_posture() -> None:
    exact = 0
    for seed in seeds(nightly(100, 20)):
        robot, tasks, rng = drawn(seed)
        servo = sp.Servo(robot, tasks, dt=DT, limits=sp.Limits.none(robot), gain=1 / DT)
        q = robot.random(seed=rng)
        near = command(tasks, targets_near(robot, q, 1e-5, rng))
        near[-1] = near[-1] + 0.3 * rng.normal(size=robot.nv - 6)
        sizes = [*(6 for _ in tasks[:-2]), 3, robot.nv - 6]
        velocity = [1e-3 * rng.normal(size=size) for size in sizes] if seed % 2 else None
        servo(q, velocity, target=near)
        if servo.lambda2 > 0:  # a singular direction was damped
            continue
        exact += 1
        lin = servo.linearization
        best = np.linalg.lstsq(lin.J, lin.e, rcond=None)[0]
        np.testing.assert_allclose(servo.qd, best, atol=1e-9 * np.abs(best).max())
    assert exact > nightly(100, 20) / 2


def test_the_rows_of_the_center_of_mass_in_a_servo_of_a_floating_robot_are_its_jacobian() -> None:
    for seed in seeds(nightly(100, 20)):
        robot, _, rng = drawn(seed)
        task = sp.tasks.CenterOfMassTask()
        servo = sp.Servo(robot, [task, sp.PostureTask()], dt=DT)
        q = robot.random(seed=rng)
        servo(q, target=[robot.center_of_mass(q), q])
        J = task.on(robot).jacobian(robot, q)
        np.testing.assert_allclose(servo.linearization.J[:3], J, atol=1e-13)


def test_a_floating_robot_at_speed_limits_takes_the_least_squares_step_inside_them() -> None:
    held = 0
    for seed in seeds(nightly(300, 30)):
        robot, tasks, rng = drawn(seed)
        free = sp.Servo(robot, tasks, dt=DT, limits=sp.Limits.none(robot), gain=1 / DT)
        q = robot.random(seed=rng)
        given = command(tasks, targets_near(robot, q, 1e-5, rng))
        free(q, target=given)
        if free.lambda2 > 0:
            continue
        most = np.maximum(rng.uniform(0.3, 2, size=robot.nv) * np.abs(free.qd), 1e-7)
        limits = sp.Limits.for_robot(robot, max_speed=most)
        servo = sp.Servo(robot, tasks, dt=DT, limits=limits, gain=1 / DT)
        servo(q, target=given)
        x, lin = servo.qd, servo.linearization
        assert (np.abs(x) <= most * (1 + 1e-12)).all()
        slope = lin.J.T @ (lin.J @ x - lin.e)  # the cost falls only outwards
        noise = 1e-6 * np.abs(lin.J.T @ lin.e).max()
        upper, lower = x >= most * (1 - 1e-9), x <= -most * (1 - 1e-9)
        assert (slope[upper] < noise).all()
        assert (slope[lower] > -noise).all()
        assert (np.abs(slope[~upper & ~lower]) < noise).all()
        held += int((upper | lower).sum())
    assert held > nightly(300, 30)


@pytest.mark.parametrize(
    "rule",
    [sp.damping.Constant(1e-4), sp.damping.Constant(0.0), sp.damping.ErrorDamped(0.1)],
    ids=repr,
)
def test_damped_steps_with_more_rows_than_joints_are_damped_least_squares_solutions(
    rule: sp.damping.Constant,
) -> None:
    for seed in seeds(nightly(100, 20)):
        robot, tasks, rng = drawn(seed)
        step = sp.DLS(rule)
        servo = sp.Servo(robot, tasks, dt=DT, step=step, limits=sp.Limits.none(robot))
        q = robot.random(seed=rng)
        servo(q, target=command(tasks, targets_near(robot, q, 0.1, rng)))
        lin, lambda2 = servo.linearization, servo.lambda2
        assert lambda2 == pytest.approx(rule(lin), rel=1e-12)
        damped = np.vstack([lin.J, np.sqrt(lambda2) * np.eye(robot.nv)])
        wanted = np.linalg.lstsq(damped, np.append(lin.e, np.zeros(robot.nv)), rcond=None)[0]
        np.testing.assert_allclose(servo.qd, wanted, atol=1e-9 * np.abs(wanted).max())


def test_the_target_of_a_posture_may_be_a_whole_configuration() -> None:
    robot, tasks, rng = drawn(3)
    q, start = robot.random(seed=rng), robot.random(seed=rng)
    near = command(tasks, targets_near(robot, start, 1e-3, rng))
    moved = []
    for posture in (q[7:], q, q.tolist(), tuple(q), np.append(q, 0)[:-1]):
        servo = sp.Servo(robot, tasks, dt=DT)
        moved.append(servo(start, target=[*near[:-1], posture]))
    for other in moved[1:]:
        np.testing.assert_array_equal(other, moved[0])
    servo = sp.Servo(robot, tasks, dt=DT)
    for wrong in (q[1:], np.append(q, 0), np.full(robot.nq, np.nan)):
        with pytest.raises(sp.errors.InputError, match="PostureTask's target"):
            servo(start, target=[*near[:-1], wrong])


def figure() -> tuple[sp.Robot, list[sp.tasks.Task], Array]:
    """Return a humanoid, its tasks for feet, hands and pelvis, and q with straight knees."""
    robot = humanoid().with_base("floating")
    q = robot.neutral()
    feet, hands = ("left_foot", "right_foot"), ("left_hand", "right_hand")
    q[2] = -robot.fk(q, feet[0])[2, 3]
    for side in ("left", "right"):
        q[robot.position_names.index(f"{side}_elbow_joint")] = -1.0
    tasks = [
        *(sp.PoseTask(foot, weight=100.0) for foot in feet),
        *(sp.PositionTask(hand) for hand in hands),
        sp.PoseTask("pelvis"),
    ]
    return robot, tasks, q


@pytest.mark.parametrize("posture", [0.02, 1.0, None])
def test_feet_stay_and_joints_do_not_jolt_while_a_pelvis_target_rises_too_far(
    posture: float | None,
) -> None:
    """The knees are nearly straight; when its target comes back, the pelvis follows."""
    robot, tasks, q = figure()
    for side in ("left", "right"):
        for joint, angle in (("hip_pitch", -0.2), ("knee", 0.4), ("ankle_pitch", -0.2)):
            q[robot.position_names.index(f"{side}_{joint}_joint")] = angle
    q[2] -= robot.fk(q, "left_foot")[2, 3]
    own = [] if posture is None else [sp.PostureTask(weight=posture)]
    servo = sp.Servo(robot, [*tasks, *own], dt=DT)
    start, places = q, [robot.fk(q, task.frame) for task in tasks]
    goals = [place[:3, 3] if k in (2, 3) else place for k, place in enumerate(places)]
    slip, change, before = 0.0, [], np.zeros(robot.nv)
    for k in range(800):
        pelvis = goals[4].copy()
        pelvis[2, 3] += 0.03 * np.sin(2 * np.pi * k / 800)  # straight legs allow 0.014 m
        q = servo(q, target=[*goals[:4], pelvis, *([start] if own else [])])
        feet = robot.fk(q, ("left_foot", "right_foot"))
        slip = max(slip, np.abs(feet - np.array(places[:2])).max())
        change.append(np.abs(servo.qd - before).max())
        before = servo.qd
    assert slip < 1e-3
    assert np.sqrt(np.mean(np.square(change))) < 0.1
    assert np.abs(robot.fk(q, "pelvis") - pelvis).max() < 0.02


def test_a_humanoid_rests_with_feet_in_place_if_a_hand_target_is_out_of_reach() -> None:
    for seed in seeds(nightly(30, 4)):
        rng = np.random.default_rng([seed, 72])
        robot, tasks, q = figure()
        servo = sp.Servo(robot, [*tasks, sp.PostureTask(weight=0.02)], dt=DT)
        start, goals = q, [robot.fk(q, task.frame) for task in tasks]
        far = rng.normal(size=3)
        goals[2] = goals[2][:3, 3] + 0.6 * far / np.linalg.norm(far)
        goals[3] = goals[3][:3, 3]
        for _ in range(800):
            q = servo(q, target=[*goals, start])
        assert np.abs(servo.qd).max() < 1e-3, seed
        for k in (0, 1):
            np.testing.assert_allclose(robot.fk(q, tasks[k].frame), goals[k], atol=2e-3)
