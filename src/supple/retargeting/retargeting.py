"""`retarget`: a humanoid follows a human's motion."""

from __future__ import annotations

import math

import numpy as np

from supple._arrays.checks import number
from supple.collision.world import World
from supple.errors import InputError, known_arguments, short_repr
from supple.kinematics import Robot
from supple.kinematics.rotation import cross
from supple.motion.limits import Limits
from supple.motion.linearization import Array
from supple.retargeting.contacts import Mask, Stance, is_still, without_short
from supple.retargeting.following import Following
from supple.retargeting.humanoid import Humanoid
from supple.retargeting.mapping import Mapping, PointMapping
from supple.retargeting.motion import HumanMotion
from supple.retargeting.obstacles import kept_apart
from supple.retargeting.references import base_to, between, default_limits
from supple.retargeting.result import Retargeted
from supple.retargeting.steps import Steps
from supple.retargeting.terrain import Terrain

LONGEST_STEP = 0.0101  # frames are divided until steps are not longer [s]
# Times of the blend into and out of a stance, of the shortest stance, and of the shortest swing
# [s].
BLEND_TIME, MIN_STANCE_TIME, MIN_SWING_TIME = 0.12, 0.05, 0.08
# Steps from the neutral configuration to the first frame: their largest number, the number of steps
# between checks, the length of a step [s], and the change in a step below which the steps end [m or
# rad].
_MAX_SETTLING_STEPS, _STEPS_PER_CHECK, _SETTLING_DT, _SETTLED_CHANGE = 400, 5, 0.05, 1e-6
MIN_FPS = 1.0  # fewest frames per second: a smaller number is probably the time between frames
_BLOCK_STEPS = 4096  # number of steps whose targets are computed at once
JUST_BELOW = 1 - 1e-9  # largest firmness of a foot before the first frame of its stance


@known_arguments()
def retarget(
    robot: Robot,
    motion: HumanMotion,
    *,
    mapping: Mapping | None = None,
    scale: float | None = None,
    limits: Limits | None = None,
    world: World | None = None,
    clearance: float | None = 0.0,
) -> Retargeted:
    """Return the motion of a humanoid that follows a human.

    Standing feet stay in place, with the sole on the ground or on a box of `world`, as far as the
    joint limits allow. Joints keep their limits of position, speed and acceleration.

    Args:
        robot: The humanoid; a fixed base is replaced by a floating one.
        motion: The motion of the human, from `HumanMotion.load(file)` or from arrays.
        mapping: The mapping from key points to frames; by default
            `PointMapping.guess(robot, motion)`.
        scale: Factor from the human's world to the robot's, for the default mapping; by default the
            ratio of the lengths of their legs.
        limits: Limits of the robot's joints; by default the robot's own, with 20 rad/s and 400
            rad/s² where it has no limit, and no limits of the base. Jerk limits must be infinite.
        world: Boxes and half-spaces on which the robot stands, besides the ground z = 0, in the
            robot's scale.
        clearance: Distance that the robot keeps from the ground, from the world's obstacles and
            between its links [m], as far as standing feet and the limits allow; standing feet
            themselves do not keep it. If None, all links but the feet may pass through the ground,
            obstacles and other links.

    Raises:
        InputError: The motion lacks key points, or the robot is not a humanoid.
    """
    if not isinstance(motion, HumanMotion):
        raise InputError(
            "motion must be a HumanMotion, as of HumanMotion.load(file); given: "
            f"{short_repr(motion)}"
        )
    if mapping is None:
        mapping = PointMapping.guess(robot, motion, scale=scale)
    elif scale is not None:
        raise InputError("scale belongs to the mapping; given: both scale and mapping")
    stream = Retargeter(mapping, motion.fps, limits=limits, world=world, clearance=clearance)
    q = np.concatenate([stream.push(motion), stream.finish()])
    return Retargeted(
        q,
        motion.fps,
        stream.contacts,
        mapping.humanoid,
        stream.limits,
        stream.terrain,
        mapping.scale,
        world,
    )


