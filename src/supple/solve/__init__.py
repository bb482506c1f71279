"""Steps in time and of many robots, whole motions, and configurations that meet a target."""

from supple.solve.cuda import DeviceError, DeviceInfo, devices
from supple.solve.position import solve
from supple.solve.result import Status, Trajectory
from supple.solve.servo import Servo
from supple.solve.solution import Solution
from supple.solve.story import Story
from supple.solve.track import track
from supple.solve.velocity import step

__all__ = [
    "DeviceError",
    "DeviceInfo",
    "Servo",
    "Solution",
    "Status",
    "Story",
    "Trajectory",
    "devices",
    "solve",
    "step",
    "track",
]
