"""Different spellings of the same task or command give the same step.

SUPPLE_MOTIONS sets the number of random robots.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import generated
from loops import Array
from supple import Limits, OrientationTask, PoseTask, PositionTask, PostureTask, Robot, Servo
from supple.control import servo as module
from supple.errors import InputError

ROBOTS = int(os.environ.get("SUPPLE_MOTIONS", "24")) // 4
DT = 0.01
XYZ, TURNS = ("x", "y", "z"), ("rx", "ry", "rz")

Spelling = Callable[[Robot, str], tuple[Any, Callable[[Array], Any]]]


def whole(T: Array) -> Array:
    return T


def position(T: Array) -> Array:
    return T[:3, 3].copy()


def rotation(T: Array) -> Array:
    return T[:3, :3].copy()


# Groups of tasks of a frame f with the same rows, and functions from a pose to their targets.
SAME: dict[str, list[Spelling]] = {
    "position": [
        lambda r, f: (PositionTask(f), position),
        lambda r, f: (PoseTask(f, rows=XYZ), whole),
        lambda r, f: (PositionTask(f, rows=XYZ, weight=(1.0, 1.0, 1.0)), position),
    ],
    "two coordinates": [
        lambda r, f: (PositionTask(f, rows=("x", "z"), weight=2.0), position),
        lambda r, f: (PoseTask(f, rows=("x", "z"), weight=(2.0, 2.0)), whole),
    ],
    "orientation": [
        lambda r, f: (OrientationTask(f), rotation),
        lambda r, f: (OrientationTask(f), whole),
        lambda r, f: (PoseTask(f, rows=TURNS), whole),
    ],
    "pose": [
        lambda r, f: (PoseTask(f), whole),
        lambda r, f: (f, whole),
        lambda r, f: (PoseTask(f, rows=(*XYZ, *TURNS), weight=(1.0,) * 6), whole),
    ],
    "relative position": [
        lambda r, f: (PositionTask(f, base=r.frames[0], axes="body"), position),
        lambda r, f: (PoseTask(f, base=r.frames[0], axes="body", rows=XYZ), whole),
    ],
}


def case(seed: int) -> tuple[Robot, str, Array, Array]:
    """Return a robot, its last frame, a configuration, and a reachable pose of this frame."""
    rng = np.random.default_rng((2, seed))
    arm = generated.robot(rng, size=1.0)
    frame = arm.tips[-1]
    q, other = generated.configurations(arm, 2, rng)
    return arm, frame, q, np.array(arm.fk(other, frame))


def walk(servo: Servo, q: Array, target: Any) -> Array:
    """Return q before and after each of a few steps toward a target."""
    made = []
    for _ in range(8):
        q = servo(q, target=target)
        made.append(q)
    return np.array(made)


@pytest.mark.parametrize("seed", generated.seeds(ROBOTS))
@pytest.mark.parametrize("kind", SAME)
def test_tasks_with_equal_rows_give_equal_steps(kind: str, seed: int) -> None:
    """Tasks of different classes with the same rows give the kernel the same problem."""
    arm, frame, q, T = case(seed)
    limits = Limits.for_robot(arm, max_speed=2.0, max_acceleration=20.0, max_norm=3.0)
    if seed % 2:
        limits = None
    walks = []
    for spelling in SAME[kind]:
        task, target = spelling(arm, frame)
        walks.append(walk(Servo(arm, task, dt=DT, limits=limits), q, target(T)))
    for walked in walks[1:]:
        np.testing.assert_array_equal(walked, walks[0])


@pytest.mark.parametrize("seed", generated.seeds(ROBOTS))
def test_a_posture_task_of_all_joint_names_equals_the_whole_posture(seed: int) -> None:
    arm, _, q, _ = case(seed)
    whole, named = PostureTask(), PostureTask(tuple(arm.joint_names))
    walks = [walk(Servo(arm, task, dt=DT), q, q + 0.1) for task in (whole, named)]
    np.testing.assert_array_equal(walks[0], walks[1])


def strided(array: Array) -> Array:
    """Return a copy of an array that is not contiguous in memory."""
    wide = np.zeros((*array.shape, 3))
    wide[..., 1] = array
    return wide[..., 1]


FORMS: dict[str, Callable[[Array], Any]] = {
    "contiguous": np.ascontiguousarray,
    "strided": strided,
    "transposed": lambda array: np.ascontiguousarray(array.T).T,
    "list": lambda array: array.tolist(),
    "tuple": lambda array: tuple(map(tuple, array)) if array.ndim > 1 else tuple(array),
    "NumPy numbers": list,
    "read-only": lambda array: np.broadcast_to(array, (1, *array.shape))[0],
}


@pytest.fixture
def detours(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which each conversion in Python appends the name of its argument."""
    made: list[str] = []
    plain = module.command_converter

    def counting(*given: Any) -> Callable[[str, Any], Array]:
        convert = plain(*given)
        return lambda name, value: (made.append(name), convert(name, value))[1]

    monkeypatch.setattr(module, "command_converter", counting)
    return made


