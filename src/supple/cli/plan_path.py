"""`supple plan-path`: a whole path on one branch, with the fastest timing."""

from __future__ import annotations

from pathlib import Path

import click

import supple as sp
from supple.cli.console import (
    FAILED,
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

_FILE = click.Path(path_type=Path)


@click.command()
@with_robot
@click.argument("file", type=_FILE)
@click.option("--frame", metavar="NAME", help="Frame to move; the end effector by default.")
@click.option(
    "--q0",
    metavar="Q",
    help="Initial configuration; by default the best solution of the first pose.",
)
@click.option(
    "--prefer",
    default="motion",
    show_default=True,
    type=click.Choice(["motion", "limits", "manipulability"]),
    help="Criterion by which a branch is chosen.",
)
@click.option("--dt", default=0.001, show_default=True, help="Length of a step [s].")
@click.option("--tool-speed", type=float, help="Speed of the tool [m/s]; by default the fastest.")
@click.option("--max-speed", type=float, help="Speed limit of every joint [rad/s or m/s].")
@click.option("--max-acceleration", type=float, help="Acceleration limit [rad/s² or m/s²].")
@click.option("--max-jerk", type=float, help="Jerk limit [rad/s³ or m/s³]; none by default.")
@out_option("the motion")
@click.option(
    "--plot", type=_FILE, metavar="FILE", help="Draw the motion over time: png, svg, pdf."
)
@scene_options
@as_json_option
@click.pass_context
def plan_path(
    ctx: click.Context,
    /,
    robot: sp.Robot,
    file: Path,
    frame: str | None,
    q0: str | None,
    prefer: str,
    dt: float,
    tool_speed: float | None,
    max_speed: float | None,
    max_acceleration: float | None,
    max_jerk: float | None,
    out: Path | None,
    plot: Path | None,
    scene: Path | None,
    srdf: Path | None,
    clearance: float,
    as_json: bool,
) -> None:
    """Follow the poses of a FILE on one branch, as fast as the joint limits allow.

    \b
      supple plan-path ur5e poses.csv -o motion.npz
      supple plan-path panda poses.csv --tool-speed 0.1 --max-jerk 500 --plot motion.png

    FILE has one pose per row, in the format of `supple solve`. If no branch covers the whole path,
    the robot changes branch on the way, and the summary reports where and why. With --world, the
    path keeps clear of the obstacles of a scene, and the summary states what is certified about the
    whole motion. The exit code is 1 if the path cannot be followed to its end, or if the motion in
    a world is not certified.
    """  # noqa: D301
    table_path(out)
    check_figure(plot)
    check_writable(out)
    goals, is_pose, _ = path_in(file)
    task = tasks_for(robot, frame, is_pose)
    found = sp.plan_path(
        robot,
        goals,
        tasks=task,
        q0=configuration(robot, q0, "--q0"),
        prefer=prefer,  # type: ignore[arg-type]
        **world_arguments(robot, scene, srdf, clearance),
    )
    motion = None
    if found:
        limits = sp.Limits.for_robot(
            robot,
            max_speed=max_speed,
            max_acceleration=max_acceleration,
            max_jerk=max_jerk,
            acceleration_time=ACCELERATION_TIME,
        )
        motion = found.timed(limits, tool_speed=tool_speed, frame=frame, dt=dt)
        write_motion(motion, out, plot)
    if as_json:
        print_json(
            {
                "success": found.success,
                "continuous": found.continuous,
                "reconfigurations": [
                    {"at": each.at, "reason": each.reason} for each in found.reconfigurations
                ],
                "obstacle": found.obstacle,
                "position_deviation": found.position_deviation,
                "rotation_deviation": found.rotation_deviation,
                "duration": None if motion is None else float(motion.t[-1]),
                **certificate_values(found.certificate),
            }
        )
    else:
        click.echo(str(found))
        if motion is not None:
            click.echo(str(motion))
    certified = found.certificate is None or (found.certified and (not motion or motion.certified))
    ctx.exit(0 if found and certified else FAILED)
