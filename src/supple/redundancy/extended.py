"""The extended Jacobian: the optimum of a criterion as rows of the task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from supple.criteria.criterion import Criterion
from supple.errors import InputError
from supple.kinematics import Robot
from supple.kinematics.configuration import integrate, to_kernel
from supple.kinematics.robot import check_robot
from supple.motion.linearization import EPSILON, RANK_FLOOR, Array, numbers_of
from supple.redundancy.secondary import check_callable
from supple.tasks import TaskLike, Weight, as_tasks
from supple.tasks.layout import CompiledTasks, compile_tasks
from supple.tasks.open_task import OpenTask

_DIFFERENCE_STEP = EPSILON ** (1 / 3)  # step of central differences [rad or m]


def extended_task(
    robot: Robot,
    tasks: TaskLike | Sequence[TaskLike],
    criterion: Criterion,
    *,
    weight: Weight = 1.0,
) -> OpenTask:
    """Return the task that keeps a criterion stationary while other tasks are performed.

        G(q) = Nᵀ∇h = 0          N (n, n - m): a basis of the null space of J
        J_e = [J; ∂G/∂q],        square;  ∂G/∂q = Nᵀ(∇²h - Σ_k μ_k ∇²x_k),  μ = (J⁺)ᵀ∇h

    With this task, whose target is zero, and the given tasks, the robot follows a stationary point
    of h among the configurations that perform the tasks. q is then a function of the task: if the
    path of the task is closed, the path of the joints is closed too. The motion starts from the
    nearest stationary point, which may be a maximum; to start from a minimum, first use `NullSpace`
    with the same criterion.

    J_e is singular where J is singular, and also where a stationary point of h is not strict, for
    example where a minimum and a maximum of h merge (an algorithmic singularity). There is then no
    stationary point near q, and only a damped step stays bounded. Where J loses rank, N jumps.

    Second derivatives are central differences of J and ∇h: the criterion runs 2 n + 1 times per
    step.

    Args:
        robot: The robot that performs the tasks.
        tasks: The tasks whose redundancy is resolved, with fewer rows than the robot has joints.
        criterion: Function that returns a differentiable gradient of h, q -> ∇h (n,).
        weight: One weight for all rows, or one per row.

    Raises:
        InputError: The tasks leave no joint free.

    References:
        Baillieul 1985; Buss 2009, section 4.
    """
    check_robot(robot)
    layout = compile_tasks(robot, as_tasks(tasks))
    free = robot.dof - len(layout.rows)
    if free < 1:
        raise InputError(
            f"the tasks must have fewer rows than the robot has joints, {robot.dof}; "
            f"given: {len(layout.rows)}"
        )
    stationarity = _Stationarity(layout, criterion)
    names = [f"stationarity {i}" for i in range(free)]
    return OpenTask(stationarity, rows=names, weight=weight)


@dataclass(frozen=True, eq=False)
class _Stationarity:
    """A function of q (n,): G (r,), the gradient of h in the null space, and ∂G/∂q (r, n)."""

    layout: CompiledTasks
    criterion: Criterion

    def __post_init__(self) -> None:
        check_callable(self, "criterion", self.criterion)

    def __call__(self, q: Array) -> tuple[Array, Array]:
        robot = self.layout.robot
        n, steps = robot.nv, _DIFFERENCE_STEP * np.maximum(1.0, np.abs(to_kernel(robot, q)))
        both = np.diag(steps), -np.diag(steps)
        around = np.concatenate([q[None], *(integrate(robot, q, each) for each in both)])
        J = np.asarray(self.layout.jacobian(around), dtype=np.float64)
        gradient = np.array([self._gradient(one) for one in around])
        U, sigma, Vt = np.linalg.svd(J[0])
        N = _oriented(Vt[J.shape[1] :].T)
        some = sigma > RANK_FLOOR * sigma[0]
        multipliers = U[:, some] @ (Vt[: len(sigma)][some] @ gradient[0] / sigma[some])
        # The gradient of the Lagrangian h - μᵀx at constant μ.
        lagrangian = gradient - np.einsum("kmn,m->kn", J, multipliers)
        slopes = (lagrangian[1 : n + 1] - lagrangian[n + 1 :]) / (2 * steps)[:, None]
        return N.T @ gradient[0], N.T @ slopes.T

    def _gradient(self, q: Array) -> Array:
        gradient = numbers_of(self.criterion(q.copy()), "the gradient of a criterion")
        n = self.layout.robot.nv
        if gradient.shape != (n,):
            raise InputError(
                f"a criterion must return a gradient of shape {(n,)}; given: {gradient.shape}"
            )
        return gradient


def _oriented(N: Array) -> Array:
    """Return the orthonormal basis of the space of N (n, r) that is nearest to fixed directions.

    The basis that an SVD returns has arbitrary signs and rotations; this one is continuous in q.
    """
    n, r = N.shape
    fixed = np.cos(np.outer(np.arange(1, n + 1), np.arange(1, r + 1)))
    U, _, Vt = np.linalg.svd(N.T @ fixed)
    return np.asarray(N @ U @ Vt)
