"""Lengths and angles as text with units that suit their sizes."""

from __future__ import annotations

from supple.kinematics.robot import Robot


def error_text(position: float, rotation: float, form: str = ".1f") -> str:
    """Return errors as text: "12.3 mm and 4.5 mrad"; above 1 m or 1 rad: "1.5 m and 3.1 rad".

    An error of exactly zero is left out, for example the rotation error if no task has a rotation.

    Args:
        position: Position error [m].
        rotation: Rotation error [rad].
        form: Format of the numbers below 1 m and 1 rad.
    """
    pairs = ((position, "m"), (rotation, "rad"))
    return " and ".join(_scaled(x, unit, form) for x, unit in pairs if x != 0) or "0"


def joint_unit(robot: Robot) -> str:
    """Return the unit of a robot's joint coordinates: "rad", "m" or "rad or m"."""
    units = ("m" if slides else "rad" for slides in sorted(set(robot.prismatic.tolist())))
    return " or ".join(units)


def position_units(robot: Robot) -> tuple[str, ...]:
    """Return the unit of each number of a configuration: "rad", "m" or, in a quaternion, ""."""
    slides = dict(zip(robot.joint_names, robot.prismatic.tolist(), strict=True))
    return tuple(
        "" if name not in slides else "m" if slides[name] else "rad"
        for name in robot.position_names
    )


def _scaled(value: float, unit: str, form: str) -> str:
    return f"{value:.4g} {unit}" if value >= 1 else f"{1e3 * value:{form}} m{unit}"
