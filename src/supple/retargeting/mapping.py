"""Mappings: the frames of a robot that follow key points of a human, and their targets."""

from __future__ import annotations

from collections.abc import Mapping as Table
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import numpy as np

from supple._arrays.checks import number
from supple.errors import InputError, join_names, short_repr
from supple.kinematics import Robot
from supple.kinematics.rotation import cross
from supple.motion.linearization import Array
from supple.retargeting.humanoid import Humanoid
from supple.retargeting.motion import HumanMotion
from supple.retargeting.points import SIDES, find_points
from supple.retargeting.rotations import frames_of, smooth, times, unit

# Weights of positions, relative to 1 for the pelvis and per length of a leg, and of rotations.
FOOT_WEIGHT, PELVIS_WEIGHT, HAND_WEIGHT, KNEE_ELBOW_WEIGHT = 2.0, 1.0, 0.3, 1.0
TORSO_ROTATION_WEIGHT, ROTATION_WEIGHT = 0.3, 0.1
_STANDING_SPEED = 0.15  # speed below which a foot stands when heights are measured [m/s]
# Cosines of the slope of a foot: below the first, the foot has the heading of the hips; above the
# second, it has its own heading.
FOOT_SLOPE_COSINES = (0.4, 0.85)
_HORIZONTAL, _UPWARD = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
# Height of the feet's lowest point up to which the ground is z = 0; ankles within half of this
# height above the lowest ankle positions count as low [m].
_MAX_GROUND_HEIGHT = 0.1


@dataclass(frozen=True)
class Follow:
    """A frame of the robot that follows the human.

    Attributes:
        frame: Name of the frame.
        body: Name of the body or key point that it follows.
        position: Weight of its position, per length of a leg.
        rotation: Weight of its rotation.
    """

    frame: str
    body: str
    position: float = 1.0
    rotation: float = 0.0

    def __post_init__(self) -> None:
        for name in ("position", "rotation"):
            number(getattr(self, name), f"Follow: {name}", least=0)
        if not self.position + self.rotation > 0:
            raise InputError(f"Follow: a weight must be above 0; given: zeros for {self.frame!r}")

    def target(self, T: Array) -> Array:
        """Return the part of poses (..., 4, 4) with a weight: positions, rotations or poses."""
        if self.rotation == 0:
            return T[..., :3, 3]
        return T[..., :3, :3] if self.position == 0 else T

    def velocity(self, v: Array, w: Array) -> Array:
        """Return v (..., 3) [m/s], w (..., 3) [rad/s] or [v; w]: the parts that have a weight."""
        if self.rotation == 0:
            return v
        return w if self.position == 0 else np.concatenate([v, w], axis=-1)


class Mapping(Protocol):
    """The interface of a mapping from a human to a robot, as `Retargeter` uses it."""

    @property
    def humanoid(self) -> Humanoid:
        """The limbs of the robot."""

    @property
    def follows(self) -> tuple[Follow, ...]:
        """The frames that follow."""

    @property
    def scale(self) -> float:
        """The factor from the human's world to the robot's."""

    @property
    def ground(self) -> float:
        """The height of the ground in the motion [m]."""

    def check(self, motion: HumanMotion) -> None:
        """Raise an error if the motion lacks points or rotations that the mapping needs."""

    def targets(self, motion: HumanMotion) -> Array:
        """Return the pose of each frame that follows, at each frame of a motion (T, k, 4, 4)."""

    def feet(self, motion: HumanMotion) -> Array:
        """Return points of both feet that tell whether they stand (T, 2, points, 3) [m]."""


class Rest(NamedTuple):
    """Height, slope and reach of the standing feet of a human.

    Attributes:
        height: Height of the ankle above the ground [m].
        slope: Angle of the way from ankle to toe below the horizontal [rad].
        reach: Distance of the toe ahead of the ankle [m].
    """

    height: float
    slope: float
    reach: float


