"""Random motions of control loops: no limit may be exceeded, and no number may be infinite or NaN.

    python tools/soak_servo.py [--steps 1e9] [--seed 0] [--workers N]

Robots, limits, modes, steps, tasks, time steps, commands that jump and noise of the measured joint
positions are drawn at random; in mode "path", `simulate` follows random paths. After each motion,
every step is checked with NumPy from the positions and speeds alone, without the kernel's
functions. If a check fails, the seed that repeats the motion is printed and the exit status is 1.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

import supple as sp
from supple import damping, steps
from supple.criteria import RestPosture
from supple.describe import builtin_names
from supple.errors import InputError
from supple.motion.status import StepStatus
from supple.redundancy import NullSpace, Priority

STEPS = 2000  # number of steps of one motion
LARGE, FEWER = 10, 10  # above LARGE joints: 1/FEWER of the steps, each 15 times as long
TARGETS = 100  # number of targets of a path in mode "path"
JUMP = 200  # largest number of steps between jumps of the command
DIRECTION = 1e-9  # largest relative deviation from the direction of the command in mode "scale"
MODES = ("exact",) * 7 + ("scale",) * 4 + ("halt",) * 4 + ("path",)
ROBOTS = [name for name in builtin_names() if name != "double_y16"]


def a_step(rng: np.random.Generator, robot: sp.Robot, tasks: int) -> Any:
    """Return a random step, or None for the default step."""
    choices: list[Any] = [
        None,
        None,
        None,
        sp.DLS(damping.Constant(10 ** rng.uniform(-3, 0))),
        sp.DLS(damping.Optimal(10 ** rng.uniform(-1, 1))),
        sp.DLS(damping.Manipulability(0.05, 0.1)),
        sp.DLS(damping.Curvature(0.01)),
        sp.DLS(damping.SpeedBound(3.0)),
        steps.Pseudoinverse(),
        steps.Transpose(),
        steps.SDLS(),
        steps.TruncatedSVD(0.02),
        NullSpace(sp.DLS(damping.Constant(0.1)), RestPosture(robot.neutral()), 5.0),
    ]
    if tasks > 1:
        choices.append(Priority(sp.DLS(damping.Constant(0.05))))
    return choices[rng.integers(len(choices))]


def some_limits(rng: np.random.Generator, robot: sp.Robot, mode: str, dt: float) -> sp.Limits:
    """Return random limits, some of them infinite."""
    n, inf = robot.dof, np.inf
    speed = 10 ** rng.uniform(-1, 1, n)
    acceleration = speed / 10 ** rng.uniform(-2, 0.5, n)
    jerk = acceleration / (10 ** rng.uniform(-2, 0.3, n))
    norm = float(np.linalg.norm(speed)) * 10 ** rng.uniform(-1.5, 0)
    lower = np.where(np.isfinite(robot.lower), robot.lower, -3.0)
    upper = np.where(np.isfinite(robot.upper), robot.upper, 3.0)

    def kept(most: np.ndarray) -> np.ndarray:
        """Return limits of all joints, of some of them or of none."""
        share = rng.choice([0.0, 0.0, 0.0, 0.5, 1.0])
        return np.where(rng.random(n) < share, inf, most)

    free = rng.random() < 0.1
    if mode != "path":
        speed, acceleration, jerk = kept(speed), kept(acceleration), kept(jerk)
    if free:
        lower[0], upper[0] = -inf, inf
    return sp.Limits(
        lower=lower,
        upper=upper,
        max_speed=speed,
        max_acceleration=acceleration,
        max_jerk=jerk if mode != "path" or rng.random() < 0.3 else np.full(n, inf),
        max_norm=norm if mode != "path" and rng.random() < 0.5 else inf,
        mode=mode,  # type: ignore[arg-type]
    )


def commands(rng: np.random.Generator, servo: sp.Servo, count: int) -> tuple[Any, Any]:
    """Return targets and velocities of `count` steps; both jump at random times and may be None."""
    layout, robot = servo._layout, servo.robot
    pieces = int(rng.integers(1, max(count // JUMP, 1) * 4))
    at = np.sort(rng.integers(0, count, pieces))
    kind = rng.integers(3)
    targets = velocities = None
    if kind != 0:
        q = robot.random(pieces, seed=rng)
        poses = []
        for one in q:
            tips = robot.tips
            given = [np.array(robot.fk(one, tip)) for tip in tips]
            for pose in given:
                pose[:3, 3] *= rng.choice([1.0, 1.0, 1.5, 4.0])
            poses.append(layout.targets(given))
        targets = np.array(poses)[np.searchsorted(at, np.arange(count), "right") - 1]
    if kind != 1:
        size = 10 ** rng.uniform(-2, 1.5, (pieces, 1))
        twists = rng.normal(size=(pieces, layout.velocities([np.zeros(6)] * len(robot.tips)).size))
        velocities = (size * twists)[np.searchsorted(at, np.arange(count), "right") - 1]
        if rng.random() < 0.5:
            velocities = velocities + 0.1 * rng.normal(size=velocities.shape)
    return targets, velocities


class RandomRows:
    """A constraint with new random rows in each step, some of which are degenerate."""

    def __init__(self, seed: int) -> None:
        """Prepare the rows of one motion."""
        self.rng = np.random.default_rng(seed)

    def rows(self, robot: sp.Robot, _: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return up to five rows."""
        rng, count = self.rng, int(self.rng.integers(0, 6))
        G = rng.normal(size=(count, robot.dof)) * rng.choice([0.0, 0.1, 1.0, 1.0, 10.0], (count, 1))
        if count > 1 and rng.random() < 0.3:
            G[1] = G[0] * rng.choice([-1.0, 1.0])
        return G, rng.choice([-1.0, -0.1, 0.0, 0.3, 3.0], count)


