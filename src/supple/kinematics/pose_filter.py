"""Turn the poses of a tracked hand or controller into targets for a control loop."""

from __future__ import annotations

import math
from collections import deque
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple._arrays.checks import number
from supple._arrays.checks import pose as checked_pose
from supple.errors import InputError, short_repr
from supple.kinematics.chain import Matrix
from supple.kinematics.rotation import exp, log

State: TypeAlias = Literal["released", "tracking", "lost"]

WINDOW_POINTS = 32  # number of points of the mean over the window of `smoothing`
_CENTERS = (np.arange(WINDOW_POINTS) + 0.5) / WINDOW_POINTS
_WEIGHTS = 2 * np.sin(np.pi * _CENTERS) ** 2 / WINDOW_POINTS  # symmetric, with the sum 1


class PoseFilter:
    """A filter between a tracked pose and the target of a `Servo`, for teleoperation.

        hand = PoseFilter(lag=0.03)
        hand.engage(robot.fk(q), t)              # the target starts at the tool's pose
        hand.put(t, pose)                        # for each sample of the tracker
        q = servo(q, target=hand.at(t))          # in each step of the loop

    From `engage` on, the target moves as the hand does, with the constant delay
    lag + smoothing / 2. The pose of the hand is interpolated between samples, at the time t - lag,
    so that samples may arrive irregularly. The target is always continuous and within the bounds on
    its speed:

    - A sample that the hand cannot have reached from the last one within the bounds is a glitch. It
      is dropped, and so are later samples that continue the glitch rather than the motion.
    - Tracking is lost if a sample is None, or if none is usable for `lost_after` seconds. The
      target then rests. When the hand is found again, wherever it is, the target continues from
      its present pose.
    - A sample that is not later than the last one, or that is older than `engage`, is dropped.

    All times must come from the same clock. Only the samples within the delay are stored.

    Args:
        lag: Time by which samples may be late [s], at least the largest interval between them.
        smoothing: Width of the window over which the motion is averaged [s]. The mean is
            symmetric, so that a steady motion is delayed but not changed. To remove a tremor of
            frequency f, use 2 / f.
        max_speed: Largest speed of the hand [m/s].
        max_turn: Largest angular speed of the hand [rad/s].
        lost_after: Time without usable samples after which tracking is lost [s].
        scale: Distance that the tool moves for each meter that the hand moves.
        axes: "world" if the tool moves along and turns about the same axes of the world as the
            hand; "body" if a motion along or about an axis of the hand becomes a motion along or
            about the same axis of the tool. If the world of the tracker differs from the robot's
            world, pass `hand.put(t, R @ pose)`, where R (4, 4) is the pose of the tracker's world
            in the robot's world.

    Raises:
        InputError: An argument is not a number in its range, or axes are unknown.
    """

    lag: float
    smoothing: float
    max_speed: float
    max_turn: float
    lost_after: float
    scale: float
    axes: Literal["world", "body"]

    def __init__(
        self,
        *,
        lag: float = 0.03,
        smoothing: float = 0.0,
        max_speed: float = 3.0,
        max_turn: float = 15.0,
        lost_after: float = 0.2,
        scale: float = 1.0,
        axes: Literal["world", "body"] = "world",
    ) -> None:
        given: object = axes
        if given not in ("world", "body"):
            raise InputError(f'axes must be "world" or "body"; given: {short_repr(given)}')
        vars(self).update(
            lag=number(lag, "lag", least=0),
            smoothing=number(smoothing, "smoothing", least=0),
            max_speed=number(max_speed, "max_speed", above=0),
            max_turn=number(max_turn, "max_turn", above=0),
            lost_after=number(lost_after, "lost_after", above=0),
            scale=number(scale, "scale", above=0),
            axes=axes,
        )
        self._path: deque[tuple[float, Matrix]] = deque()  # targets, in the order of time
        self._hand: tuple[float, Matrix] | None = None  # the last sample that was accepted
        self._stray: tuple[float, Matrix] | None = None  # the last glitch since then
        self._rest: Matrix | None = None  # the tool when the hand was engaged, or found again
        self._origin: Matrix | None = None  # the hand at that time
        self._engaged = self._last = -math.inf  # the times of `engage` and of the last sample
        self._shown = -math.inf  # the latest time of the path that a target depended on

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_"):
            raise AttributeError(f"{name} of a PoseFilter cannot be set; make a new PoseFilter")
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        names = ("lag", "smoothing", "max_speed", "max_turn", "lost_after", "scale")
        numbers = ", ".join(f"{name}={getattr(self, name):g}" for name in names)
        return f"PoseFilter({numbers}, axes={self.axes!r})"

    @property
    def state(self) -> State:
        """The state: "released", "tracking", or "lost" if the hand is engaged but not tracked."""
        if self._rest is None:
            return "released"
        return "lost" if self._origin is None else "tracking"

    def engage(self, tool: ArrayLike, t: float) -> None:
        """Let the tool follow the hand from time t on, starting at the given pose of the tool.

        Args:
            tool: Pose of the tool (4, 4), or the last target.
            t: Time [s].
        """
        rest, t = checked_pose(tool, "tool"), number(t, "t")
        self._lose()
        self._rest, self._engaged, self._last, self._shown = rest, t, -math.inf, -math.inf
        self._path.clear()
        self._path.append((t, rest))

    def release(self) -> None:
        """Let the target rest until the next `engage`, even if the hand moves."""
        self._lose()
        self._rest = None

    def put(self, t: float, pose: ArrayLike | None) -> bool:
        """Take a sample of the hand; return whether the target follows it.

        Args:
            t: Time of the sample [s].
            pose: Pose of the hand (4, 4) in the world; None if the tracker does not see it.
        """
        t = number(t, "t")
        here = None if pose is None else _as_pose(checked_pose(pose, "pose"))
        if self._rest is None or t <= self._last or t < self._engaged:
            return False
        self._last = t
        self._expire(t)
        if here is None:
            self._lose()
            return False
        if self._hand is not None and self._is_stray(t, here):
            self._stray = (t, here)
            return False
        if self._origin is None:  # the hand is found: the tool moves on from where it rests
            # With axes="body", rounding errors of this rotation would otherwise triple each time.
            self._rest, self._origin = _as_pose(self._path[-1][1]), here
        self._hand, self._stray = (t, here), None
        self._append(t, self._moved(here))
        self._forget(t - self.lag - self.smoothing - self.lost_after)
        return True

    def at(self, t: float) -> Matrix:
        """Return the target (4, 4) at a time [s], which must not be before that of the last call.

        Raises:
            InputError: The hand was never engaged.
        """
        t = number(t, "t")
        if not self._path:
            raise InputError("at(t) needs a hand that was engaged: call engage(tool, t) first")
        self._expire(t)
        end = t - self.lag
        self._shown = max(self._shown, end)
        self._forget(end - self.smoothing)
        if self.smoothing == 0 or len(self._path) == 1:
            return np.asarray(self._between(np.array([end]))[0])
        poses = self._between(end - self.smoothing * _CENTERS)
        mean = np.tensordot(_WEIGHTS, poses, axes=1)
        return _as_pose(mean)

    def _between(self, times: NDArray[np.float64]) -> Matrix:
        """Return poses (k, 4, 4) of the path at times (k,), interpolated between its targets."""
        t = np.array([time for time, _ in self._path])
        T = np.array([target for _, target in self._path])
        before = np.searchsorted(t, times, side="right") - 1
        after = np.minimum(before + 1, len(t) - 1)
        before = np.maximum(before, 0)
        span = t[after] - t[before]
        s = np.where(span > 0, times - t[before], 0) / np.where(span > 0, span, 1)
        poses, last = T[before], T[after]
        R = poses[:, :3, :3]
        turn = log(last[:, :3, :3] @ R.swapaxes(1, 2))
        poses[:, :3, 3] += s[:, None] * (last[:, :3, 3] - poses[:, :3, 3])
        poses[:, :3, :3] = exp(s[:, None] * turn) @ R
        return np.asarray(poses)

    def _append(self, t: float, target: Matrix) -> None:
        """Append a target for a time, or for a later one if the bounds on its speed require it."""
        begin, before = self._path[-1]
        if self._shown > begin:  # the target has rested since
            begin = self._shown
            self._path.append((begin, before))
        far, turn = _distance(before, target)
        needed = max(far / (self.scale * self.max_speed), turn / self.max_turn)
        self._path.append((max(t, begin + needed), target))

    def _forget(self, t: float) -> None:
        """Drop the part of the path before a time."""
        while len(self._path) > 1 and self._path[1][0] <= t:
            self._path.popleft()

    def _moved(self, hand: Matrix) -> Matrix:
        """Return the target for a pose of the hand."""
        assert self._rest is not None
        assert self._origin is not None
        target, begin, rest = self._rest.copy(), self._origin[:3, :3], self._rest[:3, :3]
        turn = rest @ begin.T if self.axes == "body" else np.eye(3)  # axes of the motion
        target[:3, 3] += turn @ (self.scale * (hand[:3, 3] - self._origin[:3, 3]))
        target[:3, :3] = turn @ hand[:3, :3] @ begin.T @ turn.T @ rest
        return target

    def _lose(self) -> None:
        """Let the target rest after the last sample, until the hand is found."""
        self._origin = self._hand = self._stray = None

    def _expire(self, t: float) -> None:
        """Lose the hand if no sample was usable for too long before a time."""
        if self._hand is not None and t - self._hand[0] > self.lost_after:
            self._lose()

    def _is_stray(self, t: float, pose: Matrix) -> bool:
        """Return whether a sample is a glitch rather than a motion of the hand.

        The more time has passed, the farther the bounds allow the hand to move, so a tracker that
        jumps and stays at its new pose would in the end be taken for a hand that moves. After a
        glitch, a sample therefore counts as a motion of the hand only if a motion from the last
        accepted sample needs at most twice the fraction of the bounds that a motion from the glitch
        needs.
        """
        assert self._hand is not None
        share = self._share(self._hand, t, pose)
        if share > 1 or self._stray is None:
            return share > 1
        return share > 2 * self._share(self._stray, t, pose)

    def _share(self, last: tuple[float, Matrix], t: float, pose: Matrix) -> float:
        """Return the speed between two samples as a fraction of the bounds on the hand's speed."""
        far, turn = _distance(last[1], pose)
        return max(far / self.max_speed, turn / self.max_turn) / (t - last[0])


def _as_pose(T: Matrix) -> Matrix:
    """Return T (4, 4) with its upper left block replaced by the closest rotation."""
    made = np.array(T)
    left, _, right = np.linalg.svd(T[:3, :3])  # the closest rotation is left @ right
    made[:3, :3] = left @ np.diag([1, 1, np.linalg.det(left @ right)]) @ right
    return made


def _distance(one: Matrix, other: Matrix) -> tuple[float, float]:
    """Return the distance [m] and the angle [rad] between two poses."""
    far = float(np.linalg.norm(other[:3, 3] - one[:3, 3]))
    return far, float(np.linalg.norm(log(other[:3, :3] @ one[:3, :3].T)))
