"""Classes that rules, steps and control share: `Linearization`, `Limits`, statuses; unit text."""
