"""`solve`, `Servo`, `simulate` and `linearize` read targets in the same way.

Each spelling of the targets is accepted by all functions, with the same result, or rejected by all
with the same sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from generated import CASES, FIRST
from names import without_addresses
from several_arms import arms
from solving import solve
from supple import (
    AxisTask,
    OrientationTask,
    PoseTask,
    PositionTask,
    Robot,
    Servo,
    linearize,
    load,
    simulate,
)
from supple.errors import InputError
from supple.gpu.device import each_on_gpu
from supple.tasks.inputs import common_shapes

Array = np.ndarray
KINDS: dict[str, tuple[type, Callable[[Array], Array]]] = {
    "pose": (PoseTask, lambda T: T),
    "position": (PositionTask, lambda T: T[:3, 3]),
    "orientation": (OrientationTask, lambda T: T[:3, :3]),
    "axis": (AxisTask, lambda T: T[:3, 2]),
}


class ArrayLike:
    """An array of another library: it has a method `__array__`, but is no sequence."""

    def __init__(self, values: Array) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        return np.asarray(self.values, dtype)


def nested(values: Any) -> Any:
    return [np.asarray(one).tolist() for one in values]


# Spellings of the targets of several tasks, from a list of arrays.
SPELLINGS: dict[str, Callable[[list[Array]], Any]] = {
    "list": list,
    "tuple": tuple,
    "nested lists": nested,
    "float32": lambda given: [one.astype(np.float32) for one in given],
    "not contiguous": lambda given: [np.asfortranarray(one) for one in given],
    "array": np.stack,
    "array of another library": lambda given: ArrayLike(np.stack(given)),
    "only the first": lambda given: given[0],
    "one too many": lambda given: [*given, given[0]],
    "one too few": lambda given: given[:-1],
    "complex": lambda given: [one + 0j for one in given],
    "complex array": lambda given: np.stack(given) + 0j,
    "strings": lambda given: ["here"] * len(given),
    "a string": lambda given: "here",
    "a number": lambda given: 3.0,
    "a mapping": lambda given: dict(enumerate(given)),
    "a set": lambda given: {1.0, 2.0},
    "an iterator": iter,
    "flat": lambda given: [one.ravel() for one in given],
    "rows": lambda given: [one[:2] for one in given],
    "not finite": lambda given: [one * np.nan for one in given],
}  # fmt: skip


def readers(robot: Robot, tasks: Any, q: Array) -> dict[str, Callable[[Any], Any]]:
    """Return functions, by name, that read a target; equal targets must give equal results."""
    servo = Servo(robot, tasks, dt=0.01)

    def stepped(target: Any) -> Array:
        servo.reset()
        return servo(q, target=target)

    return {
        "solve": lambda target: solve(robot, target, tasks=tasks, q0=q).q,
        "Servo": stepped,
        "simulate": lambda target: (
            simulate(robot, q, target=lambda t: target, tasks=tasks, dt=0.01, duration=0.02).q
        ),
        "linearize": lambda target: linearize(robot, tasks, q, target).e,
    }


def outcome(read: Callable[[Any], Any], target: Any) -> tuple[Any, str]:
    """Return a reader's result and '', or None and its error text without addresses."""
    try:
        return read(target), ""
    except InputError as error:
        return None, re.sub(r" at 0x[0-9a-f]+", "", str(error))


def one_task_each(robot: Robot, kinds: tuple[str, ...]) -> tuple[list[Any], Callable[[Array], Any]]:
    tips = robot.tips[: len(kinds)]
    tasks = [KINDS[kind][0](tip) for kind, tip in zip(kinds, tips, strict=True)]

    def targets(q: Array) -> list[Array]:
        poses = [robot.fk(q, tip) for tip in tips]
        return [KINDS[kind][1](T).copy() for kind, T in zip(kinds, poses, strict=True)]

    return tasks, targets


def check(
    each: dict[str, Callable[[Any], Any]], expected: dict[str, Any], make: Callable[[], Any]
) -> None:
    """Check that all readers accept a target, with the expected results, or reject it alike."""
    sentences = {}
    for name, read in each.items():
        made, sentences[name] = outcome(read, make())
        if made is not None:
            np.testing.assert_allclose(made, expected[name], atol=1e-5)
    assert len(set(sentences.values())) == 1, sentences


