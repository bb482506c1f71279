"""A wrong name gets an error that names similar ones, or what supple has instead."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

import supple as sp
from supple.errors import UnknownNameError

PANDA = sp.load("panda")
T = PANDA.fk(PANDA.neutral())
# Classes that users do not call: base classes, and classes of results.
RETURNED = {
    *(sp.Linearization, sp.Report, sp.Robot, sp.Solution, sp.Solutions, sp.SolveReport),
    *(sp.SolveStatus, sp.StepStatus, sp.Trajectory),
    *(sp.tasks.Task, sp.tasks.TaskRows, sp.tasks.PointsRows),
}
CALLED = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (sp, sp.tasks)
    for name in module.__all__
    if inspect.isclass(getattr(module, name)) or inspect.isfunction(getattr(module, name))
    if getattr(module, name) not in RETURNED
} | {"Limits.for_robot": sp.Limits.for_robot, "Robot.with_limits": PANDA.with_limits}


@pytest.mark.parametrize("name", CALLED)
def test_the_error_about_an_unknown_argument_lists_all_arguments(name: str) -> None:
    call = CALLED[name]
    if call is sp.solve:  # without the robot and the target, Python itself raises an error
        call = lambda **options: sp.solve(PANDA, T, **options)  # noqa: E731
    known = [one for one in inspect.signature(CALLED[name]).parameters if one != "self"]
    with pytest.raises(UnknownNameError, match=r"unknown argument 'invented'") as error:
        call(invented=1)
    assert all(repr(one) in str(error.value) for one in known[:20])


@pytest.mark.parametrize("name", CALLED)
def test_the_error_about_a_misspelt_argument_names_the_right_argument(name: str) -> None:
    call = CALLED[name]
    for known, one in inspect.signature(call).parameters.items():
        if one.kind is inspect.Parameter.POSITIONAL_ONLY or len(known) < 4:
            continue
        with pytest.raises(UnknownNameError, match=rf"did you mean .*'{known}'"):
            call(**dict.fromkeys(("robot", "target") * (call is sp.solve)), **{f"{known}_": 1})


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: sp.PoseTask(cost=1.0), "weight instead"),  # type: ignore[call-arg]
        (lambda: sp.PostureTask(cost=1.0), "weight instead"),  # type: ignore[call-arg]
        (lambda: sp.PoseTask(lm_damping=1.0), "step"),  # type: ignore[call-arg]
        (lambda: sp.Limits(vel=1.0), "called max_speed"),  # type: ignore[call-arg]
        (lambda: sp.Limits.for_robot(PANDA, acc=1.0), "called max_acceleration"),  # type: ignore[call-arg]
        (lambda: PANDA.with_limits(vel=1.0), "called max_speed"),  # type: ignore[call-arg]
        (lambda: sp.solve(PANDA, T, seed=T), "called q0"),  # type: ignore[call-arg]
        (lambda: sp.DLS(damping=0.1), "first argument"),  # type: ignore[call-arg]
        (lambda: sp.linearize(PANDA, q=PANDA.neutral(), frame="panda_hand"), "as the task"),  # type: ignore[call-arg]
    ],
)
def test_argument_names_of_other_libraries_get_hints(call: Callable[[], object], hint: str) -> None:
    with pytest.raises(UnknownNameError, match=hint):
        call()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("fkine", "it is called fk"),
        ("jacob0", "it is called jacobian"),
        ("ikine_LM", r"supple\.solve\(robot, target\)"),
        ("num_joints", "it is called dof"),
        ("qlim", "lower and upper"),
        ("q", "a Robot has no state"),
        ("invented", "no attribute 'invented'$"),
    ],
)
def test_attribute_names_of_other_libraries_get_hints(name: str, hint: str) -> None:
    with pytest.raises(AttributeError, match=hint) as error:
        getattr(PANDA, name)
    assert error.value.name == name  # for Python's hints
    assert error.value.obj is PANDA


def test_hints_name_attributes_that_robots_have() -> None:
    from supple.kinematics.other_names import _INSTEAD

    for old, words in _INSTEAD.items():
        assert not hasattr(PANDA, old)
        called = words.partition("called ")[2].partition(":")[0]
        assert not called or hasattr(PANDA, called)


def test_the_error_for_too_many_positional_arguments_does_not_count_self() -> None:
    with pytest.raises(TypeError, match=r"Servo takes at most 2 positional arguments; given: 3\."):
        sp.Servo(PANDA, None, 0.01)  # type: ignore[misc]
