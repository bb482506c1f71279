"""Large jobs: solve targets in Parquet files, map a robot's reach, and sample datasets.

A job is computed in parts, in this process or on a Ray cluster, with bounded memory. Needs pyarrow
(`pip install supple[parquet]`), and Ray for a cluster (`pip install supple[ray]`).
"""

from supple.cluster.batch import Solve, solve_parquet
from supple.cluster.datasets import sample_dataset
from supple.cluster.loader import Samples, torch_samples
from supple.cluster.maps import reachability, uniform_orientations
from supple.cluster.on_ray import RayOptions
from supple.cluster.parts import Summary
from supple.cluster.reach_map import Placement, ReachMap

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