@dataclass(frozen=True, eq=False)
class PointMapping:
    """The default mapping, from key points of a human to any humanoid.

    Feet follow the ankles, scaled by `scale`. The pelvis keeps its position relative to the feet,
    scaled by `legs`. Knees, elbows and hands follow the directions of the human's limbs, with the
    lengths of the robot's limbs. Pelvis, torso and feet turn as the human's hips, shoulders and
    feet do.

    Attributes:
        humanoid: The limbs of the robot.
        points: Index of each key point.
        follows: The frames that follow.
        scale: Factor from the human's world to the robot's.
        legs: Factor from the human's legs to the robot's.
        rest: Height and slope of the human's standing feet.
        ground: Height of the ground in the motion [m].
        names: Names of the motion's key points.
        apart: Distance by which each foot of the robot is farther out than the human's foot [m].
            Legs with fewer than six joints need this distance: their feet are level only straight
            below the hips.
    """

    humanoid: Humanoid
    points: Table[str, int]
    follows: tuple[Follow, ...]
    scale: float
    legs: float
    rest: Rest
    ground: float = 0.0
    names: tuple[str, ...] = field(default=(), repr=False)
    apart: float = 0.0

    @classmethod
    def guess(
        cls,
        robot: Robot | Humanoid,
        motion: HumanMotion,
        *,
        scale: float | None = None,
        ground: float | None = None,
    ) -> PointMapping:
        """Return a mapping for a robot, from the names of its links and its neutral configuration.

        Args:
            robot: The robot.
            motion: A motion of the human, whose limbs and standing feet are measured.
            scale: Factor from the human's world to the robot's; by default the ratio of the lengths
                of the robot's and the human's legs.
            ground: Height of the ground in the motion [m]; by default 0 if the lowest point of the
                feet is within 10 cm of z = 0, else the height of that point.
        """
        humanoid = robot if isinstance(robot, Humanoid) else Humanoid.of(robot)
        at = find_points(motion.names)
        human = np.mean([_segments(motion.positions, at, side, _LEG) for side in SIDES], axis=0)
        least, most = _LEG_LENGTH_RANGE
        if not least < human.sum() < most:
            raise InputError(
                "the positions of a motion must be in meters, with legs of "
                f"{least:g} to {most:g} m; given: {human.sum():.3g} m"
            )
        legs = np.mean([humanoid.length(leg) for leg in humanoid.legs], axis=0).sum() / human.sum()
        used = legs if scale is None else number(scale, "scale", above=0)
        low = float(np.percentile(_feet(motion.positions, at)[..., 2].min(axis=(1, 2)), 1))
        lowest = 0.0 if abs(low) < _MAX_GROUND_HEIGHT else low
        floor = lowest if ground is None else number(ground, "ground")
        follows = [
            Follow(humanoid.pelvis, "pelvis", PELVIS_WEIGHT, ROTATION_WEIGHT),
            Follow(humanoid.torso, "torso", 0.0, TORSO_ROTATION_WEIGHT),
        ]
        for k, side in enumerate(SIDES):
            leg, arm = humanoid.legs[k], humanoid.arms[k]
            follows += [
                Follow(leg.end, f"{side}_foot", FOOT_WEIGHT, FOOT_WEIGHT * ROTATION_WEIGHT),
                Follow(leg.middle, f"{side}_knee", KNEE_ELBOW_WEIGHT),
                Follow(arm.middle, f"{side}_elbow", KNEE_ELBOW_WEIGHT),
                Follow(arm.end, f"{side}_hand", HAND_WEIGHT),
            ]
        if humanoid.torso == humanoid.pelvis:
            del follows[1]
        rest = _rest(motion, at, floor)
        made = cls(
            humanoid, at, tuple(follows), float(used), float(legs), rest, floor, motion.names
        )
        return made if humanoid.turns_feet else replace(made, apart=made._missing_width(motion))

    def _missing_width(self, motion: HumanMotion) -> float:
        """Return how much farther out the robot's neutral feet are than the human's feet [m]."""
        own = {key: motion.positions[:, k] for key, k in self.points.items()}
        hips, ankles = (own[f"left_{key}"] - own[f"right_{key}"] for key in ("hip", "ankle"))
        human = self.scale * np.median((unit(hips * _HORIZONTAL) * ankles).sum(axis=1))
        at = [self.humanoid.at[leg.end][:3, 3] for leg in self.humanoid.legs]
        return float(0.5 * ((at[0] - at[1]) @ self._neutral()["pelvis"][:, 1] - human))

    def check(self, motion: HumanMotion) -> None:
        """Raise an error unless the motion has the key points of the motion that was measured."""
        if motion.names != self.names:
            raise InputError(
                "a motion needs the key points of its mapping; given: "
                f"{join_names(motion.names)} instead of {join_names(self.names)}"
            )

    def feet(self, motion: HumanMotion) -> Array:
        """Return the ankles and toes of both feet (T, 2, points, 3) [m]."""
        return _feet(motion.positions, self.points)

    def targets(self, motion: HumanMotion) -> Array:
        """Return the pose of each frame that follows, at each frame of a motion (T, k, 4, 4)."""
        body, used = self.humanoid, list(self.points.values())
        # Frames are innermost in memory: loops over them are fast.
        made = np.moveaxis(np.zeros((len(self.follows), 4, 4, len(motion))), -1, 0)
        made[:, :, 3, 3] = 1.0
        at = np.ascontiguousarray(motion.positions[:, used].T)  # (3, points, T)
        own = {key: at[:, k].T for k, key in enumerate(self.points)}
        pair = {key: (own[f"left_{key}"], own[f"right_{key}"]) for key in ("hip", "shoulder")}
        hips, shoulders = (0.5 * (pair[key][0] + pair[key][1]) for key in ("hip", "shoulder"))
        ankles = [own[f"{side}_ankle"] for side in SIDES]
        below = 0.5 * (ankles[0] + ankles[1])
        feet = self._feet_targets(own, unit(pair["hip"][0] - pair["hip"][1]))
        # The middle of the robot's hips: above its feet as the human's hips are, scaled by `legs`.
        center = 0.5 * (feet[:, 0, :3, 3] + feet[:, 1, :3, 3]) + self.legs * (hips - below)
        turned = {
            "pelvis": frames_of(pair["hip"][0] - pair["hip"][1], shoulders - hips),
            "torso": frames_of(pair["shoulder"][0] - pair["shoulder"][1], shoulders - hips),
        }
        neutral = self._neutral()
        turns = {key: times(turned[key], neutral[key].T) for key in turned}
        rest = {key: T[:3, 3] for key, T in body.at.items()}
        middle = 0.5 * sum(rest[leg.root] for leg in body.legs)
        places = {"pelvis": center + times(turns["pelvis"], rest[body.pelvis] - middle)}
        chest = 0.5 * sum(rest[arm.root] for arm in body.arms)
        above = center + unit(shoulders - hips) * np.linalg.norm(chest - middle)
        for k, side in enumerate(SIDES):
            leg, arm = body.legs[k], body.arms[k]
            places[f"{side}_foot"] = feet[:, k, :3, 3]
            hip = center + times(turns["pelvis"], rest[leg.root] - middle)
            thigh = unit(own[f"{side}_knee"] - own[f"{side}_hip"])
            places[f"{side}_knee"] = hip + thigh * body.length(leg)[0]
            elbow = above + times(turns["torso"], rest[arm.root] - chest)
            elbow += unit(own[f"{side}_elbow"] - own[f"{side}_shoulder"]) * body.length(arm)[0]
            places[f"{side}_elbow"] = elbow
            fore = unit(own[f"{side}_hand"] - own[f"{side}_elbow"])
            places[f"{side}_hand"] = elbow + fore * body.length(arm)[1]
        for k, follow in enumerate(self.follows):
            made[:, k, :3, :3] = body.at[follow.frame][:3, :3]
            if follow.body in turns:
                made[:, k, :3, :3] = times(turns[follow.body], body.at[follow.frame][:3, :3])
            if follow.body in places:
                made[:, k, :3, 3] = places[follow.body]
            if follow.body.endswith("foot"):
                made[:, k] = feet[:, SIDES.index(follow.body.split("_")[0])]
        return made

    def _feet_targets(self, own: Table[str, Array], across: Array) -> Array:
        """Return the poses of both feet (T, 2, 4, 4): the scaled ankles, turned toward the toes."""
        neutral = self._neutral()["pelvis"]
        outward = self.apart * unit(across * _HORIZONTAL)
        made = np.moveaxis(np.zeros((2, 4, 4, len(across))), -1, 0)
        made[..., 3, 3] = 1.0
        for k, side in enumerate(SIDES):
            at = self.humanoid.at[self.humanoid.legs[k].end]
            ankle = own[f"{side}_ankle"]
            way = (
                unit(own[f"{side}_toe"] - ankle) if f"{side}_toe" in own else cross(across, _UPWARD)
            )
            # The heading of a steep foot is that of the hips.
            flat = np.sqrt(1 - np.minimum(way[:, 2:] ** 2, 1))
            none, whole = FOOT_SLOPE_COSINES
            own_share = smooth((flat - none) / (whole - none))
            level = unit(cross(_UPWARD, way)) * own_share + across * (1 - own_share)
            upright = frames_of(level, cross(way, level))  # its x axis along the foot
            c, s = np.cos(self.rest.slope), np.sin(self.rest.slope)
            level_of = np.array([[c, 0, -s], [0, 1, 0], [s, 0, c]])
            turned = times(upright, level_of)
            made[:, k, :3, :3] = times(turned, neutral.T @ at[:3, :3])
            made[:, k, :3, 3] = self.scale * ankle + (1 - 2 * k) * outward
            standing = -self.humanoid.soles[k] @ at[2, :3]  # heights of the frame above the sole
            if f"{side}_toe" in own:
                # The robot's foot turns about its front end, as the human's foot turns about the
                # toe.
                ahead = (self.humanoid.soles[k] @ at[:3, :3].T @ neutral[:, 0]).max()
                longer = ahead - self.scale * self.rest.reach
                made[:, k, :3, 3] += longer * (cross(level, _UPWARD) - turned[..., 0])
            made[:, k, 2, 3] += standing.max() - self.scale * (self.rest.height + self.ground)
        return made

    def _neutral(self) -> dict[str, Array]:
        """Return the axes of the robot's hips and shoulders at its neutral configuration."""
        at = {key: T[:3, 3] for key, T in self.humanoid.at.items()}
        legs, arms = (
            [at[limb.root] for limb in two] for two in (self.humanoid.legs, self.humanoid.arms)
        )
        up = (arms[0] + arms[1]) - (legs[0] + legs[1])
        return {
            "pelvis": frames_of(legs[0] - legs[1], up),
            "torso": frames_of(arms[0] - arms[1], up),
        }


