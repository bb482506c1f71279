"""The PyTorch loader yields every sample once, for any number of workers and processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple as sp
from supple.cluster import sample_dataset, torch_samples

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-ray installs it")
UR5E = sp.load("ur5e")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "out"
    sample_dataset(UR5E, folder, 5000, part_rows=300)
    return folder


def samples(made: Any, workers: int = 0) -> Any:
    loader = torch.utils.data.DataLoader(made, batch_size=None, num_workers=workers)
    return torch.cat([batch["sample"] for batch in loader]).numpy()


@pytest.mark.filterwarnings("default")  # forked workers cause warnings
@pytest.mark.parametrize("workers", [0, 1, 3])
def test_each_sample_is_loaded_once(data: Path, workers: int) -> None:
    read = samples(torch_samples(data, batch_size=128), workers)
    np.testing.assert_array_equal(np.sort(read), np.arange(5000))


def test_processes_divide_the_samples_among_them(data: Path) -> None:
    each = [samples(torch_samples(data, rank=k, world=3)) for k in range(3)]
    np.testing.assert_array_equal(np.sort(np.concatenate(each)), np.arange(5000))


def test_each_epoch_has_its_own_order_of_samples(data: Path) -> None:
    made = torch_samples(data, seed=1)
    first, second = samples(made), samples(made)
    made.set_epoch(0)
    assert first.tolist() == samples(made).tolist() != second.tolist()


def test_tensors_are_configurations_and_their_poses(data: Path) -> None:
    batch = next(iter(torch_samples(data, batch_size=1000)))
    assert batch["q"].dtype == torch.float64
    T = torch.from_numpy(UR5E.fk(batch["q"].numpy()))
    torch.testing.assert_close(batch["pose"][:, :3], T[:, :3, 3])
