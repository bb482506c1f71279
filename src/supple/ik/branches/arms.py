"""Kinds of arms for which all solutions of a pose can be computed.

The solutions are computed in closed form (include/supple/ik/closed_form.hpp), as eigenvalues
(src/core/drivers/general.hpp) or, for a redundant arm, in closed form with one joint fixed at the
values of a grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple.ik.branches.general import general_arm, numbers_of
from supple.ik.problem import CompiledProblem
from supple.ik.seeds import robot_size
from supple.kinematics import Robot
from supple.kinematics.structure import Structure, frozen_structure
from supple.motion.linearization import Array

GRID_VALUES = 32  # number of values at which a joint of a redundant arm is fixed
_TRIAL_GRID_VALUES, _TRIAL_POSES = 8, 64  # numbers of values and of poses for choosing this joint
_RANK_TRIALS = 16  # number of configurations at which the rank of J is determined
_RANK_TOLERANCE = 1e-9  # singular value taken as zero, relative to the largest

# Solutions q (S, n) of all B targets, their position and rotation errors (S,), whether each is a
# sample of a continuum (S,), the number of solutions of each target (B,), and whether these are all
# solutions of the target (B,).
Found: TypeAlias = tuple[
    Array, Array, Array, NDArray[np.bool_], NDArray[np.int32], NDArray[np.bool_]
]


@dataclass(frozen=True)
class AnyArm:
    """An arm of six revolute joints of any geometry; its solutions are computed as eigenvalues."""

    reason: ClassVar[str] = (
        "solutions nearly coincide, or the target is singular: eigenvalues are not separate enough"
    )
    ordered: ClassVar[bool] = True

    frame: str
    spec: _core.GeneralSpec
    kernel: _core.GeneralBranches

    @property
    def coordinates(self) -> list[int]:
        """Indices of the six joints in q."""
        return self.spec.coordinates

    def solve(
        self, problem: CompiledProblem, targets: Array, seeds: Array | None, spec: Any
    ) -> Found:
        """Return the solutions of targets (B, 12), wrapped by 2π toward seeds (n,) or (B, n)."""
        return self.kernel.solve(targets, seeds, spec)


@dataclass(frozen=True)
class ClosedFormArm:
    """An arm of six revolute joints, three consecutive axes of which intersect or are parallel.

    If the axes in the file are slightly misaligned, the closed form may miss solutions of some
    targets. `misaligned` solves these targets by eigenvalues.
    """

    reason: ClassVar[str] = (
        "the axes of the file are misaligned, and the target is near a singular pose of the "
        "aligned arm, where solutions may appear or vanish"
    )
    ordered: ClassVar[bool] = True

    frame: str
    spec: _core.ArmSpec
    kernel: _core.Branches
    misaligned: AnyArm | None = None

    @property
    def coordinates(self) -> list[int]:
        """Indices of the six joints in q."""
        return self.spec.coordinates

    def solve(
        self, problem: CompiledProblem, targets: Array, seeds: Array | None, spec: Any
    ) -> Found:
        """Return the solutions of targets (B, 12), wrapped by 2π toward seeds (n,) or (B, n)."""
        found = self.kernel.solve(targets, seeds, spec)
        again = ~found[5] & np.isfinite(targets).all(axis=1)
        if self.misaligned is None or not again.any():
            return found
        own = seeds if seeds is None or seeds.ndim == 1 else seeds[again]
        more = self.misaligned.solve(problem, targets[again], own, spec)
        return replaced(found, again, more, more[5])


def replaced(
    found: Found, again: NDArray[np.bool_], more: Found, taken: NDArray[np.bool_]
) -> Found:
    """Return `found` with the solutions of some targets replaced by the solutions in `more`.

    Args:
        found: Solutions of all targets.
        again: Mask (B,) of the targets that were solved again.
        more: Solutions of these targets.
        taken: Mask of the targets of `more` whose solutions replace those in `found`.
    """
    better = np.zeros_like(again)
    better[np.nonzero(again)[0][taken]] = True
    of = np.repeat(np.arange(len(again)), found[4])
    of_more = np.repeat(np.nonzero(again)[0], more[4])
    keep, take = ~better[of], better[of_more]
    order = np.argsort(np.concatenate([of[keep], of_more[take]]), kind="stable")
    q, position, rotation, sampled = (
        np.concatenate([found[i][keep], more[i][take]])[order] for i in range(4)
    )
    count = found[4].copy()
    count[better] = more[4][taken]
    certain = found[5].copy()
    certain[better] = more[5][taken]
    return q, position, rotation, sampled, count, certain


@dataclass(frozen=True)
class RedundantArm:
    """An arm of seven joints; with one joint fixed at any value of a grid, it has a closed form."""

    ordered: ClassVar[bool] = False

    frame: str
    joint: str
    coordinate: int
    values: Array
    kernel: _core.GridBranches

    @property
    def reason(self) -> str:
        """The reason why there are more solutions than the returned ones."""
        return f"the arm is redundant; solved for {len(self.values)} values of {self.joint}"

    def solve(
        self, problem: CompiledProblem, targets: Array, seeds: Array | None, spec: Any
    ) -> Found:
        """Return the solutions of targets (B, 12), wrapped by 2π toward seeds (n,) or (B, n)."""
        near = _middle(problem.layout.robot) if seeds is None else seeds
        return self.kernel.solve(targets, near, spec)


Arm: TypeAlias = ClosedFormArm | AnyArm | RedundantArm


@lru_cache(maxsize=64)
def arm_of(problem: CompiledProblem) -> Arm | str:
    """Return the arm of a problem, or a sentence why only a search finds its solutions."""
    robot, tasks = problem.layout.robot, problem.layout.tasks
    rows = tasks[0].on(robot)
    if len(tasks) != 1 or not rows.is_whole_pose:
        if problem.primary < robot.dof:
            return f"{problem.primary} rows for {robot.dof} joints have infinitely many solutions"
        return "the tasks are not the pose of one frame"
    frame = rows.frame
    structure = robot._structure(frame)
    if robot.nq != robot.nv:
        return structure.reason or "another joint of the robot is a ball joint"
    dexterity = _dexterity(robot, frame) if structure.six_revolute else 1.0
    if dexterity <= _RANK_TOLERANCE:
        return "the six joints do not move the frame in all directions"
    general = None
    if structure.six_revolute and not (structure.form and structure.exact):
        form = general_arm(robot, frame)
        if form is not None:
            kernel = _core.GeneralBranches(solver=problem.kernel, arm=form)
            general = AnyArm(frame, form, kernel)
    if structure.form is not None and dexterity > 0.5 * _slack(structure):
        home = np.asarray(robot.fk(np.zeros(robot.nq), frame), dtype=np.float64)
        spec = _spec(robot, structure, home)
        closed = _core.Branches(solver=problem.kernel, arm=spec)
        return ClosedFormArm(frame, spec, closed, general)
    if structure.six_revolute:
        reason = structure.reason or "some directions of motion are due to misaligned axes"
        return general or f"{reason}, and the equations are degenerate"
    redundant = _redundant_arm(problem, frame)
    return structure.reason if redundant is None else redundant


def _dexterity(robot: Robot, frame: str) -> float:
    """Return the ratio of the smallest and the largest singular value of the Jacobian of a frame.

    The result is the largest such ratio at some random configurations. If it is zero, as for an arm
    in a plane, every target has no solution or a continuum of solutions. If the ratio is as small
    as the misalignment of axes, this holds for the aligned arm, whose closed form is then useless.
    """
    J = robot.jacobian(robot.random(_RANK_TRIALS, seed=0), frame)
    J[:, :3] /= max(robot._structure(frame).length, 1e-300)
    sigma = np.linalg.svd(J, compute_uv=False)
    return float((sigma[:, 5] / np.maximum(sigma[:, 0], 1e-300)).max())


def _coordinates(robot: Robot, structure: Structure) -> list[int]:
    return [robot.joint_names.index(name) for name in structure.joints]


def _spec(robot: Robot, structure: Structure, home: Array) -> _core.ArmSpec:
    """Return the closed form of a structure whose frame is at `home` (4, 4) at q = 0."""
    return _core.ArmSpec(
        parallel=structure.form == "parallel",
        first=structure.first,
        coordinates=_coordinates(robot, structure),
        axes=structure.nominal_axes.ravel().tolist(),
        points=structure.nominal_points.ravel().tolist(),
        home=numbers_of(home).tolist(),
        length=structure.length,
        slack=_slack(structure),
    )


def _slack(structure: Structure) -> float:
    """Return a bound on the relative error of the closed form's equations; zero for an exact arm.

    The factor allows for misalignments that add up along the arm.
    """
    if structure.exact:
        return 0.0
    return 10.0 * (structure.misalignment / structure.length + structure.tilt)


def _redundant_arm(problem: CompiledProblem, frame: str) -> RedundantArm | None:
    """Return an arm of seven joints that has a closed form if one of them is fixed, else None.

    If there are several such joints, the joint whose grid solves the most random poses is fixed.
    """
    robot = problem.layout.robot
    joints = robot._structure(frame).joints
    if len(set(joints)) != 7 or len(joints) != 7:
        return None
    poses = robot.fk(robot.random(_TRIAL_POSES, seed=0), frame)
    targets = numbers_of(poses)
    spec = _core.BranchSpec(
        position_tolerance=1e-6,
        rotation_tolerance=1e-6,
        samples=1,
        wraps=False,
        nearest=False,
        threads=1,
    )
    best: tuple[tuple[int, int], RedundantArm] | None = None
    for name in joints:
        arm = _with_grid(problem, frame, name, _TRIAL_GRID_VALUES)
        if arm is not None:
            count = arm.solve(problem, targets, None, spec)[4]
            quality = (int((count > 0).sum()), int(count.sum()))
            if best is None or quality > best[0]:
                best = quality, arm
    return None if best is None else _with_grid(problem, frame, best[1].joint, GRID_VALUES)


def _with_grid(problem: CompiledProblem, frame: str, name: str, count: int) -> RedundantArm | None:
    """Return the arm with a joint fixed at `count` values; None unless each has a closed form."""
    robot = problem.layout.robot
    coordinate = robot.joint_names.index(name)
    grid = _grid(robot, coordinate, count)
    arms = []
    for value in grid:
        structure, home = frozen_structure(robot, frame, name, float(value))
        if structure.form is None:
            return None
        arms.append(_spec(robot, structure, home))
    spec = _core.GridSpec(coordinate=coordinate, values=grid.tolist(), arms=arms)
    kernel = _core.GridBranches(solver=problem.kernel, arm=spec)
    return RedundantArm(frame, name, coordinate, grid, kernel)


def _middle(robot: Robot) -> Array:
    """Return the middle (n,) of the joint ranges; joints without limits are at zero."""
    with np.errstate(invalid="ignore"):
        middle = 0.5 * (robot.lower + robot.upper)
    return np.where(np.isfinite(middle), middle, robot.neutral())


def _grid(robot: Robot, joint: int, count: int) -> Array:
    """Return equally spaced positions (count,) of a joint inside its limits [rad or m].

    The positions cover at most a full turn or, for a prismatic joint without limits, twice the
    robot's size.
    """
    middle, half = _middle(robot)[joint], 0.5 * (robot.upper[joint] - robot.lower[joint])
    if not robot.prismatic[joint]:
        half = min(half, np.pi)
    elif not np.isfinite(half):
        half = robot_size(robot)
    return np.asarray(middle + half * (2 * np.arange(count) + 1 - count) / count)
