"""The oracle for derivatives in time: forward kinematics on values with three exact derivatives.

A jet is the list [x, ẋ, ẍ, x⃛] of an array; products follow Leibniz' rule. A joint's motion is the
exponential of its generator, whose derivatives are known, so nothing is differentiated numerically.
"""

from __future__ import annotations

from math import comb

import numpy as np

from slow_fk import coordinates, motion
from supple.describe import Description, Joint

Array = np.ndarray
Jet = list[Array]
ORDER = 3


def constant(x: Array) -> Jet:
    return [x, *[np.zeros_like(x)] * ORDER]


def product(A: Jet, B: Jet, times=np.matmul) -> Jet:
    return [sum(comb(k, i) * times(A[i], B[k - i]) for i in range(k + 1)) for k in range(ORDER + 1)]


def transpose(A: Jet) -> Jet:
    return [x.T for x in A]


def cross(a: Jet, b: Jet) -> Jet:
    return product(a, b, np.cross)


def vee(W: Array) -> Array:
    return np.array([W[2, 1] - W[1, 2], W[0, 2] - W[2, 0], W[1, 0] - W[0, 1]]) / 2


def joint_jet(joint: Joint, q: float, qd: float, qdd: float) -> Jet:
    """Return exp(G q(t)) with its derivatives at q⃛ = 0; G is the joint's generator (4, 4)."""
    x, y, z = joint.axis
    turn = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    G = np.zeros((4, 4))
    if joint.kind != "prismatic":
        G[:3, :3] = turn
    G[:3, 3] = joint.axis * (1.0 if joint.kind == "prismatic" else joint.pitch)
    E = motion(joint, q)
    return [
        E,
        qd * G @ E,
        (qdd * G + qd**2 * G @ G) @ E,
        3 * qd * qdd * G @ G @ E + qd**3 * G @ G @ G @ E,
    ]


def poses(robot: Description, q: Array, qd: Array, qdd: Array) -> dict[str, Jet]:
    """Return T_root_x of every link and frame x as jets (4, 4)."""
    names = [joint.name for joint in coordinates(robot)]
    state = {name: (q[i], qd[i], qdd[i]) for i, name in enumerate(names)}
    for joint in robot.joints:
        if joint.mimic is not None:
            m, followed = joint.mimic, state[joint.mimic.joint]
            state[joint.name] = (
                m.multiplier * followed[0] + m.offset,
                *(m.multiplier * x for x in followed[1:]),
            )
    T = {robot.root: constant(np.eye(4))}
    for joint in robot.joints:
        moved = constant(joint.origin)
        if joint.kind != "fixed":
            moved = product(moved, joint_jet(joint, *state[joint.name]))
        T[joint.child] = product(T[joint.parent], product(moved, constant(joint.child_placement)))
    return T | {f.name: product(T[f.link], constant(f.placement)) for f in robot.frames}


def twist(T: Jet, axes: str, reference: Jet | None = None) -> Jet:
    """Return the twist (6,) of a pose and the first two derivatives of the twist, in `axes`.

    Args:
        T: The pose in the world.
        axes: "world", "body", "spatial", or "frame" for the axes of `reference`.
        reference: The pose whose axes are used.
    """
    R, p = [x[:3, :3] for x in T], [x[:3, 3] for x in T]
    spin = product([*R[1:], np.zeros((3, 3))], transpose(R))
    w = [*map(vee, spin[:3]), np.zeros(3)]
    v = [*p[1:], np.zeros(3)]
    if axes == "spatial":
        v = [x + y for x, y in zip(v, cross(p, w), strict=True)]
    elif axes != "world":
        C = transpose([x[:3, :3] for x in (T if axes == "body" else reference)])
        v, w = product(C, v), product(C, w)
    return [np.concatenate(each) for each in zip(v[:3], w[:3], strict=True)]
