"""`supple info`: joints, limits, end effectors and poses of a robot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

import supple as sp
from supple.cli.console import as_json_option, check_figure, print_json, print_table, write_figure
from supple.cli.robots import configuration, with_robot
from supple.kinematics.frames import owners

_RATES = {  # attributes of a robot, and their titles in the table
    "max_speed": "speed [/s]",
    "max_acceleration": "acceleration [/s²]",
    "max_jerk": "jerk [/s³]",
}
_ROUNDING = 1e-12  # singular values up to this one are shown as zero


@click.command()
@with_robot
@click.option("--q", "at", metavar="Q", help="Configuration: numbers separated by commas.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw the robot.")
@as_json_option
def info(robot: sp.Robot, at: str | None, plot: Path | None, as_json: bool) -> None:
    """Show a robot: its joints, limits and end effectors, and the pose at a configuration.

    ROBOT is the name of a built-in robot, or a URDF or MJCF file.
    """
    check_figure(plot)
    q = configuration(robot, at, "--q")
    q = robot.neutral() if q is None else q
    if plot is not None:
        write_figure(robot.plot(q), plot)
    if as_json:
        print_json(facts(robot, q))
        return
    found = facts(robot, q)
    rates = {  # few robots have limits of acceleration and jerk
        key: title
        for key, title in _RATES.items()
        if key == "max_speed" or any(np.isfinite(joint[key]) for joint in found["joints"])
    }
    rows = [
        (
            joint["name"],
            joint["kind"],
            _limit(joint["lower"]),
            _limit(joint["upper"]),
            joint["unit"],
            *(_limit(joint[key]) for key in rates),
        )
        for joint in found["joints"]
    ]
    title = f"{robot.name}: {robot.dof} degrees of freedom"
    print_table(title, ("joint", "kind", "lower", "upper", "unit", *rates.values()), rows)
    neutral = np.array_equal(q, robot.neutral())
    where = "the neutral configuration" if neutral else f"q = {_words(q)}"
    for tip in found["end_effectors"]:
        place = ", ".join(f"{x:.4f}" for x in tip["position"])
        turn = ", ".join(f"{x:.4f}" for x in tip["wxyz"])
        click.echo(f"\nend effector {tip['name']} at {where}:")
        click.echo(f"  position [m] {place}   quaternion wxyz {turn}")
        sigma = tip["sigma_min"] if tip["sigma_min"] > _ROUNDING else 0.0
        click.echo(f"  smallest singular value {sigma:.4g}")


def facts(robot: sp.Robot, q: Any) -> dict[str, Any]:
    """Return a robot's joints, frames, and end-effector poses at q, as plain values."""
    kinds = {joint.name: joint.kind for joint in robot.description.joints}
    of = owners(robot)
    joints = [
        {
            "name": name,
            "kind": kinds[of[j]],
            "lower": float(robot.lower[j]),
            "upper": float(robot.upper[j]),
            **{key: float(getattr(robot, key)[j]) for key in _RATES},
            "unit": "m" if robot.prismatic[j] else "rad",
        }
        for j, name in enumerate(robot.joint_names)
    ]
    tips = []
    for name in robot.tips:
        T = robot.fk(q, name)
        tips.append(
            {
                "name": name,
                "position": T[:3, 3],
                "wxyz": sp.poses.wxyz(T),
                "sigma_min": float(robot.singular_values(q, name)[-1]),
            }
        )
    return {
        "name": robot.name,
        "dof": robot.dof,
        "joints": joints,
        "end_effectors": tips,
        "frames": list(robot.frames),
        "q": np.asarray(q),
    }


def _limit(value: float) -> str:
    return f"{value:.4f}" if np.isfinite(value) else ""


def _words(q: Any) -> str:
    return ", ".join(f"{x:.4g}" for x in np.asarray(q).tolist())
