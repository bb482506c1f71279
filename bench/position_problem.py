"""The input and the interface of the contenders for position IK."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Gate = tuple[float, float]  # position and rotation tolerance [m], [rad]
Answer = tuple[Any, bool]  # q (n,) or None, and whether the library reports success


@dataclass(frozen=True)
class Problem:
    """A robot of the benchmark, as stored in the files of a folder.

    Attributes:
        urdf: Path of the URDF file.
        joints: Names of the joints, in the order of q.
        frames: Frames with targets.
        transforms: Constant transforms of a chain (n + 1, 4, 4), as in `arms.Arm`; else (0, 4, 4).
        lower, upper: Limits (n,) [rad].
        seed: Default seed (n,), far from singularities and limits.
        axis: Whether targets consist of a position and the direction of z.
        name: Short name of the robot.
    """

    urdf: str
    joints: tuple[str, ...]
    frames: tuple[str, ...]
    transforms: Array
    lower: Array
    upper: Array
    seed: Array
    axis: bool
    name: str

    def write(self, folder: Path, text: str) -> None:
        """Write the robot to a folder: a URDF file from `text`, and the other fields."""
        (folder / "robot.urdf").write_text(text)
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "urdf"}
        np.savez(folder / "robot.npz", **values)

    @classmethod
    def read(cls, folder: Path) -> Problem:
        """Read a robot from a folder that `write` has filled."""
        with np.load(folder / "robot.npz") as stored:
            names = {key: tuple(stored[key].tolist()) for key in ("joints", "frames")}
            arrays = {key: stored[key] for key in ("transforms", "lower", "upper", "seed")}
            axis, name = bool(stored["axis"]), str(stored["name"])
        return cls(urdf=str(folder / "robot.urdf"), axis=axis, name=name, **names, **arrays)

    def chain(self) -> Array:
        """Return the transforms; raise if the robot is not a chain."""
        if not len(self.transforms):
            raise NotImplementedError("the library needs a chain with one end frame")
        return self.transforms

    def fk(self, q: Array) -> Array:
        """Return the pose (4, 4) of the end of a chain, as the product of its transforms."""
        T = self.transforms[0]
        for angle, then in zip(q, self.transforms[1:], strict=True):
            turn = np.eye(4)
            turn[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
            T = T @ turn @ then
        return T


@dataclass(frozen=True)
class Contender:
    """A library, or a loop around one, that solves for one pose.

    Attributes:
        solve: Function of (target, start or None) that returns an `Answer`, or the input of
            `choose`.
        packages: Packages whose versions are reported.
        prepare: Function that converts a pose (4, 4), or (k, 4, 4) for several frames, to the input
            of `solve`; not timed.
        note: Settings that differ from the library's defaults, and the reasons.
        choose: Function of (result of `solve`, start or None) that returns the `Answer`, if a
            library returns all solutions; not timed.
    """

    solve: Callable[[Any, Array | None], Any]
    packages: tuple[str, ...]
    prepare: Callable[[Array], Any] = np.ascontiguousarray
    note: str = ""
    choose: Callable[[Any, Array | None], Answer] | None = None


Maker = Callable[[Problem, Gate], Contender]
