"""Compute the parts of a job as tasks of a Ray cluster."""

from __future__ import annotations

import math
import os
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supple import _core
from supple.cluster.parts import Job, Summary, compute_part, job_id, part_path
from supple.errors import InputError, MissingExtraError, SuppleError

_TASKS_PER_WORKER = 2  # submitted tasks per worker, so that a worker never waits for the next one
_MIN_TASKS = 4  # minimum number of submitted tasks, so that an autoscaler adds workers
_QUERY_INTERVAL = 1.0  # time between two queries of the cluster's resources [s]
_MAX_LOST = 8  # number of workers lost on the same part before the run fails
_JOBS: dict[str, Job] = {}  # current job of a worker by its fingerprint, kept between parts


@dataclass(frozen=True)
class RayOptions:
    """The Ray cluster on which a job runs, and the resources of its workers.

    Attributes:
        address: Address of a cluster, such as "auto" or "ray://head:10001"; None to start a local
            cluster.
        cpus: Number of CPUs of a worker, which is also the number of its threads.
        gpus: Number of GPUs of a worker; a fraction if several workers share a GPU.
    """

    address: str | None = None
    cpus: float = 1
    gpus: float = 0


def parts_on_ray(
    job: Job, folder: Path, missing: Sequence[int], options: RayOptions
) -> Iterator[tuple[int, Summary]]:
    """Compute parts on a Ray cluster, and yield the index and the summary of each.

    Workers read and write the files themselves, so all nodes must share the folders. A task whose
    worker or node is lost is repeated by another worker. The memory of this process is bounded,
    because it receives only summaries, and few tasks are submitted at a time.
    """
    ray = import_ray()
    with _connected(ray, options):
        shared = ray.put(job)
        task = ray.remote(_task).options(
            num_cpus=options.cpus, num_gpus=options.gpus, max_retries=0
        )
        arguments = (job_id(job), [shared], str(folder), _core.isa(), max(1, int(options.cpus)))
        todo, lost = deque(missing), Counter[int]()
        running: dict[Any, int] = {}
        room, looked = 0, -math.inf
        try:
            while todo or running:
                if (
                    time.monotonic() - looked > _QUERY_INTERVAL
                ):  # the cluster may have more or fewer nodes now
                    room, looked = _room(ray, options), time.monotonic()
                for _ in range(min(room - len(running), len(todo))):
                    index = todo.popleft()
                    running[task.remote(index, *arguments)] = index
                ready, _ = ray.wait(list(running), timeout=_QUERY_INTERVAL)
                for reference in ready:
                    index = running.pop(reference)
                    part = _result(ray, reference, lost[index])
                    if part is None:
                        lost[index] += 1
                        todo.append(index)
                        continue
                    _check_seen(folder, index)
                    yield index, part
        finally:
            for reference in running:
                ray.cancel(reference, force=True)


def _task(index: int, name: str, shared: list[Any], folder: str, isa: str, threads: int) -> Summary:
    """Compute and commit a part in a worker, which keeps the job for its next part."""
    if name not in _JOBS:
        import ray

        if isa not in _core.isas():
            raise InputError(
                f"all workers must have the instruction set {isa!r} of this process; given: "
                f"{_core.isas()}. Set SUPPLE_ISA to one of these where the job is started"
            )
        _core.use_isa(isa)
        _JOBS.clear()
        _JOBS[name] = ray.get(shared[0])
    return compute_part(_JOBS[name], name, Path(folder), index, threads)


def _result(ray: Any, reference: Any, lost: int) -> Summary | None:
    """Return the result of a task, or None if its worker or node was lost.

    An error of a worker is raised as if it had occurred in this process. After `_MAX_LOST` lost
    workers, the loss is raised too: the part may be the reason, because it needs too much memory.
    """
    try:
        part: Summary = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, OSError | SuppleError):
            raise error.cause from error
        if isinstance(error.cause, ray.exceptions.RayError) and lost < _MAX_LOST:
            return None
        raise
    except ray.exceptions.RayError:
        if lost < _MAX_LOST:
            return None
        raise
    return part


def _check_seen(folder: Path, index: int) -> None:
    if not part_path(folder, index).exists():
        raise InputError(
            f"all nodes must share the folder of the results; given: {folder}, which lacks part "
            f"{index}, although a worker has written it"
        )


def _room(ray: Any, options: RayOptions) -> int:
    """Return the maximum number of submitted tasks, from the cluster's current resources."""
    there = ray.cluster_resources()
    fits = [
        there.get(name, 0.0) / each
        for name, each in (("CPU", options.cpus), ("GPU", options.gpus))
        if each
    ]
    return max(_MIN_TASKS, _TASKS_PER_WORKER * math.floor(min(fits, default=1.0)))


@contextmanager
def _connected(ray: Any, options: RayOptions) -> Iterator[None]:
    """Connect to the cluster, and disconnect at the end; an existing connection is kept."""
    if ray.is_initialized():
        yield
        return
    local = {"include_dashboard": False} if options.address is None else {}
    # With Ray's default niceness, 15, workers would run only when other programs are idle.
    os.environ.setdefault("RAY_worker_niceness", "0")
    address = options.address or "local"  # None would connect to a cluster that already runs
    ray.init(address=address, log_to_driver=False, logging_level="error", **local)
    try:
        yield
    finally:
        ray.shutdown()


def import_ray() -> Any:
    """Return the module ray.

    Raises:
        MissingExtraError: Ray is not installed.
    """
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # prevents a warning of Ray
    try:
        import ray
    except ModuleNotFoundError as error:
        raise MissingExtraError("ray", "a Ray cluster") from error
    return ray
