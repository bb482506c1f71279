"""The motion of a humanoid that follows a human."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from supple._arrays.checks import ReadOnlyArrays
from supple.collision.world import World
from supple.control.trajectory import Trajectory
from supple.errors import InputError, join_names
from supple.kinematics import Robot
from supple.kinematics.configuration import difference, to_kernel
from supple.motion.limits import Limits
from supple.motion.linearization import Array
from supple.motion.status import StepStatus
from supple.motion.status_array import StatusArray
from supple.retargeting.humanoid import Humanoid
from supple.retargeting.obstacles import Depths, depths_of
from supple.retargeting.terrain import Terrain

_MENTIONED_DISTANCE = 1e-3  # slide or depth above which `reasons` mentions it [m]
_AT_LIMIT_SHARE = 0.999  # share of a speed or an acceleration above which a joint is at its limit
_AT_LIMIT_DISTANCE = 1e-6  # distance from a position limit below which a joint is at it [rad or m]
_ROOT = ("x", "y", "z", "qx", "qy", "qz", "qw")


@dataclass(frozen=True, eq=False, repr=False)
class Retargeted(ReadOnlyArrays):
    """The motion of a humanoid over T frames; `str()` is a summary.

    Attributes:
        q: Configurations (T, nq): the position of the base [m], its quaternion wxyz, and the joints
            [rad]. The rows are MuJoCo's qpos.
        fps: Frames per second.
        contacts: Whether the left and the right foot stand (T, 2).
        humanoid: The robot and its limbs.
        limits: Limits of the joints.
        terrain: The surfaces on which the robot stands.
        scale: Factor from the human's world to the robot's.
        world: The obstacles, besides the ground.
    """

    q: Array
    fps: float
    contacts: NDArray[np.bool_]
    humanoid: Humanoid
    limits: Limits
    terrain: Terrain
    scale: float = 1.0
    world: World | None = None

    def __len__(self) -> int:
        return len(self.q)

    def __repr__(self) -> str:
        whose = self.humanoid.robot.name
        return f"<Retargeted: {len(self)} frames of {whose}, {self.fps:g} frames/s>"

    def __str__(self) -> str:
        stands = ", ".join(f"{100 * share:.0f} %" for share in self.contacts.mean(axis=0))
        what = "link" if self._in_world.shapes else "sole"
        return (
            f"{len(self)} frames of {self.humanoid.robot.name} at {self.fps:g} frames/s\n"
            f"    left and right foot stand in {stands} of the frames\n"
            f"    largest slide of a standing foot {1e3 * self.slide.max():.2f} mm, "
            f"largest depth of a {what} {1e3 * self.penetration.max():.2f} mm"
            + "".join(f"\n    {reason}" for reason in self.reasons)
        )

    @property
    def robot(self) -> Robot:
        """The robot, with a floating base."""
        return self.humanoid.robot

    @property
    def t(self) -> Array:
        """Times (T,) [s]."""
        return np.asarray(np.arange(len(self)) / self.fps)

    @cached_property
    def qd(self) -> Array:
        """Velocities (T - 1, nv) between the frames [m/s, rad/s]."""
        return np.asarray(difference(self.robot, self.q[:-1], self.q[1:]) * self.fps)

    @cached_property
    def soles(self) -> tuple[Array, Array]:
        """Positions (T, k, 3) of the points of the left and the right sole [m]."""
        made = []
        for k, leg in enumerate(self.humanoid.legs):
            T = self.robot.fk(self.q, leg.end)
            made.append(self.humanoid.soles[k] @ T[:, :3, :3].swapaxes(1, 2) + T[:, None, :3, 3])
        return made[0], made[1]

    @cached_property
    def slide(self) -> Array:
        """Distance (T, 2) of each standing foot's sole from where its stance began [m]."""
        made = np.zeros((len(self), 2))
        for k, points in enumerate(self.soles):
            stands = self.contacts[:, k]
            begins = stands & ~np.concatenate([[False], stands[:-1]])
            start = np.maximum.accumulate(np.where(begins, np.arange(len(self)), 0))
            away = np.linalg.norm(points - points[start], axis=-1).max(axis=-1)
            made[:, k] = np.where(stands, away, 0.0)
        return made

    @cached_property
    def penetration(self) -> Array:
        """Depth (T,) of the deepest link below the ground or inside an obstacle [m].

        If no shapes of links can be read, the result is the depth of the deepest point of a sole.
        """
        if self._in_world.shapes:
            return self._in_world.largest(self.q)
        made = [self.terrain.height(points) - points[..., 2] for points in self.soles]
        return np.asarray(np.maximum(0.0, np.concatenate(made, axis=1)).max(axis=-1))

    @cached_property
    def collision(self) -> Array:
        """Depth (T,) by which two links overlap, beyond their overlap by construction [m].

        The depth is zero if no shapes of links can be read.
        """
        return self._in_links.largest(self.q)

    @property
    def _in_world(self) -> Depths:
        return depths_of(self.robot, self.world, others=False)

    @property
    def _in_links(self) -> Depths:
        return depths_of(self.robot, self.world, others=True)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Sentences about slides and depths above 1 mm, and the joints at limits at their start."""
        made = []
        for leg, sizes in zip(self.humanoid.legs, self.slide.T, strict=True):
            made += self._exceeded(f"{leg.end} slides", sizes, (leg.end,))
        for depths, what, sizes in (
            (self._in_world, "is in", self.penetration),
            (self._in_links, "overlaps with", self.collision),
        ):
            if depths.shapes and sizes.max() > _MENTIONED_DISTANCE:
                pair = depths.deepest(self.q[np.argmax(sizes)])
                links = tuple(name for name in pair if name in self.robot.description.links)
                made += self._exceeded(f"{pair[0]} {what} {pair[1]}", sizes, links)
        return tuple(made)

    def _exceeded(self, what: str, sizes: Array, frames: tuple[str, ...]) -> list[str]:
        """Return a sentence about the largest of sizes (T,) [m], if above _MENTIONED_DISTANCE."""
        k = int(np.argmax(sizes))
        if not sizes[k] > _MENTIONED_DISTANCE:
            return []
        small = np.flatnonzero(sizes[:k] <= _MENTIONED_DISTANCE)
        begin = int(small[-1]) + 1 if len(small) else 0
        count = int((sizes > _MENTIONED_DISTANCE).sum())
        said = (
            f"{what} by {1e3 * sizes[k]:.1f} mm at {self.t[k]:.2f} s, and by more than "
            f"{1e3 * _MENTIONED_DISTANCE:g} mm in {count} of {len(self)} frames"
        )
        names = self._at_limits(begin, frames)
        return [f"{said}; at limits when it began: {join_names(names)}" if names else said]

    def _at_limits(self, k: int, frames: tuple[str, ...]) -> list[str]:
        """Return the joints that move frames and are at a limit in the step to frame k."""
        if k < 1:
            return []
        qd = self.qd[max(k - 2, 0) : k]
        speed, change = np.abs(qd[-1]), np.abs(np.diff(qd, axis=0)) * self.fps
        at = speed > _AT_LIMIT_SHARE * self.limits.max_speed
        at |= (change > _AT_LIMIT_SHARE * self.limits.max_acceleration).any(axis=0)
        x = to_kernel(self.robot, self.q[k])  # without quaternions
        at |= np.minimum(x - self.limits.lower, self.limits.upper - x) < _AT_LIMIT_DISTANCE
        moving = [(self.robot.jacobian(self.q[k], frame) != 0).any(axis=0) for frame in frames]
        at &= np.any(moving, axis=0)
        return [self.robot.joint_names[j] for j in np.flatnonzero(at).tolist()]

    def trajectory(self) -> Trajectory:
        """Return the motion as a `Trajectory`, without the record of its steps."""
        K = len(self) - 1
        if K < 1:
            raise InputError("a trajectory needs at least two frames; given: 1")
        none = np.zeros((K, 0))
        return Trajectory(
            t=self.t,
            q=self.q,
            qd=self.qd,
            lambda2=np.zeros(K),
            sigma_min=np.zeros(K),
            command=none,
            velocity=none,
            error=none,
            active=np.zeros((K, self.robot.dof), dtype=np.int8),
            status=StatusArray.of(StepStatus, np.zeros(K, dtype=np.int32)),
            rows=(),
            robot=self.robot,
        )

    def save_csv(self, file: str | os.PathLike[str], *, header: bool = False) -> None:
        """Write rows [base xyz, base quaternion xyzw, joints], as datasets for learning have them.

        Args:
            file: The file.
            header: Whether the first line has the names of the columns.
        """
        rows = self.q.copy()
        rows[:, 3:7] = self.q[:, [4, 5, 6, 3]]
        names = ",".join((*_ROOT, *self.robot.position_names[7:]))
        np.savetxt(
            file, rows, fmt="%.9g", delimiter=",", header=names if header else "", comments=""
        )

    def save_qpos(self, file: str | os.PathLike[str]) -> None:
        """Write `.npz` with MuJoCo's "qpos" (T, nq), "fps", "joint_names" and "contacts"."""
        path = Path(file)
        if path.suffix.lower() != ".npz":
            raise InputError(f"qpos is written as .npz; given: {path.name!r}")
        np.savez(
            path,
            qpos=self.q,
            fps=np.float64(self.fps),
            joint_names=np.array(self.robot.position_names[7:]),
            contacts=self.contacts,
        )
