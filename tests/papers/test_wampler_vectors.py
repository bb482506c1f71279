"""Wampler's vector formulation, (11) to (27) and (47), for any twist and both kinds of joint.

Link i has length a, twist β, and offset b toward joint i + 1; z_i is the axis of joint i, and
Q_{i-1} is a point on this axis. The tool T is fixed to the last link, and its tip is R.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from supple.papers import Outcome

import supple

Array = np.ndarray
Ran = Callable[[str], Outcome]
KINDS = ("RRRRRR", "RRPRRR", "PRPRP", "RP")


def about_x(angle: float) -> Array:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[1, 0, 0], [0, c, -s], [0, s, c]])


def about_z(angle: float) -> Array:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])


@dataclass(frozen=True)
class Links:
    """An arm given by a row (a, β, b, θ) for each link, the kinds of its joints, and the pose of
    the tool in link n.
    """

    rows: Array
    kinds: str
    tool: Array

    @classmethod
    def random(cls, kinds: str) -> Links:
        rng = np.random.default_rng([ord(kind) for kind in kinds])
        rows = rng.uniform(-1.5, 1.5, (len(kinds), 4))
        rows[-1, :3] = 0  # the last link has no joint at its end, only the tool
        tool = np.eye(4)
        tool[:3, :3] = about_x(0.7) @ about_z(1.1)
        tool[:3, 3] = 0.3, -0.2, 0.4
        return cls(rows, kinds, tool)

    def robot(self) -> supple.Robot:
        return supple.dh(self.rows, kinds=self.kinds).with_tool(self.tool)

    def joint(self, i: int, q: Array) -> tuple[float, float]:
        """Return θ and b of joint i, where the first joint has i = 0."""
        b, theta = self.rows[i, 2:]
        return (theta + q[i], b) if self.kinds[i] == "R" else (theta, b + q[i])

    def turn(self, i: int, q: Array) -> Array:
        """Return ⁱC^{i+1} of (22), from link i + 1 to link i; the first link has i = 1, and i = 0
        gives ⁰C¹.
        """
        twist = self.rows[i - 1, 1] if i else 0.0
        return about_x(twist) @ about_z(self.joint(i, q)[0])

    def points(self, q: Array) -> list[Array]:
        """Return p^{R/Q_{i-1}} of (21) and (23) in link i, for links 1 to n."""
        n = len(q)
        found = [self.tool[:3, 3] + [0, 0, self.joint(n - 1, q)[1]]]
        for i in range(n - 1, 0, -1):
            across = [self.rows[i - 1, 0], 0.0, self.joint(i - 1, q)[1]]
            found.insert(0, self.turn(i, q) @ found[0] + across)
        return found

    def columns(self, q: Array) -> list[tuple[Array, Array]]:
        """Return v_i^R and ω_i^T of (12), (16) and (20), each in the frame of link i."""
        z = np.array([0.0, 0.0, 1.0])
        return [
            (np.array([-p[1], p[0], 0.0]), z) if kind == "R" else (z, np.zeros(3))
            for p, kind in zip(self.points(q), self.kinds, strict=True)
        ]

    def to_base(self, q: Array) -> list[Array]:
        """Return ⁰C^i of (25) for links 1 to n."""
        found = [self.turn(0, q)]
        for i in range(1, len(q)):
            found.append(found[-1] @ self.turn(i, q))
        return found

    def to_tool(self, q: Array) -> list[Array]:
        """Return ⁱC^T of (26) for links 1 to n."""
        found = [self.tool[:3, :3]]
        for i in range(len(q) - 1, 0, -1):
            found.insert(0, self.turn(i, q) @ found[0])
        return found


def arm_and_q(kinds: str) -> tuple[Links, Array]:
    return Links.random(kinds), np.random.default_rng(len(kinds)).uniform(-2, 2, len(kinds))


@pytest.mark.parametrize("kinds", KINDS)
def test_the_recursion_gives_the_jacobian_in_any_frame(kinds: str) -> None:
    """(27) equals `Robot.jacobian` in the frames of the base, the tool and a link in the middle."""
    links, q = arm_and_q(kinds)
    robot, columns = links.robot(), links.columns(q)
    base, tool = links.to_base(q), [C.T for C in links.to_tool(q)]
    middle = len(kinds) // 2  # in supple, the frame of this link includes the twist of its row
    aside = (base[middle - 1] @ about_x(links.rows[middle - 1, 1])).T
    link = [aside @ C for C in base]
    for turns, axes in ((base, "world"), (tool, "body"), (link, f"link{middle}")):
        J = np.array([np.r_[C @ v, C @ w] for C, (v, w) in zip(turns, columns, strict=True)]).T
        np.testing.assert_allclose(robot.jacobian(q, axes=axes), J, atol=1e-13)


@pytest.mark.parametrize("kinds", KINDS)
def test_columns_of_the_jacobian_are_those_of_wamplers_theorems_1_and_2(kinds: str) -> None:
    """Column i of J is [z_i × p^{R/Q}; z_i] for a revolute and [z_i; 0] for a prismatic joint; for
    a link before joint i, column i is 0.
    """
    links, q = arm_and_q(kinds)
    robot = links.robot()
    J = robot.jacobian(q)
    T, again = robot.fk_jacobian(q)
    np.testing.assert_array_equal(again, J)
    for i, (C, p) in enumerate(zip(links.to_base(q), links.points(q), strict=True)):
        z, turns = C[:, 2], kinds[i] == "R"
        np.testing.assert_allclose(J[3:, i], turns * z, atol=1e-13)
        np.testing.assert_allclose(J[:3, i], np.cross(z, C @ p) if turns else z, atol=1e-13)
        if i:  # joint i does not move the link before it
            assert not robot.jacobian(q, f"link{i}")[:, i:].any()
    # The recursion also gives the position of the tip and the rotation of the tool.
    start = links.to_base(q)[0] @ links.points(q)[0]
    np.testing.assert_allclose(T[:3, 3], start, atol=1e-13)
    np.testing.assert_allclose(T[:3, :3], links.to_base(q)[-1] @ links.tool[:3, :3], atol=1e-13)


@pytest.mark.parametrize("kinds", KINDS)
def test_the_normal_equations_can_be_computed_from_columns_in_link_frames(kinds: str) -> None:
    """(47): P_ij = v_i·v_j + ω_i·ω_j follows from columns in the frame of link i; ω_i·ω_(i+1) = cos
    β_i.
    """
    links, q = arm_and_q(kinds)
    J, columns = links.robot().jacobian(q), links.columns(q)
    P = J.T @ J
    for i, (v, w) in enumerate(columns):
        assert P[i, i] == pytest.approx(v[0] ** 2 + v[1] ** 2 + 1 if w.any() else 1.0)
        if i + 1 < len(q):
            beyond, turn = columns[i + 1], links.turn(i + 1, q)
            both = w.any() and beyond[1].any()
            twist = np.cos(links.rows[i, 1])
            expected = v @ turn @ beyond[0] + (twist if both else 0.0)
            assert P[i, i + 1] == pytest.approx(expected, abs=1e-12)


# ---- costs that the text mentions on the way -----------------------------------------------------


@dataclass
class Cost:
    """A counter of multiplications and additions; an operation with a known zero is free."""

    multiplications: int = 0
    by_one: int = 0
    additions: int = 0

    def product(self, A: Array, B: Array) -> Array:
        """Return A B and count the operations; products with 0 are free, and products with ±1 are
        counted separately.
        """
        for row in A:
            for column in B.T if B.ndim > 1 else [B]:
                terms = [(x, y) for x, y in zip(row, column, strict=True) if x != 0 and y != 0]
                ones = sum(abs(x) == 1 or abs(y) == 1 for x, y in terms)
                self.by_one += ones
                self.multiplications += len(terms) - ones
                self.additions += max(0, len(terms) - 1)
        return A @ B

    def total(self, a: Array, b: Array) -> Array:
        """Return a + b and count the additions."""
        self.additions += int(((a != 0) & (b != 0)).sum())
        return a + b


RIGHT = np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])  # a rotation about x by exactly 90°


@pytest.mark.parametrize(("twist", "cost"), [(about_x(0.7), (8, 4)), (RIGHT, (4, 2))])
def test_a_vector_conversion_takes_8_multiplications_and_4_additions_or_half_at_right_angles(
    ran: Ran, twist: Array, cost: tuple[int, int]
) -> None:
    """It takes half as many if the twist is 90°."""
    found = Cost()
    found.product(twist, found.product(about_z(1.2), np.array([0.3, -0.4, 0.5])))
    assert (found.multiplications, found.additions) == cost
    counted = ran("w-counts").quantities
    if twist is not RIGHT:
        assert (counted["conversion.multiplications"], counted["conversion.additions"]) == cost


def test_converting_the_columns_of_j_takes_30_percent_of_general_conversions(ran: Ran) -> None:
    """As stated below (27), v_i has a zero entry in the frame of link i, and ω_i is
    a column of C.
    """
    C = about_x(0.7) @ about_z(1.2) @ about_x(0.4)
    general, special = Cost(), Cost()
    for vector in ([0.3, -0.4, 0.5], [0.1, 0.2, 0.3]):
        general.product(C, np.array(vector))
    special.product(C, np.array([0.3, -0.4, 0.0]))
    costs = [cost.multiplications + cost.additions for cost in (general, special)]
    assert costs == [30, 9]
    assert ran("w-counts").quantities["columns.saved"] == pytest.approx(1 - 9 / 30)


def costs_of(n: int, frame: str) -> tuple[Cost, Cost]:
    """Return the cost of (21), (25) or (26), and (27), for n revolute joints with twists of 90°.

    The second returned cost is that of the part before (27).
    """
    rng, cost = np.random.default_rng(n), Cost()
    turns = [RIGHT @ about_z(angle) for angle in rng.uniform(0.2, 1.2, n - 1)]  # C of (22)
    points = [rng.normal(size=3)]
    for C in reversed(turns):
        points.insert(0, cost.total(cost.product(C, points[0]), np.array([0.3, 0.0, 0.2])))
    if frame == "base":
        into = [about_z(0.3)]
        for C in turns:
            into.append(cost.product(into[-1], C))
    else:
        into = [about_x(0.7) @ about_z(1.1) @ about_x(0.4)]
        for C in reversed(turns):
            into.insert(0, cost.product(C, into[0]))
        into = [C.T for C in into]
    before = replace(cost)
    for C, p in zip(into, points, strict=True):
        cost.product(C, np.array([-p[1], p[0], 0.0]))
    return cost, before


@pytest.mark.parametrize("n", [3, 6, 10])
def test_the_choice_of_the_frame_hardly_changes_the_operation_count(ran: Ran, n: int) -> None:
    """J takes 26n - 20 multiplications and 13n - 10 additions in the tool's frame, and 11 and 9
    fewer in the base's.
    """
    found = ran("w-counts").quantities
    for frame, (multiplications, additions) in {"tool": (20, 10), "base": (31, 19)}.items():
        cost, _ = costs_of(n, frame)
        assert cost.multiplications + cost.by_one == 26 * n - multiplications
        assert cost.additions == 13 * n - additions
        prefix = "base_" if frame == "base" else ""
        assert found[f"n{n}.{prefix}multiplications"] == 26 * n - multiplications
        assert found[f"n{n}.{prefix}additions"] == 13 * n - additions


@pytest.mark.parametrize("n", [3, 6, 10])
def test_most_of_the_cost_of_the_jacobian_is_shared_with_the_pose(ran: Ran, n: int) -> None:
    """The vectors of (21) and the rotations of (25), which also give the tool's pose, take more
    than three fifths of the operations of J in the base's frame; the rest is (27).
    """
    found = ran("w-counts").quantities
    whole, shared = ((c.multiplications + c.by_one + c.additions) for c in costs_of(n, "base"))
    assert found[f"n{n}.base_operations"] == whole
    assert found[f"n{n}.pose_operations"] == shared > 0.6 * whole
