"""`supple solve`: configurations for one pose, or for a file of poses."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
import numpy as np

import supple as sp
from supple._arrays.tables import Table, write_table
from supple.cli.console import (
    FAILED,
    as_json_option,
    check_figure,
    check_writable,
    out_option,
    print_json,
    print_table,
    progress,
    write_figure,
    writing,
    written,
)
from supple.cli.robots import (
    configuration,
    one_target,
    scene_options,
    table_path,
    target_options,
    targets_in,
    tasks_for,
    with_robot,
    world_arguments,
)
from supple.motion.unit_text import joint_unit, position_units

_FOR_A_RATE = 1000  # least number of poses for a rate; fewer take less time than the preparation
_FILE = click.Path(path_type=Path)


@click.command()
@with_robot
@click.argument("file", type=_FILE, required=False)
@target_options
@click.option("--q0", metavar="Q", help="Configuration to stay near: numbers separated by commas.")
@click.option(
    "--max-move",
    type=float,
    metavar="X",
    help="Largest displacement of a joint from --q0 [rad or m].",
)
@out_option("the solutions")
@click.option("--plot", type=_FILE, metavar="FILE", help="Draw the solution of one pose.")
@click.option("--timeout", type=float, metavar="S", help="Time limit [s].")
@click.option("--device", metavar="NAME", help='"cuda" for a GPU; the CPU by default.')
@scene_options
@as_json_option
@click.pass_context
def solve(
    ctx: click.Context,
    /,
    robot: sp.Robot,
    file: Path | None,
    q0: str | None,
    max_move: float | None,
    out: Path | None,
    plot: Path | None,
    timeout: float | None,
    device: str | None,
    scene: Path | None,
    srdf: Path | None,
    clearance: float,
    as_json: bool,
    **target: Any,
) -> None:
    """Find configurations for a pose, or for all poses of a FILE.

    \b
      supple solve panda --position 0.4 0.1 0.5 --rpy 3.14 0 0
      supple solve arm.urdf poses.csv --out solutions.parquet

    Without a rotation, any orientation is accepted. FILE is csv, Parquet or npz with the columns
    x, y, z [m] and qw, qx, qy, qz (a quaternion, which is normalized), or roll, pitch, yaw [rad],
    or rx, ry, rz (axis times angle [rad]); an npz file may have poses T (N, 4, 4) instead. The
    output has one row for each pose: the joints, the status and the errors. The output file is
    written completely or not at all.

    With --q0, the output also has the distance of the joints from q0, and states whether the
    solution is on the branch of q0, that is, whether a motion without a singularity connects the
    two.

    With --world, solutions are free of collisions with the obstacles of a scene and between links;
    with --srdf alone, only between links.

    Exit code 1 means that a pose was not reached.
    """  # noqa: D301
    near = configuration(robot, q0, "--q0")
    if file is not None and target["position"] is not None:
        raise click.UsageError("give --position or a FILE of poses, not both")
    if file is None and out is not None:
        raise click.UsageError(
            "--out needs a FILE of poses; --json prints the solution of one pose"
        )
    if file is not None and plot is not None:
        raise click.UsageError("--plot draws the solution of one pose; given: a FILE")
    options: dict[str, Any] = {"max_move": max_move, "timeout": timeout, "device": device}
    options |= world_arguments(robot, scene, srdf, clearance)
    if file is None:
        check_figure(plot)
        goal, is_pose = one_target(**target)
        task = tasks_for(robot, target["frame"], is_pose)
        found = sp.Solver(robot, task, **options)(goal, near, explain=device is None)
        if plot is not None:
            write_figure(found.plot(target=goal if is_pose else None), plot)
        _print_one(found, as_json)
        ctx.exit(0 if found else FAILED)
    table_path(out)
    check_writable(out)
    goals, is_pose, _ = targets_in(file)
    task = tasks_for(robot, target["frame"], is_pose)
    began = time.perf_counter()
    with progress("solving", len(goals)) as update:
        every = sp.Solver(robot, task, **options).batch(goals, near, progress=update)
    seconds = time.perf_counter() - began
    if out is not None:
        with writing(out):
            write_table(out, _table(robot, every))
        written(out)
    _print_batch(robot, every, seconds, as_json, listed=out is None)
    ctx.exit(0 if every.success.all() else FAILED)


def one_solution(found: sp.Solution) -> dict[str, Any]:
    """Return a solution as plain values."""
    robot = found.robot
    names = robot.position_names if robot is not None else range(len(found.q))
    start: dict[str, Any] = {}
    if found.q0 is not None:
        start = {"moved": found.moved, "same_branch": found.same_branch}
    if found._check is not None:
        start |= {"clearance": found.clearance, "pairs": [list(pair) for pair in found.pairs]}
    return {
        "success": found.success,
        "status": found.status.name,
        "sentence": found.status.sentence,
        "q": dict(zip(names, found.q.tolist(), strict=True)),
        "position_error": found.position_error,
        "rotation_error": found.rotation_error,
        "iterations": found.iterations,
        "restarts": found.restarts,
        **start,
    }


def _print_one(found: sp.Solution, as_json: bool) -> None:
    if as_json:
        report = None if found.report is None else str(found.report).splitlines()
        print_json({**one_solution(found), "report": report})
        return
    robot = found.robot
    assert robot is not None
    units = position_units(robot)
    rows = [
        (name, f"{x:.6f}", unit, degrees)
        for name, x, unit, degrees in zip(
            robot.position_names,
            found.q,
            units,
            [
                f"{np.degrees(x):.2f}°" if unit == "rad" else ""
                for x, unit in zip(found.q, units, strict=True)
            ],
            strict=True,
        )
    ]
    print_table(f"{robot.name}: {str(found).partition(chr(10))[0]}", ("joint", "q", "", ""), rows)
    if found.q0 is not None:
        branch = "the same" if found.same_branch else "another"
        click.echo(f"moved by at most {found.moved:.4g} {joint_unit(robot)}, on {branch} branch")
    if not found and found.report is not None:
        click.echo(f"\n{found.report}")


def _table(robot: sp.Robot, found: Any) -> Table:
    words = [status.name for status in found.status]
    columns = {
        "q": np.asarray(found.q),
        "status": np.array(words, dtype=np.str_),
        "position_error": np.asarray(found.position_error),
        "rotation_error": np.asarray(found.rotation_error),
        "iterations": np.asarray(found.iterations),
    }
    if found.q0 is not None:
        columns |= {"moved": found.moved, "same_branch": found.same_branch}
    return Table(columns, {"q": robot.position_names})


def _print_batch(robot: sp.Robot, found: Any, seconds: float, as_json: bool, listed: bool) -> None:
    counts = {s.name: found.status.count(s) for s in sp.SolveStatus if found.status.count(s)}
    if as_json:
        made: dict[str, Any] = {
            "targets": found.size,
            "converged": int(found.success.sum()),
            "status": counts,
            "seconds": seconds,
            "per_second": found.size / seconds if seconds > 0 else 0.0,
        }
        if listed:
            made["solutions"] = [one_solution(each) for each in found]
        print_json(made)
        return
    click.echo(str(found))
    rate = f", {found.size / seconds:,.0f} poses per second" if found.size >= _FOR_A_RATE else ""
    click.echo(f"{seconds:.3g} s{rate}")
    if listed:
        click.echo("Solutions were not written: --out FILE writes them, --json prints them.")
