"""Track a circle above a table while a ball crosses it: the arm gives way and returns."""

import numpy as np

import supple as sp
from supple.collision import Box, Capsule, Sphere, contacts

arm = sp.load("ur5e")

# A capsule for each long part of the arm. The shapes of a URDF file are in `arm.shapes`.
sideways = [0, np.pi / 2, 0]
links = {
    "link2": Capsule(0.06, 0.42, sp.pose([0.2125, 0, 0.13], rpy=sideways)),
    "link3": Capsule(0.05, 0.39, sp.pose([0.196, 0, 0.02], rpy=sideways)),
    "link4": Capsule(0.045, 0.05, [0, 0, -0.03]),
    "tool0": Capsule(0.045, 0.05, [0, 0, -0.04]),
}
table = Box([1.6, 1.6, 0.05], [0, 0, -0.03])
ball = Sphere(0.06, [-0.6, -0.7, 0.3])
speed = 0.25  # speed of the ball [m/s]; the certificate needs a bound
world = sp.World({"table": table, "ball": ball}, links=links, speeds={"ball": speed})

start = sp.solve(arm, sp.pose([-0.45, 0.1, 0.25], rpy=[np.pi, 0, 0]), world=world, clearance=0.02).q
center = arm.fk(start)
dt, clearance = 0.004, 0.01
servo = sp.Servo(arm, dt=dt, world=world, clearance=clearance)

q, closest, farthest, held = start, np.inf, 0.0, 0
for k in range(2500):
    angle = 2 * np.pi * k * dt / 4
    target = center.copy()
    target[:3, 3] += [0, 0.1 * np.sin(angle), 0.05 * (1 - np.cos(angle))]
    q = servo(q, target=target)
    closest = min(closest, contacts(arm, world, q)[0].distance)
    farthest = max(farthest, float(np.linalg.norm((arm.fk(q) - target)[:3, 3])))
    held += sp.StepStatus.COLLISION_LIMIT in servo.status
    # Between two calls the ball moves on, across the circle, and the world gets its new place.
    world = world.moved({"ball": [-0.6, -0.7 + 0.8 * speed * k * dt, 0.3]})
    servo.world = world

print(f"closest {1e3 * closest:.1f} mm, never below {1e3 * clearance:.0f} mm")
print(f"gave way in {held} of 2500 steps, by up to {1e3 * farthest:.0f} mm")
print(f"behind the target at the end: {1e3 * np.linalg.norm((arm.fk(q) - target)[:3, 3]):.0f} mm")
assert closest >= clearance - 1e-9
