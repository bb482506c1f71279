"""Read a dataset in batches of NumPy arrays or PyTorch tensors, with bounded memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from supple._arrays.tables import pyarrow
from supple.cluster.parts import finished_parts, read_manifest
from supple.cluster.schema import POSITION, QUATERNION
from supple.cluster.source import to_numpy
from supple.errors import InputError, short_repr
from supple.ik.arguments import count_of

if TYPE_CHECKING:
    from torch import Tensor
    from torch.utils.data import IterableDataset

    class TorchSamples(IterableDataset[dict[str, Tensor]]):  # type: ignore[misc]
        """Batches of a dataset as tensors, the result of `torch_samples`."""

        def set_epoch(self, epoch: int) -> None:
            """Set the number of the next epoch, which determines its order."""

        def __iter__(self) -> Iterator[dict[str, Tensor]]: ...


Array = NDArray[Any]
Batch = dict[str, Array]


@dataclass(frozen=True)
class Samples:
    """An iterable of batches of a dataset; each sample is read once per epoch.

        for batch in Samples("data", split="train", batch_size=4096, seed=0):
            batch["pose"], batch["q"]

    A batch is a dictionary of arrays: q (B, n) [rad or m], pose (B, 7), which is x, y, z [m], qw,
    qx, qy, qz, and the other columns (B,). With a seed, parts are read in random order and the rows
    of `mixed` parts are shuffled together. Memory does not grow with the dataset.

    Attributes:
        folder: Folder of a finished dataset, written by `sample_dataset`.
        batch_size: Number of samples in a batch; the last batch may have fewer.
        split: "train", "test", or None for both.
        seed: Seed of the random order; None for the order of the files.
        epoch: Number of the epoch; with a seed, each epoch has a different order.
        mixed: Number of parts that are shuffled together.
        shard: Index of this reader and number of all readers; each part is read by one of them.

    Raises:
        InputError: The folder does not contain a finished dataset.
    """

    folder: str | os.PathLike[str]
    batch_size: int = 1024
    split: Literal["train", "test"] | None = None
    seed: int | None = None
    epoch: int = 0
    mixed: int = 4
    shard: tuple[int, int] = (0, 1)

    def __post_init__(self) -> None:
        count_of(self.batch_size, "batch_size", 2**31 - 1)
        count_of(self.mixed, "mixed", 2**31 - 1)
        index, readers = self.shard
        if not 0 <= index < readers:
            raise InputError(
                f"shard must be (index, count) with 0 <= index < count; given: {self.shard}"
            )
        if self.split not in (None, "train", "test"):
            raise InputError(
                f"split must be 'train', 'test' or None; given: {short_repr(self.split)}"
            )
        kind = read_manifest(Path(self.folder))["kind"]
        if kind != "dataset":
            raise InputError(
                f"{self.folder} must be the folder of a dataset; given: a job of kind {kind!r}"
            )
        finished_parts(self.folder)

    def __iter__(self) -> Iterator[Batch]:
        random = None if self.seed is None else np.random.default_rng([self.seed, self.epoch])
        paths = np.array(finished_parts(self.folder), dtype=object)
        if random is not None:
            random.shuffle(paths)  # the same order for all readers
        own = paths[self.shard[0] :: self.shard[1]]
        if random is not None:
            random = np.random.default_rng([*self.shard, self.seed or 0, self.epoch])
        rest: Batch = {}
        for first in range(0, len(own), self.mixed):
            read = [self._read(path) for path in own[first : first + self.mixed]]
            pool = _joined([rest, *read] if rest else read)
            if random is not None:
                order = random.permutation(len(pool["sample"]))
                pool = {name: each[order] for name, each in pool.items()}
            whole = len(pool["sample"]) // self.batch_size * self.batch_size
            for start in range(0, whole, self.batch_size):
                yield {name: each[start : start + self.batch_size] for name, each in pool.items()}
            rest = {name: each[whole:] for name, each in pool.items()}
        if rest and len(rest["sample"]):
            yield rest

    def _read(self, path: Path) -> Batch:
        _, parquet = pyarrow()
        table = parquet.read_table(path, page_checksum_verification=True, partitioning=None)
        if self.split is not None:
            table = table.filter(np.asarray(table["split"]) == self.split)
        columns = {name: to_numpy(table[name]) for name in table.column_names if name != "split"}
        joints = [name for name in columns if name.startswith("q:")]
        made = {
            "q": np.stack([columns.pop(name) for name in joints], axis=1),
            "pose": np.stack([columns.pop(name) for name in (*POSITION, *QUATERNION)], axis=1),
        }
        return {**made, **columns}


def _joined(batches: list[Batch]) -> Batch:
    return {name: np.concatenate([each[name] for each in batches]) for name in batches[0]}


def torch_samples(
    folder: str | os.PathLike[str],
    *,
    batch_size: int = 1024,
    split: Literal["train", "test"] | None = None,
    seed: int | None = 0,
    mixed: int = 4,
    rank: int = 0,
    world: int = 1,
) -> TorchSamples:
    """Return a PyTorch IterableDataset of the batches of a dataset, for a DataLoader.

        DataLoader(torch_samples("data", split="train"), batch_size=None, num_workers=4)

    A batch is a dictionary of tensors with the keys of `Samples`. Workers of the DataLoader, and
    processes of a distributed training, read different parts. Each iteration over the dataset is a
    new epoch with a different order; `set_epoch(epoch)` sets the number of the next epoch.

    Args:
        folder: Folder of a finished dataset.
        batch_size: Number of samples in a batch.
        split: "train", "test", or None for both.
        seed: Seed of the random order; None for the order of the files.
        mixed: Number of parts that are shuffled together.
        rank: Index of this process in a distributed training.
        world: Number of processes of the training.

    Raises:
        InputError: The folder does not contain a finished dataset, or PyTorch is not installed.
    """
    try:
        import torch
        from torch.utils.data import IterableDataset, get_worker_info
    except ModuleNotFoundError as error:
        raise InputError("torch_samples needs PyTorch: pip install torch") from error

    class _Samples(IterableDataset):  # type: ignore[misc]
        """Batches of a dataset as tensors."""

        def __init__(self) -> None:
            super().__init__()
            self._epoch = 0
            self._samples(0)  # checks the arguments

        def set_epoch(self, epoch: int) -> None:
            """Set the number of the next epoch, which determines its order."""
            self._epoch = epoch

        def _samples(self, epoch: int) -> Samples:
            worker = get_worker_info()
            index, count = (0, 1) if worker is None else (worker.id, worker.num_workers)
            shard = rank * count + index, world * count
            return Samples(folder, batch_size, split, seed, epoch, mixed, shard)

        def __iter__(self) -> Iterator[dict[str, Tensor]]:
            epoch = self._epoch
            self._epoch += 1
            for batch in self._samples(epoch):
                yield {name: torch.from_numpy(np.array(each)) for name, each in batch.items()}

    return cast("TorchSamples", _Samples())