class Retargeter:
    """A retargeting of a stream of frames, with a fixed latency.

        stream = Retargeter(mapping, fps=120)
        q = stream.push(frames)        the next complete configurations (k, nq), k >= 0
        rest = stream.finish()         the configurations of the last `latency` frames

    The configurations equal those that `retarget` returns for all frames at once.

    Attributes:
        robot: The robot, with a floating base; a configuration begins with its position and its
            quaternion wxyz.
        latency: Number of frames between the last input and the last output.
        limits: Limits of the joints.
        dt: Length of a step [s]: a frame, or a part of one.
        mapping: The mapping from key points to frames of the robot.
        humanoid: The limbs of the robot.
        fps: Frames per second of the human's motion.
        terrain: The surfaces that the feet stand on.
    """

    robot: Robot
    latency: int
    limits: Limits
    dt: float
    mapping: Mapping
    humanoid: Humanoid
    fps: float
    terrain: Terrain

    def __init__(
        self,
        mapping: Mapping,
        fps: float,
        *,
        limits: Limits | None = None,
        world: World | None = None,
        clearance: float | None = 0.0,
    ) -> None:
        """Prepare a stream.

        Args:
            mapping: The mapping from key points to frames of the robot.
            fps: Frames per second of the human's motion.
            limits: As in `retarget`.
            world: As in `retarget`.
            clearance: As in `retarget`.
        """
        if not isinstance(getattr(mapping, "humanoid", None), Humanoid):
            raise InputError(
                "mapping must be a mapping, as of PointMapping.guess(robot, motion); given: "
                f"{short_repr(mapping)}"
            )
        self.mapping = mapping
        self.humanoid = mapping.humanoid
        self.robot = self.humanoid.robot
        self.fps = number(fps, "fps", least=MIN_FPS)
        self.limits = default_limits(self.robot) if limits is None else limits
        _check_limits(self.limits, self.robot)
        self.terrain = Terrain.of(world)
        self._parts = max(1, math.ceil(1 / (LONGEST_STEP * self.fps)))
        self.dt = 1 / (self.fps * self._parts)
        self._shortest = max(2, round(MIN_STANCE_TIME * self.fps))
        self._blend = max(2, round(BLEND_TIME * self.fps))
        self._gap = max(2, round(MIN_SWING_TIME * self.fps))
        self.latency = self._blend + 2 * self._shortest + self._gap - 1
        feet = [leg.end for leg in self.humanoid.legs]
        frames = [follow.frame for follow in mapping.follows]
        for foot in feet:
            if foot not in frames:
                raise InputError(f"the mapping must follow the foot {foot!r}")
        self._feet = [frames.index(foot) for foot in feet]
        self._least = 0.0 if clearance is None else number(clearance, "clearance", least=0)
        self._model = None if clearance is None else kept_apart(self.robot, world)
        self._loop = Following(mapping, self.limits, self._model, self._least, self.dt)
        self._begin()

    def _begin(self) -> None:
        """Set the state at the beginning of a motion."""
        stance = Stance(self.humanoid, self.terrain)
        self._steps = [Steps(stance, k, self._blend, self._shortest - 1) for k in range(2)]
        none = np.empty((0, len(self.mapping.follows), 4, 4))
        self._ended = False
        # Frames from `_first` on: poses, points of the feet, and flags as far as they are known.
        self._first = self._done = self._planned = 0
        self._poses = none
        self._points: Array | None = None
        self._given: Mask | None = None
        self._raw, self._flags = np.empty((0, 2), dtype=bool), np.empty((0, 2), dtype=bool)
        self._plan = none
        self._stands = np.empty((0, 2), dtype=bool)
        self._firm = np.empty((0, 2))
        self._past: list[Mask] = []

    def push(self, motion: HumanMotion) -> Array:
        """Add frames and return the next complete configurations (k, nq), k >= 0."""
        if not isinstance(motion, HumanMotion):
            raise InputError(f"frames must be a HumanMotion; given: {short_repr(motion)}")
        if motion.fps != self.fps:
            raise InputError(
                f"frames must have {self.fps:g} frames per second; given: {motion.fps:g}"
            )
        self.mapping.check(motion)
        if self._ended:
            self._begin()
        if len(self._poses) + self._first and (motion.contacts is None) != (self._given is None):
            raise InputError("all frames must have contacts, or none; given: some with contacts")
        poses = self.mapping.targets(motion)
        x, y, z = (poses[..., :3, k] for k in range(3))
        turned = np.einsum("tki,tki->tk", cross(x, y), z)
        if not (turned > 0.5).all():
            k = int(np.argmin(turned.min(axis=1)))
            raise InputError(
                "the hips, shoulders or feet of a frame have no direction: points coincide; "
                f"given: frame {self._first + len(self._poses) + k}"
            )
        self._poses = _joined(self._poses, poses)
        points = self.mapping.feet(motion)
        self._points = points if self._points is None else np.concatenate([self._points, points])
        if motion.contacts is not None:
            given = motion.contacts
            self._given = given if self._given is None else np.concatenate([self._given, given])
        return self._advance(last=False)

    def finish(self) -> Array:
        """Return the configurations (k, nq) of the last frames, and prepare for a new motion."""
        q = self._advance(last=True)
        self._ended = True
        return q

    @property
    def contacts(self) -> Mask:
        """Whether the left and the right foot stand (T, 2), in the frames that are planned."""
        return np.concatenate([*self._past, self._stands])

    def _advance(self, last: bool) -> Array:
        """Process all frames for which enough later ones are known."""
        count = self._first + len(self._poses)
        self._detect(count, last)
        end = count if last else max(self._planned, self._known - self._blend - self._shortest + 1)
        if end > self._planned:
            self._place(end)
        done = count if last else max(self._done, self._planned - 1)
        q = self._follow(done, last)
        keep = max(0, min(self._done, self._planned) - self._shortest - self._gap - 3)
        self._forget(keep)
        return q

    @property
    def _known(self) -> int:
        """The number of frames whose contacts are known."""
        return self._first + len(self._flags)

    def _detect(self, count: int, last: bool) -> None:
        """Extend the flags of contacts as far as the frames allow."""
        assert self._points is not None or count == 0
        if self._points is None:
            return
        raw_end = count if last else count - 1
        begin = self._first + len(self._raw)
        if raw_end > begin and self._given is not None:
            self._raw = self._given[: raw_end - self._first]
        elif raw_end > begin:
            a, b = begin - 1 - self._first, raw_end + 1 - self._first
            index = np.clip(np.arange(a, b), 0, len(self._points) - 1)
            own = self._points[index]
            inner = own[1:-1] * self.mapping.scale
            inner[..., 2] -= self.mapping.scale * self.mapping.ground
            low = inner[..., 2].min(axis=-1)
            rest = self.terrain.height(inner.mean(axis=2))
            heights = (low - rest) / self.mapping.scale
            before = self._raw[-1] if len(self._raw) else np.zeros(2, dtype=bool)
            down = self._poses[index[1:-1, None], self._feet, 2, :3]
            up = [self.humanoid.at[leg.end][2, :3] for leg in self.humanoid.legs]
            tilts = np.arccos(np.clip((down * up).sum(axis=-1), -1, 1))
            fresh = is_still(own, self.fps, heights, tilts, before)
            self._raw = np.concatenate([self._raw, fresh])
        margin = self._shortest + self._gap - 2
        end = raw_end if last else raw_end - margin
        if end > self._known:
            start = max(0, self._known - self._first - margin)
            closed = ~without_short(~self._raw[start:], self._gap)
            opened = without_short(closed, self._shortest)
            self._flags = np.concatenate(
                [self._flags, opened[self._known - self._first - start : end - self._first - start]]
            )

    def _place(self, end: int) -> None:
        """Extend the targets, including those of the feet, up to the frame `end` of the motion."""
        a, b = self._planned - self._first, end - self._first
        plan = self._poses[a:b].copy(order="K")
        firm = np.empty((end - self._planned, 2))
        for k, steps in enumerate(self._steps):
            column = self._feet[k]
            plan[:, column], firm[:, k] = steps.targets(
                self._flags[:, k], self._poses[:, column], self._first, self._planned, end
            )
        self._plan = _joined(self._plan, plan)
        self._stands = np.concatenate([self._stands, self._flags[a:b]])
        self._firm = np.concatenate([self._firm, firm])
        self._planned = end

    def _follow(self, end: int, last: bool) -> Array:
        """Run the control loop up to a frame; return the configurations of the new frames."""
        begin = self._done
        if end <= begin:
            return np.empty((0, self.robot.nq))
        made = np.empty((end - begin, self.robot.nq))
        k0 = 0
        if begin == 0:
            made[0] = self._settle(self._plan[0], self._stands[0])
            self._loop.start(made[0])
            begin, k0 = 1, 1
        block = max(1, _BLOCK_STEPS // self._parts)
        for first in range(begin, end, block):
            targets, firm = self._references(first - 1, min(first + block, end) - 1)
            own = self._loop.run(targets, firm)[self._parts - 1 :: self._parts]
            made[k0 : k0 + len(own)] = own
            k0 += len(own)
        self._done = end
        return made

    def _references(self, begin: int, end: int) -> tuple[Array, Array]:
        """Return targets of all steps from frame `begin` to frame `end`, and how feet are held."""
        a = begin - self._first
        count = end - begin
        firm = self._firm[a : a + count + 1]
        targets = self._plan[a : a + count + 1]
        if self._parts > 1:
            index = np.clip(np.arange(a - 1, a + count + 2), 0, len(self._plan) - 1)
            targets = between(self._plan[index], self._stands[index], self._feet, self._parts)
        s = np.arange(1, self._parts + 1)[:, None] / self._parts
        fine = firm[:-1, None] * (1 - s) + firm[1:, None] * s
        # A foot is held fully from the first frame of its stance on, not in the steps before it.
        fine = np.where(firm[:-1, None] < 1, np.minimum(fine, JUST_BELOW), fine)
        return targets, fine.reshape(-1, 2)

    def _settle(self, poses: Array, stands: Mask) -> Array:
        """Return a configuration at the first targets, found from the neutral one."""
        robot = self.robot
        q = robot.neutral()
        pelvis = [follow.frame for follow in self.mapping.follows].index(self.humanoid.pelvis)
        q = base_to(robot, q, self.humanoid.pelvis, poses[pelvis])
        loop = Following(
            self.mapping, Limits.for_robot(robot), self._model, self._least, _SETTLING_DT
        )
        loop.start(q)
        targets = np.broadcast_to(poses, (_STEPS_PER_CHECK + 1, *poses.shape))
        # Below 1, so that a foot that is not yet in its place is not held where it is.
        firm = np.broadcast_to(0.9 * stands, (_STEPS_PER_CHECK, 2))
        for _ in range(_MAX_SETTLING_STEPS // _STEPS_PER_CHECK):
            before, q = loop.run(targets, firm)[-2:]
            if np.abs(robot.difference(before, q)).max() < _SETTLED_CHANGE:
                break
        return q

    def _forget(self, first: int) -> None:
        """Drop the frames before `first`."""
        drop = first - self._first
        if drop <= 0 or len(self._poses) - drop > 4 * drop:
            return
        self._past.append(self._stands[:drop])
        self._stands = self._stands[drop:]
        self._poses, self._plan = self._poses[drop:], self._plan[drop:]
        self._firm = self._firm[drop:]
        self._raw, self._flags = self._raw[drop:], self._flags[drop:]
        assert self._points is not None
        self._points = self._points[drop:]
        if self._given is not None:
            self._given = self._given[drop:]
        self._first = first


def _check_limits(limits: object, robot: Robot) -> None:
    """Raise an error unless limits belong to the robot and are of a kind that a motion can keep."""
    if not isinstance(limits, Limits):
        raise InputError(f"limits must be Limits; given: {short_repr(limits)}")
    if len(limits.lower) != robot.nv:
        raise InputError(
            f"limits must be those of the robot with its floating base, with {robot.nv} "
            'coordinates, as of default_limits(robot.with_base("floating")); given: '
            f"{len(limits.lower)}"
        )
    if limits.mode != "exact" or limits.max_norm < math.inf or np.isfinite(limits.max_jerk).any():
        raise InputError(
            'limits must have mode "exact", no jerk limits and no bound on the norm of all speeds; '
            "given: "
            f"mode {limits.mode!r}, max_jerk {np.min(limits.max_jerk):g}, max_norm "
            f"{limits.max_norm:g}"
        )


def _joined(before: Array, after: Array) -> Array:
    """Return arrays joined one after the other; a single array is not copied."""
    return np.concatenate([before, after]) if len(before) else after
