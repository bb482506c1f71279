"""Steps that use redundancy, and criteria. The public names are in `supple.redundancy`."""
