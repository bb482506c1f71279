"""The gradient of a criterion is the derivative of its value; distances are minimal."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import supple
from sizes import nightly
from supple.criteria import Clearance, GravityTorque, LimitDistance, Manipulability, RestPosture
from supple.criteria.shapes import Capsule, Sphere, closest_points
from supple.describe import Description, Joint, Mimic
from supple.errors import DescriptionError, InputError, UnknownNameError

Array = np.ndarray
ROBOTS = ("panda", "ur5e", "planar3", "y")
STEP = np.finfo(float).eps ** (1 / 3)


@cache
def robot(name: str) -> supple.Robot:
    return supple.load(name)


def frames(name: str) -> tuple[str, ...]:
    """Return the frames that bodies are attached to: the end effector and one in the middle."""
    chosen = robot(name)
    return chosen.tips if name == "y" else (chosen.tips[0], chosen.frames[-3])


def clearance(name: str, distance: float = 3.0) -> Clearance:
    bodies = [Capsule((0, 0, 0), (0.1, -0.2, 0.1), 0.05, frame) for frame in frames(name)]
    bodies.append(Sphere((0.1, 0, 0.05), 0.1, frames(name)[0]))
    obstacles = [Sphere((0.4, 0.5, 0.3), 0.1), Capsule((-1, 0.3, 0.2), (0.5, 1.0, -0.4), 0.2)]
    return Clearance(robot(name), bodies, obstacles, distance)


def gravity(name: str) -> GravityTorque:
    """Return the criterion for a robot with masses, in an oblique direction of gravity."""
    chosen = robot(name)
    for k, link in enumerate(chosen.description.links[1:]):
        center = 0.1 * np.cos(np.arange(3) + k)
        chosen = chosen.with_inertia(link, 0.3 / (k + 1), center, 0.01 * np.eye(3))
    return GravityTorque(chosen, np.linspace(0.5, 1, chosen.dof), (1.0, -2.0, -9.0))


def criteria(name: str) -> dict[str, supple.criteria.Criterion]:
    chosen = robot(name)
    n = chosen.dof
    rows = ("x", "y") if name == "planar3" else ("x", "y", "z")
    tips = robot(name).tips if name == "y" else None
    return {
        "rest": RestPosture(np.cos(np.arange(n)), np.linspace(0, 2, n)),
        "limits": LimitDistance.for_robot(chosen),
        "some limits": LimitDistance(np.full(n, -1.0), np.r_[np.full(n - 1, 2.0), np.inf]),
        "clearance": clearance(name),
        "gravity": gravity(name),
        "manipulability": Manipulability(chosen, tips, rows),
    }


def differences(value: object, q: Array) -> Array:
    """Return the gradient by central differences, one joint at a time."""
    sides = [(value(q + d) - value(q - d)) / (2 * STEP) for d in STEP * np.eye(len(q))]  # type: ignore[operator]
    return np.array(sides)


@pytest.mark.parametrize("kind", ["rest", "limits", "some limits", "clearance", "gravity"])
@pytest.mark.parametrize("name", ROBOTS)
def test_the_gradient_of_every_criterion_is_its_derivative(name: str, kind: str) -> None:
    criterion = criteria(name)[kind]
    for q in robot(name).random(20, seed=1):
        np.testing.assert_allclose(criterion(q), differences(criterion.value, q), atol=2e-8)
        assert criterion.value(q) >= 0


@pytest.mark.parametrize("name", ROBOTS)
def test_the_gradient_of_manipulability_agrees_with_the_trace_formula(name: str) -> None:
    """∂w/∂q_j = w tr(J⁺ ∂J/∂q_j), an oracle that does not use differences of w."""
    criterion = criteria(name)["manipulability"]
    chosen, rows = robot(name), [0, 1] if name == "planar3" else [0, 1, 2]

    def jacobian(q: Array) -> Array:
        J = chosen.jacobian(q, criterion.frame or chosen.tips)
        return np.concatenate([part[rows] for part in J])

    for q in chosen.random(20, seed=2):
        J, w = jacobian(q), -criterion.value(q)
        assert w == pytest.approx(np.prod(np.linalg.svd(J, compute_uv=False)), rel=1e-9)
        derivative = [
            w * np.trace(np.linalg.pinv(J) @ (jacobian(q + d) - jacobian(q - d))) / (2 * STEP)
            for d in STEP * np.eye(chosen.dof)
        ]
        np.testing.assert_allclose(criterion(q), -np.array(derivative), atol=1e-8)


def test_manipulability_of_two_links_is_the_closed_form() -> None:
    """For two links, w = l1 l2 |sin q2|."""
    two = robot("planar2")
    criterion = Manipulability(two, rows=("x", "y"))
    ends = two.fk([[0, 0], [0, np.pi]])[:, 0, 3]
    product = (ends[0] ** 2 - ends[1] ** 2) / 4
    for q2 in (0.3, -1.2, 2.0, np.pi / 2):
        expected = [0, -product * math.copysign(math.cos(q2), math.sin(q2) * math.cos(q2))]
        assert criterion([0.5, q2]) == pytest.approx(expected, abs=1e-8)
        assert criterion.value([0.5, q2]) == pytest.approx(-product * abs(math.sin(q2)))


@pytest.mark.parametrize("name", [*ROBOTS, "planar2", "puma560"])
def test_manipulability_is_finite_at_a_singularity(name: str) -> None:
    n = robot(name).dof
    for q in (np.zeros(n), np.full(n, np.pi), np.eye(n)[0]):
        assert np.isfinite(Manipulability(robot(name))(q)).all()


def test_infinite_limits_do_not_count_in_the_limit_distance() -> None:
    lower, upper = np.array([-1, -np.inf, 0, 2, -np.inf]), np.array([1, 1, np.inf, 2, np.inf])
    criterion = LimitDistance(lower, upper)
    assert criterion([0.5, 9, 9, 9, 9]).tolist() == [0.125, 0, 0, 0, 0]
    assert criterion.value([1, 9, 9, 9, 9]) == 1 / 8
    assert LimitDistance([-np.inf], [np.inf]).value([3.0]) == 0


# ---- clearance ---------------------------------------------------------------------------------


def brute(one: Array, other: Array, count: int = 400) -> float:
    """Return the smallest distance between two segments, by sampling points."""
    share = np.linspace(0, 1, count)[:, None]
    p, q = (x[0] + share * (x[1] - x[0]) for x in (one, other))
    return float(np.linalg.norm(p[:, None] - q, axis=-1).min())


numbers = st.sampled_from([-1.0, 0.0, 1.0, 0.5, 1e-9, -1 / 3]) | st.floats(-2, 2)
points = st.tuples(numbers, numbers, numbers)


@settings(max_examples=nightly(150, 50), deadline=None)
@given(points, points, points, points)
def test_closest_points_of_segments_are_those_of_a_brute_force_search(
    a: Array, b: Array, c: Array, d: Array
) -> None:
    one, other = np.array([a, b]), np.array([c, d])
    p, q = closest_points(one, other)
    found = np.linalg.norm(p - q)
    for point, segment in ((p, one), (q, other)):  # the points are on the segments
        assert (
            brute(point[None].repeat(2, 0), segment)
            <= np.linalg.norm(segment[1] - segment[0]) / 399 + 1e-12
        )
        assert (point >= segment.min(axis=0) - 1e-12).all()
        assert (point <= segment.max(axis=0) + 1e-12).all()
    spacing = (np.linalg.norm(one[1] - one[0]) + np.linalg.norm(other[1] - other[0])) / 2 / 399
    assert found - 1e-12 <= brute(one, other) <= found + spacing + 1e-12


@pytest.mark.parametrize("tilt", [0.0, 1e-16, 1e-12, 1e-9, 1e-8, 1e-6, 1e-3])
@pytest.mark.parametrize("shift", [-3.0, -1.0, -0.3, 0.0, 0.7, 2.0])
def test_closest_points_of_nearly_parallel_segments_are_exact(tilt: float, shift: float) -> None:
    """No pair of points on a fine grid is closer, except by rounding."""
    one = np.array([[0, 0, 0], [1, 0, 0.0]])
    other = np.array([[shift, 0.5, 0], [shift + 1, 0.5 + tilt, -tilt]])
    for x, y in ((one, other), (other, one), (one[::-1], other)):
        p, q = closest_points(x, y)
        assert np.linalg.norm(p - q) <= brute(x, y, 301) + 1e-14


def test_closest_points_of_segments_of_length_zero_and_batches_agree() -> None:
    rng = np.random.default_rng(3)
    one, other = rng.normal(size=(5, 1, 2, 3)), rng.normal(size=(4, 2, 3))
    one[0, 0, 1] = one[0, 0, 0]
    other[0, 1] = other[0, 0]
    p, q = closest_points(one, other)
    assert p.shape == q.shape == (5, 4, 3)
    assert np.linalg.norm(p - q, axis=-1)[0, 0] == pytest.approx(
        np.linalg.norm(one[0, 0, 0] - other[0, 0])
    )
    for i, j in np.ndindex(5, 4):
        alone = closest_points(one[i, 0], other[j])
        assert (alone[0] == p[i, j]).all()
        assert (alone[1] == q[i, j]).all()


@pytest.mark.parametrize("name", ROBOTS)
def test_distances_are_those_of_the_shapes_in_the_world(name: str) -> None:
    criterion = clearance(name)
    for q in robot(name).random(5, seed=4):
        d, here, there = criterion.distances(q)
        for i, body in enumerate(criterion.bodies):
            T = robot(name).fk(q, body.frame)
            placed = body.segment @ T[:3, :3].T + T[:3, 3]
            for k, obstacle in enumerate(criterion.obstacles):
                gap = brute(placed, obstacle.segment, 200) - body.radius - obstacle.radius
                assert d[i, k] - 1e-12 <= gap <= d[i, k] + 0.01
                apart = np.linalg.norm(here[i, k] - there[i, k])
                assert d[i, k] == pytest.approx(apart - body.radius - obstacle.radius)
        assert criterion.value(q) == pytest.approx((np.maximum(0, 3.0 - d) ** 2).sum() / 2)


def test_clearance_ignores_distant_shapes_and_is_finite_for_touching_ones() -> None:
    far = clearance("panda", 0.0)
    q = robot("panda").neutral()
    d = far.distances(q)[0]
    assert (far(q) == 0).all() == bool((d >= 0).all())
    tip = robot("panda").fk(q)[:3, 3]
    inside = Clearance(
        robot("panda"), [Sphere((0, 0, 0), 0.1, robot("panda").tips[0])], [Sphere(tip, 0.1)], 0.1
    )
    assert inside.distances(q)[0] == pytest.approx(-0.2)
    assert (inside(q) == 0).all()


def test_the_cost_falls_along_the_negative_gradient() -> None:
    for name in ROBOTS:
        for kind, criterion in criteria(name).items():
            q = robot(name).random(seed=5)
            gradient = criterion(q)
            if np.linalg.norm(gradient) > 1e-6:
                assert criterion.value(q - 1e-4 * gradient) < criterion.value(q), (name, kind)


# ---- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: RestPosture([[1.0]]), "q_rest"),
        (lambda: RestPosture([np.nan]), "finite"),
        (lambda: RestPosture([1.0, 2.0], [1.0]), "weight"),
        (lambda: RestPosture([1.0], -1.0), "not negative"),
        (lambda: RestPosture([1.0, 2.0])([1.0]), r"\(2,\)"),
        (lambda: LimitDistance([0.0], [np.nan]), "upper"),
        (lambda: LimitDistance([1.0], [0.0]), "not exceed"),
        (lambda: LimitDistance([1.0], [2.0, 3.0]), "length of upper"),
        (lambda: LimitDistance([0.0], [1.0])([np.inf]), "finite"),
        (lambda: Manipulability("panda"), "Robot"),  # type: ignore[arg-type]
        (lambda: Manipulability(robot("panda"))([0.0]), r"\(7,\)"),
        (lambda: Sphere((0, 0), 1.0), r"\(3,\)"),
        (lambda: Sphere((0, 0, 0), -1.0), "radius"),
        (lambda: Capsule((0, 0, 0), (0, 0, np.inf), 1.0), "finite"),
        (lambda: Capsule((0, 0, 0), (0, 0, 1), 1.0, 3), "frame"),  # type: ignore[arg-type]
        (lambda: Clearance(robot("panda"), [], [Sphere((0, 0, 0), 1.0)], 1.0), "bodies"),
        (lambda: Clearance(robot("panda"), [1], [Sphere((0, 0, 0), 1.0)], 1.0), "bodies"),  # type: ignore[list-item]
    ],
)
def test_bad_input_is_refused(make: object, says: str) -> None:
    with pytest.raises(InputError, match=says):
        make()  # type: ignore[operator]


def test_criteria_refuse_unknown_frames() -> None:
    ball = Sphere((0, 0, 0), 1.0)
    with pytest.raises(UnknownNameError, match="nowhere"):
        Clearance(robot("panda"), [Sphere((0, 0, 0), 1.0, "nowhere")], [ball], 1.0)
    with pytest.raises(UnknownNameError, match="nowhere"):
        Manipulability(robot("panda"), "nowhere")
    tip = robot("panda").tips[0]
    with pytest.raises(InputError, match="frame of an obstacle"):
        Clearance(robot("panda"), [Sphere((0, 0, 0), 1.0, tip)], [Sphere((0, 0, 0), 1.0, tip)], 1.0)
    with pytest.raises(InputError, match="distance"):
        Clearance(robot("panda"), [Sphere((0, 0, 0), 1.0, tip)], [ball], math.nan)


def test_gravity_torques_of_screw_and_mimic_joints_have_exact_gradients() -> None:
    """The gradient is exact also if one coordinate moves several joints."""
    screw = Joint("screw", "screw", "base", "a", axis=np.array([0.6, 0.0, 0.8]), pitch=0.3)
    elbow = Joint(
        "elbow", "continuous", "a", "b", supple.pose([0.5, 0.1, 0]), np.array([0, 1.0, 0])
    )
    follows = Joint(
        "tip", "continuous", "b", "c", supple.pose([0.4, 0, 0.2]), mimic=Mimic("elbow", -2.0)
    )
    arm = supple.Robot(Description("arm", (screw, elbow, follows)))
    for link in "abc":
        arm = arm.with_inertia(link, 1.0, (0.1, 0.2, -0.1))
    criterion = GravityTorque(arm)
    for q in arm.random(10, seed=3):
        np.testing.assert_allclose(criterion(q), differences(criterion.value, q), atol=1e-6)


def test_self_motion_of_a_redundant_arm_reduces_its_gravity_torques() -> None:
    arm = supple.load("planar4").with_base(
        supple.pose(rpy=[np.pi / 2, 0, 0])
    )  # in a vertical plane
    for link in arm.description.links[1:]:
        arm = arm.with_inertia(link, 2.0, (-0.25, 0, 0))
    criterion, q = GravityTorque(arm), np.array([0.4, 0.5, 0.6, 0.7])
    tip, before = arm.fk(q)[:3, 3], criterion.value(q)
    for _ in range(2000):
        J = arm.jacobian(q)[[0, 2]]
        moved = -criterion(q) * 1e-5 - 1.0 * np.linalg.pinv(J) @ (arm.fk(q)[:3, 3] - tip)[[0, 2]]
        q = q + moved - np.linalg.pinv(J) @ (J @ (-criterion(q) * 1e-5))
    assert criterion.value(q) < 0.8 * before
    np.testing.assert_allclose(arm.fk(q)[:3, 3], tip, atol=1e-6)


def test_gravity_torques_need_masses_and_weights_that_fit() -> None:
    with pytest.raises(DescriptionError, match="has no masses"):
        GravityTorque(robot("panda"))
    weighty = robot("panda").with_inertia("panda_hand", 1.0)
    with pytest.raises(InputError, match="weight must be a number or"):
        GravityTorque(weighty, np.ones(6))
    with pytest.raises(InputError, match="gravity must be"):
        GravityTorque(weighty, gravity=(9.81,))
