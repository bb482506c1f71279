"""Reports as text: the singular directions of a task, and the effect of a step in each."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from supple.control.wrapped import damping_inside
from supple.damping import DampingRule
from supple.errors import InputError, known_arguments, short_repr
from supple.motion.direction_text import direction_text
from supple.motion.limits import Mode
from supple.motion.linearization import Array, Linearization, numbers_of
from supple.motion.readable import name_of
from supple.redundancy.leakage import null_space_leakage
from supple.redundancy.priority import Augmented, Priority
from supple.redundancy.secondary import WITH_CRITERION, added
from supple.steps.stateful import StatefulStep
from supple.steps.step import Step, damping_of

_ROUNDING = 1e-12  # fraction of the task below which a number is shown as zero
_NEGLIGIBLE_SHARE = 1e-6  # fraction of the task below which a component counts as zero


@dataclass(frozen=True)
class Direction:
    """A singular direction of the task.

    Attributes:
        words: The direction as text, for example "translation along world x".
        sigma: Singular value of the direction: the task motion per unit of joint motion.
        commanded: The component of the task vector e along the direction.
        gain: Joint motion per unit of `commanded`: σ/(σ² + λ²) for damped least squares. None
            without a step, or for a step without damping if `commanded` is zero.
        missed: The fraction of `commanded` that the step does not perform: λ²/(σ² + λ²) for damped
            least squares, 1 where the direction is lost. Above 1, the step moves against the
            command, and below 0 farther than the command. None where `gain` is None.
    """

    words: str
    sigma: float
    commanded: float
    gain: float | None = None
    missed: float | None = None

    @property
    def missed_text(self) -> str:
        """The missed fraction as a percentage or, outside 0 to 100 %, as a word.

        The word is "against" if the step moves against the command, and "beyond" if it moves
        farther than the command. The text is empty if the fraction is None.
        """
        if self.missed is None:
            return ""
        rounded = round(self.missed, 3) + 0.0
        if 0 <= rounded <= 1:
            return f"{rounded:.1%}"
        return "against" if rounded > 1 else "beyond"


@dataclass(frozen=True)
class Held:
    """A joint that is held by one of its limits.

    Attributes:
        joint: Name of the joint.
        limit: "position", "speed", "acceleration" or "jerk".
        end: 1 for an upper limit, -1 for a lower one.
        value: The limit [rad or m, per s, s² or s³]; negative for a lower limit of speed,
            acceleration or jerk.
        exceeds: Ratio of the joint's acceleration in this step to its limit, if above 1 (a joint
            that could not stop in time); otherwise 1.
    """

    joint: str
    limit: Literal["position", "speed", "acceleration", "jerk"]
    end: int
    value: float
    exceeds: float = 1.0

    def __str__(self) -> str:
        which = "upper" if self.end > 0 else "lower"
        text = f"{self.joint} is held by its {which} limit of {self.limit}, {self.value:.4g}"
        if self.exceeds > 1:
            text += f", at {self.exceeds:.3g} times its limit of acceleration"
        return text


@dataclass(frozen=True)
class Report:
    """The result of `explain`; `print` it for a readable table.

    Attributes:
        directions: All singular directions, the largest singular value first.
        rank: Number of directions whose singular value is not zero to working precision.
        rows: Number of rows of the task; at most `columns` of them can be followed exactly.
        columns: Number of joints.
        manipulability: The product of the singular values.
        condition: The largest singular value divided by the smallest; infinite at a singularity.
        lost: The directions whose singular value is zero to working precision, as text.
        step: Name of the step; empty without a step.
        lambda2: The damping; None if the step has none.
        reason: The reason for the damping rule's value; empty without a rule.
        speed: The norm of the step, ‖q̇‖ [rad/s and m/s mixed]; None without a step.
        null_space_leakage: Task motion per unit of a null-space motion, ‖J q̇‖/‖q̇‖; None without
            such a motion.
        missed: The fraction of the task that a step of a `Servo` did not perform, ‖e - J q̇‖/‖e‖;
            zero if e is zero, above 1 if the joints move against the task, None if no step was
            taken.
        held: The joints held by limits in a step of a `Servo`.
        max_norm: The bound on the norm of all speeds, if it restricted a step of a `Servo`.
        mode: The mode of the limits that changed a step of a `Servo`, "exact", "scale" or "halt";
            None if no limit acted.
        factor: The factor by which mode "scale" slowed all joints of a `Servo`; None if this mode
            did not act, if some joints could not slow down by the factor, or if the unlimited step
            is unknown (a step with a memory).
        damped: The fraction of the command of a `Servo` that damping removes, and the direction of
            this part as text; None if damping removes less than 0.1 %.
        beyond: The fraction of the command of a `Servo` that points beyond the end of the reach.
        constraints: Sentences about the constraints that acted on a step of a `Servo`.
        tasks: The tasks of a `Servo` that a step missed by more than 0.1 %, as text with the missed
            fractions of their commands; empty for a single task.
    """

    directions: tuple[Direction, ...]
    rank: int
    rows: int
    columns: int
    manipulability: float
    condition: float
    lost: tuple[str, ...]
    step: str = ""
    lambda2: float | None = None
    reason: str = ""
    speed: float | None = None
    null_space_leakage: float | None = None
    missed: float | None = None
    held: tuple[Held, ...] = ()
    max_norm: float | None = None
    mode: Mode | None = None
    factor: float | None = None
    damped: tuple[float, str] | None = None
    beyond: float = 0.0
    constraints: tuple[str, ...] = ()
    tasks: tuple[tuple[str, float], ...] = ()

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def _repr_html_(self) -> str:
        from supple.plot.html import report_html

        return report_html(self)


@known_arguments()
def explain(
    linearization: Linearization, step: Step | None = None, *, null: ArrayLike | None = None
) -> Report:
    """Return a report on the singular directions of a task, and the effect of a step in each.

    Args:
        linearization: The task at one configuration.
        step: The step to explain; None to explain the linearization alone.
        null: A null-space motion (n,) whose leakage into the task is reported; if None, the motion
            that the criterion of the step adds, if the step has one.
    """
    lin = linearization
    _check(lin)
    if step is not None and not callable(step):
        raise InputError(f"step must be a step or None; given: {short_repr(step)}")
    if null is None and isinstance(step, WITH_CRITERION):
        null = added(step, lin)
    dq = None if step is None else numbers_of(step(lin), "the result of the step")
    rule, seen = (None, lin) if step is None else damping_inside(step, lin)
    lambda2 = None if rule is None else damping_of(rule, seen)
    return replace(
        _report(lin, lambda2, lambda2, dq),
        step="" if step is None else name_of(step),
        reason="" if rule is None or lambda2 is None else _reason(rule, seen, lambda2),
        speed=None if dq is None else float(np.linalg.norm(dq)),
        null_space_leakage=None if null is None else null_space_leakage(lin, null),
    )


def explain_taken(
    linearization: Linearization,
    step: object,
    dq: Array,
    *,
    speed: float,
    chosen_lambda2: float,
    applied_lambda2: float,
    held: tuple[Held, ...],
    max_norm: float | None,
    mode: Mode | None,
    factor: float | None,
    constraints: tuple[str, ...] = (),
) -> Report:
    """Explain a step that was taken, with the limits applied.

    Args:
        linearization: The input of the step.
        step: The step, from which the reason for its damping is derived.
        dq: The resulting step (n,), in the units of J and e.
        speed: The norm of the joint speeds.
        chosen_lambda2: λ² that the step chose, before the limits.
        applied_lambda2: λ² after the limits were applied.
        held: The joints held by limits.
        max_norm: The bound on the norm of all speeds, if it was active.
        mode: The mode of the limits, if they changed the step.
        factor: The factor of mode "scale", if it is known.
        constraints: Sentences about the constraints that acted.
    """
    lin = linearization
    limited = bool(held or constraints) or max_norm is not None or applied_lambda2 != chosen_lambda2
    rule, seen = damping_inside(step, lin)
    damped = rule is not None or applied_lambda2 > 0
    reason = "" if rule is None else _reason_taken(rule, seen, chosen_lambda2)
    if abs(applied_lambda2 - chosen_lambda2) > _NEGLIGIBLE_SHARE**2 * float(lin.sigma[0]) ** 2:
        raised = f"limits raise lambda2 from {chosen_lambda2:.3g} to {applied_lambda2:.3g}"
        lowered = f"limits need no more than lambda2 = {applied_lambda2:.3g}"
        more = raised if applied_lambda2 > chosen_lambda2 else lowered
        reason = f"{reason}; {more}" if reason else more
    commanded = float(np.linalg.norm(lin.e))
    left = float(np.linalg.norm(lin.e - lin.J @ dq))
    null = added(step, lin) if isinstance(step, WITH_CRITERION) else None
    return replace(
        _report(lin, applied_lambda2 if damped else None, None if limited else applied_lambda2, dq),
        step=name_of(step),
        reason=reason,
        speed=speed,
        null_space_leakage=None if null is None else null_space_leakage(lin, null),
        missed=left / commanded if commanded > 0 and left > _ROUNDING * commanded else 0.0,
        held=held,
        max_norm=max_norm,
        mode=mode,
        factor=factor,
        constraints=constraints,
    )


def unlimited_step(step: object, lin: Linearization, chosen_lambda2: float) -> Array | None:
    """Return the step (n,) before limits, or None if it depends on more than a linearization.

    Args:
        step: The step.
        lin: The linearization that the step was computed from.
        chosen_lambda2: λ² of that step.
    """
    if isinstance(step, StatefulStep | Priority | Augmented) or not callable(step):
        return None
    rule, seen = damping_inside(step, lin)
    if rule is not None and not _same_damping(damping_of(rule, seen), chosen_lambda2):
        return None
    return numbers_of(step(lin), "the result of the step")


def _report(
    lin: Linearization, lambda2: float | None, plain: float | None, dq: Array | None
) -> Report:
    """Return the report of a linearization and of a step dq (n,).

    `plain` is λ² if the step is plain damped least squares, otherwise None.
    """
    m, n = lin.J.shape
    basis = _lost_directions(lin)
    return Report(
        directions=tuple(_direction(lin, i, basis, plain, dq) for i in range(len(lin.sigma))),
        rank=lin.rank,
        rows=m,
        columns=n,
        manipulability=lin.manipulability,
        condition=lin.condition,
        lost=tuple(direction_text(u, lin.rows) for u in basis.T),
        lambda2=lambda2,
    )


def _check(given: object) -> None:
    if not isinstance(given, Linearization):
        raise InputError(f"linearization must be a Linearization; given: {short_repr(given)}")
    given.single()


def _lost_directions(lin: Linearization) -> Array:
    """Return unit vectors (m, lost) that span the lost directions, each with few nonzero rows.

    If several directions are lost, any linear combination of them is a singular vector.
    Elimination with pivoting finds vectors with few entries: for a planar arm z, rx and ry, not
    three mixtures.
    """
    A = lin.U[:, lin.rank :].T.copy()
    for i in range(len(A)):
        row, column = divmod(int(np.argmax(np.abs(A[i:]))), A.shape[1])
        A[[i, i + row]] = A[[i + row, i]]
        A[i] /= A[i, column]
        others = np.arange(len(A)) != i
        A[others] -= np.outer(A[others, column], A[i])
    return np.asarray((A / np.linalg.norm(A, axis=1, keepdims=True)).T)


def _direction(
    lin: Linearization, i: int, basis: Array, lambda2: float | None, dq: Array | None
) -> Direction:
    u = basis[:, i - lin.rank] if i >= lin.rank else lin.U[:, i]
    # The sign of a singular vector is arbitrary; the text makes the largest entry positive.
    way = 1.0 if u[np.argmax(np.abs(u))] >= 0 else -1.0
    sigma, commanded = float(lin.sigma[i]), way * float(u @ lin.e)
    gain: float | None = None
    missed: float | None = None
    if i >= lin.rank and dq is not None:
        gain, missed = 0.0, 1.0
    elif dq is not None and abs(commanded) > _NEGLIGIBLE_SHARE * np.linalg.norm(lin.e):
        gain = way * float(lin.V[:, i] @ dq) / commanded
        missed = 1 - sigma * gain
        missed = missed if abs(missed * commanded) > _ROUNDING * np.linalg.norm(lin.e) else 0.0
    elif lambda2 is not None:
        gain, missed = sigma / (sigma**2 + lambda2), lambda2 / (sigma**2 + lambda2)
    return Direction(direction_text(u, lin.rows), sigma, commanded, gain, missed)


def _reason(rule: DampingRule, lin: Linearization, lambda2: float) -> str:
    said = getattr(rule, "reason", None)
    return str(said(lin)) if callable(said) else f"{name_of(rule)}: lambda2 = {lambda2:.3g}"


def _reason_taken(rule: DampingRule, lin: Linearization, chosen_lambda2: float) -> str:
    """Return the rule's reason for the chosen λ², or only λ² if the rule alone gives another value.

    This happens if the rule compares with previous steps, or if tasks are weighted.
    """
    if not _same_damping(damping_of(rule, lin), chosen_lambda2):
        return f"{name_of(rule)}: lambda2 = {chosen_lambda2:.3g}"
    return _reason(rule, lin, chosen_lambda2)


def _same_damping(lambda2: float, chosen_lambda2: float) -> bool:
    return math.isclose(lambda2, chosen_lambda2, rel_tol=1e-6, abs_tol=1e-15)


def _lines(report: Report) -> list[str]:
    sizes = f"{report.rows} rows, {report.columns} joints, rank {report.rank}"
    condition = "infinite" if math.isinf(report.condition) else f"{report.condition:.3g}"
    lines = [f"{sizes}; manipulability {report.manipulability:.3g}, condition {condition}"]
    lines += [f"lost: {words}" for words in report.lost]
    if not report.lost:
        weakest = report.directions[-1]
        ratio = weakest.sigma / report.directions[0].sigma
        share = f"{ratio:.2g} of the largest"
        lines.append(f"weakest: {weakest.words} (sigma {weakest.sigma:.3g}, {share})")
    if report.rows > report.columns:
        more = report.rows - report.columns
        lines.append(f"{more} more rows than joints: that many directions are always lost")
    if report.reason:
        lines.append(report.reason)
    if report.damped is not None:
        taken, words = report.damped
        lines.append(f"damping takes {taken:.1%} of the command: {words}")
    if report.beyond > 0:
        lines.append(f"{report.beyond:.1%} of the command is beyond the end of the reach")
    lines += report.constraints
    lines += [str(joint) for joint in report.held]
    if report.mode in ("scale", "halt"):
        by = "" if report.factor is None else f" to {report.factor:.1%} of the unlimited step"
        kept = "all joints are" if report.factor is not None else "the joints are"
        lines.append(f'{kept} slowed down{by} (mode="{report.mode}")')
    if report.max_norm is not None:
        lines.append(f"the norm of all joint speeds is held by its limit, {report.max_norm:.4g}")
    if report.speed is not None:
        lines.append(f"{report.step}: joint speed {report.speed:.3g}{_missed_text(report.missed)}")
    lines += [f"  {words} misses {missed:.1%} of its command" for words, missed in report.tasks]
    largest = max(abs(d.commanded) for d in report.directions)
    lines.append(f"  {'sigma':>9} {'commanded':>9} {'gain':>9} {'missed':>7}  direction")
    for d in report.directions:
        gain = "-" if d.gain is None else f"{d.gain:.3g}"
        missed = d.missed_text or "-"
        commanded = d.commanded if abs(d.commanded) > _ROUNDING * largest else 0.0
        lines.append(f"  {d.sigma:9.3g} {commanded:9.3g} {gain:>9} {missed:>7}  {d.words}")
    if report.null_space_leakage is not None:
        lines.append(f"null-space motion leaks {report.null_space_leakage:.3g} into the task")
    return lines


def _missed_text(missed: float | None) -> str:
    """Return the missed fraction of the whole task, as the end of a sentence."""
    if missed is None:
        return ""
    if round(missed, 3) <= 1:
        return f", {missed:.1%} of the task missed"
    return f", off by {missed:.3g} times the task"
