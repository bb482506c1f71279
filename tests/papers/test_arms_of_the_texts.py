"""What the papers state about their arms: columns of J, singular configurations, updates.

W is Wampler 1986, MK Maciejewski & Klein 1988, DW Deo & Walker 1995 and B Buss 2009.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import supple
from slow_fk import fk, motion
from solving import solve
from supple import DLS, Limits, Linearization, PositionTask, Servo, damping
from supple.steps import Pseudoinverse, WeightedDLS, resolved_motion

Array = np.ndarray


@pytest.mark.parametrize("name", ["y", "double_y", "stanford", "puma560"])
def test_columns_of_the_jacobian_are_cross_products_or_joint_axes(name: str) -> None:
    """B §2: the column of a joint above s is v × (s - p) if it is revolute and v if it is
    prismatic; other columns are 0.
    """
    robot = supple.load(name)
    q = robot.random(seed=np.random.default_rng(1))
    description = robot.description
    poses = fk(description, q)
    joints = [joint for joint in description.joints if joint.kind != "fixed"]
    parents = {joint.child: joint for joint in description.joints}
    for tip, J in zip(robot.tips, np.atleast_3d(robot.jacobian(q, robot.tips)), strict=True):
        above, link = set(), next((f.link for f in description.frames if f.name == tip), tip)
        while link in parents:
            above.add(parents[link].name)
            link = parents[link].parent
        s = poses[tip][:3, 3]
        for j, joint in enumerate(joints):
            here = poses[joint.parent] @ joint.origin
            if joint.kind == "prismatic":
                here = here @ motion(joint, q[j])
            v = here[:3, :3] @ joint.axis
            column = v if joint.kind == "prismatic" else np.cross(v, s - here[:3, 3])
            expected = column if joint.name in above else np.zeros(3)
            np.testing.assert_allclose(J[:3, j], expected, atol=1e-12)


def test_rows_for_position_are_gradients_of_a_function_and_rows_for_rotation_are_not() -> None:
    """W, below (8): ∂J_j/∂q_k = ∂J_k/∂q_j, because second derivatives commute, holds only in rows
    for position.
    """
    robot, h = supple.load("puma560"), 1e-5
    q = robot.random(seed=np.random.default_rng(5))
    slopes = [
        (robot.jacobian(q + h * unit) - robot.jacobian(q - h * unit)) / (2 * h)
        for unit in np.eye(robot.dof)
    ]
    H = np.stack(slopes, axis=2)  # axes: (row, joint, joint)
    twist = np.abs(H - H.transpose(0, 2, 1)).max(axis=(1, 2))
    assert (twist[:3] < 1e-8).all()
    assert (twist[3:] > 0.1).all()


@pytest.mark.parametrize("name", ["puma560", "puma560_mk", "stanford"])
def test_an_arm_with_a_spherical_wrist_has_two_kinds_of_singularity(name: str) -> None:
    """W: J is singular if and only if the partial velocities of the wrist point with respect to the
    first three joints, or the three wrist axes, lie in a plane: |det J| = |det A| |det B|.
    """
    robot = supple.load(name)
    for q in robot.random(50, seed=2):
        T, J = robot.fk_jacobian(q)
        # The point x in which the three wrist axes meet satisfies v + w × x = 0 for each of them.
        rows = np.vstack([-np.cross(np.eye(3), w) for w in J[3:, 3:].T])
        to_wrist = np.linalg.lstsq(rows, J[:3, 3:].T.ravel(), rcond=None)[0]
        v = J[:3] + np.cross(J[3:].T, to_wrist).T
        assert abs(v[:, 3:]).max() < 1e-9, T
        both = abs(np.linalg.det(v[:, :3]) * np.linalg.det(J[3:, 3:]))
        assert abs(np.linalg.det(J)) == pytest.approx(both, abs=1e-12)
    for q in robot.random(20, seed=3):
        q[4] = 0.0  # now the wrist axes lie in a plane, wherever the arm is
        lin = Linearization(robot.jacobian(q), np.zeros(6))
        assert lin.rank == 5


def test_each_singularity_of_the_puma_loses_a_different_direction() -> None:
    """MK VI, Table I: at the wrist singularity, a rotation is lost. With the wrist above the
    shoulder, the velocity perpendicular to the arm's plane is lost; with a stretched elbow, the
    velocity along the arm.
    """
    robot = supple.load("puma560_mk")
    flange = np.eye(4)
    flange[2, 3] = -0.056
    robot = robot.with_frame("wrist", robot.tips[0], flange)
    rng = np.random.default_rng(4)
    for _ in range(10):
        q = rng.uniform(-2, 2, 6)
        q[4] = 0.0
        J = robot.jacobian(q, "wrist")
        lost = Linearization(J, np.zeros(6)).U[:, -1]
        assert np.linalg.matrix_rank(J) == 5
        assert np.linalg.matrix_rank(J[:3]) == 3
        assert np.linalg.norm(lost[3:]) > 0.1
    over = np.radians([0, -60, 32.756, 0, 40, 0])
    J = robot.jacobian(over, "wrist")[:3]
    assert abs(robot.fk(over, "wrist")[0, 3]) < 1e-5
    rows = [f"{row} of wrist" for row in "xyz"]
    lin = Linearization(J, np.zeros(3), rows=rows)
    assert lin.sigma_min < 1e-5
    assert lin.singular_direction == "translation along world y"
    assert abs(lin.U[1, -1]) == pytest.approx(1, abs=1e-6)
    # Links two and three are in line; the forearm is the hypotenuse of a triangle with legs of
    # 0.020 m and 0.433 m.
    stretched = np.radians([0, -40, 90, 0, 60, 0])
    stretched[2] += np.arctan2(0.020, 0.433)
    lin = Linearization(robot.jacobian(stretched, "wrist")[:3], np.zeros(3))
    assert lin.sigma_min < 1e-12
    arm = robot.fk(stretched, "wrist")[:3, 3] - [0, 0.149, 0]
    assert np.linalg.norm(arm) == pytest.approx(0.432 + np.hypot(0.020, 0.433), rel=1e-9)
    assert abs(lin.U[:, -1] @ arm) > 0.98 * np.linalg.norm(arm)


def test_the_built_in_puma_has_the_dh_parameters_of_table_one() -> None:
    """The built-in arm has the link lengths, offsets and twists of MK, Table I (standard DH)."""
    lengths, offsets = [0, 0.432, -0.020, 0, 0, 0], [0, 0.149, 0, 0.433, 0, 0.056]
    twists = np.radians([-90, 0, 90, -90, 90, 0])
    robot = supple.load("puma560_mk")
    for q in np.random.default_rng(6).uniform(-3, 3, (5, 6)):
        T = np.eye(4)
        for a, d, twist, angle in zip(lengths, offsets, twists, q, strict=True):
            c, s, ca, sa = np.cos(angle), np.sin(angle), np.cos(twist), np.sin(twist)
            T = T @ np.array(
                [
                    [c, -s * ca, s * sa, a * c],
                    [s, c * ca, -c * sa, a * s],
                    [0, sa, ca, d],
                    [0, 0, 0, 1],
                ]
            )
        np.testing.assert_allclose(robot.fk(q), T, atol=1e-14)


def test_variable_damping_has_no_error_at_corners_a_and_d_of_the_square() -> None:
    """MK VI: at corners A and D, variable damping has no error, and its joint speed is within 15 %
    of that of constant damping.
    """
    robot = supple.load("planar2")
    for corner, along in (([0.1, -1.0, 0], [1.0, 0.0]), ([0.1, 1.0, 0], [0.0, -1.0])):
        solution = solve(robot, corner, tasks=PositionTask(rows=["x", "y"]))
        assert solution.success
        lin = Linearization(robot.jacobian(solution.q)[:2], 0.01 * np.array(along))
        variable = DLS(damping.SpeedBound(2.0))(lin)  # 0.02 rad/cm
        constant = DLS(damping.Constant(0.25**2))(lin)  # λ = 25 cm
        size = np.linalg.norm(lin.e)
        assert np.linalg.norm(lin.J @ variable - lin.e) < 1e-12 * size
        assert np.linalg.norm(lin.J @ constant - lin.e) > 0.03 * size
        ratio = np.linalg.norm(variable) / np.linalg.norm(constant)
        assert ratio == pytest.approx(1, abs=0.15)


def test_several_updates_per_target_follow_it_more_closely() -> None:
    """B §2: with one update per target, the end effector lags behind; with a few updates, it
    follows closely.
    """
    robot, dt = supple.load("planar3"), 0.02
    task = PositionTask(rows=["x", "y"])
    lags = {}
    for updates in (1, 2, 5):
        q = np.array([0.3, 0.6, 0.5])
        step = DLS(damping.Constant(0.3**2))
        servo = Servo(robot, task, dt=dt, step=step, gain=1 / dt, limits=Limits.none(robot))
        start, off = robot.fk(q)[:3, 3], []
        for k in range(100):
            target = start + 0.1 * np.array([np.sin(0.1 * k), 1 - np.cos(0.1 * k), 0])
            for _ in range(updates):
                q = servo(q, target=target)
            off.append(np.linalg.norm(robot.fk(q)[:2, 3] - target[:2]))
        lags[updates] = max(off)
    assert all(lags[b] < 0.7 * lags[a] for a, b in itertools.pairwise((1, 2, 5)))


def test_with_too_much_damping_updates_converge_slowly() -> None:
    """B §5: each update leaves the fraction λ²/(σ_i² + λ²) of the error along u_i."""
    J = np.diag([1.0, 0.3])
    for lam in (0.1, 1.0, 3.0):
        e = np.ones(2)
        for _ in range(5):
            e = e - J @ DLS(damping.Constant(lam**2))(Linearization(J, e))
        left = lam**2 / (np.array([1.0, 0.3]) ** 2 + lam**2)
        np.testing.assert_allclose(e, left**5, rtol=1e-9)


def test_near_a_singularity_undamped_steps_are_too_fast_only_along_the_singular_direction() -> None:
    """DW 2: near a singularity, the commanded velocity decides whether joint speeds
    are too high.
    """
    robot = supple.load("planar2")
    J = robot.jacobian([0.3, 1e-3])[:2]
    lin = Linearization(J, np.zeros(2))
    for direction, fast in ((lin.U[:, 1], True), (lin.U[:, 0], False)):
        speed = np.linalg.norm(Pseudoinverse()(Linearization(J, direction)))
        assert (speed > 1000) == fast
        assert fast or speed < 1


def test_damping_further_reduces_the_minimized_joint_torques() -> None:
    """DW 2.1, footnote: among the q̈ with the commanded acceleration, one minimizes the torque ‖M
    q̈ + g‖.

    With x = q̈ + M⁻¹g, this torque is a weighted norm of x; damping reduces it further.
    """
    arm = supple.load("puma560_roll")
    for k, link in enumerate(arm.description.links[1:]):
        arm = arm.with_inertia(link, 5.0 / (k + 1), (0.05, 0.02, 0.1), 0.05 * np.eye(3))
    rng = np.random.default_rng(7)
    q, qd, a = arm.random(seed=rng), rng.normal(size=7), rng.normal(size=6)
    lin = resolved_motion(arm, a, q, qd)
    M, g = arm.inertia_matrix(q), arm.gravity_torques(q)
    down = np.linalg.solve(M, g)
    shifted = Linearization(lin.J, lin.e + lin.J @ down)

    def torques(lambda2: float) -> tuple[Array, Array]:
        qdd = WeightedDLS(damping.Constant(lambda2), joint_weight=M @ M)(shifted) - down
        return qdd, M @ qdd + g

    qdd, tau = torques(0.0)
    moved = lin.J @ qdd + arm.bias_acceleration(q, qd)
    np.testing.assert_allclose(moved, a, atol=1e-8)
    null = np.linalg.svd(lin.J)[2][-1]
    assert abs(null @ M @ tau) < 1e-8 * np.linalg.norm(M @ tau)  # no self-motion reduces the torque
    damped = torques(1e-4)[1]
    assert np.linalg.norm(damped) < np.linalg.norm(tau)
