"""A Servo can be copied and pickled, and rejected input leaves it unchanged."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loops import Array, pose_of, robot, somewhere
from supple import DLS, Limits, Linearization, PoseTask, PositionTask, PostureTask, Servo, damping
from supple.criteria import RestPosture
from supple.errors import InputError
from supple.redundancy import Augmented, NullSpace, Priority
from supple.steps import AdaptiveErrorClamp, EstimatedDLS, NumericalFilter, StatefulStep

Q = somewhere("panda")
TWIST = np.array([0.1, -0.2, 0.05, 0.3, 0.1, -0.2])


def own_rule(linearization: Linearization) -> float:
    return 0.01 * (1 + linearization.change)


def own_step(linearization: Linearization) -> Array:
    return linearization.J.T @ linearization.e


def own_criterion(q: Array) -> Array:
    return q - Q


LIMITS = Limits.for_robot(robot("panda"), max_acceleration=5.0, max_norm=1.0)
STEPS: dict[str, Any] = {
    "default": None,
    "optimal": DLS(damping.Optimal(0.5)),
    "rank": DLS(damping.MayorgaRank(0.1, 0.1)),
    "rate": DLS(damping.ManipulabilityRate(0.1, 0.99, 0.01, 0.1)),
    "filtered": NumericalFilter(3.0),
    "estimated": EstimatedDLS(damping.ConditionBound(50.0)),
    "criterion": NullSpace(DLS(damping.Constant(0.01)), RestPosture(Q)),
    "priority": Priority(DLS(damping.Constant(0.01))),
    "augmented": Augmented(damping.Constant(0.1), [1.0]),
    "own rule": DLS(own_rule),
    "own step": own_step,
    "own criterion": NullSpace(DLS(own_rule), own_criterion),
    "remembering": StatefulStep(AdaptiveErrorClamp(DLS(damping.Constant(0.01)), 0.1)),
    "own in order": Priority(DLS(own_rule)),
}


def make(name: str, **more: Any) -> Servo:
    step = copy.deepcopy(STEPS[name])
    return Servo(robot("panda"), PoseTask(), dt=0.01, step=step, limits=LIMITS, **more)


def walk(servo: Servo, q: Array, count: int) -> Array:
    """Return one row for each of `count` steps: q and everything that a Servo reports."""
    said = []
    for k in range(count):
        q = servo(q, TWIST * np.sin(0.1 * k), pose_of("panda", Q + 0.2))
        said.append(state(servo))
    return np.array(said)


def state(servo: Servo) -> Array:
    """Return everything that a Servo reports about its last step, as one array."""
    seen = servo.linearization
    numbers = [
        [servo.lambda2, servo.status],
        servo.qd,
        servo.active,
        seen.J.ravel(),
        seen.e,
        seen.q,
    ]
    return np.concatenate([np.ravel(one) for one in numbers])


WAYS: dict[str, Callable[[Servo], Servo]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda servo: pickle.loads(pickle.dumps(servo)),
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("order", [1, 2])
def test_a_copied_servo_continues_like_the_original(name: str, order: int) -> None:
    servo = make(name, order=order)
    walk(servo, Q, 20)
    others = {way: of(servo) for way, of in WAYS.items()}
    for way, other in others.items():
        assert (state(other) == state(servo)).all(), way
        assert str(other.explain()) == str(servo.explain()), way
    never_copied = make(name, order=order)
    walk(never_copied, Q, 20)
    expected = walk(never_copied, Q, 25)
    for way, other in others.items():
        np.testing.assert_array_equal(walk(other, Q, 25), expected, way)
    np.testing.assert_array_equal(walk(servo, Q, 25), expected)


def test_steps_of_a_servo_do_not_change_its_copies() -> None:
    servo = make("remembering")
    walk(servo, Q, 5)
    other = copy.copy(servo)
    before = state(servo)
    walk(other, Q + 0.1, 30)
    np.testing.assert_array_equal(state(servo), before)
    alone = make("remembering")
    walk(alone, Q, 5)
    np.testing.assert_array_equal(walk(servo, Q, 30), walk(alone, Q, 30))


def test_a_copied_servo_keeps_its_class_its_tasks_and_its_attributes() -> None:
    """This holds also for an instance of a subclass."""

    class Named(Servo):
        def __init__(self, name: str) -> None:
            super().__init__(robot("panda"), [PositionTask(), PostureTask()], dt=0.01)
            self.name = name

    servo = Named("left")
    servo(Q, ([0.1, 0, 0], None))
    other = copy.deepcopy(servo)
    assert type(other) is Named
    assert other.name == "left"
    np.testing.assert_array_equal(other(Q, ([0.1, 0, 0], None)), servo(Q, ([0.1, 0, 0], None)))
    with pytest.raises(InputError, match="given"):
        other(Q, [0.1, 0, 0])


BAD: dict[str, tuple[Any, ...]] = {
    "huge twist": (Q, np.full(6, 1e308)),
    "huge q": (np.full(7, 1e308), TWIST),
    "huge target": (Q, None, np.eye(4) + np.pad(np.full((3, 1), 1e308), ((0, 1), (3, 0)))),
    "NaN in q": (np.append(Q[:6], np.nan), TWIST),
    "infinite q": (np.append(np.inf, Q[1:]), TWIST),
    "NaN in a twist": (Q, np.append(TWIST[:5], np.nan)),
    "short q": (Q[:5], TWIST),
    "short twist": (Q, TWIST[:3]),
    "batch": (np.stack([Q, Q]), TWIST),
    "text": (Q, "up"),
    "no pose": (Q, None, 2 * np.eye(4)),
    "read-only out": (Q, TWIST, None, None, np.broadcast_to(0.0, 7)),
    "short out": (Q, TWIST, None, None, np.zeros(3)),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_rejected_call_leaves_a_servo_unchanged(name: str) -> None:
    """The next step equals that of a Servo without the call. Some steps accept huge input."""
    servo, other = make(name), make(name)
    walk(servo, Q, 10)
    walk(other, Q, 10)
    before, words = state(servo), str(servo.explain())
    refused = set()
    for bad, given in BAD.items():
        one = copy.copy(servo)
        try:
            with np.errstate(all="ignore"):  # steps in Python cause NumPy's warnings
                one(*given)
        except InputError:
            refused.add(bad)
            with pytest.raises(InputError), np.errstate(all="ignore"):
                servo(*given)
            np.testing.assert_array_equal(state(servo), before)
            assert str(servo.explain()) == words
    assert refused >= {bad for bad in BAD if not bad.startswith("huge")}
    np.testing.assert_array_equal(walk(servo, Q, 10), walk(other, Q, 10))


def test_a_twist_that_is_too_large_is_refused() -> None:
    """A huge twist, one of the inputs in `BAD`, is refused as the step would not be finite."""
    with pytest.raises(InputError, match="the step is finite"):
        make("default")(*BAD["huge twist"])


@pytest.mark.parametrize("wrong", ["raises", "is not finite", "has another length"])
def test_a_user_step_that_fails_leaves_a_servo_unchanged(wrong: str) -> None:
    fail = [False]

    def step(linearization: Linearization) -> Any:
        if fail[0] and wrong == "raises":
            raise ZeroDivisionError
        made = linearization.J.T @ linearization.e * (1 + linearization.change)
        if not fail[0]:
            return made
        return made[:3] if wrong == "has another length" else made * np.nan

    servos = [
        Servo(robot("panda"), PoseTask(), dt=0.01, step=step, limits=LIMITS) for _ in range(2)
    ]
    for servo in servos:
        walk(servo, Q, 10)
    before = state(servos[0])
    fail[0] = True
    with pytest.raises((InputError, ZeroDivisionError)):
        servos[0](Q, TWIST)
    fail[0] = False
    np.testing.assert_array_equal(state(servos[0]), before)
    np.testing.assert_array_equal(walk(servos[0], Q, 10), walk(servos[1], Q, 10))


def test_a_user_step_that_overflows_is_not_remembered_as_the_last_step() -> None:
    """Finite speeds that make q infinite are refused; `before` stays the last valid step."""
    arm = robot("panda")

    def step(linearization: Linearization) -> Array:
        if abs(linearization.e[0]) > 100:
            return np.full(7, 1e308)
        return np.full(7, 0.1 if linearization.before is None else 0.2)

    servo = Servo(arm, PoseTask(), dt=2.0, step=step, limits=Limits.none(arm))
    with pytest.raises(InputError, match="the step is finite"):
        servo(Q, 1e3 * TWIST + 1e3)
    servo(Q, TWIST)
    np.testing.assert_array_equal(servo.qd, np.full(7, 0.1))


def test_a_reset_with_invalid_speeds_changes_nothing() -> None:
    servo, other = make("optimal"), make("optimal")
    walk(servo, Q, 10)
    walk(other, Q, 10)
    for bad in ([1.0], np.full(7, np.nan), "fast"):
        with pytest.raises(InputError):
            servo.reset(bad)  # type: ignore[arg-type]
    np.testing.assert_array_equal(walk(servo, Q, 10), walk(other, Q, 10))
