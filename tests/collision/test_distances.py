"""Signed distances of shapes, proven by upper and lower bounds, and compared with coal."""

from __future__ import annotations

import os

import numpy as np
import pytest

from convex import (
    BOX,
    CAPSULE,
    CYLINDER,
    HALF_SPACE,
    HULL,
    PAIRS_OF_KINDS,
    SPHERE,
    Shape,
    best_separation,
    drawn_scene,
    model_of,
    random_pose,
    random_shape,
    separation,
    sliding_chain,
)
from supple.errors import InputError

CASES = int(os.environ.get("SUPPLE_DISTANCE_CASES", "8"))  # poses for each pair of kinds
NAMES = {SPHERE: "sphere", CAPSULE: "capsule", BOX: "box", CYLINDER: "cylinder"}
NAMES |= {HALF_SPACE: "half-space", HULL: "hull"}
IDS = [f"{NAMES[a]}-{NAMES[b]}" for a, b in PAIRS_OF_KINDS]


def drawn(kinds: tuple[int, int], count: int) -> list[tuple[Shape, Shape]]:
    """Return pairs of shapes in general and degenerate poses, many of them overlapping."""
    rng = np.random.default_rng([*kinds, 1])
    pairs = []
    for case in range(count):
        first, second = (random_shape(rng, k, random_pose(rng, case % 4)) for k in kinds)
        pairs.append((first, second))
    return pairs


