"""A robot at a singularity, a bounded motion through it, and IK for ten thousand poses."""

import time

import numpy as np

import supple as sp

np.set_printoptions(precision=4, suppress=True)

robot = sp.load("ur5e")
print(robot.summary())

regular = np.radians([0, -70, 100, -120, -60, 0])
singular = np.radians([0, -70, 100, -120, 0, 0])  # joints 4 and 6 turn about parallel axes
for name, q in (("regular", regular), ("singular", singular)):
    print(f"\nAt a {name} configuration the singular values are", robot.singular_values(q))
twist = np.array([0.05, 0, 0, -0.4, 0, 0])  # of the tool [m/s, rad/s]
here = sp.PoseTask().linearize(robot, singular, velocity=twist)
print("The singular direction there is", here.singular_direction)

print("\nThe tool moves through it, undamped and with ‖q̇‖ <= 1.5 rad/s:")
print("   t [s]   wrist [deg]   undamped [rad/s]   damped [rad/s]")
start = np.radians([0, -70, 100, -120, -40, 0])
free = sp.Servo(robot, step=sp.steps.Pseudoinverse(), limits=sp.Limits.none(robot), dt=0.004)
servo = sp.Servo(robot, step=sp.DLS(sp.damping.Optimal(1.5)), dt=0.004)
wild, tame, peaks = start.copy(), start.copy(), []
for k in range(1, 1001):
    wild, tame = free(wild, twist), servo(tame, twist)
    peaks.append([np.linalg.norm(free.qd), np.linalg.norm(servo.qd)])
    if k % 125 == 0:
        undamped, damped = np.max(peaks, axis=0)
        print(f"{k * 0.004:8.1f} {np.degrees(tame[4]):13.1f} {undamped:18.2f} {damped:16.2f}")
        peaks = []

poses = robot.fk(robot.random(10_000, seed=0))
begin = time.perf_counter()
found = sp.solve(robot, poses)
took = time.perf_counter() - begin
print(f"\n{found.success.sum()} of {len(poses)} random poses solved to 1 µm in {took:.3f} s.")
