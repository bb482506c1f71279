"""Types of arguments that are arrays, of NumPy or of libraries with arrays in GPU memory.

Results are annotated as NumPy arrays, or as `GpuArray` where all arguments are in GPU memory. The
annotations cannot express that arguments in host memory from another library give results of that
library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from numpy.typing import ArrayLike


class GpuArrayLike(Protocol):
    """An array in GPU memory, of any library."""

    @property
    def __cuda_array_interface__(self) -> Mapping[str, object]: ...


AnyArray: TypeAlias = ArrayLike | GpuArrayLike
# The target or the velocity of one task, or a sequence with an entry for each of several tasks.
TargetLike: TypeAlias = AnyArray | Sequence[AnyArray | None]
