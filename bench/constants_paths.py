"""The workloads of constants.py along paths: `plan_path`, timing, and `simulate` in mode "path"."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import supple as sp
from constants_measures import Clock, Measures, mean
from paths import random_path

ARMS = ("ur5e", "panda", "iiwa14")
DT = 0.005  # time step of a trajectory [s]


def of_paths(count: int = 12) -> dict[str, Measures]:
    """Follow random lines and arcs of 500 poses, timed by `PlannedPath.timed` and by `simulate`."""
    return mean([_of_arm(sp.load(arm), count) for arm in ARMS])


def _of_arm(robot: sp.Robot, count: int) -> dict[str, Measures]:
    rng = np.random.default_rng(11)
    every = [random_path(robot, rng) for _ in range(count)]
    clock = Clock()
    followed = [sp.plan_path(robot, poses, threads=1) for poses in every]
    used = clock.us(count)
    made = {
        "follow": {
            "followed [%]": 100 * float(np.mean([one.success for one in followed])),
            "reconfigurations": float(np.mean([len(one.reconfigurations) for one in followed])),
            "samples": float(np.mean([sum(map(len, one.pieces)) for one in followed])),
            "joint motion [rad]": float(np.mean([_length(one) for one in followed])),
            "µs": used,
        }
    }
    limits = replace(sp.Servo(robot, dt=DT).limits, mode="exact")
    whole = [one for one in followed if one.continuous]
    for name, own in (
        ("time-optimal", limits),
        ("time-optimal, jerk limits", replace(limits, max_jerk=20 * limits.max_acceleration)),
    ):
        clock = Clock()
        durations = [one.timed(own, dt=1e-3).t[-1] for one in whole]
        made[name] = {"duration [s]": float(np.mean(durations)), "µs": clock.us(len(whole))}
    clock, reached = Clock(), []
    for poses, one in zip(every, followed, strict=True):
        path = replace(limits, mode="path")
        motion = sp.simulate(robot, one.q[0], target=poses, dt=DT, limits=path, tolerance=1e-2)
        reached.append(motion.t[-1])
    made['track, mode "path"'] = {"duration [s]": float(np.mean(reached)), "µs": clock.us(count)}
    return made


def _length(found: sp.paths.PlannedPath) -> float:
    """Return the length of the path in joint space, without reconfigurations."""
    return sum(float(np.linalg.norm(np.diff(one.q, axis=0), axis=1).sum()) for one in found.pieces)
