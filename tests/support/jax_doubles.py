"""Arrays of float64 in any version of JAX."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any


def doubles() -> Any:
    """Return a context in which arrays of JAX may have the type float64."""
    import jax
    import jax.experimental

    if not hasattr(jax, "ffi"):  # callbacks run on threads outside this context
        jax.config.update("jax_enable_x64", True)
        return nullcontext()
    # The module of `enable_x64` depends on the version of JAX.
    place = jax if hasattr(jax, "enable_x64") else jax.experimental
    return place.enable_x64(True)
