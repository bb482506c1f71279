"""Singular values and manipulability agree with LAPACK and are zero at singularities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import supple
from calls import mimicking
from cases import each
from sizes import nightly
from trees import Tree, trees

Array = np.ndarray
ROWS = ("x", "y", "z", "rx", "ry", "rz")
EPS = np.finfo(float).eps


def stacked(J: Array, rows: Sequence[str]) -> Array:
    """Return the selected rows of Jacobians (..., k, 6, n) of k frames, as one matrix."""
    return J[..., [ROWS.index(row) for row in rows], :]


def assert_like_lapack(sigma: Array, J: Array) -> None:
    expected = np.linalg.svd(J, compute_uv=False)
    assert sigma.shape == expected.shape
    assert (sigma >= 0).all()
    assert (np.diff(sigma) <= 0).all()
    few = 4 * max(J.shape[-2:]) * EPS * expected[..., :1]
    assert (abs(sigma - expected) <= few).all()


@each("rows", [ROWS, ("x", "y", "z"), ("rx", "ry", "rz"), ("z", "x"), ("y",)])
@each("name", ["panda", "puma560", "stanford", "planar2", "planar3", "youbot"])
def test_singular_values_are_those_of_the_jacobian(
    name: str, rows: tuple[str, ...], rng: np.random.Generator
) -> None:
    # J is from 1 × 7 to 6 × 2, with fewer or with more rows than columns.
    robot = supple.load(name)
    q = robot.random(20, seed=rng)
    for axes in ("world", "body", robot.frames[1]):
        J = stacked(robot.jacobian(q, axes=axes), rows)
        sigma = robot.singular_values(q, rows=rows, axes=axes)
        assert_like_lapack(sigma, J)
        w = robot.manipulability(q, rows=rows, axes=axes)
        scale = sigma[:, 0] ** sigma.shape[1]
        assert (abs(w - sigma.prod(axis=1)) <= 4 * sigma.shape[1] * EPS * scale).all()


@each("name", ["planar2", "planar3"])
def test_manipulability_of_a_planar_arm_is_the_root_of_det_jjt(
    name: str, rng: np.random.Generator
) -> None:
    robot = supple.load(name)
    q = robot.random(20, seed=rng)
    J = stacked(robot.jacobian(q), ("x", "y"))
    assert_like_lapack(robot.singular_values(q, rows=("x", "y")), J)
    det = np.linalg.det(J @ J.swapaxes(1, 2))
    w = robot.manipulability(q, rows=("x", "y"))
    assert abs(w**2 - det).max() <= 1e-14


def test_singular_values_of_several_frames_are_those_of_their_stacked_jacobians(
    robot_files: Callable[[str, str], Path], rng: np.random.Generator
) -> None:
    file = "share/example-robot-data/robots/talos_data/robots/talos_full_v2.urdf"
    talos = supple.urdf(robot_files("cmeel.prefix", file))
    hands = ["gripper_left_base_link", "gripper_right_base_link"]
    ends = [*hands, "left_sole_link", "right_sole_link"]
    q = talos.random(5, seed=rng)
    J = talos.jacobian(q, ends).reshape(5, 24, 32)
    assert_like_lapack(talos.singular_values(q, ends), J)
    J = talos.jacobian(q, ends)[:, :, :3].reshape(5, 12, 32)
    assert_like_lapack(talos.singular_values(q, ends, rows=("x", "y", "z")), J)
    # All 60 frames at once have more rows than the robot has degrees of freedom.
    J = talos.jacobian(q, talos.frames).reshape(5, -1, 32)
    assert_like_lapack(talos.singular_values(q, talos.frames), J)


@settings(max_examples=nightly(100, 33), deadline=None, derandomize=True)
@given(trees(), st.data())
def test_singular_values_of_random_trees_agree_with_lapack(tree: Tree, data: st.DataObject) -> None:
    frames = data.draw(st.lists(st.sampled_from(tree.frames), min_size=1, max_size=3))
    rows = data.draw(st.lists(st.sampled_from(ROWS), min_size=1, max_size=6, unique=True))
    J = stacked(tree.robot.jacobian(tree.q, frames), rows).reshape(-1, tree.robot.dof)
    sigma = tree.robot.singular_values(tree.q, frames, rows=rows)
    assert_like_lapack(sigma, J)
    w = tree.robot.manipulability(tree.q, frames, rows=rows)
    assert np.isfinite(w)
    assert abs(w - sigma.prod()) <= 4 * sigma.size * EPS * sigma[0] ** sigma.size


# Configurations that are exactly singular, and rows that include the singular direction.
SINGULAR = {
    "panda stretched": ("panda", [0, 0, 0, 0, 0, 0, 0], ROWS),
    "puma wrist": ("puma560", [0.3, -0.4, 0.5, 0.6, 0, 0.8], ROWS),
    "puma_mk wrist": ("puma560_mk", [0.3, -0.4, 0.5, 0.6, 0, 0.8], ROWS),
    "stanford wrist": ("stanford", [0.3, -0.4, 0.5, 0.6, 0, 0.8], ROWS),
    "ur5e wrist": ("ur5e", [0.3, -0.4, 0.5, 0.6, 0, 0.8], ROWS),
    "planar2 straight": ("planar2", [0.7, 0], ("x", "y")),
    "planar2 folded": ("planar2", [0.7, np.pi], ("x", "y")),
    "planar3 straight": ("planar3", [0.7, 0, 0], ("x", "y")),
    "planar3 out of its plane": ("planar3", [0.1, 0.2, 0.3], ("x", "y", "z")),
    "youbot upright": ("youbot", [0, 0, 0, 0, 0], ROWS),
}


@each("dtype", [np.float64, np.float32])
@each("case", SINGULAR)
@pytest.mark.usefixtures("isa")
def test_a_lost_direction_has_a_zero_singular_value(case: str, dtype: type) -> None:
    name, q, rows = SINGULAR[case]
    robot = supple.load(name)
    one = np.array(q, dtype)
    few = 4 * np.finfo(dtype).eps
    for configuration in (one, np.tile(one, (37, 1))):
        sigma = robot.singular_values(configuration, rows=rows)
        assert np.isfinite(sigma).all()
        assert (sigma[..., -1] <= few * sigma[..., 0]).all()
        w = robot.manipulability(configuration, rows=rows)
        assert (w >= 0).all()
        assert (w <= few * sigma[..., 0] ** sigma.shape[-1]).all()


@each("dtype", [np.float64, np.float32])
def test_singular_values_of_a_frame_that_does_not_move_are_zero(
    dtype: type, rng: np.random.Generator
) -> None:
    for robot in (supple.load("panda"), mimicking()):
        q = robot.random(9, seed=rng).astype(dtype)
        root = robot.frames[0]
        assert not robot.jacobian(q, root).any()
        assert not robot.bias_acceleration(q, np.ones_like(q), root).any()
        assert not robot.singular_values(q, root).any()
        assert not robot.manipulability(q, root).any()
        # In the moving axes of a frame, the bias is zero as well.
        assert not robot.bias_acceleration(q, np.ones_like(q), root, axes=robot.frames[-1]).any()


@each("distance", [1e-1, 1e-4, 1e-8, 1e-12, 1e-16, 1e-160, 5e-324, 0.0])
def test_the_smallest_singular_value_of_two_links_is_proportional_to_the_sine_of_the_elbow(
    distance: float,
) -> None:
    # For two links: sigma_1 sigma_2 = |det J| = l_1 l_2 |sin q_2|.
    robot = supple.load("planar2")
    x, x1 = robot.fk([0, 0], ["link2", "link1"])[:, 0, 3]
    w = robot.manipulability([0.4, distance], rows=("x", "y"))
    assert abs(w - x1 * (x - x1) * np.sin(distance)) <= 8 * EPS
    sigma = robot.singular_values([0.4, distance], rows=("x", "y"))
    assert np.isfinite(sigma).all()
    assert sigma[1] <= distance + 4 * EPS
