"""Detect when the feet of a human stand, and choose where the robot's feet then stand.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from supple.kinematics.rotation import cross
from supple.motion.linearization import Array
from supple.retargeting.humanoid import Humanoid
from supple.retargeting.rotations import frames_of, orthonormal
from supple.retargeting.terrain import Terrain

Mask = NDArray[np.bool_]

# A foot begins to stand below the first speed and ceases above the second [m/s].
STANCE_START_SPEED, STANCE_END_SPEED = 0.25, 0.45
MAX_SOLE_TILT = 0.5  # largest tilt of a standing foot; the sole is steeper in kneeling [rad]
MAX_STANCE_HEIGHT = 0.12  # largest height of a standing foot's lowest point over a surface [m]
# As fractions of the length of the robot's legs: the least distance of a swinging foot's sole from
# the ground and from boxes, and the largest distance of a standing foot from the surface on which
# it is put.
SWING_CLEARANCE = 0.05
MAX_SNAP_DISTANCE = 0.1
MAX_BOX_MOVES = 2  # moves of a foot out of the boxes, which may stand side by side


def is_still(feet: Array, fps: float, heights: Array, tilts: Array, before: Mask) -> Mask:
    """Return whether feet stand (k, 2), judged by their speeds with hysteresis.

    Args:
        feet: Points of both feet (k + 2, 2, p, 3) [m], with a frame before and one after.
        fps: Frames per second.
        heights: Heights of the lowest points above the ground (k, 2) [m].
        tilts: Angles of the soles to the horizontal (k, 2) [rad].
        before: Whether each foot stood in the frame before (2,).
    """
    speeds = 0.5 * fps * np.linalg.norm(feet[2:] - feet[:-2], axis=-1)
    on = speeds.max(axis=-1) < STANCE_START_SPEED
    on &= (heights < MAX_STANCE_HEIGHT) & (tilts < MAX_SOLE_TILT)
    # The heel may rise while the toe, which is the last point, rests, until the foot is steep.
    rises = (speeds.max(axis=-1) > STANCE_END_SPEED) & (tilts > MAX_SOLE_TILT)
    off = (speeds[..., -1] > STANCE_END_SPEED) | rises
    off |= (heights > 1.5 * MAX_STANCE_HEIGHT) | (tilts > 1.5 * MAX_SOLE_TILT)
    said = np.where(on, 1, np.where(off, 0, -1))
    said = np.concatenate([before[None].astype(int), said])
    last = np.where(said >= 0, np.arange(len(said))[:, None], 0)
    last = np.maximum.accumulate(last, axis=0)
    return np.asarray(np.take_along_axis(said, last, axis=0)[1:] == 1)


def without_short(flags: Mask, least: int) -> Mask:
    """Return flags (T, 2) without runs of True shorter than `least` frames.

    A run that begins in the first frame or ends in the last one counts as long enough.
    """
    if least < 2 or not len(flags):
        return flags
    padded = np.pad(flags, ((least - 1, least - 1), (0, 0)), mode="edge")
    total = np.concatenate([np.zeros((1, 2), dtype=int), np.cumsum(padded, axis=0)])
    full = total[least:] - total[:-least] == least  # windows that begin at each frame
    count = np.concatenate([np.zeros((1, 2), dtype=int), np.cumsum(full, axis=0)])
    return np.asarray(count[least:] - count[:-least] > 0)


@dataclass(frozen=True, eq=False)
class Stance:
    """Puts the feet of a humanoid flat on the surfaces of a terrain.

    Attributes:
        humanoid: The robot and its limbs.
        terrain: The surfaces.
    """

    humanoid: Humanoid
    terrain: Terrain

    @property
    def length(self) -> float:
        """The length of a leg [m]."""
        return sum(self.humanoid.length(self.humanoid.legs[0]))

    def anchors(self, foot: int, poses: Array) -> Array:
        """Return the standing poses (k, 4, 4) of a foot near given poses: flat, on a surface.

        If no surface is near, the sole keeps its height. A foot in a wall is put in front of it.
        """
        made = self._level(foot, poses)
        away = self.terrain.way_out(made, self._points[foot], np.zeros(len(made)))
        inside = away.any(axis=1)
        made[inside, :3, 3] += away[inside]
        made[inside] = self._level(foot, made[inside])
        return made

    def _level(self, foot: int, poses: Array) -> Array:
        """Return poses (k, 4, 4) of a foot turned flat, and raised or lowered to a surface."""
        own, sole = self._axes[foot], self.humanoid.soles[foot]
        points = sole @ poses[:, :3, :3].swapaxes(1, 2) + poses[:, None, :3, 3]
        points = np.concatenate([points.mean(axis=1, keepdims=True), points], axis=1)
        heights, normals = self.terrain.surfaces(points)
        # The highest surface near the sole, also if only a part of the foot is on it.
        close = np.abs(heights - points[:, 0, 2, None]) < MAX_SNAP_DISTANCE * self.length
        ranked = np.where(close, heights, -np.inf).swapaxes(0, 1)
        ranked = ranked.reshape(len(poses), len(heights) * points.shape[1])
        at = np.arange(len(poses))
        which, point = np.unravel_index(ranked.argmax(axis=1), (len(heights), points.shape[1]))
        height = ranked.max(axis=1)
        on = np.isfinite(height)
        n = np.where(on[:, None], normals[which, at, point], [0.0, 0.0, 1.0])
        ahead = poses[:, :3, :3] @ own[:, 0]
        R = frames_of(cross(n, ahead), n) @ own.T
        made = poses.copy()
        made[:, :3, :3] = R
        lowest = ((sole @ R.swapaxes(1, 2)) * n[:, None]).sum(axis=-1).min(axis=1)
        surface = np.where(on[:, None], points[at, point], 0.0)
        surface[:, 2] = np.where(on, height, 0.0)
        rise = (((surface - poses[:, :3, 3]) * n).sum(axis=1) - lowest) / n[:, 2]
        made[:, 2, 3] += np.where(on, rise, 0.0)
        return made

    def clear(self, foot: int, poses: Array, free: Array) -> Array:
        """Return poses (k, 4, 4) of a foot moved out of the boxes and raised above the ground.

        Args:
            foot: Index of the foot.
            poses: Poses of the foot (k, 4, 4).
            free: Fraction of the full distance to keep at each pose (k,): 0 for a standing foot,
                1 in mid-swing.
        """
        made = poses.copy(order="K")
        rest = np.flatnonzero(free > 0)
        for _ in range(MAX_BOX_MOVES):
            distance = SWING_CLEARANCE * self.length * free[rest]
            moved = made[rest]
            away = self.terrain.way_out(moved, self._points[foot], distance)
            moved[:, :3, 3] += away
            rise = self.terrain.rise(moved, self.humanoid.soles[foot], distance)
            moved[:, 2, 3] += rise
            made[rest] = moved
            rest = rest[(rise > 0) | away.any(axis=1)]
        return made

    @cached_property
    def _axes(self) -> tuple[Array, ...]:
        """Axes of each foot that are level at the neutral configuration, in its frame (3, 3)."""
        turned = [self.humanoid.at[leg.end][:3, :3] for leg in self.humanoid.legs]
        y, z = np.eye(3)[1:]
        return tuple(at.T @ frames_of(at @ y, z) for at in turned)

    @cached_property
    def _points(self) -> tuple[Array, ...]:
        """Points of each sole, and the midpoints between any two of them (n, 3) [m]."""
        return tuple(
            (0.5 * (sole[:, None] + sole))[np.triu_indices(len(sole))]
            for sole in self.humanoid.soles
        )


def blended(poses: Array, anchors: tuple[Array, Array], shares: tuple[Array, Array]) -> Array:
    """Return poses (k, 4, 4), each blended with two anchors by shares with a sum of at most 1."""
    before, after = (share[:, None, None] for share in shares)
    mixed = poses + before * (anchors[0] - poses) + after * (anchors[1] - poses)
    mixed[:, :3, :3] = orthonormal(mixed[:, :3, :3])
    return np.asarray(mixed)
