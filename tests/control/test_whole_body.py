"""Steps of robots with a floating base: hands, feet, center of mass and posture at once."""

from __future__ import annotations

import numpy as np
import pytest

import supple as sp
from generated import seeds
from sizes import nightly

Array = np.ndarray
DT = 0.005


def numbers(values: object) -> str:
    return " ".join(f"{x:.17g}" for x in np.ravel(values))


def limb(rng: np.random.Generator, name: str, joints: int) -> str:
    """Return an MJCF body with hinges in a row, each with a mass."""
    text = ""
    for k in reversed(range(joints)):
        place = f'pos="{numbers(0.3 * rng.normal(size=3))}" quat="{numbers(rng.normal(size=4))}"'
        mass = f'<inertial pos="{numbers(0.1 * rng.normal(size=3))}" mass="{rng.uniform(0.1, 2)}" '
        hinge = f'<joint name="{name}j{k}" axis="{numbers(rng.normal(size=3))}" range="-170 170"/>'
        text = f'<body name="{name}{k}" {place}>{hinge}{mass} diaginertia="1 1 1"/>{text}</body>'
    return text


def drawn(seed: int) -> tuple[sp.Robot, list[sp.tasks.Task], np.random.Generator]:
    """Return a random robot that floats, and tasks with more rows than it has joints."""
    rng = np.random.default_rng([seed, 71])
    limbs = int(rng.integers(2, 5))
    bodies = "".join(limb(rng, f"limb{k}_", int(rng.integers(5, 8))) for k in range(limbs))
    root = f'<freejoint name="base"/><inertial pos="0 0 0" mass="3" diaginertia="1 1 1"/>{bodies}'
    robot = sp.mjcf(f"<mujoco><worldbody><body name='hip'>{root}</body></worldbody></mujoco>")
    tips = robot.tips[: int(rng.integers(1, 3))]
    tasks = [sp.PoseTask(tip, weight=float(10 ** rng.uniform(0, 2))) for tip in tips]
    center = sp.redundancy.CenterOfMassTask(("x", "y"), weight=float(rng.uniform(0.5, 5)))
    # The rows of a posture are those of all hinges: with a pose they are more than the joints.
    return robot, [*tasks, center, sp.PostureTask(weight=float(10 ** rng.uniform(-3, 0)))], rng


def targets_near(robot: sp.Robot, q: Array, size: float, rng: np.random.Generator) -> list[Array]:
    """Return the poses of all tips and the center of mass a step away from q, and a posture."""
    there = robot.integrate(q, size * rng.normal(size=robot.nv))
    return [*robot.fk(there, robot.tips), robot.center_of_mass(there), there[7:]]


def command(tasks: list[sp.tasks.Task], near: list[Array]) -> list[Array]:
    return [*near[: len(tasks) - 2], *near[-2:]]


def test_a_step_with_a_posture_is_the_least_squares_solution() -> None:
    exact = 0
    for seed in seeds(nightly(300, 60)):
        robot, tasks, rng = drawn(seed)
        servo = sp.Servo(robot, tasks, dt=DT, limits=sp.Limits.none(robot), gain=1 / DT)
        q = robot.random(seed=rng)
        servo(q, target=command(tasks, targets_near(robot, q, 1e-5, rng)))
        lin = servo.linearization
        assert lin.J.shape[0] > lin.J.shape[1]
        if servo.lambda2 > 0:  # a singular direction is damped
            continue
        exact += 1
        best = np.linalg.lstsq(lin.J, lin.e, rcond=None)[0]
        np.testing.assert_allclose(servo.qd, best, atol=1e-9 * np.abs(best).max())
    assert exact > nightly(300, 60) / 2


def test_a_posture_far_away_and_moving_targets_leave_the_step_exact() -> None:
    exact = 0
    for seed in seeds(nightly(100, 30)):
        robot, tasks, rng = drawn(seed)
        servo = sp.Servo(robot, tasks, dt=DT, limits=sp.Limits.none(robot), gain=1 / DT)
        q = robot.random(seed=rng)
        near = command(tasks, targets_near(robot, q, 1e-5, rng))
        near[-1] = near[-1] + 0.3 * rng.normal(size=robot.nv - 6)
        sizes = [*(6 for _ in tasks[:-2]), 3, robot.nv - 6]
        velocity = [1e-3 * rng.normal(size=size) for size in sizes] if seed % 2 else None
        servo(q, velocity, target=near)
        if servo.lambda2 > 0:  # a singular direction is damped
            continue
        exact += 1
        lin = servo.linearization
        best = np.linalg.lstsq(lin.J, lin.e, rcond=None)[0]
        np.testing.assert_allclose(servo.qd, best, atol=1e-9 * np.abs(best).max())
    assert exact > nightly(100, 30) / 2


def test_the_sweep_over_a_floating_chain_gives_the_jacobian_of_its_center_of_mass() -> None:
    for seed in seeds(nightly(100, 30)):
        robot, _, rng = drawn(seed)
        task = sp.redundancy.CenterOfMassTask()
        servo = sp.Servo(robot, [task, sp.PostureTask()], dt=DT)
        q = robot.random(seed=rng)
        servo(q, target=[robot.center_of_mass(q), q])
        J = task.on(robot).jacobian(robot, q)
        np.testing.assert_allclose(servo.linearization.J[:3], J, atol=1e-13)


def test_a_floating_robot_at_its_speed_limits_takes_the_best_step_inside_them() -> None:
    held = 0
    for seed in seeds(nightly(300, 60)):
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
        slope = lin.J.T @ (lin.J @ x - lin.e)  # pushes held joints outwards, and no free joint
        noise = 1e-6 * np.abs(lin.J.T @ lin.e).max()
        upper, lower = x >= most * (1 - 1e-9), x <= -most * (1 - 1e-9)
        assert (slope[upper] < noise).all()
        assert (slope[lower] > -noise).all()
        assert (np.abs(slope[~upper & ~lower]) < noise).all()
        held += int((upper | lower).sum())
    assert held > nightly(300, 60)


@pytest.mark.parametrize(
    "rule",
    [sp.damping.Constant(1e-4), sp.damping.Constant(0.0), sp.damping.ErrorDamped(0.1)],
    ids=repr,
)
def test_damped_least_squares_of_many_rows_needs_no_singular_values(
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


def test_a_whole_configuration_is_a_posture() -> None:
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
