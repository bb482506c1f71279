"""Draw docs/rules.svg: joint speed and missed tool velocity under several damping rules.

    python docs/rules.py

A UR5e turns its tool and moves it slowly while its wrist passes a singularity.
"""

from pathlib import Path

import numpy as np
from panda import STYLE, curve, line, text

import supple as sp

WIDTH, HEIGHT = 760, 300
DT, SECONDS = 0.004, 4.0  # [s]
START = np.radians([0, -70, 100, -120, -40, 0])
TWIST = np.array([0.05, 0, 0, -0.4, 0, 0])  # [m/s, rad/s]
COLORS = {
    "Constant": "#009e73",
    "Optimal": "#cc79a7",
    "Curvature": "#0072b2",
}
DASHES = {"Constant": "2 4", "Optimal": "8 4", "Curvature": "none"}


def motions():
    """Return the motion under each rule, within the default limits of a `Servo`."""
    robot = sp.load("ur5e")
    steps = (
        sp.DLS(sp.damping.Constant(0.05**2)),
        sp.DLS(sp.damping.Optimal(max_speed=1.5)),
        sp.DLS(sp.damping.Curvature.for_robot(robot, dt=DT)),
    )
    return {
        name: sp.track(
            robot,
            START,
            velocity=lambda t: TWIST,
            dt=DT,
            duration=SECONDS,
            step=step,
        )
        for name, step in zip(COLORS, steps, strict=True)
    }


def panel(left, title, highest, ticks, curves, t):
    """Return axes at `left` with one curve per rule."""
    right, top, bottom = left + 310, 50, 250
    x = left + (right - left) * t / SECONDS
    y = lambda v: bottom - (bottom - top) * np.minimum(v, highest) / highest  # noqa: E731
    parts = [text(left, 30, title), line(left, bottom, right, bottom, "axis")]
    for tick in ticks:
        parts.append(line(left, y(tick), right, y(tick), "grid"))
        parts.append(text(left - 6, y(tick) + 4, f"{tick:g}", "small", "end"))
    for second in range(5):
        place = left + (right - left) * second / SECONDS
        parts.append(text(place, bottom + 18, second, "small", "middle"))
    parts.append(text(right, bottom + 36, "time [s]", "small", "end"))
    for name, values in curves.items():
        style = f'style="stroke:{COLORS[name]};stroke-dasharray:{DASHES[name]}"'
        drawn = curve(np.stack([x, y(values)], axis=1), "damped")
        parts.append(drawn.replace("/>", f" {style}/>"))
    return parts


def picture():
    """Return the SVG as text."""
    found = motions()
    t = next(iter(found.values())).t[1:]
    speed = {name: np.linalg.norm(m.qd, axis=1) for name, m in found.items()}
    missed = {name: np.linalg.norm(m.velocity - m.command, axis=1) for name, m in found.items()}
    for name in found:
        print(f"{name}: ‖q̇‖ up to {speed[name].max():.2f}, missed up to {missed[name].max():.3f}")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>Damping rules past a singular wrist</title><style>{STYLE}</style>",
        *panel(50, "joint speed ‖q̇‖ [rad/s]", 4, range(5), speed, t),
        *panel(430, "missed velocity of the tool", 0.2, np.arange(0, 0.21, 0.05), missed, t),
    ]
    for k, (name, color) in enumerate(COLORS.items()):
        line_style = f'style="stroke:{color};stroke-width:2.5;stroke-dasharray:{DASHES[name]}"'
        parts.append(f'<line x1="55" x2="85" y1="{62 + 18 * k}" y2="{62 + 18 * k}" {line_style}/>')
        parts.append(text(90, 66 + 18 * k, name, "small"))
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    file = Path(__file__).with_suffix(".svg")
    file.write_text(picture())
    print("written to", file)
