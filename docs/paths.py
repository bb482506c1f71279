"""Draw docs/paths.svg: one path past a singular wrist, handled in three ways.

    python docs/paths.py

A UR5e moves its tool along a line that passes 0.03 rad from a singularity of its wrist.
"""

from pathlib import Path

import numpy as np
from curves import picture

import supple as sp

SECONDS = 2.0  # duration of the command
STYLES = {
    "deviate": ("#009e73", "8 4"),
    "slow down": ("#0072b2", "none"),
    "reconfigure": ("#cc79a7", "2 4"),
}
NEAR = np.radians([0, -70, 100, -120, 1.7, 0])  # near the singularity


def path(robot):
    """Return 200 poses and a configuration at the first one."""
    first, last = robot.fk(NEAR), robot.fk(NEAR)
    first[:3, 3] -= [0, 0.2, 0]
    last[:3, 3] += [0, 0.2, 0]
    poses = sp.poses.interpolate(first, last, np.linspace(0, 1, 200))
    turn = np.array([0, 0, 0, 2 * np.pi, 0, 0])
    return poses, sp.solve(robot, poses[0], q0=NEAR).q + turn


def motions():
    """Return the poses of the path, and the motion of each of the three methods by name."""
    robot = sp.load("ur5e")
    poses, q0 = path(robot)
    dt = SECONDS / 500
    commanded = sp.poses.interpolate(poses[0], poses[-1], np.linspace(0, 1, 501))
    narrow = robot.with_limits(
        lower={"shoulder_pan_joint": -1, "elbow_joint": 0, "wrist_3_joint": 0.3},
        upper={"shoulder_pan_joint": 1, "wrist_3_joint": 3.5},
    )
    return poses, {
        "deviate": sp.simulate(robot, q0, target=commanded, dt=dt),
        "slow down": sp.plan_path(robot, poses, q0=q0).timed(tool_speed=0.4 / SECONDS),
        "reconfigure": sp.plan_path(narrow, poses).timed(tool_speed=0.4 / SECONDS),
    }


def drawn():
    """Return the SVG as text."""
    poses, found = motions()
    robot = sp.load("ur5e")
    off, speed = {}, {}
    along = poses[-1, :3, 3] - poses[0, :3, 3]
    along = along / np.linalg.norm(along)
    for name, motion in found.items():
        p = robot.fk(motion.q)[:, :3, 3]
        away = p - poses[0, :3, 3]
        away -= np.outer(away @ along, along)
        off[name] = motion.t[::5], np.linalg.norm(away, axis=1)[::5] * 1e3
        each = np.linalg.norm(np.diff(p, axis=0), axis=1) / np.diff(motion.t)
        speed[name] = motion.t[1::5], each[::5]
        most = np.linalg.norm(away, axis=1).max() * 1e3
        print(f"{name}: {motion.t[-1]:.2f} s, off the line by up to {most:.2f} mm")
    end = max(motion.t[-1] for motion in found.values())
    panels = (
        ("distance from the line [mm]", 40, range(0, 41, 10), off),
        ("speed of the tool [m/s]", 0.4, np.arange(0, 0.41, 0.1), speed),
    )
    return picture("Three ways past a singular wrist", panels, STYLES, end)


if __name__ == "__main__":
    file = Path(__file__).with_suffix(".svg")
    file.write_text(drawn())
    print("written to", file)
