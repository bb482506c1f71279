"""Human motions: key points over time, from arrays, frames and files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple._arrays.checks import ReadOnlyArrays, as_doubles, number, real_numbers
from supple.errors import InputError, join_names, short_repr
from supple.motion.linearization import Array
from supple.poses import pose
from supple.retargeting.bvh import read_bvh
from supple.retargeting.points import SIDES, find_points, names_of_points

_READ = (".npz", ".npy", ".bvh", ".json")
_HOLOSOMA = "global_joint_positions"
DEFAULT_FPS = 30.0  # frames per second of files without a rate


@dataclass(frozen=True, eq=False, repr=False)
class HumanMotion(ReadOnlyArrays):
    """Key points of a human over T frames, with z upward.

    Attributes:
        names: Names of the J key points as in the source ("LeftUpLeg", "L_Hip").
        positions: Positions (T, J, 3) in the world [m].
        fps: Frames per second.
        rotations: Rotations (T, J, 3, 3) of the bodies at the key points; None if unknown.
        contacts: Whether the left and the right foot stand (T, 2); None to detect this.
    """

    names: tuple[str, ...]
    positions: Array
    fps: float = DEFAULT_FPS
    rotations: Array | None = None
    contacts: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        names: object = self.names
        if isinstance(names, str) or not isinstance(names, Sequence):
            raise InputError(f"HumanMotion: names must be strings; given: {short_repr(names)}")
        points = _finite(self.positions, "positions")
        if points.ndim != 3 or points.shape[2] != 3 or not len(points):
            raise InputError(
                "HumanMotion: positions must have the shape (frames, points, 3); "
                f"given: {points.shape}"
            )
        count = points.shape[1]
        if len(self.names) != count or len(set(self.names)) != count:
            given = f"{len(set(self.names))} names of {count} points"
            raise InputError(f"HumanMotion: each point needs a name of its own; given: {given}")
        number(self.fps, "HumanMotion: fps", above=0)
        object.__setattr__(self, "names", tuple(str(name) for name in self.names))
        object.__setattr__(self, "positions", points)
        object.__setattr__(self, "fps", float(self.fps))
        if self.rotations is not None:
            R = _finite(self.rotations, "rotations")
            if R.shape != (*points.shape, 3):
                expected = (*points.shape, 3)
                raise InputError(
                    f"HumanMotion: rotations must have the shape {expected}; given: {R.shape}"
                )
            off = np.abs(R @ R.swapaxes(-1, -2) - np.eye(3)).max()
            if off > 1e-3 or not (np.linalg.det(R[0]) > 0).all():
                raise InputError(
                    "HumanMotion: rotations must be rotation matrices; given: matrices with "
                    f"|R Rᵀ - 1| up to {off:.2g}"
                )
            object.__setattr__(self, "rotations", R)
        if self.contacts is not None:
            stands = np.asarray(self.contacts)
            if stands.shape != (len(points), 2) or stands.dtype.kind not in "bui":
                raise InputError(
                    f"HumanMotion: contacts must be truth values ({len(points)}, 2), of the left "
                    f"and the right foot; given: {stands.dtype} of shape {stands.shape}"
                )
            object.__setattr__(self, "contacts", stands.astype(np.bool_))

    def __len__(self) -> int:
        return len(self.positions)

    def __repr__(self) -> str:
        T, J, _ = self.positions.shape
        return f"<HumanMotion: {T} frames of {J} points, {self.fps:g} frames/s>"

    def __getitem__(self, frames: slice) -> HumanMotion:
        """Return some of the frames, as in motion[100:200] or motion[::4]."""
        if not isinstance(frames, slice):
            raise InputError(f"a motion takes a slice of frames; given: {short_repr(frames)}")
        return replace(
            self,
            positions=self.positions[frames],
            fps=self.fps / abs(frames.step or 1),
            rotations=None if self.rotations is None else self.rotations[frames],
            contacts=None if self.contacts is None else self.contacts[frames],
        )

    @classmethod
    def from_frames(
        cls, frames: Sequence[Mapping[str, Sequence[ArrayLike]]], fps: float = DEFAULT_FPS
    ) -> HumanMotion:
        """Return the motion of GMR's frames: each maps names to (xyz [m], quaternion wxyz).

        Args:
            frames: One mapping per frame, all with the same names.
            fps: Frames per second.
        """
        given: object = frames
        if not isinstance(given, Sequence) or not given:
            raise InputError(f"frames must be a sequence of mappings; given: {short_repr(frames)}")
        first: object = frames[0]
        names = tuple(first) if isinstance(first, Mapping) else ()
        for k, frame in enumerate(frames):
            one: object = frame
            if not isinstance(one, Mapping):
                raise InputError(f"frame {k} must be a mapping; given: {short_repr(one)}")
            if set(one) != set(names):
                raise InputError(f"all frames must have the names of the first; given: frame {k}")
        try:
            xyz = np.array([[frame[name][0] for name in names] for frame in frames], dtype=float)
            wxyz = np.array([[frame[name][1] for name in names] for frame in frames], dtype=float)
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"each body of a frame must be (xyz, quaternion wxyz); given: {error}"
            ) from error
        if xyz.shape[2:] != (3,) or wxyz.shape[2:] != (4,):
            given = f"{xyz.shape[2:]} and {wxyz.shape[2:]} numbers"
            raise InputError(f"each body of a frame must be (xyz, quaternion wxyz); given: {given}")
        return cls(names, xyz, fps, rotations=pose(np.zeros_like(xyz), wxyz=wxyz)[..., :3, :3])

    def to_frames(self) -> list[dict[str, tuple[list[float], list[float]]]]:
        """Return GMR's frames: each maps names to (xyz [m], quaternion wxyz)."""
        from supple.poses import wxyz

        poses = np.tile(np.eye(4), (*self.positions.shape[:2], 1, 1))
        if self.rotations is not None:
            poses[..., :3, :3] = self.rotations
        turned = wxyz(poses)
        return [
            {
                name: (at.tolist(), to.tolist())
                for name, at, to in zip(self.names, p, o, strict=True)
            }
            for p, o in zip(self.positions, turned, strict=True)
        ]

    @classmethod
    def load(
        cls,
        file: str | os.PathLike[str],
        *,
        fps: float | None = None,
        names: Sequence[str] | None = None,
    ) -> HumanMotion:
        """Read a motion.

        Args:
            file: `.npz` of holosoma ("global_joint_positions") or of `save`, `.npy` with positions
                (T, J, 3), `.bvh`, or `.json` with GMR's frames.
            fps: Frames per second; by default those of the file, or 30.
            names: Names of the points of a file without names; by default the names of holosoma's
                format with the same number of points.

        Raises:
            InputError: The file is missing, or is not a motion in one of these formats.
        """
        path = Path(file)
        if path.suffix.lower() not in _READ:
            raise InputError(
                f"a motion must be a file {join_names(_READ)}; given: {path.name!r}. Files of "
                "pickle can run code when they are read: use HumanMotion.from_frames"
            )
        if not path.is_file():
            raise InputError(f"there is no file {str(path)!r}")
        try:
            if path.suffix.lower() == ".bvh":
                read = read_bvh(path.read_text(errors="replace"), path.name)
                return cls(
                    read.names, read.positions, _either(fps, read.fps), rotations=read.rotations
                )
            if path.suffix.lower() == ".json":
                return _of_json(cls, json.loads(path.read_text()), fps)
            with path.open("rb") as opened:
                loaded = np.load(opened, allow_pickle=False)
                parts: dict[str, Any] = (
                    {_HOLOSOMA: loaded} if isinstance(loaded, np.ndarray) else dict(loaded)
                )
        except InputError:
            raise
        except (OSError, ValueError, EOFError, RecursionError, BadZipFile) as error:
            raise InputError(f"{path.name} cannot be read as a motion: {error}") from error
        if _HOLOSOMA not in parts:
            raise InputError(
                f"{path.name} has no array {_HOLOSOMA!r} (frames, points, 3); available: "
                f"{join_names(sorted(parts))}"
            )
        points = parts[_HOLOSOMA]
        count = points.shape[1] if points.ndim == 3 else 0
        own = [str(name) for name in np.ravel(parts["names"])] if "names" in parts else None
        fps_of_file = np.ravel(parts.get("fps", DEFAULT_FPS)).tolist()
        if len(fps_of_file) != 1:
            raise InputError(f"{path.name} must have one 'fps'; given: {short_repr(fps_of_file)}")
        return cls(
            tuple(names or own or names_of_points(count, path.name)),
            points,
            _either(fps, fps_of_file[0]),
            rotations=parts.get("rotations"),
            contacts=parts.get("contacts"),
        )

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the motion as `.npz`, in holosoma's form with names and frames per second."""
        path = Path(file)
        if path.suffix.lower() != ".npz":
            raise InputError(f"a motion is written as .npz; given: {path.name!r}")
        parts: dict[str, Any] = {_HOLOSOMA: self.positions, "names": np.array(self.names)}
        parts |= {"fps": np.float64(self.fps), "height": np.float64(self.height)}
        if self.rotations is not None:
            parts["rotations"] = self.rotations
        if self.contacts is not None:
            parts["contacts"] = self.contacts
        np.savez(path, **parts)

    @property
    def limbs(self) -> NDArray[np.intp]:
        """Indices (k, 2) of key points that a limb connects, to draw the human."""
        at = find_points(self.names)
        ways = [[f"left_{one}", f"right_{one}"] for one in ("hip", "shoulder")]
        for side in SIDES:
            leg = [f"{side}_{one}" for one in ("shoulder", "hip", "knee", "ankle", "toe")]
            ways += [leg, [f"{side}_{one}" for one in ("shoulder", "elbow", "wrist")]]
        pairs = [pair for way in ways for pair in pairwise(way)]
        return np.array([[at[a], at[b]] for a, b in pairs if a in at and b in at])

    @property
    def height(self) -> float:
        """The largest vertical extent of the key points in a frame [m]."""
        z = self.positions[..., 2]
        return float((z.max(axis=1) - z.min(axis=1)).max())


def _of_json(kind: type[HumanMotion], read: object, fps: float | None) -> HumanMotion:
    """Return the motion of GMR's frames, or of an object with "frames" and "fps"."""
    own = None
    if isinstance(read, dict) and "frames" in read:
        own, read = read.get("fps"), read["frames"]
    if not isinstance(read, list):
        raise InputError('a motion in JSON is a list of frames, or an object with "frames"')
    return kind.from_frames(read, _either(fps, DEFAULT_FPS if own is None else own))


def _either(given: float | None, of_file: float) -> float:
    """Return the number of frames per second: the given one, else the one in a file."""
    return of_file if given is None else given


def _finite(given: ArrayLike, what: str) -> Array:
    array = as_doubles(real_numbers(given, f"HumanMotion: {what} must be numbers"))
    if not np.isfinite(array).all():
        k = int(np.argmin(np.isfinite(array).reshape(len(array), -1).all(axis=1)))
        raise InputError(f"HumanMotion: {what} must be finite; given: frame {k} is not")
    return np.asarray(array)
