"""Run experiments, one in this process or several in parallel."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType

from supple.papers import EXPERIMENTS, style
from supple.papers.experiment import Claim, Experiment, Table

SLOWEST = ("mk-paths", "buss-double-y")  # started first, so that all processes end together


@dataclass(frozen=True)
class Finding:
    """The outcome of an experiment as plain data, which one process can send to another.

    Attributes:
        name: Name of the experiment.
        quantities: The numbers by name.
        claims: The claims, and whether they hold.
        svg: The figure; empty if it was not requested.
        seconds: Run time [s].
        tables: The curves; empty if they were not requested.
        values: Parameters that were given, by name.
    """

    name: str
    quantities: dict[str, float]
    claims: tuple[Claim, ...]
    svg: bytes
    seconds: float
    tables: tuple[Table, ...] = ()
    values: Mapping[str, float] = field(default_factory=dict)

    @property
    def experiment(self) -> Experiment:
        """The experiment of this finding."""
        return EXPERIMENTS[self.name]

    @property
    def holding(self) -> int:
        """The number of the paper's claims that hold."""
        return sum(claim.holds is True for claim in self.of_paper)

    @property
    def of_paper(self) -> tuple[Claim, ...]:
        """The claims of the paper, without supple's own statements."""
        return tuple(claim for claim in self.claims if not claim.own)


def find(
    name: str,
    figure: bool = False,
    curves: bool = False,
    values: Mapping[str, float] = MappingProxyType({}),
) -> Finding:
    """Run one experiment; draw its figure if `figure`, and keep its curves if `curves`."""
    begin = time.perf_counter()
    outcome = EXPERIMENTS[name](**values)
    svg = style.rendered(outcome, name, "svg") if figure else b""
    took = time.perf_counter() - begin
    tables = outcome.tables if curves else ()
    return Finding(name, dict(outcome.quantities), outcome.claims, svg, took, tables, dict(values))


def find_all(
    names: Sequence[str],
    figure: bool = False,
    curves: bool = False,
    values: Mapping[str, float] = MappingProxyType({}),
) -> Generator[Finding, None, None]:
    """Run experiments in one process per core; yield each finding when it is complete.

    The slowest experiments are started first. `values` replace the defaults of parameters in all
    experiments. An interrupt, an error or `close` ends the processes immediately.
    """
    own = getattr(os, "sched_getaffinity", None)  # not on all systems
    workers = min(len(names), len(own(0)) if own else os.cpu_count() or 1)
    if workers <= 1:
        yield from (find(name, figure, curves, values) for name in names)
        return
    # Processes are spawned, because a fork inherits locks of compiled code, but not its threads.
    context = multiprocessing.get_context("spawn")
    names = sorted(names, key=lambda name: name not in SLOWEST)
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        try:
            with _interrupts_delayed():
                jobs = [pool.submit(find, name, figure, curves, dict(values)) for name in names]
            for done in as_completed(jobs):
                yield done.result()
        except BaseException:
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()  # without it, the pool waits for the experiments
            pool.shutdown(cancel_futures=True)
            raise


@contextmanager
def _interrupts_delayed() -> Iterator[None]:
    """Delay interrupts of this process, and block them in processes that start in the context.

    Ctrl-C reaches the whole process group, and a worker that is still importing would print a
    traceback. A worker inherits the signal mask of this process, which protects the worker from its
    first instruction on. The mask does not protect this process: another thread (of BLAS, for
    example) can receive the signal, and Python then calls the handler in the main thread.
    Therefore, the handler is replaced, too.
    """
    came = []
    main = threading.current_thread() is threading.main_thread()  # only it sets handlers
    masks = hasattr(signal, "pthread_sigmask")  # Windows has no signal masks
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if masks else set()
    handler = signal.signal(signal.SIGINT, lambda *_: came.append(True)) if main else None
    try:
        yield
    finally:
        if main:
            signal.signal(signal.SIGINT, signal.SIG_DFL if handler is None else handler)
        if masks:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if came:
            signal.raise_signal(signal.SIGINT)