def commands(
    seed: int,
) -> tuple[Robot, Array, list[tuple[Any, Array, Array]]]:
    """Return a robot, a configuration, and tasks, each with a target and a velocity."""
    arm, frame, q, T = case(seed)
    tasks = [PoseTask(frame), PositionTask(frame), OrientationTask(frame), PostureTask()]
    targets = [T, position(T), rotation(T), q]
    velocities = [np.full(6, 0.1), np.full(3, 0.1), np.full(3, 0.1), np.full(arm.dof, 0.1)]
    return arm, q, list(zip(tasks, targets, velocities, strict=True))


@pytest.mark.parametrize("several", [False, True], ids=["one task", "several tasks"])
@pytest.mark.parametrize("form", FORMS)
def test_arrays_lists_and_tuples_of_commands_are_read_without_python(
    form: str, several: bool, detours: list[str]
) -> None:
    """Compiled code reads arrays with any strides, lists and tuples."""
    spelled = FORMS[form]
    arm, q, cases = commands(3)
    expected = [Servo(arm, task, dt=DT)(q, v, x) for task, x, v in cases]
    found = [Servo(arm, task, dt=DT)(q, spelled(v), spelled(x)) for task, x, v in cases]
    if several:
        tasks, targets, velocities = (list(each) for each in zip(*cases, strict=True))
        expected = [Servo(arm, tasks, dt=DT)(q, velocities, targets)]
        found = [Servo(arm, tasks, dt=DT)(q, [*map(spelled, velocities)], [*map(spelled, targets)])]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert detours == []


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sequence", [list, tuple])
def test_a_list_of_one_task_gives_the_step_of_the_task_alone(
    sequence: type, form: str, detours: list[str]
) -> None:
    """The command is in a list too, which compiled code reads."""
    spelled = FORMS[form]
    arm, q, cases = commands(3)
    for task, x, v in cases:
        expected = Servo(arm, task, dt=DT)(q, v, x)
        for given in ((spelled(v), spelled(x)), (sequence([spelled(v)]), sequence([spelled(x)]))):
            found = Servo(arm, sequence([task]), dt=DT)(q, *given)
            np.testing.assert_array_equal(found, expected)
    assert detours == []


def test_a_single_task_refuses_commands_in_a_sequence() -> None:
    arm, q, cases = commands(3)
    for task, x, v in cases:
        for given in ((v, [x]), ([v], x), (v[None], x), (v, x[None])):
            with pytest.raises(InputError, match=r"shape|batch"):
                Servo(arm, task, dt=DT)(q, *given)


@pytest.mark.parametrize("seed", generated.seeds(ROBOTS))
def test_one_array_may_hold_the_commands_of_several_tasks(seed: int, detours: list[str]) -> None:
    """One array of targets or velocities of equal shapes gives the same step as a list of them."""
    arm, _, q, _ = case(seed)
    frames = [*arm.tips, *arm.frames][:3]
    other = generated.configurations(arm, 1, np.random.default_rng(seed))[0]
    poses = np.array([arm.fk(other, frame) for frame in frames])
    for kind, targets, size in (
        (PoseTask, poses, 6),
        (PositionTask, poses[:, :3, 3], 3),
        (OrientationTask, poses[:, :3, :3], 3),
        (OrientationTask, poses, 3),
    ):
        servos = [Servo(arm, [kind(frame) for frame in frames], dt=DT) for _ in range(2)]
        velocities = np.full((len(frames), size), 0.1)
        expected = servos[0](q, list(velocities), list(targets))
        np.testing.assert_array_equal(servos[1](q, velocities, targets), expected)
    assert detours == []


@pytest.mark.parametrize("seed", generated.seeds(ROBOTS))
@pytest.mark.parametrize("kind", [np.float32, np.int32, np.int64])
def test_float32_and_integer_arrays_act_like_float64_arrays_of_the_same_numbers(
    kind: type, seed: int, detours: list[str]
) -> None:
    """Compiled code reads these arrays; it corrects rotations that were rounded to float32."""
    arm, q, cases = commands(seed)
    for task, x, v in cases:
        target, velocity = np.asarray(x).astype(kind), (10 * v).astype(kind)
        if np.ndim(x) == 2 and kind is not np.float32:
            target = np.eye(len(x), dtype=kind)
        exact = target.astype(float)
        if np.ndim(x) == 2:
            U, _, Vt = np.linalg.svd(exact[:3, :3])
            exact[:3, :3] = U @ Vt
        known, same = (Servo(arm, task, dt=DT) for _ in range(2))
        expected, found = known(q, velocity.astype(float), exact), same(q, velocity, target)
        e = known.linearization.e
        off = 1e-12 * max(float(np.abs(e).max()), 1.0)
        np.testing.assert_allclose(same.linearization.e, e, rtol=0, atol=off)
        # Limits amplify rounding errors where J is singular.
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    assert detours == []


@pytest.mark.parametrize("whole_numbers", [[0, 0, 1], (0, 0, 1), [0, 0.0, 1.0]])
def test_targets_of_integers_equal_targets_of_floats(whole_numbers: Any) -> None:
    arm, frame, q, _ = case(3)
    task = PositionTask(frame)
    found, expected = (
        Servo(arm, task, dt=DT)(q, target=given) for given in (whole_numbers, [0.0, 0.0, 1.0])
    )
    np.testing.assert_array_equal(found, expected)