@pytest.mark.parametrize("kinds", [*product(KINDS, repeat=2)], ids=without_addresses)
def test_all_functions_read_targets_of_two_tasks_in_the_same_way(kinds: tuple[str, ...]) -> None:
    robot = arms("ur5e", "panda")
    q = robot.random(1, seed=1)[0]
    tasks, targets = one_task_each(robot, kinds)
    given = targets(np.clip(q + 0.05, robot.lower, robot.upper))
    each = readers(robot, tasks, q)
    expected = {name: read(given) for name, read in each.items()}
    for spelling, spelled in SPELLINGS.items():
        if "array" in spelling and given[0].shape != given[1].shape:
            continue  # targets of different shapes do not fit into one array
        check(each, expected, lambda spelled=spelled: spelled(given))


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_all_functions_read_the_target_of_one_task_alone_or_in_a_list_in_the_same_way(
    kind: str, listed: bool
) -> None:
    """A list of one task also accepts the array of its target without a list."""
    robot = load("panda")
    q = robot.neutral()
    task, value = KINDS[kind][0](robot.tips[0]), KINDS[kind][1](robot.fk(q + 0.05))
    each = readers(robot, [task] if listed else task, q)
    expected = {name: read(value) for name, read in each.items()}
    spellings = [value, value.astype(np.float32), ArrayLike(value), value + 0j, value * np.nan]
    spellings += [[value], [value.tolist()]] if listed else [value.tolist()]
    for target in [*spellings, "here", 3.0, {}, value.ravel()[:2]]:
        check(each, expected, lambda target=target: target)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + max(12, CASES // 100)))
def test_targets_of_equal_shapes_may_be_given_as_one_array(seed: int) -> None:
    """An array (k, ...) is read as a list of k targets, an array (K, k, ...) as K such lists."""
    rng = np.random.default_rng(seed)
    robot = arms(*rng.choice(["ur5e", "panda", "puma560"], 2))
    count = int(rng.integers(2, 5))
    alike = str(rng.choice(["pose", "position", "orientation", "axis", "position axis"])).split()
    chosen = [KINDS[str(kind)] for kind in rng.choice(alike, count)]
    frames = [str(name) for name in rng.choice(robot.frames, count)]
    tasks = [task(frame) for (task, _), frame in zip(chosen, frames, strict=True)]
    q = robot.random(1, seed=seed)[0]
    path = q + np.linspace(0, 0.02, 4)[:, None] * rng.normal(size=robot.dof)
    path = np.clip(path, robot.lower, robot.upper)
    lists = [
        [of(robot.fk(each, frame)) for (_, of), frame in zip(chosen, frames, strict=True)]
        for each in path
    ]
    stacked = np.stack([np.stack(each) for each in lists])
    for read in readers(robot, tasks, q).values():
        np.testing.assert_array_equal(read(stacked[-1]), read(lists[-1]))
    each = [np.stack(one) for one in zip(*lists, strict=True)]
    options = {"tasks": tasks, "q0": q}
    np.testing.assert_array_equal(
        solve(robot, stacked, **options).q, solve(robot, each, **options).q
    )
    moved = [simulate(robot, q, target=given, tasks=tasks, dt=0.01).q for given in (stacked, lists)]
    np.testing.assert_array_equal(*moved)
    np.testing.assert_array_equal(
        linearize(robot, tasks, path, stacked).e, linearize(robot, tasks, path, each).e
    )
    # Other code divides arrays in GPU memory.
    apart = each_on_gpu(stacked, count, common_shapes(tasks))
    for one, other in zip(apart, each, strict=True):
        np.testing.assert_array_equal(one, other)
    size = 6 if alike == ["pose"] else 3
    velocities = rng.normal(size=(3, count, size))
    moved = [
        simulate(robot, q, velocity=given, tasks=tasks, dt=0.01).q
        for given in (velocities, [[*one] for one in velocities])
    ]
    np.testing.assert_array_equal(*moved)


def test_targets_of_orientation_tasks_may_be_poses() -> None:
    robot = arms("ur5e", "panda")
    q = robot.random(1, seed=3)[0]
    T = robot.fk(np.clip(q + 0.05, robot.lower, robot.upper))
    for read in readers(robot, [OrientationTask(tip) for tip in robot.tips], q).values():
        np.testing.assert_array_equal(read(T), read([*T]))


def test_targets_of_several_poses_may_be_the_array_of_forward_kinematics() -> None:
    robot = arms("ur5e", "panda")
    q = robot.random(1, seed=2)[0]
    goal = np.clip(q + 0.05, robot.lower, robot.upper)
    T = robot.fk(goal)
    assert T.shape == (2, 4, 4)
    servo, other = Servo(robot, dt=0.01), Servo(robot, dt=0.01)
    np.testing.assert_array_equal(servo(q, target=T), other(q, target=[*T]))
    for _ in range(400):
        q = servo(q, target=T)
    np.testing.assert_allclose(robot.fk(q), T, atol=1e-6)
    moved = simulate(robot, q, target=np.stack([T] * 5), dt=0.01)
    np.testing.assert_allclose(robot.fk(moved.q[-1]), T, atol=1e-6)


def test_velocities_of_several_pose_tasks_may_be_one_array() -> None:
    robot = arms("ur5e", "panda")
    q = robot.random(1, seed=2)[0]
    twists = np.random.default_rng(2).normal(size=(2, 6))
    each: dict[str, Callable[[Any], Any]] = {
        "Servo": lambda given: Servo(robot, dt=0.01)(q, given),
        "simulate": lambda given: simulate(robot, q, velocity=[given] * 3, dt=0.01).q,
        "linearize": lambda given: linearize(robot, robot.tips, q, velocity=given).e,
    }
    for read in each.values():
        np.testing.assert_array_equal(read(twists), read([*twists]))
        for wrong in (twists[:, :5], twists[:1], twists + 0j, np.ma.masked_less(twists, 0.0)):
            assert outcome(read, wrong)[1]
    np.testing.assert_array_equal(
        simulate(robot, q, velocity=np.stack([twists] * 3), dt=0.01).q, each["simulate"](twists)
    )
    with pytest.raises(InputError, match=r"shape \(\.\.\., 2, 6\); given: shape \(2, 5\)"):
        each["Servo"](twists[:, :5])


def test_masked_poses_are_rejected() -> None:
    robot = arms("ur5e", "panda")
    q = robot.random(1, seed=2)[0]
    masked = np.ma.array(robot.fk(q), mask=False)
    each = readers(robot, [PoseTask(tip) for tip in robot.tips], q)
    for read in each.values():
        assert outcome(read, masked)[1] == ""
    masked[0, 0, 3] = np.ma.masked
    for read in each.values():
        assert "masked entries" in outcome(read, masked)[1]


@pytest.mark.parametrize("kind", KINDS)
def test_targets_of_many_times_have_the_bits_of_targets_converted_one_by_one(kind: str) -> None:
    """Arrays are converted in one call, lists of numbers one after the other."""
    for robot, frames in ((load("panda"), None), (load("double_y"), list(load("double_y").tips))):
        task, part = KINDS[kind]
        tasks = [task(frame) for frame in frames] if frames else task()
        q = robot.neutral() + np.cumsum(np.full((20, robot.dof), 0.01), axis=0)
        poses = robot.fk(q, frames) if frames else robot.fk(q)[:, None]
        arrays = [[part(T).copy() for T in each] for each in poses]
        given = arrays if frames else [each[0] for each in arrays]
        lists = [[x.tolist() for x in each] if frames else each.tolist() for each in given]
        motions = [simulate(robot, q[0], tasks=tasks, target=x, dt=0.01) for x in (given, lists)]
        np.testing.assert_array_equal(motions[0].q, motions[1].q)
        bad = [*given[:-1], [each * np.nan for each in given[-1]] if frames else given[-1] * np.nan]
        with pytest.raises(InputError, match="finite"):
            simulate(robot, q[0], tasks=tasks, target=bad, dt=0.01)
