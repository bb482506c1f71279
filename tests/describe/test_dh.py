"""Robots made from DH tables agree with the formulas of both conventions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cases import each
from slow_fk import fk
from supple.describe import dh
from supple.errors import DescriptionError, UnknownNameError


def standard(a: float, alpha: float, d: float, theta: float) -> np.ndarray:
    """Return the product Rz(theta) Tz(d) Tx(a) Rx(alpha) in closed form."""
    ct, st, ca, sa = math.cos(theta), math.sin(theta), math.cos(alpha), math.sin(alpha)
    return np.array(
        [
            (ct, -st * ca, st * sa, a * ct),
            (st, ct * ca, -ct * sa, a * st),
            (0, sa, ca, d),
            (0, 0, 0, 1),
        ]
    )


def modified(a: float, alpha: float, d: float, theta: float) -> np.ndarray:
    """Return the product Rx(alpha) Tx(a) Rz(theta) Tz(d) in closed form: Craig's equation (3.6)."""
    ct, st, ca, sa = math.cos(theta), math.sin(theta), math.cos(alpha), math.sin(alpha)
    return np.array(
        [
            (ct, -st, 0, a),
            (st * ca, ct * ca, -sa, -sa * d),
            (st * sa, ct * sa, ca, ca * d),
            (0, 0, 0, 1),
        ]
    )


@each("kinds", ["RRRRRR", "RRPRRR", "PRPRPR"])
@each("formula", [standard, modified])
def test_dh_tables_follow_the_formula_of_their_convention(formula: object, kinds: str) -> None:
    rng = np.random.default_rng(3)
    table = rng.uniform(-2, 2, (6, 4))
    q = rng.uniform(-2, 2, 6)
    T = fk(dh(table, convention=formula.__name__, kinds=kinds), q)  # type: ignore[attr-defined]
    expected = np.eye(4)
    for i, (a, alpha, d, theta) in enumerate(table):
        moved = (d, theta + q[i]) if kinds[i] == "R" else (d + q[i], theta)
        expected = expected @ formula(a, alpha, *moved)  # type: ignore[operator]
        assert abs(T[f"link{i + 1}"] - expected).max() < 1e-14


@each("convention", ["standard", "modified"])
def test_base_and_tool_multiply_the_pose_of_a_dh_table_on_the_left_and_right(
    convention: str,
) -> None:
    rng = np.random.default_rng(4)
    table, q = rng.uniform(-2, 2, (3, 4)), rng.uniform(-2, 2, 3)
    base, tool = standard(1, 2, 3, 4), standard(5, 6, 7, 8)
    plain = dh(table, convention=convention)  # type: ignore[arg-type]
    robot = dh(table, convention=convention, base=base, tool=tool)  # type: ignore[arg-type]
    assert robot.tips == ("tool",)
    assert np.allclose(fk(robot, q)["tool"], base @ fk(plain, q)["link3"] @ tool, atol=1e-13)


@each("turns", [-4, -3, -2, -1, 0, 1, 2, 3, 4])
def test_right_angles_in_a_dh_table_are_exact(turns: int) -> None:
    angle = turns * math.pi / 2
    joint = dh([(0.5, angle, 0.25, angle)]).joints[0]
    entries = {0.0, 1.0, -1.0, 0.5, -0.5, 0.25, -0.25}
    assert set(joint.child_placement.ravel()) <= entries
    assert abs(joint.child_placement - standard(0.5, angle, 0.25, angle)).max() < 1e-15


def test_an_angle_that_is_nearly_a_right_angle_is_not_rounded() -> None:
    joint = dh([(0, 1.5707963, 0, 0)]).joints[0]
    assert joint.child_placement[2, 2] == math.cos(1.5707963)


