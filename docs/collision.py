"""Draw docs/collision.svg: an arm commanded through a box, with the box as its world and without.

python docs/collision.py
"""

from pathlib import Path

import numpy as np
from curves import picture

import supple as sp
from supple.collision import Box, Capsule
from supple.collision.model import model_of

SECONDS = 3.0
CLEARANCE = 0.01  # [m]
STYLES = {
    "without a world": ("#cc79a7", "8 4"),
    "world=, clearance=0.01": ("#0072b2", "none"),
}
SIDEWAYS = [0, np.pi / 2, 0]
LINKS = {
    "link2": Capsule(0.06, 0.42, sp.pose([0.2125, 0, 0.13], rpy=SIDEWAYS)),
    "link3": Capsule(0.05, 0.39, sp.pose([0.196, 0, 0.02], rpy=SIDEWAYS)),
    "tool0": Capsule(0.045, 0.05, [0, 0, -0.04]),
}
START = np.radians([0, -70, 100, -120, -90, 0])


def motions():
    """Return a world, and the motions of a UR5e with and without it, by name."""
    arm = sp.load("ur5e")
    at = arm.fk(START)[:3, 3] + np.array([0, 0.3, -0.2])
    world = sp.World({"box": Box([0.3, 0.3, 0.4], at)}, links=LINKS)
    twist = [0, 0.2, -0.01, 0, 0, 0]
    options = {"velocity": twist, "dt": 0.004, "duration": SECONDS}
    return world, {
        "without a world": sp.simulate(arm, START, **options),
        "world=, clearance=0.01": sp.simulate(
            arm, START, world=world, clearance=CLEARANCE, **options
        ),
    }


def drawn():
    """Return the SVG as text."""
    world, found = motions()
    arm = sp.load("ur5e")
    kernel = model_of(arm, world).kernel
    near, height = {}, {}
    for name, motion in found.items():
        d = np.array([kernel.min_distance(q)[0] for q in motion.q[::5]])
        near[name] = motion.t[::5], 1e3 * np.maximum(d, 0)
        z = arm.fk(motion.q)[::5, 2, 3]
        height[name] = motion.t[::5], 1e3 * (z - z[0]) + 100
        print(f"{name}: {1e3 * d.min():.2f} mm; {motion.certificate}")
    panels = (
        ("distance of the nearest pair [mm]", 60, range(0, 61, 10), near),
        ("height of the tool, 100 mm at the start", 200, range(0, 201, 50), height),
    )
    return picture("An arm that slides along a box", panels, STYLES, SECONDS)


if __name__ == "__main__":
    file = Path(__file__).with_suffix(".svg")
    file.write_text(drawn())
    print("written to", file)
