"""`supple dataset`: samples of configurations and poses for machine learning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import supple as sp
from supple.cli.console import as_json_option, expect, print_json, progress, writing, written
from supple.cli.robots import ray_options, with_robot
from supple.cluster import RayOptions, sample_dataset


@click.command()
@with_robot
@click.argument("folder", metavar="OUT", type=click.Path(path_type=Path))
@click.option("--count", default=1_000_000, show_default=True, help="Number of samples.")
@click.option(
    "--scheme", default="joints", show_default=True, help="joints, workspace, singular or paths."
)
@click.option("--frame", metavar="NAME", help="Frame of the poses; the end effector by default.")
@click.option("--seed", default=0, show_default=True, help="Seed of the random numbers.")
@click.option("--branches", type=int, metavar="N", help="Find up to N solutions of each pose.")
@click.option("--region", default=0.1, show_default=True, help="Edge length of a region [m].")
@click.option("--test-share", default=0.1, show_default=True, help="Fraction of test regions.")
@click.option(
    "--part-rows", default=131_072, show_default=True, help="Number of samples in a part."
)
@ray_options
@as_json_option
def dataset(
    robot: sp.Robot,
    folder: Path,
    count: int,
    ray: RayOptions | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Write samples of configurations and poses into the folder OUT, as Parquet.

    \b
      supple dataset panda data
      supple dataset panda data --count 100000 --scheme workspace

    Schemes: joints (uniform in joint space), workspace (uniform over the reachable poses), singular
    (near singularities), paths (lines in joint space). A sample of the scheme workspace takes about
    a millisecond on one core, one of another scheme some microseconds; the expected time of a long
    run is printed first. The column split is "train" or "test", by region of space. To continue
    a run that was interrupted or killed, repeat the same command.
    """  # noqa: D301
    with progress("sampling", count) as update, writing(folder):
        made = sample_dataset(
            robot, folder, count, ray=ray, progress=update, estimate=expect(ray), **options
        )
    written(folder)
    if as_json:
        summary = {"rows": made.rows, **made.counts, "parts": made.parts}
        print_json({**summary, "resumed_parts": made.resumed, "seconds": made.seconds})
        return
    numbers = made.counts
    click.echo(
        f"{made.rows:,} rows: {numbers['train']:,} for training, {numbers['test']:,} to test"
    )
    if made.resumed:
        click.echo(f"{made.resumed} of {made.parts} parts were there already")
    click.echo(f"{made.seconds:.3g} s")
