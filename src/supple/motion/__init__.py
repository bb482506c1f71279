"""What rules, steps and control share: `Linearization` and `Limits`."""
