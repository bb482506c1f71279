"""Random robots, and functions that write robots as URDF and MJCF text with all digits."""

from __future__ import annotations

import math

import numpy as np

from supple.describe import Description, Joint, dh


def random_pose(rng: np.random.Generator) -> np.ndarray:
    """Return a pose with a random rotation and a translation of at most a meter."""
    Q, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    T = np.eye(4)
    T[:3, :3] = Q * np.sign(np.linalg.det(Q))
    T[:3, 3] = rng.uniform(-1, 1, 3)
    return T


def random_tree(seed: int, n: int = 8) -> Description:
    """Return a tree with joints of every kind, each on a random earlier link."""
    rng = np.random.default_rng(seed)
    joints = []
    for i in range(n):
        kind = (
            str(rng.choice(["revolute", "prismatic", "continuous", "fixed"])) if i else "revolute"
        )
        lower, upper = np.sort(rng.uniform(-3, 3, 2))
        limited = kind in ("revolute", "prismatic")
        joints.append(
            Joint(
                name=f"joint{i + 1}",
                kind=kind,  # type: ignore[arg-type]
                parent=f"link{rng.integers(i + 1)}",
                child=f"link{i + 1}",
                origin=random_pose(rng),
                axis=rng.normal(size=3),
                child_placement=random_pose(rng),
                lower=lower if limited else -math.inf,
                upper=upper if limited else math.inf,
            )
        )
    return Description("tree", tuple(joints))


def random_dh(seed: int, convention: str, n: int = 6) -> Description:
    """Return a serial robot of R and P joints; half of its angles alpha are multiples of 90°."""
    rng = np.random.default_rng(seed)
    table = rng.uniform(-2, 2, (n, 4))
    table[::2, 1] = rng.choice([-math.pi / 2, 0, math.pi / 2, math.pi], (n + 1) // 2)
    kinds = [str(kind) for kind in rng.choice(["R", "P"], n, p=[0.7, 0.3])]
    limits = np.sort(rng.uniform(-3, 3, (n, 2)))
    return dh(table, convention=convention, kinds=kinds, limits=limits)  # type: ignore[arg-type]


def numbers(values: np.ndarray) -> str:
    return " ".join(repr(float(value)) for value in values)


def rpy(T: np.ndarray) -> np.ndarray:
    """Return roll, pitch, yaw [rad] of a pose: R = Rz(yaw) Ry(pitch) Rx(roll)."""
    R = T[:3, :3]
    pitch = math.atan2(-R[2, 0], math.hypot(R[0, 0], R[1, 0]))
    if math.hypot(R[0, 0], R[1, 0]) < 1e-12:  # gimbal lock: yaw is set to zero
        return np.array([math.atan2(R[0, 1] * math.copysign(1, pitch), R[1, 1]), pitch, 0.0])
    return np.array([math.atan2(R[2, 1], R[2, 2]), pitch, math.atan2(R[1, 0], R[0, 0])])


def wxyz(T: np.ndarray) -> np.ndarray:
    """Return the quaternion of a pose, scalar first: an eigenvector of Bar-Itzhack's matrix."""
    R = T[:3, :3]
    K = np.zeros((4, 4))
    K[0, 0] = np.trace(R)
    K[0, 1:] = K[1:, 0] = R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]
    K[1:, 1:] = R + R.T - np.trace(R) * np.eye(3)
    return np.linalg.eigh(K)[1][:, -1]


def as_urdf(robot: Description) -> str:
    """Return the robot as a URDF text; child placements become fixed joints."""
    parts = [f'<link name="{name}"/>' for name in robot.links]
    for joint in robot.joints:
        middle = f"{joint.child}/moved"
        limit = f'<limit lower="{joint.lower!r}" upper="{joint.upper!r}" velocity="0" effort="0"/>'
        mimic = ""
        if joint.mimic is not None:
            follows = joint.mimic
            mimic = f'<mimic joint="{follows.joint}" multiplier="{follows.multiplier!r}" '
            mimic += f'offset="{follows.offset!r}"/>'
        parts.append(
            f'<link name="{middle}"/><joint name="{joint.name}" type="{joint.kind}">'
            f'<parent link="{joint.parent}"/><child link="{middle}"/>{_origin(joint.origin)}'
            f'<axis xyz="{numbers(joint.axis)}"/>{limit}{mimic}</joint>'
            f'<joint name="{joint.name}/tail" type="fixed"><parent link="{middle}"/>'
            f'<child link="{joint.child}"/>{_origin(joint.child_placement)}</joint>'
        )
    return f'<robot name="{robot.name}">{"".join(parts)}</robot>'


def _origin(T: np.ndarray) -> str:
    return f'<origin xyz="{numbers(T[:3, 3])}" rpy="{numbers(rpy(T))}"/>'


def as_mjcf(robot: Description) -> str:
    """Return the robot as an MJCF text; its root is the world, child placements become bodies."""
    types = {"revolute": "hinge", "continuous": "hinge", "prismatic": "slide"}
    inertial = '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'

    def bodies(link: str) -> str:
        text = ""
        for joint in (joint for joint in robot.joints if joint.parent == link):
            moving = ""
            if joint.kind != "fixed":
                limits = numbers(np.array([joint.lower, joint.upper]))
                bounded = f'range="{limits}"' if math.isfinite(joint.lower) else ""
                moving = f'<joint name="{joint.name}" type="{types[joint.kind]}" '
                moving += f'axis="{numbers(joint.axis)}" {bounded}/>'
            text += (
                f"<body {_place(joint.origin)}>{inertial}{moving}"
                f'<body name="{joint.child}" {_place(joint.child_placement)}>{inertial}'
                f"{bodies(joint.child)}</body></body>"
            )
        return text

    return (
        f'<mujoco model="{robot.name}"><compiler angle="radian"/>'
        f"<worldbody>{bodies(robot.root)}</worldbody></mujoco>"
    )


def _place(T: np.ndarray) -> str:
    return f'pos="{numbers(T[:3, 3])}" quat="{numbers(wxyz(T))}"'
