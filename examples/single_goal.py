"""Joint angles for one pose: the first solution, the nearest one, and several."""

import numpy as np

import supple as sp

robot = sp.load("panda")  # or sp.urdf("arm.urdf")
goal = sp.pose([0.45, 0.2, 0.4], rpy=[np.pi, 0, 0])  # the hand points down

found = sp.solve(robot, goal)
print(found)
print("q [rad]:", found.q.round(3))
print("the hand is at", robot.fk(found.q)[:3, 3].round(6), "m")

here = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])
near = sp.solve(robot, goal, q0=here)
print("largest joint motion from here:", np.abs(near.q - here).max().round(2), "rad")

several = sp.Solver(robot).several(goal, 4)
print("four solutions, largest difference:", np.ptp(several.q, axis=0).max().round(2), "rad")
