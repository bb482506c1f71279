"""A Panda's hand follows a moving pose exactly while its elbow moves towards a preferred posture.

Seven joints and six rows leave one degree of freedom. An objective uses it through the null space,
without disturbing the hand. The hand draws a circle while it tilts.
"""

import numpy as np

import supple as sp

DT, SECONDS = 0.005, 6.0  # [s]


def main():
    """Follow with and without the objective, and compare."""
    robot = sp.load("panda")
    q0 = np.array([0.2, -0.5, 0.3, -2.1, 0.2, 1.7, 0.8])
    T0 = robot.fk(q0)
    comfortable = np.array([0.0, -0.4, -0.6, -2.1, 0.0, 1.8, 0.8])
    posture = sp.criteria.RestPosture(comfortable)

    def hand(t):
        """Return the pose of the hand (4, 4) at time t [s]."""
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
        print(f"  hand, second half: at most {1e3 * np.abs(settled[:, :3]).max():.3f} mm off")
        before, after = posture.value(q0), posture.value(motion.q[-1])
        print(f"  distance from the posture: {before:.3f} -> {after:.3f}")


if __name__ == "__main__":
    main()
