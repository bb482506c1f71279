"""A class that follows the recipe for a constraint in CONTRIBUTING.md."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from test_support_polygon import drawn_figure

import supple as sp
from generated import seeds
from humanoids import humanoid
from supple.redundancy import Constraint, SupportPolygon

Array = np.ndarray


@dataclass(frozen=True)
class Ball:
    """A constraint of a `Servo`: a frame stays inside a ball.

    Attributes:
        frame: Name of the frame.
        center: Center of the ball (3,) [m].
        radius: Radius of the ball [m].
        rate: Rate of approach to the surface [1/s].
    """

    frame: str
    center: tuple[float, float, float]
    radius: float
    rate: float = 20.0

    def distance(self, robot: sp.Robot, q: Array) -> float:
        """Return the distance of the frame from the surface [m]."""
        away = robot.fk(q, self.frame)[:3, 3] - self.center
        return self.radius - float(np.linalg.norm(away))

    def rows(self, robot: sp.Robot, q: Array) -> tuple[Array, Array]:
        """Return G (1, n) and h (1,)."""
        away = robot.fk(q, self.frame)[:3, 3] - self.center
        size = max(float(np.linalg.norm(away)), 1e-9)
        G = -(away / size) @ robot.jacobian(q, self.frame)[:3]
        return G[None], np.array([-self.rate * (self.radius - size)])


def constrained(*constraints: Constraint) -> tuple[Constraint, ...]:
    """Return the constraints. mypy checks here that `Ball` is a `Constraint`."""
    return constraints


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("kind", ["panda", "figure", "humanoid"])
def test_a_constraint_that_follows_the_recipe_holds_in_every_step(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    robot = {
        "panda": lambda: sp.load("panda"),
        "figure": lambda: drawn_figure(rng),
        "humanoid": lambda: humanoid().with_base("floating"),
    }[kind]()
    frame, q = robot.tips[0], robot.random(seed=rng)
    ball = Ball(frame, tuple(robot.fk(q, frame)[:3, 3]), float(rng.uniform(0.08, 0.15)))
    servo = sp.Servo(robot, sp.PoseTask(frame), dt=0.005, constraints=constrained(ball))
    nearest, seen = np.inf, sp.StepStatus(0)
    for _ in range(6):
        twist = 0.3 * rng.normal(size=6)
        for _ in range(60):
            q = servo(q, twist)
            nearest = min(nearest, ball.distance(robot, q))
            seen |= servo.status
    assert nearest >= -1e-3  # within a step the frame moves on a curve, not along its velocity
    assert sp.StepStatus.CONSTRAINT_LIMIT in seen


def test_the_support_polygon_has_the_interface_of_a_constraint() -> None:
    assert constrained(SupportPolygon([(0, 0), (1, 0), (0, 1)], margin=0.1))
