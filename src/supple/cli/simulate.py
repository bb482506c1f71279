"""`supple simulate`: a motion along the poses in a file, or with a constant twist."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

import supple as sp
from supple.cli.console import (
    as_json_option,
    check_figure,
    check_writable,
    out_option,
    print_json,
    write_motion,
)
from supple.cli.robots import (
    certificate_values,
    configuration,
    path_in,
    scene_options,
    table_path,
    tasks_for,
    with_robot,
    world_arguments,
)
from supple.control.arguments import ACCELERATION_TIME
from supple.errors import InputError
from supple.view.methods import DEFAULT, method, method_names

_FILE = click.Path(path_type=Path)


@click.command()
@with_robot
@click.argument("file", type=_FILE, required=False)
@click.option(
    "--twist",
    nargs=6,
    type=float,
    metavar="VX VY VZ WX WY WZ",
    help="Constant twist to follow [m/s, rad/s].",
)
@click.option(
    "--duration", type=float, metavar="S", help="Duration of the motion, with --twist [s]."
)
@click.option("--frame", metavar="NAME", help="Frame to move; the end effector by default.")
@click.option("--dt", default=0.01, show_default=True, help="Length of a step [s].")
@click.option(
    "--q0", metavar="Q", help="Initial configuration; by default the solution of the first pose."
)
@click.option(
    "--method",
    "name",
    default=DEFAULT,
    show_default=True,
    type=click.Choice(method_names(), case_sensitive=False),
    help="Damping rule, or another step.",
)
@click.option("--max-speed", type=float, help="Speed limit of every joint [rad/s or m/s].")
@click.option("--max-acceleration", type=float, help="Acceleration limit [rad/s² or m/s²].")
@click.option("--max-norm", type=float, help="Bound on the norm of all joint speeds.")
@out_option("the motion")
@click.option(
    "--plot", type=_FILE, metavar="FILE", help="Draw the motion over time: png, svg, pdf."
)
@click.option("--animate", type=_FILE, metavar="FILE", help="Write an animation: .html, .gif.")
@scene_options
@as_json_option
def simulate(
    robot: sp.Robot,
    file: Path | None,
    twist: tuple[float, ...] | None,
    duration: float | None,
    frame: str | None,
    dt: float,
    q0: str | None,
    name: str,
    max_speed: float | None,
    max_acceleration: float | None,
    max_norm: float | None,
    out: Path | None,
    plot: Path | None,
    animate: Path | None,
    scene: Path | None,
    srdf: Path | None,
    clearance: float,
    as_json: bool,
) -> None:
    """Follow the poses of a FILE over time, or a twist, inside the joint limits.

    \b
      supple simulate panda poses.csv --out motion.csv --animate motion.html
      supple simulate ur5e --twist 0.1 0 0 0 0 0 --duration 3 --q0 0,-1.2,1.7,-2,-1,0 --plot m.png

    FILE has one pose per step, in the format of `supple solve`, and optionally the time of each
    pose in a column t [s]. The exit code is 0 even if limits or damping changed the motion, which
    the summary reports. With --world, the motion keeps clear of the obstacles of a scene, and the
    summary states what is certified about it.
    """  # noqa: D301
    if (file is None) == (twist is None):
        given = "neither" if file is None else "both"
        raise click.UsageError(f"give either a FILE of poses or --twist; given: {given}")
    if twist is not None and (duration is None or q0 is None):
        raise click.UsageError("--twist needs --duration and --q0")
    table_path(out)
    check_figure(plot)
    if animate is not None and animate.suffix.lower() not in (".html", ".gif"):
        raise click.UsageError(f"--animate: the file must end in .html or .gif; given: {animate}")
    for path in (out, animate):
        check_writable(path)
    start = configuration(robot, q0, "--q0")
    reference, is_pose = _reference(file, twist, dt, duration)
    task = tasks_for(robot, frame, is_pose)
    around = world_arguments(robot, scene, srdf, clearance)
    if start is None:
        found = sp.solve(robot, reference["target"][0], tasks=task, **around)
        if not found:
            raise InputError(
                f"the first pose of {file} has no solution: {found}. "
                "--q0 sets the initial configuration"
            )
        start = found.q
    rows = None if is_pose else ("x", "y", "z")
    bounds = sp.Limits.for_robot(
        robot,
        max_speed=max_speed,
        max_acceleration=max_acceleration,
        max_norm=np.inf if max_norm is None else max_norm,
        acceleration_time=ACCELERATION_TIME,
    )
    step = method(name, robot, dt=dt, frames=[task.frame], rows=rows)
    motion = sp.simulate(robot, start, tasks=task, step=step, limits=bounds, **reference, **around)
    write_motion(motion, out, plot, animate)
    if as_json:
        print_json(summary(motion))
    else:
        click.echo(str(motion))


def _reference(
    file: Path | None, twist: tuple[float, ...] | None, dt: float, duration: float | None
) -> tuple[dict[str, Any], bool]:
    """Return the reference as arguments of `supple.simulate`, and whether it has an orientation."""
    if file is None:
        return {"velocity": list(twist or ()), "dt": dt, "duration": duration}, True
    goals, is_pose, table = path_in(file)
    if len(goals) < 2:
        raise InputError(f"{file} must have two poses or more; given: {len(goals)}")
    times = table.arrays.get("t")
    return {"target": goals, **({"dt": dt} if times is None else {"times": times})}, is_pose


def summary(motion: sp.Trajectory) -> dict[str, Any]:
    """Return the summary of a motion as plain values."""
    error = np.linalg.norm(motion.error, axis=1)
    counts = {s.name: motion.status.count(s) for s in sp.StepStatus.__members__.values()}
    return {
        "steps": len(motion),
        "seconds": float(motion.t[-1] - motion.t[0]),
        "status": {name: count for name, count in counts.items() if count},
        "peak_speed": float(np.linalg.norm(motion.qd, axis=1).max()),
        "sigma_min": float(motion.sigma_min.min()),
        "peak_error": float(error.max()),
        "final_error": float(error[-1]),
        "final_q": motion.q[-1],
        **certificate_values(motion.certificate),
    }
