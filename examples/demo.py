"""Move two arms through singularities and an arm along a box, solve 100,000 poses, write a page.

make demo        or: python examples/demo.py [PAGE.html]
"""

import base64
import io
import sys
import tempfile
import time
from html import escape
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track as progress
from rich.table import Table

import supple as sp
from supple.collision import Box, Capsule, contacts
from supple.plot import palette
from supple.plot.animation import Animation, Arm
from supple.plot.figures import new_figure

DT = 0.004  # time step [s]
POSES = 100_000


def wrist_of_puma():
    """Return a PUMA 560 and a tool path that turns the hand until the axes 4 and 6 line up."""
    robot = sp.load("puma560").with_limits(max_speed=3.0)
    q = np.radians([0, -50, 190, 20, -35, 0])
    return robot, q, 0.6 * robot.jacobian(q)[:, 4] + [0.05, 0, 0, 0, 0, 0.04]


def elbow_of_panda():
    """Return a Panda and a tool path that pulls the arm straight."""
    robot = sp.load("panda")
    return robot, np.array([0.3, 0.2, 0.0, -1.6, 0.1, 1.9, 0.8]), [0.12, 0.05, 0.08, 0, 0, 0.1]


def methods(robot):
    """Return the four methods by name: a step, and whether joint limits are applied."""
    return {
        "pseudoinverse": (sp.steps.Pseudoinverse(), False),
        "constant": (sp.DLS(sp.damping.Constant.for_robot(robot, dt=DT)), True),
        "optimal": (sp.DLS(sp.damping.Optimal(max_speed=2.0)), True),
        "default": (None, True),
    }


def drive(robot, q, twist, step, limited, duration=4.0):
    """Return the motion of a drive there and back, and the time of a step [µs]."""
    limits = None if limited else sp.Limits.none(robot)
    swing = lambda t: np.sin(2 * np.pi * t / duration) * np.pi / 2 * np.array(twist)  # noqa: E731
    motion = sp.simulate(
        robot, q, velocity=swing, dt=DT, duration=duration, step=step, limits=limits
    )
    commands, times = [swing(t) for t in motion.t[:-1]], []
    for _ in range(5):  # the fastest round counts: other programs only add time
        servo, at = sp.Servo(robot, dt=DT, step=step, limits=limits), q.copy()
        began = time.perf_counter()
        for command in commands:
            servo(at, command, out=at)
        times.append(time.perf_counter() - began)
    return motion, 1e6 * min(times) / len(commands)


def time_at_start(robot, q, twist):
    """Return the time of a default step at the start, which is far from singular [µs]."""
    servo, out, times = sp.Servo(robot, dt=DT), np.empty(robot.dof), []
    command = np.array(twist, dtype=float)
    for _ in range(20):
        began = time.perf_counter()
        for _ in range(500):
            servo(q, command, out=out)
        times.append(time.perf_counter() - began)
    return 1e6 * min(times) / 500


def row(name, motion, microseconds):
    """Return the numbers of one motion as a row of the table."""
    speed = np.linalg.norm(motion.qd, axis=1).max()
    acceleration = np.abs(np.diff(motion.qd, axis=0)).max() / DT
    missed = np.linalg.norm((motion.velocity - motion.command), axis=1).max()
    return [
        name,
        f"{speed:.2f}",
        f"{missed:.3f}",
        f"{acceleration:,.0f}",
        f"{microseconds:.1f}",
        f"{motion.sigma_min.min():.4f}",
    ]


HEAD = (
    "damping",
    "peak ‖q̇‖",
    "peak error of velocity",
    "peak acceleration",
    "mean µs per step",
    "least σ_min",
)
UNITS = ("", "rad/s", "m/s, rad/s", "rad/s²", "", "")


