"""All solutions of poses: in closed form or by eigenvalues, for other robots by a search.

The closed form is in include/supple/ik/closed_form.hpp, that of arms of any geometry in general.py;
verification and limits are in src/core/drivers/branches.hpp.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple import _core
from supple.errors import InputError, short_repr
from supple.ik.arguments import SolveOptions, per_task, seeds_of
from supple.ik.driver import Driver
from supple.ik.general import GeneralArm, general_arms, general_candidates
from supple.ik.preference import costs
from supple.ik.problem import CompiledProblem, compile_problem
from supple.ik.solution import BatchSolutions, Solutions, all_of_one
from supple.kinematics import Robot
from supple.kinematics.robot import ROWS
from supple.kinematics.structure import Structure
from supple.motion.linearization import Array
from supple.motion.task import PoseTask, Task

SAMPLES = 16  # of an angle that may be any
MOST = 64  # solutions of a search
TOLERANCE = 1e-6  # the default of `solve` [m], [rad]

_SEEDS = "found by a search from seeds"
_EDGE = (
    "the axes of the file are misaligned, and the target is near a singular pose of the aligned "
    "arm, where solutions may appear or vanish"
)

_MULTIPLE = (
    "solutions nearly coincide, or the target is singular: eigenvalues are not separate enough"
)


@dataclass(frozen=True)
class ClosedFormArm:
    """A frame whose pose has a closed form."""

    frame: str
    kernel: _core.Branches

    def solve(
        self, problem: CompiledProblem, targets: Array, seeds: Array | None, spec: Any
    ) -> Any:
        """Return the solutions of targets (B, 12) as `_core.Branches.solve` does."""
        return self.kernel.solve(targets, seeds, spec)


@dataclass(frozen=True)
class AnyArm:
    """A frame that is moved by six revolute joints."""

    frame: str
    coordinates: list[int]
    numberings: tuple[GeneralArm, ...]

    def solve(
        self, problem: CompiledProblem, targets: Array, seeds: Array | None, spec: Any
    ) -> Any:
        """Return the solutions of targets (B, 12) as `_core.Branches.solve` does."""
        poses = np.zeros((len(targets), 4, 4))
        poses[:, :3] = targets.reshape(-1, 4, 3).swapaxes(-1, -2)
        poses[:, 3, 3] = 1.0
        finite = np.isfinite(targets).all(axis=1)
        poses[~finite] = np.eye(4)
        q, count, complete = general_candidates(self.numberings, poses)
        *found, _ = _core.polish_seeds(
            problem.kernel, self.coordinates, targets, seeds, q, count.tolist(), spec
        )
        return *found, complete & finite


Arm: TypeAlias = ClosedFormArm | AnyArm


@lru_cache(maxsize=64)
def arm_of(problem: CompiledProblem) -> Arm | str:
    """Return the arm of a problem all of whose solutions are computed, or why there is none."""
    robot, tasks = problem.layout.robot, problem.layout.tasks
    if len(tasks) != 1 or not _is_whole_pose(tasks[0]):
        return "only the pose of one frame in the world has finitely many solutions"
    frame = tasks[0].frame or robot.tips[0]  # type: ignore[attr-defined]
    structure = robot._structure(frame)
    coordinates = [robot.joint_names.index(name) for name in structure.joints]
    if not structure.six_revolute:
        return structure.reason
    if structure.form is None:
        numberings = general_arms(robot, frame)
        if not numberings:
            return f"{structure.reason}, and the equations are degenerate"
        return AnyArm(frame, coordinates, numberings)
    home = robot.fk(np.zeros(robot.dof), frame)
    spec = _core.ArmSpec(
        parallel=structure.form == "parallel",
        first=structure.first,
        coordinates=coordinates,
        axes=structure.nominal_axes.ravel().tolist(),
        points=structure.nominal_points.ravel().tolist(),
        home=home[:3].T.ravel().tolist(),
        length=structure.length,
        slack=_slack(structure),
    )
    return ClosedFormArm(frame, _core.Branches(solver=problem.kernel, arm=spec))


def _slack(structure: Structure) -> float:
    """Return the relative error of the closed form's equations; zero for an exact arm.

    Errors of the axes add up along the arm.
    """
    if structure.exact:
        return 0.0
    return 10.0 * (structure.misalignment / structure.length + structure.tilt)


def _is_whole_pose(task: Task) -> bool:
    return (
        isinstance(task, PoseTask)
        and (task.rows is None or set(task.rows) == set(ROWS))
        and task.base is None
        and task.tolerance is None
        and task.about is None
        and bool(np.all(np.asarray(task.weight) > 0))
    )


def solve_all(
    problem: CompiledProblem,
    target: Any,
    single: bool,
    q0: ArrayLike | None,
    wraps: bool,
    options: SolveOptions,
) -> Solutions | BatchSolutions:
    """Return all solutions of one target or of a batch."""
    if options.explain or options.gpu is not None:
        given = "explain" if options.explain else f"device={options.gpu.device!r}"  # type: ignore[union-attr]
        raise InputError(f'solutions="all" is only for the CPU, without explain; given: {given}')
    robot = problem.layout.robot
    targets = problem.targets(per_task(target, single, problem.layout.tasks), options.threads)
    seeds = seeds_of(q0, robot, targets.shape[:-1])
    arm = arm_of(problem)
    if isinstance(arm, str):
        return _searched(problem, targets, seeds, replace(options, solutions=MOST), arm)
    batch = targets.shape[:-1]
    if seeds is not None and seeds.ndim > 1:
        seeds = seeds.reshape(-1, robot.dof)
    spec = _core.BranchSpec(
        position_tolerance=options.position_tolerance,
        rotation_tolerance=options.rotation_tolerance,
        samples=SAMPLES,
        wraps=wraps,
        nearest=options.prefer == "nearest",
        threads=options.threads,
    )
    q, position, rotation, sampled, count, certain = arm.solve(
        problem, targets.reshape(-1, 12), seeds, spec
    )
    reason = _EDGE if isinstance(arm, ClosedFormArm) else _MULTIPLE
    if not isinstance(options.prefer, str) or options.prefer == "manipulability":
        of = np.repeat(np.arange(len(count)), count)
        own = seeds if seeds is None or seeds.ndim == 1 else seeds[of]
        order = np.lexsort((costs(options.prefer, problem, q, own), of))
        q, position, rotation, sampled = q[order], position[order], rotation[order], sampled[order]
    free = np.zeros(q.shape, dtype=np.bool_)
    if sampled.any():
        free[sampled] = free_joints(robot.jacobian(q[sampled], arm.frame))
    if not batch:
        return all_of_one(q, position, rotation, free, bool(certain[0]), reason, robot)
    complete, found = certain.reshape(batch), count.reshape(batch)
    return BatchSolutions(q, position, rotation, free, found, complete, reason, robot)


def solve_pose(robot: Robot, target: object) -> Solutions | None:
    """Return all solutions of one pose of the end effector: a fast path of `solve_all`.

    None if the target needs to be checked, or if there is no closed form or a continuum.
    """
    arm = _default_arm(robot)
    found = arm and arm.kernel.solve_pose(target, _default_spec())
    if not found:
        return None
    q, position, rotation, certain = found
    free = np.zeros(q.shape, dtype=np.bool_)
    return all_of_one(q, position, rotation, free, certain, _EDGE, robot)


@lru_cache(maxsize=64)
def _default_arm(robot: Robot) -> ClosedFormArm | None:
    arm = arm_of(compile_problem(robot, None))
    return arm if isinstance(arm, ClosedFormArm) else None


@lru_cache(maxsize=1)
def _default_spec() -> _core.BranchSpec:
    return _core.BranchSpec(
        position_tolerance=TOLERANCE,
        rotation_tolerance=TOLERANCE,
        samples=SAMPLES,
        wraps=False,
        nearest=False,
        threads=1,
    )


def free_joints(jacobians: NDArray[np.floating[Any]]) -> NDArray[np.bool_]:
    """Return which joints (..., n) move while the frame stays, to first order."""
    *batch, _, n = jacobians.shape
    _, sigma, Vt = np.linalg.svd(jacobians)
    still = np.ones((*batch, n), dtype=np.bool_)
    still[..., : sigma.shape[-1]] = sigma <= 1e-6 * sigma[..., :1]
    return np.asarray(((np.abs(Vt) > 1e-6) & still[..., None]).any(axis=-2))


def _searched(
    problem: CompiledProblem,
    targets: Array,
    seeds: Array | None,
    options: SolveOptions,
    why: str,
) -> Solutions | BatchSolutions:
    """Return the solutions that a search finds."""
    driver, reason = Driver(problem, options), f"{why}; {_SEEDS}"
    batch, robot = targets.shape[:-1], problem.layout.robot

    def one(target: Array, seed: Array | None) -> Solutions:
        found = driver.solve_single(target, seed)
        assert isinstance(found, Solutions)
        converged = found[found.success]
        J = problem.layout.jacobian(converged.q)[..., : problem.primary, :]
        made: Solutions = replace(converged, free=free_joints(J), reason=reason)
        return made

    if not batch:
        return one(targets, seeds)
    flat = targets.reshape(-1, targets.shape[-1])
    every = [
        one(target, seeds if seeds is None or seeds.ndim == 1 else seeds.reshape(-1, robot.dof)[i])
        for i, target in enumerate(flat)
    ]
    return BatchSolutions(
        np.concatenate([found.q for found in every]).reshape(-1, robot.dof),
        np.concatenate([found.position_error for found in every]),
        np.concatenate([found.rotation_error for found in every]),
        np.concatenate([found.free for found in every]).reshape(-1, robot.dof),
        np.array([len(found) for found in every], dtype=np.int32).reshape(batch),
        np.zeros(batch, dtype=np.bool_),
        reason,
        robot,
    )


def check_all(given: object, wraps: object) -> bool:
    """Return whether `solutions` is "all".

    Raises:
        InputError: another string, or `wraps` without it.
    """
    if not isinstance(given, str):
        if wraps:
            raise InputError(f'wraps needs solutions="all"; given: solutions={short_repr(given)}')
        return False
    if given != "all":
        raise InputError(f'solutions must be a number or "all"; given: {short_repr(given)}')
    return True
