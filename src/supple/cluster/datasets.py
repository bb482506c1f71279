"""Datasets of configurations and poses for machine learning, written in parts.

The columns, version 1:

    sample                        index of the sample (int64)
    path, step                    index of the path, and index along the path; only with "paths"
    branch                        index of the solution of the pose; only with `branches`
    q:JOINT                       joint positions [rad or m] (double)
    x y z  qw qx qy qz            pose of the frame in the world [m], unit quaternion (double)
    sigma_min                     smallest singular value of the Jacobian (float)
    aspect                        sign of det J (int8); 0 if J is not square
    split                         "train" or "test", by region of space

A sample depends only on the seed and on its index.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple._arrays.checks import number
from supple._arrays.tables import pyarrow
from supple.cluster.batch import Solve
from supple.cluster.on_ray import RayOptions
from supple.cluster.parts import Summary, fingerprint
from supple.cluster.run import Progress, run
from supple.cluster.schema import (
    POSITION,
    QUATERNION,
    STATUSES,
    Targets,
    joint_fields,
    pose_fields,
    words,
)
from supple.errors import InputError, check_one_of, known_arguments
from supple.ik.arguments import count_of
from supple.ik.solver import Solver
from supple.ik.status import SolveStatus
from supple.kinematics import Robot
from supple.kinematics.robot import check_robot
from supple.kinematics.rotation import from_quaternion, quaternion
from supple.tasks import PoseTask

Array = NDArray[Any]
Scheme = Literal["joints", "workspace", "singular", "paths"]

VERSION = 1
SCHEMES = ("joints", "workspace", "singular", "paths")
BLOCK_SAMPLES = 1024  # number of samples that share a stream of random numbers
PATH_SAMPLES = 32  # number of samples of a path
PART_ROWS = 131_072  # number of samples in a part
_SINGULAR_CANDIDATES = 32  # random configurations; the one nearest to a singularity is the sample
_MAX_SEEDS = 32  # maximum number of seeds for a random pose, which may be out of reach
_MAX_POSE_TRIALS = 10_000  # number of random poses that are tried for a sample of "workspace"
_MAX_COUNT = 2**53
_TIME_ESTIMATED_FROM = 100_000  # number of samples above which the time is estimated


@dataclass(frozen=True)
class DatasetJob:
    """A job that samples configurations and poses of a robot, in parts.

    Attributes:
        robot: The robot.
        frame: Frame of the poses.
        count: Number of samples.
        scheme: Distribution of the samples.
        seed: Seed of the random numbers.
        branches: Maximum number of solutions of each pose; None for the drawn configuration only.
        region: Edge length [m] of the cubes into which space is divided; the samples of a cube are
            either all training data or all test data.
        test_share: Fraction of the cubes whose samples are test data.
        part_rows: Number of samples in a part.
        box: Lower and upper corner of a box around the workspace (2, 3) [m], as plain numbers.
    """

    robot: Robot
    frame: str
    count: int
    scheme: Scheme
    seed: int
    branches: int | None
    region: float
    test_share: float
    part_rows: int
    box: tuple[tuple[float, ...], ...]

    kind = "dataset"

    @property
    def at_once(self) -> int:
        """Number of parts that one process computes concurrently."""
        return 2

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """All settings and versions that the samples depend on, as plain values by name."""
        return {
            "robot": self.robot.name,
            "robot fingerprint": fingerprint([self.robot.description, self.robot.base]),
            "frame": self.frame,
            "count": self.count,
            "scheme": self.scheme,
            "seed": self.seed,
            "branches": self.branches,
            "region": self.region,
            "test_share": self.test_share,
            "box": self.box,
            "instruction set": _core.isa(),
            "numpy": np.__version__,  # random numbers may differ between versions
            "schema": VERSION,
            "supple": version("supple"),
        }

    @cached_property
    def sizes(self) -> Sequence[int]:
        """The number of samples of each part."""
        firsts = range(0, self.count, self.part_rows)
        return [min(self.part_rows, self.count - first) for first in firsts]

    def compute(self, index: int, threads: int | None = None) -> tuple[Any, Mapping[str, int]]:
        """Return a part as an Arrow table, and counts: of samples, and of rows by split."""
        pa, _ = pyarrow()
        first = index * self.part_rows
        sample = np.arange(first, first + self.sizes[index])
        q = self.configurations(first, len(sample), threads)
        T = self.robot.fk(q, self.frame, threads=threads)
        columns: dict[str, Any] = {"sample": sample}
        if self.scheme == "paths":
            columns["path"] = sample // PATH_SAMPLES
            columns["step"] = (sample % PATH_SAMPLES).astype(np.int16)
        columns |= dict(zip(POSITION, T[:, :3, 3].T, strict=True))
        columns |= dict(
            zip(QUATERNION, quaternion(np.asarray(T[:, :3, :3], np.float64)).T, strict=True)
        )
        test = is_test(T[:, :3, 3], self.region, self.test_share, self.seed)
        if self.branches is not None:
            stage = Solve(self.robot, self.frame, self.branches, threads=threads)
            rows, found = stage.solutions(columns, Targets((*POSITION, *QUATERNION), True))
            met = found["status"] == STATUSES.index(SolveStatus.CONVERGED.name)
            rows = rows[met]
            columns = {name: each[rows] for name, each in columns.items()}
            columns["branch"], test = found["branch"][met], test[rows]
            q = np.stack([found[f"q:{name}"][met] for name in self.robot.position_names], axis=1)
        J = self.robot.jacobian(q, self.frame, threads=threads)
        sigma = self.robot.singular_values(q, self.frame, threads=threads)
        columns |= {f"q:{name}": q[:, j] for j, name in enumerate(self.robot.position_names)}
        columns["sigma_min"] = sigma[:, -1].astype(np.float32)
        square = J.shape[-1] == J.shape[-2]
        columns["aspect"] = (np.sign(np.linalg.det(J)) if square else np.zeros(len(q))).astype(
            np.int8
        )
        splits = pa.array(["train", "test"])
        columns["split"] = pa.DictionaryArray.from_arrays(pa.array(test.astype(np.int8)), splits)
        schema = dataset_schema(self.robot, self.scheme == "paths", self.branches is not None)
        arrays = [pa.array(columns[field.name], field.type) for field in schema]
        counts = {"samples": len(sample), "train": int((~test).sum()), "test": int(test.sum())}
        return pa.Table.from_arrays(arrays, schema=schema), counts

    def configurations(self, first: int, count: int, threads: int | None = None) -> Array:
        """Return the configurations (count, n) of consecutive samples [rad or m]."""
        draw: Mapping[str, Callable[..., Array]] = {
            "joints": self._joints,
            "workspace": self._workspace,
            "singular": self._singular,
            "paths": self._paths,
        }
        blocks = range(first // BLOCK_SAMPLES, (first + count - 1) // BLOCK_SAMPLES + 1)
        drawn = [draw[self.scheme](self._random(block), threads) for block in blocks]
        skip = first - blocks[0] * BLOCK_SAMPLES
        return np.concatenate(drawn)[skip : skip + count]

    def _random(self, block: int) -> np.random.Generator:
        key = [self.seed, SCHEMES.index(self.scheme)]
        return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, block]))

    def _joints(self, random: np.random.Generator, threads: int | None) -> Array:
        return self.robot.random(BLOCK_SAMPLES, seed=random)

    def _singular(self, random: np.random.Generator, threads: int | None) -> Array:
        """Return configurations; each is the one nearest to a singularity among 32 random ones."""
        q = self.robot.random((BLOCK_SAMPLES, _SINGULAR_CANDIDATES), seed=random)
        sigma = self.robot.singular_values(q, self.frame, threads=threads)[..., -1]
        return np.asarray(q[np.arange(BLOCK_SAMPLES), sigma.argmin(axis=1)])

    def _paths(self, random: np.random.Generator, threads: int | None) -> Array:
        """Return configurations on straight lines in joint space between random configurations."""
        ends = self.robot.random((BLOCK_SAMPLES // PATH_SAMPLES, 2), seed=random)
        start, end = np.moveaxis(ends, 1, 0)
        share = np.linspace(0, 1, PATH_SAMPLES)[:, None]
        q = (1 - share) * start[:, None] + share * end[:, None]
        return np.asarray(q.reshape(BLOCK_SAMPLES, -1))

    def _workspace(self, random: np.random.Generator, threads: int | None) -> Array:
        """Return solutions of random poses that are uniform over the reachable poses."""
        q = np.empty((BLOCK_SAMPLES, self.robot.nq))
        left = np.arange(BLOCK_SAMPLES)
        solver = Solver(self.robot, PoseTask(self.frame), max_seeds=_MAX_SEEDS, threads=threads)
        for _ in range(_MAX_POSE_TRIALS):
            poses = random_poses(random, len(left), np.array(self.box))
            found = solver.batch(poses)
            met = np.asarray(found.success)
            q[left[met]] = found.q[met]
            left = left[~met]
            if not len(left):
                return q
        raise InputError(
            "the scheme 'workspace' needs a robot that reaches random poses; given: "
            f"{self.robot.name}, which reached none of {_MAX_POSE_TRIALS} random poses for a "
            "sample. Available: 'joints', 'singular', 'paths'"
        )


def random_poses(random: np.random.Generator, count: int, box: Array) -> Array:
    """Return poses (count, 4, 4), uniform in a box (2, 3) [m] and over all orientations."""
    T = np.zeros((count, 4, 4))
    T[:, :3, 3] = random.uniform(box[0], box[1], (count, 3))
    T[:, :3, :3] = from_quaternion(random.normal(size=(count, 4)))
    T[:, 3, 3] = 1.0
    return T


def is_test(position: Array, region: float, share: float, seed: int) -> NDArray[np.bool_]:
    """Return a mask (N,) of the positions (N, 3) [m] that belong to the test data.

    Space is divided into cubes. A hash of the index of a cube and of the seed decides whether all
    positions in this cube are test data.
    """
    cell = np.floor(np.asarray(position) / region).astype(np.int64).view(np.uint64)
    mixed = np.full(len(cell), np.uint64(seed & (2**64 - 1)))
    for axis in range(3):
        mixed = _scrambled(mixed ^ cell[:, axis])
    return np.asarray((mixed >> np.uint64(11)) * 2.0**-53 < share)


def _scrambled(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a hash of 64-bit integers, in which each bit depends on all bits (splitmix64)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def dataset_schema(robot: Robot, paths: bool, branches: bool) -> Any:
    """Return the Arrow schema of a dataset."""
    pa, _ = pyarrow()
    fields = [pa.field("sample", pa.int64(), nullable=False)]
    if paths:
        fields += [pa.field("path", pa.int64()), pa.field("step", pa.int16())]
    if branches:
        fields.append(pa.field("branch", pa.int16()))
    fields += joint_fields(robot) + pose_fields()
    fields += [
        pa.field("sigma_min", pa.float32()),
        pa.field("aspect", pa.int8()),
        pa.field("split", words()),
    ]
    return pa.schema(fields, metadata={"supple.schema": f"dataset {VERSION}"})


@known_arguments()
def sample_dataset(
    robot: Robot,
    folder: str | os.PathLike[str],
    count: int,
    *,
    scheme: Scheme = "joints",
    frame: str | None = None,
    seed: int = 0,
    branches: int | None = None,
    region: float = 0.1,
    test_share: float = 0.1,
    part_rows: int = PART_ROWS,
    ray: RayOptions | None = None,
    progress: Progress | None = None,
    estimate: Callable[[float], object] | None = None,
) -> Summary:
    """Write samples of configurations and poses of a robot into a folder of parts.

        sample_dataset(robot, "data", 1_000_000, scheme="singular")

    Schemes:

        joints       uniform in joint space
        workspace    uniform over the reachable poses; needs a robot that reaches random poses
        singular     of 32 configurations uniform in joint space, the one nearest to a singularity
        paths        straight lines in joint space, of 32 samples each

    If a run is interrupted or killed, the same call continues it and ends with the same files. A
    sample depends only on the seed and on its index, so a larger dataset begins with the samples of
    a smaller one.

    Args:
        robot: The robot.
        folder: A new folder for the samples, or the folder of the same dataset to continue it.
        count: Number of samples.
        scheme: Distribution of the samples.
        frame: Frame of the poses; the end effector by default.
        seed: Seed of the random numbers.
        branches: Maximum number of solutions of each pose. Each solution is a row; if None, a
            sample has one row with the drawn configuration.
        region: Edge length [m] of the cubes into which space is divided. The samples of a cube are
            either all training data or all test data.
        test_share: Fraction of the cubes whose samples are test data, 0 to 1.
        part_rows: Number of samples in a part.
        ray: The Ray cluster to run on; None to run in this process.
        progress: Function called repeatedly with the number of finished samples and the number of
            all samples.
        estimate: Function called once, before a dataset of more than 100,000 samples is begun, with
            the estimated time of the whole dataset on one core [s].

    Raises:
        InputError: An argument is malformed, or the folder contains another job.
        UnknownNameError: The scheme is unknown.
        OSError: The folder cannot be written; parts that were already written are kept.
    """
    check_robot(robot)
    check_one_of(scheme, "scheme", SCHEMES)
    name = Solve(robot, frame, branches).placed  # `Solve` checks the arguments
    at = robot.fk(robot.random(4096, seed=0), name)[:, :3, 3]
    margin = 0.1 * np.ptp(at, axis=0)
    corners = at.min(axis=0) - margin, at.max(axis=0) + margin
    job = DatasetJob(
        robot,
        name,
        count_of(count, "count", _MAX_COUNT),
        scheme,
        count_of(seed + 1, "seed + 1", 2**63) - 1,
        branches,
        number(region, "region", above=0),
        number(test_share, "test_share", least=0, most=1),
        count_of(part_rows, "part_rows", 2**24),
        tuple(tuple(corner.tolist()) for corner in corners),
    )
    if scheme == "workspace":
        _check_volume(job)
    if estimate is not None and job.count > _TIME_ESTIMATED_FROM:
        estimate(core_seconds(job))
    return run(job, folder, ray=ray, progress=progress)


def core_seconds(job: DatasetJob) -> float:
    """Return the estimated time of a dataset on one core [s], from its first 1024 samples."""
    few = replace(job, count=min(job.count, BLOCK_SAMPLES), part_rows=BLOCK_SAMPLES)
    replace(few, scheme="joints").compute(0, threads=1)  # imports what the first call needs
    began = time.process_time()
    few.compute(0, threads=1)
    return (time.process_time() - began) * job.count / few.count


def _check_volume(job: DatasetJob) -> None:
    """Raise an error before any work if none of 2000 random poses is reachable."""
    T = random_poses(np.random.default_rng(0), 2000, np.array(job.box))
    found = Solver(job.robot, PoseTask(job.frame), max_seeds=_MAX_SEEDS).batch(T)
    if not found.success.any():
        raise InputError(
            f"the scheme 'workspace' needs a robot that reaches random poses; given: "
            f"{job.robot.name} with {job.robot.dof} degrees of freedom, which reaches none of 2000 "
            "random poses. "
            "Available: 'joints', 'singular', 'paths'"
        )
