"""Resolved acceleration: a PUMA 560 follows an ellipse with smooth joint accelerations.

With `order=2` the command is an acceleration, corrected by the errors of velocity and position, and
the joints get q̈ = J⁺(ẍ - J̇q̇). The speeds are continuous; with `order=1` they may jump.
"""

import numpy as np

import supple as sp

DT, SECONDS = 0.004, 4.0  # [s]


def main():
    """Follow the same path at both orders, starting at rest."""
    robot = sp.load("puma560")
    q0 = np.array([0.3, -0.8, 2.5, 0.7, 0.9, 0.4])
    T0 = robot.fk(q0)
    rate = 2 * np.pi / SECONDS

    def ellipse(t):
        """Return the pose of the tool (4, 4) at time t [s]."""
        around = [0.1 * np.sin(rate * t), 0.05 * (np.cos(rate * t) - 1), 0.0]
        return sp.pose(T0[:3, 3] + around, rotation=T0[:3, :3])

    def acceleration(t):
        """Return the acceleration of the tool (6,) on the ellipse [m/s², rad/s²]."""
        return -(rate**2) * np.array([0.1 * np.sin(rate * t), 0.05 * np.cos(rate * t), 0, 0, 0, 0])

    for order, feedforward in ((1, None), (2, acceleration)):
        motion = sp.simulate(
            robot,
            q0,
            target=ellipse,
            acceleration=feedforward,
            dt=DT,
            duration=SECONDS,
            order=order,
        )
        jump = np.abs(np.diff(motion.qd, axis=0, prepend=np.zeros((1, robot.dof)))).max() / DT
        off = 1e3 * np.abs(motion.error[-250:, :3]).max()
        print(f"order {order}: at most {jump:7.2f} rad/s², at the end {off:.3f} mm off")


if __name__ == "__main__":
    main()