def motion(seed: int, steps: int = STEPS, *, constrained: bool = False) -> tuple[Counter[str], str]:
    """Run one random motion; return the counts of steps and of failed checks, and a description."""
    rng = np.random.default_rng(seed)
    robot = sp.load(ROBOTS[rng.integers(len(ROBOTS))])
    count = steps // FEWER if robot.dof > LARGE else steps
    mode = MODES[rng.integers(len(MODES))]
    dt = 10 ** rng.uniform(-3.3, -1.3)
    limits = some_limits(rng, robot, mode, dt)
    if mode == "path":
        return on_path(seed, rng, robot, limits, dt)
    step = a_step(rng, robot, len(robot.tips))
    rows = [RandomRows(seed)] if constrained else []
    servo = sp.Servo(robot, dt=dt, step=step, limits=limits, constraints=rows)
    targets, velocities = commands(rng, servo, count)
    noise = 10 ** rng.uniform(-6, -2) if rng.random() < 0.3 else 0.0
    added = noise * rng.normal(size=(count, robot.dof)) if noise else None
    q = np.clip(robot.random(seed=rng), limits.lower, limits.upper)
    start, end = np.empty((count, robot.dof)), np.empty((count, robot.dof))
    speed, told = np.empty((count, robot.dof)), np.zeros(count, int)
    excusable = bool(noise)  # measurements that jump toward a limit require more acceleration
    turned, before = 0, np.zeros(0)
    for k in range(count):
        if added is not None:
            q = q + added[k]
        start[k] = q
        servo._raw(
            q,
            None if velocities is None else velocities[k],
            None if targets is None else targets[k],
            None,
            end[k],
        )
        q, speed[k] = end[k], servo._qd
        if excusable or (mode == "scale" and k % 20 < 2):
            told[k] = servo._flags
        if mode == "scale" and step is None and k % 20 == 0:
            before = direction_of(servo)
        if mode == "scale" and step is None and k % 20 == 1:
            turned += misses_direction(servo, before, told[k] | told[k - 1])
    found = broken(limits, dt, start, end, speed, told, excusable)
    found["direction of the command"] = turned
    about = f"seed {seed}: {robot.name}, {mode}, {step}, dt {dt:.2g}, noise {noise:.2g}"
    return Counter({"steps": count}) + Counter({k: int(v) for k, v in found.items() if v}), about


def on_path(
    seed: int, rng: np.random.Generator, robot: sp.Robot, limits: sp.Limits, dt: float
) -> tuple[Counter[str], str]:
    """Run one random motion of `simulate` in mode "path", and return what `motion` returns.

    The path is that of a random joint motion; it may turn suddenly, and may leave the reach.
    """
    pieces = int(rng.integers(1, 4))
    q0 = np.clip(robot.random(seed=rng), limits.lower, limits.upper)
    steps = rng.uniform(-0.3, 0.3, (pieces, robot.dof))
    ends = np.vstack([q0, q0 + np.cumsum(steps, 0)])
    s = np.linspace(0, pieces, TARGETS)
    q = np.array([np.interp(s, np.arange(pieces + 1), one) for one in ends.T]).T
    away = rng.choice([0.0, 0.0, 0.0, 2.0])
    targets = []
    for k, one in enumerate(q):
        poses = [np.array(robot.fk(one, tip)) for tip in robot.tips]
        for pose in poses:
            pose[:3, 3] *= 1 + away * k / TARGETS
        targets.append(poses if len(poses) > 1 else poses[0])
    about = f"seed {seed}: {robot.name}, path, {pieces} pieces, dt {dt:.2g}"
    try:
        made = sp.simulate(robot, q0, target=targets, dt=dt, limits=limits, tolerance=1e-2)
    except InputError as error:
        if "close enough together" not in str(error):
            raise
        return Counter(), about  # the joints would have to jump between two targets
    told = np.zeros(len(made), int)
    found = broken(limits, dt, made.q[:-1], made.q[1:], made.qd, told, False, of_positions=True)
    counts = {"steps": len(made)} | {name: int(count) for name, count in found.items() if count}
    return Counter(counts), about


