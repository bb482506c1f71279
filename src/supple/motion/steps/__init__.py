"""Steps: functions from a Linearization to q̇. The public names are in `supple.steps`."""
