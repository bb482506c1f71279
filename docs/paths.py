"""Draw docs/paths.svg: one path past a singular wrist, handled in three ways.

    python docs/paths.py

A UR5e moves its tool along a line that passes 0.03 rad from a singularity of its wrist.
"""

from pathlib import Path

import numpy as np
from panda import STYLE, curve, line, text

import supple as sp

WIDTH, HEIGHT = 760, 300
SECONDS = 2.0  # of the command
COLORS = {"deviate": "#009e73", "slow down": "#0072b2", "reconfigure": "#cc79a7"}
DASHES = {"deviate": "8 4", "slow down": "none", "reconfigure": "2 4"}
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
        "deviate": sp.track(robot, q0, target=commanded, dt=dt),
        "slow down": sp.follow(robot, poses, q0=q0).timed(tool_speed=0.4 / SECONDS),
        "reconfigure": sp.follow(narrow, poses).timed(tool_speed=0.4 / SECONDS),
    }


def panel(left, title, highest, ticks, curves, end):
    """Return axes at `left` with one curve per way, over time."""
    right, top, bottom = left + 310, 50, 250
    y = lambda v: bottom - (bottom - top) * np.minimum(v, highest) / highest  # noqa: E731
    parts = [text(left, 30, title), line(left, bottom, right, bottom, "axis")]
    for tick in ticks:
        parts.append(line(left, y(tick), right, y(tick), "grid"))
        parts.append(text(left - 6, y(tick) + 4, f"{tick:g}", "small", "end"))
    for second in range(int(end) + 1):
        place = left + (right - left) * second / end
        parts.append(text(place, bottom + 18, second, "small", "middle"))
    parts.append(text(right, bottom + 36, "time [s]", "small", "end"))
    for name, (t, values) in curves.items():
        style = f'style="stroke:{COLORS[name]};stroke-dasharray:{DASHES[name]}"'
        x = left + (right - left) * t / end
        drawn = curve(np.stack([x, y(values)], axis=1)[::5], "damped")
        parts.append(drawn.replace("/>", f" {style}/>"))
    return parts


def picture():
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
        off[name] = motion.t, np.linalg.norm(away, axis=1) * 1e3
        speed[name] = motion.t[1:], np.linalg.norm(np.diff(p, axis=0), axis=1) / np.diff(motion.t)
        print(f"{name}: {motion.t[-1]:.2f} s, off the line by up to {off[name][1].max():.2f} mm")
    end = max(motion.t[-1] for motion in found.values())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>Three ways past a singular wrist</title><style>{STYLE}</style>",
        *panel(50, "distance from the line [mm]", 40, range(0, 41, 10), off, end),
        *panel(430, "speed of the tool [m/s]", 0.4, np.arange(0, 0.41, 0.1), speed, end),
    ]
    for k, (name, color) in enumerate(COLORS.items()):
        style = f'style="stroke:{color};stroke-width:2.5;stroke-dasharray:{DASHES[name]}"'
        parts.append(f'<line x1="55" x2="85" y1="{62 + 18 * k}" y2="{62 + 18 * k}" {style}/>')
        parts.append(text(90, 66 + 18 * k, name, "small"))
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    file = Path(__file__).with_suffix(".svg")
    file.write_text(picture())
    print("written to", file)