def show(title, rows):
    """Print the table of one arm."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for name, unit in zip(HEAD, UNITS, strict=True):
        justify = "left" if name == HEAD[0] else "right"
        title = f"{name}\n{unit}" if unit else name
        table.add_column(title, justify=justify, no_wrap=name == HEAD[0])
    for cells in rows:
        table.add_row(*cells)
    Console().print(table)


def curves(title, motions):
    """Return a figure of speeds and singular values as an HTML image."""
    figure = new_figure(9, 3.2)
    left, right = figure.subplots(1, 2)
    for k, (name, motion) in enumerate(motions.items()):
        speed = np.linalg.norm(motion.qd, axis=1)
        how = {"color": palette.SERIES[k], "ls": palette.DASHES[k], "label": name}
        left.semilogy(motion.t[1:], np.maximum(speed, 1e-2), **how)
        right.semilogy(motion.t[1:], np.maximum(motion.sigma_min, 1e-5), **how)
    left.set_title(f"{title}: joint speed ‖q̇‖ [rad/s]")
    right.set_title("smallest singular value")
    left.legend(fontsize=8)
    for ax in (left, right):
        ax.set_xlabel("time [s]")
        ax.grid(color="#dddddd")
    file = io.BytesIO()
    figure.savefig(file, format="svg")
    data = base64.b64encode(file.getvalue()).decode()
    return f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(title)}">'


def animation(title, robot, motions):
    """Return the four arms side by side, moving."""
    colors = dict(zip(motions, palette.SERIES, strict=False))
    arms = []
    for name, motion in motions.items():
        speeds = np.linalg.norm(motion.qd, axis=1)
        notes = [f"‖q̇‖ {speed:.1f}" for speed in np.concatenate([speeds[:1], speeds])]
        arms.append(Arm(robot, motion.q, name, colors[name], note=notes))
    return Animation(next(iter(motions.values())).t, arms, title=title).player(robot.name)


def table_html(rows):
    """Return the table of one arm as HTML."""
    names = [f"{name} [{unit}]" if unit else name for name, unit in zip(HEAD, UNITS, strict=True)]
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>" for cells in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def slide_along_a_box():
    """Command a UR5e through a box, with the box and without; return the motions and a sentence."""
    arm, start = sp.load("ur5e"), np.radians([0, -70, 100, -120, -90, 0])
    links = {
        "link2": Capsule(0.06, 0.42, sp.pose([0.2125, 0, 0.13], rpy=[0, np.pi / 2, 0])),
        "link3": Capsule(0.05, 0.39, sp.pose([0.196, 0, 0.02], rpy=[0, np.pi / 2, 0])),
        "tool0": Capsule(0.045, 0.05, [0, 0, -0.04]),
    }
    box = Box([0.3, 0.3, 0.4], arm.fk(start)[:3, 3] + [0, 0.3, -0.2])
    world = sp.World({"box": box}, links=links)
    command = {"velocity": [0, 0.2, -0.01, 0, 0, 0], "dt": DT, "duration": 3.0}
    motions = {
        "through the box": sp.simulate(arm, start, **command),
        "along the box": sp.simulate(arm, start, world=world, clearance=0.01, **command),
    }
    through, along = (contacts_along(arm, world, each) for each in motions.values())
    words = (
        f"A UR5e that is commanded through a box would enter it by {-1e3 * through:.0f} mm. With "
        "the box in its `world`, the arm slides along it, at a distance of at least "
        f"{1e3 * along:.1f} mm; {motions['along the box'].certificate}."
    )
    return arm, motions, words


def contacts_along(arm, world, motion):
    """Return the smallest distance of all pairs at the samples of a motion [m]."""
    return min(contacts(arm, world, q)[0].distance for q in motion.q[::5])


def solve_many():
    """Solve many poses with a progress bar, and return a sentence."""
    robot = sp.load("panda")
    poses = robot.fk(robot.random(POSES, seed=0))
    solved, began = 0, time.perf_counter()
    for part in progress(np.array_split(poses, 50), description=f"solving {POSES:,} poses"):
        solved += int(sp.Solver(robot).batch(part).success.sum())
    took = time.perf_counter() - began
    rate = POSES / took
    return (
        f"{solved:,} of {POSES:,} poses of a Panda solved to 1 µm in {took:.2f} s: {rate:,.0f}/s."
    )


STYLE = """body { margin: 0 auto; max-width: 76rem; padding: 1.5rem; color: #1a1a1a;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif }
h1 { margin: 0 } h2 { margin-top: 2.5rem; border-top: 2px solid #1a1a1a; padding-top: .75rem }
table { border-collapse: collapse; margin: .75rem 0 } img { max-width: 100% }
th, td { text-align: right; padding: .3rem .8rem; border-bottom: 1px solid #dcdcdc }
th:first-child, td:first-child { text-align: left } th { background: #f6f7f8 }"""


def main(path):
    """Run everything and write the page."""
    sections = []
    for title, make in (
        ("PUMA 560: the wrist lines up", wrist_of_puma),
        ("Panda: the arm is pulled straight", elbow_of_panda),
    ):
        robot, q, twist = make()
        motions, rows = {}, []
        for name, (step, limited) in methods(robot).items():
            motions[name], took = drive(robot, q, twist, step, limited)
            rows.append(row(name, motions[name], took))
        show(title, rows)
        note = (
            "A step near the singularity takes longer than others; at the start of the motion, a "
            f"default step takes {time_at_start(robot, q, twist):.1f} µs."
        )
        print(note)
        moving = animation(title, robot, motions)
        parts = (
            f"<h2>{title}</h2>",
            moving,
            table_html(rows),
            f"<p>{note}</p>",
            curves(title, motions),
        )
        sections.append("\n".join(parts))
    arm, motions, words = slide_along_a_box()
    print(words)
    moving = animation("UR5e: along a box", arm, motions)
    sections.append(f"<h2>UR5e: along a box</h2>{moving}<p>{escape(words)}</p>")
    words = solve_many()
    print(words)
    page = f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><link rel="icon" href="data:,">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>supple: arms through singularities</title><style>{STYLE}</style></head>
<body><h1>Arms through singularities</h1>
<p>The same command for each arm, there and back, by four methods. The pseudoinverse has no limits;
the others keep the speed limits of the joints. Drag an arm to turn the view.</p>
{"".join(sections)}
<h2>Position IK</h2><p>{escape(words)}</p></body></html>"""
    path.write_text(page, encoding="utf-8")
    print(f"\nThe arms in motion: {path.resolve()}")


if __name__ == "__main__":
    chosen = [word for word in sys.argv[1:] if word.endswith(".html")]
    main(Path(chosen[0]) if chosen else Path(tempfile.gettempdir()) / "supple-demo.html")
