"""Experiments of a paper, and their outcomes.

An experiment repeats the paper's robot, path and methods, compares its claims and draws its figure.
The decorator `experiment` makes an experiment from a function; `supple.papers.EXPERIMENTS` lists
all experiments.

    @experiment(
        "n-gain", paper="N", figure="eq. (1)", title="...", deviations=("...",),
        parameters=(Parameter("spread", 4.0, "decades", "range of singular values"),),
    )
    def gain(progress: Progress, *, spread: float) -> Outcome:
        ...
        return Outcome(quantities, claims, draw, (Table("ratio", {"ratio": x, "gain": y}),))

To change values of parameters, pass them by name: `EXPERIMENTS["n-gain"](spread=2)`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from supple.errors import InputError, unknown_name_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")
Progress: TypeAlias = Callable[[float], None]  # called with the fraction done, from 0 to 1

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

THESIS = "Thesis: "  # prefix of a paper's main claim
OWN = "Not in the paper: "  # prefix of supple's own statements in tables


@dataclass(frozen=True)
class Parameter:
    """A number in an experiment that can be changed from the paper's value.

    Attributes:
        name: Name in calls and after `--set`.
        default: The paper's value, or this project's reading of it. If it is an integer, values
            must be integers.
        unit: Unit, such as `rad/m`; empty for pure numbers.
        meaning: Description in a few words.
        above: Exclusive lower bound on values.
        most: Upper bound on values.
    """

    name: str
    default: float
    unit: str
    meaning: str
    above: float = -math.inf
    most: float = math.inf

    def checked(self, value: object, experiment: str) -> float:
        """Check a value and return it in the type of the default.

        Raises:
            InputError: The value is not a finite number, or is out of range.
        """
        whole = isinstance(self.default, int)
        try:
            number = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        fits = math.isfinite(number) and self.above < number <= self.most
        if not fits or isinstance(value, bool) or (whole and number != int(number)):
            what = f"{'an integer' if whole else 'a number'}{self._range}"
            raise InputError(f"{experiment}: {self.name} must be {what}; given: {value!r}")
        return int(number) if whole else number

    @property
    def _range(self) -> str:
        low = f" above {self.above:g}" if math.isfinite(self.above) else ""
        high = f" of at most {self.most:g}" if math.isfinite(self.most) else ""
        return f"{low}{' and' if low and high else ''}{high}"

    def __str__(self) -> str:
        unit = f" [{self.unit}]" if self.unit else ""
        bounds = f",{self._range}" if self._range else ""
        return f"{self.name} = {self.default:g}{unit}{bounds}: {self.meaning}"


@dataclass(frozen=True)
class Claim:
    """One statement of a paper, compared with the measurement. The text of a paper's main thesis
    begins with `THESIS`.

    Attributes:
        paper: The statement of the paper.
        measured: The measured result, with units.
        holds: Whether statement and measurement agree; None if the text is too vague to decide.
        why: The reason for the value of `holds`.
        own: Whether the statement is supple's, not the paper's. Such a statement is marked, and not
            counted among the claims of the papers.
    """

    paper: str
    measured: str
    holds: bool | None
    why: str
    own: bool = False

    def __post_init__(self) -> None:
        if self.holds is not None:
            object.__setattr__(self, "holds", bool(self.holds))  # converts NumPy's bool

    @property
    def statement(self) -> str:
        """The statement of the claim, with a prefix if it is not the paper's."""
        return f"{OWN}{self.paper}" if self.own else self.paper


