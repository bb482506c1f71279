"""Targets along a path: given targets, interpolated in between, or a function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple._arrays.checks import number, real_numbers
from supple.errors import InputError, short_repr
from supple.ik.problem import CompiledProblem
from supple.ik.seeds import robot_size
from supple.kinematics.rotation import log
from supple.motion.linearization import Array
from supple.tasks.inputs import per_task

PATH_INTERVALS = 200  # number of intervals of a path given by a function, before refinement


@dataclass(frozen=True, eq=False)
class PathTargets:
    """Targets of tasks along a path, in the kernel's layout.

    Attributes:
        problem: The tasks.
        x: Parameters (N,): path lengths if the path is a function, else indices of the given
            targets, without targets that repeat the previous one.
        numbers: The targets at these parameters (N, k).
        place: Index among these parameters (G,) of each given target.
        function: Function from a parameter to the target (k,); None to interpolate `numbers`.
    """

    problem: CompiledProblem
    x: Array
    numbers: Array
    place: NDArray[np.intp]
    function: Callable[[float], Array] | None = field(default=None, repr=False)

    @staticmethod
    def of(
        problem: CompiledProblem, given: Any, single: bool, length: float | None, threads: int
    ) -> PathTargets:
        """Convert the path argument of `plan_path` to targets."""
        tasks = problem.layout.tasks

        def convert(target: Any) -> Array:
            return problem.targets(per_task(target, single, tasks), threads)

        if callable(given):
            if length is None:
                raise InputError("a path that is a function needs length=; given: None")
            end = number(length, "length", above=0)
            x = np.linspace(0, end, PATH_INTERVALS + 1)
            targets = np.stack([convert(given(float(each))) for each in x])
            every = np.arange(len(x))
            made = PathTargets(problem, x, targets, every, lambda at: convert(given(at)))
        else:
            if length is not None:
                raise InputError(f"length needs a path that is a function; given: {length}")
            many = (
                real_numbers(given, "a path must be targets of real numbers") if single else given
            )
            targets = convert(many)
            if targets.ndim != 2 or not len(targets):
                shape = f"an array of shape {np.shape(given)}" if single else short_repr(given)
                raise InputError(f"a path must have one leading axis of targets; given: {shape}")
            new = np.append(True, (targets[1:] != targets[:-1]).any(axis=1))
            x = np.arange(new.sum(), dtype=np.float64)
            made = PathTargets(problem, x, targets[new], np.cumsum(new) - 1)
        if not np.isfinite(made.numbers).all():
            bad = np.nonzero(~np.isfinite(made.numbers))[0][0]
            index = int(np.searchsorted(made.place, bad))
            raise InputError(f"the targets of a path must be finite; target {index} is not")
        return made

    def name(self, at: int) -> float:
        """Return the path length at parameter number `at`, or the index of the given target."""
        return float(self.x[at]) if self.function else float(np.searchsorted(self.place, at))

    def __call__(self, x: Array) -> Array:
        """Return the targets (K, k) at parameters (K,)."""
        if self.function is not None:
            return np.stack([self.function(float(each)) for each in x])
        if len(self.x) == 1:
            return np.repeat(self.numbers, len(x), axis=0)
        rotations, turns = self._turns
        return _core.targets_between(self.x, self.numbers, rotations, turns, x)

    @cached_property
    def units(self) -> Array:
        """Units of the joints (n,) [rad or m]: 1 rad; for prismatic joints, a length.

        The length is the larger one of the robot's size and the extent of the path, because a slide
        may go as far as the path.
        """
        robot, ends = self.problem.layout.robot, np.cumsum(self.problem.layout.kernel.target_sizes)
        poses = [
            end
            for task, end in zip(self.problem.layout.tasks, ends, strict=True)
            if task.on(robot).has_position
        ]
        extents = [np.ptp(self.numbers[:, end - 3 : end], axis=0).max() for end in poses]
        length = max([robot_size(robot), *self.problem.units[robot.prismatic], *extents])
        return np.where(robot.prismatic, length, 1.0)

    @cached_property
    def _turns(self) -> tuple[list[int], Array]:
        """Indices of rotations in a target (r,), and rotation vectors to the next (N - 1, r, 3)."""
        begins, turns, end = [], [], 0
        layout = self.problem.layout
        for task, size in zip(layout.tasks, layout.kernel.target_sizes, strict=True):
            begin, end = end, end + size
            if task.on(layout.robot).has_pose:  # the columns of R, then the origin
                R = self.numbers[:, begin : begin + 9].reshape(-1, 3, 3)  # transposed
                begins.append(begin)
                turns.append(log(R[:-1] @ R[1:].swapaxes(-1, -2)))
        made = np.stack(turns, axis=1) if turns else np.empty((len(self.x) - 1, 0, 3))
        return begins, np.ascontiguousarray(made)
