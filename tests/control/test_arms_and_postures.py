"""Several tasks in the default Servo: arms that share no joint, and postures."""

from __future__ import annotations

import numpy as np
import pytest

from supple import Limits, PoseTask, PostureTask, Robot, Servo, StepStatus, load, urdf

DT = 0.005


def arm(side: str, y: float, parent: str = "base") -> str:
    """Return URDF text of an arm with six joints that is mounted on a link."""
    text = ""
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
    """Return a robot with two arms, and one robot with only the left and one with the right arm."""
    folder, robots = tmp_path_factory.mktemp("two"), []
    for name, arms in (("both", "lr"), ("left", "l"), ("right", "r")):
        parts = "".join(arm(side, 0.2 if side == "l" else -0.2) for side in arms)
        file = folder / f"{name}.urdf"
        file.write_text(f'<robot name="{name}"><link name="base"/>{parts}</robot>')
        robots.append(urdf(file, tips=[f"{side}_hand" for side in arms]))
    return robots[0], robots[1], robots[2]


Q = np.array([0.3, 0.5, 0.8, 0.4, -0.7, 0.2])


@pytest.mark.parametrize("posture", [False, True])
def test_each_of_two_arms_without_common_joints_moves_as_it_does_alone(
    two: tuple[Robot, Robot, Robot], posture: bool
) -> None:
    """Away from singularities, the speeds agree to 1e-12, with and without a posture."""
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


@pytest.mark.parametrize("posture", [False, True])
def test_an_arm_at_the_end_of_its_reach_moves_as_it_does_without_the_other_arm(
    two: tuple[Robot, Robot, Robot], posture: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step and the damping equal those of a robot with this arm only; the other arm rests."""
    # Estimated curvatures would differ: random configurations of the two robots differ.
    monkeypatch.setattr("supple.control.servo.largest_curvature", lambda layout: 0.5)
    both, left, _ = two
    tasks = [PostureTask(weight=0.02)] if posture else []
    alone = Servo(left, [PoseTask("l_hand"), *tasks], dt=DT)
    together = Servo(both, [PoseTask("l_hand"), PoseTask("r_hand"), *tasks], dt=DT)
    q = Q
    far, rest = left.fk(Q), both.fk(np.tile(Q, 2), "r_hand")
    far[:3, 3] *= 3
    reached = 0
    for _ in range(300):
        all_q = np.concatenate([q, Q])
        together(all_q, target=[far, rest, *([all_q] if posture else [])])
        q = alone(q, target=[far, q] if posture else far)
        size = np.abs(alone._step).max()
        np.testing.assert_allclose(together._step[:6], alone._step, rtol=0, atol=1e-8 * size)
        np.testing.assert_allclose(together._step[6:], 0, rtol=0, atol=1e-8 * size)
        assert together._chosen_lambda2 == pytest.approx(alone._chosen_lambda2, rel=1e-8)
        reached += StepStatus.OUT_OF_REACH in alone.status
    assert reached > 100


@pytest.mark.parametrize("weight", [1e-3, 1e-2, 1.0])
def test_a_posture_of_small_weight_causes_no_damping(weight: float) -> None:
    """With a posture of any weight, the step is the undamped least-squares solution."""
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


FIGURE = ["l_hand", "r_hand", "s_hand"]
TASKS = {
    "frames": [PoseTask(hand) for hand in FIGURE],
    "posture": [*map(PoseTask, FIGURE), PostureTask(weight=0.02)],
    "strong posture": [*map(PoseTask, FIGURE), PostureTask()],
    "weights": [*map(PoseTask, FIGURE), PostureTask(weight=tuple(np.geomspace(0.01, 0.5, 20)))],
    "some joints": [*map(PoseTask, FIGURE), PostureTask(["waist1", "l_joint2", "s_joint1"])],
    "two postures": [PostureTask(), *map(PoseTask, FIGURE), PostureTask(["l_joint2"], weight=2)],
    "free legs": [PoseTask("l_hand"), PostureTask(weight=0.1)],
    "more rows than joints": [*map(PoseTask, FIGURE), PoseTask("s5"), PostureTask(weight=0.1)],
    "relative": [PoseTask("l_hand", base="s_hand"), PoseTask("r_hand"), PostureTask(weight=0.1)],
    "to the base": [PoseTask("base", base="s_hand"), PoseTask("r_hand")],
}


@pytest.fixture(scope="module")
def figure(tmp_path_factory: pytest.TempPathFactory) -> Robot:
    """Return a robot with two arms on a waist of two joints, and a third arm on the base."""
    text = '<robot name="figure"><link name="base"/>'
    for name, parent, child, axis in (
        ("waist1", "base", "hips", "0 0 1"),
        ("waist2", "hips", "chest", "0 1 0"),
    ):
        text += (
            f'<link name="{child}"/><joint name="{name}" type="revolute"><parent link="{parent}"/>'
            f'<child link="{child}"/><axis xyz="{axis}"/><origin xyz="0 0 0.2"/>'
            '<limit lower="-3" upper="3" velocity="2" effort="1"/></joint>'
        )
    file = tmp_path_factory.mktemp("figure") / "figure.urdf"
    arms = arm("l", 0.2, "chest") + arm("r", -0.2, "chest") + arm("s", -0.4)
    file.write_text(text + arms + "</robot>")
    return urdf(file, tips=FIGURE)


@pytest.mark.parametrize("at_limit", [False, True])
@pytest.mark.parametrize("name", TASKS)
def test_the_step_of_a_tree_is_the_shortest_least_squares_solution(
    figure: Robot, name: str, at_limit: bool
) -> None:
    """For any tasks, the step is NumPy's least-squares solution for all rows together.

    NumPy's solution has no columns for joints that are at a limit and would leave their range.
    """
    rng = np.random.default_rng(2)
    servo = Servo(figure, TASKS[name], dt=DT)
    for _ in range(5):
        q = np.concatenate([[0.1, 0.2], np.tile(Q, 3)]) + 0.1 * rng.normal(size=20)
        velocities = [1e-3 * rng.normal(size=len(task.on(figure).weights)) for task in servo.tasks]
        servo.reset()
        if at_limit:
            q[3] = figure.upper[3]
            velocities[0] = 1e-3 * np.sign(velocities[0])
        servo(q, velocities)
        linear = servo.linearization
        J = np.array(linear.J)
        exact = np.linalg.lstsq(J, linear.e, rcond=1e-12)[0]
        if at_limit and exact[3] > 0:
            J[:, 3] = 0
            exact = np.linalg.lstsq(J, linear.e, rcond=1e-12)[0]
        assert at_limit or servo._chosen_lambda2 < 1e-9
        # Without the column of a joint at its limit, the Jacobian may be nearly singular.
        off = 1e-12 if servo._chosen_lambda2 < 1e-9 else 0.02 * np.abs(exact).max()
        np.testing.assert_allclose(servo._step, exact, rtol=0, atol=off)
