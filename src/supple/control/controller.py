"""Prepare a step for a control loop: it runs in the kernel if possible, otherwise in Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from supple._core import (
    ControlMode,
    FilterSpec,
    Secondary,
    SecondarySpec,
    StepSpec,
)
from supple.control.intervals import Intervals
from supple.control.wrapped import damping_used, minimized_norm, priority_norm
from supple.damping import Constant
from supple.damping.rule import KernelRule
from supple.errors import InputError, short_repr
from supple.motion.linearization import Array, Linearization, numbers_of
from supple.redundancy.priority import Augmented, Priority
from supple.redundancy.secondary import TotalSpeed, secondary_velocity
from supple.steps.basic import DLS
from supple.steps.batch import with_effectors
from supple.steps.estimated import EstimatedDLS
from supple.steps.filtering import NumericalFilter
from supple.steps.stateful import remembering, stateful_inside
from supple.steps.step import Step, guaranteed_norm, kernel_of
from supple.tasks.layout import CompiledTasks

AnyStep: TypeAlias = Step | Augmented | Priority


# Factories, not constants: a compiled object at module level may outlive the compiled module.
def _idle() -> StepSpec:
    return DLS(Constant(0.0)).kernel


def _no_secondary() -> SecondarySpec:
    return SecondarySpec(form=Secondary.NULL_SPACE, step=_idle())


def _no_filter() -> FilterSpec:
    return FilterSpec(max_gain=1.0, printed=False, directions=1)


@dataclass(frozen=True)
class Controller:
    """A step in the form that a control loop runs: in the kernel, or in Python.

    Attributes:
        mode: The kind of step that the kernel runs: one step, priorities, a criterion, a filter, or
            estimated singular values.
        steps: The kernel's form of the step, or of the step of each task.
        secondary: The kernel's form of a step with a secondary velocity.
        filter: The kernel's form of a numerical filter.
        secondary_velocity: Function from q (n,) to the secondary velocity v (n,), which is along
            the negative gradient of a criterion; None if there is no criterion.
        python_step: The step, if it runs in Python; None if it runs in the kernel.
        max_speed: The bound on ‖q̇‖ that the step guarantees, also after limits are applied.
    """

    mode: ControlMode = ControlMode.STEP
    steps: tuple[StepSpec, ...] = field(default_factory=lambda: (_idle(),))
    secondary: SecondarySpec = field(default_factory=_no_secondary)
    filter: FilterSpec = field(default_factory=_no_filter)
    secondary_velocity: Callable[[Array], Array] | None = None
    python_step: PythonStep | None = None
    max_speed: float = math.inf


def make_controller(step: AnyStep, layout: CompiledTasks) -> Controller:
    """Return the controller that runs a step, in the kernel if possible."""
    given: object = step
    if isinstance(given, KernelRule):
        raise InputError(
            f"step must be a step, such as DLS(rule); given: the rule {short_repr(step)}"
        )
    if isinstance(step, Augmented) and step.is_diagonal:
        step = step.as_weighted(layout.counts)
    if isinstance(step, NumericalFilter):
        if layout.open:
            return Controller(python_step=PythonStep(step, layout))
        return Controller(ControlMode.FILTERED, filter=step.kernel)
    try:
        if isinstance(step, Augmented):  # its weights are matrices or functions
            return Controller(python_step=PythonStep(step, layout))
        controller = _in_kernel(step, layout)
    except InputError:  # the step, or a rule inside it, is user-defined
        return Controller(python_step=PythonStep(step, layout))
    by_priority = controller.mode == ControlMode.PRIORITY
    counts = layout.counts if by_priority else (len(layout.rows),)
    _check(step, controller.steps, counts, layout.robot.dof)
    if layout.open:  # Python computes rows between the kernel's kinematics and its step
        return Controller(python_step=PythonStep(step, layout), max_speed=controller.max_speed)
    return controller


def open_rows(
    layout: CompiledTasks,
    gain: float,
    rate_gain: float,
    intervals: Intervals | None,
    *,
    second_order: bool,
) -> Callable[..., None] | None:
    """Return the function that evaluates open tasks in a control loop; None without open tasks.

    If rows have ranges, the function writes their intervals to `intervals`.
    """
    if not layout.open:
        return None

    def evaluate(
        J: Array,
        desired: Array,
        q: Array,
        qd: Array,
        target: Array | None,
        velocity: Array | None,
        acceleration: Array | None,
    ) -> None:
        """Write the rows of open tasks into J (m, n) and `desired` (m,), the desired J q̇ or J q̈."""
        if intervals is not None:
            intervals.clear()
        for part in layout.open:
            x, slopes = part.open.linear(q)
            asked = np.zeros(len(x))
            if velocity is not None:
                asked += velocity[part.velocities] * (rate_gain if second_order else 1.0)
            if target is not None:
                e = part.open.distance(np.nan_to_num(target[part.targets] - x))  # NaN: no target
                asked += gain * e
            if second_order:
                asked -= part.open.bias(q, qd)
                if target is not None or velocity is not None or acceleration is None:
                    asked -= rate_gain * slopes @ qd
                if acceleration is not None:
                    asked += acceleration[part.velocities]
            weights = layout.weights[part.rows]
            J[part.rows] = weights[:, None] * slopes
            desired[part.rows] = weights * asked
            if target is None or not part.open.lower:
                continue
            free = np.array(part.open.ranged)
            if intervals is not None:
                offset = target[part.targets] - x
                moving = asked - gain * e  # the commanded velocity
                low = moving + gain * (offset - part.open.upper)
                high = moving + gain * (offset - part.open.lower)
                for i in np.flatnonzero(free & np.isfinite(offset) & (weights > 0)):
                    row, w = part.rows.start + int(i), weights[i]
                    intervals.add(row, J[row].copy(), w * low[i], w * high[i])
                    free[i] = False
            idle = part.rows.start + np.flatnonzero(free & (e == 0))
            J[idle], desired[idle] = 0.0, 0.0

    return evaluate


def _in_kernel(step: Step | Priority, layout: CompiledTasks) -> Controller:
    """Return the kernel's form of a step.

    Raises:
        InputError: The kernel does not implement the step.
    """
    if isinstance(step, Priority):
        kernels = step.kernels(len(layout.tasks))
        if len(kernels) == len(layout.effectors):
            kernels = tuple(map(with_effectors, kernels, layout.effectors, layout.counts))
        return Controller(ControlMode.PRIORITY, kernels)
    if isinstance(step, EstimatedDLS):
        return Controller(ControlMode.ESTIMATED, (step.kernel,))
    spec = getattr(step, "kernel", None)
    if isinstance(spec, SecondarySpec):
        inner = with_effectors(spec.step, layout.all_effectors, len(layout.rows))
        spec = spec.replace(step=inner)
        return Controller(
            ControlMode.SECONDARY,
            (inner,),
            secondary=spec,
            secondary_velocity=secondary_velocity(step, layout.robot.nv),  # type: ignore[arg-type]
            max_speed=spec.max_speed if isinstance(step, TotalSpeed) else math.inf,
        )
    spec = with_effectors(kernel_of(step), layout.all_effectors, len(layout.rows))
    return Controller(steps=(spec,), max_speed=guaranteed_norm(spec))


def _check(step: object, kernels: Sequence[StepSpec], counts: Sequence[int], n: int) -> None:
    """Raise InputError if the steps or their weights do not match the tasks or the robot."""
    if len(kernels) != len(counts):
        given = f"{len(kernels)} steps for {len(counts)} tasks"
        raise InputError(f"Priority: steps must be one step, or one per task; given: {given}")
    for kernel, rows in zip(kernels, counts, strict=True):
        sizes = {"task_scale": rows, "joint_scale": n, "direction": rows}
        for name, size in sizes.items():
            weights = getattr(kernel, name)
            if weights and len(weights) != size:
                what = f"weights (or a direction) that match {rows} rows and {n} joints"
                raise InputError(f"step must have {what}; given: {short_repr(step)}")


class PythonStep:
    """A step that runs in Python, between the kernel's kinematics and its limits.

    The object keeps the previous linearization, and the memories of the wrapped steps. It does not
    refer to the Servo that owns it, so that the two form no reference cycle.
    """

    def __init__(self, step: AnyStep, layout: CompiledTasks) -> None:
        self._step, self._layout = remembering(step), layout
        if not callable(self._step):
            raise InputError(f"step must be a step or a callable; given: {short_repr(step)}")
        several = isinstance(step, Priority | Augmented)
        self._ends = np.cumsum(layout.counts)[:-1] if several else None
        self._remembering = tuple(stateful_inside(self._step))
        # Intervals need trial steps, but a step with memory can be taken only once: for it, rows
        # inside their ranges are zero.
        ordered = isinstance(step, Priority) and not self._remembering
        self.intervals = Intervals() if ordered else None
        self._before: Linearization | None = None
        self._undo: tuple[Linearization | None, list[Any]] = (None, [])

    def __call__(self, J: Array, e: Array, q: Array) -> tuple[Any, ...]:
        """Return the step (n,), its λ², and the matrix of its `minimized_norm` (n²,), or None.

        In a hierarchy with ranges, the result also has the J (m, n) and e (m,) of `Intervals.step`.
        """
        self._undo = self.state
        try:
            if self.intervals is not None and self.intervals.J:
                dq, J, e = self.intervals.step(J, e, lambda J, e: self._taken(self._at(J, e, q))[0])
                lin = self._at(J, e, q)
                made = (dq, 0.0, priority_norm(self._split(lin)).reshape(-1), J, e)
            else:
                lin = self._at(J, e, q)
                dq, step = self._taken(lin)
                lambda2 = damping_used(step, lin)
                if isinstance(step, Priority):
                    norm: Array | None = priority_norm(self._split(lin))
                else:
                    norm = minimized_norm(step, lin, lambda2)
                flat = None if norm is None else np.ascontiguousarray(norm).reshape(-1)
                made = (dq, lambda2, flat)  # type: ignore[assignment]
        except BaseException:
            self.undo()
            raise
        self._before = lin
        return made

    def _at(self, J: Array, e: Array, q: Array) -> Linearization:
        """Return the linearization of all rows."""
        rows, effectors = self._layout.rows, self._layout.all_effectors
        return Linearization(J, e, before=self._before, rows=rows, q=q, effectors=effectors)

    def _taken(self, lin: Linearization) -> tuple[Array, Any]:
        """Return the step (n,) for all rows, and the object that computed it."""
        given: Any = lin if self._ends is None else self._split(lin)
        step: Any = self._step
        if isinstance(step, Augmented):  # one step for all rows, with the weights at this q
            step, given = step.at(given), lin
        made: Any = step(given)
        n = lin.J.shape[1]
        try:
            dq = numbers_of(made, "a step")
        except InputError:
            dq = np.array(np.nan)
        if dq.shape != (n,):
            raise InputError(
                f"a step must return finite numbers of shape ({n},); given: "
                f"{short_repr(made)} returned by {short_repr(self._step)}"
            )
        return dq, step

    def undo(self) -> None:
        """Restore the state before the last call, because its step was not taken."""
        self.state = self._undo

    def forget(self) -> None:
        """Discard the previous linearization and the memories of the wrapped steps."""
        self._before = None
        for one in self._remembering:
            one.reset()

    @property
    def state(self) -> tuple[Linearization | None, list[Any]]:
        """The previous linearization (None at the start) and the memories of the wrapped steps."""
        return self._before, [one.memory for one in self._remembering]

    @state.setter
    def state(self, state: tuple[Linearization | None, list[Any]]) -> None:
        self._before, memories = state
        for one, memory in zip(self._remembering, memories, strict=True):
            one.memory = memory

    def _split(self, lin: Linearization) -> Sequence[Linearization]:
        """Return one linearization per task; only the first one keeps its rows of `before`."""
        parts = zip(np.split(lin.J, self._ends), np.split(lin.e, self._ends), strict=True)  # type: ignore[arg-type]
        split = [
            Linearization(J, e, q=lin.q, effectors=effectors)
            for (J, e), effectors in zip(parts, self._layout.effectors, strict=True)
        ]
        if lin.before is not None:
            split[0] = replace(split[0], before=self._split(replace(lin.before, q=lin.q))[0])
        return split
