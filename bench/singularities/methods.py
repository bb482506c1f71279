"""The methods of the benchmark.

A method takes a robot and a time step dt [s] and returns a function of (q, twist, pose): the joint
angles (n,), the twist (6,) [m/s, rad/s] in world axes that leads from the current pose to the next
one, and the pose (4, 4). The function returns the joint angles dt later; a `supple.Servo` is one.
To add a method, add a line to `METHODS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

import supple as sp

from .conditions import Command
from .passages import Passage
from .singular import Array, difference

Move = Callable[[Array, Array, Array], Array]
Mode = Literal["exact", "scale", "path"]
GAIN = 10.0  # gain of the pose error [1/s]


@dataclass(frozen=True)
class Method:
    """A method that follows poses.

    Attributes:
        name: Name in tables.
        make: Function of (robot, dt) that returns a function from (q, twist, pose) to the next q.
        about: Description in one line.
        ours: Whether supple's limits apply; the benchmark then checks that they hold.
        robots: Names of the robots that the method applies to; empty for all robots.
        position: Like `make`, for passages of positions alone; None if the method needs poses.
        whole: Function from a passage to joint angles (K + 1, n), for a method that knows the whole
            path in advance; None for other methods.
    """

    name: str
    make: Callable[[sp.Robot, float], Move]
    about: str
    ours: bool = True
    robots: tuple[str, ...] = ()
    position: Callable[[sp.Robot, float], Move] | None = None
    whole: Callable[[Passage], Array] | None = None

    def runs_on(self, robot: sp.Robot) -> bool:
        """Return whether the method applies to a robot."""
        return not self.robots or robot.name in self.robots


def run(method: Method, passage: Passage, command: Command | None = None) -> Array:
    """Return the joint angles (K + 1, n) of a method; after a NaN, all later angles are NaN.

    With a disturbed command, the displacement that the method adds to the measured angles is
    applied to the true angles.
    """
    if method.whole is not None and command is None:
        return method.whole(passage)
    make = method.position or method.make if passage.rows == 3 else method.make
    move = make(passage.robot, passage.dt)
    q = np.full((len(passage.t), passage.robot.dof), np.nan)
    q[0] = passage.q0
    for k, twist in enumerate(passage.twists):
        if command is None:
            q[k + 1] = move(q[k], twist, passage.poses[k])
        else:
            seen = q[max(k - command.delay, 0)] + command.noise[k]
            q[k + 1] = q[k] + (move(seen, command.twists[k], command.poses[k]) - seen)
        if not np.isfinite(q[k + 1]).all():
            break
    return q


GENTLE = 20.0  # acceleration limit [rad/s²]
RISE = 0.0525  # time in which the fastest joint reaches its speed limit [s]
SELECTIVE = GAIN * np.pi / 4  # [rad/s], the paper's 45° per displacement e/GAIN

# ---- supple ------------------------------------------------------------------------------------


def own_limits(robot: sp.Robot, mode: Mode = "exact") -> sp.Limits:
    """Return the robot's limits, with the acceleration limit of its fastest joint for all joints.

    These acceleration limits are about three times the default limits of a Servo, so that methods
    with acceleration limits can be compared with methods without.
    """
    moves = np.abs(robot.jacobian(robot.random(5, seed=0))).reshape(-1, robot.dof).max(axis=0) > 0
    fastest = np.full(robot.dof, np.inf)
    for group in (moves, ~moves):  # wheels do not set the acceleration of an arm
        for unit in (robot.prismatic, ~robot.prismatic):
            known = robot.max_speed[group & unit & np.isfinite(robot.max_speed)]
            fastest[group & unit] = known.max(initial=0) or np.inf
    return sp.Limits.for_robot(robot, max_acceleration=fastest / RISE, mode=mode)


def default(robot: sp.Robot, dt: float) -> Move:
    """Return a Servo with the default step and gain."""
    return sp.Servo(robot, dt=dt, limits=own_limits(robot))


def scaled(robot: sp.Robot, dt: float) -> Move:
    """Return a Servo that slows down all joints by one factor where a limit acts."""
    return sp.Servo(robot, dt=dt, limits=own_limits(robot, "scale"))


def on_path(passage: Passage) -> Array:
    """Return the motion of `simulate` in mode "path", followed by rest until the passage ends."""
    robot, dt = passage.robot, passage.dt
    limits = own_limits(robot, "path")
    motion = sp.simulate(
        robot, passage.q0, target=passage.poses, dt=dt, limits=limits, tolerance=1e-3
    )
    q = motion.q[: len(passage.t)]
    return np.concatenate([q, np.repeat(q[-1:], len(passage.t) - len(q), axis=0)])


def bounded(robot: sp.Robot, dt: float) -> Move:
    """Return a Servo whose norm of joint speeds is at most the smallest speed limit."""
    limits = sp.Limits.for_robot(robot, max_norm=float(robot.max_speed.min()))
    return sp.Servo(robot, dt=dt, limits=limits)


def gentle(robot: sp.Robot, dt: float) -> Move:
    """Return a Servo with a bound on each joint's acceleration."""
    return sp.Servo(robot, dt=dt, limits=sp.Limits.for_robot(robot, max_acceleration=GENTLE))


