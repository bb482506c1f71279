"""Wampler's vector formulation, (11)-(27) and (47), for any twist and both kinds of joint.

Link i has length a, twist β and offset b towards joint i + 1; z_i is the axis of joint i, Q_{i-1}
a point on it. The tool T is fixed in the last link, with its tip at R.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from supple.papers.wampler.counts import Arm, Counted, Tally, dot

import supple

Array = np.ndarray
KINDS = ("RRRRRR", "RRPRRR", "PRPRP", "RP")


def about_x(angle: float) -> Array:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[1, 0, 0], [0, c, -s], [0, s, c]])


def about_z(angle: float) -> Array:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])


@dataclass(frozen=True)
class Links:
    """An arm: rows (a, β, b, θ) of the links, the kinds of its joints and the tool in link n."""

    rows: Array
    kinds: str
    tool: Array

    @classmethod
    def random(cls, kinds: str) -> Links:
        rng = np.random.default_rng([ord(kind) for kind in kinds])
        rows = rng.uniform(-1.5, 1.5, (len(kinds), 4))
        rows[-1, :3] = 0  # the last link ends at the tool
        tool = np.eye(4)
        tool[:3, :3] = about_x(0.7) @ about_z(1.1)
        tool[:3, 3] = 0.3, -0.2, 0.4
        return cls(rows, kinds, tool)

    def robot(self) -> supple.Robot:
        return supple.dh(self.rows, kinds=self.kinds).with_tool(self.tool)

    def joint(self, i: int, q: Array) -> tuple[float, float]:
        """θ and b of joint i (from 0)."""
        b, theta = self.rows[i, 2:]
        return (theta + q[i], b) if self.kinds[i] == "R" else (theta, b + q[i])

    def turn(self, i: int, q: Array) -> Array:
        """(22): ⁱC^{i+1}, from link i (from 1) to the next; ⁰C¹ for i = 0."""
        twist = self.rows[i - 1, 1] if i else 0.0
        return about_x(twist) @ about_z(self.joint(i, q)[0])

    def points(self, q: Array) -> list[Array]:
        """(21), (23): p^{R/Q_{i-1}} in link i, from the last to the first."""
        n = len(q)
        found = [self.tool[:3, 3] + [0, 0, self.joint(n - 1, q)[1]]]
        for i in range(n - 1, 0, -1):
            across = [self.rows[i - 1, 0], 0.0, self.joint(i - 1, q)[1]]
            found.insert(0, self.turn(i, q) @ found[0] + across)
        return found

    def columns(self, q: Array) -> list[tuple[Array, Array]]:
        """(12), (16), (20): v_i^R and ω_i^T, each in its own link's frame."""
        z = np.array([0.0, 0.0, 1.0])
        return [
            (np.array([-p[1], p[0], 0.0]), z) if kind == "R" else (z, np.zeros(3))
            for p, kind in zip(self.points(q), self.kinds, strict=True)
        ]

    def to_base(self, q: Array) -> list[Array]:
        """(25): ⁰C^i of links 1 to n."""
        found = [self.turn(0, q)]
        for i in range(1, len(q)):
            found.append(found[-1] @ self.turn(i, q))
        return found

    def to_tool(self, q: Array) -> list[Array]:
        """(26): ⁱC^T of links 1 to n."""
        found = [self.tool[:3, :3]]
        for i in range(len(q) - 1, 0, -1):
            found.insert(0, self.turn(i, q) @ found[0])
        return found


def arm_and_q(kinds: str) -> tuple[Links, Array]:
    return Links.random(kinds), np.random.default_rng(len(kinds)).uniform(-2, 2, len(kinds))


@pytest.mark.parametrize("kinds", KINDS)
def test_the_recursion_gives_the_jacobian_in_any_frame(kinds: str) -> None:
    """(27) for the base, the tool and a link between, against `Robot.jacobian`."""
    links, q = arm_and_q(kinds)
    robot, columns = links.robot(), links.columns(q)
    base, tool = links.to_base(q), [C.T for C in links.to_tool(q)]
    middle = len(kinds) // 2  # frame x of a row of the table is turned by its twist
    aside = (base[middle - 1] @ about_x(links.rows[middle - 1, 1])).T
    link = [aside @ C for C in base]
    for turns, axes in ((base, "world"), (tool, "body"), (link, f"link{middle}")):
        J = np.array([np.r_[C @ v, C @ w] for C, (v, w) in zip(turns, columns, strict=True)]).T
        np.testing.assert_allclose(robot.jacobian(q, axes=axes), J, atol=1e-13)


