"""Time one step of the default Servo for a humanoid with 29 joints, called from Python on one core.

    python bench/servo_humanoid.py [ROUNDS]

Hands and feet of a Unitree G1 follow circles, with or without a task for its posture, in reach and
out of reach. Prints a table and writes it to bench/results/.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import measure
import supple as sp
from arms import FEET_AND_HANDS, humanoid

Array = NDArray[np.float64]

DT = 0.005  # length of a step [s]
STEPS = 200  # number of steps for one circle
RADIUS = 0.02  # radius of the circles [m]
FAR = 3.0  # factor of the distance from the pelvis for targets out of reach
MAX_ACCELERATION, MAX_JERK = 60.0, 3000.0  # [rad/s², rad/s³]
# A pose with bent knees and elbows [rad].
POSE = {
    "hip_pitch": -0.5,
    "knee": 1.0,
    "ankle_pitch": -0.4,
    "waist_yaw": 0.1,
    "waist_pitch": 0.1,
    "shoulder_pitch": -0.3,
    "elbow": 0.6,
    "wrist_pitch": 0.3,
    "wrist_yaw": 0.2,
}
SIDEWAYS = {"hip_roll": 0.1, "shoulder_roll": 0.4, "shoulder_yaw": 0.2}  # left; right: negative
CASES = {  # title: tasks for the posture, largest jerk, number of frames out of reach
    "four frames, posture": (True, None, 0),
    "four frames": (False, None, 0),
    "four frames, posture, limits of acceleration and jerk": (True, MAX_JERK, 0),
    "four frames, posture, one hand out of reach": (True, None, 1),
    "four frames, posture, all out of reach": (True, None, 4),
}


def pose(robot: sp.Robot) -> Array:
    """Return the joint positions (29,) of the pose."""
    q = np.zeros(robot.dof)
    for j, name in enumerate(robot.joint_names):
        for part, angle in POSE.items():
            q[j] = angle if part in name else q[j]
        for part, angle in SIDEWAYS.items():
            q[j] = (angle if name.startswith("left") else -angle) if part in name else q[j]
    return q


def circles(robot: sp.Robot, q: Array, far: int) -> list[list[Array]]:
    """Return the poses (4, 4) of feet and hands in each step; the last `far` are out of reach."""
    steps = []
    for angle in 2 * np.pi * np.arange(STEPS) / STEPS:
        poses = []
        for k, frame in enumerate(FEET_AND_HANDS):
            T, turned = robot.fk(q, frame).copy(), angle + k * np.pi / 2
            T[:2, 3] += RADIUS * np.array([np.cos(turned), np.sin(turned)])
            if k >= len(FEET_AND_HANDS) - far:
                T[:3, 3] *= FAR
            poses.append(T)
        steps.append(poses)
    return steps


def contender(
    robot: sp.Robot, posture: bool, max_jerk: float | None, far: int
) -> Callable[[], float]:
    """Return a function that follows the circles and returns the median time of a step [ns]."""
    q = pose(robot)
    tasks: list[sp.PoseTask | sp.PostureTask] = [sp.PoseTask(frame) for frame in FEET_AND_HANDS]
    targets = circles(robot, q, far)
    if posture:
        tasks.append(sp.PostureTask(weight=0.02))
        targets = [[*poses, pose(robot)] for poses in targets]
    limits = None
    if max_jerk is not None:
        limits = sp.Limits.for_robot(robot, max_acceleration=MAX_ACCELERATION, max_jerk=max_jerk)
    servo = sp.Servo(robot, tasks, dt=DT, limits=limits)

    def run() -> float:
        times = []
        for target in targets:
            begin = time.perf_counter_ns()
            servo(q, target=target, out=q)
            times.append(time.perf_counter_ns() - begin)
        return statistics.median(times)

    return run


def main(rounds: int) -> None:
    """Measure all cases, and print and write the table."""
    measure.one_core()
    with tempfile.TemporaryDirectory() as folder:
        urdf = Path(folder) / "g1.urdf"
        urdf.write_text(humanoid().urdf)
        robot = sp.urdf(urdf)
    cases = {title: contender(robot, *case) for title, case in CASES.items()}
    took = measure.medians(measure.interleaved(cases, rounds))
    lines = [
        "# One servo step of a humanoid",
        "",
        f"q, targets → next q of a Unitree G1 with {robot.dof} joints, one call from Python, the "
        f"default step, dt = {DT:g} s, float64, one core, {rounds} interleaved rounds of {STEPS} "
        "steps, medians. Hands and feet follow circles; a target out of reach is three times as "
        "far from the pelvis.",
        measure.provenance(("supple", "numpy")),
        "",
        "## Time of a step",
        "",
        "| | µs per step |",
        "|---|---:|",
        *(f"| {title} | {ns / 1e3:.1f} |" for title, ns in took.items()),
        "",
    ]
    print("\n".join(lines))
    print("written to", measure.write("servo_humanoid", "\n".join(lines)))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 21)
