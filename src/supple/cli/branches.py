"""`supple branches`: several solutions of one pose, such as elbow up and elbow down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console

import supple as sp
from supple.cli.console import (
    FAILED,
    as_json_option,
    check_figure,
    print_json,
    print_table,
    write_figure,
)
from supple.cli.robots import configuration, one_target, target_options, tasks_for, with_robot
from supple.cli.solve import one_solution

_COLUMN = 10  # width of a solution's column [characters]


@click.command()
@with_robot
@target_options
@click.option("--most", default=16, show_default=True, help="Maximum number of solutions.")
@click.option("--q0", metavar="Q", help="Configuration; the nearest solution is first.")
@click.option(
    "--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw all solutions together."
)
@as_json_option
@click.pass_context
def branches(
    ctx: click.Context,
    /,
    robot: sp.Robot,
    most: int,
    q0: str | None,
    plot: Path | None,
    as_json: bool,
    **target: Any,
) -> None:
    """Show several solutions of one pose, the best first.

    The search starts from many seeds, and may not find all solutions. A redundant robot has
    infinitely many.
    """
    check_figure(plot)
    near = configuration(robot, q0, "--q0")
    goal, is_pose = one_target(**target)
    task = tasks_for(robot, target["frame"], is_pose)
    found = sp.solve(robot, goal, tasks=task, q0=near, solutions=most)
    if plot is not None:
        write_figure(found.plot(target=goal if is_pose else None), plot)
    if as_json:
        every = [one_solution(each) for each in found]
        print_json({"count": int(found.success.sum()), "solutions": every})
    else:
        _print(robot, found, target["frame"], near)
    ctx.exit(0 if found.success.any() else FAILED)


def _print(robot: sp.Robot, found: sp.Solutions, frame: str | None, near: Any) -> None:
    """Print one column per solution, in blocks that fit the width of the terminal."""
    rows = [
        [name, *(f"{x:.4f}" for x in found.q[:, j])] for j, name in enumerate(robot.joint_names)
    ]
    sigma = robot.singular_values(found.q, frame or robot.tips[0])[..., -1]
    rows.append(["σ_min", *(f"{x:.3g}" for x in sigma)])
    if near is not None:
        rows.append(["farthest from q0", *(f"{x:.3g}" for x in np.abs(found.q - near).max(axis=1))])
    names = max(len(row[0]) for row in rows) + 2
    fit = max((Console().width - names) // _COLUMN, 1)
    title = f"{robot.name}: {str(found).partition(chr(10))[0]}"
    for first in range(0, len(found), fit):
        part = slice(first + 1, first + 1 + fit)
        head = ["", *(f"#{k}" for k in range(first, min(first + fit, len(found))))]
        print_table(title if first == 0 else "", head, [[row[0], *row[part]] for row in rows])
