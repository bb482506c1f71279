"""Solutions in GPU memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from supple.control.status_array import StatusArray
from supple.gpu.arrays import GpuArray
from supple.ik.solution_arrays import BatchSolution
from supple.ik.status import SolveStatus
from supple.kinematics import Robot
from supple.tasks import Task


@dataclass(frozen=True, eq=False)
class GpuSolution:
    """Solutions of a batch of targets, one per target, in arrays that stay in GPU memory.

    `solve` returns before the GPU has finished: the arrays are valid once the stream has computed
    them. CuPy, PyTorch and JAX wait for the stream by themselves; `numpy()` waits and returns a
    copy.

    Attributes:
        q: Joint coordinates (..., n) [rad or m], inside the limits.
        status: Status of each solution (...), int8: the values of `SolveStatus`.
        position_error: Largest position error of all tasks (...) [m]; infinite if not solved.
        rotation_error: Largest rotation error of all tasks (...) [rad]; infinite if not solved.
        iterations: Iterations of the search (...).
        restarts: Number of seeds after the first (...), including those that ran in parallel.
        robot: The robot of the call.
        q0: A copy of the seeds of the call, (n,) or (..., n) [rad or m]; None without any.
        tasks: The tasks of the call.
    """

    q: GpuArray
    status: GpuArray
    position_error: GpuArray
    rotation_error: GpuArray
    iterations: GpuArray
    restarts: GpuArray
    robot: Robot = field(kw_only=True)
    q0: GpuArray | None = field(kw_only=True)
    tasks: tuple[Task, ...] = field(kw_only=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """The batch axes."""
        return self.status.shape

    def numpy(self) -> BatchSolution:
        """Return a copy in host memory, with `moved` and `same_branch`; waits for the stream."""
        return BatchSolution(
            self.q.numpy(),
            StatusArray.of(SolveStatus, self.status.numpy()),
            self.position_error.numpy(),
            self.rotation_error.numpy(),
            self.iterations.numpy(),
            self.restarts.numpy(),
            robot=self.robot,
            q0=None if self.q0 is None else self.q0.numpy(),
            tasks=self.tasks,
        )

    def __str__(self) -> str:
        return f"{math.prod(self.shape)} targets, solved in GPU memory"
