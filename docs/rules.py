"""Draw docs/rules.svg: joint speed and missed tool velocity under several damping rules.

    python docs/rules.py

A UR5e turns its tool and moves it slowly while its wrist passes a singularity.
"""

from pathlib import Path

import numpy as np
from curves import picture

import supple as sp

DT, SECONDS = 0.004, 4.0  # [s]
START = np.radians([0, -70, 100, -120, -40, 0])
TWIST = np.array([0.05, 0, 0, -0.4, 0, 0])  # [m/s, rad/s]
STYLES = {
    "Constant": ("#009e73", "2 4"),
    "Optimal": ("#cc79a7", "8 4"),
    "Curvature": ("#0072b2", "none"),
}


def motions():
    """Return the motion under each rule, within the default limits of a `Servo`."""
    robot = sp.load("ur5e")
    steps = (
        sp.DLS(sp.damping.Constant(0.05**2)),
        sp.DLS(sp.damping.Optimal(max_speed=1.5)),
        sp.DLS(sp.damping.Curvature.for_robot(robot, dt=DT)),
    )
    return {
        name: sp.simulate(
            robot,
            START,
            velocity=lambda t: TWIST,
            dt=DT,
            duration=SECONDS,
            step=step,
        )
        for name, step in zip(STYLES, steps, strict=True)
    }


def drawn():
    """Return the SVG as text."""
    found = motions()
    t = next(iter(found.values())).t[1:]
    speed = {name: (t, np.linalg.norm(m.qd, axis=1)) for name, m in found.items()}
    missed = {
        name: (t, np.linalg.norm(m.velocity - m.command, axis=1)) for name, m in found.items()
    }
    for name in found:
        fastest, most = speed[name][1].max(), missed[name][1].max()
        print(f"{name}: ‖q̇‖ up to {fastest:.2f}, missed up to {most:.3f}")
    panels = (
        ("joint speed ‖q̇‖ [rad/s]", 4, range(5), speed),
        ("missed velocity of the tool", 0.2, np.arange(0, 0.21, 0.05), missed),
    )
    return picture("Damping rules past a singular wrist", panels, STYLES, SECONDS)


if __name__ == "__main__":
    file = Path(__file__).with_suffix(".svg")
    file.write_text(drawn())
    print("written to", file)
