"""Allowed ranges of task rows: e and J agree with a slow oracle, inside and outside."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import supple
from sizes import nightly
from solving import solve
from supple import AxisTask, OrientationTask, PoseTask, PositionTask, PostureTask, Servo
from supple.errors import InputError, UnknownNameError
from supple.kinematics.rotation import exp, log
from supple.tasks.layout import compile_tasks
from supple.tasks.open_task import OpenTask
from tolerances import angle_between, box_distance, pose_at

Array = np.ndarray
INF = math.inf
ROBOTS = ("panda", "youbot", "ur5e")


@pytest.fixture(scope="module", params=ROBOTS)
def robot(request: pytest.FixtureRequest) -> supple.Robot:
    return supple.load(request.param)


def near(T: Array, rng: np.random.Generator, far: float, turn: float) -> Array:
    """Return a random pose whose offset from T is at most `far` [m] and `turn` [rad] per axis."""
    to = T.copy()
    to[:3, 3] += rng.uniform(-far, far, 3)
    to[:3, :3] = exp(rng.uniform(-turn, turn, 3)) @ T[:3, :3]
    return to


# ---- e and J by their definitions ----------------------------------------------------------------


@pytest.mark.usefixtures("isa")
def test_e_is_the_distance_from_the_box_of_ranges_and_j_is_zero_inside(robot: supple.Robot) -> None:
    rng = np.random.default_rng(1)
    ranges = {"x": 0.02, "y": (-0.01, 0.03), "z": (0.0, INF), "rx": 0.1, "rz": (-0.2, 0.05)}
    lower = np.array([-0.02, -0.01, 0.0, -0.1, 0.0, -0.2])
    upper = np.array([0.02, 0.03, INF, 0.1, 0.0, 0.05])
    task = PoseTask(tolerance=ranges, weight=(1.0, 2.0, 3.0, 0.5, 1.0, 1.5))
    weight = np.array(task.weight)
    plain = PoseTask(weight=task.weight)
    inside = 0
    for q in robot.random(nightly(200, 60), seed=2):
        T = near(pose_at(robot, q), rng, 0.05, 0.2)
        lin = supple.linearize(robot, task, q, T)
        is_at = pose_at(robot, q)
        off = np.append(is_at[:3, 3] - T[:3, 3], log(is_at[:3, :3] @ T[:3, :3].T))
        expected = -weight * box_distance(off, lower, upper)
        np.testing.assert_allclose(lin.e, expected, atol=1e-14)
        met = (expected == 0) & (lower < upper)
        inside += met.sum()
        J = supple.linearize(robot, plain, q, T).J
        np.testing.assert_array_equal(lin.J, np.where(met[:, None], 0.0, J))
        twin = task.linearize(robot, q, T)
        np.testing.assert_allclose(twin.e, lin.e, atol=1e-14)
        np.testing.assert_allclose(twin.J, lin.J, atol=1e-14)
    assert nightly(200, 60) < inside < nightly(800, 240)


@pytest.mark.parametrize("about", ["x", "y", "z"])
@pytest.mark.usefixtures("isa")
def test_a_task_with_a_free_axis_controls_only_its_direction(
    robot: supple.Robot, about: str
) -> None:
    k = "xyz".index(about)
    rng = np.random.default_rng(3)
    task, hold = PoseTask(about=about), OrientationTask(about=about)
    assert len(task.rows_of(robot)) == 5
    for q in robot.random(nightly(50, 16), seed=4):
        T = near(pose_at(robot, q), rng, 0.1, 2.0)
        R = pose_at(robot, q)[:3, :3]
        e = supple.linearize(robot, task, q, T).e
        turn = np.insert(e[3:], k, 0.0)  # rotation about the other two axes of the frame
        np.testing.assert_allclose((R @ exp(turn))[:, k], T[:3, k], atol=1e-13)
        assert np.linalg.norm(turn) <= math.pi + 1e-12
        # Rotating the target about its free axis does not change the error.
        spin = T.copy()
        spin[:3, :3] = T[:3, :3] @ exp(rng.uniform(-3, 3) * np.eye(3)[k])
        np.testing.assert_allclose(supple.linearize(robot, task, q, spin).e, e, atol=1e-12)
        np.testing.assert_allclose(supple.linearize(robot, hold, q, spin).e, e[3:], atol=1e-12)


@pytest.mark.parametrize("about", ["x", "y", "z"])
@pytest.mark.usefixtures("isa")
def test_the_error_of_an_axis_outside_its_cone_is_the_angle_beyond_the_cone(
    robot: supple.Robot, about: str
) -> None:
    k, cone = "xyz".index(about), 0.4
    rng = np.random.default_rng(5)
    task = PoseTask(about=about, cone=cone, weight=(1, 1, 1, 2, 2, 2))
    assert task.rows_of(robot)[3].startswith("tilt of")
    met = 0
    h = 1e-6
    for q in robot.random(nightly(60, 24), seed=6):
        T = near(pose_at(robot, q), rng, 0.1, 0.6)

        def beyond(at: Array) -> float:
            return angle_between(pose_at(robot, at)[:3, k], T[:3, k]) - cone  # noqa: B023

        lin = supple.linearize(robot, task, q, T)
        assert lin.e[3] == pytest.approx(2 * max(beyond(q), 0.0), abs=1e-12)
        if beyond(q) <= 0:
            met += 1
            assert not lin.J[3].any()
        else:  # J is minus the derivative of the angle
            slope = [(beyond(q + d) - beyond(q - d)) / (2 * h) for d in h * np.eye(robot.dof)]
            np.testing.assert_allclose(lin.J[3], -2 * np.array(slope), atol=1e-7)
        twin = task.linearize(robot, q, T)
        np.testing.assert_allclose(twin.e, lin.e, atol=1e-13)
        np.testing.assert_allclose(twin.J, lin.J, atol=1e-12)
        axis = AxisTask(axis=tuple(np.eye(3)[k]), cone=cone).linearize(robot, q, T[:3, k])
        np.testing.assert_allclose(2 * axis.e, lin.e[3:], atol=1e-12)
        np.testing.assert_allclose(2 * axis.J, lin.J[3:], atol=1e-9)
    assert nightly(10, 3) < met < nightly(50, 21)


@pytest.mark.parametrize(
    "task",
    [PoseTask(about="y"), PoseTask(about="x", cone=0.1), AxisTask(cone=0.1)],
    ids=["free axis", "cone of a frame", "cone of an axis"],
)
@pytest.mark.usefixtures("isa")
def test_velocities_and_biases_of_rows_with_ranges_are_derivatives(
    robot: supple.Robot, task: Any
) -> None:
    rng = np.random.default_rng(7)
    h = 1e-6
    for q in robot.random(20, seed=8):
        T = near(pose_at(robot, q), rng, 0.1, 1.0)
        qd = rng.normal(size=robot.dof)
        goal = T[:3, 2] if isinstance(task, AxisTask) else T
        w = rng.normal(size=3 if isinstance(task, AxisTask) else 6)
        twin = task.linearize(robot, q, goal, velocity=w)
        lin = supple.linearize(robot, task, q, goal, velocity=w, qd=qd)
        np.testing.assert_allclose(lin.e, twin.e, atol=1e-12)
        ahead, behind = (supple.linearize(robot, task, q + d * qd, goal).J for d in (h, -h))
        if (ahead.any(axis=1) != behind.any(axis=1)).any():
            continue  # a row enters its range between the two points
        np.testing.assert_allclose(
            lin.bias_acceleration, (ahead - behind) @ qd / (2 * h), atol=2e-6, rtol=1e-5
        )
        # If the target moves with the twist of the frame, its velocity adds J q̇ to the error.
        if not isinstance(task, AxisTask) and lin.J[-1].any():
            twist = robot.jacobian(q) @ qd
            follow = supple.linearize(robot, task, q, goal, velocity=twist)
            e = supple.linearize(robot, task, q, goal).e
            np.testing.assert_allclose(follow.e - e, follow.J @ qd, atol=1e-10)


def test_the_error_of_a_posture_with_ranges_is_the_distance_from_the_ranges() -> None:
    robot = supple.load("panda")
    q, rest = robot.random(seed=1), robot.neutral()
    off = q - rest
    every = PostureTask(tolerance=0.3).linearize(robot, q, rest)
    np.testing.assert_allclose(every.e, -box_distance(off, np.full(7, -0.3), np.full(7, 0.3)))
    np.testing.assert_array_equal(every.J, np.diag((every.e != 0).astype(float)))
    some = PostureTask(tolerance={robot.joint_names[2]: (0.0, INF)})
    e = supple.linearize(robot, some, q, rest).e
    assert e[2] == (0.0 if off[2] >= 0 else -off[2])
    np.testing.assert_allclose(np.delete(e, 2), -np.delete(off, 2))


def test_the_error_of_an_open_task_with_ranges_is_the_distance_from_the_ranges() -> None:
    robot = supple.load("panda")
    q = robot.random(seed=2)
    task = OpenTask(lambda q: q[:2] + q[2:4], tolerance=(-0.5, 0.2), unit="rad")
    x = q[:2] + q[2:4]
    for off in ([0.1, -0.4], [0.3, -0.7], [0.1, 1.0]):
        lin = supple.linearize(robot, task, q, x - off)
        expected = -box_distance(np.array(off), -0.5, 0.2)
        np.testing.assert_allclose(lin.e, expected, atol=1e-12)
        np.testing.assert_array_equal(lin.J.any(axis=1), expected != 0)
        np.testing.assert_allclose(task.linearize(robot, q, x - off).e, expected, atol=1e-12)
    servo = Servo(robot, task, dt=0.01, gain=10.0)
    np.testing.assert_array_equal(servo(q, target=x - [0.1, -0.4]), q)
    then = q
    for _ in range(400):
        then = servo(then, target=x - [0.3, -0.7])
    np.testing.assert_allclose(then[:2] + then[2:4] - x, [-0.1, 0.2], atol=1e-6)
    found = solve(robot, x + 0.1, tasks=task)
    assert found.success
    off = found.q[:2] + found.q[2:4] - x - 0.1
    assert abs(box_distance(off, -0.5, 0.2)).max() <= 1e-6


@pytest.mark.usefixtures("isa")
def test_batches_of_tasks_with_ranges_equal_linearizations_one_by_one() -> None:
    robot = supple.load("panda")
    tasks = [
        PoseTask(tolerance={"x": 0.1, "rx": 0.5}, axes="body"),
        PositionTask("panda_link4", tolerance=(-0.2, 0.1)),
        AxisTask("panda_link5", cone=0.8),
    ]
    q = robot.random(37, seed=9)
    T = robot.fk(robot.random(seed=10))
    targets = [T, T[:3, 3] / 2, T[:3, 0]]
    lin = supple.linearize(robot, tasks, q, targets)
    for i, one in enumerate(q):
        each = [t.linearize(robot, one, goal) for t, goal in zip(tasks, targets, strict=True)]
        np.testing.assert_allclose(lin.e[i], np.concatenate([x.e for x in each]), atol=1e-12)
        np.testing.assert_allclose(lin.J[i], np.vstack([x.J for x in each]), atol=1e-12)
    # Without a target, the tilt of the axis is unknown: its row is zero, all other rows are not.
    J = supple.linearize(robot, tasks, q).J
    assert J[:, :9].any(axis=-1).all()
    assert not J[:, 9].any()


def test_components_of_a_pose_with_infinite_ranges_have_no_row() -> None:
    robot = supple.load("panda")
    task = PoseTask(tolerance={"y": INF})
    assert task.rows_of(robot) == tuple(
        name for name in PoseTask().rows_of(robot) if not name.startswith("y")
    )
    assert compile_tasks(robot, (task,)).kernel.rows == 5


# ---- input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: PoseTask(tolerance=0.1), "meters and radians"),
        (lambda: PositionTask(tolerance={"w": 0.1}), "'x', 'y', 'z'"),
        (lambda: PositionTask(tolerance=-0.1), "lower < upper"),
        (lambda: PositionTask(tolerance={"x": (1.0, 0.0)}), "lower < upper"),
        (lambda: PositionTask(tolerance={"x": "far"}), "lower < upper"),
        (lambda: PositionTask(tolerance=INF), "no bound in any row"),
        (lambda: PoseTask(tolerance={"rz": INF}), "about="),
        (lambda: PoseTask(cone=0.1), "about='z'"),
        (lambda: PoseTask(about="w"), "'x', 'y', 'z'"),
        (lambda: PoseTask(about="z", cone=4.0), "below pi"),
        (lambda: PoseTask(about="z", rows=("x", "rx")), "other two axes"),
        (lambda: PoseTask(about="z", axes="spatial"), "spatial"),
        (lambda: PoseTask(about="z", cone=0.1, tolerance={"rx": 0.1}), "together"),
        (lambda: PoseTask(axes="spatial", tolerance={"x": 0.1}), "spatial"),
        (lambda: AxisTask(cone=0.0), "above 0"),
        (lambda: PostureTask(tolerance={"no": 0.1}).on(supple.load("panda")), "panda_joint1"),
    ],
)
def test_invalid_ranges_are_refused_with_a_reason(make: Any, words: str) -> None:
    with pytest.raises((InputError, UnknownNameError), match=words):
        make()


def test_tasks_with_ranges_can_be_dictionary_keys() -> None:
    ranges = {"x": 0.1}
    task = PositionTask(tolerance=ranges)
    ranges["x"] = 0.2
    assert task == PositionTask(tolerance={"x": (-0.1, 0.1)})
    assert hash(task) == hash(PositionTask(tolerance={"x": 0.1}))
    assert hash(PostureTask(tolerance={"a": 0.1})) == hash(PostureTask(tolerance={"a": 0.1}))
