"""More targets than one call, or one machine, can hold: batches, maps and datasets in Parquet.

Needs pyarrow, `pip install supple[parquet]`; with Ray, `pip install supple[ray]`.
"""

from supple.cluster.batch import Solve, solve_parquet
from supple.cluster.parts import Summary
from supple.cluster.run import RayOptions

__all__ = ["RayOptions", "Solve", "Summary", "solve_parquet"]


def __dir__() -> list[str]:
    return __all__
