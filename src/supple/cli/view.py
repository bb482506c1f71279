"""`supple view`: a robot in the browser."""

from __future__ import annotations

import time
import webbrowser
from pathlib import Path
from typing import Any

import click

from supple.cli.console import as_json_option, print_json
from supple.cli.robots import (
    RobotName,
    configuration,
    map_value_option,
    read_robot,
    world_of,
)
from supple.cluster import ReachMap
from supple.control.trajectory import Trajectory
from supple.view.methods import DEFAULT, method_names


@click.command()
@click.argument("robot", type=RobotName(), default="panda")
@click.option(
    "--tip", "tips", multiple=True, metavar="FRAME", help="Name of an end effector; repeatable."
)
@click.option(
    "--fixed", multiple=True, metavar="JOINT", help="Joint of a file to hold fixed; repeatable."
)
@click.option("--q", "at", metavar="Q", help="Initial configuration: numbers separated by commas.")
@click.option(
    "--method",
    default=DEFAULT,
    show_default=True,
    type=click.Choice(method_names(), case_sensitive=False),
    help="Damping rule, or another step.",
)
@click.option(
    "--map",
    "folder",
    type=click.Path(path_type=Path),
    help="Folder of a map, written by `supple reach`.",
)
@map_value_option
@click.option(
    "--least", default=0.0, show_default=True, help="Show only voxels with a larger value."
)
@click.option(
    "--path",
    "file",
    type=click.Path(path_type=Path),
    help="File of a motion, written by `supple plan-path`.",
)
@click.option(
    "--world",
    "scene",
    type=click.Path(path_type=Path),
    help="Scene with obstacles, drawn with the shapes of links: JSON, URDF or MJCF.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--port", default=8080, show_default=True, help="Port; the next free one if taken.")
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
@as_json_option
def view(
    robot: str,
    tips: tuple[str, ...],
    fixed: tuple[str, ...],
    at: str | None,
    method: str,
    folder: Path | None,
    value: str,
    least: float,
    file: Path | None,
    scene: Path | None,
    host: str,
    port: int,
    no_browser: bool,
    as_json: bool,
) -> None:
    """Open a robot in the browser, and drag its end effectors through singularities.

    ROBOT is the name of a built-in robot (panda by default), or a URDF or MJCF file, which is shown
    with its meshes. The page is served to this machine only, unless --host is given. If a robot has
    several end effectors, such as y and double_y, their targets first move by themselves. Ctrl-C
    stops the server.
    """
    from supple.view.viewer import Viewer

    made = read_robot(robot, tips, fixed)
    found = None if folder is None else ReachMap.load(folder)
    motion = None if file is None else Trajectory.load(file, robot=made)
    path = Path(robot)
    figure = len(made.tips) > 1
    settings: dict[str, Any] = {"task": "position"} if figure else {}
    with Viewer(
        made,
        file=path if path.is_file() else None,
        q=configuration(made, at, "--q"),
        host=host,
        port=port,
        moving=figure,
        world=None if scene is None else world_of(made, scene, None),
        method=_exact(method),
        **settings,
    ) as viewer:
        if found is not None:
            viewer.show_points(*found.points(value, least), size=found.spacing / 3)
        if motion is not None:
            viewer.show_path(motion)
        if as_json:
            print_json({"url": viewer.url, "robot": made.name, "meshes": viewer.has_meshes})
        else:
            click.echo(f"{made.name}: {viewer.url}   (Ctrl-C stops the server)")
        for problem in viewer.problems:
            click.echo(f"Not drawn: {problem}", err=True)
        if not no_browser:
            webbrowser.open(viewer.url)
        while True:
            time.sleep(1.0)


def _exact(name: str) -> str:
    return next(each for each in method_names() if each.lower() == name.lower())