@pytest.mark.parametrize("kinds", KINDS)
def test_theorems_1_and_2(kinds: str) -> None:
    """z_i or nothing turns the tool; z_i × p^{R/Q} or z_i moves its tip; links before i rest."""
    links, q = arm_and_q(kinds)
    robot = links.robot()
    J, T = robot.jacobian(q), robot.fk(q)
    for i, (C, p) in enumerate(zip(links.to_base(q), links.points(q), strict=True)):
        z, turns = C[:, 2], kinds[i] == "R"
        np.testing.assert_allclose(J[3:, i], turns * z, atol=1e-13)
        np.testing.assert_allclose(J[:3, i], np.cross(z, C @ p) if turns else z, atol=1e-13)
        if i:  # the link before does not move with joint i
            assert not robot.jacobian(q, f"link{i}")[:, i:].any()
    # by-products: the position of the tip and ⁰C^T
    start = links.to_base(q)[0] @ links.points(q)[0]
    np.testing.assert_allclose(T[:3, 3], start, atol=1e-13)
    np.testing.assert_allclose(T[:3, :3], links.to_base(q)[-1] @ links.tool[:3, :3], atol=1e-13)


@pytest.mark.parametrize("kinds", KINDS)
def test_the_matrix_of_the_normal_equations_link_by_link(kinds: str) -> None:
    """(47): P_ij = v_i·v_j + ω_i·ω_j; its diagonal in link i, its neighbours by cos β_i."""
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


def counted(values: Array, tally: Tally) -> list:
    return [Counted(float(x), tally) for x in values]


@pytest.mark.parametrize(("twist", "multiplications", "additions"), [(0.7, 8, 4), (None, 4, 2)])
def test_a_coordinate_conversion(twist: float | None, multiplications: int, additions: int) -> None:
    """8 multiplications and 4 additions; half of them where the twist is a right angle."""
    tally = Tally()
    outer = about_x(0.7) if twist else np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])
    vector = counted(np.array([0.3, -0.4, 0.5]), tally)
    inner = about_z(1.2)
    for matrix in (inner, outer):
        rows = [counted(row, tally) for row in matrix]
        vector = [dot(row, vector) for row in rows]
    assert (tally.multiplications, tally.additions) == (multiplications, additions)
    expected = outer @ inner @ [0.3, -0.4, 0.5]
    np.testing.assert_allclose([x.value for x in vector], expected, atol=1e-15)


def test_converting_the_columns_takes_30_percent_of_the_general_case() -> None:
    """Below (27): v has a zero in its own link's frame, and ω is a column of the matrix."""
    C = about_x(0.7) @ about_z(1.2) @ about_x(0.4)
    costs = []
    for v, w in (([0.3, -0.4, 0.5], [0.1, 0.2, 0.3]), ([0.3, -0.4, 0.0], None)):
        tally = Tally()
        rows = [counted(row, tally) for row in C]
        for vector in (v, w):
            if vector is not None:
                [dot(row, counted(np.array(vector), tally)) for row in rows]
        costs.append(tally.multiplications + tally.additions)
    assert costs == [30, 9]


def test_the_choice_of_the_frame_hardly_matters() -> None:
    """In the base's frame, 26n - 31 multiplications and 13n - 19 additions: the same slope."""
    for n in (3, 6, 10):
        tally, arm = Tally(), Arm.random(np.random.default_rng(n), n)
        q = np.random.default_rng(n).uniform(-3, 3, n)
        found = in_base(arm, q, tally)
        np.testing.assert_allclose(found, arm.robot().jacobian(q), atol=1e-13)
        assert tally.multiplications + tally.by_one == 26 * n - 31
        assert tally.additions == 13 * n - 19


def in_base(arm: Arm, q: Array, tally: Tally) -> Array:
    """The recursion of `Arm.partial_velocities`, in the base's frame."""
    n = len(q)

    def turn(i: int) -> list[list[Counted]]:
        c, s = np.cos(q[i]), np.sin(q[i])
        cos, sin = (0.0, np.sign(arm.twists[i - 1])) if i else (1.0, 0.0)
        rows = ([c, -s, 0.0], [cos * s, cos * c, -sin], [sin * s, sin * c, cos])
        return [counted(np.array(row), tally) for row in rows]

    points = [counted(arm.tool[:3, 3], tally)]
    for i in range(n - 1, 0, -1):
        offset = counted(np.array([arm.a[i - 1], 0.0, arm.b[i - 1]]), tally)
        points.insert(0, [dot(r, points[0]) + x for r, x in zip(turn(i), offset, strict=True)])
    turned, columns = turn(0), []
    for i in range(n):
        if i:
            step = turn(i)
            turned = [
                [dot(row, [step[k][j] for k in range(3)]) for j in range(3)] for row in turned
            ]
        velocity = [-points[i][1], points[i][0]]
        columns.append([dot(row[:2], velocity).value for row in turned])
        columns[-1] += [row[2].value for row in turned]
    return np.array(columns).T
