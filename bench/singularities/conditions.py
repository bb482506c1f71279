"""Disturbed conditions: noisy commands, and noisy, delayed measurements of the joint angles.

A method gets noisy poses and twists, and the joint angles that an encoder and a bus deliver. The
robot moves with the joint speeds that the method commands. Errors are relative to the exact poses.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from .passages import Passage
from .singular import Array, moved


@dataclass(frozen=True)
class Condition:
    """A disturbance of the input of a method.

    Attributes:
        name: Name in tables.
        about: Description in one line.
        dt: Length of a step [s].
        pose: Standard deviations of the noise of the commanded pose [m], [rad].
        twist: Standard deviations of the noise of the commanded twist [m/s], [rad/s].
        angle: Standard deviation of the noise of the measured joint angles [rad or m].
        delay: Number of steps by which the measured joint angles are late.
    """

    name: str
    about: str
    dt: float = 0.004
    pose: tuple[float, float] = (0.0, 0.0)
    twist: tuple[float, float] = (0.0, 0.0)
    angle: float = 0.0
    delay: int = 0


CONDITIONS = (
    Condition(
        "noisy",
        "commands at 250 Hz with white noise of 0.2 mm and 0.5 mrad, 2 mm/s and 5 mrad/s",
        pose=(2e-4, 5e-4),
        twist=(2e-3, 5e-3),
    ),
    Condition(
        "late",
        "commands as in 'noisy', and joint angles measured with noise of 0.01 mrad, 8 ms (two "
        "steps) late",
        pose=(2e-4, 5e-4),
        twist=(2e-3, 5e-3),
        angle=1e-5,
        delay=2,
    ),
)


@dataclass(frozen=True, eq=False)
class Command:
    """The input of a method in a passage.

    Attributes:
        poses: Poses (K + 1, 4, 4).
        twists: Twists (K, 6).
        noise: Errors of the measured joint angles (K, n).
        delay: Number of steps by which the measured joint angles are late.
    """

    poses: Array
    twists: Array
    noise: Array
    delay: int


def exact(passage: Passage) -> Command:
    """Return the undisturbed input."""
    return Command(
        passage.poses, passage.twists, np.zeros((len(passage.twists), passage.robot.dof)), 0
    )


def disturbed(passage: Passage, condition: Condition) -> Command:
    """Return the input under a condition; its noise is the same in each run."""
    rng = np.random.default_rng(zlib.crc32(f"{passage} {condition.name}".encode()))
    sizes = np.repeat(condition.pose, 3)
    off = rng.normal(size=(len(passage.poses), 6)) * sizes
    poses = np.array([moved(T, by) for T, by in zip(passage.poses, off, strict=True)])
    twists = passage.twists + rng.normal(size=passage.twists.shape) * np.repeat(condition.twist, 3)
    noise = rng.normal(size=(len(twists), passage.robot.dof)) * condition.angle
    return Command(poses, twists, noise, condition.delay)
