"""Measure how closely a Servo follows passages of any robot that are drawn from a seed.

    PYTHONPATH=bench python bench/passages.py [ROBOT ...] [--seed 1] [--count 40] [--optimum]

A robot is a built-in name or the path of a URDF file. A passage is a command over time, built
around a configuration that Newton's method makes exactly singular, whatever the kind of its
singularity, or around any other configuration:

    through, miss     a straight or turning path through the singular pose, or past it
    touch, beyond     along the singular direction to the end of the reach or beyond it, and back
    dwell             along the singular direction, to rest at the singular pose
    ordinary, circle  a path or a circle around a pose far from singularities
    step, noise       a jump of the target; a path with noisy commands

Speeds are 0.04 to 0.6 m/s, periods 1 to 20 ms, and joints reach their maximum speed in 50 to 200
ms. Only paths all of whose poses are reachable are kept, except those beyond the reach. Two laws
run with the same limits: the default step, and, as the plainest law, damped least squares with
λ² = 1e-6. With --optimum, their errors are also compared with those of the best motion within
the limits, which `optimum.py` finds with the whole path known.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import supple as sp

Array = NDArray[np.float64]
PathOf = Callable[[float], Array]  # pose (4, 4) at a distance along the path
KINDS = ("through", "miss", "touch", "beyond", "dwell", "ordinary", "circle", "step", "noise")
PERIODS = (0.001, 0.002, 0.004, 0.005, 0.008, 0.01, 0.02)  # periods of control [s]
RAMP, REST = 0.3, 1.2  # time to the full speed, and at rest at the end [s]
LEAST = 0.01  # error that replaces smaller ones in a ratio [mm]
NOISE = 2e-4  # standard deviation of noisy positions [m]
LAWS = {
    "default": None,
    "plain law": sp.DLS(sp.damping.Constant(1e-6)),
}


@dataclass(frozen=True)
class Passage:
    """A command over time: poses (K + 1, 4, 4), twists (K, 6) between the poses, exact poses."""

    robot: sp.Robot
    kind: str
    dt: float
    limits: sp.Limits
    q0: Array
    poses: Array
    twists: Array
    meant: Array  # the poses without noise


def moved(pose: Array, twist: Array, distance: float) -> Array:
    """Return a pose moved along a twist (6,) in world axes, and rotated about its own origin."""
    turn = sp.pose((0, 0, 0), rotation_vector=distance * twist[3:])[:3, :3]
    made = pose.copy()
    made[:3, 3] += distance * twist[:3]
    made[:3, :3] = turn @ pose[:3, :3]
    return made


def unit(twist: Array) -> Array:
    """Return a twist scaled to the length 1, in which a radian counts as 0.3 m."""
    return np.asarray(twist / (np.linalg.norm(twist[:3]) + 0.3 * np.linalg.norm(twist[3:])))


def inner_range(robot: sp.Robot) -> tuple[Array, Array]:
    """Return position limits of at most ±π, reduced by 5 % of the range at each end."""
    lower, upper = np.maximum(robot.lower, -np.pi), np.minimum(robot.upper, np.pi)
    return lower + 0.05 * (upper - lower), upper - 0.05 * (upper - lower)


def singular(robot: sp.Robot, rng: np.random.Generator) -> Array | None:
    """Return a random exactly singular configuration with one singular direction, or None."""
    lower, upper = inner_range(robot)
    for _ in range(40):
        q = rng.uniform(lower, upper)
        for _ in range(60):
            U, sigma, V = np.linalg.svd(robot.jacobian(q))
            if sigma[-1] < 1e-9:
                break
            ahead = robot.jacobian(q + 1e-6 * np.eye(robot.dof))
            slope = np.array([(U[:, -1] @ J @ V[5] - sigma[-1]) / 1e-6 for J in ahead])
            way = -slope * sigma[-1] / (slope @ slope + 1e-4)
            q = q + way * min(1.0, 0.3 / max(float(np.linalg.norm(way)), 1e-12))
        inside = (q > lower).all() and (q < upper).all()
        if sigma[-1] < 1e-8 and sigma[-2] > 0.04 and inside:
            return np.asarray(q)
    return None


def reachable_side(robot: sp.Robot, q: Array) -> float:
    """Return the sign of the singular direction along which poses are reachable, 0 if both are."""
    pose = robot.fk(q)
    U, _, V = np.linalg.svd(robot.jacobian(q))
    found = []
    for v in (*V[5:], *-V[5:]):
        there, turn = robot.fk(q + 1e-3 * v), np.eye(4)
        turn[:3, :3] = there[:3, :3] @ pose[:3, :3].T
        off = np.concatenate([there[:3, 3] - pose[:3, 3], sp.poses.rotation_vector(turn)])
        found.append(float(U[:, -1] @ off))
    if max(found) * min(found) < 0 and -min(found) > 0.05 * max(found) > -0.0025 * min(found):
        return 0.0
    return float(np.sign(max(found, key=abs)))


def path_of(
    robot: sp.Robot, kind: str, q: Array, length: float, speed: float, rng: np.random.Generator
) -> tuple[PathOf, float, float] | None:
    """Return a path, and the distances at which it begins and ends; None if there is none."""
    pose, half = robot.fk(q), length / 2
    u = np.linalg.svd(robot.jacobian(q))[0][:, -1]
    if kind == "circle":
        first = rng.normal(size=3)
        first /= np.linalg.norm(first)
        second = np.cross(first, rng.normal(size=3))
        second /= np.linalg.norm(second)
        r = length / 4

        def circle(s: float) -> Array:
            way = r * ((np.cos(s / r) - 1) * first + np.sin(s / r) * second)
            return moved(pose, np.concatenate([way, np.zeros(3)]), 1.0)

        return circle, -1.4 * np.pi * r, 1.4 * np.pi * r
    if kind in ("touch", "beyond", "dwell"):
        side, out, bend = reachable_side(robot, q), unit(u), 0.15 * speed
        if side == 0:
            return None
        past = float(np.exp(rng.uniform(np.log(0.002), np.log(0.1)))) if kind == "beyond" else 0.0
        if kind == "dwell":
            return (lambda s: moved(pose, out, side * max(-s, 0.0))), -half, 0.0
        return (
            lambda s: moved(pose, out, side * (np.hypot(s, bend) - bend - past)),
            -half - past,
            half + past,
        )
    twist = robot.jacobian(q) @ rng.normal(size=robot.dof)
    if rng.random() < 0.5:  # a translation that the singular configuration allows
        way = rng.normal(size=3)
        way -= u[:3] * (u[:3] @ way) / max(float(u[:3] @ u[:3]), 1e-12) * (kind in KINDS[:2])
        if np.linalg.norm(way) > 0.1:
            twist = np.concatenate([way, np.zeros(3)])
    if kind == "miss":
        by = float(np.exp(rng.uniform(np.log(1e-4), np.log(0.05))))
        pose = moved(pose, u, by * rng.choice([-1, 1]))
    return (lambda s: moved(pose, unit(twist), s)), -half, half


def progress(times: Array, speed: float, length: float) -> Array:
    """Return the distance along a path that starts and ends smoothly, at times (N,)."""
    ramp = min(RAMP, length / speed)
    until = length / speed + ramp

    def risen(t: Array) -> Array:
        part = np.clip(t / ramp, 0, 1)
        return np.asarray(part**3 - part**4 / 2 + np.maximum(t / ramp, 1) - 1)

    return np.minimum(speed * ramp * (risen(times) - risen(times - until + ramp)), length)


def passage(robot: sp.Robot, kind: str, rng: np.random.Generator) -> Passage | None:
    """Draw a passage of a kind; return None if the draw fails."""
    lower, upper = inner_range(robot)
    dt = float(rng.choice(PERIODS))
    speed = float(np.exp(rng.uniform(np.log(0.04), np.log(0.6))))
    length = float(np.exp(rng.uniform(np.log(0.12), np.log(0.7))))
    fastest = np.where(np.isfinite(robot.max_speed), np.minimum(robot.max_speed, 6.0), 2.0)
    limits = sp.Limits(robot.lower, robot.upper, fastest, fastest * rng.choice([5.0, 10.0, 20.0]))
    q: Array | None
    if kind in ("through", "miss", "touch", "beyond", "dwell"):
        q = singular(robot, rng)
    else:
        q = rng.uniform(lower, upper)
        if np.linalg.svd(robot.jacobian(q))[1][-1] < (
            0.05 if kind in ("circle", "noise") else 0.12
        ):
            return None
    if q is None:
        return None
    if kind == "step":
        goal = np.clip(q + rng.normal(0, 0.5, robot.dof), lower, upper)
        count = int(4 / dt)
        poses = np.repeat(robot.fk(goal)[None], count + 1, axis=0)
        return Passage(robot, kind, dt, limits, q, poses, np.zeros((count, 6)), poses)
    made = path_of(robot, kind, q, length, speed, rng)
    if made is None:
        return None
    path, start, end = made
    speed = max(speed, (end - start) / 8)
    times = np.arange(0, (end - start) / speed + RAMP + REST, dt)
    meant = np.array([path(s) for s in start + progress(times, speed, end - start)])
    twists = np.zeros((len(times) - 1, 6))
    twists[:, :3] = np.diff(meant[:, :3, 3], axis=0) / dt
    turned = np.tile(np.eye(4), (len(twists), 1, 1))
    turned[:, :3, :3] = meant[1:, :3, :3] @ meant[:-1, :3, :3].swapaxes(1, 2)
    twists[:, 3:] = sp.poses.rotation_vector(turned) / dt
    poses = meant.copy()
    if kind == "noise":
        poses[:, :3, 3] += rng.normal(0, NOISE, (len(poses), 3))
        twists[:, :3] += rng.normal(0, 10 * NOISE, (len(twists), 3))
    if (
        kind != "beyond"
        and not sp.Solver(robot).batch(meant[:: max(1, len(meant) // 12)]).success.all()
    ):
        return None
    near = [sp.solve(robot, meant[0], q0=np.clip(q + rng.normal(0, 0.1, robot.dof), lower, upper))]
    if not near[0].success or np.abs(near[0].q - q).max() > 1.5:
        return None
    return Passage(robot, kind, dt, limits, near[0].q, poses, twists, meant)


def passages(robot: sp.Robot, count: int, seed: int) -> list[Passage]:
    """Draw `count` passages of a robot, of each kind in turn."""
    rng, found = np.random.default_rng(seed), []
    for tried in range(8 * count):
        one = passage(robot, KINDS[tried % len(KINDS)], rng)
        if one is not None:
            found.append(one)
        if len(found) == count:
            break
    return found


def motion(here: Passage, step: object) -> Array:
    """Return the configurations (K + 1, n) of a Servo that follows a passage."""
    servo = sp.Servo(here.robot, dt=here.dt, step=step, limits=here.limits)  # type: ignore[arg-type]
    q = [here.q0]
    for pose, twist in zip(here.poses, here.twists, strict=False):
        q.append(servo(q[-1], twist, pose))
    return np.array(q)


def position_errors(here: Passage, q: Array) -> Array:
    """Return the distances (K + 1,) of the end effector from the poses without noise [mm]."""
    return 1e3 * np.linalg.norm(here.robot.fk(q)[:, :3, 3] - here.meant[:, :3, 3], axis=1)


def followed(here: Passage, step: object) -> tuple[float, float, bool]:
    """Return the rms error [mm], the largest acceleration over its limit, and a success flag.

    The flag is whether the end effector is within 1 mm of the last pose when the passage ends.
    """
    return measured(here, motion(here, step))


def measured(here: Passage, q: Array) -> tuple[float, float, bool]:
    """Return the result of `followed` for the configurations q (K + 1, n)."""
    off = position_errors(here, q)
    speeds = np.diff(q, axis=0, prepend=q[:1]) / here.dt
    hardest = np.abs(np.diff(speeds, axis=0) / here.dt / here.limits.max_acceleration).max()
    return float(np.sqrt(np.mean(off**2))), float(hardest), bool(off[-1] < 1)


def peer_motions(drawn: list[Passage], python: str) -> dict[str, list[Array]]:
    """Return the configurations of other libraries (`passages_peers.py`), by their names.

    Only joints that move the end effector move. `python` is the interpreter of an environment with
    the libraries.
    """
    from singularities.others import moving, placements

    arrays: dict[str, Array] = {}
    robots: list[sp.Robot] = []
    for i, here in enumerate(drawn):
        robot, chain = here.robot, moving(here.robot)
        if robot not in robots:
            robots.append(robot)
            arm = f"robot {len(robots) - 1}"
            arrays[f"{arm}/placements"] = placements(robot)
            arrays[f"{arm}/slides"] = robot.prismatic[chain]
            arrays[f"{arm}/rows"] = np.array(6)
            arrays[f"{arm}/lower"], arrays[f"{arm}/upper"] = robot.lower[chain], robot.upper[chain]
            arrays[f"{arm}/max_speed"] = here.limits.max_speed[chain]
        arrays[f"{i}/robot"], arrays[f"{i}/dt"] = np.array(robots.index(robot)), np.array(here.dt)
        arrays[f"{i}/acceleration"] = here.limits.max_acceleration[chain]
        arrays[f"{i}/q0"], arrays[f"{i}/poses"] = here.q0[chain], here.poses
        arrays[f"{i}/twists"] = here.twists
    found: dict[str, list[Array]] = {}
    with tempfile.TemporaryDirectory() as folder:
        np.savez(f"{folder}/commands.npz", **arrays)
        worker = str(Path(__file__).with_name("passages_peers.py"))
        given = [python, worker, f"{folder}/commands.npz", f"{folder}/joints.npz"]
        subprocess.run(given, check=True)
        joints = np.load(f"{folder}/joints.npz")
        for name in dict.fromkeys(key.rsplit("/", 1)[0] for key in joints.files):
            found[name] = []
            for i, here in enumerate(drawn):
                q = np.repeat(here.q0[None], len(here.poses), axis=0)
                moved_joints = joints[f"{name}/{i}"]
                valid = np.isfinite(moved_joints).all(axis=1)
                if not valid.all():  # the robot stays at the last valid configuration
                    moved_joints[valid.argmin() :] = moved_joints[max(valid.argmin() - 1, 0)]
                q[: len(moved_joints), moving(here.robot)] = moved_joints[: len(q)]
                found[name].append(q)
    return found


def print_ratios(drawn: list[Passage]) -> None:
    """Print the errors of the laws relative to those of the best motions."""
    import optimum

    # In "noise", the laws get noisy poses, but the best motion follows the exact ones.
    known = [one for one in drawn if one.kind not in ("step", "noise")]
    ratios: list[list[float]] = []
    for here in known:
        motions = [motion(here, step) for step in LAWS.values()]
        starts = [*motions, *optimum.inverse_kinematics(here)]
        best = optimum.pose_rms(here, optimum.best_motion(here, starts))
        errors = [optimum.pose_rms(here, q) for q in motions]
        ratios.append([max(each, LEAST) / max(best, LEAST) for each in errors])
    print(f"\n{len(known)} passages without noise; rms error of the pose relative to the optimum,")
    print(f"where a radian counts as a metre and errors below {LEAST} mm count as {LEAST} mm")
    print(f"{'law':10}{'median':>9}{'mean':>9}{'90 %':>9}{'largest':>9}  median of each kind")
    kinds = np.array([one.kind for one in known])
    for law, each in zip(LAWS, np.array(ratios).T, strict=True):
        middle = " ".join(f"{k} {np.median(each[kinds == k]):.3g}" for k in KINDS if k in kinds)
        high = np.quantile(each, 0.9)
        spread = f"{np.median(each):9.2f}{each.mean():9.2f}{high:9.2f}{each.max():9.1f}"
        print(f"{law:10}{spread}  {middle}")


def print_dominated(drawn: list[Passage], made: dict[str, list[tuple[float, float, bool]]]) -> None:
    """Print the number of passages in which a peer has less error and acceleration than supple.

    Differences of the error below 0.01 mm and of the acceleration below 1 % are ignored.
    """
    ours, count = made["default"], 0
    for i in range(len(drawn)):
        rms, hardest, _ = ours[i]
        others = [made[name][i] for name in made if name not in LAWS]
        count += any(off < rms - 0.01 and most < 0.99 * hardest for off, most, _ in others)
    print(f"a peer is ahead in error and largest acceleration in {count} of {len(drawn)} passages")


def main() -> None:
    """Print how closely each law follows the passages of some robots."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("robots", nargs="*", default=["puma560", "ur5e", "panda", "iiwa14"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=40, help="number of passages of each robot")
    parser.add_argument("--optimum", action="store_true", help="compare with the best motion")
    parser.add_argument("--peers", metavar="PYTHON", help="environment of other libraries")
    given = parser.parse_args()
    drawn: list[Passage] = []
    for name in given.robots:
        robot = sp.urdf(name) if name.endswith(".urdf") else sp.load(name)
        drawn += passages(robot, given.count, given.seed)
    tracked = np.array([one.kind != "step" for one in drawn])
    print(f"{len(drawn)} passages; rms error [mm], without steps of the target")
    heads = f"{'law':18}{'median':>9}{'mean':>9}{'90 %':>9}{'arrived':>9}{'q̈/max':>8}"
    print(heads + "  median of each kind")
    made = {law: [followed(one, step) for one in drawn] for law, step in LAWS.items()}
    if given.peers:
        for name, motions in peer_motions(drawn, given.peers).items():
            made[name] = [measured(one, q) for one, q in zip(drawn, motions, strict=True)]
    kinds = np.array([one.kind for one in drawn])
    for law, each in made.items():
        rms, arrived = np.array([one[0] for one in each]), np.array([one[2] for one in each])
        hardest = np.median([one[1] for one in each])
        middle = " ".join(f"{k} {np.median(rms[kinds == k]):.3g}" for k in KINDS if k in kinds)
        spread = f"{np.median(rms[tracked]):9.3f}{rms[tracked].mean():9.2f}"
        high = np.quantile(rms[tracked], 0.9)
        print(f"{law:18}{spread}{high:9.2f}{100 * arrived.mean():8.1f}%{hardest:8.2f}  {middle}")
    if given.peers:
        print_dominated(drawn, made)
    if given.optimum:
        print_ratios(drawn)


if __name__ == "__main__":
    main()
