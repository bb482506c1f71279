"""`supple branches`: all solutions of one pose, such as elbow up and elbow down."""

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
from supple.errors import InputError
from supple.kinematics.branch import BRANCHES, branch_legend, branch_words, has_branches

_COLUMN_WIDTH = 10  # width of a solution's column [characters]


@click.command()
@with_robot
@target_options
@click.option("--most", default=16, show_default=True, help="Maximum number of solutions shown.")
@click.option("--wraps", is_flag=True, help="Include solutions that differ by full turns.")
@click.option("--q0", metavar="Q", help="Configuration; the solution nearest to it is first.")
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
    wraps: bool,
    q0: str | None,
    plot: Path | None,
    as_json: bool,
    **target: Any,
) -> None:
    """Show all solutions of one pose.

    The solution farthest from joint limits is first or, with --q0, the one nearest to Q.

    For an arm of six revolute joints, all solutions are found. For other robots, the solutions are
    found by a search from many seeds, and there may be more. Without a rotation, any orientation is
    accepted, and there are infinitely many solutions, of which some are shown. At a singular pose,
    and for a redundant robot, there may be infinitely many solutions, of which samples are shown.
    Shoulder, elbow and wrist identify the branch; a legend explains the words.
    """
    check_figure(plot)
    near = configuration(robot, q0, "--q0")
    goal, is_pose = one_target(**target)
    task = tasks_for(robot, target["frame"], is_pose)
    if most < 1:
        raise InputError(f"--most must be a positive number of solutions; given: {most}")
    every = sp.Solver(robot, task).all(goal, near, wraps=wraps)
    found = every[:most] if len(every) > most else every
    if plot is not None:
        write_figure(found.plot(target=goal if is_pose else None), plot)
    if as_json:
        print_json(
            {
                "count": len(every),
                "complete": bool(every.complete),
                "reason": every.reason,
                "solutions": [one_solution(each) for each in found],
            }
        )
    elif len(every):
        _print(robot, found, target["frame"], near)
        if len(every) > most:
            click.echo(f"{len(every) - most} more are not shown: --most {len(every)} shows them.")
        if not is_pose and every.sampled.any():
            click.echo("Without a rotation there are infinitely many solutions; these are some.")
        elif every.reason:
            click.echo(f"There may be more: {every.reason}.")
    else:
        closest = sp.solve(robot, goal, tasks=task, q0=near)
        click.echo(f"{robot.name}: no solution; {closest}")
    ctx.exit(0 if len(every) else FAILED)


def _print(robot: sp.Robot, found: sp.Solutions, frame: str | None, near: Any) -> None:
    """Print one column per solution, in blocks that fit the width of the terminal."""
    rows = [
        [name, *(f"{x:.4f}" for x in found.q[:, j])] for j, name in enumerate(robot.position_names)
    ]
    sigma = robot.singular_values(found.q, frame or robot.tips[0])[..., -1]
    rows.append(["σ_min", *(f"{x:.3g}" for x in sigma)])
    legend: tuple[str, ...] = ()
    if found.frame is not None and has_branches(robot, found.frame):
        words = branch_words(robot, found.branch, found.frame)
        rows += [
            [name, *each] for name, each in zip(BRANCHES, zip(*words, strict=True), strict=True)
        ]
        legend = branch_legend(robot, found.frame)
    always: Any = np.zeros(robot.dof, dtype=np.bool_)
    if found.frame is not None and found.sampled.any():
        free = found.free
        always = free.all(axis=0)
        for j in np.flatnonzero(free.any(axis=0) & ~always):
            moves = ("yes" if x else "" for x in free[:, j])
            rows.append([f"{robot.joint_names[j]} moves freely", *moves])
    if near is not None:
        away = np.abs(robot.difference(found.q, near)).max(axis=1)
        rows.append(["largest move from q0", *(f"{x:.3g}" for x in away)])
    label = max(len(row[0]) for row in rows) + 2
    fit = max((Console().width - label) // _COLUMN_WIDTH, 1)
    title = f"{robot.name}: {str(found).partition(chr(10))[0]}"
    for first in range(0, len(found), fit):
        part = slice(first + 1, first + 1 + fit)
        head = ["", *(f"#{k}" for k in range(first, min(first + fit, len(found))))]
        print_table(title if first == 0 else "", head, [[row[0], *row[part]] for row in rows])
    for line in legend:
        click.echo(line)
    if always.any():
        names = [name for name, each in zip(robot.joint_names, always, strict=True) if each]
        who = "all joints" if always.all() else ", ".join(names)
        click.echo(f"In each of these solutions, {who} can move while the frame stays.")
