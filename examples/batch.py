"""Solve two thousand poses at once, sort out the failures and measure the reach."""

import time

import numpy as np

import supple as sp

robot = sp.load("ur5e")
rng = np.random.default_rng(0)
places = rng.uniform([-0.9, -0.9, 0.0], [0.9, 0.9, 0.6], (2_000, 3))
poses = sp.pose(places, rpy=[np.pi, 0, 0])  # the tool points down everywhere

begin = time.perf_counter()
found = sp.Solver(robot).batch(poses)  # on all cores; device="cuda" for a GPU
took = time.perf_counter() - begin
print(found)
print(f"{1e6 * took / len(poses):.0f} µs each")

# Each failure has a status and its remaining error.
failed = found[~found.success]
print("missed by", np.median(failed.position_error).round(3), "m in the median")

# One call returns the singular values of the whole batch.
sigma = robot.singular_values(found.q[found.success])[:, -1]
radius = np.linalg.norm(places[found.success][:, :2], axis=1)
print("radius [m]   share reached   median sigma_min")
for inner in np.arange(0.0, 1.0, 0.2):
    ring = (np.linalg.norm(places[:, :2], axis=1) // 0.2).astype(int) == round(inner / 0.2)
    inside = (radius >= inner) & (radius < inner + 0.2)
    share, weakest = found.success[ring].mean(), np.median(sigma[inside])
    print(f"{inner:.1f} to {inner + 0.2:.1f}   {share:13.0%}   {weakest:16.3f}")
