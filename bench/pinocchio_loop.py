"""Compile pinocchio_loop.cpp against the headers and libraries of the installed `pin` wheel."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pinocchio
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parent
Array = NDArray[np.float64]

# The definitions that the wheel's own CMake targets require.
DEFINITIONS = {
    "NDEBUG": "",
    "BOOST_MPL_LIMIT_LIST_SIZE": "30",
    "BOOST_MPL_LIMIT_VECTOR_SIZE": "30",
    "BOOST_MPL_CFG_NO_PREPROCESSED_HEADERS": "",
    "BOOST_FUSION_INVOKE_MAX_ARITY": "12",
    "PINOCCHIO_WITH_URDFDOM": "",
    "PINOCCHIO_URDFDOM_HEADERS_MAJOR_VERSION": "3",
    "PINOCCHIO_URDFDOM_HEADERS_MINOR_VERSION": "0",
    "PINOCCHIO_URDFDOM_HEADERS_PATCH_VERSION": "0",
    "PINOCCHIO_ENABLE_TEMPLATE_INSTANTIATION": "",  # use the wheel's compiled code
}


def library() -> Path:
    """Return the compiled loop, built if necessary; SUPPLE_PINOCCHIO_LOOP names an existing one."""
    ready = os.environ.get("SUPPLE_PINOCCHIO_LOOP")
    if ready:
        return Path(ready)
    out = HERE.parent / "build" / "bench" / "pinocchio_loop.so"
    source = HERE / "pinocchio_loop.cpp"
    if out.exists() and out.stat().st_mtime > source.stat().st_mtime:
        return out
    prefix = next(p for p in Path(pinocchio.__file__).parents if p.name == "cmeel.prefix")
    include, lib = prefix / "include", prefix / "lib"
    out.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [
            os.environ.get("CXX", "g++"),
            *("-std=c++17", "-O3", "-shared", "-fPIC"),
            *(f"-D{name}={value}" for name, value in DEFINITIONS.items()),
            *(f"-isystem{include / sub}" for sub in (".", "eigen3", "urdfdom_headers")),
            *(str(source), "-o", str(out), f"-L{lib}"),
            *("-lpinocchio_parsers", "-lpinocchio_default", "-lboost_serialization"),
            *(f"-Wl,-rpath,{lib}", f"-Wl,-rpath-link,{lib}"),
        ],
        check=True,
    )
    return out


def loop(urdf: Path, frame: str, q: Array, T: Array, J: Array) -> Callable[[int], float]:
    """Return a function that fills T (B, 4, 4) and J (B, 6, n) and returns ns per configuration."""
    call = ctypes.CDLL(str(library())).pinocchio_loop
    call.restype = ctypes.c_double
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (q, T, J)]
    batch, n = q.shape

    def run(route: int) -> float:
        sizes = (ctypes.c_long(batch), n, n)
        ns = float(call(str(urdf).encode(), frame.encode(), route, *sizes, *pointers))
        if ns < 0:
            raise RuntimeError("pinocchio_loop failed; the reason is on stderr")
        return ns

    return run