def stepped(step: sp.steps.Step, robot: sp.Robot, dt: float) -> Move:
    """Return a Servo with the given step and the robot's position and speed limits."""
    return sp.Servo(robot, dt=dt, step=step, limits=sp.Limits.for_robot(robot), gain=GAIN)


def ruled(rule: type, robot: sp.Robot, dt: float) -> Move:
    """Return a Servo with damped least squares and a damping rule made by its `for_robot`."""
    timed = {"dt": dt} if rule is sp.damping.Curvature else {}
    return stepped(sp.DLS(rule.for_robot(robot, **timed)), robot, dt)


def weighted(robot: sp.Robot, dt: float) -> Move:
    """Return a Servo with `Curvature`, in which each joint's weight is 1/(its speed limit)²."""
    rule = sp.damping.Curvature.for_robot(robot, dt=dt)
    weight = (robot.max_speed.min() / robot.max_speed) ** 2
    return stepped(sp.steps.WeightedDLS(rule, joint_weight=weight), robot, dt)


def wristed(robot: sp.Robot, dt: float) -> Move:
    """Return a Servo that solves for the first three joints and the spherical wrist separately."""
    return stepped(sp.steps.SphericalWrist.for_robot(robot), robot, dt)


def filtered(robot: sp.Robot, dt: float, *, printed: bool = False) -> Move:
    """Return a Servo with numerical filtering and the largest gain of `SpeedBound`."""
    gain = sp.damping.SpeedBound.for_robot(robot).max_gain
    return stepped(sp.steps.NumericalFilter(gain, printed=printed), robot, dt)


def avoiding(robot: sp.Robot, dt: float) -> Move:
    """Return a Servo with `Curvature` and self-motion away from singularities."""
    rule = sp.damping.Curvature.for_robot(robot, dt=dt)
    step = sp.redundancy.NullSpace(sp.DLS(rule), sp.criteria.Manipulability(robot))
    return sp.Servo(robot, dt=dt, step=step, limits=own_limits(robot))


def at_positions(robot: sp.Robot, dt: float, *, mode: Mode = "exact") -> Move:
    """Return a Servo that controls only the position, for arms with few joints."""
    servo = sp.Servo(robot, sp.PositionTask(), dt=dt, limits=own_limits(robot, mode))
    return lambda q, twist, pose: servo(q, twist[:3], pose[:3, 3])


# ---- plain loops, as users often write them ------------------------------------------------------


def asked(robot: sp.Robot, q: Array, twist: Array, pose: Array) -> Array:
    """Return the commanded velocity (6,):  twist + GAIN (pose - current pose)."""
    return np.asarray(twist + GAIN * difference(robot.fk(q), pose))


def plain(robot: sp.Robot, dt: float, *, clip: bool = False) -> Move:
    """Return a loop of q̇ = pinv(J) e, without limits or with each speed clipped to its limit."""

    def move(q: Array, twist: Array, pose: Array) -> Array:
        qd = np.linalg.pinv(robot.jacobian(q)) @ asked(robot, q, twist, pose)
        if clip:
            qd = np.clip(qd, -robot.max_speed, robot.max_speed)
        return np.asarray(q + dt * qd)

    return move


SLOWS, HALTS = 17.0, 30.0  # condition numbers at which `halting` begins to slow down, and halts
LEAVING = 2.0  # factor on HALTS for motion away from the singularity
PROBE = 0.01  # step along u that shows on which side the singularity is


