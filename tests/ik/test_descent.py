"""The search of `solve` with each damping rule of the kernel, and its bounded steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import supple
from cases import each
from rules import key
from sizes import nightly
from solving import solve
from supple import DLS, Linearization, PoseTask, SolveStatus, damping
from supple.damping import RULES, Region
from supple.damping.rule import KernelRule
from supple.errors import InputError
from supple.ik.problem import compile_problem
from supple.ik.seeds import seed_sequence
from targets import hold

PANDA = supple.load("panda")
TARGET = PANDA.fk(PANDA.neutral() + 0.1)
Array = np.ndarray


def rules(robot: supple.Robot) -> list[KernelRule]:
    """Return every damping rule of the kernel with default values, and a `Region`
    with a direction.
    """
    own = Region.for_robot(robot)
    away = Region(100 * own.lambda2_max, 10 * own.size, direction=(1, 1, 0, 0, 0, 2))
    newton = damping.Optimal(0.8, newton=True)
    return [*(rule.for_robot(robot) for rule in RULES), damping.Optimal(0.3), newton, away]


def descended(
    robot: supple.Robot, T: Array, q: Array, rule: KernelRule, max_step: float
) -> tuple[Array, int]:
    """Iterate DLS from q in NumPy, without the joints held at limits; return q and the number of
    iterations.
    """
    before, iterations = None, 0
    while True:
        lin = PoseTask().linearize(robot, q, T)
        if max(np.linalg.norm(lin.e[:3]), np.linalg.norm(lin.e[3:])) <= 1e-6:
            return q, iterations
        wish = lin.J.T @ lin.e
        held = ((q <= robot.lower) & (wish < 0)) | ((q >= robot.upper) & (wish > 0))
        free = Linearization(np.where(held, 0, lin.J), lin.e, before=before)
        # The singular values that LAPACK returns for zero have rounding errors.
        dq = np.where(held, 0, DLS(rule, "svd")(free))
        before = Linearization(free.J, free.e)
        dq *= min(1.0, max_step / np.abs(dq).max())
        q, iterations = np.clip(q + dq, robot.lower, robot.upper), iterations + 1
        assert iterations < 2000


@pytest.mark.parametrize("max_step", [None, 0.02])
@pytest.mark.parametrize("rule", rules(PANDA), ids=key)
def test_a_search_takes_as_many_iterations_as_the_same_steps_in_numpy(
    rule: KernelRule, max_step: float | None
) -> None:
    count = nightly(12, 4 if max_step is None else 2)
    ends, away = PANDA.random(count, seed=21), np.random.default_rng(3).normal(size=(count, 7))
    ends[count // 2 :, 3] = PANDA.upper[3]  # half of the targets are at a limit
    begin = np.clip(ends + 0.1 * away, PANDA.lower, PANDA.upper)
    compared = 0
    for T, q0 in zip(PANDA.fk(ends), begin, strict=True):
        found = solve(PANDA, T, q0=q0, prefer="fast", damping=rule, max_step=max_step)
        hold(PANDA, T, found)
        if found.restarts:  # the first seed failed
            continue
        q, iterations = descended(PANDA, T, q0, rule, max_step or 1.0)
        compared += 1
        np.testing.assert_allclose(found.q, q, rtol=0, atol=1e-8)
        assert found.iterations == iterations
    least = 2 * count // 3
    if isinstance(rule, Region) and rule.direction:
        least = max(1, count // 3)
    assert compared >= least


@each("rule", rules(PANDA), ids=key)
def test_every_damping_rule_solves_targets_on_every_instruction_set(
    rule: KernelRule, isa: str
) -> None:
    T = PANDA.fk(PANDA.random(150, seed=22))
    found = solve(PANDA, T, damping=rule)
    hold(PANDA, T, found)
    assert found.success.mean() >= 0.98


@pytest.mark.parametrize("rule", rules(PANDA), ids=key)
def test_a_damping_rule_with_memory_does_not_carry_it_from_one_target_to_another(
    rule: KernelRule,
) -> None:
    T = PANDA.fk(PANDA.random(80, seed=23))
    whole = solve(PANDA, T, damping=rule, threads=1)
    order = np.random.default_rng(0).permutation(80)
    mixed = solve(PANDA, T[order], damping=rule, threads=2)
    assert (mixed.q == whole.q[order]).all()
    assert (mixed.iterations == whole.iterations[order]).all()
    for i in (0, 17):
        assert (solve(PANDA, T[i : i + 1], damping=rule).q[0] == whole.q[i]).all()
        assert (solve(PANDA, T[i], damping=rule).q == solve(PANDA, T[i], damping=rule).q).all()


@each("rule", rules(PANDA), ids=key)
def test_solutions_of_singular_and_unreachable_targets_have_no_nan(rule: KernelRule) -> None:
    T = np.repeat(PANDA.fk(np.zeros(7))[None], 3, axis=0)  # singular: J has rank 5
    T[1:, 2, 3] += 0.05, 4.0
    for found in (
        solve(PANDA, T, damping=rule, max_seeds=8),
        solve(PANDA, T, q0=np.zeros(7), damping=rule, max_seeds=8),
    ):
        hold(PANDA, T, found)
        assert found.status[2] == SolveStatus.UNREACHABLE


def test_the_default_damping_of_a_search_is_the_norm_of_the_error() -> None:
    # λ² = 0.005 ‖e‖, where a position error as large as the reach counts as much as 1 rad. The
    # reach is the largest distance of the frame from its mean position.
    robot = PANDA
    rule = compile_problem(robot, None).rule
    assert rule == damping.ErrorNorm(0.005)
    seed_lower, seed_range, seed_stride = seed_sequence(robot)
    even = seed_lower + (0.5 + np.arange(1, 513)[:, None] * seed_stride) % 1 * seed_range
    at = robot.fk(even)[:, :3, 3]
    task = PoseTask(length=float(np.linalg.norm(at - at.mean(axis=0), axis=1).max()))
    T = robot.fk(robot.random(100, seed=24))
    plain, same = solve(robot, T), solve(robot, T, damping=rule, tasks=task)
    assert (plain.q == same.q).all()


@pytest.mark.parametrize("max_step", [1e-3, 0.05, 0.3, 10.0])
def test_no_joint_moves_farther_than_max_step_in_an_iteration(max_step: float) -> None:
    begin = PANDA.random(20, seed=25)
    near = np.clip(begin + 0.2 * np.sin(np.arange(7)), PANDA.lower, PANDA.upper)
    for T, q0 in zip(PANDA.fk(near), begin, strict=True):
        found = solve(PANDA, T, q0=q0, prefer="fast", max_step=max_step)
        assert found.success
        if not found.restarts:
            assert np.abs(found.q - q0).max() <= found.iterations * max_step * (1 + 1e-12)


@each("max_step", [0.02, 0.2])
def test_a_small_max_step_does_not_lose_solutions(max_step: float) -> None:
    T = PANDA.fk(PANDA.random(100, seed=26))
    found = solve(PANDA, T, max_step=max_step)
    assert found.success.all()
    hold(PANDA, T, found)


@each(
    ("options", "says"),
    [
        ({"damping": 0.1}, r"rule of supple.damping; given: 0\.1"),
        ({"damping": lambda lin: 0.1}, "CONTRIBUTING.md"),
        ({"damping": []}, "rule of supple.damping"),
        ({"damping": DLS(damping.Constant(0.1))}, "rule of supple.damping"),
        ({"damping": damping.Constant}, "rule of supple.damping"),
        ({"damping": Region(0.1, 0.1, direction=(1, 0, 0))}, "6 entries"),
        ({"max_step": 0.0}, "max_step"),
        ({"max_step": -1.0}, "max_step"),
        ({"max_step": np.nan}, "max_step"),
        ({"max_step": "far"}, "max_step"),
        ({"max_step": np.ones(2)}, "max_step"),
    ],
)
@each("batch", [False, True])
def test_bad_damping_rules_and_max_steps_are_refused(
    options: dict[str, Any], says: str, batch: bool
) -> None:
    with pytest.raises(InputError, match=says):
        solve(PANDA, TARGET[None] if batch else TARGET, **options)
    with pytest.raises(InputError, match=says):
        solve(PANDA, [TARGET], tasks=["panda_link8"], **options)
