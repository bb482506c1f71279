"""Steps in time: a control loop's, and whole motions."""

from supple.solve.result import Status, Trajectory
from supple.solve.servo import Servo
from supple.solve.track import track

__all__ = ["Servo", "Status", "Trajectory", "track"]
