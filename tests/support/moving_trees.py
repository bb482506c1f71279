"""Random robots with ball, planar and floating joints, and MuJoCo's models of some of them."""

from __future__ import annotations

from collections.abc import Callable

import mujoco
import numpy as np

import supple as sp
from generated import robot as generated_robot
from supple.describe import Description, Joint
from trees import axis

Array = np.ndarray


def numbers(values: object) -> str:
    return " ".join(f"{x:.17g}" for x in np.ravel(values))


def body_text(rng: np.random.Generator, names: list[str], depth: int) -> str:
    """Return an MJCF body with a random joint, mass and children."""
    name = f"b{len(names)}"
    names.append(name)
    kind = rng.choice(["free"] * (depth == 0) + ["ball", "hinge", "slide", "none"])
    spot = f'pos="{numbers(rng.normal(size=3))}"'
    quat = f'quat="{numbers(rng.normal(size=4))}"'
    joint = {
        "free": f'<freejoint name="{name}j"/>',
        "none": "",
    }.get(
        kind, f'<joint name="{name}j" type="{kind}" {spot} axis="{numbers(rng.normal(size=3))}"/>'
    )
    children = "".join(
        body_text(rng, names, depth + 1)
        for _ in range(int(rng.integers(1, 3)))
        if depth < 4 and len(names) < 14
    )
    moments = numbers(rng.uniform(0.5, 0.9, 3))
    inertial = (
        f'<inertial pos="{numbers(rng.normal(size=3))}" mass="{rng.uniform(0.1, 2)}" '
        f'diaginertia="{moments}"/>'
    )
    place = f'pos="{numbers(rng.normal(size=3))}" {quat}'
    return f'<body name="{name}" {place}>{joint}{inertial}{children}</body>'


class Drawn:
    """A random robot, and the model that MuJoCo reads from the same file."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        while True:
            self.names: list[str] = []
            bodies = "".join(body_text(rng, self.names, 0) for _ in range(2))
            text = f"<mujoco><worldbody>{bodies}</worldbody></mujoco>"
            self.model = mujoco.MjModel.from_xml_string(text)
            if (self.model.jnt_type <= int(mujoco.mjtJoint.mjJNT_BALL)).any():
                break
        self.data = mujoco.MjData(self.model)
        self.robot = sp.mjcf(text)
        self.q = self.robot.random(seed=rng)
        self.qd, self.other = rng.normal(size=(2, self.robot.nv))
        self.data.qpos[:], self.data.qvel[:] = self.q, self.qd
        mujoco.mj_forward(self.model, self.data)

    def rows(self, function: Callable[..., None], body: str) -> Array:
        J = np.zeros((6, self.model.nv))
        at = self.data.body(body)
        function(self.model, self.data, J[:3], J[3:], at.xpos, at.id)
        return J


def moving(seed: int) -> sp.Robot:
    """Return a random robot on a moving base; for some seeds, its wrist is a ball joint."""
    rng = np.random.default_rng(seed)
    made = generated_robot(rng).with_base(str(rng.choice(["floating", "planar"])))
    if rng.random() < 0.5:
        described = made.description
        tip = described.leaves[0]
        wrist = Joint("wrist", "ball", tip, "hand", axis=axis(rng, tidy=False))
        made = sp.Robot(Description("r", (*described.joints, wrist)))
    return made
