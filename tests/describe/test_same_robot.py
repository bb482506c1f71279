"""A robot written as a table, as URDF and as MJCF is the same robot."""

from __future__ import annotations

import numpy as np
import pytest

from cases import each
from samples import as_mjcf, as_urdf, random_dh, random_tree
from slow_fk import coordinates, fk
from supple.describe import Description, builtin, builtin_names, mjcf, urdf


def same(one: Description, two: Description, tolerance: float = 1e-12) -> bool:
    """Check that two robots have equal joints, limits and poses of the links of `one`."""
    names = [joint.name for joint in coordinates(one)]
    assert names == [joint.name for joint in coordinates(two)]
    for a, b in zip(coordinates(one), coordinates(two), strict=True):
        assert (a.kind, a.lower, a.upper) == (b.kind, b.lower, b.upper)
    rng = np.random.default_rng(7)
    for q in (np.zeros(len(names)), *rng.uniform(-3, 3, (5, len(names)))):
        T_one, T_two = fk(one, q), fk(two, q)
        for link in one.links[1:]:
            assert abs(T_one[link] - T_two[link]).max() < tolerance, link
    return True


@each("seed", range(6))
@each("convention", ["standard", "modified"])
def test_a_dh_table_equals_its_urdf_and_its_mjcf(seed: int, convention: str) -> None:
    robot = random_dh(seed, convention)
    assert same(robot, urdf(as_urdf(robot)))
    pytest.importorskip("mujoco")
    assert same(robot, mjcf(as_mjcf(robot)))


@pytest.mark.parametrize("seed", range(6))
def test_a_random_tree_equals_its_urdf_and_its_mjcf(seed: int) -> None:
    robot = random_tree(seed)
    assert same(robot, urdf(as_urdf(robot)))
    pytest.importorskip("mujoco")
    assert same(robot, mjcf(as_mjcf(robot)))


@pytest.mark.parametrize("name", builtin_names())
def test_a_built_in_robot_equals_its_urdf_and_its_mjcf(name: str) -> None:
    robot = builtin(name)
    assert same(robot, urdf(as_urdf(robot)))
    pytest.importorskip("mujoco")
    assert same(robot, mjcf(as_mjcf(robot)))
