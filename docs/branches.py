"""Draw docs/branches.svg: the eight solutions of one pose of a UR5e.

python docs/branches.py
"""

from pathlib import Path

import numpy as np

import supple as sp

WIDTH, HEIGHT, COLUMNS = 760, 400, 4
NAMES = ("shoulder", "elbow", "wrist")
TARGET = sp.pose([0.35, 0.25, 0.45], rpy=[np.pi, 0.3, 0.5])
STYLE = """
  text { font: 12px sans-serif; fill: #333; text-anchor: middle }
  .bone { fill: none; stroke: #0072b2; stroke-width: 7; stroke-linecap: round;
          stroke-linejoin: round }
  .joint { fill: #e69f00 }  .hand { stroke: #d55e00; stroke-width: 3 }
  .floor { stroke: #777; opacity: 0.4 }
  @media (prefers-color-scheme: dark) { text { fill: #ddd }  .bone { stroke: #56b4e9 } }
"""


def seen(points):
    """Return points (k, 3) [m] as seen from the front and above (k, 2), in pixels."""
    x, y, z = np.asarray(points).T
    across, depth = np.cos(0.1) * x + np.sin(0.1) * y, np.cos(0.1) * y - np.sin(0.1) * x
    return np.column_stack([150 * across - 25, -150 * (0.94 * z + 0.34 * depth)])


def skeleton(robot, q):
    """Return the points (k, 3) [m] of the arm: its axes, and the common normals between them."""
    poses = [robot.fk(q, frame) for frame in robot.frames]
    return np.array([T[:3, 3] for T in poses])


def lines(robot, q, text, left, top):
    """Return the SVG of one solution."""
    place = np.array([left, top])
    points = seen(skeleton(robot, q)) + place
    T = robot.fk(q)
    hand = seen([T[:3, 3], T[:3, 3] + 0.12 * T[:3, 2]]) + place
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    floor = seen([[-0.15, 0, 0], [0.15, 0, 0], [0, -0.15, 0], [0, 0.15, 0]]) + place
    made = [
        f'<line class="floor" x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}"/>'
        for a, b in (floor[:2], floor[2:])
    ]
    made.append(f'<polyline class="bone" points="{path}"/>')
    made += [f'<circle class="joint" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in points]
    (x1, y1), (x2, y2) = hand
    made.append(f'<line class="hand" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')
    made.append(f'<text x="{left}" y="{top + 50}">{text}</text>')
    return made


def main():
    """Write the picture."""
    robot = sp.load("ur5e")
    found = sp.Solver(robot).all(TARGET)
    order = np.lexsort(found.branch.T[::-1])
    body = []
    for k, i in enumerate(order):
        signs = found.branch[i]
        words = [f"{name} {'+' if s > 0 else '−'}" for name, s in zip(NAMES, signs, strict=True)]
        left = WIDTH / COLUMNS * (k % COLUMNS + 0.5)
        body += lines(robot, found.q[i], ", ".join(words), left, 145 + 195 * (k // COLUMNS))
    picture = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">',
        f"<style>{STYLE}</style>",
        *body,
        "</svg>",
    ]
    Path(__file__).with_name("branches.svg").write_text("\n".join(picture) + "\n")


if __name__ == "__main__":
    main()
