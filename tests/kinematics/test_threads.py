"""Python threads that share a robot get the same bits, and the kernel releases the GIL."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import supple
from calls import mimicking
from sizes import nightly

THREADS = 8


def everything(robot: supple.Robot, q: np.ndarray, frame: str, axes: str) -> list[bytes]:
    """Return the bits of all kinematic results for one frame."""
    T, J = robot.fk_jacobian(q, frame, axes=axes, threads=2)
    bias_acceleration = robot.bias_acceleration(q, q, frame, axes=axes, threads=2)
    sigma = robot.singular_values(q, frame, axes=axes, threads=2)
    return [result.tobytes() for result in (T, J, bias_acceleration, sigma)]


@pytest.mark.parametrize("size", [(), (100,), (1100,)], ids=str)
@pytest.mark.parametrize("name", ["double_y", "mimicking"])
def test_threads_that_share_a_robot_get_the_bits_of_a_single_thread(
    name: str, size: tuple[int, ...]
) -> None:
    # A robot compiles a chain at the first call for a frame; here, all threads make this call at
    # the same time.
    make = mimicking if name == "mimicking" else lambda: supple.load(name)
    serial, shared = make(), make()
    q = serial.random(size, seed=0)
    axes = ("world", "body", serial.frames[3])
    jobs = list(itertools.product(serial.frames, axes))[:: nightly(1, 4)]
    expected = {job: everything(serial, q, *job) for job in jobs}
    barrier = threading.Barrier(THREADS)

    def work(thread: int) -> bool:
        barrier.wait()
        mine = np.roll(np.arange(len(jobs)), thread // 2)  # two threads start with the same job
        return all(everything(shared, q, *jobs[i]) == expected[jobs[i]] for i in mine)

    with ThreadPoolExecutor(THREADS) as pool:
        assert all(pool.map(work, range(THREADS)))


def test_an_error_in_one_thread_does_not_affect_the_others() -> None:
    robot = supple.load("panda")
    fine = robot.random(600, seed=0)
    bad = fine.copy()
    bad[431, 2] = np.nan
    expected = robot.fk(fine)

    def work(thread: int) -> bool:
        for _ in range(20):
            if thread % 2:
                assert (robot.fk(fine, threads=2) == expected).all()
                continue
            with pytest.raises(supple.errors.InputError, match=r"q\[431, 2\] = nan"):
                robot.fk(bad, threads=2)
        return True

    with ThreadPoolExecutor(THREADS) as pool:
        assert all(pool.map(work, range(THREADS)))


def test_python_threads_run_during_a_large_batch() -> None:
    robot = supple.load("panda")
    q = robot.random(100_000, seed=0)
    robot.manipulability(q[:100])

    def ticks_in_the_middle() -> int:
        """Return how many times this thread ran during the middle third of a call in another
        thread.
        """
        span: list[float] = []

        def work() -> None:
            span.append(time.perf_counter())
            robot.manipulability(q, threads=1)
            span.append(time.perf_counter())

        worker = threading.Thread(target=work)
        worker.start()
        ticks = []
        while worker.is_alive():
            ticks.append(time.perf_counter())
            time.sleep(1e-4)
        worker.join()
        begin, end = span
        third = (end - begin) / 3
        return sum(begin + third < tick < end - third for tick in ticks)

    # If the GIL were held, this thread would run only before and after every call. On a busy
    # machine this may also happen by chance in some of the calls.
    assert any(ticks_in_the_middle() > 3 for _ in range(20))
