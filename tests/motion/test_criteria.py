"""Gradients of criteria are derivatives of their values; costs follow from distances."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

import supple
from supple.collision import Box, Capsule, Sphere, contacts
from supple.criteria import Clearance, GravityTorque, LimitDistance, Manipulability, RestPosture
from supple.describe import Description, Joint, Mimic
from supple.errors import DescriptionError, InputError, UnknownNameError

Array = np.ndarray
ROBOTS = ("panda", "ur5e", "planar3", "y")
STEP = np.finfo(float).eps ** (1 / 3)


@cache
def robot(name: str) -> supple.Robot:
    return supple.load(name)


def frames(name: str) -> tuple[str, ...]:
    """Return the frames that carry shapes: the end effector and a frame in the middle."""
    chosen = robot(name)
    return chosen.tips if name == "y" else (chosen.tips[0], chosen.frames[-3])


def surroundings(name: str) -> supple.World:
    """Return a world of obstacles, with capsules and a sphere attached to frames of a robot."""
    held = [(frame, [Capsule(0.05, 0.24, (0.05, -0.1, 0.05))]) for frame in frames(name)]
    attached = dict(held)
    attached[frames(name)[0]] = [*attached[frames(name)[0]], Sphere(0.1, (0.1, 0, 0.05))]
    obstacles = {
        "ball": Sphere(0.1, (0.4, 0.5, 0.3)),
        "beam": Capsule(0.2, 1.8, supple.pose((-0.25, 0.65, -0.1), rpy=(0.3, 1.1, 0.2))),
        "box": Box((0.2, 0.3, 0.4), supple.pose((0.3, -0.6, 0.2), rpy=(0.1, 0.2, 0.3))),
    }
    return supple.World(obstacles, attached=attached, links={}, unchecked=())


def clearance(name: str, distance: float = 3.0) -> Clearance:
    return Clearance(robot(name), surroundings(name), distance)


def gravity(name: str) -> GravityTorque:
    """Return the criterion for a robot with masses, under gravity in an oblique direction."""
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


def test_manipulability_of_a_two_link_arm_is_l1_l2_sin_q2() -> None:
    """The absolute value of l1 l2 sin q2, for link lengths l1 and l2."""
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


def test_joints_with_an_infinite_limit_do_not_change_the_limit_distance() -> None:
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


@pytest.mark.parametrize("name", ROBOTS)
def test_the_clearance_cost_is_the_sum_over_distances_of_shapes(name: str) -> None:
    """For capsules and spheres, the cost agrees with sampled distances; a box only adds to it."""
    criterion, world = clearance(name), surroundings(name)
    for q in robot(name).random(5, seed=4):
        one_each = {"box", "ball"}  # one contact is listed for each pair of link and obstacle
        listed = {each.other: each.distance for each in contacts(robot(name), world, q)}
        assert one_each & set(listed)
        value = 0.0
        bodies = []
        for frame, shapes in world.attached.items():
            T = robot(name).fk(q, frame)
            for shape in shapes:
                half = getattr(shape, "length", 0.0) / 2
                ends = (T @ shape.pose @ [[0, 0], [0, 0], [-half, half], [1, 1]])[:3].T
                bodies.append((frame, ends, shape.radius))
        for obstacle in (world.obstacles["ball"], world.obstacles["beam"]):
            half = getattr(obstacle, "length", 0.0) / 2
            ends = (obstacle.pose @ [[0, 0], [0, 0], [-half, half], [1, 1]])[:3].T
            for _, own, radius in bodies:
                gap = brute(own, ends, 200) - radius - obstacle.radius  # type: ignore[union-attr]
                value += max(0.0, 3.0 - gap) ** 2 / 2
        some = supple.World(
            {key: world.obstacles[key] for key in ("ball", "beam")},
            attached=world.attached,
            links={},
            unchecked=pairs_among(name),
        )
        own = Clearance(robot(name), some, 3.0).value(q)
        assert value <= own <= value + 0.1
        assert criterion.value(q) >= own


def pairs_among(name: str) -> list[tuple[str, str]]:
    """Return all pairs of links of a robot."""
    own = list(robot(name).description.links)
    return [(one, other) for one in own for other in own if one != other]


def test_the_clearance_cost_is_zero_for_distant_shapes_and_finite_for_coinciding_ones() -> None:
    panda = robot("panda")
    q, tip = panda.neutral(), panda.tips[0]
    far = clearance("panda", 0.0)
    apart = contacts(panda, far.world, q)[0].distance >= 0
    assert bool((far(q) == 0).all()) is apart
    at = panda.fk(q)[:3, 3]
    world = supple.World({"ball": Sphere(0.1, at)}, attached={tip: Sphere(0.1)}, links={})
    inside = Clearance(panda, world, 0.1)
    assert inside.value(q) == pytest.approx(0.3**2 / 2)
    assert np.isfinite(inside(q)).all()
    alone = Clearance(panda, supple.World(links={}), 1.0)
    assert alone.value(q) == 0
    assert (alone(q) == 0).all()


def test_the_value_of_every_criterion_falls_along_its_negative_gradient() -> None:
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
        (lambda: Clearance(robot("panda"), [Sphere(1.0)], 1.0), "world must be a World"),  # type: ignore[arg-type]
        (lambda: clearance("panda")([0.0]), r"\(7,\)"),
    ],
)
def test_criteria_refuse_bad_input(make: object, says: str) -> None:
    with pytest.raises(InputError, match=says):
        make()  # type: ignore[operator]


def test_criteria_refuse_unknown_frames() -> None:
    with pytest.raises(UnknownNameError, match="nowhere"):
        Clearance(robot("panda"), supple.World(attached={"nowhere": Sphere(1.0)}), 1.0)
    with pytest.raises(UnknownNameError, match="nowhere"):
        Manipulability(robot("panda"), "nowhere")
    with pytest.raises(InputError, match="distance"):
        Clearance(robot("panda"), supple.World(), math.nan)


def test_the_error_about_a_shape_of_earlier_versions_names_its_new_place() -> None:
    with pytest.raises(AttributeError, match=r"shapes are in supple\.collision"):
        supple.criteria.Sphere  # noqa: B018


def test_gravity_torques_of_screw_and_mimic_joints_have_exact_gradients() -> None:
    """In these robots, one coordinate moves several joints."""
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


def test_gravity_torque_refuses_missing_masses_and_weights_or_gravity_of_wrong_shape() -> None:
    with pytest.raises(DescriptionError, match="has no masses"):
        GravityTorque(robot("panda"))
    weighty = robot("panda").with_inertia("panda_hand", 1.0)
    with pytest.raises(InputError, match="weight must be a number or"):
        GravityTorque(weighty, np.ones(6))
    with pytest.raises(InputError, match="gravity must be"):
        GravityTorque(weighty, gravity=(9.81,))
