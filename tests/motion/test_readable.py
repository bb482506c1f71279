"""Objects that hold functions of users are printed with names of functions, not addresses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import supple as sp

PANDA = sp.load("panda")


class Mine:
    """A rule, step, criterion or task without a repr of its own."""

    def __call__(self, given: Any) -> Any:
        if isinstance(given, sp.Linearization):
            return 0.01
        return np.zeros(7)


def own(given: Any) -> Any:
    """Return the result of `Mine`, as a function of a user."""
    return Mine()(given)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Mine": Mine(),
    "own": own,
    "lambda": lambda given: own(given),
    "partial": partial(own),
}
DLS = sp.DLS(sp.damping.Constant(0.01))
HOLDERS: dict[str, Callable[[Any], Any]] = {
    "DLS": sp.DLS,
    "WeightedDLS": lambda f: sp.steps.WeightedDLS(f, joint_weight=np.ones(7)),
    "ErrorClamp": lambda f: sp.steps.ErrorClamp(sp.DLS(f), 0.1),
    "AngleClamp": lambda f: sp.steps.AngleClamp(sp.DLS(f), 0.1),
    "NullSpace": lambda f: sp.redundancy.NullSpace(DLS, f),
    "own step in NullSpace": lambda f: sp.redundancy.NullSpace(sp.DLS(f), own),
    "GradientProjection": lambda f: sp.redundancy.GradientProjection(f, own),
    "Priority": lambda f: sp.redundancy.Priority([sp.DLS(f), DLS]),
    "OpenTask": sp.tasks.OpenTask,
    "Servo": lambda f: sp.Servo(PANDA, dt=0.01, step=sp.DLS(f)),
    "Servo with an own step": lambda f: sp.Servo(PANDA, dt=0.01, step=f),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("holder", HOLDERS)
def test_functions_of_users_are_printed_by_name(holder: str, name: str) -> None:
    shown = repr(HOLDERS[holder](FUNCTIONS[name]))
    assert " at 0x" not in shown
    assert {"partial": "own"}.get(name, name) in shown


def test_damping_rules_are_printed_with_their_parameters() -> None:
    assert eval(repr(DLS), {"DLS": sp.DLS, **vars(sp.damping)}) == DLS
