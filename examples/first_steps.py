"""A robot, where its tool is, and what a singularity does to it."""

import numpy as np

import supple as sp

np.set_printoptions(precision=4, suppress=True)

robot = sp.load("ur5e")
print(robot.summary())

regular = np.radians([0, -70, 100, -120, -60, 0])
singular = np.radians([0, -70, 100, -120, 0, 0])  # joints 4 and 6 turn about parallel axes

for name, q in (("regular", regular), ("singular", singular)):
    sigma = robot.singular_values(q)
    print(f"\nAt a {name} configuration, q = {np.degrees(q)} degrees, the tool is at")
    print(robot.fk(q))
    print("and the singular values of its Jacobian are", sigma)
    if sigma[-1] > 1e-12 * sigma[0]:
        print(f"The slowest direction needs joint speeds {1 / sigma[-1]:.1f} times the tool's.")
    else:
        print("One direction of motion is lost: no joint speed moves the tool that way.")

q = robot.random(0, 100_000)
near = robot.singular_values(q)[:, -1] < 0.01
print(f"\n{near.mean():.1%} of {len(q)} random configurations ask for more than 100 times.")
