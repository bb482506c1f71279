"""The last step of a `Servo`: its speeds, its damping, the limits that acted."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple.control.wrapped import gives_up, row_weights
from supple.motion.linearization import Array, Linearization
from supple.motion.status import StepStatus
from supple.redundancy.priority import Priority
from supple.steps.estimate import Estimates
from supple.tasks.layout import CompiledTasks

if TYPE_CHECKING:
    from supple.control.controller import AnyStep

_ROUNDING_LOSS = 1e-12  # fraction of a command below which a loss is due to rounding
_DAMPED = int(StepStatus.DAMPED)
_status = functools.cache(StepStatus)  # cached, because making a combined flag takes microseconds
# A step with a numerical filter counts as damped if the filter removes more than this fraction,
# α²/(σ² + α²), of the motion along the weakest direction.
_NEGLIGIBLE_FILTERING = 1e-9


class LastStep(_core.Servo):
    """The reports of a `Servo` on its last step."""

    _layout: CompiledTasks
    _step_used: AnyStep
    _order: int
    _dt: float
    _rest_gain: float
    _yields: bool  # whether the step is `Yielding`, whose damping the kernel reports

    @property
    def qd(self) -> Array:
        """Joint speeds (n,) of the last step, or set by `reset` [rad/s or m/s]."""
        return self._qd

    @property
    def lambda2(self) -> float:
        """Damping λ² of the last step, including increases by limits and the bound on the norm.

        For `Priority`, the largest damping of all tasks.
        """
        return self._applied_lambda2

    @property
    def estimates(self) -> Estimates | None:
        """Estimated singular values and damping of a `NumericalFilter` or an `EstimatedDLS`.

        None for other steps, and before the first step.
        """
        found = self._estimates
        return None if found is None else Estimates(*found)

    @property
    def _damps(self) -> bool:
        """Whether the last step was damped: in all directions, or in filtered directions only."""
        if self._chosen_lambda2 > 0 and self._applied_lambda2 > 0:
            return True
        found = self._estimates
        if found is None:
            return False
        sigma, _, _, alpha2, _ = found
        return alpha2 > _NEGLIGIBLE_FILTERING * (sigma * sigma + alpha2)

    @property
    def active(self) -> NDArray[np.int8]:
        """The limit that acts on each joint (n,): -1 for a lower limit, 1 for an upper, else 0.

        `status` and `explain` tell whether the limit is one of position, speed, acceleration or
        jerk.
        """
        return self._side.astype(np.int8)

    @property
    def status(self) -> StepStatus:
        """The damping and limits that acted on the last step, as flags."""
        return _status(self._causes())

    def _causes(self) -> int:
        """Return the status as an integer."""
        flags = self._flags if self._begun else 0
        if self._yields or not self._begun:
            return flags
        damped = self._damps or (
            self._chosen_lambda2 == 0
            and self._missed > _ROUNDING_LOSS
            and bool(self._gives_up(self._J, self._e, self._step))
        )
        return flags | _DAMPED if damped else flags

    @property
    def lost(self) -> Array:
        """The part (m,) of the weighted command that damping removes, before limits are applied.

        Task velocity that no joint motion can produce (outside the range of J) is not included.
        """
        return self._lost

    @property
    def missed(self) -> Array:
        """The part of each task's command that the step did not perform (tasks,).

        ‖e - J q̇‖ of the weighted rows of each task; with order=2, that of the accelerations.
        """
        return self._per_task(self._left)

    def _per_task(self, rows: Array) -> Array:
        """Return the norms (..., tasks) of the rows (..., m) of each task."""
        begin = np.cumsum([0, *self._layout.counts[:-1]])
        return np.asarray(np.sqrt(np.add.reduceat(rows**2, begin, axis=-1)))

    @property
    def _performed(self) -> Array:
        """The velocity of the step (n,), or its acceleration with order=2, which J multiplies."""
        if self._order == 1:
            return self._qd
        return (self._qd - self._before) / self._dt + self._rest_gain * self._before

    @property
    def linearization(self) -> Linearization:
        """J (m, n) and e (m,) of the last step, weighted, at the configuration where it began."""
        return Linearization(self._J, self._e, rows=self._layout.rows, q=self._from)

    @property
    def sigma_min(self) -> float:
        """Smallest singular value of the weighted J in the last step."""
        return self._sigma_min

    def _gives_up(self, J: Array, e: Array, dq: Array) -> NDArray[np.bool_]:
        """Return a mask (...) of steps that, before limits, perform less than the joints could."""
        levels = self._layout.counts if isinstance(self._step_used, Priority) else None
        weights = row_weights(self._step_used, self._layout.counts)
        return gives_up(J, e, dq, weights=weights, levels=levels)
