"""A step -> what a control loop does with it: the kernel's form where it has one, else Python's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from supple._core import ControlMode, Rule, StepSpec
from supple.errors import InputError, short_repr
from supple.motion import damping
from supple.motion.layout import CompiledTasks
from supple.motion.linearization import Array, Linearization, numbers_of
from supple.motion.redundancy.priority import Augmented, Priority
from supple.motion.redundancy.secondary import SecondaryKernel, TotalSpeed, secondary_velocity
from supple.motion.steps.filtering import NumericalFilter
from supple.motion.steps.stateful import StatefulStep
from supple.motion.steps.step import DLS, Step, damping_of, kernel_of

AnyStep: TypeAlias = Step | Augmented | Priority


IDLE = DLS(damping.Constant(0.0)).kernel


@dataclass(frozen=True)
class Controller:
    """What a control loop does with a step.

    Attributes:
        decision: How.
        steps: One of the kernel's, or one for each task.
        extra: Three numbers of a step with a criterion, or of a filter.
        pull: q (n,) -> v (n,), what a criterion asks for; None if there is none.
        own: A step in Python, where the kernel does not have it; None if it has.
        max_speed: The bound on ‖q̇‖ that the step promises, which limits must not break.
    """

    decision: ControlMode = ControlMode.STEP
    steps: tuple[StepSpec, ...] = (IDLE,)
    extra: tuple[float, float, float] = (0.0, 0.0, 0.0)
    pull: Callable[[Array], Array] | None = None
    own: PythonStep | None = None
    max_speed: float = math.inf


def make_controller(step: AnyStep, layout: CompiledTasks) -> Controller:
    """In the kernel where it has all of the step, else in Python."""
    given: object = step
    if isinstance(given, damping.KernelRule):
        raise InputError(f"step must be a step: DLS(rule) makes one; given: {short_repr(step)}")
    if isinstance(step, Augmented):
        step = step.as_weighted(layout.counts)
    if isinstance(step, NumericalFilter):
        return Controller(ControlMode.FILTERED, extra=(step.max_gain, float(step.printed), 0.0))
    try:
        plan = _in_kernel(step, layout)
    except InputError:  # a rule, or a step, of the user's own inside
        return Controller(own=PythonStep(step, layout))
    levels = plan.decision == ControlMode.PRIORITY
    _check(step, plan.steps, layout.counts if levels else (len(layout.rows),), layout.robot.dof)
    return plan


def _in_kernel(step: Step | Priority, layout: CompiledTasks) -> Controller:
    """The kernel's own form; InputError where it has none."""
    if isinstance(step, Priority):
        return Controller(ControlMode.PRIORITY, step.kernels(len(layout.tasks)))
    kernel = getattr(step, "kernel", None)
    if isinstance(kernel, SecondaryKernel):
        extra = (float(kernel.form.value), kernel.alpha1, kernel.max_speed)
        pull = secondary_velocity(step)  # type: ignore[arg-type]
        most = kernel.max_speed if isinstance(step, TotalSpeed) else math.inf
        return Controller(ControlMode.SECONDARY, (kernel.step,), extra, pull, max_speed=most)
    made = kernel_of(step)
    rule, parameters = made.damping.rule, made.damping.parameters
    bounded = rule in (Rule.OPTIMAL, Rule.OPTIMAL_NEWTON) and not made.joint_scale
    return Controller(steps=(made,), max_speed=parameters[0] if bounded else math.inf)


def _check(step: object, kernels: Sequence[StepSpec], counts: Sequence[int], n: int) -> None:
    """Refuse steps and weights for other tasks, or another robot."""
    if len(kernels) != len(counts):
        given = f"{len(kernels)} steps for {len(counts)} tasks"
        raise InputError(f"Priority: steps must be one for each task, or one; given: {given}")
    for kernel, rows in zip(kernels, counts, strict=True):
        sizes = {"task_scale": rows, "joint_scale": n, "direction": rows}
        for name, size in sizes.items():
            weights = getattr(kernel, name)
            if weights and len(weights) != size:
                what = f"weights, or a direction, for {rows} rows and {n} joints"
                raise InputError(f"step must have {what}; given: {short_repr(step)}")


class PythonStep:
    """A step in Python, between the kernel's kinematics and its limits.

    It remembers the linearization before, and does not know the Servo, which knows it: no cycle.
    """

    def __init__(self, step: AnyStep, layout: CompiledTasks) -> None:
        if not callable(step):
            raise InputError(f"step must be a step or a callable; given: {short_repr(step)}")
        self._step, self._rows = step, layout.rows
        self._ends = np.cumsum(layout.counts)[:-1] if isinstance(step, Priority) else None
        self._before: Linearization | None = None
        self._undo: tuple[Linearization | None, list[Any]] = (None, [])

    def __call__(self, J: Array, e: Array, q: Array) -> tuple[Array, float]:
        """Return the step (n,) and λ²."""
        self._undo = self._before, [one.memory for one in self._remembering()]
        try:
            lin = Linearization(J, e, before=self._before, rows=self._rows, q=q)
            given: Any = lin if self._ends is None else self._split(lin)
            made: Any = self._step(given)
            try:
                dq = numbers_of(made, "a step")
            except InputError:
                dq = np.array(np.nan)
            if dq.shape != q.shape:
                raise InputError(
                    f"a step must return {q.shape} finite numbers; given: {short_repr(made)} "
                    f"by {short_repr(self._step)}"
                )
            lambda2 = _damping(self._step, lin)
        except BaseException:
            self.undo()
            raise
        self._before = lin
        return dq, lambda2

    def undo(self) -> None:
        """Forget the last call, whose step was not taken."""
        self._before, memories = self._undo
        for one, memory in zip(self._remembering(), memories, strict=True):
            one.memory = memory

    def forget(self) -> None:
        """Begin anew."""
        self._before = None
        for one in self._remembering():
            one.reset()

    @property
    def before(self) -> Linearization | None:
        """The linearization of the step before; None at the start."""
        return self._before

    @before.setter
    def before(self, linearization: Linearization | None) -> None:
        self._before = linearization

    def _remembering(self) -> Iterator[StatefulStep[Any]]:
        """The steps inside that have a memory."""
        step: Any = self._step
        while step is not None:
            if isinstance(step, StatefulStep):
                yield step
            step = getattr(step, "step", None) or getattr(step, "inner", None)

    def _split(self, lin: Linearization) -> Sequence[Linearization]:
        """One linearization for each task; the first knows the one before."""
        parts = zip(np.split(lin.J, self._ends), np.split(lin.e, self._ends), strict=True)  # type: ignore[arg-type]
        split = [Linearization(J, e, q=lin.q) for J, e in parts]
        if lin.before is not None:
            split[0] = replace(split[0], before=self._split(replace(lin.before, q=lin.q))[0])
        return split


def _damping(step: object, lin: Linearization) -> float:
    """λ² of a step, for its limits: that of the damped step inside it, else none."""
    while callable(getattr(step, "step", None)) and not isinstance(step, StatefulStep):
        step = step.step  # type: ignore[attr-defined]
    rule = getattr(step, "rule", None)
    return damping_of(rule, lin) if callable(rule) else 0.0