def halting(robot: sp.Robot, dt: float) -> Move:
    """Return a loop that slows down and halts before a singularity, as documented for MoveIt Servo.

    The speed is multiplied by a factor that is 1 for condition numbers up to 17, 0 from 30 on, and
    linear in between. If the command leads away from the singularity, the upper threshold is
    doubled; a small step along the singular direction shows which direction leads away. All speeds
    are scaled by one factor to satisfy the limits; at 0.1 rad before a position limit all joints
    stop. This is our implementation of the documented behavior, not MoveIt's code.
    """

    def condition(q: Array) -> float:
        sigma = robot.singular_values(q, threads=1)
        return float(sigma[0] / max(sigma[-1], 1e-300))

    def move(q: Array, twist: Array, pose: Array) -> Array:
        e = asked(robot, q, twist, pose)
        J = robot.jacobian(q)
        inverse, u = np.linalg.pinv(J), np.linalg.svd(J)[0][:, -1]
        now = condition(q)
        toward = u if condition(q + inverse @ (PROBE * u)) > now else -u
        upper = HALTS if toward @ e > 0 else SLOWS + LEAVING * (HALTS - SLOWS)
        qd = inverse @ e * np.clip((upper - now) / (upper - SLOWS), 0.0, 1.0)
        qd = qd / max(1.0, float((np.abs(qd) / robot.max_speed).max()))
        margin = np.where(qd > 0, robot.upper - q, q - robot.lower)
        if ((margin < 0.1) & (qd != 0)).any():
            return q
        return np.asarray(q + dt * qd)

    return move


SEVEN = ("panda", "iiwa14")  # robots with seven joints
METHODS = (
    Method(
        "Servo",
        default,
        "the default step and gain, with speed and acceleration limits",
        position=at_positions,
    ),
    Method(
        "Servo, bounded",
        bounded,
        "the default step, with the norm of all speeds bounded by the smallest speed limit",
    ),
    Method(
        "Servo, gentle", gentle, f"the default step, with accelerations up to {GENTLE:g} rad/s²"
    ),
    Method(
        "Servo, scale",
        scaled,
        "the default step, with limits that slow down all joints by one factor",
        position=partial(at_positions, mode="scale"),
    ),
    Method(
        "simulate, path",
        scaled,
        'the whole path is known; in mode "path", the tool stays on it and rests at its end',
        whole=on_path,
    ),
    Method(
        "Servo, avoiding",
        avoiding,
        "damping by Curvature, and self-motion to higher manipulability",
        robots=SEVEN,
    ),
    *(
        Method(f"DLS {rule.__name__}", partial(ruled, rule), f"damping.{rule.__name__}.for_robot")
        for rule in sp.damping.RULES
    ),
    Method("WeightedDLS", weighted, "Curvature, with joints weighted by their limits of speed"),
    Method(
        "SphericalWrist",
        wristed,
        "the first three joints and the wrist are solved separately",
        robots=("puma560", "iiwa14"),
    ),
    Method(
        "NumericalFilter",
        filtered,
        "the default gain α of the filter, which depends on the commanded direction",
    ),
    Method(
        "NumericalFilter, printed",
        partial(filtered, printed=True),
        "the filter with the gain α of the paper",
    ),
    Method(
        "SDLS", partial(stepped, sp.steps.SDLS(SELECTIVE)), "selective damping, as in the paper"
    ),
    Method(
        "SDLS, soft",
        partial(stepped, sp.steps.SDLS(SELECTIVE, soft=True)),
        "selective damping, as in the program of its authors",
    ),
    Method(
        "TruncatedSVD",
        partial(stepped, sp.steps.TruncatedSVD()),
        "the pseudoinverse of the singular values above σ₁/100",
    ),
    Method(
        "Pseudoinverse",
        partial(stepped, sp.steps.Pseudoinverse()),
        "with position and speed limits",
    ),
    Method("Transpose", partial(stepped, sp.steps.Transpose()), "with position and speed limits"),
    Method("plain pinv", plain, "np.linalg.pinv(J) @ e, no limits", ours=False),
    Method(
        "plain pinv, clipped", partial(plain, clip=True), "each speed cut to its limit", ours=False
    ),
    Method("halting", halting, "slows down and halts, as MoveIt Servo documents it", ours=False),
)
