"""Constraints of a Servo: in each step G q̇ >= h, unless limits or earlier rows prevent it."""

from __future__ import annotations

import copy
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import generated
import supple as sp
from generated import CASES, FIRST
from supple import Limits, Servo, StepStatus, damping, steps
from supple.errors import InputError

sys.path.append(str(Path(__file__).parents[2] / "examples"))
from half_space import HalfSpace

Array = np.ndarray
PANDA, ARM = sp.load("panda"), sp.load("ur5e")
Q = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])
HAND = "panda_hand_tcp"
DOWN = np.array([0.0, 0.0, -0.3, 0.0, 0.0, 0.0])
ACTED = StepStatus.CONSTRAINT_LIMIT | StepStatus.CONSTRAINT_EXCEEDED


class Rows:
    """A constraint with the same rows everywhere."""

    def __init__(self, G: Any, h: Any) -> None:
        """Take the rows."""
        self.G, self.h = G, h

    def rows(self, robot: sp.Robot, q: Array) -> tuple[Any, Any]:
        """Return the rows."""
        return self.G, self.h


def free(robot: sp.Robot, **more: Any) -> Limits:
    """Return limits of position and speed only."""
    n = robot.dof
    speed = np.where(np.isfinite(robot.max_speed), robot.max_speed, 2.0)
    return Limits(robot.lower, robot.upper, speed, np.full(n, np.inf), **more)


def plane_of(robot: sp.Robot, frame: str, q: Array, rng: Any, gain: float) -> HalfSpace:
    """Return a plane at a distance of a tenth of the robot's size from a frame."""
    normal = rng.normal(size=3)
    normal /= np.linalg.norm(normal)
    p = robot.fk(q, frame)[:3, 3]
    return HalfSpace(frame, tuple(normal), float(normal @ p) - 0.1 * rng.random(), gain)


