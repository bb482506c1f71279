"""Several tasks in the default Servo: parts that share no joint, and postures."""

from __future__ import annotations

import numpy as np
import pytest

from supple import Limits, PoseTask, PostureTask, Robot, Servo, StepStatus, load, urdf

DT = 0.005


def arm(side: str, y: float) -> str:
    """Return the links and joints of an arm with six joints on the base, as URDF."""
    text, parent = "", "base"
    axes = ("0 0 1", "0 1 0", "0 1 0", "1 0 0", "0 1 0", "1 0 0")
    for k, (axis, x) in enumerate(zip(axes, (0, 0, 0.4, 0.3, 0.1, 0.1), strict=True), 1):
        child = f"{side}{k}"
        text += (
            f'<link name="{child}"/><joint name="{side}_joint{k}" type="revolute">'
            f'<parent link="{parent}"/><child link="{child}"/><axis xyz="{axis}"/>'
            f'<origin xyz="{x} {y if k == 1 else 0} {0.1 if k == 2 else 0}"/>'
            '<limit lower="-3" upper="3" velocity="2" effort="1"/></joint>'
        )
        parent = child
    return text + (
        f'<link name="{side}_hand"/><joint name="{side}_fix" type="fixed"><parent link="{parent}"/>'
        f'<child link="{side}_hand"/><origin xyz="0.1 0 0"/></joint>'
    )


@pytest.fixture
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Robot, Robot, Robot]:
    """Return a robot with two arms on its base, and each of the arms alone."""
    folder, robots = tmp_path_factory.mktemp("two"), []
    for name, arms in (("both", "lr"), ("left", "l"), ("right", "r")):
        parts = "".join(arm(side, 0.2 if side == "l" else -0.2) for side in arms)
        file = folder / f"{name}.urdf"
        file.write_text(f'<robot name="{name}"><link name="base"/>{parts}</robot>')
        robots.append(urdf(file, tips=[f"{side}_hand" for side in arms]))
    return robots[0], robots[1], robots[2]


Q = np.array([0.3, 0.5, 0.8, 0.4, -0.7, 0.2])


@pytest.mark.parametrize("posture", [False, True])
def test_parts_that_share_no_joint_move_as_if_they_were_alone(
    two: tuple[Robot, Robot, Robot], posture: bool
) -> None:
    """Away from singularities, each arm of a robot with two arms moves as it does alone."""
    both, left, right = two
    rng = np.random.default_rng(0)
    twists = 0.05 * rng.normal(size=(2, 6))

    def moved(robot: Robot, hands: list[str], commands: list[np.ndarray]) -> np.ndarray:
        q, frames = np.tile(Q, len(hands)), [PoseTask(hand) for hand in hands]
        if posture:
            commands = [*commands, np.zeros(robot.dof)]
        tasks = [*frames, *([PostureTask(weight=0.02)] if posture else [])]
        servo = Servo(robot, tasks, dt=DT, limits=Limits.for_robot(robot))
        servo(q, commands if len(tasks) > 1 else commands[0])
        return servo.qd

    alone = [
        moved(robot, [hand], [twist])
        for robot, hand, twist in zip((left, right), ("l_hand", "r_hand"), twists, strict=True)
    ]
    together = moved(both, ["l_hand", "r_hand"], list(twists))
    np.testing.assert_allclose(together, np.concatenate(alone), rtol=0, atol=1e-12)


@pytest.mark.parametrize("weight", [1e-3, 1e-2, 1.0])
def test_a_weak_posture_is_no_singularity(weight: float) -> None:
    """With a posture of any weight, the step is the least-squares solution, without damping."""
    robot = load("panda")
    q = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])
    servo = Servo(
        robot, [PoseTask(), PostureTask(weight=weight)], dt=DT, limits=Limits.for_robot(robot)
    )
    rng = np.random.default_rng(1)
    for _ in range(10):
        servo.reset()
        servo(q, [0.1 * rng.normal(size=6), 0.3 * rng.normal(size=7)])
        linear = servo.linearization
        exact = np.linalg.lstsq(linear.J, linear.e, rcond=None)[0]
        assert servo.lambda2 == 0
        assert StepStatus.DAMPED not in servo.status
        np.testing.assert_allclose(servo.qd, exact, rtol=0, atol=1e-9)


def test_an_arm_with_a_posture_stops_at_the_end_of_its_reach() -> None:
    """The arm comes to rest without reversing, as without the posture, and reports OUT_OF_REACH."""
    robot = load("ur5e")
    q = np.array([0.3, -1.0, 0.9, -1.1, 1.3, 0.2])
    far = robot.fk(q)
    far[:3, 3] *= 3
    servo = Servo(robot, [PoseTask(), PostureTask(weight=1e-3)], dt=DT)
    turned, before = 0, np.zeros(6)
    for k in range(1500):
        q = servo(q, target=[far, np.zeros(6)])
        turned += int(k >= 1300 and servo.qd @ before < 0 and np.abs(servo.qd).max() > 1e-6)
        before = servo.qd
    assert turned == 0
    assert StepStatus.OUT_OF_REACH in servo.status
