"""A step for a whole batch of Jacobians and task vectors, in the compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple import _core
from supple.errors import InputError
from supple.kinematics.arrays import real_numbers
from supple.kinematics.environment import thread_count
from supple.motion.step import Step, kernel_of

FloatArray = NDArray[np.floating[Any]]


def steps(
    step: Step, J: ArrayLike, e: ArrayLike, *, threads: int | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return q̇ (..., n) and lambda2 (...) of a step for a batch of J (..., m, n) and e (..., m).

    Runs in the kernel, on SIMD lanes and threads; the same numbers as `step` called one by one, to
    rounding. float32 in gives float32 out. Rules that compare with the step before find none.

    Args:
        step: One that the kernel has: no function of yours, no step with a criterion or a memory.
        J: Task Jacobians.
        e: Task vectors: errors or velocities, in the units of J's rows.
        threads: How many to use at most; all cores if left out.

    Raises:
        InputError: shapes that do not match, numbers that are not finite, or a step or a rule that
            the kernel does not have.
    """
    kernel = kernel_of(step)
    expected = "J must be real, (..., m, n), and e (..., m)"
    jacobians, errors = real_numbers(J, expected), real_numbers(e, expected)
    if jacobians.ndim < 2 or jacobians.shape[:-1] != errors.shape:
        raise InputError(
            f"{expected}; given: {jacobians.dtype} {jacobians.shape} and "
            f"{errors.dtype} {errors.shape}"
        )
    single = jacobians.dtype == np.float32 and errors.dtype == np.float32
    dtype = np.float32 if single else np.float64
    m, n = jacobians.shape[-2:]
    lead = jacobians.shape[:-2]
    if m == 0 or n == 0:
        raise InputError(f"J must have rows and columns; given: {jacobians.shape}")
    for name, given, size in (
        ("the rows' weights", kernel.task_scale, m),
        ("the joints' weights", kernel.joint_scale, n),
        ("Region: direction", kernel.direction, m),
    ):
        if given and len(given) != size:
            raise InputError(f"{name} must have {size} entries; given: {len(given)}")
    dq, lambda2, bad = _core.steps(
        kernel,
        J=np.ascontiguousarray(jacobians, dtype).reshape(*lead, m * n),
        e=np.ascontiguousarray(errors, dtype),
        history=np.broadcast_to(np.array([-1.0, 0.0], dtype), (*lead, 2)).copy(),
        rows=m,
        columns=n,
        threads=thread_count(threads),
    )
    if bad >= 0:
        where = ", ".join(str(int(i)) for i in np.unravel_index(bad, lead)) if lead else ""
        raise InputError(
            "J and e must be finite, and such that the step is; "
            f"given: J[{where}] or e[{where}] is not"
        )
    return dq, lambda2
