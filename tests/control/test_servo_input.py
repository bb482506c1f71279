"""Errors name the wrong input, and a rejected call does not change the Servo."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from loops import Array, pose_of, robot, somewhere
from names import without_addresses
from supple import (
    DLS,
    AxisTask,
    Limits,
    OrientationTask,
    PoseTask,
    PositionTask,
    PostureTask,
    Servo,
    damping,
    simulate,
)
from supple.criteria import RestPosture
from supple.errors import InputError, UnknownNameError
from supple.redundancy import Augmented, NullSpace, Priority
from supple.steps import EstimatedDLS, NumericalFilter, StatefulStep, WeightedDLS

Q = np.array([0.2, 0.1, -0.1, -1.9, 0.1, 2.0, 0.6])
TWIST = np.array([0.1, 0.0, 0.1, 0.0, 0.2, 0.0])
NAN, INF = math.nan, math.inf


def servo(**more: Any) -> Servo:
    made = Servo(robot("panda"), **({"dt": 0.01} | more))
    made(Q, TWIST)
    return made


def with_nan(shape: Any) -> Array:
    wrong = np.zeros(shape)
    wrong.flat[-1] = NAN
    return wrong


def bad_pose(**entries: float) -> Array:
    T = np.eye(4)
    T[0, 0] = entries.get("scale", 1.0)
    T[3, 3] = entries.get("corner", 1.0)
    T[1, 3] = entries.get("shift", 0.0)
    return T


READ_ONLY = np.zeros(7)
READ_ONLY.flags.writeable = False

CALLS: dict[str, tuple[Any, ...]] = {
    "q": (
        np.zeros(6), np.zeros((2, 7)), np.zeros((1, 7)), np.float64(1.0), with_nan(7), [INF] * 7,
        "seven", None, [[1], [1, 2]], np.zeros(7, dtype=complex), ["a"] * 7, {}, np.zeros(0),
    ),
    "velocity": (
        np.zeros(5), np.zeros((2, 6)), with_nan(6), np.full(6, INF), "fast", 3.0, [TWIST],
        [None], {}, object(), np.zeros(6, dtype=complex), ["a"] * 6, [[1], [1, 2]],
    ),
    "target": (
        np.zeros((4, 4)), np.eye(3), np.eye(4)[:3], with_nan((4, 4)), bad_pose(scale=-1.0),
        bad_pose(scale=1.01), bad_pose(corner=2.0), bad_pose(shift=NAN), bad_pose(shift=INF),
        np.stack([np.eye(4)] * 2), "there", 1.0, [None], {}, object(),
    ),
    "acceleration": (np.zeros(5), with_nan(6), "more", np.zeros((3, 6))),
    "out": (
        np.zeros(6), np.zeros((1, 7)), np.zeros(7, dtype=np.float32), [0.0] * 7, "here",
        np.zeros(14)[::2], READ_ONLY, 3,
    ),
}  # fmt: skip


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", CALLS)
def test_bad_arguments_of_a_servo_call_are_refused_and_change_nothing(
    name: str, order: int
) -> None:
    """The error names the bad argument, and the next step is the same as without that call."""
    bad, good = servo(order=order), servo(order=order)
    before = bad.qd
    for wrong in CALLS[name]:
        given = {"q": Q, name: wrong}
        with pytest.raises(InputError, match="given"):
            bad(**given)
        np.testing.assert_array_equal(bad.qd, before)
    for _ in range(2):
        np.testing.assert_array_equal(bad(Q, TWIST), good(Q, TWIST))


def far_away(lin: Any) -> Array:
    return np.full(7, np.sign(lin.e[0]) * (1e308 if abs(lin.e[0]) > 1e100 else 1.0))


@pytest.mark.parametrize("step", [
    None, DLS(damping.Optimal(1.0)), DLS(damping.MayorgaRank(0.01, 0.04)), NumericalFilter(5.0),
    EstimatedDLS(damping.SpeedBound(5.0)), EstimatedDLS(damping.ConditionBound(50.0)),
    DLS(damping.ManipulabilityRate(0.04, 1.5, 0.01, 9.0)), far_away,
], ids=without_addresses)  # fmt: skip
def test_a_command_that_overflows_is_rejected_and_changes_nothing(step: Any) -> None:
    """The speeds q̇ stay those of the last step, and no later result is NaN."""
    arm = robot("panda")
    bad = Servo(arm, dt=0.01, step=step, limits=Limits.none(arm))
    bad(Q, TWIST)
    before = bad.qd
    refused = 0
    for size in (1e300, 1e308):
        try:
            bad(Q, np.full(6, size))
        except InputError:
            refused += 1
            np.testing.assert_array_equal(bad.qd, before)
        else:
            assert np.isfinite(bad.qd).all()
            bad.reset(before)
    bad.reset(before)
    good = Servo(arm, dt=0.01, step=step, limits=Limits.none(arm))
    good.reset(before)
    for _ in range(3):
        np.testing.assert_array_equal(bad(Q, TWIST), good(Q, TWIST))


def test_steps_after_a_rejected_command_are_finite_without_a_reset() -> None:
    arm = robot("panda")
    for step in (DLS(damping.Optimal(1.0)), NumericalFilter(5.0), DLS(damping.Constant(0.0))):
        loop = Servo(arm, dt=0.01, step=step, limits=Limits.none(arm))
        for size in (1.0, 1e308, 1.0, 1e308, 1.0):
            try:
                q = loop(Q, size * np.ones(6))
            except InputError:
                continue
            assert np.isfinite(q).all()
            assert math.isfinite(loop.lambda2)
        assert np.isfinite(loop(Q, TWIST)).all()


def test_a_servo_with_several_tasks_needs_a_sequence_of_commands() -> None:
    pair = Servo(robot("panda"), [PositionTask(), PostureTask()], dt=0.01)
    pair(Q, [TWIST[:3], None])
    before = pair.qd
    wrong: list[dict[str, Any]] = [
        {"velocity": TWIST[:3]},
        {"velocity": [TWIST[:3]]},
        {"velocity": [TWIST[:3], None, None]},
        {"velocity": [TWIST[:3], np.zeros(3)]},
        {"velocity": [with_nan(3), None]},
        {"velocity": "ab"},
        {"velocity": np.zeros(10)},
        {"target": np.eye(4)},
        {"target": [np.zeros(3), np.zeros((2, 7))]},
        {"target": [with_nan(3), None]},
        {"target": [np.zeros(3), with_nan(7)]},
        {"target": 1},
        {"velocity": [TWIST, None]},
        {"target": [np.eye(4), None]},
    ]
    for each in wrong:
        with pytest.raises(InputError, match="given"):
            pair(Q, **each)
        np.testing.assert_array_equal(pair.qd, before)


@pytest.mark.parametrize("wrong", [
    {"dt": 0.0}, {"dt": -1.0}, {"dt": NAN}, {"dt": INF}, {"dt": "1"}, {"dt": None}, {"gain": -1.0},
    {"gain": NAN}, {"gain": "much"}, {"order": 3}, {"order": "1"}, {"order": None},
    {"rate_gain": -1.0, "order": 2}, {"rest_gain": INF, "order": 2}, {"limits": 3},
    {"limits": "none"}, {"limits": Limits.none(robot("ur5e"))}, {"step": 3}, {"step": "DLS"},
    {"tasks": 3}, {"tasks": []}, {"tasks": [3]}, {"robot": "panda"}, {"robot": None},
    {"step": Augmented(damping.Constant(0.1), [1.0, 2.0])},
    {"step": Augmented(damping.Constant(0.1), [[1.0, 2.0]])},
    {"step": WeightedDLS(damping.Constant(0.1), np.ones(5))},
    {"step": WeightedDLS(damping.Constant(0.1), None, np.ones(6))},
    {"step": Priority([DLS(damping.Constant(0.1))] * 2)},
], ids=without_addresses)  # fmt: skip
def test_bad_arguments_of_a_new_servo_are_refused(wrong: dict[str, Any]) -> None:
    given: dict[str, Any] = {"robot": robot("panda"), "dt": 0.01} | wrong
    with pytest.raises(InputError, match="given"):
        Servo(**given)


@pytest.mark.parametrize("wrong", [
    {"robot": "panda"}, {"q0": np.zeros(6)}, {"q0": with_nan(7)}, {"q0": np.zeros((2, 7))},
    {"q0": "zero"}, {"velocity": 3}, {"velocity": "fast"}, {"velocity": [TWIST] * 7},
    {"velocity": lambda t: np.zeros(5)}, {"velocity": None},
    {"target": 3}, {"target": lambda t: np.zeros((4, 4))}, {"target": [np.eye(4)] * 3},
    {"target": lambda t: np.stack([np.eye(4)] * 2)}, {"acceleration": 5, "order": 2},
    {"times": [0.0, 1.0]}, {"dt": None, "times": [0.0]}, {"dt": None, "times": [0.0, 0.0]},
    {"dt": None, "times": "now"}, {"dt": None, "times": [0.0, NAN]}, {"dt": None},
    {"dt": None, "times": [1.0, 0.5]}, {"duration": -1.0}, {"duration": None}, {"duration": "1"},
    {"qd0": np.zeros(6)}, {"qd0": with_nan(7)}, {"qd0": "rest"},
], ids=without_addresses)  # fmt: skip
def test_bad_arguments_of_simulate_are_refused(wrong: dict[str, Any]) -> None:
    given: dict[str, Any] = {"robot": robot("panda"), "q0": Q, "velocity": lambda t: TWIST}
    given |= {"dt": 0.01, "duration": 0.1}
    if "times" in wrong:
        given.pop("duration")
    with pytest.raises(InputError):
        simulate(**(given | wrong))


@pytest.mark.parametrize("wrong", [np.zeros(6), with_nan(7), "still", [INF] * 7, np.zeros((2, 7))])
def test_a_reset_with_joint_speeds_of_wrong_shape_or_nan_is_refused(wrong: Any) -> None:
    loop = servo()
    before = loop.qd
    with pytest.raises(InputError, match="given"):
        loop.reset(wrong)
    np.testing.assert_array_equal(loop.qd, before)


@pytest.mark.parametrize("nonsense", [
    lambda lin: np.zeros(3), lambda lin: np.full(7, NAN), lambda lin: None, lambda lin: "go",
    lambda lin: np.zeros((2, 7)), lambda lin: [1, 2], lambda lin: {}, lambda lin: np.zeros(7) + 1j,
])  # fmt: skip
def test_a_user_step_that_returns_invalid_speeds_is_refused(nonsense: Any) -> None:
    calm = [True]

    def step(lin: Any) -> Any:
        return lin.J.T @ lin.e if calm[0] else nonsense(lin)

    loop = servo(step=step)
    before = loop.qd
    calm[0] = False
    with pytest.raises(InputError, match="given"):
        loop(Q, TWIST)
    np.testing.assert_array_equal(loop.qd, before)
    calm[0] = True
    assert np.isfinite(loop(Q, TWIST)).all()


def test_exceptions_of_user_code_reach_the_caller_unchanged() -> None:
    class MineError(Exception):
        pass

    def fails(_: Any) -> Any:
        raise MineError("no")

    arm = robot("panda")
    ways: list[Any] = [fails, DLS(fails), NullSpace(DLS(damping.Constant(0.1)), fails)]
    for step in ways:
        loop = Servo(arm, dt=0.01, step=step)
        with pytest.raises(MineError):
            loop(Q, TWIST)
        np.testing.assert_array_equal(loop.qd, np.zeros(7))


@pytest.mark.parametrize("rule", [lambda lin: -1.0, lambda lin: NAN, lambda lin: "much"])
def test_a_damping_rule_that_returns_an_invalid_number_is_refused(rule: Any) -> None:
    loop = Servo(robot("panda"), dt=0.01, step=DLS(rule))
    with pytest.raises(InputError, match="given"):
        loop(Q, TWIST)


@pytest.mark.parametrize("gradient", [np.zeros(6), with_nan(7), "down", None])
def test_a_criterion_that_returns_an_invalid_gradient_is_refused(gradient: Any) -> None:
    step = NullSpace(DLS(damping.Constant(0.1)), lambda q: gradient)
    loop = Servo(robot("panda"), dt=0.01, step=step)
    with pytest.raises(InputError, match="given"):
        loop(Q, TWIST)


# ---- accepted input ----------------------------------------------------------------------------


def test_a_servo_accepts_lists_float32_and_strided_arrays() -> None:
    T = pose_of("panda", Q)
    expected = servo()(Q, TWIST, T)
    strided = np.zeros(14)[::2]
    strided[:] = Q
    for q in (Q.tolist(), tuple(Q), strided):
        np.testing.assert_array_equal(servo()(q, TWIST.tolist(), T.tolist()), expected)
    np.testing.assert_array_equal(servo()(Q, TWIST, np.asfortranarray(T)), expected)
    near = servo()(Q.astype(np.float32), TWIST, T)
    np.testing.assert_allclose(near, expected, atol=1e-6)


def test_arrays_and_lists_of_the_same_numbers_give_the_same_steps() -> None:
    """Compiled code reads arrays, and Python converts lists."""
    T = pose_of("panda", Q + 0.1)
    given: list[tuple[Any, Array, Array]] = [
        (PoseTask(), TWIST, T),
        (PositionTask(), TWIST[:3].copy(), T[:3, 3].copy()),
        (OrientationTask(), TWIST[3:].copy(), T[:3, :3].copy()),
        (AxisTask(), TWIST[3:].copy(), T[:3, 2].copy()),
        (PostureTask(), Q / 9, Q + 0.1),
        (PostureTask(("panda_joint2", "panda_joint5")), Q[:2] / 9, Q[3:5] + 0.1),
    ]
    arm = robot("panda")
    for task, velocity, target in given:
        one, other = (Servo(arm, task, dt=0.01) for _ in range(2))
        np.testing.assert_array_equal(
            one(Q, velocity, target), other(Q, velocity.tolist(), target.tolist())
        )
        with pytest.raises(InputError, match="given"):
            one(Q, np.zeros(len(velocity) + 3))
    tasks, velocities, targets = (list(each) for each in zip(*given, strict=True))
    velocities[2] = targets[1] = None
    one, other = (Servo(arm, tasks, dt=0.01) for _ in range(2))
    slow = [None if v is None else v.tolist() for v in velocities]
    np.testing.assert_array_equal(
        one(Q, velocities, tuple(targets)), other(Q, tuple(slow), targets)
    )


def test_the_out_argument_of_a_servo_call_may_be_q_itself() -> None:
    expected = servo()(Q, TWIST)
    q, out = Q.copy(), np.empty(7)
    assert servo()(q, TWIST, out=q) is q
    np.testing.assert_array_equal(q, expected)
    assert servo()(Q, TWIST, out=out) is out
    np.testing.assert_array_equal(out, expected)


def test_a_target_with_a_slightly_wrong_rotation_is_corrected() -> None:
    """Given as an array or as a list, the slightly scaled rotation gives the same step."""
    T = pose_of("panda", Q + 0.1)
    T[:3, :3] *= 1 + 3e-7
    np.testing.assert_allclose(
        servo()(Q, None, T), servo()(Q, None, T.tolist()), rtol=0, atol=1e-13
    )


@pytest.mark.parametrize("step", [
    None, DLS(damping.Optimal(1.0)), NullSpace(DLS(damping.Constant(0.1)), RestPosture(Q)),
    NumericalFilter(3.0), StatefulStep(NumericalFilter(3.0)), Priority(DLS(damping.Constant(0.1))),
    Augmented(damping.Constant(0.1), [1.0]), lambda lin: lin.J.T @ lin.e,
], ids=without_addresses)  # fmt: skip
def test_repr_and_report_of_a_servo_do_not_change_its_state(step: Any) -> None:
    loop = servo(step=step)
    assert "panda" in repr(loop)
    assert "0.01" in repr(loop)
    memory = loop.qd
    assert str(loop.explain())
    assert loop.status.sentence
    np.testing.assert_array_equal(loop.qd, memory)


def test_servos_in_parallel_threads_give_the_results_of_single_runs() -> None:
    """Each thread has a Servo of its own; the results equal those of Servos that run in turn."""
    arm = robot("panda")

    def walk(seed: int) -> Array:
        loop = Servo(arm, PoseTask(), dt=0.01)
        q, rng = somewhere("panda", seed), np.random.default_rng(seed)
        for _ in range(150):
            q = loop(q, rng.normal(size=6))
        return q

    alone = [walk(seed) for seed in range(16)]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(walk, range(16)))
    np.testing.assert_array_equal(alone, together)


def test_the_error_about_an_argument_damping_of_a_servo_names_the_argument_step() -> None:
    make: Any = Servo
    with pytest.raises(UnknownNameError, match=r"unknown argument 'damping'.*step=supple.DLS"):
        make(robot("panda"), dt=0.01, damping=0.1)
