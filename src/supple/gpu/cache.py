"""Compiled GPU code on disk: compiled once, read by every process after that."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def folder() -> Path:
    """Where compiled code is kept: SUPPLE_CACHE_DIR, or `supple` in the user's cache."""
    own = os.environ.get("SUPPLE_CACHE_DIR")
    if own:
        return Path(own)
    users = os.environ.get("LOCALAPPDATA") or os.environ.get("XDG_CACHE_HOME")
    return (Path(users) if users else Path.home() / ".cache") / "supple"


def cached(key: tuple[str, ...], make: Callable[[], bytes]) -> bytes:
    """What `make` gives, from disk if it was made before with the same key.

    Processes do not get into each other's way: a file is written under a name of its own and then
    renamed, so it is whole or not there. A folder that cannot be read or written is done without.
    """
    told = hashlib.sha256("\0".join(key).encode()).hexdigest()
    try:
        path = folder() / f"{told}.cubin"
        return path.read_bytes()
    except (OSError, RuntimeError):  # (no home folder is a RuntimeError)
        pass
    made = make()
    try:
        path = folder() / f"{told}.cubin"
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=".new")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(made)
            os.replace(name, path)
        except OSError:
            os.unlink(name)
    except (OSError, RuntimeError):
        pass
    return made
