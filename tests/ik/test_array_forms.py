"""Memory layout, type, and lists instead of arrays change no result of the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import supple as sp
from cases import each
from moving_trees import moving
from sizes import nightly

Array = np.ndarray


def strided(x: Array) -> Array:
    """Return a view that has the numbers of x, in every second column of a larger array."""
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    wide[..., ::2] = x
    return wide[..., ::2]


def reversed_view(x: Array) -> Array:
    return x[..., ::-1].copy()[..., ::-1]


def read_only(x: Array) -> Array:
    x = x.copy()
    x.flags.writeable = False
    return x


FORMS: dict[str, Callable[[Array], Any]] = {
    "Fortran order": np.asfortranarray,
    "strided": strided,
    "reversed": reversed_view,
    "read-only": read_only,
    "other byte order": lambda x: x.astype(x.dtype.newbyteorder()),
    "unaligned": lambda x: np.frombuffer(b"." + x.tobytes(), offset=1).reshape(x.shape),
    "list": lambda x: x.tolist(),
    "list of arrays": lambda x: [row.copy() for row in x],
    "tuple of NumPy numbers": lambda x: tuple(tuple(row) for row in x) if x.ndim == 2 else tuple(x),
}
TASKS: dict[str, Any] = {
    "pose": sp.PoseTask,
    "position": sp.PositionTask,
    "axis": sp.AxisTask,
    "several": lambda frame: (sp.PositionTask(frame), sp.AxisTask(frame)),
    "a sequence of one": lambda frame: [sp.PoseTask(frame)],
}


def problem(seed: int, name: str) -> tuple[sp.Robot, sp.Solver, Any, Array]:
    """Return a robot, a solver, a target for its tasks (a tuple if there are several) and q0."""
    robot = moving(seed)
    frame = robot.tips[0]
    q, q0 = robot.random(2, seed=seed)
    T = robot.fk(q, frame)
    target = {
        "position": T[:3, 3],
        "axis": 2.7 * T[:3, 2],
        "several": (T[:3, 3], 0.3 * T[:3, 2]),
        "a sequence of one": (T,),
    }.get(name, T)
    return robot, sp.Solver(robot, TASKS[name](frame)), target, q0


def same(found: sp.Solution, other: sp.Solution, what: str) -> None:
    assert other.q.dtype == np.float64, what
    np.testing.assert_array_equal(other.q, found.q, err_msg=what)
    assert other.status == found.status, what
    assert other.iterations == found.iterations, what
    assert other.position_error == found.position_error, what


def in_form(target: Any, form: Callable[[Array], Any]) -> Any:
    return tuple(map(form, target)) if isinstance(target, tuple) else form(target)


@each("name", TASKS)
def test_memory_layout_and_type_of_a_target_or_q0_change_no_solution(name: str) -> None:
    for seed in range(nightly(20, 4)):
        _, solver, target, q0 = problem(seed, name)
        target = in_form(target, np.ascontiguousarray)
        plain, near = solver(target), solver(target, q0)
        for form, change in FORMS.items():
            what = f"{name}, {form}, {seed}"
            same(plain, solver(in_form(target, change)), what)
            same(near, solver(in_form(target, change), change(q0)), what)
            same(near, solver(in_form(target, list), q0=change(q0)), what)


@each("name", TASKS)
def test_float32_targets_give_the_solutions_of_float64_targets_of_equal_value(name: str) -> None:
    for seed in range(nightly(20, 4)):
        _, solver, target, q0 = problem(seed, name)
        single = in_form(target, lambda x: x.astype(np.float32))
        double = in_form(single, lambda x: x.astype(np.float64))
        q32 = q0.astype(np.float32)
        found = solver(double, q32.astype(np.float64))
        same(found, solver(single, q32), f"{name}, {seed}")
        same(found, solver(in_form(single, strided), strided(q32)), f"{name}, {seed}")


def test_targets_of_integers_give_the_solutions_of_floats_of_equal_value() -> None:
    robot = sp.load("ur5e")
    solver = sp.Solver(robot, sp.PoseTask())
    T = np.array([[0.0, -1.0, 0.0, 0.0], [1.0, 0.0, 0.0, -1.0], [0.0, 0.0, 1.0, 0.0], [0, 0, 0, 1]])
    q0 = np.array([1.0, -1.0, 1.0, 0.0, 2.0, 0.0])
    for kind in (np.int8, np.int32, np.int64, np.uint16, bool):
        target = T if kind in (np.int8, np.int32, np.int64) else np.eye(4)
        start = q0 if kind in (np.int8, np.int32, np.int64) else np.abs(q0)
        if kind is bool:
            with pytest.raises(sp.errors.InputError, match="q0"):
                solver(target, np.ones(6, kind))
            continue
        same(solver(target, start), solver(target.astype(kind), start.astype(kind)), str(kind))
    same(solver(T, q0), solver(T.astype(int).tolist(), [int(x) for x in q0]), "lists")


def test_a_batch_of_targets_given_to_a_solver_for_one_target_is_an_error_in_any_form() -> None:
    robot = sp.load("ur5e")
    T = robot.fk(robot.random(4, seed=0))
    for wrong in (T, list(T), np.asfortranarray(T), T.tolist()):
        with pytest.raises(sp.errors.InputError, match="batch"):
            sp.Solver(robot)(wrong)
    with pytest.raises(sp.errors.InputError, match="one target for each of 1 task"):
        sp.Solver(robot, [sp.PoseTask()])(T[0].tolist())


@each("form", FORMS)
def test_memory_layout_and_type_of_q_change_no_pose_and_no_jacobian(form: str) -> None:
    for seed in range(nightly(20, 6)):
        robot = moving(seed)
        for q in (robot.random(seed=seed), robot.random(3, seed=seed)):
            given = FORMS[form](q)
            np.testing.assert_array_equal(robot.fk(given), robot.fk(q), err_msg=f"{form}, {seed}")
            np.testing.assert_array_equal(robot.jacobian(given), robot.jacobian(q))
            v = np.ones((*q.shape[:-1], robot.nv))
            np.testing.assert_array_equal(
                robot.integrate(given, FORMS[form](v)), robot.integrate(q, v)
            )
