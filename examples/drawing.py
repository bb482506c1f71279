"""A KUKA youBot, an arm with five joints, draws a circle on a table.

Five joints cannot meet the six numbers of a pose. A pen needs five: its point and its direction.
"""

import numpy as np

import supple as sp

robot = sp.load("youbot")
tip = robot.tips[0]
tasks = [sp.PositionTask(tip), sp.AxisTask(tip, axis=(0, 0, 1))]

start = sp.solve(robot, ([0.25, 0.0, 0.0], [0, 0, -1]), tasks=tasks)  # the pen points down
print(start)


def circle(t):
    """Return the point of the pen [m] and its direction at time t [s]."""
    return [0.20 + 0.05 * np.cos(t), 0.05 * np.sin(t), 0.0], [0, 0, -1]


motion = sp.track(robot, start.q, target=circle, tasks=tasks, dt=0.005, duration=2 * np.pi)
drawn = robot.fk(motion.q)[:, :3, 3]
off = np.linalg.norm(drawn - [circle(t)[0] for t in motion.t], axis=1)
print(f"the pen is at most {1e3 * off.max():.2f} mm off the circle")
