"""Find the mesh files of robots, and read the points and triangles of STL and OBJ files."""

from __future__ import annotations

import stat
import warnings
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.describe._packages import not_found, package_folders
from supple.describe._pose import Array
from supple.errors import DescriptionError, MissingExtraError, short_repr

_MAX_BYTES = 64_000_000  # maximum size of a mesh file
_MAX_TRIANGLES = 400_000
_STL_TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attributes", "<u2")])
_PACKAGE = ("package://", "model://")
_STL_HEADER = 84  # length of the header and the number of triangles [bytes]

Triangles = NDArray[np.int64]


def mesh_file(name: str, folder: Path | None) -> str:
    """Return the path of a mesh that a robot file names; the name itself if there is no such file.

    The mesh is searched for in the folder of the robot file. A mesh named package://... is also
    searched for in the folders above it, and in those of ROS_PACKAGE_PATH and AMENT_PREFIX_PATH.
    """
    found = find_mesh(name, folder)
    return str(found) if found is not None else name


def find_mesh(name: str, folder: Path | None) -> Path | None:
    """Return the path of a mesh that a robot file names, or None if there is no such file."""
    if name.startswith(_PACKAGE):
        package, _, rest = name.partition("://")[2].partition("/")
        tries = [each / rest for each in package_folders(package, folder)]
        tries += [] if folder is None else [folder / rest]
    elif folder is None:
        return None
    else:
        tries = [folder / name.removeprefix("file://")]
    try:
        return next((path for path in tries if path.is_file()), None)
    except (OSError, ValueError):
        return None


def read_mesh(file: str) -> tuple[Array, Triangles]:
    """Return the points (v, 3) of a mesh file and the indices of its triangles' corners (f, 3).

    Raises:
        DescriptionError: The file is missing, malformed, empty or too large.
        MissingExtraError: The format needs the package trimesh, which is not installed.
    """
    path = Path(file)
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        problem = f"the mesh {short_repr(file)} was not found"
        if file.startswith(_PACKAGE):
            problem += f": {not_found(file.partition('://')[2].partition('/')[0])}"
        raise DescriptionError(f"{problem}.") from error
    if not stat.S_ISREG(status.st_mode):
        raise DescriptionError(f"the mesh {short_repr(file)} is not a regular file.")
    if status.st_size > _MAX_BYTES:
        limit = f"at most {_MAX_BYTES // 1_000_000} MB are read"
        raise DescriptionError(f"the mesh {short_repr(file)} is too large; {limit}.")
    return _read(file, status.st_mtime_ns)


@lru_cache(maxsize=64)
def _read(file: str, _: int) -> tuple[Array, Triangles]:
    readers: dict[str, Callable[[Path], tuple[Array, Triangles]]] = {".stl": _stl, ".obj": _obj}
    path = Path(file)
    try:
        points, faces = readers.get(path.suffix.lower(), _by_trimesh)(path)
    except (OSError, ValueError, IndexError, OverflowError) as error:
        raise DescriptionError(f"the mesh {short_repr(file)} cannot be read: {error}") from error
    if not len(points) or not len(faces):
        raise DescriptionError(f"the mesh {short_repr(file)} has no triangles.")
    if not np.isfinite(points).all():
        raise DescriptionError(f"the mesh {short_repr(file)} has points that are not finite.")
    if faces.min() < 0 or faces.max() >= len(points):
        raise DescriptionError(f"the mesh {short_repr(file)} has triangles without points.")
    if len(faces) > _MAX_TRIANGLES:
        limit = f"at most {_MAX_TRIANGLES} are read"
        raise DescriptionError(f"the mesh {short_repr(file)} has {len(faces)} triangles; {limit}.")
    for array in (points, faces):
        array.flags.writeable = False
    return points, faces


def _stl(path: Path) -> tuple[Array, Triangles]:
    data = path.read_bytes()
    count = int.from_bytes(data[80:84], "little")
    if len(data) >= _STL_HEADER and len(data) == _STL_HEADER + _STL_TRIANGLE.itemsize * count:
        corners = np.frombuffer(data, _STL_TRIANGLE, count, _STL_HEADER)["corners"]
        corners = corners.reshape(-1, 3).astype(np.float64)
    else:
        words = [line.split() for line in data.decode("utf-8", "replace").splitlines()]
        listed = [[float(x) for x in line[1:4]] for line in words if line[:1] == ["vertex"]]
        corners = np.array(listed, dtype=np.float64).reshape(-1, 3)
    if len(corners) % 3:
        raise ValueError("a triangle has fewer than three corners")
    # As np.unique(axis=0), whose comparison of rows takes ten times longer.
    order = np.lexsort(corners.T[::-1])
    ordered = corners[order]
    differs = np.ones(len(corners), dtype=np.bool_)
    differs[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    index = np.empty(len(corners), dtype=np.int64)
    index[order] = np.cumsum(differs) - 1
    return ordered[differs], index.reshape(-1, 3)


def _obj(path: Path) -> tuple[Array, Triangles]:
    points: list[list[float]] = []
    faces: list[tuple[int, int, int]] = []
    for line in path.read_text(errors="replace").splitlines():
        words = line.split()
        if words[:1] == ["v"]:
            points.append([float(x) for x in words[1:4]])
        elif words[:1] == ["f"]:
            corners = [int(word.partition("/")[0]) for word in words[1:]]
            index = [i - 1 if i > 0 else len(points) + i for i in corners]
            faces += [(index[0], b, c) for b, c in pairwise(index[1:])]
    return (
        np.array(points, dtype=np.float64).reshape(-1, 3),
        np.array(faces, dtype=np.int64).reshape(-1, 3),
    )


def _by_trimesh(path: Path) -> tuple[Array, Triangles]:
    try:
        import trimesh
    except ModuleNotFoundError as error:
        raise MissingExtraError("view", f"reading a mesh in {path.suffix}") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mesh: Any = trimesh.load(path, force="mesh")
    return np.array(mesh.vertices, dtype=np.float64), np.array(mesh.faces, dtype=np.int64)
