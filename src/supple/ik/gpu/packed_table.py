"""The table of seeds in the order in which tensor cores read it (`nearest_seeds` in search.cu)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple.ik.problem import CompiledProblem
from supple.motion.linearization import Array


def packed_table(table: NDArray[np.float32], scale: Array) -> NDArray[np.float32]:
    """Return the table of seeds (k + 1, entries) in the order in which `nearest_seeds` reads it.

    Each lane of a warp reads two rows of the values, four rows apart, of every eighth seed. Values
    are relative to their mean (k,), which is stored after the table.
    """
    weights, (k, count) = np.asarray(scale, np.float32)[:, None], (len(scale), table.shape[1])
    scaled, mean = table[:-1].astype(float), table[:-1].mean(axis=1, keepdims=True, dtype=float)
    offset = table[-1] + 0.5 * ((scaled - mean) ** 2 - scaled**2).sum(axis=0)
    offset = offset.astype(np.float32)
    coarse = _rounded(offset)
    steps = -(-(k + 2) // 16) * 2
    values = np.zeros((8 * steps, count), np.float32)
    values[:k], values[k], values[k + 1] = weights * (mean - scaled), coarse, offset - coarse
    entry = 8 * np.arange(count // 8)[:, None] + np.array([0, 4, 1, 5, 2, 6, 3, 7])
    # (step, half, t), (column, g) -> column, steps in pairs, g, t, (step of the pair, half)
    blocks = _rounded(values)[:, entry].reshape(steps // 2, 2, 2, 4, count // 8, 8)
    middle = np.divide(mean, weights, out=np.zeros_like(mean), where=weights > 0)
    packed = blocks.transpose(4, 0, 5, 3, 1, 2)
    return np.concatenate([packed.ravel(), middle.ravel().astype(np.float32)])


def _rounded(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return numbers rounded to 11 significant bits, the number that tensor cores use."""
    return ((x.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def table_steps(problem: CompiledProblem) -> int:
    """Return the number of products of eight values for one distance: `steps` of search.cu."""
    return -(-(len(problem.seed_table.scale) + 2) // 8)
