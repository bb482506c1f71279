"""`supple pairs`: pairs of links that need no collision check, as an SRDF file."""

from __future__ import annotations

from pathlib import Path

import click

import supple as sp
from supple.cli.console import (
    as_json_option,
    check_writable,
    out_option,
    print_json,
    print_table,
    writing,
    written,
)
from supple.cli.robots import with_robot
from supple.errors import InputError

_WHY = {
    "adjacent": "a joint connects them",
    "always": "they overlap in nearly all samples",
    "never": "they overlap in no sample",
    "excluded": "the robot's file excludes them",
}
_WHY_CLOSE = {
    "neutral": "they are this close in the neutral configuration",
    "always": "they are this close in nearly all samples",
}


@click.command()
@with_robot
@out_option("the pairs as SRDF")
@click.option("--samples", default=10_000, show_default=True, help="Number of configurations.")
@as_json_option
def pairs(robot: sp.Robot, out: Path | None, samples: int, as_json: bool) -> None:
    """Find pairs of links that need no collision check, or less clearance, and say why.

    \b
      supple pairs arm.urdf --out arm.srdf
      supple check arm.urdf scene.json --srdf arm.srdf

    Shapes are those of the <collision> elements of a URDF file, or the geoms of an MJCF file.
    Every run draws the same configurations inside the joint limits. Pairs that overlap in no sample
    are listed too: leaving them out saves time, but the samples do not prove that they cannot
    collide. By default, a World does not check the pairs that are listed for other reasons. Links
    that are close by construction are listed with a smaller clearance, which they must keep.
    """  # noqa: D301
    check_writable(out)
    if not robot.shapes:
        raise InputError(f"{robot.name} must have shapes of links for collisions; given: none")
    found = sp.collision.unchecked_pairs(robot, samples=samples, never=True)
    close = sp.collision.close_pairs(robot, samples=samples)
    links = len(robot.shapes)
    left = links * (links - 1) // 2 - len(found)
    if out is not None:
        with writing(out):
            out.write_text(sp.collision.srdf_text(robot, found))
        written(out)
    if as_json:
        listed = [{"links": [one, other], "reason": why} for one, other, why in found]
        near = [
            {"links": [one, other], "clearance": round(distance, 6), "reason": why}
            for one, other, distance, why in close
        ]
        print_json({"unchecked": listed, "close": near, "samples": samples, "checked": left})
        return
    title = f"{robot.name}: pairs that need no check, from {samples:,} samples"
    print_table(title, ("link", "link", "reason"), [(a, b, _WHY[why]) for a, b, why in found])
    if close:
        rows = [(a, b, f"{1e3 * d:.1f}", _WHY_CLOSE[why]) for a, b, d, why in close]
        title = f"{robot.name}: links that are close by construction"
        print_table(title, ("link", "link", "clearance [mm]", "reason"), rows)
    click.echo(f"{left} of {links * (links - 1) // 2} pairs of links with shapes are checked.")
