"""A constraint of a Servo: the hand stays above a table, whatever the command is.

A constraint is any object with a method `rows(robot, q)` that returns G and h: in each step the
joint speeds keep G q̇ >= h. Here G q̇ is the speed of the hand away from the table. The hand
may approach the table at `gain` times the distance from it, so it slows down and never arrives.
"""

from dataclasses import dataclass

import numpy as np

import supple as sp

DT = 0.005  # [s]


@dataclass(frozen=True)
class HalfSpace:
    """The origin of a frame stays where normal · p >= offset.

    Attributes:
        frame: Name of the frame.
        normal: Unit vector that points to the allowed side, in the world frame.
        offset: Distance of the plane from the world's origin, along the normal [m].
        gain: Largest speed toward the plane, per distance from it [1/s].
    """

    frame: str
    normal: tuple[float, float, float]
    offset: float
    gain: float = 5.0

    def rows(self, robot, q):
        """Return G (1, n) and h (1,): the distance d changes by G q̇ >= -gain d."""
        distance = self.distance(robot, q)
        G = np.array(self.normal) @ robot.jacobian(q, self.frame)[:3]
        return G[None], np.array([-self.gain * distance])

    def distance(self, robot, q):
        """Return the distance of the frame from the plane at q [m]; negative below it."""
        return float(np.dot(self.normal, robot.fk(q, self.frame)[:3, 3])) - self.offset


def main():
    """Follow a circle of which the lower half is below the table."""
    robot = sp.load("panda")
    table = HalfSpace("panda_hand_tcp", (0.0, 0.0, 1.0), offset=0.4)
    q0 = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])
    start = robot.fk(q0)

    def circle(t):
        """Return a pose (4, 4) at time t [s]."""
        angle = np.pi * t / 2
        target = start.copy()
        target[:3, 3] += 0.2 * np.array([0.0, np.sin(angle), np.cos(angle) - 1])
        return target

    for constraints in ((), (table,)):
        motion = sp.simulate(robot, q0, target=circle, dt=DT, duration=4.0, constraints=constraints)
        lowest = min(table.distance(robot, q) for q in motion.q)
        held = ((motion.status & sp.StepStatus.CONSTRAINT_LIMIT) != 0).mean()
        name = "with the table" if constraints else "without"
        print(f"{name}: lowest point at {1e3 * lowest:.2f} mm, held back in {held:.0%} of steps")


if __name__ == "__main__":
    main()
