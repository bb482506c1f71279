"""The center of mass stays above the support polygon for any commands of the tasks."""

from __future__ import annotations

import numpy as np
import pytest

import supple as sp
from generated import seeds
from sizes import nightly
from supple.errors import InputError
from supple.redundancy import SupportPolygon


def drawn_figure(rng: np.random.Generator) -> sp.Robot:
    """Return a robot with a floating base, two random arms and random masses."""
    inertia = " ".join(
        f'i{k}="{0.05 * (k[0] == k[1])}"' for k in ("xx", "xy", "xz", "yy", "yz", "zz")
    )
    body = (
        '<inertial><origin xyz="0 0 0.2"/><mass value="{}"/><inertia ' + inertia + "/></inertial>"
    )
    text = f'<link name="body">{body.format(5)}</link>'
    for side in "lr":
        parent = "body"
        for k in range(3):
            name, axis, at = f"{side}{k}", rng.normal(size=3), rng.uniform(-0.4, 0.4, 3)
            text += f"""<link name="{name}">{body.format(rng.uniform(0.5, 3))}</link>
              <joint name="{name}" type="revolute"><parent link="{parent}"/><child link="{name}"/>
              <origin xyz="{at[0]} {at[1]} {at[2]}"/><axis xyz="{axis[0]} {axis[1]} {axis[2]}"/>
              <limit lower="-2" upper="2" velocity="3" effort="1"/></joint>"""
            parent = name
    return sp.urdf(f'<robot name="figure">{text}</robot>').with_base("floating")


@pytest.mark.parametrize("seed", seeds(nightly(6, 3)))
def test_the_center_of_mass_stays_above_the_support(seed: int) -> None:
    rng = np.random.default_rng(seed)
    robot = drawn_figure(rng)
    q = robot.random(seed=rng)
    center = robot.center_of_mass(q)
    angles = np.sort(rng.uniform(0, 0.7, 8)) + np.linspace(0, 5.5, 8)
    around = rng.uniform(0.05, 0.3, (8, 1)) * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    support = SupportPolygon(center[:2] + around, margin=0.01)
    servo = sp.Servo(robot, sp.PoseTask("l2"), dt=0.01, constraints=[support])
    closest = np.inf
    for _ in range(8):
        twist = rng.normal(size=6) * 0.4
        for _ in range(25):
            q = servo(q, twist)
            closest = min(closest, float(support.distance(robot.center_of_mass(q))))
    assert closest >= 0.01 - 1e-3  # within a step the center of mass moves on a curve
    assert closest < 0.05  # the polygon acts


def test_the_distance_of_a_point_is_that_from_the_edges_of_the_convex_hull() -> None:
    rng = np.random.default_rng(5)
    square = [(0, 0), (2, 0), (2, 1), (0, 1), (1, 0.5), (1, 0)]
    support = SupportPolygon(square)
    p = rng.uniform(-1, 3, (200, 2))
    x, y = p.T
    np.testing.assert_allclose(
        support.distance(p), np.min([x, 2 - x, y, 1 - y], axis=0), atol=1e-15
    )


@pytest.mark.parametrize(
    ("points", "margin"),
    [([(0, 0), (1, 1), (2, 2)], 0.0), ([(0, 0), (1, 0)], 0.0), ([(0, 0), (1, 0), (0, 1)], 2.0)],
)
def test_polygons_without_area_or_smaller_than_their_margin_are_refused(
    points: list[tuple[float, float]], margin: float
) -> None:
    with pytest.raises(InputError, match="SupportPolygon"):
        SupportPolygon(points, margin)


@pytest.mark.parametrize("seed", seeds(2))
def test_a_support_polygon_as_a_task_obeys_the_order_of_priorities(seed: int) -> None:
    """Below a task for a hand, the polygon gives way; above the task for the hand, it holds."""
    rng = np.random.default_rng(seed)
    robot = drawn_figure(rng)
    start = robot.random(seed=rng)
    corners = robot.center_of_mass(start)[:2] + 0.1 * np.array([[1, 0], [-1, 1], [-1, -1]])
    support = SupportPolygon(corners, margin=0.01)
    balance, hand = support.task(robot), sp.PositionTask("l2")
    step = sp.DLS(sp.damping.Constant(1e-3))
    order, free = sp.redundancy.Priority(step), sp.Limits.none(robot)
    twist = 0.3 * rng.normal(size=3)
    for tasks in ([hand, balance], [balance, hand]):
        servo = sp.Servo(robot, [*tasks, sp.PoseTask("body")], dt=0.01, step=order, limits=free)
        alone = sp.Servo(robot, hand, dt=0.01, step=step, limits=free)
        q, nearest = start, np.inf
        for _ in range(60):
            first = tasks[0] is hand
            speeds = (twist, None) if first else (None, twist)
            rooms = (None, np.zeros(3)) if first else (np.zeros(3), None)
            alone(q, twist)
            J = robot.jacobian(q, "l2")[:3]
            q = servo(q, (*speeds, np.zeros(6)), (*rooms, None))
            nearest = min(nearest, float(support.distance(robot.center_of_mass(q))))
            if first:
                np.testing.assert_allclose(J @ servo.qd, J @ alone.qd, atol=1e-9)
        assert first or 0.05 > nearest > 0.01 - 2e-3


@pytest.mark.parametrize("position", [[1.0], 1.0, [np.nan, 0.0], "here"])
def test_the_distance_of_a_position_of_wrong_shape_or_type_is_refused(position: object) -> None:
    polygon = SupportPolygon([[0, 0], [1, 0], [0, 1]])
    with pytest.raises(InputError, match="position must be finite"):
        polygon.distance(position)  # type: ignore[arg-type]
