"""Three tasks in strict order: the hand's position, then its direction, then a posture.

Seven joints cannot perform all three tasks at once. With weights, every task is missed by a little;
with `Priority`, the first stays exact, and the last uses the remaining freedom.
"""

import numpy as np

import supple as sp

DT = 0.005  # [s]


def main():
    """Compare weights with strict priorities on the same targets."""
    robot = sp.load("panda")
    hand = robot.tips[0]
    q0 = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])
    tasks = [sp.PositionTask(hand), sp.AxisTask(hand, axis=(0, 0, 1)), sp.PostureTask(weight=0.2)]
    posture = np.array([0.5, -0.5, 0.5, -1.7, 0.0, 1.6, 0.8])
    targets = ([0.5, 0.1, 0.4], [0, 0, -1], posture)
    rule = sp.DLS(sp.damping.Curvature.for_robot(robot, dt=DT))
    print("step        position [mm]   direction [deg]   posture [rad]")
    for name, step in (("weights", rule), ("priority", sp.redundancy.Priority(rule))):
        servo = sp.Servo(robot, tasks, step=step, dt=DT)
        q = q0
        for _ in range(1500):
            q = servo(q, target=targets)
        T = robot.fk(q)
        off = 1e3 * np.linalg.norm(T[:3, 3] - targets[0])
        tilt = np.degrees(np.arccos(np.clip(-T[2, 2], -1, 1)))
        print(f"{name:<10} {off:14.3f} {tilt:17.3f} {np.linalg.norm(q - posture):15.3f}")


if __name__ == "__main__":
    main()
