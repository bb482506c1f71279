"""The inertia matrix and gravity torques agree with Pinocchio, MuJoCo and the energies."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pinocchio as pin
import pytest

import jets
import supple
from cases import each
from oracles import Pinocchio
from samples import numbers, random_tree, wxyz
from supple.describe import Description, Inertia, Joint
from supple.errors import DescriptionError, InputError, UnknownNameError

Array = np.ndarray
EXAMPLE, FRAX = ("cmeel.prefix", "share/example-robot-data/robots/"), ("frax", "assets/")
FILES = {
    "panda": (EXAMPLE, "panda_description/urdf/panda.urdf"),
    "ur5": (EXAMPLE, "ur_description/urdf/ur5_robot.urdf"),
    "tiago": (EXAMPLE, "tiago_description/robots/tiago.urdf"),
    "talos": (EXAMPLE, "talos_data/robots/talos_full_v2.urdf"),
    "g1": (FRAX, "unitree_g1/g1_29dof_rev_1_0.urdf"),
    "iiwa14": (FRAX, "iiwa/iiwa14.urdf"),
    "baxter": (EXAMPLE, "baxter_description/urdf/baxter.urdf"),
}


def random_inertia(rng: np.random.Generator, link: str) -> Inertia:
    A = rng.normal(size=(3, 3))
    return Inertia(link, rng.uniform(0.1, 3), rng.normal(size=3), A @ A.T + np.eye(3))


def weighty(seed: int) -> Description:
    """Return a random tree in which all links have masses."""
    rng, tree = np.random.default_rng(seed), random_tree(seed)
    inertias = tuple(random_inertia(rng, link) for link in tree.links)
    return Description(tree.name, tree.joints, inertias=inertias)


@pytest.mark.parametrize("name", FILES)
def test_inertia_matrices_and_gravity_torques_are_those_of_pinocchio(
    name: str, robot_files: Callable[[str, str], Path], rng: np.random.Generator
) -> None:
    (package, folder), path = FILES[name]
    file = robot_files(package, folder + path)
    robot = supple.urdf(file)
    oracle = Pinocchio(file, robot.joint_names)
    oracle.model.gravity.linear = np.array([0.3, -0.5, -9.81])
    oracle.model.armature[:] = oracle.model.rotorInertia[:] = 0
    assert robot.mass == pytest.approx(pin.computeTotalMass(oracle.model) + _base(robot), rel=1e-12)
    for q in (*robot.random(3, seed=rng), rng.uniform(-3, 3, robot.dof)):
        oracle.at(q, np.zeros(robot.dof))
        M = np.triu(pin.crba(oracle.model, oracle.data, oracle.q))
        M = oracle.S.T @ (M + np.triu(M, 1).T) @ oracle.S
        found = robot.inertia_matrix(q)
        np.testing.assert_allclose(found, M, rtol=0, atol=1e-10 * abs(M).max())
        np.testing.assert_array_equal(found, found.T)
        g = oracle.S.T @ pin.computeGeneralizedGravity(oracle.model, oracle.data, oracle.q)
        ours = robot.gravity_torques(q, gravity=[0.3, -0.5, -9.81])
        np.testing.assert_allclose(ours, g, rtol=0, atol=1e-10 * max(1.0, abs(g).max()))


def _base(robot: supple.Robot) -> float:
    """Return the mass of the links that are fixed to the world, which Pinocchio ignores."""
    fixed = {robot.description.root}
    for joint in robot.description.joints:
        if joint.parent in fixed and not joint.moves:
            fixed.add(joint.child)
    return sum(one.mass for one in robot.description.inertias if one.link in fixed)


@each("full", [False, True])
def test_inertia_matrices_and_gravity_torques_of_an_mjcf_file_are_those_of_mujoco(
    full: bool,
) -> None:
    rng = np.random.default_rng(7)

    def body(depth: int) -> str:
        A = rng.normal(size=(3, 3))
        I = np.trace(A @ A.T) * np.eye(3) - A @ A.T  # noqa: E741 (of a cloud of points)
        I = I if full else np.diag([2.0, 2.5, 3.0])  # noqa: E741
        moments = f'diaginertia="{numbers(np.diag(I))}" quat="{numbers(rng.normal(size=4))}"'
        if full:
            order = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
            moments = f'fullinertia="{numbers(np.array([I[k] for k in order]))}"'
        kind = "slide" if depth == 1 else "hinge"
        inner = body(depth - 1) if depth else ""
        quat = wxyz(np.eye(4)) if depth == 2 else rng.normal(size=4)
        return (
            f'<body name="b{depth}" pos="{numbers(rng.normal(size=3))}" quat="{numbers(quat)}">'
            f'<inertial pos="{numbers(rng.normal(size=3))}" mass="{rng.uniform(1, 2)}" {moments}/>'
            f'<joint name="j{depth}" type="{kind}" axis="{numbers(rng.normal(size=3))}"/>'
            f'<geom size="0.1"/>{inner}</body>'
        )

    text = f"<mujoco><worldbody>{body(3)}</worldbody></mujoco>"
    model, robot = mujoco.MjModel.from_xml_string(text), supple.mjcf(text)
    data = mujoco.MjData(model)
    assert robot.mass == pytest.approx(model.body_mass.sum(), rel=1e-12)
    for q in rng.normal(size=(5, 4)):
        data.qpos[:] = q
        mujoco.mj_forward(model, data)
        M = np.zeros((4, 4))
        mujoco.mj_fullM(model, data, M)
        np.testing.assert_allclose(robot.inertia_matrix(q), M, atol=1e-10 * abs(M).max())
        np.testing.assert_allclose(robot.gravity_torques(q), data.qfrc_bias, atol=1e-10)
        np.testing.assert_allclose(robot.center_of_mass(q), data.subtree_com[0], atol=1e-12)


@each("seed", range(6))
def test_the_inertia_matrix_gives_the_kinetic_energy(seed: int) -> None:
    # The kinetic energy is computed from derivatives of the links' poses (jets), without the
    # robot's Jacobians.
    described = weighty(seed)
    robot, rng = supple.Robot(described), np.random.default_rng(seed)
    for _ in range(5):
        q, qd = rng.normal(size=(2, robot.dof))
        T = jets.poses(described, q, qd, 0 * q)
        energy = 0.0
        for one in described.inertias:
            pose = T[one.link]
            v = (pose[1] @ [*one.center, 1])[:3]
            w = pose[0][:3, :3].T @ jets.vee(pose[1][:3, :3] @ pose[0][:3, :3].T)
            energy += one.mass * v @ v / 2 + w @ one.matrix @ w / 2
        assert qd @ robot.inertia_matrix(q) @ qd / 2 == pytest.approx(energy, rel=1e-11)


@each("seed", range(6))
def test_gravity_torques_are_the_gradient_of_the_potential_energy(seed: int) -> None:
    robot, h = supple.Robot(weighty(seed)), 1e-5
    gravity = np.array([1.0, -2.0, -9.0])
    for q in np.random.default_rng(seed).normal(size=(3, robot.dof)):
        steps = h * np.eye(robot.dof)
        heights = [-robot.mass * robot.center_of_mass(q + s * steps) @ gravity for s in (1, -1)]
        difference = (heights[0] - heights[1]) / (2 * h)
        found = robot.gravity_torques(q, gravity=gravity)
        np.testing.assert_allclose(found, difference, atol=1e-7 * max(1.0, abs(found).max()))


def test_inertia_and_gravity_of_batches_float32_and_frozen_joints_agree() -> None:
    robot = supple.Robot(weighty(0))
    q = np.random.default_rng(0).normal(size=(3, 4, robot.dof))
    M, g = robot.inertia_matrix(q), robot.gravity_torques(q)
    for i in np.ndindex(3, 4):
        np.testing.assert_allclose(M[i], robot.inertia_matrix(q[i]), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(g[i], robot.gravity_torques(q[i]), rtol=1e-12, atol=1e-11)
    assert robot.inertia_matrix(q.astype(np.float32)).dtype == np.float32
    # Freezing joints removes rows and columns.
    still = robot.freeze({robot.joint_names[1]: 0.4})
    reduced = q[0, 0][[0, *range(2, robot.dof)]]
    full = still.full_q(reduced)
    keep = [0, *range(2, robot.dof)]
    expected = robot.inertia_matrix(full)[np.ix_(keep, keep)]
    np.testing.assert_allclose(still.inertia_matrix(reduced), expected, atol=1e-12)
    again = pickle.loads(pickle.dumps(robot))
    np.testing.assert_array_equal(again.inertia_matrix(q), M)


def test_a_link_given_a_mass_by_with_inertia_moves_as_a_pendulum() -> None:
    # A pendulum has M = m l² + I; the gravity torque is the moment of its weight about the joint.
    arm = supple.dh([(1.0, 0, 0, 0)]).with_inertia(
        "link1", 2.0, (-0.25, 0, 0), np.diag([0, 0, 0.1])
    )
    assert arm.inertia_matrix([0.3])[0, 0] == pytest.approx(2 * 0.75**2 + 0.1)
    torque = arm.gravity_torques([0.3], gravity=[0, -10, 0])
    assert torque[0] == pytest.approx(2 * 10 * 0.75 * np.cos(0.3))
    assert arm.with_inertia("link1", 1.0).inertia_matrix([0.3])[0, 0] == pytest.approx(1.0)
    assert arm.mass == 2.0


def test_missing_or_invalid_masses_are_refused() -> None:
    arm = supple.load("panda")
    with pytest.raises(DescriptionError, match=r"panda has no masses.*with_inertia"):
        arm.inertia_matrix(np.zeros(7))
    with pytest.raises(UnknownNameError, match="panda_link3"):
        arm.with_inertia("elbow", 1.0)
    with pytest.raises(InputError, match="not negative"):
        arm.with_inertia("panda_link3", -1.0)
    with pytest.raises(InputError, match="symmetric"):
        arm.with_inertia("panda_link3", 1.0, matrix=[[1, 0, 0], [1, 1, 0], [0, 0, 1]])
    with pytest.raises(InputError, match="principal moment"):
        arm.with_inertia("panda_link3", 1.0, matrix=np.diag([1, 1, -1]))
    hollow = Inertia("b", 1.0, np.zeros(3), np.diag([1.0, 1.0, -1.0]))
    robot = supple.Robot(
        Description("r", (Joint("j", "continuous", "a", "b"),), inertias=(hollow,))
    )
    with pytest.raises(DescriptionError, match=r"links 'b'.*principal moment"):
        robot.inertia_matrix([0.0])
    two = Inertia("b", 1.0, np.zeros(3), np.eye(3))
    with pytest.raises(DescriptionError, match="two inertias"):
        Description("r", (Joint("j", "continuous", "a", "b"),), inertias=(two, two))
    with pytest.raises(DescriptionError, match="'c'"):
        Description(
            "r",
            (Joint("j", "continuous", "a", "b"),),
            inertias=(Inertia("c", 1.0, np.zeros(3), np.eye(3)),),
        )


@each(
    "inertial",
    [
        '<inertial><mass value="x"/></inertial>',
        '<inertial><mass value="1"/></inertial>',
        '<inertial><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>',
        "<inertial/>",
        '<inertial><mass value="-1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/>'
        "</inertial>",
    ],
)
def test_a_file_with_bad_masses_still_has_kinematics(inertial: str) -> None:
    robot = supple.urdf(
        f'<robot name="r"><link name="a"/><link name="b">{inertial}</link>'
        '<joint name="j" type="continuous"><parent link="a"/><child link="b"/></joint></robot>'
    )
    assert np.isfinite(robot.jacobian([0.1])).all()
    with pytest.raises(DescriptionError, match="inertia of link 'b'"):
        robot.inertia_matrix([0.1])


def test_mjcf_bodies_whose_mass_must_be_computed_from_shapes_are_refused() -> None:
    body = '<body name="b"><joint/><geom size="0.1"/>{}</body>'
    text = f"<mujoco>{{}}<worldbody>{body}</worldbody></mujoco>"
    inertial = '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
    with pytest.raises(DescriptionError, match=r"inertia of link 'b'.*with_inertia"):
        supple.mjcf(text.format("", "")).inertia_matrix([0.0])
    assert supple.mjcf(text.format("", inertial)).mass == 1
    override = '<compiler inertiafromgeom="true"/>'
    with pytest.raises(DescriptionError, match="inertia of link 'b'"):
        supple.mjcf(text.format(override, inertial)).inertia_matrix([0.0])


@pytest.mark.parametrize("lead", [(), (4,), (2, 3)])
def test_results_of_methods_of_a_robot_are_new_writable_arrays(lead: tuple[int, ...]) -> None:
    robot = supple.Robot(weighty(3))
    q, v = robot.random(lead, seed=0), np.ones((*lead, robot.nv))
    tip = robot.tips[0]
    results = [
        *(robot.fk(q), robot.jacobian(q), robot.singular_values(q, tip), robot.integrate(q, v)),
        *(robot.bias_acceleration(q, v), robot.bias_jerk(q, v, v), robot.difference(q, q)),
        *(robot.inertia_matrix(q), robot.gravity_torques(q), robot.center_of_mass(q)),
        *(robot.momentum_matrix(q), robot.momentum(q, v), robot.full_q(q), robot.reduced_q(q)),
        robot.joint_torques(q, np.ones(6), tip),
    ]
    for result in results:
        assert result.flags.writeable
        result[...] = 0.0
    assert q.any()
