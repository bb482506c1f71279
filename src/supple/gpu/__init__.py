"""Access to GPUs: devices, compilation, memory, and arrays of other libraries."""

from supple.gpu.runtime import devices

__all__ = ["devices"]


def __dir__() -> list[str]:
    return __all__
