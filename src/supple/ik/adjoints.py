"""Kinematics, steps and solutions on NumPy arrays, and their adjoints, for supple.torch and .jax.
x_bar is the gradient of a loss with respect to x and has the shape of x. Tuned constants are
explained in docs/constants.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from supple import _core
from supple._arrays.checks import FloatArray, number
from supple._core import TargetKind
from supple._runtime.environment import thread_count
from supple.errors import InputError, short_repr
from supple.ik.solver import Solver
from supple.kinematics import Robot
from supple.kinematics.configuration import configuration_gradient, velocity_gradient
from supple.kinematics.loops import refuse_loops
from supple.kinematics.robot import FrameNames, check_robot
from supple.tasks.inputs import kind_of_targets
from supple.tasks.rows import TaskRows

DAMPING = 1e-5  # λ of the gradient of a solution, as a fraction of the norm of the Jacobian
AT_LIMIT = 1e-6  # distance from a limit up to which a joint counts as being at the limit [rad, m]


def check_solver(given: object) -> None:
    """Raise InputError unless the argument is a Solver."""
    if not isinstance(given, Solver):
        raise InputError(f"solver must be a Solver; given: {short_repr(given)}")


def check_damping(given: float) -> float:
    """Return the relative damping of the gradient of a solution, after checking it."""
    return number(given, "damping", above=0, most=1)


def check_lambda2(given: float) -> float:
    """Return the damping of a step, after checking it."""
    return number(given, "lambda2", above=0)


def _rows(array: Any, width: int) -> FloatArray:
    return np.ascontiguousarray(array, np.float64).reshape(-1, width)


@dataclass(frozen=True)
class DifferentiableFrames:
    """Frames of a robot; their poses and Jacobians can be differentiated.

    Attributes:
        robot: The robot.
        frame: Name of a frame, or names; None for the end effectors.
    """

    robot: Robot
    frame: str | tuple[str, ...] | None = None

    @staticmethod
    def of(robot: Robot, frame: FrameNames) -> DifferentiableFrames:
        """Return the frames, after checking the arguments.

        Raises:
            InputError: `robot` is not a robot.
            UnknownNameError: The robot has no such frame.
        """
        check_robot(robot)
        made = DifferentiableFrames(
            robot, frame if frame is None or isinstance(frame, str) else tuple(frame)
        )
        robot._chain(made.frame)
        return made

    @cached_property
    def axes(self) -> tuple[int, ...]:
        """The shape of the frame axis of results: (k,) for several frames, () for one."""
        axes: tuple[int, ...] = self.chain.frame_axes
        return axes

    @property
    def count(self) -> int:
        """The number of frames."""
        return math.prod(self.axes)

    @property
    def chain(self) -> _core.Chain:
        """The kernel's chain of the frames."""
        return self.robot._chain(self.frame)

    def fk(self, q: FloatArray) -> FloatArray:
        """Return poses (..., 4, 4) or (..., k, 4, 4)."""
        poses: FloatArray = self._in_double(self.robot.fk, q)
        return poses

    def jacobian(self, q: FloatArray) -> FloatArray:
        """Return Jacobians (..., 6, n) or (..., k, 6, n)."""
        J: FloatArray = self._in_double(self.robot.jacobian, q)
        return J

    def _in_double(self, function: Any, q: Any) -> Any:
        """Return the value of a function at q, computed in float64 if q is in host memory."""
        if not isinstance(q, np.ndarray):  # in GPU memory
            return function(q, self.frame)
        return function(q.astype(np.float64, copy=False), self.frame).astype(q.dtype, copy=False)

    def fk_adjoint(self, q: FloatArray, T_bar: FloatArray) -> FloatArray:
        """Return q_bar (..., nq) from the gradient with respect to the poses."""
        return self._kinematics(q, _rows(T_bar, 16 * self.count), None)

    def jacobian_adjoint(self, q: FloatArray, J_bar: FloatArray) -> FloatArray:
        """Return q_bar (..., nq) from the gradient with respect to the Jacobians."""
        return self._kinematics(q, None, _rows(J_bar, 6 * self.count * self.robot.nv))

    def _kinematics(self, q: FloatArray, T_bar: Any, J_bar: Any) -> FloatArray:
        rows = _rows(q, self.robot.nq)
        found = _core.kinematics_adjoint(
            self.chain, rows, T_bar, J_bar, self.count, thread_count(None)
        )
        return self._like(q, configuration_gradient(self.robot, rows, found))

    @staticmethod
    def _like(array: FloatArray, result: FloatArray) -> FloatArray:
        return result.reshape(array.shape).astype(array.dtype, copy=False)

    def step(self, q: FloatArray, twist: FloatArray, lambda2: float) -> FloatArray:
        """Return the damped step q̇ (..., n) for twists (..., 6) or (..., k, 6)."""
        qd: FloatArray = self._step(q, twist, None, lambda2)[0]
        return qd.reshape(*q.shape[:-1], self.robot.nv).astype(q.dtype, copy=False)

    def step_adjoint(
        self, q: FloatArray, twist: FloatArray, qd_bar: FloatArray, lambda2: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return q_bar and twist_bar from the gradient with respect to the step."""
        v_bar, twist_bar = self._step(q, twist, _rows(qd_bar, self.robot.nv), lambda2)
        q_bar = configuration_gradient(self.robot, _rows(q, self.robot.nq), v_bar)
        return self._like(q, q_bar), self._like(twist, twist_bar)

    def _step(self, q: Any, twist: Any, qd_bar: Any, lambda2: float) -> Any:
        x = _rows(twist, 6 * self.count)
        return _core.damped_step(
            self.chain, _rows(q, self.robot.nq), x, qd_bar, lambda2, self.count, thread_count(None)
        )


def _is_plain(rows: TaskRows, picked: tuple[int, ...]) -> bool:
    """Return whether rows belong to a frame in the world, without weights and tolerances."""
    return (
        rows.has_pose
        and rows.picked == picked
        and set(rows.weights) == {1.0}
        and rows.base is None
        and rows.axes is None
        and rows.about < 0
        and not rows.alternate
        and not rows.lower
    )


@dataclass(frozen=True)
class DifferentiableSolver:
    """A solver whose solutions can be differentiated.

    Attributes:
        solver: The solver.
        frames: The frames of its tasks.
        positions: Whether the targets are positions (..., 3), not poses (..., 4, 4).
        axes: Shape of the task axis of a target: (k,) for several tasks, () for one.
    """

    solver: Solver
    frames: DifferentiableFrames
    positions: bool
    axes: tuple[int, ...]

    @staticmethod
    def of(solver: Solver) -> DifferentiableSolver:
        """Return the solver, after checking that its solutions can be differentiated.

        Raises:
            InputError: The tasks are not poses or positions of frames in the world.
        """
        check_solver(solver)
        refuse_loops(solver.robot, "a gradient of solutions")
        tasks = solver.tasks
        rows = [task.on(solver.robot) for task in tasks]
        kinds = {kind_of_targets(task) for task in tasks}
        positions = kinds == {TargetKind.POSITION}
        whole = tuple(range(3 if positions else 6))
        same = positions or kinds == {TargetKind.POSE}
        if not same or not all(_is_plain(one, whole) for one in rows):
            raise InputError(
                "gradients are for tasks that are all poses, or all positions, of frames in the "
                f"world, without weights and tolerances; given: {list(tasks)}"
            )
        frames = DifferentiableFrames.of(solver.robot, tuple(one.frame for one in rows))
        stacked = (len(tasks),) if not solver._single and len(tasks) > 1 else ()
        return DifferentiableSolver(solver, frames, positions, stacked)

    @property
    def target_shape(self) -> tuple[int, ...]:
        """The shape of one target."""
        return (*self.axes, *((3,) if self.positions else (4, 4)))

    @property
    def joint_scale(self) -> FloatArray | None:
        """Scales of the coordinates q / joint_scale, in which solutions move least; or None."""
        problem = self.solver._problem
        return None if problem is None else problem.joint_scale

    def solve(self, target: FloatArray, q0: FloatArray | None) -> tuple[FloatArray, Any]:
        """Return configurations (..., nq) and whether they meet their targets (...)."""
        alone = target.ndim == len(self.target_shape)
        solve: Any = self.solver if alone else self.solver.batch
        found = solve(np.asarray(target, np.float64), q0=q0)
        return found.q.astype(target.dtype, copy=False), np.asarray(found.success)

    def adjoint(
        self, q: FloatArray, success: Any, q_bar: FloatArray, damping: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return the gradients with respect to the targets and to q0."""
        robot, count = self.frames.robot, self.frames.count
        at = _rows(q, robot.nq)
        targets, q0_bar = _core.solution_adjoint(
            self.frames.chain,
            at,
            np.ascontiguousarray(success, np.bool_).reshape(-1),
            velocity_gradient(robot, at, _rows(q_bar, robot.nq)),
            np.ascontiguousarray(robot.lower),
            np.ascontiguousarray(robot.upper),
            self.joint_scale,
            positions=self.positions,
            damping=damping,
            slack=AT_LIMIT,
            frames=count,
            threads=thread_count(self.solver._settings.threads),
        )
        poses = targets.reshape(*q.shape[:-1], *self.axes, 4, 4)
        bar = poses[..., :3, 3] if self.positions else poses
        seeds = configuration_gradient(robot, at, q0_bar).reshape(q.shape)
        return bar.astype(q.dtype, copy=False), seeds.astype(q.dtype, copy=False)
