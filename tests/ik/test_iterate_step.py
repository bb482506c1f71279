"""`solve(step=...)` repeats any step until the targets are met, as in Buss's second mode."""

from __future__ import annotations

import numpy as np
import pytest

import supple
from cases import each
from solving import solve
from supple import DLS, PoseTask, PositionTask, SolveStatus, criteria, damping
from supple.errors import InputError
from supple.redundancy import Augmented, GradientProjection, NullSpace, Priority, TotalSpeed
from supple.steps import (
    SDLS,
    AdaptiveErrorClamp,
    AngleClamp,
    ErrorClamp,
    EstimatedDLS,
    NumericalFilter,
    Pseudoinverse,
    StatefulStep,
    Transpose,
    TruncatedSVD,
    WeightedDLS,
)
from supple.steps.step import Step

Array = np.ndarray
PANDA = supple.load("panda")
Q = np.array([0.1, 0.3, 0.2, -1.8, 0.2, 2.0, 0.5])
SMALL = DLS(damping.Constant(1e-3))
REST = criteria.RestPosture(Q)

STEPS: dict[str, Step] = {
    "transpose": AngleClamp(Transpose(), 0.5),
    "pseudoinverse": AngleClamp(Pseudoinverse(), 0.1),
    "truncated": TruncatedSVD(1e-3),
    "DLS": DLS(damping.Constant(0.01)),
    "DLS of Buss": DLS(damping.Constant(0.36)),
    "clamped DLS": ErrorClamp(SMALL, 0.4),
    "SDLS": SDLS(),
    "adaptive clamp": StatefulStep(AdaptiveErrorClamp(SMALL)),
    "filter": AngleClamp(StatefulStep(NumericalFilter(20.0)), 0.3),
    "estimated": EstimatedDLS(damping.SpeedBound(10.0)),
    "weighted": WeightedDLS(damping.Constant(1e-3), None, np.arange(1.0, 8.0)),
    "optimal": DLS(damping.Optimal(1.0)),
    "rate": DLS(damping.ManipulabilityRate(1e-3, 0.9, 1e-4, 0.01)),
    "null space": NullSpace(SMALL, REST, 0.1),
    "projection": GradientProjection(damping.Constant(1e-4), REST, 1e-6),
    "total speed": TotalSpeed(1.0, REST, 0.0),
    "user's": lambda lin: 0.5 * np.linalg.pinv(lin.J, rcond=1e-3) @ lin.e,
}
each_step = pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)


def transcription(step: Step, robot: supple.Robot, T: Array, q: Array, count: int) -> Array:
    """Return q after `count` iterations of a step in NumPy, without limits."""
    for _ in range(count):
        dq = step(PoseTask().linearize(robot, q, T))
        q = q + dq * min(1.0, 1.0 / np.abs(dq).max())
    return q


@each_step
def test_every_step_leads_a_panda_to_poses_nearby(step: Step) -> None:
    """With every step, the search converges to a nearby pose and reports the error at q."""
    rng = np.random.default_rng(0)
    T = PANDA.fk(Q + rng.uniform(-0.2, 0.2, (2, 7)))
    found = solve(
        PANDA,
        T,
        q0=Q,
        step=step,
        max_seeds=1,
        max_iterations=3000,
        position_tolerance=1e-4,
        rotation_tolerance=1e-4,
    )
    assert found.success.all(), found.position_error
    reached = PANDA.fk(found.q)
    distance = np.linalg.norm(reached[:, :3, 3] - T[:, :3, 3], axis=1)
    np.testing.assert_allclose(found.position_error, distance, atol=1e-12)
    assert (distance <= 1e-4).all()
    assert (found.restarts == 0).all()
    assert (found.iterations > 0).all()
    one = solve(
        PANDA,
        T[1],
        q0=Q,
        step=step,
        max_seeds=1,
        max_iterations=3000,
        position_tolerance=1e-4,
        rotation_tolerance=1e-4,
    )
    np.testing.assert_allclose(one.q, found.q[1], atol=1e-12)  # alone as in the batch


@each("name", ["pseudoinverse", "DLS", "SDLS", "clamped DLS"])
def test_repeating_a_step_gives_the_configurations_of_a_loop_in_numpy(name: str) -> None:
    """Away from limits, q after 1 and 5 iterations equals that of the loop in NumPy."""
    T = PANDA.fk(Q + 0.3)
    for count in (1, 5):
        found = solve(PANDA, T, q0=Q, step=STEPS[name], max_seeds=1, max_iterations=count)
        assert found.status == SolveStatus.NOT_CONVERGED
        assert found.iterations == count
        expected = transcription(STEPS[name], PANDA, T, Q, count)
        np.testing.assert_allclose(found.q, expected, atol=1e-9)


FIGURE = ("DLS", "DLS of Buss", "clamped DLS", "SDLS", "truncated")


def shown(robot: supple.Robot) -> Array:
    """Return the positions (2, k, 3) of the k end effectors in two random configurations."""
    q = np.random.default_rng(2).uniform(-0.4, 0.4, (2, robot.dof))
    return robot.fk(q, robot.tips)[..., :3, 3]


@pytest.mark.parametrize(
    ("figure", "name"),
    [(figure, name) for figure in ("y", "double_y") for name in FIGURE] + [("y", "transpose")],
)
def test_figures_of_buss_reach_their_targets_by_repeated_steps(figure: str, name: str) -> None:
    """The figures of Buss's program reach the positions of random configurations."""
    robot, step = supple.load(figure), STEPS[name]
    tasks = [PositionTask(tip) for tip in robot.tips]
    goal = shown(robot)
    targets = [goal[:, k] for k in range(len(tasks))]
    found = solve(
        robot,
        targets,
        tasks=tasks,
        q0=np.full(robot.dof, 0.05),
        step=step,
        max_seeds=4,
        max_iterations=5000,
        position_tolerance=1e-3,
    )
    assert found.success.all(), found
    reached = robot.fk(found.q, robot.tips)[..., :3, 3]
    assert np.linalg.norm(reached - goal, axis=-1).max() <= 1e-3


