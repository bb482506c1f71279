"""Threads share a robot, its solvers, caches and controllers, also in free-threaded Python."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import pytest

import supple as sp
from supple.gpu import queue
from supple.ik import foreign
from supple.ik.adjoints import DifferentiableFrames
from supple.ik.gpu import gradients
from supple.kinematics import gpu_frames

THREADS = 8
Result = TypeVar("Result")


def at_once(work: Callable[[int], Result], threads: int = THREADS) -> list[Result]:
    """Return the results of threads that begin at the same time."""
    barrier = threading.Barrier(threads)

    def started(thread: int) -> Result:
        barrier.wait()
        return work(thread)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(started, range(threads)))


def bits(value: Any) -> bytes:
    return np.asarray(value).tobytes()


def by_solve(robot: sp.Robot, q: np.ndarray) -> bytes:
    return bits(sp.solve(robot, robot.fk(q)).q)


def by_a_solver(robot: sp.Robot, q: np.ndarray) -> bytes:
    solver = sp.Solver(robot)
    return bits(solver.batch(robot.fk(q + 0.01 * np.arange(20)[:, None])).q)


def by_all_solutions(robot: sp.Robot, q: np.ndarray) -> bytes:
    return bits(sp.Solver(robot).all(robot.fk(q)).q)


def by_servo(robot: sp.Robot, q: np.ndarray) -> bytes:
    servo = sp.Servo(robot, dt=0.01)
    for _ in range(20):
        q = servo(q, [0.1, 0, 0, 0, 0, 0.2])
    return bits(q)


def by_velocities(robot: sp.Robot, q: np.ndarray) -> bytes:
    step = sp.DLS(sp.damping.Optimal.for_robot(robot))
    return bits(step.velocities(robot, np.tile(q, (40, 1)), np.full((40, 6), 0.1)))


WAYS = (by_solve, by_a_solver, by_all_solutions, by_servo, by_velocities)


@pytest.mark.parametrize("name", ["ur5e", "panda"])
def test_threads_that_fill_caches_simultaneously_get_the_results_of_one_thread(name: str) -> None:
    def jobs(robot: sp.Robot) -> list[Callable[[], bytes]]:
        q = 0.8 * robot.random(4, seed=3) + 0.2 * robot.neutral()
        return [lambda way=way, one=one: way(robot, one) for way in WAYS for one in q]

    expected = [job() for job in jobs(sp.load(name))]
    for shift in range(2):
        # An equal robot that has nothing cached yet; two threads begin with the same job.
        mine = jobs(sp.load(name).with_base(sp.pose([0, 0, 0])))

        def work(thread: int, shift: int = shift, mine: list[Any] = mine) -> bool:
            order = np.roll(np.arange(len(mine)), (thread // 2) * len(WAYS) // 2 + shift)
            return all(mine[i]() == expected[i] for i in order)

        assert all(at_once(work))


def test_parallel_calls_of_one_servo_return_what_single_calls_return() -> None:
    """Without memory and limits, the result of a step depends only on the arguments of the call."""
    robot = sp.load("panda")
    rng = np.random.default_rng(5)
    q, twist = 0.8 * robot.random(200, seed=1) + 0.2 * robot.neutral(), rng.normal(size=(200, 6))
    free = np.full(7, np.inf)
    step, limits = sp.DLS(sp.damping.Constant(0.1)), sp.Limits(-free, free, free, free)
    servo = sp.Servo(robot, dt=0.001, step=step, limits=limits)
    expected = [bits(servo(*one)) for one in zip(q, twist, strict=True)]
    assert [bits(servo(q[i], twist[i])) for i in range(199, -1, -1)] == expected[::-1]

    def work(thread: int) -> bool:
        order = np.roll(np.arange(200), 25 * thread)
        return all(bits(servo(q[i], twist[i])) == expected[i] for i in order for _ in range(5))

    assert all(at_once(work))


class Made:
    """An object whose constructor waits until all threads have called it."""

    barrier = threading.Barrier(THREADS, timeout=60)

    def __init__(self, *_: object) -> None:
        self.barrier.wait()


def test_threads_that_make_an_object_simultaneously_get_the_same_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With two objects, code would be compiled twice, or the address of a released object kept."""
    monkeypatch.setattr(gpu_frames, "GpuFrames", Made)
    monkeypatch.setattr(gpu_frames, "device_named", lambda name: name)
    monkeypatch.setattr(gradients, "GpuGradients", Made)
    robot = sp.load("panda").with_base(np.eye(4))
    frames = DifferentiableFrames.of(robot, None)
    makers: list[Callable[[], Any]] = [
        lambda: gpu_frames.gpu_frames(robot, None, "world", "cuda:0"),
        lambda: gradients.gradients(frames, False, (), "cuda:0"),
        lambda: foreign._once(robot, "a key", Made),  # type: ignore[arg-type, return-value]
    ]
    for make in makers:
        assert len({id(one) for one in at_once(lambda _, make=make: make())}) == 1  # type: ignore[misc]
        assert make() is make()


class Slow(dict[int, queue.Blocks]):
    """A dictionary that lets other threads run after each change."""

    def __setitem__(self, stream: int, blocks: queue.Blocks) -> None:
        super().__setitem__(stream, blocks)
        time.sleep(1e-6)

    def setdefault(self, stream: int, blocks: queue.Blocks) -> queue.Blocks:  # type: ignore[override]
        found = super().setdefault(stream, blocks)
        time.sleep(1e-6)
        return found


def test_results_get_memory_of_their_stream_even_if_more_streams_run_than_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Device:
        def captures(self, stream: int) -> bool:
            return False

        def free(self, pointer: int, stream: int) -> None: ...

    monkeypatch.setattr(queue, "_MAX_STREAMS", 2)
    recorded = queue.Recorded(Device(), None, reuses=True, _blocks=Slow())  # type: ignore[arg-type]

    def work(thread: int) -> bool:
        streams = np.random.default_rng(thread).integers(0, 6, 200).tolist()
        return all(recorded._made(1, stream).stream == stream for stream in streams)

    assert all(at_once(work))
