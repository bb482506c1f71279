"""Experiments of a paper, and their outcomes.

An experiment follows the paper: its robot, path and methods, then its claims and figure. The
decorator makes it from a function; `supple.papers.EXPERIMENTS` lists all experiments.

    @experiment("n-gain", paper="N", figure="eq. (1)", title="...", deviations=("...",))
    def gain(progress: Progress) -> Outcome:
        ...
        return Outcome(quantities, claims, draw)
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")
Progress: TypeAlias = Callable[[float], None]  # told how much is done, from 0 to 1

PAPERS = {
    "W": "Wampler 1986, Manipulator inverse kinematic solutions based on vector formulations and "
    "damped least-squares methods",
    "MK": "Maciejewski & Klein 1988, Numerical filtering for the operation of robotic manipulators "
    "through kinematically singular configurations",
    "DW": "Deo & Walker 1995, Overview of damped least-squares methods for inverse kinematics of "
    "robot manipulators",
    "B": "Buss 2009, Introduction to inverse kinematics with Jacobian transpose, pseudoinverse and "
    "damped least squares methods",
    "N": "A lecture note, The damped pseudo-inverse",
}


@dataclass(frozen=True)
class Claim:
    """One statement of a paper, compared with the measurement.

    Attributes:
        paper: The statement of the paper.
        measured: The measured result, with units.
        holds: Whether the two agree.
        why: The reason why it holds or does not.
    """

    paper: str
    measured: str
    holds: bool
    why: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "holds", bool(self.holds))  # not NumPy's


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of an experiment.

    Attributes:
        quantities: Finite numbers by name, in SI units unless the experiment says otherwise. A
            quantity of one method among several is `method.quantity`, as `variable.da_peak`.
        claims: The statements of the paper, and whether they hold.
        draw: Function that draws the paper's figure onto an empty one (common parts: `style.py`).
    """

    quantities: Mapping[str, float]
    claims: tuple[Claim, ...]
    draw: Callable[[Figure], object]

    def __post_init__(self) -> None:
        numbers = {name: float(value) for name, value in self.quantities.items()}
        bad = [name for name, value in numbers.items() if not math.isfinite(value)]
        if bad:
            raise ValueError(f"quantities must be finite; these are not: {', '.join(bad)}")
        object.__setattr__(self, "quantities", numbers)


@dataclass(frozen=True)
class Experiment:
    """An experiment with its name on the command line; call it to run it.

    Attributes:
        name: Name such as `mk-two-link`.
        paper: Key of the paper in `PAPERS`.
        figure: Figure, section or equation of the paper.
        title: Subject in a few words.
        deviations: Departures from the printed text, and their reasons.
        run: Function that runs it and reports to a `Progress`.
    """

    name: str
    paper: str
    figure: str
    title: str
    deviations: tuple[str, ...]
    run: Callable[[Progress], Outcome] = field(repr=False)

    def __call__(self, progress: Progress = lambda done: None) -> Outcome:
        """Run the experiment."""
        return self.run(progress)

    @property
    def about(self) -> str:
        """The description of the experiment: the docstring of its function."""
        return inspect.cleandoc(self.run.__doc__ or "")

    @property
    def source(self) -> str:
        """The full reference: the paper and the place in it."""
        return f"{PAPERS[self.paper]} ({self.figure})"


def experiment(
    name: str, *, paper: str, figure: str, title: str, deviations: Iterable[str] = ()
) -> Callable[[Callable[[Progress], Outcome]], Experiment]:
    """Make an `Experiment` from the function that runs it."""

    def named(run: Callable[[Progress], Outcome]) -> Experiment:
        return Experiment(name, paper, figure, title, tuple(deviations), run)

    return named


def each(items: Iterable[T], progress: Progress) -> Iterable[T]:
    """Yield the items and report progress: for the outermost loop of an experiment."""
    every = list(items)
    for done, item in enumerate(every):
        progress(done / len(every))
        yield item
    progress(1.0)


def by_method(results: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return quantities of several methods as one flat mapping: `method.quantity`."""
    return {
        f"{method}.{quantity}": float(value)
        for method, numbers in results.items()
        for quantity, value in numbers.items()
    }
