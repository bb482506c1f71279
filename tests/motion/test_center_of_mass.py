"""The task for the center of mass, on robots with random masses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

import supple as sp
from generated import robot, seeds
from oracles import Pinocchio
from supple.tasks import CenterOfMassTask
from supple.tasks.layout import compile_tasks

Array = np.ndarray


def with_masses(seed: int) -> tuple[sp.Robot, np.random.Generator]:
    """Return a random robot whose links have random masses, some of them zero."""
    rng = np.random.default_rng(seed)
    made = robot(rng, size=1.0)
    links = {joint.parent for joint in made.description.joints}
    for link in sorted(links | {joint.child for joint in made.description.joints}):
        if rng.random() < 0.8:
            mass = float(rng.uniform(0.1, 5))
            made = made.with_inertia(link, mass, rng.uniform(-0.2, 0.2, 3), 0.1 * mass * np.eye(3))
    if not made.mass > 0:
        made = made.with_inertia(sorted(links)[0], 1.0, np.zeros(3), np.eye(3))
    return made, rng


def quintic(values: Array, h: float) -> tuple[Array, Array]:
    """Return the first and second derivative at the middle one of seven values h apart."""
    first = (values[6] - 9 * values[5] + 45 * values[4]) - (
        values[0] - 9 * values[1] + 45 * values[2]
    )
    second = 2 * (values[0] + values[6]) - 27 * (values[1] + values[5])
    second = second + 270 * (values[2] + values[4]) - 490 * values[3]
    return first / (60 * h), second / (180 * h * h)


@pytest.mark.parametrize("seed", seeds(12))
def test_rows_of_a_center_of_mass_task_are_derivatives_of_the_center_of_mass(seed: int) -> None:
    made, rng = with_masses(seed)
    q, qd = made.random(seed=rng), rng.normal(size=made.nv)
    qd /= max(1.0, np.abs(qd).max())
    lin = sp.linearize(made, CenterOfMassTask(), q, qd=qd)
    size = max(1.0, float(np.abs(made.center_of_mass(q)).max()))
    steps = np.arange(-3, 4)[:, None]
    velocity, _ = quintic(made.center_of_mass(made.integrate(q, 0.01 * steps * qd)), 0.01)
    _, bias = quintic(made.center_of_mass(made.integrate(q, 0.02 * steps * qd)), 0.02)
    np.testing.assert_allclose(lin.J @ qd, velocity, rtol=0, atol=1e-9 * size)
    np.testing.assert_allclose(lin.bias_acceleration, bias, rtol=0, atol=1e-8 * size)


@pytest.mark.parametrize("seed", seeds(12))
def test_center_of_mass_rows_in_the_kernel_agree_with_python(seed: int) -> None:
    made, rng = with_masses(seed)
    rows = tuple(str(row) for row in rng.permutation(["x", "y", "z"])[: rng.integers(1, 4)])
    task = CenterOfMassTask(rows, weight=rng.uniform(0.5, 2, len(rows)), tolerance={rows[0]: 0.01})
    target, velocity = rng.normal(size=3), rng.normal(size=3)
    many = made.random(9, seed=rng)
    for given in ({"target": target}, {"velocity": velocity}):
        every = sp.linearize(made, task, many, **given)
        for q, J, e in zip(many, every.J, every.e, strict=True):
            one = task.linearize(made, q, **given)
            np.testing.assert_allclose(J, one.J, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(e, one.e, rtol=1e-12, atol=1e-12)
    reached = compile_tasks(made, (task,)).reached(many)
    np.testing.assert_allclose(reached, made.center_of_mass(many), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", seeds(6))
def test_solve_and_servo_reach_a_target_of_the_center_of_mass(seed: int) -> None:
    made, rng = with_masses(seed)
    target = made.center_of_mass(made.random(seed=rng))
    found = sp.solve(made, target, tasks=CenterOfMassTask(), position_tolerance=1e-6)
    assert found.success, str(found)
    np.testing.assert_allclose(made.center_of_mass(found.q), target, rtol=0, atol=1e-6)
    servo = sp.Servo(made, tasks=CenterOfMassTask(), dt=0.01)
    q = made.integrate(found.q, 1e-3 * rng.normal(size=made.nv))
    q = np.clip(q, made.lower, made.upper)
    before = float(np.abs(made.center_of_mass(q) - target).max())
    for _ in range(200):
        q = servo(q, target=target)
    assert np.abs(made.center_of_mass(q) - target).max() <= max(0.2 * before, 1e-6)


def test_solve_meets_a_position_and_two_coordinates_of_the_center_of_mass() -> None:
    """The position is that of a frame; both targets come from one configuration."""
    made, rng = with_masses(3)
    tasks = [sp.PositionTask(made.tips[0]), CenterOfMassTask(("x", "y"))]
    q = made.random(seed=rng)
    targets = [made.fk(q, made.tips[0])[:3, 3], made.center_of_mass(q)]
    found = sp.solve(made, targets, tasks=tasks, position_tolerance=1e-6)
    assert found.success, str(found)


def test_a_center_of_mass_task_refuses_a_robot_without_masses() -> None:
    with pytest.raises(sp.errors.DescriptionError, match="no masses"):
        sp.Servo(robot(0), tasks=CenterOfMassTask(), dt=0.01)


@pytest.mark.parametrize(
    "name", ["panda_description/urdf/panda", "talos_data/robots/talos_full_v2"]
)
def test_rows_of_the_center_of_mass_are_those_of_pinocchio(
    name: str, robot_files: Callable[[str, str], Path]
) -> None:
    rng = np.random.default_rng(0)
    file = robot_files("cmeel.prefix", f"share/example-robot-data/robots/{name}.urdf")
    made = sp.urdf(file)
    oracle = Pinocchio(file, made.joint_names)
    # Pinocchio omits links that are fixed to the world.
    share = pin.computeTotalMass(oracle.model) / made.mass
    for q in made.random(4, seed=rng):
        qd = rng.normal(size=made.nv)
        oracle.at(q, qd)
        J = pin.jacobianCenterOfMass(oracle.model, oracle.data, oracle.q) @ oracle.S
        none = np.zeros(oracle.model.nv)
        pin.centerOfMass(oracle.model, oracle.data, oracle.q, oracle.S @ qd, none)
        lin = sp.linearize(made, CenterOfMassTask(), q, qd=qd)
        np.testing.assert_allclose(lin.J, share * J, rtol=0, atol=1e-12)
        bias = share * oracle.data.acom[0]
        np.testing.assert_allclose(lin.bias_acceleration, bias, rtol=0, atol=1e-11)
