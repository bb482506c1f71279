"""The simulated robot of the viewer: it follows targets and records measurements.

This module does not draw. All methods are thread-safe.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, get_args, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray

import supple as sp
from supple.control.arguments import ACCELERATION_TIME
from supple.errors import InputError
from supple.view.methods import DEFAULT, method
from supple.view.path import straight_motion
from supple.view.posture import (
    comfortable,
    controlled_rows,
    coordinates,
    followed_frames,
    from_coordinates,
    inside_limits,
)
from supple.view.recording import Recording, Replay

Array = NDArray[np.float64]

MODES = tuple(mode for mode in get_args(get_type_hints(sp.Limits)["mode"]) if mode != "path")
DT = 0.004  # length of a step [s]
_CATCH_UP = 25  # maximum number of steps per call, so that the robot does not jump after a pause
_HISTORY_TIME = 10.0  # time for which measurements are kept [s]
_SHARES = np.linspace(0, 1, 51)[1:]  # fractions of a line at which the path has targets
_MAX_GHOST_DISTANCE = 1e3  # joint distance from the robot at which the ghost is reset [rad or m]


@dataclass(frozen=True)
class Settings:
    """Settings of the controller.

    Attributes:
        method: Damping rule or step, one of `methods.method_names`.
        parameters: Parameters of the method; missing ones are derived from the robot.
        task: "pose", or "position" to leave rotations free.
        gain: Gain of the error [1/s].
        limited: Whether the limits of the joints act.
        speed_factor: Fraction of the speed limits, above 0 and at most 1.
        max_acceleration: Acceleration limit of every joint [rad/s² or m/s²]; 0 for the default.
        max_norm: Bound on the norm of all joint speeds; 0 for none.
        mode: Mode of the limits, one of `MODES`.
    """

    method: str = DEFAULT
    parameters: dict[str, float] = field(default_factory=dict)
    task: str = "pose"
    gain: float = 10.0
    limited: bool = True
    speed_factor: float = 1.0
    max_acceleration: float = 0.0
    max_norm: float = 0.0
    mode: str = MODES[0]


@dataclass(frozen=True, eq=False)
class Measured:
    """Measurements at one time.

    Attributes:
        t: Time [s].
        sigma_min: Smallest singular value of the task's Jacobian.
        damping: λ, the square root of the damping.
        speeds: Joint speeds (n,), relative to the speed limit, or in rad/s or m/s without one.
        position_error: Distance of the farthest end effector from its target [m].
        rotation_error: Largest angle between an end effector and its target [rad].
        status: Status of the last step, as text.
    """

    t: float
    sigma_min: float
    damping: float
    speeds: Array
    position_error: float
    rotation_error: float
    status: str


class Simulation:
    """A robot that follows targets of its end effectors, and of a floating base, in real time."""

    def __init__(self, robot: sp.Robot, q: ArrayLike | None = None, **settings: Any) -> None:
        """Place the robot at a configuration, with its targets at the end effectors.

        Args:
            robot: The robot.
            q: Initial configuration (n,) [rad or m]; by default that of `comfortable`.
            settings: Fields of `Settings`.
        """
        self.robot, self.frames = robot, followed_frames(robot)
        self._lock = threading.RLock()
        self._q = comfortable(robot) if q is None else np.array(q, dtype=np.float64)
        self._ghost_q = self._q.copy()
        self._targets = self.tip_poses(self._q)
        self._homes = self._targets.copy()
        self._t, self._left, self._moving_since = 0.0, 0.0, math.nan
        reached = self.tip_poses(robot.random(64, seed=0))[..., :3, 3]
        self._size = float(np.ptp(reached)) / 2
        self._is_flat = bool(np.ptp(reached[..., 2]) < 1e-9)
        self.settings = Settings(**settings)
        self.history: deque[Measured] = deque()
        self._recording: Recording | None = None
        self._is_recording = False
        self._replay: Replay | None = None
        self.shows_ghost = False
        self._make()

    # ---- state -----------------------------------------------------------------------------------

    @property
    def q(self) -> Array:
        """The configuration (n,) [rad or m]."""
        with self._lock:
            return self._q.copy()

    @property
    def ghost_q(self) -> Array:
        """The configuration (n,) of the ghost, a second robot moved by the pseudoinverse."""
        with self._lock:
            return self._ghost_q.copy()

    @property
    def targets(self) -> Array:
        """The targets (tips, 4, 4) [m]."""
        with self._lock:
            return self._targets.copy()

    def tip_poses(self, q: ArrayLike) -> Array:
        """Return the poses of all frames with targets (..., tips, 4, 4)."""
        return np.asarray(self.robot.fk(q, self.frames), dtype=np.float64)

    @property
    def linearization(self) -> sp.Linearization:
        """The linearization of the tasks at the current configuration; e is zero."""
        with self._lock:
            return sp.linearize(self.robot, self._tasks, self._q)

    # ---- commands --------------------------------------------------------------------------------

    def change(self, **settings: Any) -> None:
        """Change settings; after an error, the previous ones remain.

        Raises:
            SuppleError: A value is out of range, or a name is unknown.
        """
        with self._lock:
            before = self.settings
            try:
                self.settings = replace(before, **settings)
                self._make()
            except BaseException:
                self.settings = before
                self._make()
                raise

    def set_target(self, tip: int, pose: ArrayLike) -> None:
        """Move the target of one end effector; the robot follows.

        Raises:
            InputError: The pose is not finite.
        """
        T = sp.poses.orthonormalize(np.asarray(pose, dtype=np.float64))
        if not np.isfinite(T).all():
            raise InputError(f"a target must be finite; given: {pose!r}")
        with self._lock:
            self._replay = None
            self._targets[tip] = T

    def go_to(self, q: ArrayLike) -> None:
        """Move the robot and its targets to a configuration (n,), clipped to the joint limits."""
        placed = inside_limits(self.robot, np.asarray(q, dtype=np.float64))
        with self._lock:
            self._replay = None
            self._q, self._ghost_q = placed, placed.copy()
            self._targets = self.tip_poses(placed)
            self._homes = self._targets.copy()
            self._servo.reset()
            self._ghost.reset()

    def set_joint(self, j: int, value: float) -> None:
        """Move one coordinate; the targets move with the end effectors.

        Args:
            j: Index of a velocity. The three velocities of a quaternion stand for its rotation
                vector.
            value: Value of the coordinate [m or rad].
        """
        with self._lock:
            x = coordinates(self.robot, self._q)
        x[j] = value
        self.go_to(from_coordinates(self.robot, x))

    def show_ghost(self, on: bool) -> None:
        """Show or hide the ghost; it starts at the robot's configuration."""
        with self._lock:
            self._restart_ghost()
            self.shows_ghost = on

    def move_targets(self, on: bool) -> None:
        """Start or stop the motion of the targets around their current positions."""
        with self._lock:
            self._homes = self._targets.copy()
            self._moving_since = self._t if on else math.nan

    @property
    def moves_targets(self) -> bool:
        """Whether the targets move by themselves."""
        return not math.isnan(self._moving_since)

    def solutions(self, most: int = 8) -> sp.Solutions:
        """Return the configurations that meet the current targets, the nearest first.

        If there are finitely many solutions and all are known, all are returned, otherwise up to
        `most`.
        """
        goals, q0 = self._goals(self.targets), self.q
        solver = sp.Solver(self.robot, self._tasks)
        found = solver.all(goals, q0)
        if not found.complete or found.sampled.any():
            found = solver.several(goals, most, q0)
        return found[found.success]

    def plan_path(self, targets: Sequence[Array]) -> sp.paths.PlannedPath:
        """Return a path along straight lines through targets, each (tips, 4, 4) [m].

        Raises:
            InputError: There are fewer than two targets.
        """
        if len(targets) < 2:
            raise InputError(f"a path needs at least two targets; given: {len(targets)}")
        path = []
        for each in np.moveaxis(np.array(targets), 1, 0):  # the targets of one end effector
            parts = [sp.poses.interpolate(a, b, _SHARES) for a, b in pairwise(each)]
            T = np.concatenate([each[:1], *parts])
            path.append(T[:, :3, 3] if self._positions else T)
        return sp.plan_path(self.robot, path, tasks=self._tasks)

    # ---- recording -------------------------------------------------------------------------------

    @property
    def recording(self) -> bool:
        """Whether steps are being recorded."""
        return self._is_recording

    @property
    def recorded_steps(self) -> int:
        """Number of recorded steps."""
        return 0 if self._recording is None else len(self._recording)

    def record(self, on: bool) -> None:
        """Start a new recording, or stop the current one."""
        with self._lock:
            if on:
                self._replay = None
                self._recording = Recording(self.robot, self._rows, DT, self._q)
            self._is_recording = on

    def trajectory(self) -> sp.Trajectory | None:
        """Return the recorded motion; None if there is none."""
        recording = self._recording
        return None if recording is None else recording.trajectory()

    def replay(self) -> bool:
        """Play the recording from its start; return False if there is none."""
        motion = self.trajectory()
        if motion is not None:
            self.play(motion.q)
        return motion is not None

    def play(self, q: Array) -> None:
        """Move the robot through configurations (K, n), one for each step."""
        with self._lock:
            self._is_recording = False
            self._moving_since = math.nan
            self._replay = Replay(np.asarray(q), self._t, DT)

    def move_along(self, q: Array) -> None:
        """Move the joints straight to the first configuration of q (K, n), then play the rest."""
        self.play(np.concatenate([straight_motion(self.robot, self.q, q[0], DT), q[1:]]))

    @property
    def replaying(self) -> bool:
        """Whether a recording or another motion is being played."""
        return self._replay is not None

    # ---- time ------------------------------------------------------------------------------------

    def advance(self, seconds: float) -> Measured:
        """Simulate some time, at most 0.1 s, and return measurements at its end."""
        with self._lock:
            self._left += min(max(seconds, 0.0), _CATCH_UP * DT)
            while self._left >= DT:
                self._left -= DT
                self._t += DT
                self._step()
            made = self._measure()
            self.history.append(made)
            while self.history and self.history[0].t < made.t - _HISTORY_TIME:
                self.history.popleft()
            return made

    def _step(self) -> None:
        if self._replay is not None:
            self._q, ended = self._replay.at(self._t)
            if ended:
                self.go_to(self._q)
            return
        if self.moves_targets:
            self._targets[:, :3, 3] = self._wandering(self._t - self._moving_since)
        goals = self._goals(self._targets)
        self._q = self._servo(self._q, target=goals)
        if self.shows_ghost:
            self._ghost_q = self._ghost(self._ghost_q, target=goals)
            away = np.abs(self.robot.difference(self._ghost_q, self._q))
            if not (away < _MAX_GHOST_DISTANCE).all():
                self._restart_ghost()
        if self._is_recording and self._recording is not None:
            self._recording.add(self._servo, self._q, self._targets)
            self._is_recording = not self._recording.full

    def _restart_ghost(self) -> None:
        """Place the ghost at the robot's configuration, at rest."""
        self._ghost_q = self._q.copy()
        self._ghost.reset()

    def _measure(self) -> Measured:
        still = self._replay is not None or self._t == 0
        speeds = np.zeros(self.robot.dof) if still else np.array(self._servo.qd)
        fastest = self.robot.max_speed
        away = self.tip_poses(self._q)
        turn = away[:, :3, :3].swapaxes(-1, -2) @ self._targets[:, :3, :3]
        cosine = np.clip((np.trace(turn, axis1=1, axis2=2) - 1) / 2, -1, 1)
        distance = np.linalg.norm(away[:, :3, 3] - self._targets[:, :3, 3], axis=1)
        return Measured(
            t=self._t,
            sigma_min=sp.linearize(self.robot, self._tasks, self._q).sigma_min,
            damping=0.0 if still else math.sqrt(max(self._servo.lambda2, 0.0)),
            speeds=np.where(np.isfinite(fastest), speeds / fastest, speeds),
            position_error=float(distance.max()),
            rotation_error=0.0 if self._positions else float(np.arccos(cosine).max()),
            status="replay" if self._replay is not None else self._status(),
        )

    def _status(self) -> str:
        """Return the status of the last step, with the joints at a limit."""
        names = [self.robot.joint_names[j] for j in np.flatnonzero(self._servo.active)]
        words = str(self._servo.status)
        return f"{words} ({', '.join(names)})" if names else words

    # ---- controllers and targets -----------------------------------------------------------------

    @property
    def _positions(self) -> bool:
        return self.settings.task == "position"

    def _make(self) -> None:
        """Build the controllers of the robot and the ghost; the joints keep their speeds."""
        given, robot = self.settings, self.robot
        self._rows = rows = controlled_rows(robot, self._positions)
        self._tasks = tuple(
            sp.PositionTask(frame, rows=rows) if self._positions else sp.PoseTask(frame, rows=rows)
            for frame in self.frames
        )
        step = method(given.method, robot, dt=DT, frames=self.frames, rows=rows, **given.parameters)
        limits = sp.Limits.none(robot)
        if given.limited:
            limits = sp.Limits.for_robot(
                robot,
                speed_factor=given.speed_factor,
                max_acceleration=given.max_acceleration or None,
                acceleration_time=ACCELERATION_TIME,
                max_norm=given.max_norm or math.inf,
                mode=given.mode,  # type: ignore[arg-type]
            )
        servo = sp.Servo(robot, self._tasks, dt=DT, step=step, limits=limits, gain=given.gain)
        before = getattr(self, "_servo", None)
        if before is not None:
            servo.reset(before.qd)
        ghost = sp.Servo(
            robot,
            self._tasks,
            dt=DT,
            step=sp.steps.Pseudoinverse(),
            limits=sp.Limits.none(robot),
            gain=given.gain,
        )
        self._servo, self._ghost = servo, ghost
        self._is_recording = False  # because all steps of a recording have the same rows

    def _goals(self, targets: Array) -> Any:
        return [T[:3, 3] if self._positions else T for T in targets]

    def _wandering(self, t: float) -> Array:
        """Return the positions (tips, 3) of moving targets at a time t [s]."""
        count = len(self._homes)
        phase = 2 * math.pi * np.arange(count)[:, None] / max(count, 1)
        rates = np.array([0.9, 0.7, 0.5]) + 0.13 * np.arange(count)[:, None]
        swing = np.sin(rates * t + phase) - np.sin(phase)
        flat = np.array([1.0, 1.0, 0.0 if self._is_flat else 0.7])
        return np.asarray(self._homes[:, :3, 3] + 0.45 * self._size * swing * flat)
