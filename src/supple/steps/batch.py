"""A step for a batch of Jacobians and task vectors, in the compiled code."""

from __future__ import annotations

import numpy as np

from supple import _core
from supple._runtime.environment import thread_count
from supple.errors import InputError
from supple.motion.linearization import Array, Linearization


def run_batch(
    kernel: _core.StepSpec, linearization: Linearization, threads: int | None = None
) -> tuple[Array, Array]:
    """Return q̇ (..., n) and lambda2 (...) of a step for a batch of linearizations.

    The batch runs on SIMD lanes and threads. Up to rounding, the results equal those of the step
    applied to each linearization separately; float32 input gives float32 output. Rules that use
    the previous step act as in a first step.

    Args:
        kernel: The step.
        linearization: The batch.
        threads: Maximum number of threads; all cores if None.

    Raises:
        InputError: Weights have the wrong size, or numbers are not finite or make the step
            overflow.
    """
    J, e = linearization.J, linearization.e
    m, n = J.shape[-2:]
    lead = J.shape[:-2]
    kernel = with_effectors(kernel, linearization.effectors, m)
    check_sizes(kernel, m, n)
    dq, lambda2, bad = _core.steps(
        kernel,
        J=np.ascontiguousarray(J, J.dtype).reshape(*lead, m * n),
        e=np.ascontiguousarray(e, J.dtype),
        history=np.broadcast_to(np.array([-1.0, 0.0], J.dtype), (*lead, 2)).copy(),
        rows=m,
        columns=n,
        threads=thread_count(threads),
    )
    if bad >= 0:
        where = ", ".join(str(int(i)) for i in np.unravel_index(bad, lead)) if lead else ""
        raise InputError(
            "J, e and the resulting step must be finite; "
            f"given: J[{where}] or e[{where}] with entries that are not finite or too large"
        )
    return dq, lambda2  # type: ignore[return-value]


def with_effectors(kernel: _core.StepSpec, effectors: tuple[int, ...], rows: int) -> _core.StepSpec:
    """Return a step with the end effectors of its rows, if it depends on them.

    Args:
        kernel: The step.
        effectors: The end effector of each row (m,); empty if unknown.
        rows: The number of rows m.

    Raises:
        InputError: The step needs the end effectors, which are unknown.
    """
    selective = kernel.method in (_core.Method.SELECTIVE, _core.Method.SELECTIVE_SOFT)
    groups = [clamp.group for clamp in kernel.error_clamps] + [kernel.group] * selective
    if 0 not in groups or kernel.effectors:
        return kernel
    return kernel.replace(effectors=effectors or threes(rows))


def threes(rows: int) -> tuple[int, ...]:
    """Return the end effector of each row if there are no tasks: three rows form an end effector.

    Raises:
        InputError: The number of rows is above three and not a multiple of three.
    """
    if rows > 3 and rows % 3:
        raise InputError(
            "the end effector of each row is unknown: give `group`, or `effectors` of the "
            f"linearization, or use tasks; given: {rows} rows without tasks"
        )
    return tuple(i // 3 for i in range(rows))


def check_sizes(kernel: _core.StepSpec, m: int, n: int) -> None:
    """Raise an error if the sizes of a step's weights do not match m rows and n joints."""
    for name, given, size in (
        ("task weights", kernel.task_scale, m),
        ("joint weights", kernel.joint_scale, n),
        ("Region: direction", kernel.direction, m),
    ):
        if given and len(given) != size:
            raise InputError(f"{name} must have {size} entries; given: {len(given)}")
