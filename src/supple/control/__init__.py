"""Velocity control: `Servo` computes one step; velocities of many robots, limits and reports."""

from supple.control import velocities as velocities
