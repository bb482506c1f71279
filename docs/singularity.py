"""Draw docs/singularity.svg: joint speed through a singularity, undamped and damped.

    python docs/singularity.py

A UR5e turns its tool and moves it slowly while its wrist passes the straight configuration.
"""

from pathlib import Path

import numpy as np

import supple as sp

WIDTH, HEIGHT = 720, 300
LEFT, RIGHT, TOP, BOTTOM = 60, 20, 20, 48
SECONDS, TOP_SPEED, BOUND = 4.0, 14.0, 1.5
STYLE = """
  text { font: 14px sans-serif; fill: #333 }
  .axis { stroke: #777; stroke-width: 1 }
  .grid { stroke: #777; stroke-width: 1; opacity: 0.25 }
  .line { fill: none; stroke-width: 2.5 }
  .undamped { stroke: #d55e00 }  text.undamped { stroke: none; fill: #d55e00 }
  .damped { stroke: #0072b2 }    text.damped { stroke: none; fill: #0072b2 }
  @media (prefers-color-scheme: dark) {
    text { fill: #ddd }
    .undamped { stroke: #f0883e }  text.undamped { fill: #f0883e }
    .damped { stroke: #56b4e9 }    text.damped { fill: #56b4e9 }
  }
"""


def x_of(time):
    """Pixels from seconds."""
    return LEFT + time / SECONDS * (WIDTH - LEFT - RIGHT)


def y_of(speed):
    """Pixels from rad/s."""
    return HEIGHT - BOTTOM - speed / TOP_SPEED * (HEIGHT - TOP - BOTTOM)


def text(x, y, words, anchor="start", kind=""):
    """Words in the picture."""
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" class="{kind}">{words}</text>'


def line(x1, y1, x2, y2, kind):
    """A straight line in the picture."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def curve(times, speeds, kind):
    """A curve in the picture."""
    points = " ".join(f"{x_of(t):.1f},{y_of(v):.1f}" for t, v in zip(times, speeds, strict=True))
    return f'<polyline points="{points}" class="line {kind}"/>'


def picture():
    """The SVG, as text."""
    robot = sp.load("ur5e")
    start = np.radians([0, -70, 100, -120, -40, 0])
    twist = [0.05, 0, 0, -0.4, 0, 0]  # [m/s], [rad/s]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        "<title>Norm of the joint speeds of a UR5e whose wrist passes a singularity</title>",
        f"<style>{STYLE}</style>",
    ]
    for speed in range(0, 15, 2):
        parts.append(line(LEFT, y_of(speed), WIDTH - RIGHT, y_of(speed), "grid"))
        parts.append(text(LEFT - 8, y_of(speed) + 5, speed, "end"))
    for time in range(5):
        parts.append(text(x_of(time), HEIGHT - BOTTOM + 20, time, "middle"))
    parts.append(line(LEFT, y_of(0), WIDTH - RIGHT, y_of(0), "axis"))
    parts.append(text(WIDTH - RIGHT, HEIGHT - 8, "time [s]", "end"))
    parts.append(text(LEFT + 8, TOP + 10, "‖q̇‖ [rad/s]"))
    for step, kind in (
        (sp.steps.Pseudoinverse(), "undamped"),
        (sp.DLS(sp.damping.Optimal(max_speed=BOUND)), "damped"),
    ):
        moved = sp.track(
            robot,
            start,
            velocity=lambda t: twist,
            dt=0.004,
            duration=SECONDS,
            step=step,
            limits=sp.Limits.none(robot),
        )
        speeds = np.linalg.norm(moved.qd, axis=1)
        parts.append(curve(moved.t[:-1], speeds, kind))
        print(f"{kind:>8}: at most {speeds.max():.4g} rad/s")
    parts.append(text(x_of(1.86), y_of(12), "pseudoinverse", kind="undamped"))
    parts.append(text(x_of(2.35), y_of(2.1), f"optimal damping, ‖q̇‖ ≤ {BOUND}", kind="damped"))
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    file = Path(__file__).with_suffix(".svg")
    file.write_text(picture())
    print("written to", file)
