"""`supple check`: distances between a robot and its surroundings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import supple as sp
from supple.cli.console import FAILED, as_json_option, print_json, print_table
from supple.cli.robots import configuration, with_robot, world_of, world_options

_MAX_LISTED_PAIRS = 10  # number of pairs that are listed
_SAMPLES = 1000  # number of random configurations; the fraction that collides is shown


@click.command()
@with_robot
@click.argument("scene", type=click.Path(path_type=Path), required=False)
@world_options
@click.option("--q", metavar="Q", help="Configuration: comma-separated numbers; default neutral.")
@as_json_option
@click.pass_context
def check(
    ctx: click.Context,
    /,
    robot: sp.Robot,
    scene: Path | None,
    srdf: Path | None,
    clearance: float,
    q: str | None,
    as_json: bool,
) -> None:
    """Check a robot for collisions with itself and with the obstacles of a SCENE.

    \b
      supple check arm.urdf
      supple check arm.urdf scene.json --q 0,-1.2,1.5,0,0.3,0

    SCENE is JSON, URDF or MJCF: see supple.World.load. The output lists the nearest pairs, and
    states the share of random configurations that collide. Exit code 1 means a collision at Q, or a
    distance below the clearance.
    """  # noqa: D301
    world = world_of(robot, scene, srdf)
    at = configuration(robot, q, "--q")
    at = robot.neutral() if at is None else at
    contacts = sp.collision.contacts(robot, world, at)
    hit = bool(sp.collision.collides(robot, world, at, clearance))
    share = sp.collision.collides(robot, world, robot.random(_SAMPLES, seed=0), clearance).mean()
    shapes: Any = robot.shapes if world.links is None else world.links
    if as_json:
        listed = [
            {"distance": c.distance, "pair": [c.one, c.other], "points": c.points.tolist()}
            for c in contacts
        ]
        print_json({"collides": hit, "q": at.tolist(), "contacts": listed, "share": float(share)})
        ctx.exit(FAILED if hit else 0)
    rows = [(f"{1e3 * c.distance:.2f} mm", c.one, c.other) for c in contacts[:_MAX_LISTED_PAIRS]]
    word = "collides" if hit else "is free"
    print_table(f"{robot.name} {word}: nearest pairs", ("distance", "link", "other"), rows)
    count = sum(map(len, shapes.values()))
    click.echo(
        f"{count} shapes on {len(shapes)} links, {len(world.obstacles)} obstacles, "
        f"{len(contacts)} pairs of links and obstacles checked"
    )
    for link, each in shapes.items():
        for shape in each:
            if isinstance(shape, sp.collision.Mesh):
                hull = sp.collision.hull_of(shape)
                click.echo(
                    f"{link}: {Path(shape.file).name} as a convex hull of {len(hull.points)} "
                    f"points, padded by {1e3 * hull.radius:.2f} mm"
                )
    click.echo(f"{share:.1%} of {_SAMPLES} random configurations collide")
    ctx.exit(FAILED if hit else 0)
