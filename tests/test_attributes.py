"""An attribute of a public object takes effect when it is set, or setting it raises an error."""

from __future__ import annotations

from enum import Enum

import numpy as np
import pytest
from test_copies import EXAMPLES, PANDA, Q, public_classes

import supple as sp
from cases import each
from supple import paths

UR5E = sp.load("ur5e")
START = np.array([0.3, -1.2, 1.4, -1.1, 0.5, 0.2])
LINE = np.repeat(UR5E.fk(START)[None], 5, axis=0)
LINE[:, 0, 3] += np.linspace(0, 0.05, 5)
FOLLOWED = sp.plan_path(UR5E, LINE)

# Examples of the public classes that have none in test_copies.py.
MORE = (sp.Servo(PANDA, dt=0.01), FOLLOWED, FOLLOWED.pieces[0])
# Attributes that can be set; tests/control/test_changed_limits.py, tests/motion/test_stateful.py
# and tests/collision/test_guarded_servo.py show their effect.
SETTABLE = {sp.Servo: {"limits", "world"}, sp.steps.StatefulStep: {"memory"}}
OBJECTS = [one for one in (*EXAMPLES, *MORE) if not isinstance(one, Enum | BaseException)]


def test_every_public_class_has_an_example_in_this_file() -> None:
    """Enums and errors need no example, because Python defines their attributes."""
    plain = {one for one in public_classes() if not issubclass(one, Enum | BaseException)}
    assert plain | {paths.JointPath, paths.PlannedPath} <= {type(one) for one in OBJECTS}


@each("one", OBJECTS, ids=lambda one: type(one).__name__)
def test_setting_an_attribute_that_has_no_effect_raises_an_error(one: object) -> None:
    settable: set[str] = SETTABLE.get(type(one), set())
    names = {name for name in dir(one) if not name.startswith("_")}
    assert settable <= names
    for name in sorted(names - settable | {"invented", "limit"}):
        with pytest.raises((AttributeError, TypeError)):  # TypeError: a dataclass with slots
            setattr(one, name, None)


@each(
    ("name", "instead"),
    [
        ("robot", r"make a new Servo\(robot, \.\.\.\)"),
        ("tasks", r"make a new Servo\(robot, tasks=\.\.\.\)"),
        ("dt", r"make a new Servo\(robot, dt=\.\.\.\)"),
        ("qd", r"servo\.reset\(qd\)"),
        ("lambda2", "it is computed"),
        ("limit", "those that can be set are limits and world"),
    ],
)
def test_the_error_about_setting_a_servo_attribute_has_a_hint(name: str, instead: str) -> None:
    servo = sp.Servo(PANDA, dt=0.01)
    before = repr(servo)
    with pytest.raises(AttributeError, match=instead):
        setattr(servo, name, Q)
    assert repr(servo) == before
