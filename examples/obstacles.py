"""Reach around a table and a box without collisions, and see which pairs block a pose."""

import numpy as np

import supple as sp
from supple.collision import Box, Capsule, collides

arm = sp.load("ur5e")

# A capsule for each long part of the arm. The shapes of a URDF file are in `arm.shapes`.
along_x = sp.pose([0.2125, 0, 0.13], rpy=[0, np.pi / 2, 0])
links = {
    "link2": [Capsule(0.06, 0.42, along_x)],
    "link3": [Capsule(0.05, 0.39, sp.pose([0.196, 0, 0.02], rpy=[0, np.pi / 2, 0]))],
    "link4": [Capsule(0.045, 0.05, [0, 0, -0.03])],
    "tool0": [Capsule(0.045, 0.05, [0, 0, -0.04])],
}
table = Box([1.2, 1.2, 0.05], [0, 0, -0.03])
box = Box([0.3, 0.3, 0.4], [-0.45, 0.05, 0.2])
world = sp.World({"table": table, "box": box}, links=links)

# Above the box, the tool pointing down: some of the eight solutions hit the box or the table.
above = sp.pose([-0.45, 0.1, 0.5], rpy=[np.pi, 0, 0])
every = sp.Solver(arm).all(above)
hit = collides(arm, world, every.q)
print(f"{len(every)} solutions, {hit.sum()} of them collide")

found = sp.solve(arm, above, world=world, clearance=0.01)
print(found)
print(f"nearest pair {1e3 * found.clearance:.0f} mm apart")

# Inside the box every solution collides; the result shows a colliding pair for each of them.
inside = sp.pose([-0.45, 0.1, 0.3], rpy=[np.pi, 0, 0])
blocked = sp.solve(arm, inside, world=world)
print(blocked)
for q, pairs in blocked.blocked[:3]:
    print(q.round(2), pairs[0])

# Without the box, the same pose can be reached.
print(sp.solve(arm, inside, world=world.without("box")).status)
