"""Frames and solvers as objects of the kernel, for the foreign functions of XLA in supple.jax."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from supple import _core
from supple._runtime.environment import thread_count
from supple.ik.adjoints import AT_LIMIT, DifferentiableFrames, DifferentiableSolver
from supple.ik.driver import search_spec
from supple.ik.preference import FIRST_FOUND
from supple.ik.solver import Solver
from supple.ik.subproblems import decoupled_solver
from supple.kinematics import Robot
from supple.motion.plausible import plausible_range


class Number(np.int64):
    """The number under which an object of the kernel is registered; it keeps the object alive.

    JAX keeps the attributes of a foreign function with the traced function.

    Attributes:
        kept: The object.
        solves: Two truth values: whether the object solves targets without q0, and with q0.
    """

    kept: _core.XlaObject
    solves: tuple[bool, bool]


def _number(kept: _core.XlaObject, solves: tuple[bool, bool] = (False, False)) -> Number:
    made = Number(kept.number)
    made.kept, made.solves = kept, solves
    return made


def _once(owner: Robot | Solver, key: object, make: Callable[[], Number]) -> Number:
    """Return the number for an owner and a key; the first call gets it from `make`."""
    numbers: dict[object, Number] = vars(owner).setdefault("_foreign", {})
    found = numbers.get(key)
    if found is None:  # several threads may make a number; all get the first one
        found = numbers.setdefault(key, make())
    return found


def number_of_frames(frames: DifferentiableFrames) -> Number:
    """Return the number under which the frames of a robot are registered."""
    return _once(
        frames.robot,
        frames.frame,
        lambda: _number(_core.XlaObject(frames.chain, thread_count(None))),
    )


def number_of_solver(known: DifferentiableSolver) -> Number:
    """Return the number under which a solver is registered."""
    return _once(known.solver, None, lambda: _solver(known))


def _spec(solver: Solver, seeded: bool) -> _core.SearchSpec | None:
    """Return the settings of a search that needs no Python; None for other searches."""
    settings = solver._settings
    prefer = settings.preference(seeded)
    alone = isinstance(prefer, str) and prefer in FIRST_FOUND
    if not alone or (not seeded and (prefer == "nearest" or settings.max_move is not None)):
        return None
    options = settings.options(None, seeded=seeded)
    return search_spec(options, settings.timeout, known=False).replace(single=False)


def _solver(known: DifferentiableSolver) -> Number:
    solver, robot = known.solver, known.solver.robot
    problem, settings = solver._problem, solver._settings
    specs: list[_core.SearchSpec | None] = [None, None]
    kernel = None
    if (
        problem is not None
        and settings.check is None
        and settings.device in (None, "cpu")
        and robot.nq == robot.nv
        and problem.order == tuple(range(len(solver.tasks)))
        and type(solver).batch is Solver.batch
    ):
        kernel = decoupled_solver(problem)
        specs = [_spec(solver, seeded) for seeded in (False, True)]
    scale = known.joint_scale
    least, largest = plausible_range(robot)
    kept = _core.XlaObject(
        known.frames.chain,
        thread_count(settings.threads),
        positions=known.positions,
        slack=AT_LIMIT,
        lower=robot.lower.tolist(),
        upper=robot.upper.tolist(),
        joint_scale=[] if scale is None else scale.tolist(),
        least_q0=least.tolist(),
        largest_q0=largest.tolist(),
        solver=kernel,
        without_q0=specs[0],
        with_q0=specs[1],
    )
    return _number(kept, (specs[0] is not None, specs[1] is not None))
