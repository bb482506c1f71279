"""Cache of compiled GPU code on disk, shared by all processes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def folder() -> Path:
    """Return the folder of compiled code: SUPPLE_CACHE_DIR, or "supple" in the user's cache."""
    own = os.environ.get("SUPPLE_CACHE_DIR")
    if own:
        return Path(own)
    users = os.environ.get("LOCALAPPDATA") or os.environ.get("XDG_CACHE_HOME")
    return (Path(users) if users else Path.home() / ".cache") / "supple"


def cached(key: tuple[str, ...], make: Callable[[], bytes]) -> bytes:
    """Return the result of `make`, from disk if it was made before with the same key.

    A file is written under a temporary name and then renamed, so that other processes never see an
    incomplete file. If the folder cannot be read or written, nothing is cached.
    """
    import hashlib  # imported here to keep `import supple` fast
    import tempfile

    digest = hashlib.sha256("\0".join(key).encode()).hexdigest()
    try:
        path = folder() / f"{digest}.cubin"
        return path.read_bytes()
    except (OSError, RuntimeError):  # a missing home folder raises RuntimeError
        pass
    made = make()
    try:
        path = folder() / f"{digest}.cubin"
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
