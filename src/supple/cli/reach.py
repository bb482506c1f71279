"""`supple reach`: a map of the positions and orientations that a robot reaches."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
import numpy as np

import supple as sp
from supple.cli.console import (
    as_json_option,
    check_figure,
    print_json,
    print_table,
    progress,
    write_figure,
    writing,
    written,
)
from supple.cli.robots import map_value_option, ray_options, with_robot
from supple.cluster import RayOptions, reachability

_PATH = click.Path(path_type=Path)


@click.command()
@with_robot
@click.argument("folder", metavar="OUT", type=_PATH)
@click.option("--frame", metavar="NAME", help="Controlled frame; the end effector by default.")
@click.option("--spacing", default=0.05, show_default=True, help="Distance between voxels [m].")
@click.option("--orientations", default=64, show_default=True, help="Number of orientations.")
@click.option(
    "--levels", default=2, show_default=True, help="Number of coarser grids that are solved first."
)
@click.option("--no-values", is_flag=True, help="Omit manipulability and singular values.")
@click.option("--plot", type=_PATH, metavar="FILE", help="Draw slices: .png, .svg, .pdf.")
@map_value_option
@click.option("--device", metavar="NAME", help='"cuda" for a GPU; the CPU by default.')
@ray_options
@as_json_option
def reach(
    robot: sp.Robot,
    folder: Path,
    no_values: bool,
    plot: Path | None,
    value: str,
    ray: RayOptions | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Map the poses that a robot reaches, and write the map into the folder OUT.

    \b
      supple reach ur5e map --spacing 0.025 --plot map.png
      supple reach ur5e map --spacing 0.01 --orientations 500 --ray auto

    OUT gets voxels.parquet, with x, y, z [m], the fraction of the orientations that are reached
    (dexterity), the manipulability and the smallest singular value of each voxel; and the folder
    poses, with a row for each reached voxel and orientation. To continue a run that was
    interrupted or killed, repeat the same command.
    """  # noqa: D301
    check_figure(plot)
    if no_values and value != "dexterity":
        raise click.UsageError(
            f"--value {value} must not be given together with --no-values, which omits it"
        )
    began = time.perf_counter()
    with progress("exploring", 1) as update, writing(folder):
        found = reachability(
            robot, folder, values=not no_values, ray=ray, progress=update, **options
        )
    seconds = time.perf_counter() - began
    there = found.dexterity > 0
    volume = float(there.sum()) * found.spacing**3
    if plot is not None:
        write_figure(found.plot(value), plot)
    written(folder)
    summary: dict[str, Any] = {
        "robot": robot.name,
        "voxels": int(found.dexterity.size),
        "orientations": len(found.orientations),
        "poses": int(found.dexterity.size) * len(found.orientations),
        "reached_voxels": int(there.sum()),
        "volume": volume,
        "mean_dexterity": float(found.dexterity[there].mean()) if there.any() else 0.0,
        "full_dexterity_voxels": int(np.count_nonzero(found.dexterity == 1)),
        "seconds": seconds,
    }
    if as_json:
        print_json(summary)
        return
    rows = [
        ("poses", f"{summary['poses']:,}"),
        ("reached volume", f"{volume:.3g} m³"),
        ("mean dexterity there", f"{100 * summary['mean_dexterity']:.1f} %"),
        ("voxels reached with all orientations", f"{summary['full_dexterity_voxels']:,}"),
        ("time", f"{seconds:.3g} s"),
    ]
    print_table(f"{robot.name}, voxels of {found.spacing:g} m", ("", ""), rows)
