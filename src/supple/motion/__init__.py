"""What rules, steps and control share: `Linearization` and `Limits`, and units in words."""
