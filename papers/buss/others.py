"""B section 1: cyclic coordinate descent, quasi-Newton and conjugate gradients, for comparison.

Each method minimizes f(q) = ½ Σ‖t − s(q)‖², a sum over the end effectors s and their targets t. The
methods are short reference implementations in NumPy, not part of the library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from supple.papers import style
from supple.papers.experiment import Claim, Outcome, Parameter, Progress, Table, each, experiment
from supple.papers.style import Array

import supple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENOUGH = 1e-3  # mean distance from the targets at which a search ends [m]
MOST = 100  # largest number of iterations
DAMPING = 0.1  # λ of DLS [m]
MANY = 0.8  # fraction of reached targets from which on a method counts as suitable


@dataclass(eq=False)
class Problem:
    """The end effectors of a robot and their targets, with a count of the evaluated configurations.

    Attributes:
        robot: The robot.
        goals: Targets of its end effectors (k, 3) [m].
        evaluations: Number of configurations at which kinematics were computed.
    """

    robot: supple.Robot
    goals: Array
    evaluations: int = field(default=0)

    def at(self, q: Array) -> tuple[Array, Array]:
        """Return the errors t − s (3k,) and the Jacobian of s (3k, n)."""
        self.evaluations += 1
        T, J = self.robot.fk_jacobian(q, list(self.robot.tips))
        return (self.goals - T[:, :3, 3]).ravel(), np.concatenate(J[:, :3])

    def cost(self, q: Array) -> float:
        """Return f(q) [m²]."""
        self.evaluations += 1
        s = self.robot.fk(q, list(self.robot.tips))[:, :3, 3]
        return 0.5 * float(((self.goals - s) ** 2).sum())

    def distance(self, q: Array) -> float:
        """Return the mean distance [m] of end effectors from their targets; it is not counted."""
        s = self.robot.fk(q, list(self.robot.tips))[:, :3, 3]
        return float(np.linalg.norm(self.goals - s, axis=1).mean())


Method: TypeAlias = Callable[[Problem, Array], Iterator[Array]]  # yields q after each iteration


def cyclic_coordinate_descent(problem: Problem, q: Array) -> Iterator[Array]:
    """Minimize f by iterations over the joints, from the tips to the base, one joint at a time.

    For a joint with axis v through p, the best rotation of the end effectors beyond it is
    atan2(Σ vᵀ(a × b), Σ aᵀb), where a and b are the parts of s − p and t − p across the axis. The
    column of J is v × a, hence a = (v × a) × v.
    """
    robot, tips = problem.robot, list(problem.robot.tips)
    while True:
        for j in reversed(range(len(q))):
            problem.evaluations += 1
            T, J = robot.fk_jacobian(q, tips)
            turns = np.linalg.norm(J[:, 3:, j], axis=1) > 0.5  # end effectors beyond this joint
            if turns.any():
                v = J[turns, 3:, j]
                a = np.cross(J[turns, :3, j], v)
                b = problem.goals[turns] - T[turns, :3, 3] + a
                b = b - (v * b).sum(axis=1, keepdims=True) * v
                turn = np.arctan2((v * np.cross(a, b)).sum(), (a * b).sum())
                q = q + np.eye(len(q))[j] * turn
        yield q


def quasi_newton(problem: Problem, q: Array) -> Iterator[Array]:
    """Minimize f by BFGS, which estimates the inverse Hessian from changes of the gradient."""
    e, J = problem.at(q)
    g, H = -J.T @ e, np.eye(len(q)) / max(float((J * J).sum()), 1e-12)
    while True:
        step = _searched(problem, q, -H @ g, g)
        q = q + step
        e, J = problem.at(q)
        change, g = -J.T @ e - g, -J.T @ e
        along = float(step @ change)
        if along > 1e-12 * float(np.linalg.norm(step) * np.linalg.norm(change)):
            V = np.eye(len(q)) - np.outer(step, change) / along
            H = V @ H @ V.T + np.outer(step, step) / along
        yield q


def conjugate_gradients(problem: Problem, q: Array) -> Iterator[Array]:
    """Minimize f by conjugate gradients (Polak-Ribière), restarted where the direction is uphill.

    The first step length tried minimizes the linearized error along the direction.
    """
    e, J = problem.at(q)
    g = -J.T @ e
    d = -g
    while True:
        moved = J @ d
        size = -float(g @ d) / max(float(moved @ moved), 1e-12)
        q = q + _searched(problem, q, size * d, g)
        e, J = problem.at(q)
        new = -J.T @ e
        d = -new + max(0.0, float(new @ (new - g)) / max(float(g @ g), 1e-300)) * d
        if new @ d >= 0:
            d = -new
        g = new
        yield q


def _searched(problem: Problem, q: Array, step: Array, g: Array) -> Array:
    """Return `step`, halved until f falls by a thousandth of its predicted linear decrease."""
    now, slope = problem.cost(q), float(g @ step)
    for _ in range(40):
        if problem.cost(q + step) <= now + 1e-3 * slope:
            return step
        step, slope = step / 2, slope / 2
    return 0 * step


def by_step(step: Callable[[supple.Linearization], Array]) -> Method:
    """Return a method that repeats a step of the paper."""

    def iterate(problem: Problem, q: Array) -> Iterator[Array]:
        while True:
            e, J = problem.at(q)
            q = q + step(supple.Linearization(J, e))
            yield q

    return iterate


METHODS: dict[str, Method] = {
    "ccd": cyclic_coordinate_descent,
    "bfgs": quasi_newton,
    "cg": conjugate_gradients,
    "dls": by_step(supple.DLS(supple.damping.Constant(DAMPING**2))),
    "transpose": by_step(supple.steps.Transpose()),
}
NAMES = {
    "ccd": "cyclic coordinate descent",
    "bfgs": "quasi-Newton (BFGS)",
    "cg": "conjugate gradients",
    "dls": f"DLS, λ = {DAMPING:g}",
    "transpose": "transpose",
}
OTHERS = ("ccd", "bfgs", "cg")
FIGURES = {"arm": "iiwa14", "y": "y"}


def searched(method: Method, problem: Problem, q: Array, most: int) -> Array:
    """Return the distances (K,) [m] after each iteration, until the distance is small enough."""
    found = [problem.distance(q)]
    for now in islice(method(problem, q), most):
        found.append(problem.distance(now))
        if found[-1] < ENOUGH:
            break
    return np.array(found)


@experiment(
    "buss-others",
    paper="B",
    figure="Section 1",
    title="Cyclic coordinate descent, quasi-Newton and conjugate gradients beside DLS",
    deviations=(
        "The paper only names these methods, with references. Here targets are those of random "
        "configurations, and a search ends 1 mm from them or after 100 iterations; an iteration of "
        "cyclic coordinate descent is one sweep over all joints.",
    ),
    parameters=(
        Parameter("targets", 6, "", "targets of each figure", 0, 10000),
        Parameter("seed", 1, "", "seed of the random numbers", -1),
    ),
)
def other_methods(progress: Progress, *, targets: int, seed: int) -> Outcome:
    """A KUKA iiwa and the Y search for configurations whose end effectors are at given places, by
    cyclic coordinate descent, BFGS, conjugate gradients, damped least squares and the transpose.
    Then the target of the iiwa is out of reach.
    """
    rng = np.random.default_rng(seed)
    quantities: dict[str, float] = {}
    curves: dict[str, Array] = {}
    for figure, name in each(FIGURES.items(), progress):
        robot = supple.load(name)
        wanted = robot.neutral() + rng.uniform(-1, 1, (targets, len(robot.neutral())))
        starts = wanted + rng.uniform(-0.8, 0.8, wanted.shape)
        goals = robot.fk(wanted, list(robot.tips))[..., :3, 3]
        for key, method in METHODS.items():
            problems = [Problem(robot, goal) for goal in goals]
            runs = [searched(method, p, q, MOST) for p, q in zip(problems, starts, strict=True)]
            quantities |= {
                f"{figure}.{key}_solved": float(np.mean([x[-1] < ENOUGH for x in runs])),
                f"{figure}.{key}_iterations": float(np.median([len(x) - 1 for x in runs])),
                f"{figure}.{key}_evaluations": float(np.median([p.evaluations for p in problems])),
            }
            if figure == "arm":
                curves[key] = np.pad(runs[0], (0, MOST + 1 - len(runs[0])), mode="edge")
    far, shakes = beyond()
    quantities |= {f"far.{key}_excess": x for key, x in far.items()}
    quantities |= {f"far.{key}_rises": float(x) for key, x in shakes.items()}
    told = "; ".join(
        f"{NAMES[key]} "
        + " and ".join(f"{quantities[f'{f}.{key}_iterations']:.0f}" for f in FIGURES)
        + " iterations, "
        + " and ".join(f"{quantities[f'{f}.{key}_evaluations']:.0f}" for f in FIGURES)
        + " evaluations"
        for key in METHODS
    )
    claims = (
        Claim(
            "cyclic coordinate descent, quasi-Newton and conjugate gradients are methods of "
            "inverse kinematics",
            f"of {targets} reachable targets of the iiwa they reach "
            + ", ".join(f"{quantities[f'arm.{key}_solved']:.0%}" for key in OTHERS)
            + ", of the Y with its two end effectors "
            + ", ".join(f"{quantities[f'y.{key}_solved']:.0%}" for key in OTHERS),
            min(quantities[f"arm.{key}_solved"] for key in OTHERS) >= MANY,
            "all of them minimize the sum of the squared distances; cyclic coordinate descent is "
            "slow where joints move several end effectors",
        ),
        Claim(
            "damped least squares takes fewer evaluations of kinematics than these methods",
            f"in the median, iiwa and Y: {told}",
            all(
                quantities[f"{f}.dls_evaluations"] < quantities[f"{f}.{key}_evaluations"]
                for f in FIGURES
                for key in OTHERS
            ),
            "it uses J as a whole; the others use one direction of it in each iteration, or learn "
            "about it slowly",
            own=True,
        ),
        Claim(
            "these methods do not oscillate where the target is out of reach",
            f"iterations that increase the distance: {_listed(shakes, 'd')}; after 60 they are "
            f"{_listed({k: 1e3 * x for k, x in far.items()}, '.1f')} mm farther than the nearest "
            "place",
            max(shakes[key] for key in OTHERS) == 0,
            "each of their iterations reduces the distance, by construction",
            own=True,
        ),
    )
    table = Table(
        "iteration",
        {"iteration": np.arange(MOST + 1.0), **{f"{k}.distance": x for k, x in curves.items()}},
    )
    return Outcome(quantities, claims, _figure(curves), (table,))


def beyond() -> tuple[dict[str, float], dict[str, int]]:
    """Return, by method, how much farther than necessary three links of 1, 0.5 and 0.5 m are from
    a target at 2.5 m after 60 iterations [m], and how many iterations increased the distance.
    """
    robot, goal = supple.load("planar3"), np.array([[2.5, 0.0, 0.0]])
    far, rises = {}, {}
    for key, method in METHODS.items():
        found = searched(method, Problem(robot, goal), np.array([0.9, -0.7, 0.4]), 60)
        far[key] = float(found[-1] - 0.5)
        rises[key] = int((np.diff(found) > 1e-12).sum())
    return far, rises


def _listed(values: dict[str, float] | dict[str, int], form: str) -> str:
    return ", ".join(f"{NAMES[key]} {value:{form}}" for key, value in values.items())


def _figure(curves: dict[str, Array]) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        figure.set_size_inches(9.5, 4.6)
        ax = figure.subplots()
        style.titled(ax, "A target of the iiwa", "iteration", "distance [mm]")
        style.curves(
            ax,
            np.arange(MOST + 1),
            {NAMES[k]: 1e3 * np.maximum(x, 1e-7) for k, x in curves.items()},
        )
        ax.set_xscale("symlog", linthresh=10)
        ax.set_yscale("log")
        style.bound(ax, 1e3 * ENOUGH, "near enough", below=True)
        style.legend(figure, ax)

    return draw