@dataclass(frozen=True, eq=False)
class Table:
    """Curves with a common abscissa, as columns of equal length for one CSV file.

    Attributes:
        over: Name of the abscissa, which is one of the columns.
        columns: Arrays (K,) or (K, d) by name, in SI units unless the experiment says otherwise. A
            column of one method among several is `method.quantity`.
    """

    over: str
    columns: Mapping[str, NDArray[np.floating[Any]]]

    def __post_init__(self) -> None:
        columns = {name: np.asarray(values, dtype=float) for name, values in self.columns.items()}
        count = len(columns[self.over])
        uneven = [n for n, x in columns.items() if x.ndim not in (1, 2) or len(x) != count]
        if uneven:
            raise ValueError(f"columns must have {count} rows; these do not: {', '.join(uneven)}")
        object.__setattr__(self, "columns", columns)

    def csv(self) -> str:
        """Return the table as CSV text; a column (K, d) becomes d columns `name_1`, …"""
        flat: dict[str, NDArray[np.floating[Any]]] = {}
        for name in (self.over, *(name for name in self.columns if name != self.over)):
            values = self.columns[name]
            if values.ndim == 1:
                flat[name] = values
            else:
                flat |= {f"{name}_{k + 1}": part for k, part in enumerate(values.T)}
        rows = zip(*(column.tolist() for column in flat.values()), strict=True)
        return "\n".join([",".join(flat), *(",".join(map(repr, row)) for row in rows)]) + "\n"


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of an experiment.

    Attributes:
        quantities: Finite numbers by name, in SI units unless the experiment says otherwise. A
            quantity of one method among several is `method.quantity`, as `variable.da_peak`.
        claims: The statements of the paper, and whether they hold.
        draw: Function that draws the paper's figure into an empty Matplotlib figure (see
            `style.py`).
        tables: The full curves of the figure, grouped by abscissa.
    """

    quantities: Mapping[str, float]
    claims: tuple[Claim, ...]
    draw: Callable[[Figure], object]
    tables: tuple[Table, ...] = ()

    def __post_init__(self) -> None:
        numbers = {name: float(value) for name, value in self.quantities.items()}
        bad = [name for name, value in numbers.items() if not math.isfinite(value)]
        if bad:
            raise ValueError(f"quantities must be finite; these are not: {', '.join(bad)}")
        object.__setattr__(self, "quantities", numbers)
        names = [name for table in self.tables for name in table.columns]
        if len(set(names)) < len(names):
            raise ValueError(f"each curve must have a unique name; given: {', '.join(names)}")

    @property
    def curves(self) -> dict[str, NDArray[np.floating[Any]]]:
        """All curves as arrays by name, as in `outcome.curves["variable.error"]`."""
        return {name: x for table in self.tables for name, x in table.columns.items()}


@dataclass(frozen=True)
class Experiment:
    """An experiment, which runs when it is called.

        outcome = EXPERIMENTS["mk-two-link"](max_gain=1.5)

    Attributes:
        name: Name on the command line, such as `mk-two-link`.
        paper: Key of the paper in `PAPERS`.
        figure: Figure, section or equation of the paper.
        title: Subject in a few words.
        deviations: Departures from the printed text, and their reasons.
        parameters: Numbers that can be changed.
        run: Function that runs the experiment, reports to a `Progress` and takes every parameter by
            name.
    """

    name: str
    paper: str
    figure: str
    title: str
    deviations: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    run: Callable[..., Outcome] = field(repr=False)

    def __call__(self, progress: Progress = lambda done: None, /, **values: float) -> Outcome:
        """Run the experiment.

        Args:
            progress: Function that is called with the fraction done, from 0 to 1.
            values: Values of parameters that replace their defaults, by name.

        Raises:
            UnknownNameError: The experiment has no parameter of a given name.
            InputError: A value is invalid, or the experiment cannot be computed with it.
        """
        chosen = self.settings(values)
        try:
            return self.run(progress, **chosen)
        except (InputError, ArithmeticError, ValueError) as error:
            changed = [each for each in self.parameters if chosen[each.name] != each.default]
            if not changed:
                raise
            given = ", ".join(f"{each.name}={chosen[each.name]:g}" for each in changed)
            ranges = "; ".join(map(str, changed))
            raise InputError(
                f"{self.name} cannot be computed with {given}: {error}. Values nearer to the "
                f"paper's may work: {ranges}"
            ) from error

    def settings(self, values: Mapping[str, object]) -> dict[str, float]:
        """Return the value of every parameter: the checked value in `values`, or the default."""
        named = {each.name: each for each in self.parameters}
        for name in values:
            if name not in named:
                raise unknown_name_error(f"parameter of {self.name}", name, named)
        return {
            name: each.checked(values.get(name, each.default), self.name)
            for name, each in named.items()
        }

    @property
    def about(self) -> str:
        """The description of the experiment: the docstring of its function."""
        return inspect.cleandoc(self.run.__doc__ or "")

    @property
    def source(self) -> str:
        """The full reference: the paper and the place in it."""
        return f"{PAPERS[self.paper]} ({self.figure})"


def experiment(
    name: str,
    *,
    paper: str,
    figure: str,
    title: str,
    deviations: Iterable[str] = (),
    parameters: Iterable[Parameter] = (),
) -> Callable[[Callable[..., Outcome]], Experiment]:
    """Make an `Experiment` from the function that runs it."""

    def named(run: Callable[..., Outcome]) -> Experiment:
        return Experiment(name, paper, figure, title, tuple(deviations), tuple(parameters), run)

    return named


def each(items: Iterable[T], progress: Progress) -> Iterable[T]:
    """Yield the items of an experiment's outermost loop and report the fraction done."""
    every = list(items)
    for done, item in enumerate(every):
        progress(done / len(every))
        yield item
    progress(1.0)


def by_method(results: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the quantities of several methods as one mapping with keys `method.quantity`."""
    return {
        f"{method}.{quantity}": float(value)
        for method, numbers in results.items()
        for quantity, value in numbers.items()
    }
