"""Robot, q, tasks -> q̇: tasks, linearizations, damping rules, steps, limits, diagnostics."""
