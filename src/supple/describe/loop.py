"""Loops and couplings: conditions on a configuration besides the tree and its limits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from supple.describe._validate import MAX_SIZE, check_unique
from supple.describe.joint import VELOCITIES, Joint, Mimic, described_number
from supple.describe.weld import welded, welded_positions
from supple.errors import DescriptionError, short_repr, unknown_name_error

LoopKind: TypeAlias = Literal["point", "weld"]
LOOP_KINDS = ("point", "weld")
_MAX_COEFFICIENTS = 5


@dataclass(frozen=True)
class Loop:
    """A condition that two frames share their origin or pose, which closes a loop of links.

    Attributes:
        frame_a, frame_b: Names of links or extra frames.
        kind: "point" if the frames share their origin, as in a ball joint; "weld" if they share
            their pose.
        name: Unique name of the loop.
    """

    frame_a: str
    frame_b: str
    kind: LoopKind = "point"
    name: str = "loop"

    def __post_init__(self) -> None:
        for key in ("frame_a", "frame_b", "name"):
            given: object = getattr(self, key)
            if not isinstance(given, str) or not given:
                problem = f"expected a non-empty string, given {short_repr(given)}"
                raise DescriptionError(f"{key} of a loop: {problem}.")
        kind: object = self.kind
        if not isinstance(kind, str) or kind not in LOOP_KINDS:
            wrong = unknown_name_error("kind", kind, LOOP_KINDS)
            raise DescriptionError(f"loop {short_repr(self.name)}: {wrong}")


@dataclass(frozen=True)
class Coupling:
    """A joint whose position is a polynomial in another joint's position:  q = Σ c[i] q_leader^i.

    Unlike a joint with a `Mimic`, the follower remains in q and has its own limits.

    Attributes:
        follower: Name of the joint.
        leader: Name of the joint that it follows.
        coefficients: Two to five coefficients c, lowest power first, for positions [rad or m].
    """

    follower: str
    leader: str
    coefficients: tuple[float, ...]

    def __post_init__(self) -> None:
        for key in ("follower", "leader"):
            name: object = getattr(self, key)
            if not isinstance(name, str):
                raise DescriptionError(
                    f"{key} of a coupling: expected a joint's name, given {short_repr(name)}."
                )
        what = f"coupling of {short_repr(self.follower)} to {short_repr(self.leader)}"
        try:
            given = tuple(self.coefficients)
        except TypeError:
            given = ()
        numbers = tuple(described_number(c, f"{what}: coefficients") for c in given)
        while len(numbers) > 2 and numbers[-1] == 0:
            numbers = numbers[:-1]
        if not 2 <= len(numbers) <= _MAX_COEFFICIENTS:
            problem = f"expected 2 to {_MAX_COEFFICIENTS} coefficients"
            raise DescriptionError(f"{what}: {problem}, given {short_repr(self.coefficients)}.")
        if not all(abs(c) <= MAX_SIZE for c in numbers):
            problem = f"coefficients must be finite and at most {MAX_SIZE:g}"
            raise DescriptionError(f"{what}: {problem}, given {list(numbers)}.")
        object.__setattr__(self, "coefficients", numbers)

    def __call__(self, leader: float) -> float:
        """Return the position of the follower for a position of the leader [rad or m]."""
        value = 0.0
        for c in reversed(self.coefficients):
            value = value * leader + c
        return value


def checked_loops(loops: Sequence[Loop], frames: Sequence[str]) -> tuple[Loop, ...]:
    """Return loops after checking that names are unique and that the frames exist."""
    check_unique("loop", [loop.name for loop in loops])
    known = set(frames)
    for loop in loops:
        for frame in (loop.frame_a, loop.frame_b):
            if frame not in known:
                problem = unknown_name_error("frame", frame, frames)
                raise DescriptionError(f"loop {short_repr(loop.name)} joins an {problem}")
        if loop.frame_a == loop.frame_b:
            given = f"given {short_repr(loop.frame_a)} twice"
            raise DescriptionError(
                f"loop {short_repr(loop.name)}: expected two different frames, {given}."
            )
    return tuple(loops)


def resolved_couplings(
    couplings: Sequence[Coupling], joints: Sequence[Joint]
) -> tuple[Coupling, ...]:
    """Return the equivalent couplings of joints that mimic no other; `joints` have resolved mimics.

    If the follower mimics q at  m q + o,  and the leader mimics q' at  m' q' + o',  the coupling
    m q + o = p(m' q' + o')  couples q to q'.
    """
    by_name = {joint.name: joint for joint in joints}
    made = []
    for coupling in couplings:
        what = f"coupling of {short_repr(coupling.follower)} to {short_repr(coupling.leader)}"
        for name in (coupling.follower, coupling.leader):
            if name not in by_name:
                raise DescriptionError(f"{what}: {unknown_name_error('joint', name, by_name)}")
            kind = by_name[name].kind
            if kind == "fixed" or kind in VELOCITIES:
                problem = f"expected joints with one degree of freedom, given a {kind} one"
                raise DescriptionError(f"{what}: {problem}, {short_repr(name)}.")
        one, two = (
            by_name[name].mimic or Mimic(name) for name in (coupling.follower, coupling.leader)
        )
        if one.multiplier == 0:
            problem = f"{short_repr(coupling.follower)} is held by another coupling"
            raise DescriptionError(f"{what}: {problem}.")
        made.append(_through(coupling, one, two))
    return tuple(made)


def _through(coupling: Coupling, one: Mimic, two: Mimic) -> Coupling:
    """Return a coupling of two mimic joints as a coupling of the two joints that they follow."""
    if (one.multiplier, one.offset, two.multiplier, two.offset) == (1.0, 0.0, 1.0, 0.0):
        c = coupling.coefficients
    else:
        inner = np.polynomial.Polynomial((two.offset, two.multiplier))
        outer = np.polynomial.Polynomial(coupling.coefficients)(inner) - one.offset
        c = tuple((outer / one.multiplier).coef.tolist())
        c += (0.0,) * (2 - len(c))
    return replace(coupling, follower=one.joint, leader=two.joint, coefficients=c)


def polynomial_at(c: Sequence[float], before: float, after: float) -> tuple[float, ...]:
    """Return the coefficients in x of  Σ c[i] (x - before)^i + after."""
    shifted = np.polynomial.Polynomial(c)(np.polynomial.Polynomial((-before, 1.0))) + after
    return tuple(float(each) for each in shifted.coef)


def welded_with_couplings(
    joints: Sequence[Joint], couplings: Sequence[Coupling], values: Mapping[str, object]
) -> tuple[tuple[Joint, ...], tuple[Coupling, ...]]:
    """Return joints with some welded as by `welded`, and the couplings that remain.

    A follower of a welded leader is welded too.

    Raises:
        DescriptionError: A follower would be welded without its leader.
    """
    still = dict(values)
    while True:
        positions = welded_positions(joints, still)  # type: ignore[arg-type]
        more = {
            each.follower: each(float(positions[each.leader]))
            for each in couplings
            if each.leader in positions and each.follower not in positions
        }
        if not more:
            break
        for name, value in more.items():
            if not math.isfinite(value):
                problem = f"would be welded at {value:g}; expected a finite position"
                raise DescriptionError(f"joint {short_repr(name)}, which is coupled, {problem}.")
        still.update(more)
    left = tuple(each for each in couplings if each.leader not in positions)
    for each in left:
        if each.follower in positions:
            follower, leader = short_repr(each.follower), short_repr(each.leader)
            raise DescriptionError(
                f"joint {follower} is coupled to {leader} and cannot be fixed alone; fix {leader}."
            )
    return welded(joints, still), left  # type: ignore[arg-type]
