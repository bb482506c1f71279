"""Joint velocities for tasks: linearizations, damping rules, steps, limits and reports."""
