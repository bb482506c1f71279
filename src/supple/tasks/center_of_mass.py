"""The task for the center of mass, a weighted sum of points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from supple import _core
from supple._arrays.checks import finite_array, number_field
from supple._core import Goal, InputSpec, TargetKind
from supple.errors import TASK_HINTS, join_names, known_arguments
from supple.kinematics import Robot
from supple.kinematics.chain import WORLD, FixedFrame
from supple.kinematics.dynamics import bodies
from supple.kinematics.frames import ancestors_of, chain_of, placed
from supple.kinematics.named_chain import ROWS
from supple.motion.linearization import Array
from supple.tasks.base import Shape, Task
from supple.tasks.fields import Weight, checked_rows, checked_weight, set_fields, weights_of, within
from supple.tasks.rows import TaskRows
from supple.tasks.tolerance import Tolerance, ranges_of


@dataclass(frozen=True, eq=False)
class PointsRows(TaskRows):
    """The rows of a weighted sum of points, x = Σ share p, in world axes.

    The target is x* (3,) [m], the velocity ẋ (3,) [m/s].
    """

    goal: ClassVar[Goal] = Goal.POINTS

    @staticmethod
    def of(
        robot: Robot,
        shares: Mapping[str, float],
        rows: Sequence[str] = ROWS[:3],
        weight: Weight = 1.0,
    ) -> PointsRows:
        """Return the rows for the origins of some frames.

        Args:
            robot: The robot.
            shares: The share of each frame, by its name.
            rows: The controlled rows, among "x", "y", "z".
            weight: One weight for all rows, or one per row.
        """
        return PointsRows(
            picked=tuple(ROWS.index(row) for row in rows),
            weights=weights_of(weight, len(rows)),
            names=tuple(f"{row} of the weighted sum of {join_names(shares)}" for row in rows),
            points=tuple(placed(robot, frame) for frame in shares),
            shares=tuple(float(share) for share in shares.values()),
        )

    def jacobian(  # noqa: D102
        self, robot: Robot, q: Array, target: Array | None = None
    ) -> Array:
        J = np.asarray(_chain(robot, self).jacobian(q, 1), dtype=np.float64)
        rows = np.einsum("k,kij->ij", self.shares, J[:, :3])[list(self.picked)]
        return np.asarray(np.array(self.weights)[:, None] * rows)

    def offset(self, robot: Robot, q: Array, target: Array) -> Array:  # noqa: D102
        away = (target - self.reached(robot, q))[list(self.picked)]
        return np.asarray(np.array(self.weights) * away)

    def reached(self, robot: Robot, q: Array) -> Array:  # noqa: D102
        T = np.asarray(_chain(robot, self).poses(q, 1), dtype=np.float64)
        return np.asarray(np.einsum("k,...ki->...i", self.shares, T[..., :3, 3]))

    def command(  # noqa: D102
        self, robot: Robot, q: Array, velocity: Array, target: Array | None = None
    ) -> Array:
        return np.asarray(np.array(self.weights) * velocity[list(self.picked)])

    def moved_by(self, robot: Robot) -> frozenset[int]:  # noqa: D102
        each = (ancestors_of(robot, point).values() for point in self.points)
        return frozenset(j for joints in each for j in joints)


@lru_cache(maxsize=64)
def _chain(robot: Robot, rows: PointsRows) -> _core.Chain:
    return chain_of(robot, rows.points)


@known_arguments(**TASK_HINTS)
@dataclass(frozen=True)
class CenterOfMassTask(Task):
    """A task for the center of mass of all links:  e = c* - c,  c = Σ m p / Σ m  [m].

    The target is a position (3,) in the world [m], the velocity (3,) [m/s]. Masses are those of the
    robot's description; `robot.center_of_mass(q)` is the position that is controlled.

    Attributes:
        rows: The controlled rows, among "x", "y", "z"; all if None.
        weight: One weight for all rows, or one per row.
        gain: Factor on the gain of a `Servo` for the error of this task; not for `solve`.
        tolerance: The allowed range of the center of mass relative to its target, as in
            `PositionTask` [m].
    """

    target_shapes: ClassVar[tuple[Shape, ...]] = ((3,),)
    velocity_shape: ClassVar[Shape] = (3,)
    target_kind: ClassVar[TargetKind] = TargetKind.NUMBERS

    rows: Sequence[str] | None = None
    weight: Weight = 1.0
    tolerance: Tolerance | None = None
    gain: float = 1.0

    def __post_init__(self) -> None:
        number_field(self, "gain", least=0)
        rows = checked_rows(self, self.rows, ROWS[:3])
        set_fields(
            self,
            rows=rows,
            weight=checked_weight(self, self.weight, len(rows)),
            tolerance=ranges_of(self.tolerance, rows, "CenterOfMassTask: tolerance", single=True),
        )

    def on(self, robot: Robot) -> PointsRows:  # noqa: D102
        each = bodies(robot)
        mass, moment = each.still
        masses, points = each.mass.tolist(), list(each.frames)
        if mass > 0:
            at = np.eye(4)
            at[:3, 3] = moment / mass
            masses, points = [*masses, mass], [*points, FixedFrame(WORLD, at)]
        rows = self.rows or ()
        made = PointsRows(
            picked=tuple(ROWS.index(row) for row in rows),
            weights=weights_of(self.weight, len(rows)),
            names=tuple(f"{row} of the center of mass" for row in rows),
            points=tuple(points),
            shares=tuple(one / sum(masses) for one in masses),
        )
        given: object = self.tolerance  # as `__post_init__` has converted it
        ranges: dict[str, tuple[float, float]] = dict(given) if isinstance(given, tuple) else {}
        return within(made, [ranges.get(row) for row in rows])

    def input_spec(self, robot: Robot, rows: int) -> InputSpec:  # noqa: D102
        return InputSpec(velocity=3, target=3)

    def targets(self, robot: Robot, given: ArrayLike) -> Array:  # noqa: D102
        return finite_array(given, (3,), "a CenterOfMassTask's target", batch=True)

    def velocities(self, robot: Robot, given: ArrayLike) -> Array:  # noqa: D102
        return finite_array(given, (3,), "a CenterOfMassTask's velocity", batch=True)

    def differences(self, begin: Array, end: Array) -> Array:  # noqa: D102
        return np.asarray(end - begin)
