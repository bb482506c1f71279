"""A user's class of tasks gives in every function the results of the task that it contains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

import supple as sp
from humanoids import humanoid
from sizes import a_third
from supple.describe import Inertia
from supple.errors import InputError
from supple.ik.adjoints import DifferentiableSolver
from supple.tasks import CenterOfMassTask, OpenTask, Task
from task_functions import functions, outcome

Array = np.ndarray
UNITS = 1024  # per meter or rad; a power of two makes conversions exact
COUNT = 2


@dataclass(frozen=True)
class Example:
    """A task with targets and velocities, and the conversion of targets for a user's class.

    Attributes:
        task: The task.
        targets: Targets (K, ...).
        velocities: Velocities (K, ...).
        own: Function that converts targets to the form of the user's class.
        read: Inverse function of `own`.
    """

    task: Task
    targets: Array
    velocities: Array
    own: Callable[[Array], Array]
    read: Callable[[Array], Array]

    @property
    def twists(self) -> Array:
        """Velocities (K, 6) as twists, for tasks of frames."""
        if self.velocities.shape[-1] != 3 or isinstance(self.task, CenterOfMassTask):
            return self.velocities
        turning = isinstance(self.task, sp.OrientationTask | sp.AxisTask)
        parts = [np.zeros_like(self.velocities), self.velocities]
        return np.concatenate(parts if turning else parts[::-1], axis=-1)


def larger(x: Array) -> Array:
    return UNITS * x


def smaller(x: Array) -> Array:
    return x / UNITS


def transposed(R: Array) -> Array:
    return np.swapaxes(R, -1, -2)


def farther(T: Array) -> Array:
    """Return poses with positions in units of 1/1024 m."""
    return T * np.where(np.arange(4) == 3, [[UNITS]] * 3 + [[1.0]], 1.0)


def nearer(T: Array) -> Array:
    return T / farther(np.ones((4, 4)))


ROBOTS = {
    "panda": lambda: sp.load("panda"),
    "ur5e": lambda: sp.load("ur5e"),
    "humanoid": lambda: humanoid().with_base("floating"),
}
KINDS = ("pose", "rows", "about", "position", "orientation", "axis", "mass", "posture", "open")


def example(robot: sp.Robot, kind: str, q: Array) -> Example:
    """Return a task of a kind, with the targets that it has at the configurations q (K, nq)."""
    rng = np.random.default_rng(5)
    tip, v = robot.tips[0], 0.05 * rng.normal(size=(len(q), 6))
    T = robot.fk(q, tip)
    x = sp.PostureTask().on(robot).reached(robot, q)
    last = np.eye(robot.nv)[-1:]  # the row of the last joint
    examples: dict[str, Callable[[], Example]] = {
        "pose": lambda: Example(sp.PoseTask(tip), T, v, farther, nearer),
        "rows": lambda: Example(sp.PoseTask(tip, rows=("x", "y", "rz")), T, v, farther, nearer),
        "about": lambda: Example(sp.PoseTask(tip, about="z"), T, v, farther, nearer),
        "position": lambda: Example(sp.PositionTask(tip), T[:, :3, 3], v[:, :3], larger, smaller),
        "orientation": lambda: Example(
            sp.OrientationTask(tip), T[:, :3, :3], v[:, 3:], transposed, transposed
        ),
        "axis": lambda: Example(sp.AxisTask(tip), T[:, :3, 2], v[:, 3:], np.negative, np.negative),
        "mass": lambda: Example(
            CenterOfMassTask(), robot.center_of_mass(q), v[:, :3], larger, smaller
        ),
        "posture": lambda: Example(
            sp.PostureTask(), x, 0.1 * rng.normal(size=x.shape), larger, smaller
        ),
        "open": lambda: Example(
            OpenTask(lambda q: (q[-1:], last), unit="rad"), q[:, -1:], v[:, :1], larger, smaller
        ),
    }
    return examples[kind]()


def converting(given: Example) -> tuple[Task, Array, Array]:
    """Return a task of a subclass that reads targets and velocities in a form of its own."""

    class Own(type(given.task)):  # type: ignore[misc]
        target_shapes = (given.own(given.targets).shape[1:],)

        def targets(self, robot: sp.Robot, numbers: ArrayLike) -> Array:
            return super().targets(robot, given.read(np.asarray(numbers, float)))  # type: ignore[no-any-return]

        def velocities(self, robot: sp.Robot, numbers: ArrayLike) -> Array:
            return super().velocities(robot, smaller(np.asarray(numbers, float)))  # type: ignore[no-any-return]

    task = Own(**{one.name: getattr(given.task, one.name) for one in fields(given.task)})  # type: ignore[arg-type]
    return task, given.own(given.targets), larger(given.velocities)


def placed(given: Example) -> tuple[Task, Array, Array]:
    """Return a task of a subclass whose method `on` ignores its fields."""

    class Own(type(given.task)):  # type: ignore[misc]
        def on(self, robot: sp.Robot) -> Any:
            return given.task.on(robot)

    values = {one.name: getattr(given.task, one.name) for one in fields(given.task)}  # type: ignore[arg-type]
    if "frame" in values:
        values |= {"frame": "world"}
    return Own(**values), given.targets, given.velocities


def wrapped(given: Example) -> tuple[Task, Array, Array]:
    """Return a task of a direct subclass of `Task`."""
    inner = given.task

    class Own(Task):
        is_preference = inner.is_preference

        def on(self, robot: sp.Robot) -> Any:
            return inner.on(robot)

        def targets(self, robot: sp.Robot, numbers: ArrayLike) -> Array:
            return inner.targets(robot, numbers)

        def velocities(self, robot: sp.Robot, numbers: ArrayLike) -> Array:
            return inner.velocities(robot, numbers)

        def differences(self, begin: Array, end: Array) -> Array:
            return inner.differences(begin, end)

    return Own(), given.targets, given.velocities


def calls_of(make: Any, robot: sp.Robot, kind: str) -> list[dict[str, Callable[[], Any]]]:
    """Return calls of all functions for a task of a kind, and for the task of a user's class."""
    q = robot.random(COUNT, seed=7)
    given = example(robot, kind, q)
    share = np.linspace(0.0, 1e-2, 8)[:, None]
    line = example(robot, kind, robot.integrate(q[0], share * robot.difference(q[1], q[0]))).targets
    task, x, v = make(given)
    twists = given.twists if make is placed else v  # other classes read velocities themselves
    return [
        functions(robot, given.task, given.targets, given.velocities, given.twists, line, q),
        functions(robot, task, x, v, twists, given.own(line) if make is converting else line, q),
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [converting, placed, wrapped], ids=lambda make: make.__name__)
def test_a_task_of_a_users_class_gives_the_results_of_the_built_in_task_in_every_function(
    make: Any, kind: str
) -> None:
    for name in a_third(list(ROBOTS), make.__name__, kind):
        robot = ROBOTS[name]()
        if kind == "mass":
            links = [joint.child for joint in robot.description.joints]
            masses = tuple(Inertia(link, 1.0, np.full(3, 0.05), np.eye(3)) for link in links)
            robot = sp.Robot(replace(robot.description, inertias=masses))
        plain, own = calls_of(make, robot, kind)
        worked = 0
        for function, call in plain.items():
            expected, got = outcome(call), outcome(own[function])
            what = f"{function} on {name}"
            if isinstance(expected, type):
                assert got is expected, f"{what}: {got}"
                continue
            worked += 1
            assert not isinstance(got, type), f"{what}: {got}"
            for one, other in zip(got, expected, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8, err_msg=what)
        assert worked >= {"posture": 8, "open": 9}.get(kind, 20)


