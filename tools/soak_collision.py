"""Random motions of control loops among obstacles: no pair may come closer than the clearance.

    PYTHONPATH=tests/support python tools/soak_collision.py [--steps 1e7] [--seed 0] [--coal 10]

Robots, shapes, obstacles, clearances, limits, modes, steps, time steps and commands that jump are
drawn at random. Each step is judged at 8 places within it by the kernel's distances of all pairs.
In every `--coal`-th step, coal, an independent library, judges the three closest pairs again, at 33
places around that of the 8 places where the distance is smallest. Joint limits are checked as in
soak_servo.py. If a check fails, the seed that repeats the motion is printed and the exit status is
1.
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

import soak_servo as soak
import supple as sp
from convex import BOX, CAPSULE, CYLINDER, HALF_SPACE, SPHERE, Scene, free_scene
from supple.motion.status import StepStatus

try:
    import coal
except ImportError:  # then only the kernel's distances are used
    coal = None

STEPS = 1000  # number of steps of one motion
FRACTIONS = np.arange(1, 9) / 8
SWEEP = np.linspace(-1 / 8, 1 / 8, 33)  # places around the closest place of a step
ROUNDING = 1e-9  # rounding error of distances [m]
COAL_ROUNDING = 2e-6  # error of distances that coal computes for curved shapes [m]
CLEARANCES = (0.0, 0.003, 0.01, 0.03)
MODES = ("exact", "exact", "exact", "scale", "halt")
EXCEEDED = int(StepStatus.COLLISION_EXCEEDED)


def coal_shape(shape: Any) -> Any:
    """Return a shape converted for coal, or None for a flat hull, which coal does not support."""
    if shape.kind == SPHERE:
        return coal.Sphere(shape.size[0])
    if shape.kind == CAPSULE:
        return coal.Capsule(shape.size[0], shape.size[1])
    if shape.kind == BOX:
        return coal.Box(*shape.size)
    if shape.kind == CYLINDER:
        return coal.Cylinder(shape.size[0], shape.size[1])
    if shape.kind == HALF_SPACE:
        return coal.Halfspace(np.array([0.0, 0.0, 1.0]), 0.0)
    spread = np.linalg.svd(shape.points - shape.points.mean(axis=0), compute_uv=False)
    if len(shape.points) < 4 or spread[2] < 1e-6:
        return None
    points = coal.StdVec_Vec3s()
    points.extend([np.array(p) for p in shape.points])
    made = coal.Convex.convexHull(points, False, "Qt")
    made.setSweptSphereRadius(float(shape.radius))
    return made


class Judge:
    """The distances of the pairs in a scene, computed by coal."""

    def __init__(self, scene: Scene) -> None:
        """Remember the scene; shapes are converted when they are first judged."""
        self.scene = scene
        self.names = list(scene.robot.frames)
        self.shapes: dict[int, Any] = {}

    def distance(self, pair: int, q: np.ndarray) -> float:
        """Return the signed distance of a pair at q [m]; infinite if coal cannot judge it."""
        placed = []
        for i in self.scene.pairs[pair]:
            shape, frame = self.scene.shapes[i], self.scene.frames[i]
            if i not in self.shapes:
                self.shapes[i] = coal_shape(shape)
            if self.shapes[i] is None:
                return np.inf
            T = shape.pose if frame < 0 else self.scene.robot.fk(q, self.names[frame]) @ shape.pose
            placed += [self.shapes[i], coal.Transform3s(T[:3, :3], T[:3, 3])]
        request, found = coal.DistanceRequest(), coal.DistanceResult()
        request.gjk_tolerance = 1e-9
        request.epa_tolerance = 1e-9
        return float(coal.distance(*placed, request, found))


def motion(seed: int, every: int) -> tuple[Counter[str], str]:
    """Run one random motion; return the counts of steps and of failed checks, and a description."""
    rng = np.random.default_rng([seed, 7])
    clearance = float(rng.choice(CLEARANCES))
    scene, q = free_scene(seed, clearance, obstacles=int(rng.integers(1, 5)))
    mode = str(rng.choice(MODES))
    dt = 10 ** rng.uniform(-3.3, -1.5)
    limits = soak.some_limits(rng, scene.robot, mode, dt)
    step = soak.a_step(rng, scene.robot, len(scene.robot.tips))
    servo = sp.Servo(
        scene.robot, dt=dt, step=step, limits=limits, world=scene.model, clearance=clearance
    )
    targets, velocities = soak.commands(rng, servo, STEPS)
    about = f"seed {seed}: {scene.robot.name}, {mode}, {step}, dt {dt:.2g}, clearance {clearance:g}"
    q = np.clip(q, limits.lower, limits.upper)
    if scene.model.min_distance(q)[0] < clearance:
        return Counter(), about  # the start, moved into the limits, is too close to an obstacle
    judge = Judge(scene)
    start, end = np.empty((STEPS, len(q))), np.empty((STEPS, len(q)))
    speed, told = np.empty((STEPS, len(q))), np.zeros(STEPS, int)
    counts: Counter[str] = Counter(steps=STEPS)
    for k in range(STEPS):
        start[k] = q
        velocity = None if velocities is None else velocities[k]
        target = None if targets is None else targets[k]
        servo._raw(q, velocity, target, None, end[k])
        q, speed[k], told[k] = end[k], servo._qd, servo._flags
        places = start[k] + FRACTIONS[:, None] * (end[k] - start[k])
        near = [scene.model.min_distance(each)[0] for each in places]
        counts["closer than the clearance"] += min(near) < clearance - ROUNDING
        counts["exceeded reported"] += bool(told[k] & EXCEEDED)
        if coal is not None and k % every == 0 and min(near) < clearance + 0.02:
            at = FRACTIONS[int(np.argmin(near))]
            closest = np.argsort(scene.model.distances(start[k] + at * (end[k] - start[k]))[0])[:3]
            for f in np.clip(at + SWEEP, 0, 1):
                there = start[k] + f * (end[k] - start[k])
                least = min(judge.distance(int(pair), there) for pair in closest)
                counts["closer by coal"] += least < clearance - COAL_ROUNDING
                counts["judged by coal"] += 1
    found = soak.broken(limits, dt, start, end, speed, told, False)
    return counts + Counter({k: int(v) for k, v in found.items() if v}), about


def main() -> int:
    """Run motions on all cores; return 1 if a check failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=float, default=1e6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--coal", type=int, default=10, help="judge every n-th step by coal")
    given = parser.parse_args()
    begin, total, failed = time.time(), Counter[str](), 0
    seeds = range(given.seed, given.seed + max(1, int(given.steps / STEPS)))
    with ProcessPoolExecutor(given.workers) as pool:
        made = pool.map(motion, seeds, [given.coal] * len(seeds), chunksize=8)
        for seed, (counts, about) in zip(seeds, made, strict=True):
            total += counts
            if set(counts) - {"steps", "judged by coal"}:
                failed += 1
                print(about, dict(counts), flush=True)
            if seed % 1000 == 999:
                print(f"{total['steps']:.3g} steps, {time.time() - begin:.0f} s", flush=True)
    print(dict(total), f"{failed} motions failed, {time.time() - begin:.0f} s")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
