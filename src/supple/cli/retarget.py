"""`supple retarget`: a humanoid follows the recorded motion of a human."""

from __future__ import annotations

import json
import time
import webbrowser
from pathlib import Path

import click

import supple as sp
from supple.cli.console import UsageError, as_json_option, check_writable, print_json
from supple.cli.robots import with_robot

_FILE = click.Path(path_type=Path)


@click.command()
@click.argument("motion", type=_FILE)
@with_robot
@click.option(
    "-o",
    "--out",
    type=_FILE,
    metavar="FILE",
    help="Write .csv, rows [base xyz, xyzw, joints], or .npz, with MuJoCo's qpos.",
)
@click.option("--fps", type=float, help="Frames per second; by default those of the file, or 30.")
@click.option("--names", metavar="FILE", type=_FILE, help="JSON list with the names of the points.")
@click.option("--table", metavar="FILE", type=_FILE, help="JSON table of GMR; guessed by default.")
@click.option("--scale", type=float, help="Factor from the human's world to the robot's.")
@click.option(
    "--world",
    "scene",
    type=_FILE,
    metavar="SCENE",
    help="Scene with boxes to stand on, in the robot's size: JSON, URDF or MJCF.",
)
@click.option("--view", is_flag=True, help="Play the human and the robot in the browser.")
@click.option("--header", is_flag=True, help="Write the names of the columns to a .csv.")
@as_json_option
def retarget(
    robot: sp.Robot,
    motion: Path,
    out: Path | None,
    fps: float | None,
    names: Path | None,
    table: Path | None,
    scale: float | None,
    scene: Path | None,
    view: bool,
    header: bool,
    as_json: bool,
) -> None:
    """Let a humanoid ROBOT follow the human in MOTION, with feet that do not slide.

    \b
      supple retarget climb.npz g1.urdf -o motion.csv
      supple retarget walk.bvh g1.xml -o motion.npz
      supple retarget frames.json g1.urdf --table smplx_to_g1.json -o motion.csv

    MOTION is .npz or .npy of key points, .bvh, or .json with GMR's frames (docs/retargeting.md).
    """  # noqa: D301
    if out is not None and out.suffix.lower() not in (".csv", ".npz"):
        raise UsageError(f"--out must be a .csv or .npz file; given: {out.name}")
    check_writable(out)
    human = sp.retargeting.HumanMotion.load(motion, fps=fps, names=_names(names))
    mapping = None if table is None else sp.retargeting.TableMapping.load(robot, table)
    world = None if scene is None else sp.World.load(scene)
    found = sp.retarget(robot, human, mapping=mapping, scale=scale, world=world)
    if out is not None and out.suffix.lower() == ".csv":
        found.save_csv(out, header=header)
    elif out is not None:
        found.save_qpos(out)
    if as_json:
        print_json(
            {
                "frames": len(found),
                "fps": found.fps,
                "slide": float(found.slide.max()),
                "penetration": float(found.penetration.max()),
                "stands": found.contacts.mean(axis=0),
                "joints": found.robot.position_names[7:],
            }
        )
    else:
        click.echo(str(found))
    if view:
        _play(found, human)


def _play(found: sp.retargeting.Retargeted, human: sp.retargeting.HumanMotion) -> None:
    """Play a motion in the browser until Ctrl-C."""
    from supple.view.playback import Playback

    with Playback(found, human) as playback:
        click.echo(f"{playback.url}   (Ctrl-C stops the server)")
        webbrowser.open(playback.url)
        while True:
            time.sleep(1.0)


def _names(file: Path | None) -> list[str] | None:
    """Return the names of points in a JSON file."""
    if file is None:
        return None
    try:
        read = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {file}: {error}") from error
    if not isinstance(read, list) or not all(isinstance(name, str) for name in read):
        raise UsageError(f"{file.name} must be a JSON list of names")
    return read
