"""A robot and a world in GPU memory, for collision checks of solutions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from supple.collision.model import CollisionModel
from supple.gpu.runtime import Device, Memory
from supple.ik.seeds import robot_size
from supple.ik.world_check import WorldCheck

# Distances computed on a GPU and on the CPU may differ by this number of units in the last place of
# lengths such as the size of the robot and its distance from the origin.
_ROUNDING = 256

# Numbers of joints, coordinates and moving bodies for which CUDA kernels are compiled; zeros
# without a world.
WorldSizes: TypeAlias = tuple[int, int, int]
NO_WORLD: WorldSizes = (0, 0, 0)


@dataclass(frozen=True, eq=False)
class GpuWorld:
    """A collision model in GPU memory.

    Attributes:
        memory: The model as one block, a `SharedModel` of include/supple/collision/shared.hpp.
        rounding: Distance by which a computed distance may be wrong [m].
    """

    memory: Memory
    rounding: float


@dataclass(frozen=True, eq=False)
class GpuCheck:
    """The clearance that solutions of a search on a GPU must keep.

    Attributes:
        world: The model in GPU memory.
        clearance: Least distance that each pair must keep [m], plus the rounding error, so that a
            solution that is free on the GPU is also free on the CPU.
        max_rejected: Number of colliding solutions after which a search ends.
        joint: Address of the index of each coordinate in the solutions, -1 for joints that stay; 0
            if all joints are searched.
        still: Address of the configurations at which the joints that stay are held.
    """

    world: GpuWorld
    clearance: float
    max_rejected: int
    joint: int = 0
    still: int = 0

    def members(self) -> dict[str, Any]:
        """Return the members of a `Request`."""
        return {
            "world": self.world.memory.pointer,
            "joint": self.joint,
            "still": self.still,
            "clearance": self.clearance,
            "max_rejected": self.max_rejected,
        }


def world_sizes(check: WorldCheck | None) -> WorldSizes:
    """Return the sizes of the collision model of a check; zeros without a check."""
    return NO_WORLD if check is None or check.kernel is None else check.kernel.sizes


@lru_cache(maxsize=16)
def gpu_world(model: CollisionModel, device: Device) -> GpuWorld:
    """Return a model in the memory of a GPU."""
    kernel, robot = model.kernel, model.robot
    assert kernel is not None
    origins = np.stack([robot.fk(robot.neutral(), tip)[:3, 3] for tip in robot.tips])
    size = 2 * robot_size(robot) + float(np.linalg.norm(origins, axis=1).max())
    rounding = _ROUNDING * float(np.finfo(np.float64).eps) * size
    device.use()
    stream = device.stream()
    memory = device.allocate(len(kernel.packed(0, size, rounding)), stream)
    device.upload(memory.pointer, kernel.packed(memory.pointer, size, rounding), stream)
    device.wait(stream)
    return GpuWorld(memory, rounding)


def gpu_check(check: WorldCheck | None, device: Device, max_rejected: int) -> GpuCheck | None:
    """Return the check of a search on a GPU; None if there is nothing to check."""
    if check is None or check.kernel is None:
        return None
    world = gpu_world(check.model, device)
    return GpuCheck(world, check.clearance + world.rounding, max_rejected)
