"""Analytic Jacobians: derivatives of position and orientation parameters (Wampler 1986, eq. 10).

Euler angles and quaternions by SciPy are differentiated by central differences.
"""

from __future__ import annotations

import numpy as np
import pytest

import supple
from cases import each
from supple import poses
from supple.errors import InputError, UnknownNameError
from supple.kinematics.orientation import PARAMETERS, SEQUENCES

Rotation = pytest.importorskip("scipy.spatial.transform").Rotation
Array = np.ndarray


def parameters(R: Array, orientation: str) -> Array:
    """Return the orientation parameters (..., k) by SciPy, for which lower-case letters are fixed
    axes.
    """
    if orientation == "direction_cosines":
        return R.reshape(*R.shape[:-2], 9)
    rotation = Rotation.from_matrix(R.reshape(-1, 3, 3))
    if orientation in ("wxyz", "xyzw"):
        found = rotation.as_quat(canonical=True)
        found = np.roll(found, 1, axis=-1) if orientation == "wxyz" else found
    else:
        kind, axes = ("extrinsic", "xyz") if orientation == "rpy" else orientation.split()
        found = rotation.as_euler(axes.upper() if kind == "intrinsic" else axes)
    return found.reshape(*R.shape[:-2], -1)


def difference(after: Array, before: Array, orientation: str) -> Array:
    """Return after - before, modulo 2π for angles."""
    d = after - before
    if "wxyz" in orientation or "xyzw" in orientation or "cosines" in orientation:
        return d
    return (d + np.pi) % (2 * np.pi) - np.pi


def turned(R: Array, w: Array) -> Array:
    return Rotation.from_rotvec(w).as_matrix() @ R


@pytest.fixture(scope="module")
def R() -> Array:
    return Rotation.random(60, random_state=4).as_matrix()


def test_there_are_twelve_sequences_of_euler_angles() -> None:
    assert len(set(SEQUENCES)) == 12
    assert len(set(PARAMETERS)) == 4 + 24


@each("orientation", PARAMETERS)
def test_rate_maps_give_the_rates_of_orientation_parameters(orientation: str, R: Array) -> None:
    h, found = 1e-5, poses.rate_map(R, orientation)
    for axis in range(3):
        w = h * np.eye(3)[axis]
        after, before = (parameters(turned(R, s * w), orientation) for s in (1, -1))
        expected = difference(after, before, orientation) / (2 * h)
        # The error of the difference is a third derivative, which grows as the cube of the rates.
        size = np.maximum(1.0, abs(found).max(axis=(-1, -2)))[:, None]
        assert (abs(found[:, :, axis] - expected) <= 1e-9 * size**3).all()


@each("orientation", [p for p in PARAMETERS if " " in p or p == "rpy"])
def test_euler_angles_are_those_of_scipy(orientation: str, R: Array) -> None:
    found = poses.euler(R, orientation)
    assert abs(difference(found, parameters(R, orientation), orientation)).max() < 1e-13
    np.testing.assert_array_equal(poses.euler(R, "rpy"), poses.rpy(R))


@each("sequence", SEQUENCES)
@each("kind", ["intrinsic", "extrinsic"])
def test_euler_angles_at_singularities_give_the_same_rotation(sequence: str, kind: str) -> None:
    rng = np.random.default_rng(1)
    proper = sequence[0] == sequence[2]
    for middle in (0.0, np.pi) if proper else (np.pi / 2, -np.pi / 2):
        for off in (0.0, 1e-15, 1e-9, 1e-5):
            a, c = rng.uniform(-3, 3, 2)
            axes = sequence.upper() if kind == "intrinsic" else sequence
            rotation = Rotation.from_euler(axes, [a, middle + off, c]).as_matrix()
            found = poses.euler(rotation, f"{kind} {sequence}")
            back = Rotation.from_euler(axes, found).as_matrix()
            assert abs(back - rotation).max() < 1e-14
        exact = Rotation.from_euler(axes, [a, middle, c]).as_matrix()
        with pytest.raises(InputError, match="middle angle"):
            poses.rate_map(exact, f"{kind} {sequence}")


