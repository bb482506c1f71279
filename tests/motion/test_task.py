"""Laws of tasks on random trees: J is minus the derivative of e; moving by e reaches the target."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import supple
from some_tasks import reached, some_tasks
from supple import AxisTask, OrientationTask, PoseTask, PositionTask, PostureTask
from supple.kinematics.rotation import exp
from supple.tasks import Task, as_tasks
from supple.tasks.layout import compile_tasks
from trees import Tree, rotation, trees

Array = np.ndarray
H = np.finfo(float).eps ** (1 / 3)
laws = settings(max_examples=40, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)


def tolerance(tree: Tree, qd: Array, order: int) -> float:
    """Return an error bound of central differences of rows whose frame, base and axes move."""
    speed = 3 * tree.speed(qd)
    truncated = H**2 * speed ** (order + 2) * tree.reach
    return 2 * truncated + 8 * tree.rounding * speed ** (order - 1) / H


def errors(robot: supple.Robot, task: Task, q: Array, target: Array) -> Array:
    return supple.linearize(robot, task, q, target).e


# ---- J -----------------------------------------------------------------------------------------


@laws
@given(trees(), seeds)
def test_at_the_target_j_is_minus_the_derivative_of_the_error(tree: Tree, seed: int) -> None:
    robot, n = tree.robot, tree.robot.dof
    for some in some_tasks(robot, np.random.default_rng(seed)):
        target = reached(robot, some.task, tree.q)
        lin = supple.linearize(robot, some.task, tree.q, target)
        J, e = lin.J, lin.e
        assert abs(e).max() <= 16 * tree.rounding
        after = errors(robot, some.task, tree.q + H * np.eye(n), target)
        before = errors(robot, some.task, tree.q - H * np.eye(n), target)
        within = max(tolerance(tree, unit, order=1) for unit in np.eye(n))
        assert abs(J + (after - before).T / (2 * H)).max() <= 4 * within, some


def right_inverse(r: Array) -> Array:
    """Return the matrix M of d/dt log(E) = M w at log(E) = r, where dE/dt = E [w]."""
    x, y, z = r
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    theta = np.linalg.norm(r)
    return np.eye(3) + K / 2 + (1 / theta**2 - 1 / (2 * theta * np.tan(theta / 2))) * K @ K


@laws
@given(trees(), seeds, st.sampled_from((0.1, 1.0, 2.0, 3.0, np.pi - 0.01)))
def test_away_from_the_target_the_error_changes_by_the_derivative_of_log_times_j(
    tree: Tree, seed: int, angle: float
) -> None:
    # e = log(E) with E = R* Rᵀ and target R*, so dE/dt = -E [w], also near rotations by π.
    robot, rng = tree.robot, np.random.default_rng(seed)
    base = rng.choice([None, *tree.frames])
    task = OrientationTask(str(rng.choice(tree.frames)), base=base)
    axis = rng.normal(size=3)
    target = exp(angle * axis / np.linalg.norm(axis)) @ reached(robot, task, tree.q)
    lin = supple.linearize(robot, task, tree.q, target)
    J, e = lin.J, lin.e
    assert np.linalg.norm(e) == pytest.approx(angle, abs=16 * tree.rounding)
    qd = tree.qd / tree.speed(tree.qd)
    difference = errors(robot, task, tree.q + H * qd, target) - errors(
        robot, task, tree.q - H * qd, target
    )
    bent = 100 * tolerance(tree, qd, order=1)  # differences of log have a larger error
    assert abs(difference / (2 * H) + right_inverse(e) @ J @ qd).max() <= bent


def ancestors(robot: supple.Robot, frame: str) -> set[str]:
    """Return the names of the joints between the root and a frame."""
    described = robot.description
    links = {extra.name: extra.link for extra in described.frames}
    above = {joint.child: joint for joint in described.joints}
    link, names = links.get(frame, frame), set()
    while link in above:
        names.add(above[link].name)
        link = above[link].parent
    return names


@laws
@given(trees(), seeds)
def test_joints_that_move_frame_and_base_together_have_zero_columns_in_j(
    tree: Tree, seed: int
) -> None:
    robot, rng = tree.robot, np.random.default_rng(seed)
    a, b = (str(name) for name in rng.choice(tree.frames, 2))
    between = ancestors(robot, a) ^ ancestors(robot, b)
    moving = {
        joint.mimic.joint if joint.mimic else joint.name
        for joint in robot.description.joints
        if joint.name in between
    }
    still = [i for i, name in enumerate(robot.joint_names) if name not in moving]
    for axes in (None, "world", "body"):
        task = PoseTask(a, base=b, axes=axes, weight=0.3)  # a weight of 0.3 causes rounding errors
        J = supple.linearize(robot, task, tree.q, np.eye(4)).J
        assert not J[:, still].any()


@laws
@given(trees(), seeds)
def test_the_bias_acceleration_of_a_task_is_the_derivative_of_its_rows(
    tree: Tree, seed: int
) -> None:
    robot, qd = tree.robot, tree.qd
    for some in some_tasks(robot, np.random.default_rng(seed)):
        kernel = compile_tasks(robot, (some.task,)).kernel
        rows = [
            supple.linearize(robot, some.task, tree.q + h * qd, some.target).J @ qd for h in (H, -H)
        ]
        bias_acceleration = kernel.bias_acceleration(tree.q, qd, 1)
        within = 4 * tolerance(tree, qd, order=2)
        assert abs(bias_acceleration - (rows[0] - rows[1]) / (2 * H)).max() <= within, some
        assert abs(kernel.bias_acceleration(tree.q, -qd, 1) - bias_acceleration).max() == 0


# ---- e -----------------------------------------------------------------------------------------


@laws
@given(trees(), seeds, st.sampled_from((1e-9, 0.1, 2.0, np.pi - 1e-9, np.pi)))
def test_moving_a_frame_by_the_error_of_its_task_reaches_the_target(
    tree: Tree, seed: int, angle: float
) -> None:
    robot, rng = tree.robot, np.random.default_rng(seed)
    frame, base = str(rng.choice(tree.frames)), rng.choice([None, *tree.frames])
    few = 64 * tree.rounding
    T = reached(robot, PoseTask(frame, base=base), tree.q)
    axis = rng.normal(size=3)
    R = exp(angle * axis / np.linalg.norm(axis)) @ T[:3, :3]
    target = supple.pose(rng.uniform(-1, 1, 3), rotation=R)

    e = errors(robot, PoseTask(frame, base=base), tree.q, target)
    assert abs(T[:3, 3] + e[:3] - target[:3, 3]).max() <= few
    assert abs(exp(e[3:]) @ T[:3, :3] - R).max() <= few

    # An error in body axes is a rotation that multiplies from the right.
    own = errors(robot, PoseTask(frame, base=base, axes="body"), tree.q, target)
    assert abs(T[:3, :3] @ exp(own[3:]) - R).max() <= few

    a = rng.normal(size=3)
    pointing = AxisTask(frame, a, base=base)
    shall = R @ (a / np.linalg.norm(a))
    tilted = compile_tasks(robot, (pointing,)).tasks[0].on(robot).turn
    assert tilted is not None
    about = tilted @ np.append(errors(robot, pointing, tree.q, shall), 0.0)
    assert abs(T[:3, :3] @ exp(about) @ pointing.axis - shall).max() <= few
    assert np.linalg.norm(about) <= np.pi * (1 + 1e-15)


def test_the_error_of_an_axis_opposite_to_its_target_is_half_a_turn() -> None:
    robot = supple.load("panda")
    q = robot.neutral()
    z = robot.fk(q)[:3, 2]
    for shake in (0.0, 1e-300, 1e-200, 1e-17, 1e-9):
        e = AxisTask().linearize(robot, q, -z + shake * np.array([1.0, 2.0, 3.0])).e
        assert np.linalg.norm(e) == pytest.approx(np.pi, abs=1e-8)
    # Here, the target is exactly opposite, and the axes of the frame are those of the world.
    straight = supple.dh([(0.0, 0.0, 1.0, 0.0)])
    assert straight.fk([0.0])[:3, 2].tolist() == [0, 0, 1]
    assert supple.linearize(straight, AxisTask(), [0.0], (0, 0, -1.0)).e.tolist() == [np.pi, 0]
    assert AxisTask().linearize(straight, [0.0], (0, 0, -1.0)).e.tolist() == [np.pi, 0]


def test_the_two_rows_of_an_axis_task_have_rank_two() -> None:
    robot = supple.load("panda")
    for q in robot.random(50, seed=3):
        lin = AxisTask(axis=(1.0, -2.0, 0.5)).linearize(robot, q, (0, 0, 1.0))
        assert lin.J.shape == (2, 7)
        assert lin.rank == 2


# ---- weights, rows, names ----------------------------------------------------------------------


def test_weights_and_length_multiply_rows() -> None:
    robot = supple.load("puma560")
    q = robot.random(seed=1)
    T = robot.fk(robot.random(seed=2))
    plain = PoseTask().linearize(robot, q, T)
    each = PoseTask(weight=(1, 2, 3, 4, 5, 6), length=0.5).linearize(robot, q, T)
    factors = np.array([2, 4, 6, 4, 5, 6])
    assert abs(each.J - factors[:, None] * plain.J).max() <= 1e-14
    assert abs(each.e - factors * plain.e).max() <= 1e-14
    some = PoseTask(rows=("rz", "x"), weight=3.0, length=2.0).linearize(robot, q, T)
    assert abs(some.J - np.array([[3.0], [1.5]]) * plain.J[[5, 0]]).max() <= 1e-15
    assert pytest.approx(plain.J[:3] / 2) == PositionTask(length=2.0).linearize(robot, q).J
    assert pytest.approx(plain.J[3:]) == OrientationTask().linearize(robot, q).J


def test_the_velocity_of_a_target_is_added_to_the_error() -> None:
    robot = supple.load("panda")
    rng = np.random.default_rng(5)
    for seed in range(10):
        q = robot.random(seed=seed)
        for some in some_tasks(robot, rng):
            error = some.task.linearize(robot, q, some.target)
            moving = some.task.linearize(robot, q, velocity=some.velocity)
            both = some.task.linearize(robot, q, some.target, velocity=some.velocity)
            assert abs(both.e - error.e - moving.e).max() <= 1e-15 * abs(both.e).max() + 1e-15
            assert not some.task.linearize(robot, q).e.any()
            assert np.array_equal(both.J, moving.J)
            # The velocity of the frame at joint speeds q̇ gives the rows J q̇.
            if some.task.on(robot).traits.is_twist:
                twist = PoseTask(
                    some.task.frame, base=some.task.base, axes=getattr(some.task, "axes", None)
                )
                qd = rng.normal(size=7)
                v = twist.linearize(robot, q).J @ qd
                given = {PoseTask: v, PositionTask: v[:3]}.get(type(some.task), v[3:])
                asked = some.task.linearize(robot, q, velocity=given)
                assert abs(asked.e - asked.J @ qd).max() <= 1e-14


def test_names_of_rows_of_tasks_state_frame_base_and_axes() -> None:
    robot = supple.load("panda")
    hand, link = robot.tips[0], "panda_link4"
    assert PositionTask().rows_of(robot) == (f"x of {hand}", f"y of {hand}", f"z of {hand}")
    assert PoseTask(rows=["rz"], axes="world").rows_of(robot) == (f"rz of {hand}",)
    assert PoseTask(rows="x", axes="body").rows_of(robot) == (f"x of {hand} in axes of {hand}",)
    relative = f"x of {hand} relative to {link}"
    assert PoseTask(rows="x", base=link).rows_of(robot) == (f"{relative} in axes of {link}",)
    assert PoseTask(rows="x", base=link, axes="world").rows_of(robot) == (relative,)
    assert PostureTask().rows_of(robot) == robot.joint_names
    assert AxisTask().rows_of(robot)[0] == f"rx of {hand} in axes of {hand}"
    assert AxisTask(axis=(1, 0, 0)).rows_of(robot)[1] == (
        f"ry of {hand} in axes of {hand} with z along (1, 0, 0)"
    )
    lin = PoseTask().linearize(robot, robot.neutral())
    assert lin.rows == PoseTask().rows_of(robot)
    assert lin.q is not None
    assert np.array_equal(lin.q, robot.neutral())


def test_tasks_may_be_given_as_names_or_sequences() -> None:
    assert as_tasks("hand") == (PoseTask("hand"),)
    assert as_tasks(AxisTask()) == (AxisTask(),)
    assert as_tasks(["hand", PostureTask()]) == (PoseTask("hand"), PostureTask())
    assert hash(PoseTask(rows=["x"], weight=[1])) == hash(PoseTask(rows=("x",), weight=(1.0,)))
    assert PoseTask("a", axes="body") != PoseTask("a")


# ---- poses -------------------------------------------------------------------------------------


def test_pose_returns_the_same_pose_for_a_matrix_and_for_quaternions() -> None:
    rng = np.random.default_rng(8)
    pin = pytest.importorskip("pinocchio")
    for _ in range(20):
        R, p = rotation(rng, False), rng.normal(size=3)
        xyzw = pin.Quaternion(R).coeffs() * rng.choice([-3.0, 1.0, 1e-200, 1e200])
        wxyz = np.roll(xyzw, 1)
        expected = np.block([[R, p[:, None]], [np.array([[0, 0, 0, 1.0]])]])
        for T in (
            supple.pose(p, rotation=R),
            supple.pose(p, xyzw=xyzw),
            supple.pose(position=p, wxyz=wxyz),
        ):
            assert abs(T - expected).max() <= 4e-16 * 4
    assert np.array_equal(supple.pose(), np.eye(4))


def test_rows_of_alternate_tasks_are_those_of_the_point_at_the_target() -> None:
    """The velocity of this point is v + w × (t - p), in Python and in the kernel, also relative
    to a base that moves.
    """
    robot, q = supple.load("panda"), np.array([0.3, 0.5, -0.2, -1.8, 0.4, 1.2, 0.6])
    target = np.array([0.5, 0.2, 0.4])
    for base in (None, "panda_link3"):
        task, plain = (PositionTask(base=base, alternate=kind) for kind in (True, False))
        p = robot.fk(q)[:3, 3]
        t, wb, w = target, np.zeros((3, 7)), robot.jacobian(q)[3:]
        R = np.eye(3)
        if base is not None:
            T = robot.fk(q, base)
            t, R, wb = T[:3, 3] + T[:3, :3] @ target, T[:3, :3], robot.jacobian(q, base)[3:]
        turned = R.T @ np.cross(w - wb, (t - p)[:, None], axis=0)
        expected = supple.linearize(robot, plain, q, target).J + turned
        one = task.on(robot).jacobian(robot, q, task.targets(robot, target))
        np.testing.assert_allclose(one, expected, atol=1e-12)
        many = supple.linearize(robot, task, np.stack([q, q]), target).J
        np.testing.assert_allclose(many, [expected, expected], atol=1e-12)
        ordinary = task.on(robot).jacobian(robot, q)
        np.testing.assert_allclose(ordinary, expected - turned, atol=1e-12)
