"""A robot in a world, in the memory of a GPU: what solutions are checked for there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from supple.collision.model import CollisionModel
from supple.gpu.runtime import Device, Memory
from supple.ik.seeds import robot_size
from supple.ik.world_check import WorldCheck

# Units in the last place by which distances that are computed on a GPU and on the CPU may differ,
# for lengths of the size of the robot and its distance from the origin.
_ROUNDING = 256
_BODY_NUMBERS = 15  # the same as `body_numbers` in include/supple/collision/shared.hpp
_WARP = 32  # number of threads of a warp


@dataclass(frozen=True, eq=False)
class GpuWorld:
    """A collision model in GPU memory.

    Attributes:
        memory: The model as one block, a `SharedModel` of include/supple/collision/shared.hpp.
        moving: Number of bodies that move.
        rounding: Distance by which a computed distance may be wrong [m].
    """

    memory: Memory
    moving: int
    rounding: float

    def body_bytes(self, warps: int) -> int:
        """Return the size of the memory for the bodies of all threads of some warps [bytes]."""
        return 8 * _BODY_NUMBERS * self.moving * _WARP * warps


@dataclass(frozen=True, eq=False)
class GpuCheck:
    """The clearance that solutions of a search on a GPU must keep.

    Attributes:
        world: The model in GPU memory.
        clearance: Least distance of all pairs [m]; a solution on the GPU is free only if it is also
            free for distances that the CPU rounds otherwise.
        max_rejected: Number of colliding solutions after which a search ends.
        joint: Address of the index of each coordinate in the solutions, -1 for joints that stay; 0
            if all joints are searched.
        still: Address of the configurations at which these joints stay.
    """

    world: GpuWorld
    clearance: float
    max_rejected: int
    joint: int = 0
    still: int = 0


def world_sizes(check: WorldCheck | None) -> tuple[int, int]:
    """Return the numbers of joints and coordinates for which CUDA kernels are compiled."""
    if check is None or check.kernel is None:
        return 0, 0
    joints, coordinates, _ = check.kernel.sizes
    return joints, coordinates


@lru_cache(maxsize=16)
def gpu_world(model: CollisionModel, device: Device) -> GpuWorld:
    """Return a model in the memory of a GPU."""
    assert model.kernel is not None
    device.use()
    stream = device.stream()
    memory = device.allocate(len(model.kernel.packed(0)), stream)
    device.upload(memory.pointer, model.kernel.packed(memory.pointer), stream)
    device.wait(stream)
    robot = model.robot
    origins = np.concatenate([robot.fk(robot.neutral(), tip)[None, :3, 3] for tip in robot.tips])
    size = robot_size(robot) + float(np.abs(origins).max(initial=0.0))
    *_, moving = model.kernel.sizes
    return GpuWorld(memory, moving, _ROUNDING * float(np.finfo(np.float64).eps) * size)


def gpu_check(check: WorldCheck | None, device: Device, max_rejected: int) -> GpuCheck | None:
    """Return the check of a search on a GPU; None if there is nothing to check."""
    if check is None or check.kernel is None:
        return None
    world = gpu_world(check.model, device)
    return GpuCheck(world, check.clearance + world.rounding, max_rejected)
