"""GPU plumbing: devices, compilation, memory and arrays of other libraries."""
