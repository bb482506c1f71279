"""Augmented tasks with full weight matrices, joint weights, and varying weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import supple
from spectra import orthonormal
from supple import DLS, Limits, Linearization, PositionTask, Servo, damping
from supple.errors import InputError
from supple.redundancy import Augmented, NullSpace
from supple.tasks import OpenTask

Array = np.ndarray
PANDA = supple.load("panda")
Q = np.array([0.1, 0.3, 0.2, -1.8, 0.2, 2.0, 0.5])
RULE = damping.Constant(1e-2)


def positive(rng: np.random.Generator, size: int) -> Array:
    """Return a random symmetric positive definite matrix."""
    A = rng.normal(size=(size, size))
    return A @ A.T + 0.1 * np.eye(size)


def levels(
    rng: np.random.Generator, sizes: Sequence[int] = (3, 2), n: int = 6
) -> list[Linearization]:
    """Return linearizations with random J and e; `sizes` are the numbers of their rows."""
    return [Linearization(rng.normal(size=(m, n)), rng.normal(size=m)) for m in sizes]


def equation_19(tasks: Sequence[Linearization], W: Sequence[Array], W_v: Array) -> Array:
    """Return q̇ by a transcription of equation (19) of Deo & Walker."""
    A, b = W_v.copy(), np.zeros(len(W_v))
    for task, weight in zip(tasks, W, strict=True):
        A += task.J.T @ weight @ task.J
        b += task.J.T @ weight @ task.e
    return np.linalg.solve(A, b)


@pytest.mark.parametrize("seed", range(8))
def test_augmented_steps_with_weight_matrices_are_equation_19(seed: int) -> None:
    """The weight matrices W_e, W_c and W_v are constant or varying; results agree to 1e-12."""
    rng = np.random.default_rng(seed)
    tasks = levels(rng)
    W, W_v = [positive(rng, 3), positive(rng, 2)], positive(rng, 6)
    expected = equation_19(tasks, W, 1e-2 * W_v)
    forms = [
        Augmented(RULE, W, W_v),
        Augmented(RULE, [W[0], lambda lin: W[1]], lambda lin: W_v),
        Augmented(RULE, lambda all_tasks: W, W_v),
    ]
    for form in forms:
        np.testing.assert_allclose(form(tasks), expected, atol=1e-12)
        np.testing.assert_allclose(
            form.at(tasks)(supple.motion.linearization.stacked(tasks)), expected, atol=1e-12
        )
    vector = Augmented(RULE, [1.0, (0.2, 0.3)], np.arange(1.0, 7.0))
    W = [np.eye(3), np.diag([0.2, 0.3])]
    expected = equation_19(tasks, W, 1e-2 * np.diag(np.arange(1.0, 7.0)))
    np.testing.assert_allclose(vector(tasks), expected, atol=1e-12)


def test_a_servo_evaluates_weight_matrices_and_functions_in_each_step() -> None:
    """The Servo also reports the damping of the step."""
    seen = []

    def weight(lin: Linearization) -> Array:
        seen.append(lin.sigma_min)
        return lin.sigma_min * np.array([[2.0, 0.5], [0.5, 1.0]])

    open_task = OpenTask(lambda q: np.array([q[0] * q[1], q[2] + q[4]]))
    step = Augmented(RULE, [np.diag([1.0, 2.0, 3.0]), weight], np.arange(1.0, 8.0))
    servo = Servo(PANDA, [PositionTask(), open_task], dt=0.01, step=step, limits=Limits.none(PANDA))
    servo(Q, [np.array([0.1, 0.2, 0.0]), np.array([0.3, 0.1])])
    tasks = [
        PositionTask().linearize(PANDA, Q, velocity=[0.1, 0.2, 0.0]),
        open_task.linearize(PANDA, Q, velocity=[0.3, 0.1]),
    ]
    W = [np.diag([1.0, 2.0, 3.0]), weight(tasks[1])]
    expected = equation_19(tasks, W, 1e-2 * np.diag(np.arange(1.0, 8.0)))
    np.testing.assert_allclose(servo.qd, expected, atol=1e-9)
    assert servo.lambda2 == pytest.approx(1e-2)
    assert len(seen) >= 1


def conflict(angle: float) -> list[Linearization]:
    """Return a regular main task of two rows, and a constraint whose single row is at a small
    angle [rad] to the first of them.
    """
    rng = np.random.default_rng(5)
    V = orthonormal(rng, 4, 4)
    main = Linearization(V[:, :2].T, np.array([1.0, -0.5]))
    row = np.cos(angle) * V[:, 0] + np.sin(angle) * V[:, 2]
    return [main, Linearization(row[None], np.array([2.0]), q=np.zeros(4))]


@pytest.mark.parametrize("angle", [0.0, 1e-3, 1e-2, 0.05])
def test_near_a_conflict_the_augmented_step_loses_part_of_the_main_task_unlike_projection(
    angle: float,
) -> None:
    """A conflict of regular tasks is an artificial singularity of their stacked rows."""
    main, constraint = conflict(angle)
    augmented = Augmented(damping.Optimal(3.0), [1.0, 1.0])([main, constraint])

    def gradient(q: Array) -> Array:
        return -constraint.J[0] * constraint.e[0]

    at = Linearization(main.J, main.e, q=np.zeros(4))
    projected = NullSpace(DLS(damping.Optimal(3.0)), gradient)(at)
    lost = [float(np.linalg.norm(main.e - main.J @ dq)) for dq in (augmented, projected)]
    assert lost[1] < 1e-12  # Deo & Walker, section 4.1: projection needs no damping there
    assert np.linalg.norm(projected) < 3.0
    assert lost[0] > 0.1


def test_with_varying_weights_the_main_task_has_a_small_error_at_a_conflict() -> None:
    """The weight w and λ vary as in Egeland et al.; constant weights cause ten times the error."""
    varying = damping.VaryingWeights(lambda2_max=1e-3, size=0.2, min_weight=1e-2)
    losses = {}
    for angle in (1e-3, 1.0):
        tasks = conflict(angle)
        step = Augmented(None, varying)
        losses[angle] = float(np.linalg.norm(tasks[0].e - tasks[0].J @ step(tasks)))
        assert np.isfinite(step(tasks)).all()
    plain = conflict(1e-3)
    constant = Augmented(damping.Constant(1e-3), [1.0, 1.0])(plain)
    assert losses[1.0] < 1e-9
    assert losses[1e-3] < 0.05
    assert np.linalg.norm(plain[0].e - plain[0].J @ constant) > 10 * losses[1e-3]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Augmented(RULE, [np.array([[1.0, 2.0], [2.0, 1.0]])]), "positive definite"),
        (lambda: Augmented(RULE, [-1.0]), "not negative"),
        (
            lambda: Augmented(RULE, [np.eye(3)])(levels(np.random.default_rng(0), (2,))),
            "a number, a vector",
        ),
        (lambda: Augmented(None, [1.0]), "rule must be callable"),
        (
            lambda: Augmented(None, lambda x: [1.0])(levels(np.random.default_rng(0), (2,))),
            "lambda2",
        ),
        (
            lambda: Augmented(RULE, lambda x: [1.0, 1.0])(levels(np.random.default_rng(0), (2,))),
            "1 weights, one per task",
        ),
        (lambda: Augmented(RULE, [1.0], -np.ones(6)), "joint_weight"),
        (
            lambda: Augmented(RULE, [np.eye(6)]).velocities(
                PANDA, Q, np.zeros((1, 6)), [supple.PoseTask()]
            ),
            "numbers, one per task or row",
        ),
    ],
)
def test_augmented_refuses_wrong_weights(make: object, words: str) -> None:
    """The error says what a weight must be."""
    with pytest.raises(InputError, match=words):
        make()  # type: ignore[operator]