_LEG = ("hip", "knee", "ankle")
_LEG_LENGTH_RANGE = (0.1, 10.0)  # lengths of legs: outside, the unit is not the meter [m]


def _segments(positions: Array, at: Table[str, int], side: str, limb: tuple[str, ...]) -> Array:
    """Return the median lengths of the segments of a limb [m]."""
    way = positions[:, [at[f"{side}_{point}"] for point in limb]]
    found = np.median(np.linalg.norm(np.diff(way, axis=1), axis=-1), axis=0)
    if not (found > 0).all():
        raise InputError(f"the motion's {side} leg has no length; given: {short_repr(found)}")
    return np.asarray(found)


def _feet(positions: Array, at: Table[str, int]) -> Array:
    """Return the ankles, and the toes if there are any, of both feet (T, 2, points, 3) [m]."""
    both = all(f"{side}_toe" in at for side in SIDES)
    points = ("ankle", "toe") if both else ("ankle",)
    return positions[:, [[at[f"{side}_{point}"] for point in points] for side in SIDES]]


def _rest(motion: HumanMotion, at: Table[str, int], ground: float) -> Rest:
    """Return how the feet stand: medians over the frames in which the feet are still and low.

    If there are no such frames, the medians are over the frames in which the feet are low.
    """
    feet = _feet(motion.positions, at)
    speed = np.linalg.norm(np.gradient(feet, axis=0), axis=-1).max(axis=-1) if len(feet) > 1 else 0
    ankles = feet[..., 0, 2] - ground
    low = ankles < np.percentile(ankles, 10) + 0.5 * _MAX_GROUND_HEIGHT
    still = (speed * motion.fps < _STANDING_SPEED) & low
    if not still.any():
        still = low
    slope = reach = 0.0
    if feet.shape[2] > 1:
        way = feet[:, :, 1] - feet[:, :, 0]
        ahead = np.linalg.norm(way[..., :2], axis=-1)
        slope = float(np.median(np.arctan2(-way[..., 2], ahead)[still]))
        reach = float(np.median(ahead[still]))
    return Rest(float(np.median(ankles[still])), slope, reach)