def test_with_many_end_effectors_the_transpose_step_comes_closer_without_converging() -> None:
    """On the double Y, the transpose halves the error; Buss calls its performance poor."""
    robot = supple.load("double_y")
    tasks, goal = [PositionTask(tip) for tip in robot.tips], shown(robot)[0]
    q0 = np.full(robot.dof, 0.05)
    step = STEPS["transpose"]
    found = solve(robot, list(goal), tasks=tasks, q0=q0, step=step, max_seeds=1, max_iterations=200)
    before, after = (
        np.linalg.norm(robot.fk(q, robot.tips)[:, :3, 3] - goal) for q in (q0, found.q)
    )
    assert found.status == SolveStatus.NOT_CONVERGED
    assert found.iterations == 200
    assert 1e-3 < after < 0.5 * before


def test_repeated_steps_stay_inside_limits_and_move_the_other_joints() -> None:
    """q stays inside the limits, and a joint at its limit does not stop the other joints."""
    rng = np.random.default_rng(4)
    tight = PANDA.with_limits(lower=Q - 0.35, upper=Q + 0.35)
    T = tight.fk(Q + rng.choice([-0.35, 0.35, 0.2], (10, 7)))
    found = solve(tight, T, q0=Q, step=SMALL, max_seeds=16)
    assert (found.q >= tight.lower).all()
    assert (found.q <= tight.upper).all()
    assert found.success.sum() >= 9


def test_priority_and_augmented_steps_meet_several_tasks() -> None:
    """`Priority` and `Augmented` take one linearization for each task."""
    T = PANDA.fk(Q + 0.2)
    tasks = [PositionTask(), supple.OrientationTask()]
    for step in (Priority(SMALL), Augmented(damping.Constant(1e-3), [np.eye(3), 0.5])):
        found = solve(PANDA, [T[:3, 3], T[:3, :3]], tasks=tasks, q0=Q, step=step)
        assert found, found


def test_a_search_by_a_step_never_claims_a_target_unreachable() -> None:
    """The status of a target out of reach is NOT_CONVERGED or TIMEOUT; that of NaN is
    NONFINITE_INPUT.
    """
    far = PANDA.fk(Q).copy()
    far[0, 3] = 5.0
    found = solve(PANDA, far, q0=Q, step=SMALL, max_seeds=2)
    assert found.status == SolveStatus.NOT_CONVERGED
    assert not found
    assert found.position_error == pytest.approx(
        np.linalg.norm(PANDA.fk(found.q)[:3, 3] - far[:3, 3])
    )
    late = solve(PANDA, far, q0=Q, step=SMALL, timeout=0.0)
    assert late.status == SolveStatus.TIMEOUT
    batch = np.array([PANDA.fk(Q), np.full((4, 4), np.nan), far])
    found = solve(PANDA, batch, q0=Q, step=SMALL, max_seeds=1)
    assert list(found.status) == [
        SolveStatus.CONVERGED,
        SolveStatus.NONFINITE_INPUT,
        SolveStatus.NOT_CONVERGED,
    ]
    assert np.isinf(found.position_error[1])
    assert found.iterations[0] == 0
    with pytest.raises(InputError, match="finite"):
        solve(PANDA, batch[1], step=SMALL)


def test_restarts_meet_more_targets_than_one_start() -> None:
    """Without q0, the search starts again until it converges."""
    rng = np.random.default_rng(6)
    T = PANDA.fk(rng.uniform(PANDA.lower + 0.2, PANDA.upper - 0.2, (10, 7)))
    seen: list[tuple[int, int]] = []
    found = solve(PANDA, T, step=SMALL, max_seeds=32, progress=lambda *x: seen.append(x))
    alone = solve(PANDA, T, step=SMALL, max_seeds=1)
    assert found.success.all()
    assert found.success.sum() > alone.success.sum()
    assert seen[-1] == (10, 10)
    again = solve(PANDA, T[3], step=SMALL, max_seeds=32)
    np.testing.assert_allclose(again.q, found.q[3], atol=1e-12)


@each(
    ("arguments", "words"),
    [
        ({"step": 3}, "step must be a step or a callable; given: 3"),
        ({"step": SMALL, "damping": damping.Constant(1.0)}, "damping must not be given with step="),
        ({"step": SMALL, "solutions": 3}, "several is not available with step="),
        ({"step": SMALL, "explain": True}, "explain is not available with step="),
        ({"step": SMALL, "prefer": "limits"}, "prefer is not available with step="),
        ({"step": SMALL, "device": "cuda"}, "only for device='cpu'"),
        ({"step": SMALL, "max_iterations": 0}, "max_iterations must be a whole number"),
        ({"max_iterations": 10}, "max_iterations needs step="),
        ({"step": SMALL, "max_step": -1.0}, "max_step"),
    ],
)
def test_arguments_that_a_search_with_a_step_cannot_use_are_refused(
    arguments: dict[str, object], words: str
) -> None:
    """The error names the argument that does not fit."""
    with pytest.raises(InputError, match=words):
        solve(PANDA, PANDA.fk(Q), **arguments)  # type: ignore[arg-type]


def test_a_search_by_a_step_refuses_posture_tasks() -> None:
    """The error suggests `NullSpace`, which also moves toward a rest posture."""
    with pytest.raises(InputError, match="NullSpace"):
        solve(PANDA, [PANDA.fk(Q), Q], tasks=[PoseTask(), supple.PostureTask()], step=SMALL)
