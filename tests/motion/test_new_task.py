"""A class of tasks that is defined in this file works in every function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

import supple as sp
from supple._arrays.checks import finite_array
from supple.kinematics.frames import placed
from supple.tasks import Task
from supple.tasks.center_of_mass import PointsRows

Array = np.ndarray
PANDA = sp.load("panda")
FRAMES = ("panda_link4", "panda_link8")


@dataclass(frozen=True)
class MidpointTask(Task):
    """A task for the midpoint of two frames:  e = x* - (p_a + p_b)/2."""

    a: str = FRAMES[0]
    b: str = FRAMES[1]

    def on(self, robot: sp.Robot) -> PointsRows:
        return PointsRows(
            picked=(0, 1, 2),
            weights=(1.0, 1.0, 1.0),
            names=("x", "y", "z"),
            points=(placed(robot, self.a), placed(robot, self.b)),
            shares=(0.5, 0.5),
        )

    def targets(self, robot: sp.Robot, given: ArrayLike) -> Array:
        return finite_array(given, (3,), "a MidpointTask's target", batch=True)

    velocities = targets

    def differences(self, begin: Array, end: Array) -> Array:
        return end - begin


TASK = MidpointTask()
Q = PANDA.random(8, seed=11)


def midpoint(q: Array) -> Array:
    return np.mean([PANDA.fk(q, frame)[..., :3, 3] for frame in FRAMES], axis=0)


def test_rows_of_a_midpoint_task_are_derivatives_of_the_midpoint() -> None:
    lin = sp.linearize(PANDA, TASK, Q, target=np.zeros(3))
    np.testing.assert_allclose(lin.e, -midpoint(Q), atol=1e-12)
    steps = 1e-6 * np.eye(PANDA.dof)
    for q, J in zip(Q, lin.J, strict=True):
        moved = [midpoint(q + step) - midpoint(q - step) for step in steps]
        np.testing.assert_allclose(J, np.array(moved).T / 2e-6, atol=1e-8)


@pytest.mark.parametrize(
    "others",
    [(), (sp.PostureTask(),), (sp.AxisTask(FRAMES[1]),)],
    ids=["alone", "posture", "axis"],
)
def test_solve_meets_targets_of_a_midpoint_task(others: tuple[Any, ...]) -> None:
    tasks = [TASK, *others]
    more = [
        Q if type(one) is sp.PostureTask else PANDA.fk(Q, FRAMES[1])[:, :3, 2] for one in others
    ]
    every = [midpoint(Q), *more]
    solver = sp.Solver(PANDA, tasks if others else TASK)
    batch = solver.batch(every if others else every[0])
    assert batch.success.all()
    np.testing.assert_allclose(midpoint(batch.q), midpoint(Q), atol=2e-6)
    one = [each[0] for each in every] if others else every[0][0]
    found = solver(one, q0=Q[1], explain=True)
    assert found
    assert str(found.report)
    assert isinstance(bool(found.same_branch), bool)
    assert len(solver.several(one, 3)) == 3
    nonfinite = [each.copy() for each in every]
    nonfinite[0][2] = np.nan
    again = solver.batch(nonfinite if others else nonfinite[0])
    assert again.status[2] == sp.SolveStatus.NONFINITE_INPUT
    assert np.delete(again.success, 2).all()


def test_a_servo_follows_targets_and_velocities_of_a_midpoint_task() -> None:
    servo = sp.Servo(PANDA, TASK, dt=0.01)
    q = PANDA.neutral()
    goal = midpoint(q) + np.array([0.03, -0.02, 0.04])
    for _ in range(300):
        q = servo(q, target=goal)
    np.testing.assert_allclose(midpoint(q), goal, atol=1e-4)
    assert str(servo)
    moved = servo(q, velocity=[0.0, 0.05, 0.0])
    assert (midpoint(moved) - midpoint(q))[1] > 0
    with pytest.raises(sp.errors.InputError, match="MidpointTask"):
        servo(q, target=np.zeros(4))


def test_plan_path_simulate_and_velocities_follow_a_midpoint_task() -> None:
    q = np.array([0.1, 0.4, -0.2, -1.5, 0.3, 1.9, 0.2])
    begin = midpoint(q)
    line = begin + np.linspace(0, 1, 100)[:, None] * [0.05, 0.0, -0.05]
    path = sp.plan_path(PANDA, line, tasks=TASK, q0=q)
    np.testing.assert_allclose(midpoint(path.q), line, atol=1e-5)
    run = sp.simulate(PANDA, q, target=line, tasks=TASK, dt=0.02)
    assert np.isfinite(run.q).all()
    np.testing.assert_allclose(midpoint(run.q[-1]), line[-1], atol=5e-3)
    found = sp.DLS(sp.damping.Constant(1e-6)).velocities(
        PANDA, Q, np.tile([0.1, 0, 0], (len(Q), 1)), tasks=TASK
    )
    J = sp.linearize(PANDA, TASK, Q).J
    np.testing.assert_allclose(np.einsum("kij,kj->ki", J, found), [[0.1, 0, 0]] * len(Q), atol=1e-3)


def test_targets_of_a_subclass_are_converted_by_its_own_method() -> None:
    """Compiled code reads targets of a PositionTask itself, but not those of this subclass."""

    @dataclass(frozen=True)
    class InMillimeters(sp.PositionTask):
        def targets(self, robot: sp.Robot, given: ArrayLike) -> Array:
            return super().targets(robot, np.asarray(given) / 1000)

    q = PANDA.neutral()
    goal = PANDA.fk(q)[:3, 3] + [0.0, 0.02, 0.0]
    plain, scaled = (
        sp.Servo(PANDA, sp.PositionTask(), dt=0.01),
        sp.Servo(PANDA, InMillimeters(), dt=0.01),
    )
    np.testing.assert_allclose(scaled(q, target=1000 * goal), plain(q, target=goal), atol=1e-12)
    assert sp.solve(PANDA, 1000 * goal, tasks=InMillimeters())