@each("orientation", PARAMETERS)
@each("name", ["panda", "stanford"])
def test_the_analytic_jacobian_is_the_derivative_of_the_pose(name: str, orientation: str) -> None:
    robot, h = supple.load(name), 1e-5
    for q in robot.random(3, seed=5):
        J = robot.analytic_jacobian(q, orientation=orientation)
        count = {"wxyz": 4, "xyzw": 4, "direction_cosines": 9}.get(orientation, 3)
        assert J.shape == (3 + count, robot.dof)
        size = max(1.0, abs(J).max())
        T, before = (robot.fk(q + sign * h * np.eye(robot.dof)) for sign in (1, -1))
        pair = (parameters(x[:, :3, :3], orientation) for x in (T, before))
        expected = [(T - before)[:, :3, 3], difference(*pair, orientation)]
        expected = np.concatenate(expected, axis=1) / (2 * h)
        np.testing.assert_allclose(J.T, expected, atol=1e-9 * size**3)


@each("orientation", ["rpy", "wxyz", "direction_cosines"])
def test_an_analytic_jacobian_is_the_same_in_a_batch_with_several_frames_and_alone(
    orientation: str,
) -> None:
    robot = supple.load("panda")
    q, frames = robot.random((4, 3), seed=0), ["panda_link5", "panda_hand"]
    found = robot.analytic_jacobian(q, frames, orientation=orientation)
    for i in np.ndindex(4, 3):
        for k, frame in enumerate(frames):
            one = robot.analytic_jacobian(q[i], frame, orientation=orientation)
            np.testing.assert_allclose(found[(*i, k)], one, atol=1e-12 * max(1, abs(one).max()))
    single = robot.analytic_jacobian(q.astype(np.float32), orientation=orientation)
    assert single.dtype == np.float32


def test_the_analytic_jacobian_is_the_rate_map_times_the_jacobian() -> None:
    robot = supple.load("puma560")
    q = robot.random(seed=1)
    T, J = robot.fk_jacobian(q)
    for orientation in PARAMETERS:
        Omega = poses.rate_map(T, orientation)
        expected = np.vstack([J[:3], Omega @ J[3:]])
        np.testing.assert_allclose(
            robot.analytic_jacobian(q, orientation=orientation), expected, rtol=1e-12, atol=1e-12
        )


def test_the_error_for_a_singular_orientation_has_its_batch_index() -> None:
    robot = supple.load("puma560_mk")
    q = np.zeros((3, 6))
    q[:, 4] = 0.3, np.pi / 2, 0.5  # the flange points along x, which is a pitch of 90°
    with pytest.raises(InputError, match=r"'extrinsic xyz'.*±90°.*pose\[1\].*'wxyz'"):
        robot.analytic_jacobian(q, orientation="rpy")
    assert np.isfinite(robot.analytic_jacobian(q, orientation="wxyz")).all()
    assert np.isfinite(robot.analytic_jacobian(q, orientation="intrinsic zyz")).all()


def test_ambiguous_or_unknown_orientation_names_are_refused() -> None:
    robot = supple.load("puma560")
    with pytest.raises(InputError, match=r"'intrinsic'.*'extrinsic'.*given: 'zyx'"):
        robot.analytic_jacobian(np.zeros(6), orientation="zyx")
    with pytest.raises(UnknownNameError, match="direction_cosines"):
        robot.analytic_jacobian(np.zeros(6), orientation="euler")
    with pytest.raises(UnknownNameError, match="intrinsic"):
        poses.euler(np.eye(3), "intrinsic xxz")
    with pytest.raises(InputError, match="'wxyz'"):
        poses.euler(np.eye(3), "wxyz")
