"""Velocity control: one step, many robots at once, whole motions."""
