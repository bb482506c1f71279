"""Goals added as CONTRIBUTING.md describes obey the laws of all goals.

`make test-recipes` compiles the whole library with these goals.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import supple as sp
from floating import floating_arm
from goal_program import Given, Program
from humanoids import humanoid
from task_recipe import NEW, ROOT, add_to

Array = np.ndarray
H = 1e-5  # step of central differences
CASES = 6

ROBOTS: dict[str, Callable[[], sp.Robot]] = {
    "panda": lambda: sp.load("panda"),
    "floating_arm": floating_arm,
    "humanoid": lambda: humanoid().with_base("floating"),
}
ARMS = (
    "panda",
)  # robots without ball joints; with these, second derivatives depend on the order of rotations


@pytest.fixture(scope="module")
def headers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a copy of the headers with the new goals."""
    folder = tmp_path_factory.mktemp("headers")
    shutil.copytree(ROOT / "include", folder / "include")
    (folder / "src/supple/tasks").mkdir(parents=True)
    for goal in NEW:
        add_to(folder, goal)
    return folder / "include"


@cache
def program(name: str, headers: Path) -> Program:
    robot = ROBOTS[name]()
    frames = [robot.tips[0], *(robot.frames[len(robot.frames) * k // 4] for k in (2, 3))]
    assert len(set(frames)) == 3
    return Program(robot, frames, headers)


def tasks_of(p: Program) -> dict[str, Given]:
    """Return tasks of the new goals and of goals of the library, by name."""
    a, b, c = p.frames
    six = {"rows": range(6), "weights": (1.0, 0.5, 2.0, 1.0, 1.5, 0.3)}
    return {
        "point_distance": p.task("point_distance", points=(a, b), shares=(1, -1), weights=(1.7,)),
        "spread": p.task("spread", frame=a, weights=(0.6,)),
        "spread from a base": p.task("spread", frame=a, base=b),
        "pose": p.task("frame", frame=a, **six),
        "position": p.task("frame", frame=a, rows=(0, 1, 2), weights=(1, 2, 3)),
        "pose from a base": p.task("frame", frame=a, base=b, **six),
        "pose in its own axes": p.task("frame", frame=a, axes=-2, **six),
        "pose in other axes": p.task("frame", frame=a, axes=1, **six),
        "axis": p.task("axis", frame=a, axes=-2, rows=(3, 4), weights=(1.0, 2.0)),
        "points": p.task(
            "points", points=(a, b, c), shares=(0.2, 0.5, 0.3), rows=(0, 2), weights=(1, 3)
        ),
    }


def each_case(p: Program) -> list[tuple[str, Given, Array, Array, Array]]:
    """Return tasks by name, each with a random q, q̇, and a factor for each of its rows."""
    rng = np.random.default_rng(3)
    return [
        (name, task, rng.uniform(-1.5, 1.5, p.n), rng.normal(size=p.n), rng.normal(size=task.rows))
        for name, task in tasks_of(p).items()
        for _ in range(CASES)
    ]


def is_derivative(name: str) -> bool:
    """Return whether rows are derivatives of a quantity; angular velocities are not."""
    return not name.startswith(("pose", "axis"))


def slope(f: Callable[[Array], Array], p: Program, q: Array, v: Array) -> Array:
    """Return the derivative of a function of q along v, by central differences."""
    return np.asarray((f(p.moved(q, v, H)) - f(p.moved(q, v, -H))) / (2 * H))


def close(found: Array, expected: Array, name: str) -> None:
    size = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(found, expected, atol=2e-7 * size, err_msg=name)


@pytest.fixture(params=ROBOTS)
def p(request: pytest.FixtureRequest, headers: Path) -> Program:
    return program(request.param, headers)


def test_j_is_minus_the_derivative_of_e_and_the_bias_is_the_derivative_of_j_q_dot(
    p: Program,
) -> None:
    def check(name: str, task: Given, q: Array, v: Array, _: Array) -> None:
        here = p.evaluate(task, q, qd=v)
        e = p.evaluate(task, q, target=here.reached).e
        np.testing.assert_allclose(e, 0, atol=1e-13, err_msg=name)
        away = slope(lambda x: p.evaluate(task, x, target=here.reached).e, p, q, v)
        close(here.J @ v, -away, f"J of {name}")
        close(here.bias, slope(lambda x: p.evaluate(task, x).J @ v, p, q, v), f"bias of {name}")

    for case in each_case(p):
        check(*case)


def test_a_velocity_of_a_new_goal_is_the_rate_of_its_quantity(p: Program) -> None:
    def check(name: str, task: Given, q: Array, v: Array, _: Array) -> None:
        rate = slope(lambda x: p.evaluate(task, x).reached, p, q, v)
        close(p.evaluate(task, q, velocity=rate).command, p.evaluate(task, q).J @ v, name)

    for case in each_case(p):
        if case[0].split()[0] in NEW:
            check(*case)


def test_general_formulas_give_the_second_derivatives_of_any_goal(p: Program) -> None:
    def check(name: str, task: Given, q: Array, v: Array, u: Array) -> None:
        *_, g, bends = p.bends(task, q, u, v)
        along = [slope(lambda x: u @ p.evaluate(task, x).J, p, q, one) for one in (v, *np.eye(p.n))]
        every = np.array(along[1:])
        # Rotations of a ball joint do not commute: the result is the mean of both orders.
        close(g, 0.5 * (along[0] + every @ v), f"gradient of {name}")
        close(bends, 0.5 * (every + every.T), f"second derivatives of {name}")

    for case in each_case(p):
        if is_derivative(case[0]):
            check(*case)


@pytest.mark.parametrize("name", ARMS)
def test_general_second_derivatives_agree_with_the_formulas_of_each_goal(
    name: str, headers: Path
) -> None:
    p = program(name, headers)
    for task, given, q, v, u in each_case(p):
        if is_derivative(task):
            g, bends, any_g, any_bends = p.bends(given, q, u, v)
            np.testing.assert_allclose(any_g, g, atol=1e-12, err_msg=task)
            np.testing.assert_allclose(any_bends, bends, atol=1e-12, err_msg=task)


def test_the_structure_of_a_task_includes_every_joint_that_moves_it(p: Program) -> None:
    rng = np.random.default_rng(4)
    for name, task, q, v, _ in each_case(p):
        some = np.where(rng.random(p.n) < 0.5, v, 0.0)
        column, label, rows, moves = p.structure(task, some)
        moved = np.abs(p.evaluate(task, q).J).max(axis=0) > 0
        assert column[moved].all(), name
        assert (label[moved] == label[moved][0]).all(), name
        assert (rows == label[moved][0]).all(), name
        if not moves:
            assert not p.evaluate(task, q, qd=some).bias.any(), name
