"""Mechanisms with loops as MJCF texts, and MuJoCo's own residual of their constraints."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

import supple as sp
from supple.describe import Joint

Array = np.ndarray


def _words(numbers: Any) -> str:
    return " ".join(repr(float(x)) for x in np.ravel(numbers))


def _body(name: str, at: Array, joint: str, inside: str = "") -> str:
    mass = '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
    return f'<body name="{name}" {_place(at)}>{joint}{mass}{inside}</body>'


def _place(T: Array) -> str:
    return f'pos="{_words(T[:3, 3])}" xyaxes="{_words(T[:3, :2].T)}"'


def _model(bodies: str, equality: str, options: str = "") -> str:
    return (
        f'<mujoco><compiler angle="radian"/>{options}<worldbody>{bodies}</worldbody>'
        f"<equality>{equality}</equality></mujoco>"
    )


def turn(rng: np.random.Generator, angle: float = np.pi) -> Array:
    """Return a rotation about a random axis, by at most an angle."""
    axis = rng.normal(size=3)
    return sp.poses.exp(axis / np.linalg.norm(axis) * rng.uniform(-angle, angle))


def four_bar(seed: int) -> str:
    """Return a planar four-bar with a point "tip" on its coupler, in a random plane."""
    rng = np.random.default_rng(seed)
    ground, crank, coupler = rng.uniform(0.5, 1.5), rng.uniform(0.3, 1.0), rng.uniform(0.5, 1.5)
    angles = rng.uniform(-np.pi, np.pi, 2)
    pin = crank * np.array([np.cos(angles[0]), np.sin(angles[0])])
    end = pin + coupler * np.array([np.cos(angles[1]), np.sin(angles[1])])
    rocker = end - [ground, 0.0]

    def at(x: Any) -> Array:
        T = np.eye(4)
        T[:2, 3] = x
        return T

    hinge = '<joint name="{}" axis="0 0 1"/>'
    tip = f'<site name="tip" pos="{_words([*rng.uniform(-0.5, 1.0, 2), 0.1])}"/>'
    second = _body("coupler", at(pin), hinge.format("b"), tip)
    first = _body("crank", np.eye(4), hinge.format("a"), second)
    third = _body("rocker", at([ground, 0.0]), hinge.format("c"))
    plane = np.eye(4)
    plane[:3, :3], plane[:3, 3] = turn(rng), rng.normal(size=3)
    frame = f"<body {_place(plane)}>{first}{third}</body>"
    anchor = _words([*(end - pin), 0.0])
    assert np.isfinite(rocker).all()
    return _model(frame, f'<connect name="pin" body1="coupler" body2="rocker" anchor="{anchor}"/>')


def spatial_loop(seed: int, joints: int = 9, kind: str = "weld") -> str:
    """Return two chains of hinges, slides and balls whose last bodies are joined at "tip".

    The first chain has the larger half of the joints.
    """
    rng = np.random.default_rng(seed)
    split = (joints + 1) // 2

    def chain(name: str, count: int) -> tuple[str, Array]:
        inside, placements = "", []
        for _ in range(count):
            T = np.eye(4)
            T[:3, :3], T[:3, 3] = turn(rng, 1.5), rng.uniform(-0.4, 0.4, 3)
            placements.append(T)
        for i in reversed(range(count)):
            slide = rng.random() < 0.15
            limits = (-0.4, 0.4) if slide else (-2.5, 2.5)
            joint = (
                f'<joint name="{name}{i}" type="{"slide" if slide else "hinge"}" '
                f'axis="{_words(rng.normal(size=3))}" range="{_words(limits)}"/>'
            )
            inside = inside if i < count - 1 or name != "p" else '<site name="tip" pos="0 0 0.2"/>'
            inside = _body(f"{name}{i}", placements[i], joint, inside)
        T = np.eye(4)
        for each in placements:
            T = T @ each
        return inside, T

    one, T = chain("p", split)
    two, other = chain("q", joints - split)
    # The second chain stands where its end meets that of the first at MuJoCo's qpos0.
    base = T @ np.linalg.inv(other)
    end = f'body1="p{split - 1}" body2="q{joints - split - 1}"'
    anchor = 'anchor="0 0 0"' if kind == "connect" else ""
    bodies = f"{one}<body {_place(base)}>{two}</body>"
    return _model(bodies, f'<{kind} name="end" {end} {anchor}/>')


def gripper() -> str:
    """Return an arm of six joints with a parallel gripper.

    The driver of each finger is one side of a parallelogram, which a point constraint closes. One
    driver follows the other one.
    """
    finger = ""
    for side, sign in (("l", 1), ("r", -1)):
        pad = _body(f"pad_{side}", _at([0, 0, 0.05]), f'<joint name="pad_{side}" axis="1 0 0"/>')
        outer = _body(
            f"outer_{side}",
            _at([0, 0.03 * sign, 0]),
            f'<joint name="outer_{side}" axis="1 0 0" range="-0.8 0.8"/>',
            pad,
        )
        inner = _body(
            f"inner_{side}",
            _at([0, 0.01 * sign, 0.02]),
            f'<joint name="inner_{side}" axis="1 0 0" range="-0.8 0.8"/>',
        )
        finger += outer + inner
    inside = f'<site name="tip" pos="0 0 0.15"/>{finger}'
    for i in reversed(range(6)):
        axis = ("0 0 1", "0 1 0", "0 1 0", "0 0 1", "0 1 0", "0 0 1")[i]
        joint = f'<joint name="j{i}" axis="{axis}" range="-2.8 2.8"/>'
        inside = _body(f"b{i}", _at([0.05, 0, 0.3 if i else 0.1]), joint, inside)
    points = "".join(
        f'<connect name="{side}" body1="pad_{side}" body2="inner_{side}" '
        f'anchor="0 {-0.02 * sign} 0.02"/>'
        for side, sign in (("l", 1), ("r", -1))
    )
    return _model(inside, points + '<joint joint1="outer_r" joint2="outer_l" polycoef="0 -1"/>')


def _at(x: Any) -> Array:
    T = np.eye(4)
    T[:3, 3] = x
    return T


def leg(*, floating: bool = True, sides: str = "lr") -> str:
    """Return legs with the proportions of Cassie: each has two rods that close loops.

    One rod, on a ball joint, joins the hip to the heel; the other one joins the crank of the foot
    to the foot. Dimensions and axes follow Agility's published model, some only approximately: the
    end of a rod is placed on the other body at the drawn configuration.
    """
    made, equality = "", ""
    for side in sides:
        sign = 1 if side == "l" else -1

        def at(x: Any, angle: float = 0.0, sign: int = sign) -> Array:
            T = sp.pose(np.array(x) * [1, sign, 1], rpy=[0, angle, 0])
            return np.asarray(T)

        def hinge(name: str, axis: str, low: float, high: float, side: str = side) -> str:
            return f'<joint name="{name}_{side}" axis="{axis}" range="{low} {high}"/>'

        foot = _body(
            f"foot_{side}",
            at([0, 0, -0.41], 0.3),
            hinge("foot", "0 1 0", -1.0, 1.0),
            f'<site name="toe_{side}" pos="0.09 0 -0.04"/>',
        )
        rod = _body(f"plantar_{side}", at([-0.05, 0.008, 0]), hinge("plantar", "0 1 0", -3, 3))
        crank = _body(f"crank_{side}", at([0, 0.02, -0.05]), hinge("crank", "0 1 0", -2, 2), rod)
        heel = _body(f"heel_{side}", at([-0.03, 0, 0.01], 0.1), hinge("heel", "0 1 0", -0.3, 0.3))
        tarsus = _body(
            f"tarsus_{side}",
            at([0, 0, -0.43], 1.9),
            hinge("tarsus", "0 1 0", -1.2, 1.0),
            heel + crank + foot,
        )
        shin = _body(
            f"shin_{side}", at([0.06, 0, -0.05]), hinge("shin", "0 1 0", -0.3, 0.3), tarsus
        )
        knee = _body(
            f"knee_{side}", at([0, 0.0045, -0.12], -1.2), hinge("knee", "0 1 0", -1.2, 1.0), shin
        )
        achilles = _body(
            f"achilles_{side}", at([0, 0.045, 0]), f'<joint name="achilles_{side}" type="ball"/>'
        )
        pitch = _body(
            f"pitch_{side}",
            at([0, 0.09, 0], 0.4),
            hinge("pitch", "0 1 0", -1.0, 1.2),
            achilles + knee,
        )
        yaw = _body(f"yaw_{side}", at([0, 0.02, -0.07]), hinge("yaw", "0 0 1", -0.4, 0.4), pitch)
        made += _body(f"roll_{side}", at([0.021, 0.135, 0]), hinge("roll", "1 0 0", -0.3, 0.4), yaw)
        equality += (
            f'<connect name="toe_rod_{side}" body1="foot_{side}" body2="plantar_{side}" '
            'anchor="-0.05 0 0.02"/>'
            f'<connect name="heel_rod_{side}" body1="heel_{side}" body2="achilles_{side}" '
            'anchor="-0.11 0 0.01"/>'
        )
    free = '<freejoint name="pelvis"/>' if floating else ""
    return _model(_body("pelvis", np.eye(4), free, made), equality)


def coupled(seed: int) -> str:
    """Return an arm of eight hinges, four of which follow another hinge by a polynomial."""
    rng = np.random.default_rng(seed)
    inside = '<site name="tip" pos="0 0 0.2"/>'
    for i in reversed(range(8)):
        T = np.eye(4)
        T[:3, :3], T[:3, 3] = turn(rng), rng.uniform(-0.4, 0.4, 3)
        ref = float(rng.uniform(-0.3, 0.3))
        joint = f'<joint name="j{i}" axis="{_words(rng.normal(size=3))}" ref="{ref}" '
        inside = _body(f"b{i}", T, joint + 'range="-3 3"/>', inside)
    lines = ""
    for one, two, degree in ((2, 1, 2), (4, 3, 4), (6, 5, 1), (7, 6, 3)):
        c = rng.uniform(-0.4, 0.4, degree + 1) / np.arange(1, degree + 2) ** 2
        c[1] = rng.choice([-1, 1]) * rng.uniform(0.6, 1.2)
        lines += f'<joint joint1="j{one}" joint2="j{two}" polycoef="{_words(c)}"/>'
    return _model(inside, lines)


class MuJoCo:
    """MuJoCo's residual of the equality constraints of a model, as an oracle."""

    def __init__(self, text: str) -> None:
        self.model = mujoco.MjModel.from_xml_string(text)
        self.data = mujoco.MjData(self.model)
        self.rows = mujoco.mjtConstraint.mjCNSTR_EQUALITY

    def residual(self, robot: sp.Robot, q: Array) -> float:
        """Return the largest residual at configurations (..., nq) of a robot of the same model."""
        return max(self._one(robot, one) for one in q.reshape(-1, robot.nq))

    def points(self, robot: sp.Robot, q: Array) -> Array:
        """Return the position residual of each loop (k, 3); a joint's residual is its first entry.

        A joint that follows another one without being a degree of freedom is left out.
        """
        rows, found, at = self._rows(robot, q), [], 0
        kinds = mujoco.mjtEq
        free = set(robot.joint_names)
        for i in range(self.model.neq):
            if self.model.eq_type[i] == kinds.mjEQ_JOINT:
                joint = self.model.eq_obj1id[i]
                if mujoco.mj_id2name(self.model, mujoco.mjtObj.mjOBJ_JOINT, joint) in free:
                    found.append([rows[at], 0.0, 0.0])
                at += 1
                continue
            found.append(rows[at : at + 3])
            at += 3 if self.model.eq_type[i] == kinds.mjEQ_CONNECT else 6
        assert at == len(rows)
        return np.array(found)

    def _one(self, robot: sp.Robot, q: Array) -> float:
        return float(np.abs(self._rows(robot, q)).max())

    def _rows(self, robot: sp.Robot, q: Array) -> Array:
        model, data = self.model, self.data
        data.qpos[:] = qpos_of(robot, model, q)
        mujoco.mj_forward(model, data)
        held = data.efc_type[: data.nefc] == self.rows
        assert held.any()
        return np.array(data.efc_pos[: data.nefc][held])


def qpos_of(robot: sp.Robot, model: Any, q: Array) -> Array:
    """Return MuJoCo's qpos of a configuration, by the names of the joints."""
    qpos = np.zeros(model.nq)
    at = dict(zip(robot.position_names, q, strict=True))
    for joint in robot.description.joints:
        if joint.mimic is not None:
            at[joint.name] = joint.mimic.multiplier * at[joint.mimic.joint] + joint.mimic.offset
    for i in range(model.njnt):
        name = mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_JOINT, i)
        kind = ("floating", "ball", "", "")[model.jnt_type[i]]
        names = [name] if not kind else list(Joint(name, kind, "a", "b").position_names)
        first = model.jnt_qposadr[i]
        for k, each in enumerate(names):
            qpos[first + k] = at.get(each, model.qpos0[first + k])
    return qpos
