"""Access to GPUs: devices, compilation, memory, and arrays of other libraries."""
