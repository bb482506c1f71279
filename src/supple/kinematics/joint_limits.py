"""Change the joint limits of a description: by a number, an array or a mapping by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from supple._arrays.checks import as_doubles, real_numbers
from supple.describe import Description
from supple.errors import InputError, short_repr, unknown_name_error
from supple.kinematics.chain import Matrix

JointValues: TypeAlias = ArrayLike | Mapping[str, float] | None


def moved_limits(lower: Matrix, upper: Matrix, margin: Matrix) -> tuple[Matrix, Matrix]:
    """Return position limits (n,) moved inwards by a margin (n,).

    Raises:
        InputError: A margin is negative or infinite.
    """
    wrong = margin[~(margin >= 0) | np.isinf(margin)]
    if wrong.size:
        raise InputError(f"margin must be finite and at least 0; given: {wrong[0]:g}")
    return lower + margin, upper - margin


def joint_values(given: JointValues, present: Matrix, names: Sequence[str], what: str) -> Matrix:
    """Return one number per joint (n,): the given value, or the current value where none is given.

    Args:
        given: One number for all joints, an array (n,), a mapping by joint name, or None.
        present: The current values (n,).
        names: Names of the joints.
        what: Name of the argument in error messages.

    Raises:
        InputError: `given` does not consist of numbers in one of these forms.
        UnknownNameError: A joint is unknown.
    """
    if given is None:
        return present
    if not isinstance(given, Mapping):
        shape = (len(names),)
        expected = f"{what} must be a number, an array ({len(names)},) or a mapping by joint name"
        array = as_doubles(real_numbers(given, expected))
        if array.shape not in ((), shape) or np.isnan(array).any():
            raise InputError(f"{expected}; given: {short_repr(given)}")
        return np.broadcast_to(array, shape)
    values = present.copy()
    for name, value in given.items():
        if name not in names:
            raise unknown_name_error("joint", name, names)
        expected = f"{what} of {name!r} must be a number"
        array = as_doubles(real_numbers(value, expected))
        if array.shape != () or np.isnan(array):
            raise InputError(f"{expected}; given: {short_repr(value)}")
        values[names.index(name)] = array
    return values


def with_limits(
    description: Description,
    names: Sequence[str],
    lower: Matrix,
    upper: Matrix,
    rates: Mapping[str, Matrix],
) -> Description:
    """Return a description in which the named joints have other limits (n,).

    Mimic joints lose their limits.

    Args:
        description: The description.
        names: Names of the n joints.
        lower: Lower position limits (n,).
        upper: Upper position limits (n,).
        rates: Limits (n,) of speed, acceleration and jerk, by the name of the joint's attribute.

    Raises:
        InputError: A lower limit is above the upper one, or a limit of a rate is not positive.
    """
    index = {name: j for j, name in enumerate(names)}
    joints = []
    for joint in description.joints:
        j = index.get(joint.name)
        if j is not None:
            low, high = float(lower[j]), float(upper[j])
            most: dict[str, Any] = {key: float(each[j]) for key, each in rates.items()}
            if not low <= high or low == np.inf or high == -np.inf:
                raise InputError(
                    f"the lower limit of {joint.name!r} must be at most the upper one; given: "
                    f"{low:g} and {high:g}, after the margin"
                )
            for key, value in most.items():
                if not value > 0:
                    raise InputError(f"{key} of {joint.name!r} must be positive; given: {value:g}")
            kind = joint.kind
            if kind == "continuous" and np.isfinite((low, high)).any():
                kind = "revolute"  # a continuous joint cannot have limits
            joint = replace(joint, kind=kind, lower=low, upper=high, **most)
        elif joint.mimic is not None:  # drop its limits, which narrowed the leader's old limits
            unlimited: dict[str, Any] = dict.fromkeys(rates, np.inf)
            joint = replace(joint, lower=-np.inf, upper=np.inf, **unlimited)
        joints.append(joint)
    return replace(description, joints=tuple(joints))