def contacts(pairs: list[tuple[Shape, Shape]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distances, points and normals of pairs of shapes."""
    model = model_of(
        sliding_chain(),
        [shape for pair in pairs for shape in pair],
        [0, -1] * len(pairs),
        [(2 * k, 2 * k + 1) for k in range(len(pairs))],
    )
    return model.distances([0.0])


@pytest.mark.parametrize("kinds", PAIRS_OF_KINDS, ids=IDS)
def test_distances_and_depths_are_between_their_proven_bounds(kinds: tuple[int, int]) -> None:
    """A pair of points proves an upper bound of the distance, and a plane a lower bound.

    Where shapes overlap, a translation along the normal separates them, and a search over all
    directions finds no shorter one.
    """
    rng = np.random.default_rng(0)
    pairs = drawn(kinds, CASES)
    for (first, second), d, points, n in zip(pairs, *contacts(pairs), strict=True):
        assert np.isfinite([d, *points.ravel(), *n]).all()
        assert abs(np.linalg.norm(n) - 1) < 1e-14
        np.testing.assert_allclose(points[0] - points[1], d * n, atol=1e-12)
        assert separation(first, second, n[None])[0] == pytest.approx(d, abs=1e-9)
        # A normal at a curved contact has the square root of the depth's rounding error as error.
        near = 1e-7 if d < 0 and CYLINDER in kinds else 1e-9
        assert first.outside(points[0]) < near
        assert second.outside(points[1]) < near
        if d < 0 and HALF_SPACE not in kinds:
            assert d >= best_separation(first, second, rng) - 1e-9


def coal_shape(coal: object, shape: Shape) -> object:
    size = shape.size
    if shape.kind == SPHERE:
        return coal.Sphere(size[0])
    if shape.kind == CAPSULE:
        return coal.Capsule(size[0], size[1])
    if shape.kind == BOX:
        return coal.Box(*size)
    if shape.kind == CYLINDER:
        return coal.Cylinder(size[0], size[1])
    return coal.Halfspace(np.array([0.0, 0.0, 1.0]), 0.0)


@pytest.mark.parametrize(
    "kinds", [k for k in PAIRS_OF_KINDS if HULL not in k], ids=[i for i in IDS if "hull" not in i]
)
def test_distances_agree_with_those_of_coal(kinds: tuple[int, int]) -> None:
    """Distances equal those of coal where coal's iterations converge."""
    coal = pytest.importorskip("coal", reason="coal has no wheels for Windows")
    request = coal.DistanceRequest()
    request.enable_signed_distance = True
    request.gjk_tolerance = request.epa_tolerance = 1e-10
    request.gjk_max_iterations = request.epa_max_iterations = 1000
    pairs = drawn(kinds, CASES)
    iterates = not {SPHERE, HALF_SPACE} & set(kinds)
    for (first, second), d in zip(pairs, contacts(pairs)[0], strict=True):
        placed = [
            part
            for shape in (first, second)
            for part in (
                coal_shape(coal, shape),
                coal.Transform3s(shape.pose[:3, :3], shape.pose[:3, 3]),
            )
        ]
        expected = coal.distance(*placed, request, coal.DistanceResult())
        if expected < -1e-9 and (iterates or CYLINDER in kinds):
            # The test above proves supple's depth. That of coal is the distance of a face inside
            # the Minkowski difference, or too large where coal's iterations end early.
            assert d >= expected - 1e-4
        else:
            assert d == pytest.approx(expected, abs=1e-6 if iterates else 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_no_close_pair_is_skipped_by_the_broad_phase_of_collision_checks(seed: int) -> None:
    """`min_distance` and `collides` agree with the distances of all pairs, which are exact."""
    scene = drawn_scene(seed)
    rng = np.random.default_rng(seed)
    lower, upper = np.maximum(scene.robot.lower, -2), np.minimum(scene.robot.upper, 2)
    Q = rng.uniform(lower, upper, size=(40, scene.robot.dof))
    nearest = []
    for q in Q:
        d, points, normal = scene.model.distances(q)
        least, pair = scene.model.min_distance(q)
        assert least == d.min() == d[pair]
        nearest.append(least)
        k = int(rng.integers(len(d)))
        first, second = (scene.in_world(i, q) for i in scene.pairs[k])
        assert separation(first, second, normal[k][None])[0] == pytest.approx(d[k], abs=1e-9)
        np.testing.assert_allclose(points[k, 0] - points[k, 1], d[k] * normal[k], atol=1e-12)
    for clearance in (*np.quantile(nearest, [0.1, 0.5, 0.9]), 0.0):
        found = scene.model.collides(Q, clearance + 1e-12)
        np.testing.assert_array_equal(found, np.array(nearest) < clearance + 1e-12)


def test_a_moved_obstacle_has_the_distances_of_a_new_obstacle_at_the_same_pose() -> None:
    rng = np.random.default_rng(0)
    for kind in (SPHERE, BOX, HULL, HALF_SPACE):
        fixed = random_shape(rng, kind, random_pose(rng, 0))
        shapes = [random_shape(rng, BOX, random_pose(rng, 0)), fixed]
        model = model_of(sliding_chain(), shapes, [0, -1], [(0, 1)])
        to = random_pose(rng, 0)
        model.move(1, to)
        again = model_of(
            sliding_chain(),
            [shapes[0], Shape(kind, fixed.size, fixed.radius, to, fixed.points)],
            [0, -1],
            [(0, 1)],
        )
        q = rng.normal(size=1)
        for found, expected in zip(model.distances(q), again.distances(q), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-14)
        with pytest.raises(ValueError, match="a shape of the world"):
            model.move(0, to)


def test_invalid_collision_models_are_rejected() -> None:
    shape = Shape(SPHERE, np.array([0.1, 0, 0]))
    chain = sliding_chain()
    for shapes, frames, pairs, message in [
        ([shape, shape], [-1, -1], [(0, 1)], "some joint moves"),
        ([shape, shape], [0, 0], [(0, 1)], "some joint moves"),
        ([shape, shape], [0, -1], [(0, 2)], "pairs must be"),
        ([shape, shape], [1, -1], [(0, 1)], "frame must be"),
        (
            [Shape(SPHERE, np.array([np.nan, 0, 0])), shape],
            [0, -1],
            [(0, 1)],
            "size must be finite",
        ),
        (
            [Shape(SPHERE, np.array([-1.0, 0, 0])), shape],
            [0, -1],
            [(0, 1)],
            "size must be at least",
        ),
        ([Shape(HULL), shape], [0, -1], [(0, 1)], "vertices of a hull"),
    ]:
        with pytest.raises(ValueError, match=message):
            model_of(chain, shapes, frames, pairs)
    model = model_of(chain, [shape, shape], [0, -1], [(0, 1)])
    with pytest.raises(InputError):
        model.distances([np.nan])
    with pytest.raises(InputError):
        model.collides([[0.0, 1.0]], 0.0)
    assert model_of(chain, [], [], []).min_distance([0.0]) == (np.inf, -1)
