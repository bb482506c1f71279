"""Arrays of float64 in JAX, of any version."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any


def doubles() -> Any:
    """Return a context in which arrays of JAX may be of float64."""
    import jax
    import jax.experimental

    if not hasattr(jax, "ffi"):  # callbacks run on other threads, where the context is not in force
        jax.config.update("jax_enable_x64", True)
        return nullcontext()
    # The module of the function depends on the version of JAX.
    place = jax if hasattr(jax, "enable_x64") else jax.experimental
    return place.enable_x64(True)
