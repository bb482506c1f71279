"""The same task or command, written in another way, gives the same step on the same path.

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


# Tasks of a frame f with the same rows, each with the target that belongs to a pose.
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
    """Return a robot, its last frame, a configuration and a pose that the frame can reach."""
    rng = np.random.default_rng((2, seed))
    arm = generated.robot(rng, size=1.0)
    frame = arm.tips[-1]
    q, other = generated.configurations(arm, 2, rng)
    return arm, frame, q, np.array(arm.fk(other, frame))


def walk(servo: Servo, q: Array, target: Any) -> Array:
    """Return the configurations of a few steps toward a target."""
    made = []
    for _ in range(8):
        q = servo(q, target=target)
        made.append(q)
    return np.array(made)


@pytest.mark.parametrize("seed", range(ROBOTS))
@pytest.mark.parametrize("kind", SAME)
def test_equal_rows_are_one_problem(kind: str, seed: int) -> None:
    """Tasks with the same rows are the same problem for the kernel, and their steps are equal."""
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


@pytest.mark.parametrize("seed", range(ROBOTS))
def test_naming_all_joints_is_the_whole_posture(seed: int) -> None:
    arm, _, q, _ = case(seed)
    whole, named = PostureTask(), PostureTask(tuple(arm.joint_names))
    walks = [walk(Servo(arm, task, dt=DT), q, q + 0.1) for task in (whole, named)]
    np.testing.assert_array_equal(walks[0], walks[1])


def strided(array: Array) -> Array:
    """Return an equal array that is not contiguous."""
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


@pytest.mark.parametrize("several", [False, True], ids=["one task", "several tasks"])
@pytest.mark.parametrize("form", FORMS)
def test_no_form_of_a_command_takes_a_detour(
    form: str, several: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrays with any strides, lists and tuples are read without a conversion in Python."""
    detours: list[str] = []
    plain = module.command_converter

    def counting(*given: Any) -> Callable[[str, Any], Array]:
        convert = plain(*given)
        return lambda name, value: (detours.append(name), convert(name, value))[1]

    monkeypatch.setattr(module, "command_converter", counting)
    arm, frame, q, T = case(3)
    spelled = FORMS[form]
    tasks = [PoseTask(frame), PositionTask(frame), OrientationTask(frame), PostureTask()]
    targets = [T, position(T), rotation(T), q]
    velocities = [np.full(6, 0.1), np.full(3, 0.1), np.full(3, 0.1), np.full(arm.dof, 0.1)]
    cases: list[tuple[Any, Any, Any]] = list(zip(tasks, targets, velocities, strict=True))
    expected = [Servo(arm, task, dt=DT)(q, v, x) for task, x, v in cases]
    found = [Servo(arm, task, dt=DT)(q, spelled(v), spelled(x)) for task, x, v in cases]
    if several:
        expected = [Servo(arm, tasks, dt=DT)(q, velocities, targets)]
        found = [Servo(arm, tasks, dt=DT)(q, [*map(spelled, velocities)], [*map(spelled, targets)])]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert detours == []


@pytest.mark.parametrize("whole_numbers", [[0, 0, 1], (0, 0, 1), [0, 0.0, 1.0]])
def test_whole_numbers_are_numbers(whole_numbers: Any) -> None:
    arm, frame, q, _ = case(3)
    task = PositionTask(frame)
    found, expected = (
        Servo(arm, task, dt=DT)(q, target=given) for given in (whole_numbers, [0.0, 0.0, 1.0])
    )
    np.testing.assert_array_equal(found, expected)
