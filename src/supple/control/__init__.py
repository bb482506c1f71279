"""Velocity control: `Servo` computes one step, `track` a whole motion."""
