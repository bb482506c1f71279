"""Mode "path" of `simulate` in a world: the motion ends at rest before obstacles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import supple as sp
from generated import seeds
from supple.collision import Box
from supple.motion.status import StepStatus

PANDA = sp.urdf(Path(__file__).parent / "data/panda.urdf")
ARM = PANDA.freeze([name for name in PANDA.joint_names if "finger" in name])
START = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])
LIMITS = sp.Limits.for_robot(ARM, mode="path", max_acceleration=5.0)
CLEARANCE = 0.01


@pytest.mark.parametrize("seed", seeds(6))
def test_a_motion_on_a_path_stops_before_an_obstacle(seed: int) -> None:
    """The motion stays on its path, does not turn back, and has a certificate."""
    rng = np.random.default_rng(seed)
    T = ARM.fk(START)
    side = rng.normal(size=3) * (0.2, 0.2, 0.2) + (0, rng.choice([-1, 1]), 0)
    side /= np.linalg.norm(side)
    targets = np.repeat(T[None], 80, axis=0)
    targets[:, :3, 3] += np.linspace(0, 0.35, 80)[:, None] * side
    z = np.linalg.qr(np.stack([side, *rng.normal(size=(2, 3))], axis=1))[0]
    wall = np.eye(4)
    wall[:3, :3] = z if np.linalg.det(z) > 0 else z * (1, 1, -1)
    wall[:3, 3] = T[:3, 3] + rng.uniform(0.25, 0.3) * side
    world = sp.World({"wall": Box((0.02, 0.3, 0.3), wall)})
    dt = 0.01
    assert not sp.collision.collides(ARM, world, START, CLEARANCE)

    def motion(targets: np.ndarray, world: sp.World | None) -> sp.Trajectory:
        return sp.simulate(
            ARM, START, target=targets, dt=dt, limits=LIMITS, tolerance=1e-3, world=world
        )

    made = motion(targets, world)
    assert made.certified
    assert made.min_clearance is not None
    assert made.min_clearance >= CLEARANCE
    assert made.status[-1] & StepStatus.COLLISION_LIMIT
    assert not (made.status[:-1] & StepStatus.COLLISION_LIMIT).any()
    tool = np.array([ARM.fk(q)[:3, 3] for q in made.q]) - T[:3, 3]
    assert np.abs(tool - np.outer(tool @ side, side)).max() < 1e-3
    assert (np.diff(tool @ side) > -1e-6).all()
    assert np.abs(made.qd[-1]).max() <= 5.0 * dt * 1.01  # at rest after this step
    # The tool stops as late as possible: a motion past the next targets would be too close.
    count = np.searchsorted(np.linspace(0, 0.35, 80), (tool @ side).max() + 1e-6)
    beyond = motion(targets[: count + 3], None)
    assert sp.collision.collides(ARM, world, beyond.q, CLEARANCE + 1e-4).any()


def test_a_robot_whose_path_begins_inside_an_obstacle_does_not_move() -> None:
    T = ARM.fk(START)
    targets = np.repeat(T[None], 20, axis=0)
    targets[:, 1, 3] += np.linspace(0, 0.1, 20)
    world = sp.World({"box": Box((0.1, 0.1, 0.1), T[:3, 3])})
    made = sp.simulate(ARM, START, target=targets, dt=0.01, limits=LIMITS, world=world)
    assert not made.certified
    assert (made.q == START).all()
    assert made.status[-1] & StepStatus.COLLISION_EXCEEDED
    assert made.status[-1] & StepStatus.COLLISION_LIMIT
