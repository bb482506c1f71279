"""Poses agree with SciPy; round trips, rounding, interpolation and bad input."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import supple
from cases import each
from solving import solve
from supple import poses
from supple.errors import InputError, UnknownNameError

Rotation = pytest.importorskip("scipy.spatial.transform").Rotation
Slerp = pytest.importorskip("scipy.spatial.transform").Slerp
FEW = 1e-14


def hard_rotations() -> np.ndarray:
    """Return rotation vectors (k, 3): random, tiny, near 180° and at 180°, also about each axis."""
    rng = np.random.default_rng(0)
    axes = np.concatenate([np.eye(3), -np.eye(3), rng.normal(size=(30, 3)), [[1, 1, 0], [0, 1, 1]]])
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    angles = [0.0, 1e-300, 1e-12, 1e-4, 0.7, np.pi / 2, 3.0, np.pi - 1e-9, np.pi]
    return np.concatenate([angle * axes for angle in angles])


VECTORS = hard_rotations()
MATRICES = Rotation.from_rotvec(VECTORS).as_matrix()


def rotation_of(T: np.ndarray) -> np.ndarray:
    return T[..., :3, :3]


def test_rotation_vectors_agree_with_scipy() -> None:
    T = supple.pose(rotation_vector=VECTORS)
    assert abs(rotation_of(T) - MATRICES).max() < FEW
    assert (T[:, 3] == [0, 0, 0, 1]).all()
    back = supple.pose(rotation_vector=poses.rotation_vector(T))
    assert abs(back - T).max() < FEW
    inside = np.linalg.norm(VECTORS, axis=1) < 3.1
    assert abs(poses.rotation_vector(T) - VECTORS)[inside].max() < 1e-13


def test_quaternions_agree_with_scipy() -> None:
    xyzw = Rotation.from_matrix(MATRICES).as_quat()
    assert abs(rotation_of(supple.pose(xyzw=3 * xyzw)) - MATRICES).max() < FEW
    assert abs(rotation_of(supple.pose(wxyz=-np.roll(xyzw, 1, -1))) - MATRICES).max() < FEW
    ours = poses.xyzw(MATRICES)
    assert (ours[:, 3] >= 0).all()
    assert (np.roll(ours, 1, -1) == poses.wxyz(MATRICES)).all()
    assert abs(np.linalg.norm(ours, axis=1) - 1).max() < FEW
    sign = np.where((ours * xyzw).sum(axis=1, keepdims=True) < 0, -1, 1)
    assert abs(sign * ours - xyzw).max() < FEW


def test_roll_pitch_yaw_agree_with_scipy_and_urdf() -> None:
    rng = np.random.default_rng(1)
    angles = rng.uniform(-1, 1, (200, 3)) * [np.pi, np.pi / 2, np.pi]
    T = supple.pose(rpy=angles)
    assert abs(rotation_of(T) - Rotation.from_euler("xyz", angles).as_matrix()).max() < FEW
    assert abs(poses.rpy(T) - angles).max() < 1e-12
    roll, pitch, yaw = 0.3, -0.4, 1.2
    text = (
        '<robot name="r"><link name="a"/><link name="b"/><joint name="j" type="continuous">'
        f'<parent link="a"/><child link="b"/><origin rpy="{roll} {pitch} {yaw}"/></joint></robot>'
    )
    expected = supple.urdf(text).fk([0.0])
    assert abs(supple.pose(rpy=[roll, pitch, yaw]) - expected).max() < FEW


@given(st.floats(-9, 9), st.sampled_from([-1, 1]), st.floats(0, 1e-6), st.floats(-9, 9))
def test_roll_pitch_yaw_round_trip_near_gimbal_lock(
    roll: float, sign: int, away: float, yaw: float
) -> None:
    T = supple.pose(rpy=[roll, sign * (np.pi / 2 - away), yaw])
    assert abs(supple.pose(rpy=poses.rpy(T)) - T).max() < FEW


def test_yaw_is_zero_at_gimbal_lock() -> None:
    R = Rotation.from_euler("xyz", [0.4, np.pi / 2, 0.1]).as_matrix()
    R = np.where(abs(R) < 1e-15, 0, R)
    roll, pitch, yaw = poses.rpy(R)
    assert yaw == 0
    np.testing.assert_allclose((roll, pitch), (0.3, np.pi / 2), atol=1e-8)


# ---- rounding ----------------------------------------------------------------------------------


@each("decimals", [4, 6, 10, 16])
def test_rounded_rotations_become_the_nearest_rotation(decimals: int) -> None:
    rough = np.round(MATRICES, decimals)
    R = rotation_of(supple.pose(rotation=rough))
    U, _, V = np.linalg.svd(rough)
    assert abs(R - U @ V).max() < FEW
    assert abs(R.swapaxes(1, 2) @ R - np.eye(3)).max() < FEW
    assert (poses.orthonormalize(rough) == R).all()
    angles = poses.correction(rough)
    assert angles.shape == (len(rough),)
    assert (angles <= 1.8 * 10.0**-decimals + 1e-15).all()
    if decimals == 4:
        assert angles.max() > 1e-5
        first = poses.correction(rough[5])
        assert np.ndim(first) == 0
        assert first == angles[5]


@each("scale", [1 - 4.9e-4, 1 + 4.9e-4, 1 + 1e-7, 1 - 1e-10])
def test_scaled_rotations_within_the_tolerance_become_orthonormal(scale: float) -> None:
    R = poses.orthonormalize(scale * MATRICES)
    assert abs(R - MATRICES).max() < FEW
    assert abs(R.swapaxes(1, 2) @ R - np.eye(3)).max() < FEW


def test_correcting_a_pose_keeps_its_position() -> None:
    T = supple.pose([0.1, 0.2, 0.3], rpy=[0.1, 0.7, -2])
    rough = np.round(T, 4)
    clean = poses.orthonormalize(rough)
    assert (clean[:3, 3] == rough[:3, 3]).all()
    assert abs(clean - T).max() < 1e-4
    assert (poses.orthonormalize(clean) == clean).all()
    assert poses.correction(clean) < FEW


def test_exact_poses_are_not_changed_by_correction() -> None:
    assert (supple.pose(rotation=np.eye(3)) == np.eye(4)).all()
    T = supple.load("panda").fk(supple.load("panda").random(20, seed=0))
    assert (poses.orthonormalize(T) == T).all()


def test_rotations_are_corrected_within_a_given_wider_tolerance() -> None:
    rough = np.round(MATRICES, 2)
    with pytest.raises(InputError, match=r"at most 0\.001 is corrected"):
        supple.pose(rotation=rough)
    R = rotation_of(supple.pose(rotation=rough, tolerance=0.05))
    assert abs(R.swapaxes(1, 2) @ R - np.eye(3)).max() < FEW
    U, _, V = np.linalg.svd(rough)
    assert abs(R - U @ V).max() < FEW
    assert (poses.orthonormalize(rough, tolerance=0.05) == R).all()


def test_solve_and_servo_correct_rotations_by_the_same_rule() -> None:
    panda = supple.load("panda")
    q = panda.random(8, seed=1)
    rough = np.round(panda.fk(q), 4)
    assert poses.correction(rough).max() > 1e-5
    clean = poses.orthonormalize(rough)
    for target in (rough, rough[3]):
        found = solve(panda, target, q0=panda.neutral())
        assert found.success.all() if np.ndim(target) > 2 else found.success
    one, same = solve(panda, rough[3]), solve(panda, clean[3])
    np.testing.assert_allclose(one.q, same.q, atol=1e-9)
    servo, twin = (supple.Servo(panda, dt=0.01) for _ in range(2))
    corrected = twin(q[0], target=clean[0])
    np.testing.assert_allclose(servo(q[0], target=rough[0]), corrected, rtol=0, atol=1e-13)
    assert abs(panda.with_tool(rough[0]).fk(q) - panda.fk(q) @ clean[0]).max() < FEW
    assert (panda.with_base(rough[0]).base == clean[0]).all()


# ---- interpolation -----------------------------------------------------------------------------


def test_positions_are_interpolated_linearly_and_rotations_as_by_scipys_slerp() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        pair = Rotation.random(2, random_state=int(rng.integers(1 << 30)))
        p = rng.normal(size=(2, 3))
        A, B = supple.pose(p, rotation=pair.as_matrix())
        s = np.linspace(0, 1, 11)
        T = poses.interpolate(A, B, s)
        assert T.shape == (11, 4, 4)
        assert abs(T[:, :3, :3] - Slerp([0, 1], pair)(s).as_matrix()).max() < 1e-13
        assert abs(T[:, :3, 3] - (p[0] + s[:, None] * (p[1] - p[0]))).max() < FEW
        assert abs(T[[0, -1]] - [A, B]).max() < FEW
        assert abs(poses.interpolate(A, B, 0.3) - poses.interpolate(A, B, [0.3])[0]).max() == 0


def test_poses_are_interpolated_in_batches_and_over_half_turns() -> None:
    A = np.eye(4)
    B = supple.pose([1, 0, 0], rotation_vector=[[np.pi, 0, 0], [0, 0, 1], [0, 0, 0]])
    T = poses.interpolate(A, B, [0, 0.5, 1])
    assert T.shape == (3, 3, 4, 4)
    assert abs(T[:, 1] - supple.pose([0.5, 0, 0], rotation_vector=[
        [np.pi / 2, 0, 0], [0, 0, 0.5], [0, 0, 0]
    ])).max() < FEW  # fmt: skip
    assert poses.interpolate(A, B, 0.5).shape == (3, 4, 4)
    assert abs(poses.interpolate(A, B[1], 2.0) - supple.pose([2, 0, 0], rpy=[0, 0, 2])).max() < FEW


# ---- batches and bad input ---------------------------------------------------------------------


def test_positions_and_rotations_of_poses_broadcast() -> None:
    assert supple.pose(np.zeros((2, 5, 3)), rpy=np.zeros((5, 3))).shape == (2, 5, 4, 4)
    assert supple.pose([1, 2, 3]).shape == (4, 4)
    assert supple.pose([1, 2, 3], wxyz=np.ones((7, 4))).shape == (7, 4, 4)


@each(
    ("call", "message"),
    [
        (lambda: supple.pose(np.eye(4)), "a pose already .*orthonormalize"),
        (lambda: supple.pose([1, 2]), r"position must be finite real numbers of shape \(3,\)"),
        (lambda: supple.pose(rpy=[1, 2]), r"rpy must be finite real numbers of shape \(3,\)"),
        (lambda: supple.pose(rpy=[0, 0, np.nan]), "rpy must be finite"),
        (lambda: supple.pose(rpy=[0, 0, 0], wxyz=[1, 0, 0, 0]), "one of rotation, .*wxyz, rpy"),
        (lambda: supple.pose(wxyz=[0, 0, 0, 0]), "a quaternion must not be zero"),
        (
            lambda: supple.pose(rpy=[180, 0, 90]),
            "angles of rpy must be in radians and at most 4π; given: 180. numpy.radians converts",
        ),
        (lambda: supple.pose(rotation_vector=[[0, 0, 0], [0, -90, 0]]), "radians.*given: -90"),
        (lambda: supple.pose(np.zeros((2, 3)), rpy=np.zeros((3, 3))), "position and rpy must have"),
        (lambda: supple.pose(tolerance=0.2), "tolerance must be a finite number at least 0 and at"),
        (lambda: poses.orthonormalize(np.zeros((3, 3))), "rotation must be orthonormal.*off by"),
        (lambda: poses.orthonormalize(np.diag([1.0, 1, -1])), "right-handed.* det -1"),
        (lambda: poses.wxyz(np.eye(2)), r"pose must be \(..., 4, 4\), or a rotation"),
        (lambda: poses.rpy("abc"), r"pose must be \(..., 4, 4\), or a rotation"),
        (lambda: poses.interpolate(np.eye(4), np.eye(3), 0), "end must be finite real numbers"),
        (lambda: poses.interpolate(np.eye(4), np.eye(4), np.nan), "times must be finite"),
        (lambda: poses.interpolate(np.eye(4), np.eye(4), [[0.5]]), "times must be one number or"),
        (
            lambda: poses.interpolate(
                np.tile(np.eye(4), (2, 1, 1)), np.tile(np.eye(4), (3, 1, 1)), 0
            ),
            "start and end must have the same leading axes",
        ),
    ],
)
def test_bad_poses_are_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def test_angles_up_to_two_turns_are_accepted() -> None:
    for name in ("rpy", "rotation_vector"):
        T = supple.pose(**{name: [0, 0, 4 * np.pi]})  # type: ignore[arg-type]
        np.testing.assert_allclose(T, np.eye(4), atol=1e-14)
        with pytest.raises(InputError, match="radians"):
            supple.pose(**{name: [0, 0, -4.001 * np.pi]})  # type: ignore[arg-type]


@each("name", ["quat", "quaternion"])
def test_the_error_about_a_quaternion_of_unknown_order_names_wxyz_and_xyzw(name: str) -> None:
    with pytest.raises(UnknownNameError, match=r"wxyz=.*xyzw="):
        supple.pose([0, 0, 0], **{name: [1, 0, 0, 0]})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"given: 2.*wxyz=, xyzw="):
        supple.pose([0, 0, 0], [1, 0, 0, 0])  # type: ignore[misc]