def test_the_error_about_a_malformed_result_of_a_users_class_names_the_class() -> None:
    class Short(sp.PositionTask):
        def targets(self, robot: sp.Robot, given: ArrayLike) -> Array:
            return np.asarray(given, float)

        def velocities(self, robot: sp.Robot, given: ArrayLike) -> Array:
            return np.asarray(given, float)

    robot, message = sp.load("panda"), r"Short.targets must return \(..., 12\); given: \(3,\)"
    servo, x = sp.Servo(robot, Short(), dt=0.01), [0.4, 0.1, 0.3]
    for call in (
        lambda: sp.solve(robot, x, tasks=Short()),
        lambda: servo(robot.neutral(), target=x),
        lambda: sp.linearize(robot, Short(), robot.neutral(), x),
        lambda: sp.Solver(robot, Short(), step=sp.DLS(sp.damping.Constant(0.1)))(x),
    ):
        with pytest.raises(InputError, match=message):
            call()
    with pytest.raises(InputError, match=r"Short.velocities must return \(..., 6\)"):
        servo(robot.neutral(), x)


def test_a_preference_without_the_rows_of_a_posture_is_refused() -> None:
    class Wish(sp.PositionTask):
        is_preference = True

    robot = sp.load("panda")
    with pytest.raises(InputError, match="must have the rows of a posture; given: Wish"):
        sp.Solver(robot, [sp.OrientationTask(), Wish()])


def test_gradients_refuse_a_class_that_converts_its_targets() -> None:
    robot = sp.load("panda")
    given = example(robot, "pose", robot.random(2, seed=1))
    assert DifferentiableSolver.of(sp.Solver(robot, given.task))
    with pytest.raises(InputError, match="tasks that are all poses"):
        DifferentiableSolver.of(sp.Solver(robot, converting(given)[0]))
