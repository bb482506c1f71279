"""Steps: a Linearization -> q̇. The public names are in `supple.steps`."""
