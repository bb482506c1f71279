"""`supple batch`: solve the poses in Parquet files; a killed run keeps its finished parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import supple as sp
from supple.cli.console import FAILED, as_json_option, print_json, progress, writing, written
from supple.cli.robots import ray_options, with_robot
from supple.cluster import RayOptions, Solve, solve_parquet

_PATH = click.Path(path_type=Path)


@click.command()
@with_robot
@click.argument("source", metavar="IN", type=_PATH)
@click.argument("folder", metavar="OUT", type=_PATH)
@click.option("--frame", metavar="NAME", help="Controlled frame; the end effector by default.")
@click.option("--branches", type=int, metavar="N", help="Find up to N solutions of each pose.")
@click.option(
    "--prefer",
    default="comfortable",
    show_default=True,
    help='"comfortable", "fast", "limits" or "manipulability".',
)
@click.option(
    "--position-tolerance", default=1e-6, show_default=True, help="Largest position error [m]."
)
@click.option(
    "--rotation-tolerance", default=1e-6, show_default=True, help="Largest rotation error [rad]."
)
@click.option(
    "--max-seeds",
    type=int,
    metavar="N",
    help="Number of seeds after which the search for a pose ends.",
)
@click.option("--part-rows", default=131_072, show_default=True, help="Number of poses in a part.")
@click.option("--device", metavar="NAME", help='"cuda" for a GPU; the CPU by default.')
@ray_options
@as_json_option
@click.pass_context
def batch(
    ctx: click.Context,
    /,
    robot: sp.Robot,
    source: Path,
    folder: Path,
    part_rows: int,
    ray: RayOptions | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Solve the poses in IN, a Parquet file or folder; write results to the folder OUT.

    \b
      supple batch ur5e poses.parquet solutions
      supple batch ur5e poses/ solutions --ray --cpus 1

    IN has the columns x, y, z [m] and qw, qx, qy, qz; or a column T with the 16 numbers of each
    pose; or x, y, z alone, for positions. OUT gets Parquet files with the joint positions, the
    status and the errors. To continue a run that was interrupted or killed, repeat the same
    command; finished parts are kept.

    Exit code 1 means that a pose was not reached.
    """  # noqa: D301
    stage = Solve(robot, **options)
    with progress("solving", 1) as update, writing(folder):
        made = solve_parquet(stage, source, folder, part_rows=part_rows, ray=ray, progress=update)
    converged, total = made.counts.get("CONVERGED", 0), sum(made.counts.values())
    rate = total / made.seconds if made.seconds > 0 and not made.resumed else None
    if as_json:
        print_json(
            {
                "targets": total,
                "converged": converged,
                "status": made.counts,
                "rows": made.rows,
                "parts": made.parts,
                "resumed_parts": made.resumed,
                "seconds": made.seconds,
                "per_second": rate,
            }
        )
    else:
        written(folder)
        click.echo(f"{total:,} targets")
        for name, number in made.counts.items():
            click.echo(f"  {number:>12,} {name.lower()}")
        if made.resumed:
            click.echo(f"{made.resumed} of {made.parts} parts were there already")
        click.echo(f"{made.seconds:.3g} s" + (f", {rate:,.0f} per second" if rate else ""))
    ctx.exit(0 if converged == total else FAILED)