def direction_of(servo: sp.Servo) -> np.ndarray:
    """Return the direction of the motion of the tasks in the last step (m,); zero at rest."""
    moved = servo._J @ servo._qd
    size = np.linalg.norm(moved)
    return np.asarray(moved / size if size > 0 else moved)


def misses_direction(servo: sp.Servo, before: np.ndarray, flags: int) -> bool:
    """Return whether J q̇ is neither along the command nor, as in a stop, along the previous motion.

    The result is False if the status has the flag DIRECTION_LOST.
    """
    now, size = direction_of(servo), np.linalg.norm(servo._command)
    if flags & int(StepStatus.DIRECTION_LOST) or not now.any():
        return False
    asked = servo._command / size if size > 0 else servo._command
    return bool(min(np.linalg.norm(now - asked), np.linalg.norm(now - before)) > DIRECTION)


def broken(
    limits: sp.Limits,
    dt: float,
    start: np.ndarray,
    end: np.ndarray,
    speed: np.ndarray,
    told: np.ndarray,
    excusable: bool,
    *,
    of_positions: bool = False,
) -> dict[str, Any]:
    """Return the number of steps that fail each check, from positions and speeds alone.

    If `of_positions`, the speeds are differences of positions and have rounding errors.
    """
    before = np.vstack([np.zeros(speed.shape[1]), speed[:-1]])
    change = speed - before
    earlier = np.vstack([np.zeros(speed.shape[1]), change[:-1]])
    rounding = 16 * np.finfo(float).eps * (np.abs(speed) + np.abs(before))
    if of_positions:
        rounding += 2 * np.finfo(float).eps * (np.abs(start) + np.abs(end)) / dt
    inside = (start >= limits.lower) & (start <= limits.upper)
    outside = inside & ((end < limits.lower) | (end > limits.upper))
    moved = np.abs(end - start - dt * speed) > 1e-12 * (1 + np.abs(start))
    hard = np.abs(change) > limits.max_acceleration * dt * (1 + 1e-9) + rounding
    jerky = np.abs(change - earlier) > limits.max_jerk * dt * dt * (
        1 + 1e-6
    ) + 2 * rounding + np.roll(rounding, 1, 0)
    if excusable:  # an excess that the status reports is no failure
        exceeded = int(StepStatus.ACCELERATION_EXCEEDED | StepStatus.JERK_EXCEEDED)
        excused = ((told & exceeded) != 0)[:, None]
        hard, jerky = hard & ~excused, jerky & ~excused
    return {
        "not finite": (~np.isfinite(end) | ~np.isfinite(speed)).any(1).sum(),
        "position": outside.any(1).sum(),
        "speed": (np.abs(speed) > limits.max_speed * (1 + 1e-9)).any(1).sum(),
        "norm": (np.linalg.norm(speed, axis=1) > limits.max_norm * (1 + 1e-9)).sum(),
        "acceleration": hard.any(1).sum(),
        "jerk": jerky.any(1).sum(),
        "moves by its speed": (moved & inside & ~outside).any(1).sum() if not excusable else 0,
    }


def many(seeds: range) -> tuple[Counter[str], list[str]]:
    """Run motions with these seeds; return all counts, and the first motions that failed."""
    total: Counter[str] = Counter()
    cases = []
    for seed in seeds:
        found, about = motion(seed)
        total += found
        if len(found) > 1:
            cases.append(f"{about}: {dict(found)}")
    return total, cases[:3]


def main() -> int:
    """Run the motions, print the counts and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=np.inf, help="stop after this time")
    given = parser.parse_args()
    motions, each = int(np.ceil(given.steps / STEPS)), 20
    total: Counter[str] = Counter()
    begin = time.monotonic()
    ranges = (
        range(given.seed + k, given.seed + min(k + each, motions)) for k in range(0, motions, each)
    )
    with ProcessPoolExecutor(given.workers) as pool:
        waiting = []
        for one in ranges:
            waiting.append(pool.submit(many, one))
            while len(waiting) > 4 * given.workers:
                found, cases = waiting.pop(0).result()
                total += found
                print(*cases, sep="\n", end="\n" * bool(cases), flush=True)
            if time.monotonic() - begin > given.seconds:
                break
        for rest in waiting:
            found, cases = rest.result()
            total += found
            print(*cases, sep="\n", end="\n" * bool(cases), flush=True)
    count = total.pop("steps")
    print(f"{count} steps in {time.monotonic() - begin:.0f} s; broken: {dict(total) or 'nothing'}")
    return int(bool(total))


if __name__ == "__main__":
    sys.exit(main())
