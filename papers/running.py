"""Run experiments, one in this process or several in parallel."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

from supple.papers import EXPERIMENTS, style
from supple.papers.experiment import Claim, Experiment


@dataclass(frozen=True)
class Finding:
    """An outcome as plain data that can be sent between processes.

    Attributes:
        name: Name of the experiment.
        quantities: The numbers by name.
        claims: The claims, and whether they hold.
        svg: The figure; empty if it was not requested.
        seconds: Run time [s].
    """

    name: str
    quantities: dict[str, float]
    claims: tuple[Claim, ...]
    svg: bytes
    seconds: float

    @property
    def experiment(self) -> Experiment:
        """The experiment of this finding."""
        return EXPERIMENTS[self.name]

    @property
    def holding(self) -> int:
        """The number of claims that hold."""
        return sum(claim.holds for claim in self.claims)


def find(name: str, figure: bool = False) -> Finding:
    """Run one experiment, and draw its figure on request."""
    begin = time.perf_counter()
    outcome = EXPERIMENTS[name]()
    svg = style.rendered(outcome, name, "svg") if figure else b""
    return Finding(name, dict(outcome.quantities), outcome.claims, svg, time.perf_counter() - begin)


def find_all(names: Sequence[str], figure: bool = False) -> Iterator[Finding]:
    """Run experiments in one process per core; yield findings as they finish."""
    own = getattr(os, "sched_getaffinity", None)  # fewer than there are, in a container
    workers = min(len(names), len(own(0)) if own else os.cpu_count() or 1)
    if workers <= 1:
        yield from (find(name, figure) for name in names)
        return
    # spawn: a fork would carry the compiled code's threads along, half dead.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        for done in as_completed([pool.submit(find, name, figure) for name in names]):
            yield done.result()
