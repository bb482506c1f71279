"""Targets out of reach: the closest pose, the reason, and a servo that stops without trembling."""

import numpy as np

import supple as sp

robot = sp.load("panda")
far = sp.pose([1.2, 0.3, 0.4], rpy=[np.pi, 0, 0])  # the arm is about 0.85 m long

found = sp.solve(robot, far, explain=True)
print(found)

position = sp.solve(robot, far[:3, 3], tasks=sp.PositionTask())
print(f"\nwithout the orientation: {position.position_error:.3f} m away")

# A servo whose target leaves the workspace stretches out, stops, and comes back.
ready = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])
home = robot.fk(ready)
beyond = home + 0.0
beyond[:2, 3] += [0.8, 0.1]  # [m]
goal = [beyond if t < 4.0 else home for t in np.arange(0, 8.0, 0.01)]
motion = sp.simulate(robot, ready, target=goal, dt=0.01, feedforward=False)
stretched = np.abs(motion.qd[350:398]).max()
print(f"fastest joint in front of the target: {stretched:.4f} rad/s")
print(f"back home: {1e3 * np.abs(robot.fk(motion.q[-1]) - home).max():.3f} mm off")
