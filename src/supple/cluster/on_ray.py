"""The parts of a job as tasks of a Ray cluster."""

from __future__ import annotations

import math
import os
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from supple import _core
from supple.cluster.parts import Job, Summary, job_id, part_path
from supple.cluster.run import RayOptions, compute_part
from supple.errors import InputError, MissingExtraError, SuppleError

_AHEAD = 2  # tasks in flight for each that can run: the next one is there when one ends
_FEWEST = 4  # tasks in flight, so that an autoscaler sees that more workers are needed
_LOOK = 1.0  # time between looks at the resources of the cluster [s]
_MAX_LOST = 8  # workers lost on the same part before the run gives up
_JOBS: dict[str, Job] = {}  # in a worker: the job, with the compiled solver of its robot


def parts_on_ray(
    job: Job, folder: Path, missing: Sequence[int], options: RayOptions
) -> Iterator[tuple[int, Summary]]:
    """Compute parts on a Ray cluster, and yield them as they are committed.

    Workers read and write the files themselves, so all nodes must see the same folders. A task
    whose worker or node is lost is repeated elsewhere. Memory is bounded: only the contents of a
    part travel between a worker and the disk, and few tasks are in flight at a time.
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
                if time.monotonic() - looked > _LOOK:  # nodes come and go
                    room, looked = _room(ray, options), time.monotonic()
                for _ in range(min(room - len(running), len(todo))):
                    index = todo.popleft()
                    running[task.remote(index, *arguments)] = index
                ready, _ = ray.wait(list(running), timeout=_LOOK)
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
    """Compute and commit a part in a worker, which keeps the job for the next one."""
    if name not in _JOBS:
        import ray

        if isa not in _core.isas():
            raise InputError(
                f"all workers must have the instruction set {isa!r} of this process; given: "
                f"{_core.isas()}. Set SUPPLE_ISA where the job is started"
            )
        _core.use_isa(isa)
        _JOBS.clear()
        _JOBS[name] = ray.get(shared[0])
    return compute_part(_JOBS[name], name, Path(folder), index, threads)


def _result(ray: Any, reference: Any, lost: int) -> Summary | None:
    """Return the result of a task, or None if its worker or node was lost.

    An error of a worker is raised as if it were local. A part whose worker is lost again and again
    may itself be the reason, for example because it needs too much memory.
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
            f"all nodes must share the folder of the results; given: {folder}, in which a worker's "
            f"part {index} is not seen"
        )


def _room(ray: Any, options: RayOptions) -> int:
    """Return how many tasks may be in flight on the nodes that are there."""
    there = ray.cluster_resources()
    fits = [
        there.get(name, 0.0) / each
        for name, each in (("CPU", options.cpus), ("GPU", options.gpus))
        if each
    ]
    return max(_FEWEST, _AHEAD * math.floor(min(fits, default=1.0)))


@contextmanager
def _connected(ray: Any, options: RayOptions) -> Iterator[None]:
    """Connect to the cluster; one that is connected already stays so."""
    if ray.is_initialized():
        yield
        return
    local = {"include_dashboard": False} if options.address is None else {}
    # Ray's default of 15 would leave the workers the time that other programs do not take.
    os.environ.setdefault("RAY_worker_niceness", "0")
    address = options.address or "local"  # (None would find a cluster that runs already)
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
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or Ray warns
    try:
        import ray
    except ModuleNotFoundError as error:
        raise MissingExtraError("ray", "a Ray cluster") from error
    return ray
