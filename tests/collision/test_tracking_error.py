"""A Servo keeps the clearance while joints deviate from their commands within bounds."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import supple as sp
from convex import free_scene
from generated import seeds
from supple.errors import InputError

ROUNDING = 1e-9  # [m]


@pytest.mark.parametrize("seed", seeds(12))
def test_pairs_keep_the_clearance_wherever_joints_are_within_their_tracking_errors(
    seed: int,
) -> None:
    """Each joint may be anywhere within its tracking error of the commanded position."""
    rng = np.random.default_rng([seed, 41])
    clearance = float(rng.choice([0.0, 0.005, 0.02]))
    error = float(10 ** rng.uniform(-4, -2))
    scene, q = free_scene(seed, clearance + 0.04, obstacles=3)
    robot = scene.robot
    errors = error * rng.uniform(0, 1, robot.dof)

    def lowest(at: np.ndarray) -> float:
        signs = rng.choice([-1.0, 1.0, 0.0], size=(12, robot.dof))
        return min(scene.model.min_distance(at + s * errors)[0] for s in signs)

    if not min(lowest(q) for _ in range(5)) > clearance + 1e-3:
        return
    servo = sp.Servo(robot, dt=0.01, world=scene.model, clearance=clearance, tracking_error=errors)
    rows = len(servo._layout.rows)
    for k in range(60):
        if k % 15 == 0:
            velocity = rng.normal(size=rows) * 0.5
        before = q
        q = np.empty_like(before)
        servo._raw(before, velocity, None, None, q)
        for f in (0.25, 0.5, 0.75, 1.0):
            d = lowest(before + f * (q - before))
            assert d >= clearance - ROUNDING, (seed, k, d, clearance)


def gantry() -> tuple[sp.Robot, sp.World]:
    text = (
        '<robot name="gantry"><link name="base"/><link name="hand"><collision><geometry>'
        '<sphere radius="0.1"/></geometry></collision></link><joint name="x" type="prismatic">'
        '<parent link="base"/><child link="hand"/><axis xyz="1 0 0"/>'
        '<limit lower="-5" upper="5" velocity="1"/></joint></robot>'
    )
    wall = sp.collision.Box((0.2, 2, 2), (1.1, 0, 0))
    return sp.urdf(text), sp.World({"wall": wall})


@pytest.mark.parametrize("error", [0.0, 1e-3, 0.02])
def test_a_slide_keeps_the_clearance_plus_its_tracking_error_from_a_wall(error: float) -> None:
    """The wall is at 1 m: the sphere's center stops at 1 m - radius - clearance - error."""
    robot, world = gantry()
    servo = sp.Servo(
        robot, sp.PositionTask(rows=("x",)), dt=0.01, world=world, tracking_error=error
    )
    q = np.zeros(1)
    for _ in range(400):
        q = servo(q, [0.5, 0, 0])
    assert q[0] == pytest.approx(0.89 - error, abs=1e-4)
    assert q[0] <= 0.89 - error + 1e-12
    for _ in range(50):
        q = servo(q, [-0.5, 0, 0])
    assert q[0] < 0.8  # and the hand leaves the wall again


def test_the_tracking_error_is_an_attribute_that_copies_keep() -> None:
    robot = sp.load("panda")
    servo = sp.Servo(robot, dt=0.01, tracking_error=0.001)
    np.testing.assert_array_equal(copy.copy(servo).tracking_error, np.full(7, 0.001))
    for given in (-0.1, np.nan, np.inf, [0.1, 0.2], "a"):
        with pytest.raises(InputError, match="tracking_error"):
            sp.Servo(robot, dt=0.01, tracking_error=given)  # type: ignore[arg-type]
