"""Draw docs/panda.svg: a Panda next to a singularity, with the default damping and without.

    python docs/panda.py

Both arms get the same command: the hand is to move outwards and back while the elbow stretches.
The picture has the arm at several times, drawn from its kinematics, and the joint speeds.
"""

from pathlib import Path

import numpy as np

import supple as sp

WIDTH, HEIGHT = 760, 340
DT, SECONDS = 0.004, 4.0  # [s]
START = np.array([0.0, 0.3, 0.0, -1.5, 0.0, 1.8, 0.8])
TWIST = np.array([0.24, 0.0, 0.10, 0.0, 0.0, 0.0])  # [m/s, rad/s]
STYLE = """
  text { font: 14px sans-serif; fill: #333 }  .small { font-size: 12px }
  .axis { stroke: #777; stroke-width: 1 }     .grid { stroke: #777; opacity: 0.25 }
  .bone { fill: none; stroke: #0072b2; stroke-linecap: round; stroke-linejoin: round }
  .joint { fill: #e69f00; stroke: none }      .path { fill: none; stroke: #333; stroke-width: 1.5 }
  .undamped { fill: none; stroke: #d55e00; stroke-width: 2 }
  .damped { fill: none; stroke: #0072b2; stroke-width: 2.5 }
  text.undamped { stroke: none; fill: #d55e00 }  text.damped { stroke: none; fill: #0072b2 }
  @media (prefers-color-scheme: dark) {
    text { fill: #ddd }  .bone, .damped { stroke: #56b4e9 }  .path { stroke: #ddd }
    .undamped { stroke: #f0883e }  text.undamped { fill: #f0883e }  text.damped { fill: #56b4e9 }
  }
"""


def command(t):
    """Return the twist of the hand at time t [s]: outwards, then back."""
    return np.sin(2 * np.pi * t / SECONDS) * TWIST


def drive(robot, step, limits):
    """Return the motion of the arm under the command."""
    return sp.simulate(
        robot, START, velocity=command, dt=DT, duration=SECONDS, step=step, limits=limits
    )


def text(x, y, words, kind="", anchor="start"):
    """Return an SVG element with text at a pixel."""
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" class="{kind}">{words}</text>'


def line(x1, y1, x2, y2, kind):
    """Return an SVG element with a straight line between two pixels."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def curve(points, kind, width=None):
    """Return an SVG element with a curve through pixels (k, 2)."""
    style = "" if width is None else f' style="stroke-width:{width}"'
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{places}" class="{kind}"{style}/>'


def on_page(points):
    """Return pixels (k, 2) of points (k, 3) [m], seen from the side: x to the right, z up."""
    return np.stack([70 + 290 * points[:, 0], 300 - 290 * points[:, 2]], axis=1)


def arm(robot, q, opacity):
    """Return SVG elements of the arm: its links as one line, its joints as circles."""
    links = [f"panda_link{k}" for k in range(9)]
    places = on_page(robot.fk(q, [*links, robot.tips[0]])[:, :3, 3])
    parts = [f'<g opacity="{opacity:.2f}">', curve(places, "bone", 13)]
    parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" class="joint"/>' for x, y in places[1:-1]]
    return "\n".join([*parts, "</g>"])


def speeds(motions):
    """Return SVG elements with curves of the largest joint speed over time, and axes."""
    left, right, top, bottom = 440, WIDTH - 20, 40, 290
    highest = 12.0  # [rad/s]
    x = lambda t: left + (right - left) * t / SECONDS  # noqa: E731
    y = lambda v: bottom - (bottom - top) * np.minimum(v, highest) / highest  # noqa: E731
    parts = [text(left, 24, "fastest joint [rad/s]")]
    for speed in range(0, 13, 2):
        parts.append(line(left, y(speed), right, y(speed), "grid"))
        parts.append(text(left - 8, y(speed) + 5, speed, "small", "end"))
    for t in range(5):
        parts.append(text(x(t), bottom + 18, t, "small", "middle"))
    parts.append(line(left, bottom, right, bottom, "axis"))
    parts.append(text(right, bottom + 36, "time [s]", "small", "end"))
    for name, kind, motion, row in motions:
        fastest = np.abs(motion.qd).max(axis=1)
        parts.append(curve(np.stack([x(motion.t[1:]), y(fastest)], axis=1), kind))
        parts.append(text(right, 62 + 20 * row, f"{name}: {fastest.max():.3g}", kind, "end"))
        print(f"{name}: fastest joint {fastest.max():.3g} rad/s")
    return parts


def picture():
    """Return the SVG as text."""
    robot = sp.load("panda")
    damped = drive(robot, None, None)
    free = drive(robot, sp.steps.Pseudoinverse(), sp.Limits.none(robot))
    turn = int(np.argmin(damped.sigma_min[: len(damped.t) // 2]))
    hand = on_page(robot.fk(damped.q)[:, :3, 3])
    title = "A Panda stretches its elbow, and the speed of its fastest joint"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{title}</title><style>{STYLE}</style>",
        text(20, 24, "A Panda, stretched until it is singular, and back"),
        line(20, 300, 400, 300, "axis"),
        *(arm(robot, damped.q[k], o) for k, o in ((0, 0.25), (turn // 2, 0.45), (turn, 1.0))),
        curve(hand[::10], "path"),
        *speeds((("pseudoinverse", "undamped", free, 0), ("default damping", "damped", damped, 1))),
    ]
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    file = Path(__file__).with_suffix(".svg")
    file.write_text(picture())
    print("written to", file)
