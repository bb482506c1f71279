"""More targets than one call, or one machine, can hold: batches, maps and datasets in Parquet.

Needs pyarrow, `pip install supple[parquet]`; with Ray, `pip install supple[ray]`.
"""

from supple.cluster.batch import Solve, solve_parquet
from supple.cluster.datasets import sample_dataset
from supple.cluster.loader import Samples, torch_samples
from supple.cluster.maps import reachability, uniform_orientations
from supple.cluster.parts import Summary
from supple.cluster.reach_map import Placement, ReachMap
from supple.cluster.run import RayOptions

__all__ = [
    "Placement",
    "RayOptions",
    "ReachMap",
    "Samples",
    "Solve",
    "Summary",
    "reachability",
    "sample_dataset",
    "solve_parquet",
    "torch_samples",
    "uniform_orientations",
]


def __dir__() -> list[str]:
    return __all__