@pytest.mark.parametrize("mode", ["exact", "scale", "halt"])
@pytest.mark.parametrize("order", [1, 2])
def test_a_point_never_crosses_a_plane(mode: Any, order: int) -> None:
    """The robots are of every kind; velocities are random, accelerations unlimited.

    In one step the point may move toward the plane by gain dt times its distance. The curvature of
    its path adds at most the length of the arm times the square of Σ |q̇| dt.
    """
    dt, acted = 0.002, 0
    for seed in range(FIRST, FIRST + CASES // 3):
        rng = np.random.default_rng([seed, 10])
        robot = generated.robot(rng, size=1.0, joints=int(rng.integers(2, 9)))
        frame = str(rng.choice(robot.tips))
        q = generated.configurations(robot, 1, rng)[0]
        plane = plane_of(robot, frame, q, rng, gain=float(rng.choice([2.0, 20.0, 100.0])))
        limits = free(robot, mode=mode)
        task = sp.PositionTask(frame)
        servo = Servo(robot, task, dt=dt, limits=limits, order=order, constraints=[plane])
        reach = 2.0 + sum(np.linalg.norm(j.origin[:3, 3]) for j in robot.description.joints)
        velocity = -np.array(plane.normal) + 0.3 * rng.normal(size=3)
        way, speeds = [q], []
        for _ in range(60):
            q = servo(q, velocity) if order == 1 else servo(q, None, None, 10 * velocity)
            acted += bool(servo.status & ACTED)
            way.append(q)
            speeds.append(servo.qd)
        q, qd = np.array(way), np.array(speeds)
        away = robot.fk(q, frame)[:, :3, 3] @ plane.normal - plane.offset
        slack = reach * (np.abs(qd * dt).sum(axis=1) ** 2 + 1e-14)
        assert (away[1:] >= (1 - plane.gain * dt) * away[:-1] - slack).all(), seed
        assert ((q[1:] >= limits.lower - 1e-12) & (q[1:] <= limits.upper + 1e-12)).all()
        assert (np.abs(qd) <= limits.max_speed * (1 + 1e-12)).all()
    assert acted > CASES  # in enough steps, a plane acts


@pytest.mark.parametrize("mode", ["exact", "scale"])
def test_a_missed_constraint_row_is_reported(mode: Any) -> None:
    """Where the gain is too high, limits on acceleration, jerk or norm prevent timely braking.

    In each step the limits hold, and the status reports CONSTRAINT_EXCEEDED if and only if the
    row does not hold.
    """
    dt, missed = 0.005, 0
    for seed in range(FIRST, FIRST + CASES // 3):
        rng = np.random.default_rng([seed, 11])
        drawn = generated.robot(rng, size=1.0, joints=int(rng.integers(2, 9)))
        robot = (PANDA, ARM, drawn)[seed % 3]
        n, frame = robot.dof, str(rng.choice(robot.tips))
        acceleration = 10 ** rng.uniform(0, 1.5, n)
        jerk = np.where(rng.random() < 0.3, acceleration / 0.05, np.inf)
        norm = float(rng.choice([1.0, np.inf]))
        limits = Limits(robot.lower, robot.upper, np.full(n, 2.0), acceleration, jerk, norm, mode)
        q = generated.configurations(robot, 1, rng)[0]
        plane = plane_of(robot, frame, q, rng, gain=float(rng.choice([5.0, 50.0, 200.0])))
        servo = Servo(robot, sp.PositionTask(frame), dt=dt, limits=limits, constraints=[plane])
        for k in range(80):
            (G, h), before = plane.rows(robot, q), servo.qd
            q = servo(q, -np.array(plane.normal))
            short = float(h[0] - G[0] @ servo.qd)
            noise = 1e-11 * (1 + abs(float(h[0])))
            reported = StepStatus.CONSTRAINT_EXCEEDED in servo.status
            assert reported or short <= noise, (seed, k)
            assert not reported or short > -noise, (seed, k)
            assert (np.abs(servo.qd - before) <= acceleration * dt * (1 + 1e-9)).all(), (seed, k)
            assert np.linalg.norm(servo.qd) <= norm * (1 + 1e-12)
            missed += reported
    assert missed > CASES // 6  # with some gains, rows are missed


def test_constraints_that_a_step_meets_do_not_change_the_step() -> None:
    """A step that meets all rows has the same bits and status as a step without constraints.

    The step before limits may miss the last rows, but the step inside the limits meets them.
    """
    rng = np.random.default_rng(FIRST)
    both, slow = np.vstack([np.eye(7), -np.eye(7)]), np.tile(-1.01 * PANDA.max_speed, 2)
    for step in (None, sp.DLS(damping.Constant(0.1)), steps.Transpose(), steps.SDLS()):
        for mode in ("exact", "scale"):
            limits = Limits.for_robot(PANDA, max_acceleration=8.0, max_norm=1.5, mode=mode)  # type: ignore[arg-type]
            table = HalfSpace(HAND, (0.0, 0.0, 1.0), offset=-2.0)
            plain, bound = (
                Servo(PANDA, dt=0.01, step=step, limits=limits, constraints=rows)
                for rows in ((), (table, Rows(np.zeros((1, 7)), [-1.0]), Rows(both, slow)))
            )
            q = Q.copy()
            for k in range(60):
                if k % 20 == 0:
                    target = PANDA.fk(PANDA.random(seed=rng))
                first, second = plain(q, target=target), bound(q, target=target)
                assert (first == second).all(), (step, mode, k)
                assert plain.status == bound.status
                assert plain.lambda2 == bound.lambda2
                q = first


def test_a_step_that_meets_a_constraint_row_has_the_least_cost() -> None:
    """A damped step minimizes ‖J q̇ - e‖² + λ²‖q̇‖² among the steps that meet the row."""
    rng = np.random.default_rng(FIRST)
    for _ in range(CASES):
        q = PANDA.random(seed=rng)
        G, h = rng.normal(size=(1, 7)), rng.normal(size=1)
        J, twist = PANDA.jacobian(q), rng.normal(size=6)
        step = sp.DLS(damping.Constant(1e-3))
        limits = free(PANDA)
        wide = Limits(limits.lower, limits.upper, np.full(7, 1e6), np.full(7, np.inf))
        servo = Servo(PANDA, dt=1e-9, step=step, limits=wide, constraints=[Rows(G, h)])
        servo(q, twist)
        H = J.T @ J + 1e-3 * np.eye(7)
        x0 = np.linalg.solve(H, J.T @ twist)
        away = np.linalg.solve(H, G[0])
        x = x0 + away * max(0.0, float(h[0] - G[0] @ x0)) / float(G[0] @ away)
        np.testing.assert_allclose(servo.qd, x, atol=1e-9 * (1 + np.linalg.norm(x)))
        assert bool(servo.status & StepStatus.CONSTRAINT_LIMIT) == (G[0] @ x0 < h[0])


def test_limits_take_precedence_over_constraints_and_earlier_over_later_ones() -> None:
    only = np.eye(7)[3:4]
    limits = Limits.for_robot(PANDA, max_acceleration=5.0)
    servo = Servo(PANDA, dt=0.01, limits=limits, constraints=[Rows(only, [10.0])])
    servo(Q, np.zeros(6))
    assert servo.qd[3] == pytest.approx(0.05)  # as fast as the acceleration limit allows
    assert StepStatus.CONSTRAINT_EXCEEDED in servo.status
    assert StepStatus.ACCELERATION_EXCEEDED not in servo.status
    both = [Rows(only, [0.02]), Rows(-only, [-0.01])]
    for constraints, speed in ((both, 0.02), (both[::-1], 0.01)):
        servo = Servo(PANDA, dt=0.01, limits=limits, constraints=constraints)
        servo(Q, np.zeros(6))
        assert servo.qd[3] == pytest.approx(speed)
        assert ACTED in servo.status


def test_mode_scale_keeps_the_commanded_direction_at_a_constraint() -> None:
    table = HalfSpace(HAND, (0.0, 0.0, 1.0), offset=float(PANDA.fk(Q)[2, 3]) - 0.02, gain=5.0)
    limits = Limits.for_robot(PANDA, max_acceleration=20.0, mode="scale")
    servo = Servo(PANDA, dt=0.005, limits=limits, constraints=[table])
    q = Q.copy()
    for _ in range(400):
        before = table.distance(PANDA, q)
        J, q = PANDA.jacobian(q), servo(q, DOWN)
        moved = J @ servo.qd
        size = np.linalg.norm(moved)
        assert size == 0 or moved @ DOWN / size == pytest.approx(0.3, rel=1e-9)
        assert moved[2] >= -5.0 * before - 1e-12
    assert 0 < table.distance(PANDA, q) < 1e-3
    assert StepStatus.CONSTRAINT_LIMIT in servo.status


def test_under_a_jerk_limit_every_row_that_can_be_met_is_met() -> None:
    """If a step misses a row, no step inside the limits of the joints meets it.

    The reference `best` has a zero command: it misses a row only because of the limits.
    """
    rng = np.random.default_rng(FIRST)
    limits = Limits.for_robot(PANDA, max_acceleration=5.0, max_jerk=50.0)
    missed = 0
    for _ in range(CASES):
        rows = Rows(rng.normal(size=(1, 7)), rng.normal(size=1) * 0.02)
        servo = Servo(PANDA, dt=0.01, limits=limits, constraints=[rows])
        best = Servo(PANDA, dt=0.01, limits=limits, constraints=[rows], step=steps.Transpose())
        speed = 0.05 * rng.normal(size=7)
        for each in (servo, best):
            each.reset(speed)
        servo(Q, rng.normal(size=6))
        best(Q, np.zeros(6))
        short, least = (rows.h[0] - rows.G[0] @ each.qd for each in (servo, best))
        assert short <= max(least, 0.0) + 1e-12
        missed += least > 1e-12
    assert 0 < missed < CASES


@pytest.mark.parametrize("name", ["panda", "ur5e"])
@pytest.mark.parametrize("step", [None, sp.DLS(damping.Constant(1e-3))])
def test_an_arm_stopped_by_a_plane_comes_to_rest(step: Any, name: str) -> None:
    """If a plane stops the whole command, the joints also make no self-motion."""
    robot = {"panda": PANDA, "ur5e": ARM}[name]
    q = Q.copy() if name == "panda" else np.array([0.3, -1.2, 1.5, -1.9, -1.57, 0.2])
    table = HalfSpace(robot.tips[0], (0.0, 0.0, 1.0), float(robot.fk(q)[2, 3]) - 0.05)
    servo = Servo(robot, dt=0.01, step=step, constraints=[table])
    for _ in range(200):
        q = servo(q, DOWN)
    assert StepStatus.CONSTRAINT_LIMIT in servo.status
    assert np.abs(servo.qd).max() < 1e-3
    assert 0 < table.distance(robot, q) < 1e-4


def test_explain_names_the_constraint() -> None:
    table = HalfSpace(HAND, (0.0, 0.0, 1.0), offset=float(PANDA.fk(Q)[2, 3]))
    servo = Servo(PANDA, dt=0.01, constraints=[Rows(np.zeros((0, 7)), []), table])
    servo(Q, DOWN)
    assert servo.status & StepStatus.CONSTRAINT_LIMIT
    assert "HalfSpace" in str(servo.explain())
    assert "holds the step back" in servo.explain().constraints[0]
    assert "HalfSpace" in repr(servo)
    assert servo.constraints[1] is table
    wish = Servo(PANDA, dt=0.01, constraints=[Rows(np.eye(7)[:1], [100.0])])
    wish(Q, DOWN)
    assert "Rows cannot be met" in wish.explain().constraints[0]
    assert "a constraint cannot be met" in wish.status.sentence
    with pytest.raises(AttributeError, match="make a new Servo"):
        servo.constraints = ()  # type: ignore[misc]


def test_a_copied_servo_keeps_its_constraints() -> None:
    table = HalfSpace(HAND, (0.0, 0.0, 1.0), offset=float(PANDA.fk(Q)[2, 3]) - 0.01)
    servo = Servo(PANDA, dt=0.01, constraints=[table])
    q = Q.copy()
    for _ in range(5):
        q = servo(q, DOWN)
    assert servo.status & StepStatus.CONSTRAINT_LIMIT
    for other in (copy.copy(servo), copy.deepcopy(servo), pickle.loads(pickle.dumps(servo))):
        assert other.constraints == servo.constraints
        assert other.status == servo.status
        assert other.explain().constraints == servo.explain().constraints
        assert (other(q, DOWN) == copy.copy(servo)(q, DOWN)).all()
    servo.reset()
    assert not servo.status


def test_simulated_motions_meet_constraints_and_path_mode_refuses_them() -> None:
    table = HalfSpace(HAND, (0.0, 0.0, 1.0), offset=float(PANDA.fk(Q)[2, 3]) - 0.05)
    motion = sp.simulate(PANDA, Q, velocity=DOWN, dt=0.01, duration=1.0, constraints=[table])
    assert min(table.distance(PANDA, q) for q in motion.q) > 0
    assert ((motion.status & StepStatus.CONSTRAINT_LIMIT) != 0).any()
    path = Limits.for_robot(PANDA, max_acceleration=5.0, mode="path")
    target = [PANDA.fk(Q)] * 3
    with pytest.raises(InputError, match="constraints"):
        sp.simulate(PANDA, Q, target=target, dt=0.01, limits=path, constraints=[table])


WRONG: dict[str, tuple[Any, str]] = {
    "no pair": (Rows(np.zeros((1, 7)), None), "must return"),
    "a text": (Rows("a", "b"), "two arrays"),
    "flat": (Rows(np.zeros(7), [0.0]), r"shape \(k, 7\)"),
    "columns": (Rows(np.zeros((1, 6)), [0.0]), r"given: \(1, 6\)"),
    "rows": (Rows(np.zeros((2, 7)), [0.0]), r"given: \(2, 7\) and \(1,\)"),
    "NaN in G": (Rows(np.full((1, 7), np.nan), [0.0]), "a finite G"),
    "infinite G": (Rows(np.full((1, 7), np.inf), [0.0]), "a finite G"),
    "NaN in h": (Rows(np.zeros((1, 7)), [np.nan]), "NaN"),
    "infinite h": (Rows(np.zeros((1, 7)), [np.inf]), "NaN and"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_constraint_rows_are_refused_and_change_nothing(name: str) -> None:
    wrong, words = WRONG[name]
    good = Rows(np.zeros((1, 7)), [0.0])
    servo, other = (Servo(PANDA, dt=0.01, constraints=[good]) for _ in range(2))
    q = servo(Q, DOWN)
    other(Q, DOWN)
    good.G, good.h = wrong.G, wrong.h
    with pytest.raises(InputError, match=words):
        servo(q, DOWN)
    good.G, good.h = np.zeros((1, 7)), [0.0]
    assert (servo.qd == other.qd).all()
    assert (servo(q, DOWN) == other(q, DOWN)).all()
    assert (servo.qd == other.qd).all()


def test_errors_of_a_constraint_reach_the_caller() -> None:
    class Broken:
        def rows(self, robot: sp.Robot, q: Array) -> Any:
            raise ZeroDivisionError("in a constraint")

    with pytest.raises(ZeroDivisionError, match="in a constraint"):
        Servo(PANDA, dt=0.01, constraints=[Broken()])(Q, DOWN)


@pytest.mark.parametrize("given", [3, "rows", object(), [3], [object()], [HalfSpace], [np.eye(7)]])
def test_constraints_without_a_method_named_rows_are_refused(given: Any) -> None:
    with pytest.raises(InputError, match=r"rows\(robot, q\)"):
        Servo(PANDA, dt=0.01, constraints=given)


def test_constraints_may_change_their_number_of_rows_between_steps() -> None:
    class Growing:
        count = 0

        def rows(self, robot: sp.Robot, q: Array) -> tuple[Array, Array]:
            rng = np.random.default_rng(self.count)
            G = rng.normal(size=(self.count, 7))
            return G, np.full(self.count, -0.1)

    grows = Growing()
    servo = Servo(PANDA, dt=0.01, constraints=[grows])
    for count in (0, 1, 300, 2, 0, 40):
        grows.count = count
        servo.reset()
        q = servo(Q, DOWN)
        assert np.isfinite(q).all()
        G, h = grows.rows(PANDA, Q)
        # This can be required: q̇ = 0 meets all rows and limits.
        assert (G @ servo.qd >= h - 1e-12).all()
