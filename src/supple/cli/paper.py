"""`supple paper`: run experiments of papers; print claims, write figures, curves or a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import click
from rich.console import Console
from rich.progress import MofNCompleteColumn
from rich.table import Table

from supple.cli.console import (
    NARROW_WIDTH,
    check_figure,
    needs_matplotlib,
    plain,
    print_json,
    progress_of_parts,
    writing,
)
from supple.errors import unknown_name_error
from supple.papers import EXPERIMENTS, PAPERS, Experiment, Outcome, style
from supple.papers.report import HEADINGS, held, page, verdict
from supple.papers.running import Finding, find_all


@click.command()
@click.argument("name", required=False)
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw the figure: png, svg, pdf.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the quantities as one JSON object.")
@click.option(
    "--report",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write index.html to this folder: every figure and table on one page.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set a parameter of the experiment; repeatable.",
)
@click.option(
    "--csv",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write the full curves to this folder, as CSV files.",
)
def paper(
    name: str | None,
    plot: Path | None,
    as_json: bool,
    report: Path | None,
    settings: tuple[str, ...],
    csv: Path | None,
) -> None:
    """Run the experiments of papers, and check their claims one by one.

    NAME is the name of an experiment, or "all". Without NAME, list the experiments.
    """
    if name is None:
        if plot or report or as_json or settings or csv:
            raise click.UsageError("options need the NAME of an experiment, or all; given: no NAME")
        _list()
    elif name == "all" or report:
        if plot:
            raise click.UsageError(
                "--plot is for one experiment without --report; --report DIR writes all figures"
            )
        if name == "all" and settings:
            raise click.UsageError(
                "--set changes one experiment; given: all. Give the NAME of an experiment"
            )
        names = list(EXPERIMENTS) if name == "all" else [_known(name).name]
        findings = _findings(names, report, csv, _values(names[0], settings))
        if as_json:
            every = {each.name: each.quantities for each in findings}
            print_json(every if name == "all" else every[name])
        else:
            _summary(findings, tables=report is None)
    else:
        _one(_known(name), as_json, plot, csv, _values(name, settings))


def _known(name: str) -> Experiment:
    if name not in EXPERIMENTS:
        raise unknown_name_error("experiment", name, [*EXPERIMENTS, "all"])
    return EXPERIMENTS[name]


def _values(name: str, settings: Sequence[str]) -> dict[str, float]:
    """Return the parameters given by --set, checked before the experiment runs."""
    given = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise click.UsageError(f"--set needs NAME=VALUE; given: {setting}")
        given[key.strip()] = value.strip()
    every = EXPERIMENTS[name].settings(given)
    return {key: every[key] for key in given}


def _list() -> None:
    for key, citation in PAPERS.items():
        of_paper = [each for each in EXPERIMENTS.values() if each.paper == key]
        console = Console()
        if of_paper and console.width < NARROW_WIDTH:
            console.print(plain(citation), style="italic")
            for each in of_paper:
                console.print(f"[bold]{each.name}[/]", plain(f"({each.figure}): {each.title}"))
            console.print()
        elif of_paper:
            table = Table(title=citation, title_justify="left", box=None, show_header=False)
            table.add_column(no_wrap=True, style="bold", min_width=18)
            table.add_column(no_wrap=True, min_width=10)
            table.add_column()
            for each in of_paper:
                table.add_row(each.name, each.figure, each.title)
            console.print(table, "")
    click.echo("supple paper NAME runs one of them, supple paper all runs every one.")


def _one(
    experiment: Experiment,
    as_json: bool,
    plot: Path | None,
    csv: Path | None,
    values: dict[str, float],
) -> None:
    if plot:
        check_figure(plot)
    _make_folder(csv)
    with progress_of_parts() as bar:
        task = bar.add_task(experiment.name, total=1.0)
        outcome = experiment(lambda done: bar.update(task, completed=done), **values)
    _write_curves(csv, experiment.name, outcome)
    if plot:
        with writing(plot):
            style.write(outcome, experiment.name, plot)
        click.echo(f"written to {plot}", err=True)
    if as_json:
        print_json(outcome.quantities)
    else:
        _claims(experiment, outcome, values)


def _findings(
    names: Sequence[str], report: Path | None, csv: Path | None, values: dict[str, float]
) -> list[Finding]:
    """Run experiments in separate processes; write the page and the curves if folders are given."""
    if report:
        needs_matplotlib()
    _make_folder(report)
    _make_folder(csv)
    found: dict[str, Finding] = {}
    running = closing(find_all(names, report is not None, csv is not None, values))
    with progress_of_parts(MofNCompleteColumn()) as bar, running as every:
        task = bar.add_task("experiments", total=len(names))
        for finding in every:
            found[finding.name] = finding
            _write_curves(csv, finding.name, finding)
            bar.update(task, advance=1, description=f"done: {finding.name}")
    findings = [found[name] for name in names]
    if report:
        with writing(file := report / "index.html"):
            file.write_text(page(findings), encoding="utf-8")
        click.echo(f"written to {file}", err=True)
    return findings


def _summary(findings: Sequence[Finding], tables: bool) -> None:
    for each in findings if tables else ():
        _claims(each.experiment, each, each.values)
    click.echo(held(findings))


def _make_folder(folder: Path | None) -> None:
    if folder:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)


def _write_curves(folder: Path | None, name: str, outcome: Outcome | Finding) -> None:
    """Write the curves to CSV files, one for each quantity on a horizontal axis: NAME.AXIS.csv."""
    for table in outcome.tables if folder else ():
        with writing(file := Path(folder or "") / f"{name}.{table.over}.csv"):
            file.write_text(table.csv(), encoding="utf-8")
        click.echo(f"written to {file}", err=True)


def _claims(
    experiment: Experiment, outcome: Outcome | Finding, values: Mapping[str, float]
) -> None:
    """Print each claim of a paper with its measurement and verdict, as a table or a list."""
    console, title = Console(), f"{experiment.name}: {experiment.title}"
    rows = [
        (plain(claim.statement), plain(claim.measured), _mark(claim.holds), plain(claim.why))
        for claim in outcome.claims
    ]
    if console.width < NARROW_WIDTH:
        console.print(plain(title), "", style="bold", sep="\n")
        for row in rows:
            for heading, words in zip(HEADINGS, row, strict=True):
                console.print(f"[bold]{heading}:[/] {words}" if heading else words)
            console.print()
    else:
        table = Table(title=title, title_justify="left", title_style="bold", show_lines=True)
        for heading in HEADINGS:
            table.add_column(heading, no_wrap=not heading, ratio=None if not heading else 1)
        for row in rows:
            table.add_row(*row)
        console.print(table)
    console.print(plain(experiment.source), style="dim")
    for each in experiment.deviations:
        console.print(plain(f"Deviation from the paper: {each}"), style="dim")
    for parameter in experiment.parameters:
        changed = f"; here {values[parameter.name]:g}" if parameter.name in values else ""
        console.print(plain(f"Parameter: {parameter}{changed}"), style="dim")
    console.print()


def _mark(holds: bool | None) -> str:
    color = {True: "green", False: "red", None: "yellow"}[holds]
    return f"[{color}]{verdict(holds)}[/]"
