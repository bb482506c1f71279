"""What rules, steps and control share: `Linearization`, `Limits`, statuses, and units in words."""
