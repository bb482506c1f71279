"""A function for several processes that share a cache of compiled CUDA kernels."""

from __future__ import annotations

import os

from supple.gpu import cache


def reads_what_is_written(folder: str) -> bool:
    """Return whether 20 pieces of code that are read from the cache in `folder` are complete."""
    os.environ["SUPPLE_CACHE_DIR"] = folder
    whole = b"0123456789" * 100_000
    return all(cache.cached((str(i),), lambda: whole) == whole for i in range(20))
