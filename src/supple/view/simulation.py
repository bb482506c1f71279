"""The moving robot behind the viewer: targets in, configurations and measurements out.

Nothing here draws. Calls from several threads are safe.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray

import supple as sp
from supple.errors import InputError
from supple.motion.status_array import StatusArray
from supple.view.methods import DEFAULT, method

Array = NDArray[np.float64]

MODES: tuple[str, ...] = get_args(get_type_hints(sp.Limits)["mode"])
ROWS = ("x", "y", "z", "rx", "ry", "rz")
_NO_MOTION = 1e-9  # times the largest entry of a Jacobian: rounding
DT = 0.004  # length of a step [s]
_CATCH_UP = 25  # steps at most in one call: after a pause the robot goes on, it does not jump
_KEPT = 10.0  # measurements of these last seconds are kept [s]
_MAX_RECORDED = 150_000  # steps: ten minutes
GHOST_SPEED = 50.0  # of the pseudoinverse, times the limit: beyond it the ghost restarts


@dataclass(frozen=True)
class Settings:
    """How the robot follows its targets.

    Attributes:
        method: Damping rule or step, one of `methods.method_names`.
        parameters: Its parameters; those that are left out suit the robot.
        task: "pose", or "position" to leave rotations free.
        gain: Gain of the error [1/s].
        limited: Whether the limits of the joints act.
        speed_factor: Fraction of the speed limits, above 0 and at most 1.
        max_acceleration: Acceleration limit of every joint [rad/s² or m/s²]; 0 for none.
        max_norm: Bound on the norm of all joint speeds; 0 for none.
        mode: How limits act, one of `MODES`.
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
    """What the robot does at one time.

    Attributes:
        t: Time [s].
        sigma_min: Smallest singular value of the task's Jacobian.
        damping: λ, the square root of the damping.
        speeds: Speeds of all joints, relative to their limits or in rad/s and m/s without (n,).
        position_error: Distance of the farthest end effector from its target [m].
        rotation_error: Largest angle between an end effector and its target [rad].
        status: What acts on the motion, in words.
    """

    t: float
    sigma_min: float
    damping: float
    speeds: Array
    position_error: float
    rotation_error: float
    status: str


@dataclass(frozen=True, eq=False)
class _Sample:
    """A recorded step."""

    q: Array
    qd: Array
    lambda2: float
    J: Array
    e: Array
    active: NDArray[np.int8]
    status: int
    target: Array