def test_a_dh_robot_has_the_given_names_limits_and_kinds_of_joints() -> None:
    robot = dh(
        np.zeros((2, 4)),
        kinds=["revolute", "prismatic"],
        limits=[(-1, 2), (0, math.inf)],
        max_speed=[3, 4],
        joint_names=["shoulder", "slide"],
        link_names=["base", "arm", "hand"],
        name="crane",
    )
    turn, slide = robot.joints
    assert robot.name == "crane"
    assert robot.links == ("base", "arm", "hand")
    assert robot.tips == ("hand",)
    assert (turn.name, turn.kind, turn.lower, turn.upper) == ("shoulder", "revolute", -1, 2)
    assert (slide.name, slide.kind, slide.upper, slide.max_speed) == (
        "slide",
        "prismatic",
        math.inf,
        4,
    )
    assert dh(np.zeros((1, 4))).joints[0].kind == "continuous"


nan_pose = np.full((4, 4), math.nan)


@each(
    ("table", "options", "message"),
    [
        ([], {}, r"table: expected one row .* given shape \(0,\)"),
        (np.zeros((3, 5)), {}, r"table: .* given shape \(3, 5\)"),
        ("table", {}, "table: expected real numbers, given 'table'"),
        (np.zeros((2, 4)) + 1j, {}, "table: expected real numbers, given array"),
        ([(10**400, 0, 0, 0)], {}, "table: expected real numbers"),
        ([(1e308, 1, 1e308, 1)], {}, "'joint1': child_placement: "),
        ([(1e13, 0, 0, 0)], {}, "'joint1': child_placement: is farther away than 1e.12 m"),
        ([(0, math.nan, 0, 0)], {}, "table: row 1 is not finite: .*nan"),
        ([(math.inf, 0, 0, 0)], {}, "table: row 1 is not finite"),
        (np.zeros((2, 4)), {"kinds": "R"}, "kinds: expected 2 kinds, one per joint, given 'R'"),
        (np.zeros((2, 4)), {"kinds": "RX"}, "kinds: unknown kind 'X'. Available: 'R', 'P'"),
        (np.zeros((2, 4)), {"kinds": "Rp"}, "kinds: unknown kind 'p'; did you mean 'P'"),
        (np.zeros((1, 4)), {"kinds": ["revolutee"]}, "'revolutee'; did you mean 'revolute'"),
        (np.zeros((1, 4)), {"kinds": [["R"]]}, "kinds: unknown kind .'R'"),
        (np.zeros((2, 4)), {"kinds": 3}, "kinds: expected 2 kinds, one per joint, given 3"),
        (np.zeros((2, 4)), {"limits": [1, 2]}, r"limits: expected shape \(2, 2\)"),
        (np.zeros((1, 4)), {"limits": [(2, 1)]}, "'joint1': the lower limit is above"),
        (np.zeros((2, 4)), {"max_speed": [1, 2, 3]}, r"max_speed: expected shape \(\) or \(2,\)"),
        (np.zeros((2, 4)), {"base": np.eye(3)}, r"base: expected shape \(4, 4\)"),
        (np.zeros((2, 4)), {"base": nan_pose}, "'joint1': origin: contains values that are not"),
        (np.zeros((2, 4)), {"tool": np.ones((4, 4))}, "frame 'tool': placement: last row"),
        (np.zeros((2, 4)), {"base": 1e308 * np.ones((4, 4))}, "'joint1': origin: "),
        (np.zeros((2, 4)), {"joint_names": 5}, "joint_names: expected 2 names, given 5"),
        (np.zeros((2, 4)), {"joint_names": [1, 2]}, "joint name: expected a non-empty string"),
        (np.zeros((2, 4)), {"joint_names": ["a"]}, "joint_names: expected 2 names"),
        (np.zeros((2, 4)), {"link_names": "abc"}, "link_names: expected 3 names, given 'abc'"),
        (np.zeros((2, 4)), {"joint_names": ["a", "a"]}, "two joints are named 'a'"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_an_invalid_dh_table_is_refused(
    table: object, options: dict[str, object], message: str
) -> None:
    with pytest.raises(DescriptionError, match=message):
        dh(table, **options)  # type: ignore[arg-type]


def test_an_unknown_dh_convention_is_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"convention 'craig'\. Available: 'standard'"):
        dh(np.zeros((2, 4)), convention="craig")  # type: ignore[arg-type]
