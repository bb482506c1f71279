"""The world of a `Servo`: the pairs of shapes whose distances it keeps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from supple import _core
from supple._arrays.checks import real_numbers
from supple._core import RowState
from supple.collision.model import (
    CollisionModel,
    check_world,
    model_of,
    moved_obstacles,
    new_model,
)
from supple.collision.world import World
from supple.errors import InputError, short_repr
from supple.kinematics import Robot
from supple.motion.linearization import Array

_HELD, _GIVEN_UP = RowState.HELD.value, RowState.GIVEN_UP.value


class Nearest(NamedTuple):
    """The pair of shapes whose distance minus the clearance that it must keep is the least.

    Attributes:
        names: Names of the links or obstacles of the two shapes.
        distance: Signed distance of the two shapes [m].
        points: Nearest points (2, 3) of the two shapes in the world [m].
        normal: The unit vector (3,) from the second shape to the first.
    """

    names: tuple[str, str]
    distance: float
    points: Array
    normal: Array


class Guarded(NamedTuple):
    """A collision model of the kernel, and the model that names its shapes.

    `own` says whether the kernel's model belongs to one Servo, which may move its obstacles.
    """

    kernel: _core.CollisionModel | None
    model: CollisionModel | None = None
    own: bool = False

    def pair(self, index: int) -> tuple[str, str]:
        """Return the names of the two shapes of a pair."""
        if self.model is None:
            return ("shape", f"pair {index}")
        one, other = self.model.pairs[index].tolist()
        return self.model.parts.owner[one], self.model.parts.owner[other]


def guarded(robot: Robot, world: World | _core.CollisionModel | None, own: bool = False) -> Guarded:
    """Return the model of a robot in a world; a model of the kernel has no names.

    Args:
        robot: The robot.
        world: The world.
        own: Whether the model belongs to one Servo, and is not shared.
    """
    if world is None:
        return Guarded(None)
    if isinstance(world, _core.CollisionModel):
        return Guarded(world)
    model = (new_model if own else model_of)(robot, check_world(world))
    return Guarded(model.kernel, model, own)


def tracking_errors(given: ArrayLike, robot: Robot) -> Array:
    """Return how far each joint may be from the commanded motion (n,), after checking it.

    Raises:
        InputError: `given` is neither one number nor (n,), or a number is negative or not finite.
    """
    values = np.asarray(real_numbers(given, "tracking_error must be one number or (n,)"))
    if values.shape not in ((), (robot.dof,)):
        raise InputError(
            f"tracking_error must be one number or of shape ({robot.dof},); given: "
            f"{short_repr(given)}"
        )
    made = np.array(np.broadcast_to(values, (robot.dof,)), dtype=np.float64)
    if not (np.isfinite(made) & (made >= 0)).all():
        raise InputError(
            f"tracking_error must be finite and not negative; given: {short_repr(given)}"
        )
    made.flags.writeable = False
    return made


def moved_shapes(
    now: Guarded, old: World | None, new: World | None
) -> tuple[list[int], Array] | None:
    """Return moved shapes and poses (k, 16) if worlds differ only in the poses of obstacles."""
    if not isinstance(old, World) or not isinstance(new, World) or now.model is None:
        return None
    moved = moved_obstacles(old, new)
    if moved is None:
        return None
    first = len(now.model.parts.owner) - len(new.obstacles)
    return [first + i for i in moved[0]], moved[1].reshape(-1, 16)


def acting_pairs(
    world: Guarded, rows: Array, qd: Array, blocking: int, clearance: float
) -> tuple[str, ...]:
    """Return sentences about the pairs of shapes that acted on a step.

    Args:
        world: The world of the `Servo`.
        rows: The rows of the step, [G, h, owner, state] (k, n + 3).
        qd: The joint speeds of the step (n,).
        blocking: The pair because of which the step was changed, or -1.
        clearance: The clearance [m].
    """
    owners, states = rows[:, -2], rows[:, -1]
    acted = (owners < 0) & ((states == _HELD) | (states == _GIVEN_UP))
    pairs = [int(-1 - owner) for owner in owners[acted]]
    if blocking >= 0 and blocking not in pairs:
        pairs.append(blocking)
    names = list(dict.fromkeys(world.pair(k) for k in pairs))
    keeps = f"to keep {1e3 * clearance:.3g} mm of clearance"
    held = tuple(f"{one} and {other} hold the step back {keeps}" for one, other in names)
    return held + _stuck_pairs(world, rows, qd)


def _stuck_pairs(world: Guarded, rows: Array, qd: Array) -> tuple[str, ...]:
    """Return a sentence about pairs inside the clearance that a step does not move apart."""
    owners, states = rows[:, -2], rows[:, -1]
    n = rows.shape[1] - 3
    driven = (owners < 0) & (states == _GIVEN_UP) & (rows[:, n] > 0)
    stuck = driven & (rows[:, :n] @ qd <= 0)
    names = list(dict.fromkeys(world.pair(int(-1 - owner)) for owner in owners[stuck]))
    if not names:
        return ()
    said = ", ".join(f"{one} and {other}" for one, other in names)
    return (f"no step moves {said} apart without bringing others closer",)


def nearest_of(world: Guarded, q: Array, clearance: float) -> Nearest | None:
    """Return the pair whose distance minus its clearance is the least at a configuration (n,)."""
    if world.kernel is None:
        return None
    _, pair = world.kernel.min_distance(q, clearance)
    if pair < 0:
        return None
    distance, points, normal = world.kernel.distances(q)
    return Nearest(
        world.pair(pair), float(distance[pair]), np.array(points[pair]), np.array(normal[pair])
    )