class Simulation:
    """A robot that follows one target for each end effector in real time."""

    def __init__(self, robot: sp.Robot, q: ArrayLike | None = None, **settings: Any) -> None:
        """Place a robot.

        Args:
            robot: The robot.
            q: Initial configuration (n,); a comfortable one by default.
            settings: Fields of `Settings`.
        """
        self.robot = robot
        self._lock = threading.RLock()
        self._q = comfortable(robot) if q is None else np.array(q, dtype=np.float64)
        self._ghost_q = self._q.copy()
        self._targets = self.tip_poses(self._q)
        self._homes = self._targets.copy()
        self._t, self._left, self._moving_since = 0.0, 0.0, math.nan
        self._size = float(np.ptp(self.tip_poses(robot.random(64, seed=0))[..., :3, 3])) / 2
        self.settings = Settings(**settings)
        self.history: deque[Measured] = deque()
        self._recorded: list[_Sample] | None = None
        self._replay: tuple[Array, float] | None = None
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
        """The configuration (n,) of the robot that the pseudoinverse moves."""
        with self._lock:
            return self._ghost_q.copy()

    @property
    def targets(self) -> Array:
        """The targets (tips, 4, 4) [m]."""
        with self._lock:
            return self._targets.copy()

    def tip_poses(self, q: ArrayLike) -> Array:
        """Return the poses of all end effectors (..., tips, 4, 4)."""
        return np.asarray(self.robot.fk(q, tuple(self.robot.tips)), dtype=np.float64)

    @property
    def linearization(self) -> sp.Linearization:
        """J (m, n) of the tasks at the present configuration."""
        with self._lock:
            return sp.linearize(self.robot, self._tasks, self._q)

    # ---- commands --------------------------------------------------------------------------------

    def change(self, **settings: Any) -> None:
        """Change settings; on an error nothing changes.

        Raises:
            SuppleError: A value that is out of range, or an unknown name.
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
            InputError: A pose that is not finite.
        """
        T = sp.poses.orthonormalize(np.asarray(pose, dtype=np.float64))
        if not np.isfinite(T).all():
            raise InputError(f"a target must be finite; given: {pose!r}")
        with self._lock:
            self._replay = None
            self._targets[tip] = T

    def go_to(self, q: ArrayLike) -> None:
        """Place the robot, and its targets, at a configuration (n,), inside the limits."""
        placed = np.clip(np.asarray(q, dtype=np.float64), self.robot.lower, self.robot.upper)
        with self._lock:
            self._replay = None
            self._q, self._ghost_q = placed, placed.copy()
            self._targets = self.tip_poses(placed)
            self._homes = self._targets.copy()
            self._servo.reset()
            self._ghost.reset()

    def set_joint(self, j: int, value: float) -> None:
        """Move one joint; the targets stay with the end effectors."""
        with self._lock:
            q = self._q.copy()
        q[j] = value
        self.go_to(q)

    def show_ghost(self, on: bool) -> None:
        """Start or stop the robot that the pseudoinverse moves, from where the other one is."""
        with self._lock:
            self._ghost_q = self._q.copy()
            self._ghost.reset()
            self.shows_ghost = on

    def move_targets(self, on: bool) -> None:
        """Let the targets wander around where they are, partly out of reach; or stop them."""
        with self._lock:
            self._homes = self._targets.copy()
            self._moving_since = self._t if on else math.nan

    @property
    def moves_targets(self) -> bool:
        """Whether the targets move by themselves."""
        return not math.isnan(self._moving_since)

    def solutions(self, most: int = 8) -> Array:
        """Return configurations (k, n) that meet the present targets; none if there are none."""
        goals: Any = self._goals(self.targets)
        found = sp.solve(self.robot, goals, tasks=self._tasks, q0=self.q, solutions=most)
        return np.asarray(found.q[found.success])

    # ---- recording -------------------------------------------------------------------------------

    @property
    def recording(self) -> bool:
        """Whether steps are recorded."""
        return self._recorded is not None and self._recording

    @property
    def recorded_steps(self) -> int:
        """Number of recorded steps."""
        return len(self._recorded or ())

    _recording = False

    def record(self, on: bool) -> None:
        """Start a new recording, or stop it."""
        with self._lock:
            if on:
                self._recorded = []
                self._first_q = self._q.copy()
            self._recording = on

    def trajectory(self) -> sp.Trajectory | None:
        """Return what was recorded, None if nothing was."""
        with self._lock:
            samples, first = list(self._recorded or ()), getattr(self, "_first_q", None)
        if not samples or first is None:
            return None
        J = np.array([each.J for each in samples])
        qd = np.array([each.qd for each in samples])
        q = np.array([first, *(each.q for each in samples)])
        status = np.array([each.status for each in samples], dtype=np.int16)
        return sp.Trajectory(
            t=np.asarray(DT * np.arange(len(samples) + 1), dtype=np.float64),
            q=q,
            qd=qd,
            lambda2=np.array([each.lambda2 for each in samples]),
            sigma_min=np.linalg.svd(J, compute_uv=False)[:, -1],
            command=np.array([each.e for each in samples]),
            velocity=np.einsum("kmn,kn->km", J, qd),
            error=self._errors(q[1:], np.array([each.target for each in samples])),
            active=np.array([each.active for each in samples]),
            status=StatusArray.of(sp.StepStatus, status),
            rows=self._servo.linearization.rows,
            robot=self.robot,
        )

    def replay(self) -> bool:
        """Play the recording from its start; False if there is none."""
        motion = self.trajectory()
        if motion is None:
            return False
        with self._lock:
            self._recording = False
            self._replay = (motion.q, self._t)
        return True

    @property
    def replaying(self) -> bool:
        """Whether a recording is played."""
        return self._replay is not None

    # ---- time ------------------------------------------------------------------------------------

    def advance(self, seconds: float) -> Measured:
        """Let time pass, at most a tenth of a second at once, and measure."""
        with self._lock:
            self._left += min(max(seconds, 0.0), _CATCH_UP * DT)
            while self._left >= DT:
                self._left -= DT
                self._t += DT
                self._step()
            made = self._measure()
            self.history.append(made)
            while self.history and self.history[0].t < made.t - _KEPT:
                self.history.popleft()
            return made

    def _step(self) -> None:
        if self._replay is not None:
            path, since = self._replay
            k = round((self._t - since) / DT)
            self._q = path[min(k, len(path) - 1)].copy()
            if k >= len(path):
                self.go_to(self._q)
            return
        if self.moves_targets:
            self._targets[:, :3, 3] = self._wandering(self._t - self._moving_since)
        goals = self._goals(self._targets)
        self._q = self._servo(self._q, target=goals)
        if self.shows_ghost:
            self._ghost_q = self._ghost(self._ghost_q, target=goals)
            if not np.isfinite(self._ghost_q).all():
                self._ghost_q = self._q.copy()
        if self._recording and self._recorded is not None:
            self._keep()

    def _keep(self) -> None:
        lin, recorded = self._servo.linearization, self._recorded
        assert recorded is not None
        recorded.append(
            _Sample(
                q=self._q.copy(),
                qd=np.array(self._servo.qd),
                lambda2=self._servo.lambda2,
                J=np.array(lin.J),
                e=np.array(lin.e),
                active=self._servo.active,
                status=int(self._servo.status),
                target=self._targets.copy(),
            )
        )
        self._recording = len(recorded) < _MAX_RECORDED

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
            status="replay" if self._replay is not None else str(self._servo.status),
        )

    # ---- parts -----------------------------------------------------------------------------------

    @property
    def _positions(self) -> bool:
        return self.settings.task == "position"

    def _make(self) -> None:
        """Build both controllers; the joints keep their speeds."""
        given, robot = self.settings, self.robot
        task = sp.PositionTask if self._positions else sp.PoseTask
        rows = controlled_rows(robot, self._positions)
        self._tasks = tuple(task(tip, rows=rows) for tip in robot.tips)
        step = method(given.method, robot, dt=DT, frames=robot.tips, rows=rows, **given.parameters)
        limits = sp.Limits.none(robot)
        if given.limited:
            limits = sp.Limits.for_robot(
                robot,
                speed_factor=given.speed_factor,
                max_acceleration=given.max_acceleration or math.inf,
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
        self._recording = False  # rows may have changed

    def _goals(self, targets: Array) -> Any:
        return [T[:3, 3] if self._positions else T for T in targets]

    def _errors(self, q: Array, targets: Array) -> Array:
        """Return the errors of all rows (K, m) to targets (K, tips, 4, 4)."""
        at, parts = self.tip_poses(q), []
        picked = [ROWS.index(row) for row in controlled_rows(self.robot, self._positions)]
        for k in range(len(self.robot.tips)):
            moved = targets[:, k, :3, 3] - at[:, k, :3, 3]
            turned = targets[:, k, :3, :3] @ at[:, k, :3, :3].swapaxes(-1, -2)
            both = np.concatenate([moved, sp.poses.rotation_vector(turned)], axis=1)
            parts.append(both[:, picked])
        return np.concatenate(parts, axis=1)

    def _wandering(self, t: float) -> Array:
        """Return positions (tips, 3) of targets that wander, each in its own rhythm."""
        count = len(self._homes)
        phase = 2 * math.pi * np.arange(count)[:, None] / max(count, 1)
        rates = np.array([0.9, 0.7, 0.5]) + 0.13 * np.arange(count)[:, None]
        swing = np.sin(rates * t + phase) - np.sin(phase)
        flat = np.array([1.0, 1.0, 0.0 if self._is_flat() else 0.7])
        return np.asarray(self._homes[:, :3, 3] + 0.45 * self._size * swing * flat)

    def _is_flat(self) -> bool:
        heights = self.tip_poses(self.robot.random(16, seed=1))[..., 2, 3]
        return bool(np.ptp(heights) < 1e-9)


def controlled_rows(robot: sp.Robot, positions: bool) -> tuple[str, ...]:
    """Return the rows that the end effectors can move in at all: x, y and rz of a planar arm."""
    J = np.abs(robot.jacobian(robot.random(32, seed=0), tuple(robot.tips)))
    moves = J.max(axis=(0, 1, 3)) > _NO_MOTION * J.max()
    return tuple(row for row, can in zip(ROWS[: 3 if positions else 6], moves, strict=False) if can)


def comfortable(robot: sp.Robot) -> Array:
    """Return a configuration (n,) away from limits and singularities, for a first view.

    Among random ones near the middle of the ranges, the one of the largest manipulability.
    """
    low = np.where(np.isfinite(robot.lower), robot.lower, -math.pi / 2)
    high = np.where(np.isfinite(robot.upper), robot.upper, math.pi / 2)
    low, high = np.maximum(low, -math.pi), np.minimum(high, math.pi)
    low, high = np.minimum(low, robot.upper), np.maximum(high, robot.lower)
    share = np.random.default_rng(0).uniform(0.25, 0.75, (400, robot.dof))
    q = low + share * (high - low)
    tips: Sequence[str] = tuple(robot.tips)
    sigma = robot.singular_values(q, tips)
    rank = max(int((sigma.max(axis=0) > 1e-9 * sigma.max()).sum()), 1)
    heights = robot.fk(q, tips)[..., 2, 3].min(axis=1) - robot.base[2, 3]
    above = heights >= (0.0 if (heights >= 0).any() else heights.min())
    return np.asarray(q[np.argmax(np.where(above, sigma[:, rank - 1], -1.0))])
