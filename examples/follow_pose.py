"""A Panda's hand follows a moving pose, exactly; its elbow seeks a posture of its own.

Seven joints for six rows: the one that is left goes where a criterion pulls, through the null
space, so that the hand does not feel it. The hand writes a circle while it tilts.
"""

import numpy as np

import supple as sp

DT, SECONDS = 0.005, 6.0  # [s]


def main():
    """Follow with and without the criterion, and compare."""
    robot = sp.load("panda")
    q0 = np.array([0.2, -0.5, 0.3, -2.1, 0.2, 1.7, 0.8])
    T0 = robot.fk(q0)
    comfortable = np.array([0.0, -0.4, -0.6, -2.1, 0.0, 1.8, 0.8])
    posture = sp.criteria.RestPosture(comfortable)

    def hand(t):
        """The pose (4, 4) of the hand at a time [s]."""
        angle = 2 * np.pi * t / SECONDS
        tilt = 0.2 * np.sin(angle)
        turn = [[1, 0, 0], [0, np.cos(tilt), -np.sin(tilt)], [0, np.sin(tilt), np.cos(tilt)]]
        centre = T0[:3, 3] - [0.0, 0.08, 0.0]
        around = np.array([0.0, np.cos(angle), np.sin(angle)])
        return sp.pose(centre + 0.08 * around, rotation=turn @ T0[:3, :3])

    rule = sp.damping.Curvature.for_robot(robot, dt=DT)
    for name, step in (
        ("hand alone", sp.DLS(rule)),
        ("with posture", sp.redundancy.NullSpace(sp.DLS(rule), posture, gain=2.0)),
    ):
        motion = sp.track(robot, q0, target=hand, dt=DT, duration=SECONDS, step=step)
        settled = motion.error[len(motion) // 2 :]
        print(f"\n{name}\n{motion}")
        print(f"  hand, second half: {1e3 * np.abs(settled[:, :3]).max():.3f} mm off at most")
        print(f"  from the posture: {posture.value(q0):.3f} -> {posture.value(motion.q[-1]):.3f}")


if __name__ == "__main__":
    main()
