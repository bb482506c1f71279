"""Velocity control: steps of a `Servo`, velocities of many robots, their limits and reports."""

from supple.control import velocities as velocities
