"""Check that solutions keep a clearance from the obstacles and between the links."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple.collision.model import CollisionModel, check_clearance, check_world, model_of
from supple.collision.world import World
from supple.errors import InputError, short_repr
from supple.kinematics import Robot
from supple.motion.linearization import Array

_MAX_LISTED_PAIRS = 3  # number of pairs that a sentence names


@dataclass(frozen=True, eq=False)
class WorldCheck:
    """The clearance that solutions must keep.

    Attributes:
        model: The robot in its world.
        clearance: Least distance that each pair must keep [m].
        branches: The solutions of a blocked target that were checked (s, n); empty for other
            targets.
        complete: Whether `branches` are all solutions of the target.
    """

    model: CollisionModel
    clearance: float
    branches: Array
    complete: bool = False

    @staticmethod
    def of(robot: Robot, world: World | None, clearance: float) -> WorldCheck | None:
        """Return the check of a world, or None without one.

        Raises:
            InputError: An argument is malformed, or a clearance is given without a world.
        """
        if world is None:
            if clearance != 0:
                raise InputError(f"clearance needs world=; given: {short_repr(clearance)} alone")
            return None
        model = model_of(robot, check_world(world))
        return WorldCheck(model, check_clearance(clearance), np.empty((0, robot.nq)))

    @property
    def kernel(self) -> _core.CollisionModel | None:
        """The kernel's model; None if there is no pair to check."""
        return self.model.kernel

    def free(self, q: Array) -> NDArray[np.bool_]:
        """Return whether configurations (..., n) keep the clearance."""
        return ~self.model.collides(q, self.clearance)

    def distance(self, q: Array) -> float:
        """Return the distance of the nearest pair at q (n,) [m]; infinite without pairs.

        Links that are close by construction may be closer than the clearance. The amount by which
        they may be closer is added to their distance.
        """
        if self.kernel is None:
            return np.inf
        return float(self.kernel.min_distance(q, self.clearance)[0])

    def blocking(self, q: Array) -> tuple[tuple[str, str], ...]:
        """Return the names of the pairs that are closer than the clearance, nearest first."""
        return self.model.blocking(q, self.clearance)

    def with_branches(self, branches: Array, complete: bool) -> WorldCheck:
        """Return the check together with the solutions that it has checked."""
        return replace(self, branches=branches, complete=complete)

    def sentence(self, q: Array, restarts: int) -> str:
        """Return a sentence that says why a target is blocked."""
        pairs = self.blocking(q)
        names = ", ".join(f"{one} and {other}" for one, other in pairs[:_MAX_LISTED_PAIRS])
        rest = len(pairs) - _MAX_LISTED_PAIRS
        names += f" and {rest} more pairs" if rest > 0 else ""
        count = len(self.branches)
        if self.complete:
            every = f"all {count} solutions collide" if count > 1 else "the only solution collides"
            return f"blocked: {every}, so no configuration is free; here {names}"
        if count:
            return (
                f"blocked: all {count} solutions found collide, and there may be more; here {names}"
            )
        return (
            f"blocked: all solutions found from {restarts + 1} seeds collide, and there may be "
            f"more; here {names}"
        )


def check_of(solution: Any, what: str) -> WorldCheck:
    """Return the check of a solution, or raise the error that `what` needs a world."""
    if solution._check is None:
        raise InputError(f"{what} needs world= in the call of solve; given: a solution without it")
    check: WorldCheck = solution._check
    return check
