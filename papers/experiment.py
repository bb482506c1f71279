"""What an experiment of a paper is: a function that runs it, and what comes of that.

An experiment is written beside the paper's text: its robot, path and methods, then the claims, then
the figure. The decorator names it; `supple.papers.EXPERIMENTS` lists all.

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
    """One sentence of a paper, held against what was measured.

    Attributes:
        paper: What the paper says.
        measured: What came out here, with units.
        holds: Whether the two agree.
        why: The reason, if it holds or not.
    """

    paper: str
    measured: str
    holds: bool
    why: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "holds", bool(self.holds))  # not NumPy's


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of an experiment.

    Attributes:
        quantities: The numbers by name, SI units unless the experiment says otherwise, all finite.
            That of one method among several is `method.quantity`, as `variable.da_peak`.
        claims: What the paper says, and whether it holds.
        draw: Draws the paper's figure onto an empty one (`style.py` has the common parts).
    """

    quantities: Mapping[str, float]
    claims: tuple[Claim, ...]
    draw: Callable[[Figure], None]

    def __post_init__(self) -> None:
        numbers = {name: float(value) for name, value in self.quantities.items()}
        bad = [name for name, value in numbers.items() if not math.isfinite(value)]
        if bad:
            raise ValueError(f"quantities must be finite; these are not: {', '.join(bad)}")
        object.__setattr__(self, "quantities", numbers)


@dataclass(frozen=True)
class Experiment:
    """An experiment by its name on the command line; called, it runs.

    Attributes:
        name: As `mk-two-link`.
        paper: A key of `PAPERS`.
        figure: Where in the paper.
        title: What it shows, in a few words.
        deviations: Where this reading departs from the print, and why.
        run: Runs it, telling a `Progress` how far it is.
    """

    name: str
    paper: str
    figure: str
    title: str
    deviations: tuple[str, ...]
    run: Callable[[Progress], Outcome] = field(repr=False)

    def __call__(self, progress: Progress = lambda done: None) -> Outcome:
        """Run it."""
        return self.run(progress)

    @property
    def about(self) -> str:
        """What is done, in a paragraph or two: the docstring of the function that does it."""
        return inspect.cleandoc(self.run.__doc__ or "")

    @property
    def source(self) -> str:
        """The paper and the place in it, in full."""
        return f"{PAPERS[self.paper]} ({self.figure})"


def experiment(
    name: str, *, paper: str, figure: str, title: str, deviations: Iterable[str] = ()
) -> Callable[[Callable[[Progress], Outcome]], Experiment]:
    """Makes an `Experiment` of the function that runs it."""

    def named(run: Callable[[Progress], Outcome]) -> Experiment:
        return Experiment(name, paper, figure, title, tuple(deviations), run)

    return named


def each(items: Iterable[T], progress: Progress) -> Iterable[T]:
    """The items one by one, telling the progress: for the outermost loop of an experiment."""
    every = list(items)
    for done, item in enumerate(every):
        progress(done / len(every))
        yield item
    progress(1.0)


def by_method(results: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Quantities of several methods as one flat mapping: `method.quantity`."""
    return {
        f"{method}.{quantity}": float(value)
        for method, numbers in results.items()
        for quantity, value in numbers.items()
    }
