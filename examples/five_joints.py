"""An arm with five joints reaches and follows poses whose rotation about the tool axis is free.

Five joints cannot meet the six numbers of a pose. The rotation of a drill or a torch about its own
axis does not matter: `about="z"` leaves this rotation to the arm.
"""

import numpy as np

import supple as sp

DT, SECONDS = 0.005, 4.0  # [s]


def main():
    """Solve for random poses, then follow a circle."""
    robot = sp.load("ur5e").freeze(["wrist_3_joint"])  # a tool replaces the last joint
    tool = sp.PoseTask(about="z")
    poses = robot.fk(robot.random(1000, seed=1))
    rng = np.random.default_rng(2)
    angles = rng.uniform(-np.pi, np.pi, len(poses))
    spin = np.tile(np.eye(4), (len(poses), 1, 1))
    spin[:, 0, 0] = spin[:, 1, 1] = np.cos(angles)
    spin[:, 1, 0] = np.sin(angles)
    spin[:, 0, 1] = -np.sin(angles)
    for name, task in (("all six rows", sp.PoseTask()), ("free about z", tool)):
        met = sp.Solver(robot, task).batch(poses @ spin).success.mean()
        print(f"{name}: {met:.1%} of 1000 turned poses reached")

    q0 = np.array([0.3, -1.6, 1.9, -1.8, -1.5])
    T0 = robot.fk(q0)

    def circle(t):
        """Return a pose (4, 4) at time t [s], with the rotation of the start."""
        angle = 2 * np.pi * t / SECONDS
        around = 0.1 * np.array([np.cos(angle) - 1, np.sin(angle), 0.0])
        return sp.pose(T0[:3, 3] + around, rotation=T0[:3, :3])

    motion = sp.simulate(robot, q0, target=circle, dt=DT, duration=SECONDS, tasks=tool)
    T, goal = robot.fk(motion.q), np.array([circle(t) for t in motion.t])
    far = np.linalg.norm(T[:, :3, 3] - goal[:, :3, 3], axis=1).max()
    tilt = np.arccos(np.clip((T[:, :3, 2] * goal[:, :3, 2]).sum(axis=1), -1, 1)).max()
    print(f"circle: at most {1e3 * far:.2f} mm and {np.degrees(tilt):.2f} degrees off")


if __name__ == "__main__":
    main()
