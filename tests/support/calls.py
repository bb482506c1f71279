"""Every kinematic method of a robot, by name, as a function of q alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import supple

Array = np.ndarray
Call = Callable[..., Array]


def speeds(q: Array) -> Array:
    """Return joint velocities (..., n) by an arbitrary function of q (..., n)."""
    q = np.asarray(q)
    return (np.cos(np.arange(q.shape[-1])) + np.sign(q)).astype(q.dtype)


def calls(robot: supple.Robot) -> dict[str, Call]:
    """Return the kinematic methods of a robot by name, as functions f(q, threads=...)."""
    frames, other = robot.frames, robot.frames[len(robot.frames) // 2]

    def bias_acceleration(q: Array, threads: int | None = None, axes: str = "world") -> Array:
        return robot.bias_acceleration(q, speeds(q), axes=axes, threads=threads)

    return {
        "fk": robot.fk,
        "fk of all frames": lambda q, threads=None: robot.fk(q, frames, threads=threads),
        "jacobian": robot.jacobian,
        "jacobian in body axes": lambda q, threads=None: robot.jacobian(
            q, frames, axes="body", threads=threads
        ),
        "jacobian in other axes": lambda q, threads=None: robot.jacobian(
            q, axes=other, threads=threads
        ),
        "jacobian in spatial coordinates": lambda q, threads=None: robot.jacobian(
            q, frames, axes="spatial", threads=threads
        ),
        "bias_jerk": lambda q, threads=None: robot.bias_jerk(
            q, speeds(q), speeds(q)[..., ::-1], axes=other, threads=threads
        ),
        "bias_acceleration": bias_acceleration,
        "bias_acceleration in body axes": lambda q, threads=None: bias_acceleration(
            q, threads, "body"
        ),
        "bias_acceleration in other axes": lambda q, threads=None: bias_acceleration(
            q, threads, other
        ),
        "singular values": robot.singular_values,
        "singular values of positions": lambda q, threads=None: robot.singular_values(
            q, rows=("x", "y", "z"), threads=threads
        ),
        "manipulability": robot.manipulability,
        "poses of fk_jacobian": lambda q, threads=None: robot.fk_jacobian(q, threads=threads)[0],
        "jacobian of fk_jacobian": lambda q, threads=None: robot.fk_jacobian(q, threads=threads)[1],
    }


def mimicking() -> supple.Robot:
    """Return a robot with branches, prismatic and mimic joints and two end effectors."""
    from supple.describe import Description, Joint, Mimic

    rng = np.random.default_rng(5)
    kinds = ("revolute", "prismatic", "revolute", "continuous", "revolute", "prismatic", "revolute")
    parents = (0, 1, 2, 3, 2, 5, 6)
    mimics = {3: Mimic("joint0", -2.0, 0.3), 5: Mimic("joint1", 0.5, 0.1)}
    joints = []
    for i, (kind, parent) in enumerate(zip(kinds, parents, strict=True)):
        origin = np.eye(4)
        origin[:3, :3] = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        origin[:3, :3] *= np.sign(np.linalg.det(origin[:3, :3]))
        origin[:3, 3] = rng.uniform(-0.5, 0.5, 3)
        name, axis = f"joint{i}", rng.normal(size=3)
        ends = (f"link{parent}", f"link{i + 1}")
        joints.append(Joint(name, kind, *ends, origin=origin, axis=axis, mimic=mimics.get(i)))
    return supple.Robot(Description("mimicking", tuple(joints)))
