"""Steps of limbs on a moving base, computed limb by limb, equal those of the whole matrix."""

from __future__ import annotations

import numpy as np
import pytest

from harness import Lane, same_bits

COUNT = 20


def drawn(seed: int, dtype: np.dtype) -> tuple[list[tuple[int, list[int]]], list[int], np.ndarray]:
    """Return limbs, the columns of the base, and J (c, m, n), in which limbs share only the base.

    Columns are in any order, and some belong to no limb. Some limbs have fewer joints than rows, or
    none.
    """
    rng = np.random.default_rng(seed)
    rows, joints = rng.integers(1, 8, rng.integers(2, 5)), rng.integers(0, 9, 5)
    base = int(rng.integers(1, 7))
    n = int(joints[: len(rows)].sum()) + base + 2
    order = rng.permutation(n).tolist()
    J, limbs = np.zeros((COUNT, int(rows.sum()), n)), []
    for k, own in enumerate(rows):
        columns, order = order[: joints[k]], order[joints[k] :]
        first = int(rows[:k].sum())
        J[:, first : first + own, columns] = rng.normal(size=(COUNT, own, len(columns)))
        limbs.append((int(own), columns))
    J[:, :, order[:base]] = rng.normal(size=(COUNT, J.shape[1], base))
    return limbs, order[:base], J.astype(dtype)


@pytest.mark.parametrize("damping", [1e-2, 1.0])
def test_a_step_of_limbs_is_that_of_the_whole_matrix(lane: Lane, damping: float) -> None:
    for seed in range(10):
        limbs, base, J = drawn(seed, lane.dtype)
        rng = np.random.default_rng(seed)
        e = rng.normal(size=J.shape[:2]).astype(lane.dtype)
        unit = (rng.uniform(0.5, 2, J.shape[2]) * rng.integers(0, 2, J.shape[2])).astype(lane.dtype)
        lambda2 = np.full(COUNT, damping)
        dq = lane.limb_step(limbs, base, J, e, lambda2, unit)
        scaled = J.astype(float) * unit
        gram = scaled @ scaled.swapaxes(1, 2) + damping * np.eye(J.shape[1])
        whole = np.einsum("cmn,cm->cn", scaled, np.linalg.solve(gram, e[..., None])[..., 0]) * unit
        size = np.abs(whole).max(axis=1, keepdims=True) + 1
        assert (np.abs(dq - whole) <= 3e3 * lane.eps / damping * size).all()


def test_a_lane_gives_the_bits_of_a_single_number(lane: Lane) -> None:
    limbs, base, J = drawn(3, lane.dtype)
    e, unit = J[:, :, 0] + 1, np.ones(J.shape[2], lane.dtype)
    each = [
        one.limb_step(limbs, base, J, e, np.full(COUNT, 0.1), unit) for one in (lane, lane.scalar)
    ]
    assert same_bits(*each)
