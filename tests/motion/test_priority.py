"""Several tasks: priorities, transitions between them, and weights."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sizes import nightly
from spectra import orthonormal
from supple import DLS, Linearization, damping
from supple.criteria import RestPosture
from supple.errors import InputError
from supple.redundancy import Augmented, NullSpace, Priority
from supple.steps import SDLS, AngleClamp, Pseudoinverse, Transpose, WeightedDLS
from supple.steps.step import Step

Array = np.ndarray
Levels = list[Linearization]
DAMPED: list[Step] = [
    DLS(damping.Constant(1e-2)),
    DLS(damping.Constant(1e-4), "qr"),
    DLS(damping.SpeedBound(30.0)),
    DLS(damping.Optimal(2.0)),
    AngleClamp(SDLS(group=3), 0.5),
]
UNDAMPED: list[Step] = [
    Pseudoinverse(),
    Transpose(),
    DLS(damping.Constant(0.0)),
    lambda lin: np.cos(np.arange(lin.J.shape[1])),  # a step of a user that ignores its input
]
WEIGHTED = WeightedDLS(damping.Constant(0.1), [1.0, 2.0])
SMALL = (1.0, 1.0, 0.3, 1e-2, 1e-4, 1e-7, 1e-10, 1e-13, 1e-15, 0.0)


@st.composite
def levels(draw: st.DrawFn) -> Levels:
    """Draw up to four tasks; some are singular, nearly equal, or have more rows than joints."""
    n = draw(st.integers(1, 9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    found: Levels = []
    for _ in range(draw(st.integers(1, 4))):
        m = draw(st.integers(1, 6))
        k = min(m, n)
        sigma = np.array([draw(st.sampled_from(SMALL)) for _ in range(k)])
        J = orthonormal(rng, m, k) * sigma @ orthonormal(rng, n, k).T
        if found and draw(st.booleans()):  # rows are nearly combinations of rows of higher tasks
            above = np.concatenate([x.J for x in found])
            mixed = rng.normal(size=(m, len(above))) @ above
            J = mixed + draw(st.sampled_from((0.0, 1e-14, 1e-9, 1e-5, 1.0))) * J
        found.append(Linearization(J, rng.normal(size=m), q=rng.normal(size=n)))
    return found


def test_samples_of_priority_tests_include_singular_and_overdetermined_tasks() -> None:
    """Some samples are of four tasks, some are singular, some have more rows than joints."""
    seen = set()

    @settings(max_examples=200, deadline=None, database=None)
    @given(levels())
    def look(tasks: Levels) -> None:
        J = np.concatenate([x.J for x in tasks])
        if len(J) > J.shape[1]:
            seen.add("more rows than joints")
        if any(x.rank < min(x.J.shape) for x in tasks):
            seen.add("singular")
        if len(tasks) == 4:
            seen.add("deep")

    look()
    assert seen == {"more rows than joints", "singular", "deep"}


@pytest.mark.parametrize("step", [*DAMPED, *UNDAMPED], ids=lambda s: getattr(s, "__name__", str(s)))
@settings(max_examples=nightly(150, 25), deadline=None)
@given(tasks=levels())
def test_a_lower_task_never_changes_a_higher_one(step: Step, tasks: Levels) -> None:
    priority = Priority(step)
    whole = priority(tasks)
    assert np.isfinite(whole).all()
    for i, task in enumerate(tasks):
        alone = priority(tasks[: i + 1])
        added = whole - alone
        change = np.linalg.norm(task.J @ added)
        size = np.linalg.norm(task.J)
        rounding = 4 * np.finfo(float).eps * np.linalg.norm(alone) * size
        assert change <= 1e-12 * size * np.linalg.norm(added) + rounding
        if step in DAMPED:  # q̇ is then bounded, and so are its rounding errors
            assert change <= 1e-9 * (np.linalg.norm(task.J @ alone) + size)


@settings(max_examples=60, deadline=None)
@given(levels())
def test_priority_solves_each_task_by_the_step_given_for_this_task(tasks: Levels) -> None:
    """If the step of the first task returns zero, lower tasks do not move the first task."""
    steps: list[Step] = [lambda lin: np.zeros(lin.J.shape[1]), *[DAMPED[0]] * (len(tasks) - 1)]
    dq = Priority(steps)(tasks)
    assert np.linalg.norm(tasks[0].J @ dq) <= 1e-12 * np.linalg.norm(tasks[0].J) * (
        np.linalg.norm(dq) + 1
    )


@pytest.mark.parametrize("transition", [0.0, 1e-3])
def test_without_singularities_priority_is_the_published_recursion(transition: float) -> None:
    """q̇_k = q̇_(k-1) + (J_k N)⁺ (e_k - J_k q̇_(k-1)), where N projects onto the null space of
    all higher tasks.
    """
    rng = np.random.default_rng(1)
    for rows, n in (((2, 2), 7), ((1, 2, 3), 9), ((1, 1, 1, 1), 5), ((3, 2), 5), ((6,), 7)):
        tasks = [Linearization(rng.normal(size=(m, n)), rng.normal(size=m)) for m in rows]
        dq, above = np.zeros(n), np.zeros((0, n))
        for task in tasks:
            N = np.eye(n) - np.linalg.pinv(above) @ above if len(above) else np.eye(n)
            dq = dq + np.linalg.pinv(task.J @ N, rcond=1e-10) @ (task.e - task.J @ dq)
            above = np.concatenate([above, task.J])
        found = Priority(Pseudoinverse(), transition=transition)(tasks)
        np.testing.assert_allclose(found, dq, atol=1e-9)
        for task in tasks:  # the tasks do not conflict
            np.testing.assert_allclose(task.J @ found, task.e, atol=1e-9)


@pytest.mark.parametrize("transition", [0.0, 0.1])
def test_a_task_that_contradicts_a_higher_one_does_not_change_the_step(transition: float) -> None:
    rng = np.random.default_rng(2)
    first = Linearization(rng.normal(size=(2, 4)), rng.normal(size=2))
    again = Linearization(first.J, -first.e)  # the opposite command
    other = Linearization(np.eye(4), np.ones(4))
    for step in (Pseudoinverse(), DLS(damping.Constant(1e-8))):
        order = Priority(step, transition=transition)
        alone = order([first, other])
        np.testing.assert_allclose(order([first, again, other]), alone, atol=1e-9)
        np.testing.assert_allclose(first.J @ alone, first.e, atol=1e-6)


@pytest.mark.parametrize("transition", [0.0, 0.1])
def test_priority_of_one_task_is_the_step_itself(transition: float) -> None:
    rng = np.random.default_rng(3)
    now, past = (rng.normal(size=(3, 5)) for _ in range(2))
    lin = Linearization(now, rng.normal(size=3), Linearization(past, np.zeros(3)))
    for step in (*DAMPED, DLS(damping.ManipulabilityRate(1.0, 1.5, 0.01, 0.1))):
        assert (Priority(step, transition=transition)([lin]) == step(lin)).all()


def test_a_criterion_in_the_null_space_moves_as_a_last_task_with_identity_jacobian() -> None:
    """The last task has J = I and e = -gain ∇h, for the gradient ∇h of the criterion."""
    rng = np.random.default_rng(4)
    tasks = [Linearization(rng.normal(size=(2, 7)), rng.normal(size=2), q=np.ones(7))] * 2
    h = RestPosture(np.zeros(7))
    step = Pseudoinverse()
    around = Priority([step, NullSpace(step, h, 0.5)])(tasks)
    below = Priority(step)([*tasks, Linearization(np.eye(7), -0.5 * h(np.ones(7)))])
    exact = NullSpace(step, h, 0.5)(tasks[0])
    np.testing.assert_allclose(around, exact, atol=1e-12)
    N = np.eye(7) - np.linalg.pinv(tasks[0].J) @ tasks[0].J
    np.testing.assert_allclose(N @ below, N @ exact, atol=1e-12)


# ---- transitions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("edge", [1e-3, 0.1])
@settings(max_examples=nightly(150, 30), deadline=None)
@given(tasks=levels())
def test_with_a_transition_lower_tasks_hardly_change_the_first_task(
    edge: float, tasks: Levels
) -> None:
    """Let Δq̇ be what the lower tasks add, and J the Jacobian of the first task.

    J Δq̇ is zero, up to rounding, if each σ of J is zero or at least edge · σ_max; otherwise
    ‖J Δq̇‖ <= 0.36 edge ‖J‖ ‖Δq̇‖.
    """
    first = tasks[0]
    order = Priority(DAMPED[0], transition=edge)
    whole = order(tasks)
    assert np.isfinite(whole).all()
    added = whole - order(tasks[:1])
    regular = (first.sigma >= edge * first.sigma_max) | (first.sigma < 1e-15 * first.sigma_max)
    part = 1e-12 if regular.all() else 0.36 * edge
    size = first.sigma_max * np.linalg.norm(added)
    assert np.linalg.norm(first.J @ added) <= part * size + 1e-13 * (1 + np.linalg.norm(whole))


def conflict(rng: np.random.Generator) -> Callable[[float], Levels]:
    """Return tasks as a function of t; at t = 0, a row of the second depends on the first."""
    n = 7
    A, mix, change, rest = (rng.normal(size=(k, n)) for k in (3, 1, 1, 4))
    e = [rng.normal(size=k) for k in (3, 3, 2, n)]

    def at(t: float) -> Levels:
        second = np.concatenate([mix[:, :3] @ A + t * change, rest[:2]])
        J = (A, second, rest[2:], np.eye(n))
        return [Linearization(*one) for one in zip(J, e, strict=True)]

    return at


@pytest.mark.parametrize("step", [Pseudoinverse(), DLS(damping.Constant(1e-4))], ids=str)
@pytest.mark.parametrize("seed", range(nightly(3, 1)))
def test_a_transition_makes_priorities_continuous_where_tasks_conflict(
    step: Step, seed: int
) -> None:
    """Across the conflict, q̇ changes in proportion to the distance of samples.

    Without a transition, q̇ jumps.
    """
    at = conflict(np.random.default_rng(seed))
    plain, smooth = Priority(step), Priority(step, transition=0.1)

    def change(order: Priority, distance: float) -> float:
        return float(np.linalg.norm(order(at(distance)) - order(at(0.0))))

    assert change(plain, 1e-9) > 0.3
    assert change(smooth, 1e-9) < 1e-6
    t = np.linspace(-0.3, 0.3, 301)
    q = np.array([smooth(at(x)) for x in t])
    worst = int(np.linalg.norm(np.diff(q, axis=0), axis=1).argmax())
    finer = np.array([smooth(at(x)) for x in np.linspace(t[worst], t[worst + 1], 33)])
    steps = [np.linalg.norm(np.diff(one, axis=0), axis=1).max() for one in (q, finer)]
    assert steps[1] < 0.4 * steps[0]  # 32 times finer samples show no jump
    for x, dq in zip(t, q, strict=True):
        first = at(x)[0]
        reached = Priority(step)([first])
        np.testing.assert_allclose(first.J @ dq, first.J @ reached, atol=1e-9)


@pytest.mark.parametrize("s", [0.1, 0.5, 0.8])
def test_in_a_transition_lower_tasks_keep_the_share_of_a_direction_that_is_left(s: float) -> None:
    """If the second task takes the fraction h of a direction, the third task keeps 1 - h of it."""
    edge, h = 0.1, s * s * (3 - 2 * s)
    t = s * edge / np.sqrt(1 - (s * edge) ** 2)  # σ of the second task is s · edge · ‖J‖
    rows = ([[1.0, 0.0, 0.0]], [[1.0, t, 0.0]], [[0.0, 2.0, 0.0]])
    tasks = [Linearization(J, [e]) for J, e in zip(rows, (1.0, 1.0, 4.0), strict=True)]
    found = Priority(Pseudoinverse(), transition=edge)(tasks)
    np.testing.assert_allclose(found, [1.0, 2.0 * (1 - h), 0.0], atol=1e-12)


# ---- weights -------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(levels(), st.sampled_from([1.0, 0.1]))
def test_the_augmented_step_with_vectors_of_weights_is_equation_19(tasks: Levels, w: float) -> None:
    """Equation (19) of Deo & Walker: q̇ = (JᵀW J + W_v)⁻¹ JᵀW ẋ."""
    weights: list[object] = [w**k for k in range(len(tasks))]
    weights[-1] = np.linspace(0, 1, len(tasks[-1].e))
    J, e = np.concatenate([x.J for x in tasks]), np.concatenate([x.e for x in tasks])
    W = np.diag(np.concatenate([np.full(len(x.e), y) for x, y in zip(tasks, weights, strict=True)]))
    n = J.shape[1]
    expected = np.linalg.solve(J.T @ W @ J + 0.01 * np.eye(n), J.T @ W @ e)
    found = Augmented(damping.Constant(0.01), weights)(tasks)  # type: ignore[arg-type]
    scale = 1 + np.linalg.norm(J) ** 2 * 100
    atol = 1e-14 * scale * np.linalg.norm(J) * np.linalg.norm(e)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=max(1e-12, atol))


def test_the_augmented_step_tends_to_priorities_as_lower_weights_tend_to_zero() -> None:
    """With weights 1, w, w² and λ² < w², lower tasks cause errors of order w in higher ones."""
    rng = np.random.default_rng(5)
    tasks = [Linearization(rng.normal(size=(2, 4)), rng.normal(size=2)) for _ in range(3)]
    strict = Priority(Pseudoinverse())(tasks[:2])
    off, cost = [], []
    for w in (1e-3, 1e-4, 1e-5):
        soft = Augmented(damping.Constant(w**3), (1, w, w**2))(tasks)
        off.append(np.linalg.norm(soft - strict))
        cost.append(np.linalg.norm(tasks[0].J @ soft - tasks[0].e))
    for sizes in (off, cost):
        assert sizes[2] < 0.15 * sizes[1] < 0.03 * sizes[0]


def crossing(t: float) -> Levels:
    """Return three tasks; at t = 0, the first two have the same row. The third has J = I."""
    first = Linearization([[1.0, 0.0, 0.0]], [1.0])
    second = Linearization([[1.0, t, 0.0]], [0.3])
    return [first, second, Linearization(np.eye(3), [0.5, -2.0, 1.0])]


def test_priority_jumps_at_an_algorithmic_singularity_and_augmented_does_not() -> None:
    """The singularity is at t = 0, where two regular tasks conflict."""
    strict = Priority(DLS(damping.Constant(1e-4)))
    soft = Augmented(damping.Constant(1e-7), (1, 1e-3, 1e-6))
    near, at = 1e-9, 0.0
    assert np.linalg.norm(strict(crossing(near)) - strict(crossing(at))) > 1
    assert np.linalg.norm(soft(crossing(near)) - soft(crossing(at))) < 1e-4
    # Elsewhere, a small change of t causes a small change of the step of Priority.
    assert np.linalg.norm(strict(crossing(0.1)) - strict(crossing(0.1 + 1e-9))) < 1e-6


# ---- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda lin: Priority(3), "a step"),
        (lambda lin: Priority([]), "a step"),
        (lambda lin: Priority([Pseudoinverse(), 3]), "a step"),
        (lambda lin: Priority(Pseudoinverse())([]), "at least one"),
        (lambda lin: Priority(Pseudoinverse())(lin), "sequence"),
        (lambda lin: Priority([Pseudoinverse()])([lin, lin]), "takes 1"),
        (lambda lin: Priority(Pseudoinverse())([lin, Linearization([[1.0]], [1.0])]), "columns"),
        (lambda lin: Augmented(3, (1,)), "rule"),
        (lambda lin: Augmented(damping.Constant(1.0), ()), "one per task"),
        (lambda lin: Augmented(damping.Constant(1.0), 2.0), "one per task"),
        (lambda lin: Augmented(damping.Constant(1.0), (-1,)), "not negative"),
        (lambda lin: Augmented(damping.Constant(1.0), (1, 1))([lin]), "takes 2"),
        (lambda lin: Augmented(damping.Constant(1.0), ([1, 1],))([lin]), r"\(1,\)"),
        (lambda lin: Priority(lambda x: x).kernels(1), "steps of supple.steps"),
        (lambda lin: Priority(Pseudoinverse(), transition=1.0), "transition"),
        (lambda lin: Priority(WEIGHTED, transition=0.1), "row weights"),
    ],
)
def test_priority_steps_refuse_bad_input(call: object, says: str) -> None:
    with pytest.raises(InputError, match=says):
        call(Linearization([[1.0, 0.0]], [2.0]))  # type: ignore[operator]
