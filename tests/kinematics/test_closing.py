"""Robots with loops: closed configurations, the error of loops, its derivative, and how loops are
closed.
"""

from __future__ import annotations

import numpy as np
import pytest

import mechanisms
import supple as sp
from sizes import nightly
from supple.errors import InputError
from supple.kinematics.loops import closed_near

CLOSED = 1e-9
FEW = nightly(30, 10)
TEXTS = {
    **{f"four_bar{seed}": mechanisms.four_bar(seed) for seed in range(2)},
    **{f"weld{seed}": mechanisms.spatial_loop(seed, 9, "weld") for seed in range(3)},
    "connect": mechanisms.spatial_loop(3, 8, "connect"),
    "legs": mechanisms.leg(),
    "coupled": mechanisms.coupled(1),
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_loop_jacobian_is_the_derivative_of_the_loop_error(text: str) -> None:
    robot = sp.mjcf(text)
    for q in [*robot.without_loops().random(3, seed=0), robot.random(seed=0)]:
        h, steps = 1e-6, np.eye(robot.nv)
        there, back = (robot.loop_error(robot.integrate(q, s * h * steps)) for s in (1, -1))
        smooth = abs(there - back).max(axis=1) < 1  # at a rotation by half a turn, the error jumps
        slopes = ((there - back) / (2 * h))[smooth]
        np.testing.assert_allclose(robot.loop_jacobian(q).T[smooth], slopes, atol=2e-7)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_random_neutral_and_closed_configurations_satisfy_loops_and_limits(
    text: str,
) -> None:
    robot = sp.mjcf(text)
    near = robot.random(FEW, seed=1)
    moved = robot.integrate(near, 0.02 * np.random.default_rng(0).normal(size=(FEW, robot.nv)))
    made = robot.close_loops(moved)
    for q in (near, made, robot.neutral()[None]):
        assert abs(robot.loop_error(q)).max() <= 1e-12
        if robot.nq == robot.nv:
            assert ((q >= robot.lower) & (q <= robot.upper)).all()
    # Closing the loops moves the joints about as far as they were moved away, not to a distant
    # closed configuration.
    assert np.abs(robot.difference(made, moved)).max() < 0.5
    np.testing.assert_array_equal(robot.random(FEW, seed=1), near)
    np.testing.assert_allclose(robot.close_loops(made), made, atol=1e-12)


def test_loops_are_closed_at_the_nearest_configuration() -> None:
    """To first order, the displacement is perpendicular to all motions that keep
    the loop closed.
    """
    robot = sp.mjcf(mechanisms.spatial_loop(5, 9, "weld")).with_limits(lower=-np.inf, upper=np.inf)
    closed = robot.random(20, seed=2)
    rng = np.random.default_rng(1)
    for q in closed:
        start = q + 1e-4 * rng.normal(size=robot.nv)
        way = robot.close_loops(start) - start
        null = np.linalg.svd(robot.loop_jacobian(q))[2][6:]
        assert np.abs(null @ way).max() <= 1e-2 * np.linalg.norm(way)


def test_a_loop_that_is_added_to_a_panda_holds_with_and_without_a_batch() -> None:
    """The Panda holds a bar whose end is fixed to the world by a ball joint."""
    panda = sp.load("panda")
    T = panda.fk(panda.neutral()) @ sp.pose([0, 0, 0.3])
    bar = panda.with_frame("bar", panda.tips[0], sp.pose([0, 0, 0.3]))
    held = bar.with_frame("pin", "panda_link0", T).with_loop("bar", "pin")
    assert [loop.kind for loop in held.loops] == ["point"]
    q = held.random((2, 3), seed=0)
    np.testing.assert_allclose(held.fk(q, "bar")[..., :3, 3] - T[:3, 3], 0, atol=1e-12)
    assert held.loop_error(q).shape == (2, 3, 3)
    assert held.loop_jacobian(q).shape == (2, 3, 3, 7)
    assert held.without_loops().is_tree
    assert held.freeze(["panda_joint1"]).loops == held.loops
    assert held.with_base("planar").loops == held.loops
    assert not bar.loops
    np.testing.assert_array_equal(bar.close_loops(q[0]), q[0])


def two_elbows() -> sp.Robot:
    """Return two arms in a loop that can be closed only with both elbows bent in one direction."""
    links, joints = ['<link name="base"/>'], []
    for arm in "ab":
        for k, (parent, x) in enumerate((("base", 0), (f"{arm}0", 1), (f"{arm}1", 1))):
            name, kind = f"{arm}{k}", "revolute" if k < 2 else "fixed"
            low, high = (-3, 3) if k == 0 else (-0.65, 0.75)
            links.append(f'<link name="{name}"/>')
            joints.append(
                f'<joint name="{name}" type="{kind}"><parent link="{parent}"/>'
                f'<child link="{name}"/>'
                f'<origin xyz="{x} 0 0"/><axis xyz="0 0 1"/>'
                f'<limit lower="{low}" upper="{high}" effort="1" velocity="1"/></joint>'
            )
    robot = sp.urdf(f'<robot name="elbows">{"".join(links + joints)}</robot>')
    there = robot.with_frame("there", "base", robot.fk([0.2, 0.7, 0, 0], "a2"))
    return there.with_loop("a2", "there").with_loop("b2", "there")


def test_random_configurations_are_closed_even_if_few_draws_can_be_closed() -> None:
    robot = two_elbows()
    drawn = robot.without_loops().random(100, seed=0)
    closed = np.count_nonzero(closed_near(robot, drawn)[1])
    assert 10 < closed < 50
    for count in (1, 7, nightly(1000, 60)):
        q = robot.random(count, seed=count)
        assert q.shape == (count, 4)
        assert np.abs(robot.loop_error(q)).max() < 1e-9


def test_loops_that_cannot_be_closed_are_refused() -> None:
    arm = sp.load("planar2")
    far = arm.with_frame("far", arm.description.root, sp.pose([9, 0, 0]))
    wrong = far.with_loop(arm.tips[0], "far")
    with pytest.raises(InputError, match="remains open by"):
        wrong.close_loops([0.1, 0.2])
    with pytest.raises(InputError, match="none is found"):
        wrong.random(seed=0)
    with pytest.raises(InputError, match="finite"):
        wrong.close_loops([np.nan, 0.2])
    with pytest.raises(InputError, match="two different frames"):
        arm.with_loop(arm.tips[0], arm.tips[0])
