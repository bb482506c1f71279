"""From tasks to joint velocities: tasks, linearizations, damping rules, steps, limits, reports."""
