"""Rotation vectors: exp is Rodrigues' formula, and log is its inverse, also near π."""

from __future__ import annotations

import numpy as np
import pytest

from harness import Array, Lane, same_bits
from supple.kinematics.rotation import exp, log

AXES = np.array([(1, 0, 0), (0, -1, 0), (0, 0, 1), (1, 1, 0), (-1, 1, 1), (3, -2, 1), (1e-9, 0, 1)])
AXES = AXES / np.linalg.norm(AXES, axis=1, keepdims=True)


def vectors(rng: np.random.Generator, eps: float) -> Array:
    """Return rotation vectors (3, k) with special and random axes and angles from 0 to nearly π."""
    away = np.array([1e-1, 1e-2, 1e-3, 1e-5, 1e-7, 1e-12]) + 8 * eps
    small = [0.0, 1e-30, 1e-18, 1e-12, 1e-8, 1e-5, 1e-3, 0.1]
    angles = np.concatenate([small, np.linspace(0.2, 3.0, 15), np.pi - away])
    random = rng.normal(size=(20, 3))
    axes = np.vstack([AXES, random / np.linalg.norm(random, axis=1, keepdims=True)])
    return (axes[:, None] * angles[:, None]).reshape(-1, 3).T


def exact_exp(r: Array) -> Array:
    """Return the rotations (9, k) of vectors (3, k) by Rodrigues' formula, in long double."""
    r = np.asarray(r, np.longdouble)
    theta = np.sqrt((r * r).sum(axis=0))
    safe = np.where(theta == 0, 1, theta)
    a = np.where(theta == 0, np.array([[0], [0], [1]], np.longdouble), r / safe)
    s, v = np.sin(theta), 2 * np.sin(theta / 2) ** 2
    K = np.zeros((3, 3, r.shape[1]), np.longdouble)
    K[0, 1], K[0, 2], K[1, 2] = -a[2], a[1], -a[0]
    K[1, 0], K[2, 0], K[2, 1] = a[2], -a[1], a[0]
    R = np.eye(3)[..., None] + s * K + v * np.einsum("ijk,jlk->ilk", K, K)
    return R.transpose(1, 0, 2).reshape(9, -1)


def test_exp_of_a_rotation_vector_agrees_with_rodrigues_formula(
    lane: Lane, rng: np.random.Generator
) -> None:
    r = np.hstack([vectors(rng, lane.eps), 3 * vectors(rng, lane.eps)]).astype(lane.dtype)
    assert abs(lane.map("rotation", *r) - exact_exp(r)).max() <= 8 * lane.eps


def test_the_logarithm_of_a_rotation_is_the_inverse_of_exp(
    lane: Lane, rng: np.random.Generator
) -> None:
    r = vectors(rng, lane.eps).astype(lane.dtype)
    R = exact_exp(r).astype(lane.dtype)
    # The error is relative to the angle, so that small rotations are as accurate as large ones.
    assert (abs(lane.map("rotation_vector", *R) - r) <= 8 * lane.eps * np.abs(r).max(axis=0)).all()


def test_exp_of_log_is_the_rotation_at_and_around_half_turns(
    lane: Lane, rng: np.random.Generator
) -> None:
    a = np.vstack([AXES, np.linalg.qr(rng.normal(size=(50, 3, 3)))[0][:, 0]]).T
    for over in (0.0, 1e-16, 1e-8, 1e-4, 0.1):
        R = exact_exp((np.pi + over) * a).astype(lane.dtype)
        r = lane.map("rotation_vector", *R)
        assert abs(np.linalg.norm(r, axis=0) - (np.pi - over)).max() <= 16 * lane.eps
        assert abs(lane.map("rotation", *r) - R).max() <= 16 * lane.eps


def test_the_logarithm_of_a_half_turn_has_a_positive_largest_entry(lane: Lane) -> None:
    for axis in np.array([(1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 3, 4), (3, 0, -4), (-4, 3, 0)]):
        a = axis / np.linalg.norm(axis)
        R = (2 * np.outer(a, a) - np.eye(3)).astype(lane.dtype)
        r = lane.map("rotation_vector", *R.T.reshape(9, 1))[:, 0]
        sign = np.sign(a[np.argmax(np.abs(a))])
        assert abs(r - sign * np.pi * a).max() <= 16 * lane.eps


def test_the_logarithm_of_any_matrix_is_finite_and_at_most_half_a_turn(
    lane: Lane, rng: np.random.Generator
) -> None:
    some = rng.normal(size=(9, 500)) * 10.0 ** rng.integers(-9, 9, 500)
    odd = [np.zeros(9), np.ones(9), -np.ones(9), -np.eye(3).ravel(), 1e-30 * np.ones(9)]
    result = lane.map("rotation_vector", *np.hstack([some, np.array(odd).T]))
    assert np.isfinite(result).all()
    assert np.linalg.norm(result, axis=0).max() <= np.pi * (1 + 4 * lane.eps)


def test_a_small_error_of_a_rotation_changes_its_logarithm_little(
    lane: Lane, rng: np.random.Generator
) -> None:
    r = vectors(rng, 1e-2)
    R = exact_exp(r).astype(float)
    off = 1e-6 * rng.uniform(-1, 1, R.shape)
    assert abs(lane.map("rotation_vector", *(R + off)) - r).max() <= 1e-5


def test_rotations_in_a_pack_have_the_bits_of_single_ones(
    lane: Lane, rng: np.random.Generator
) -> None:
    r = vectors(rng, lane.eps)
    R = exact_exp(r).astype(lane.dtype)
    assert same_bits(lane.map("rotation", *r), lane.scalar.map("rotation", *r))
    assert same_bits(lane.map("rotation_vector", *R), lane.scalar.map("rotation_vector", *R))


def test_exp_and_log_in_python_are_accurate(rng: np.random.Generator) -> None:
    eps = np.finfo(float).eps
    r = vectors(rng, eps)
    for one, columns in zip(r.T, exact_exp(r).astype(float).T, strict=True):
        R = columns.reshape(3, 3).T
        assert abs(exp(one) - R).max() <= 8 * eps
        assert abs(log(R) - one).max() <= 8 * eps * np.abs(one).max()


def test_the_logarithm_of_a_rotation_agrees_with_pinocchio(rng: np.random.Generator) -> None:
    pin = pytest.importorskip("pinocchio")
    for r in vectors(rng, 1e-5).T:  # nearer to π, the logarithm of Pinocchio is inaccurate
        R = exact_exp(r[:, None]).astype(float).reshape(3, 3).T
        assert abs(log(R) - pin.log3(R)).max() <= 1e-9
        assert abs(exp(r) - pin.exp3(r)).max() <= 1e-14
