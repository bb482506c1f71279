"""The GPU: the kernel's headers, compiled for a robot when it is first asked for."""

from supple.solve.cuda.toolkit import DeviceError, DeviceInfo, devices

__all__ = ["DeviceError", "DeviceInfo", "devices"]
