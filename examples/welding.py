"""A welding torch follows a seam; the arm may tilt it within a cone to save joint motion.

The tip stays on the seam within a millimeter. The axis of the torch may be up to 15 degrees off the
ideal axis, and the rotation of the torch about its axis does not matter.
"""

import math

import numpy as np

import supple as sp

DT, SECONDS = 0.005, 4.0  # [s]
CONE, WIDTH = math.radians(15), 1e-3  # [rad], [m]


def main():
    """Follow the seam with all six rows, and with tolerances."""
    robot = sp.load("ur5e")
    q0 = np.array([0.3, -1.6, 1.9, -1.8, -1.5, 0.2])
    T0 = robot.fk(q0)

    def seam(t):
        """Return the ideal pose (4, 4) of the torch, which nods along a line, at time t [s]."""
        nod = math.radians(25) * math.sin(math.pi * t / 2)
        turn = [[math.cos(nod), 0, math.sin(nod)], [0, 1, 0], [-math.sin(nod), 0, math.cos(nod)]]
        return sp.pose(T0[:3, 3] + [0, 0.05 * t, 0], rotation=turn @ T0[:3, :3])

    torch = sp.PoseTask(about="z", cone=CONE, tolerance={"x": WIDTH, "y": WIDTH, "z": WIDTH})
    for name, task in (("exact", sp.PoseTask()), ("torch", torch)):
        motion = sp.simulate(robot, q0, target=seam, dt=DT, duration=SECONDS, tasks=task)
        T, ideal = robot.fk(motion.q), np.array([seam(t) for t in motion.t])
        off = np.abs(T[:, :3, 3] - ideal[:, :3, 3]).max()
        cosines = (T[:, :3, 2] * ideal[:, :3, 2]).sum(axis=1)
        tilt = math.degrees(np.arccos(np.clip(cosines, -1, 1)).max())
        qd = np.abs(np.diff(motion.q, axis=0)).max() / DT
        print(f"{name}: {1e3 * off:.2f} mm and {tilt:.1f} degrees off, joints up to {qd:.2f} rad/s")


if __name__ == "__main__":
    main()
