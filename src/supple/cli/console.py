"""Helpers shared by all commands: errors, tables, progress bars and JSON."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from supple._runtime.environment import thread_count
from supple.errors import MissingExtraError

NARROW_WIDTH = 80  # width below which lists are printed instead of tables [characters]
_ANNOUNCED_FROM = 60.0  # duration from which a run is announced [s]
FAILED = 1  # exit code of a command that ran, but not everything succeeded

Command = TypeVar("Command", bound=Callable[..., Any])

as_json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print the result as one JSON object."
)


def out_option(what: str) -> Callable[[Command], Command]:
    """Return the option -o, --out of a command that writes its result to one file."""
    return click.option(
        "-o",
        "--out",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help=f"Write {what}: .csv, .parquet, .npz.",
    )


class UsageError(click.ClickException):
    """An error shown as one line on stderr, with exit code 2 and no traceback."""

    exit_code = 2


def plain(text: str) -> str:
    """Escape brackets, because rich would interpret [m/s] as a style."""
    return text.replace("[", r"\[")


def print_json(value: Any) -> None:
    """Print a value as JSON; numbers that are not finite become null."""
    click.echo(json.dumps(_jsonable(value), indent=2, allow_nan=False, ensure_ascii=False))


def _jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _jsonable(each) for key, each in value.items()}
    if isinstance(value, np.ndarray):
        return _jsonable(value.tolist())
    if isinstance(value, list | tuple):
        return [_jsonable(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value


def print_table(title: str, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows as a table with numbers right-aligned, or as a list in a narrow terminal."""
    console = Console()
    texts = [[plain(str(cell)) for cell in row] for row in rows]
    console.print(plain(title), style="bold", highlight=False)
    if console.width < NARROW_WIDTH:
        for row in texts:
            pairs = zip(head, row, strict=True)
            console.print(
                ", ".join(f"{plain(name)} {cell}".strip() for name, cell in pairs if cell),
                highlight=False,
            )
        return
    table = Table(box=None, show_header=any(head))
    for i, name in enumerate(head):
        cells = [row[i] for row in texts if row[i]]
        numeric = bool(cells) and all(cell[0] in "-+0123456789" for cell in cells)
        table.add_column(plain(name), justify="right" if numeric else "left")
    for row in texts:
        table.add_row(*row)
    console.print(table)


class _Rate(ProgressColumn):
    """A column of a progress bar with the number of completed items per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if not speed else f"{speed:,.0f}/s", style="cyan")


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on stderr if it is a terminal; yield the function that updates it."""
    console = Console(file=sys.stderr)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done, of: bar.update(task, completed=done, total=of)


def expect(ray: Any) -> Callable[[float], None]:
    """Return a function that prints the expected time of a run of more than a minute on stderr.

    Args:
        ray: The options of a Ray cluster, whose time is stated for a single core; None for this
            machine.
    """

    def announce(seconds: float) -> None:
        cores = thread_count(None)
        alone = seconds if ray is not None else seconds / cores
        if alone < _ANNOUNCED_FROM:
            return
        where = "" if ray is not None else f": {duration(alone)} on the {cores} cores here"
        click.echo(
            f"This takes about {duration(seconds)} of one core{where}. To stop, press Ctrl-C; the "
            "same command continues later.",
            err=True,
        )

    return announce


def duration(seconds: float) -> str:
    """Return a duration as text with two digits and a unit, such as "1.5 hours"."""
    for size, unit in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 1.5 * size:
            return f"{float(f'{seconds / size:.2g}'):g} {unit}"
    return f"{float(f'{seconds:.2g}'):g} seconds"


def progress_of_parts(*columns: Any) -> Progress:
    """Return a progress bar on stderr with extra columns, shown only in a terminal."""
    console = Console(file=sys.stderr)
    shown = (TextColumn("{task.description}"), BarColumn(), *columns, TimeElapsedColumn())
    return Progress(*shown, console=console, transient=True, disable=not console.is_terminal)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Convert an OSError while writing a file or folder to a one-line `UsageError`."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error


def check_writable(path: Path | None) -> None:
    """Check that a file can be written, before a long computation."""
    if path is None:
        return
    if path.is_dir():
        raise UsageError(f"cannot write {path}: it is a folder")
    if not path.parent.is_dir():
        raise UsageError(f"cannot write {path}: the folder {path.parent} does not exist")


def check_figure(path: Path | None, option: str = "--plot") -> None:
    """Check that a figure can be drawn and written, before a long computation."""
    if path is None:
        return
    formats = ("png", "svg", "pdf")
    if path.suffix.lstrip(".").lower() not in formats:
        raise click.UsageError(
            f"{option}: the file's suffix must be one of {', '.join(formats)}; given: {path}"
        )
    check_writable(path)
    needs_matplotlib()


def needs_matplotlib() -> None:
    """Raise MissingExtraError if Matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingExtraError("plot", "drawing figures") from error


def write_figure(figure: Any, path: Path) -> None:
    """Write a figure to a file, and print its path."""
    with writing(path):
        figure.savefig(path)
    written(path)


def write_motion(
    motion: Any, out: Path | None, plot: Path | None, animate: Path | None = None
) -> None:
    """Write a trajectory, its figure and its animation, each to its file if one is given."""
    if out is not None:
        with writing(out):
            motion.save(out)
        written(out)
    if plot is not None:
        write_figure(motion.plot(), plot)
    if animate is not None:
        with writing(animate):
            motion.animate().save(animate)
        written(animate)


def written(path: Path) -> None:
    """Print on stderr that a file was written."""
    click.echo(f"written to {path}", err=True)
