"""Velocity steps on a GPU: device time of batches of all sizes, and the limits of the chip.

python bench/gpu_step.py prints tables and writes them to bench/results/. Times are device times
between events on a stream, around a CUDA graph of consecutive calls. They do not include Python.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import measure
import supple as sp
from gpu import Stopwatch
from supple.control.gpu_velocities import GpuVelocityIk, on_device
from supple.control.velocity_ik import velocity_ik
from supple.gpu import devices, runtime

COUNTS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
ROUNDS = 9
DT = 0.01
# Instructions per warp in one velocity step of the Panda with optimal damping in float32: fused
# FP32, other FP32, all. Counted by Nsight Compute and divided by the number of warps in the batch.
FUSED, OTHER, INSTRUCTIONS = 860, 552, 1830

Numbers = tuple[np.ndarray, np.ndarray]


def servoing(robot: sp.Robot, count: int) -> Numbers:
    """Return random configurations, and twists of 0.2 m/s and 0.5 rad/s (standard deviations)."""
    rng = np.random.default_rng(1)
    size = np.array([0.2, 0.2, 0.2, 0.5, 0.5, 0.5])
    return robot.random(count, seed=rng), size * rng.normal(size=(count, 6))


def near(share: float, least: float) -> Callable[[sp.Robot, int], Numbers]:
    """Return a function like `servoing`, with a fraction `share` of q near a shoulder singularity.

    The joint angles of these q are normally distributed about the singularity, with standard
    deviations of 10^least to 0.1 rad, or of zero if least is -16.
    """

    def made(robot: sp.Robot, count: int) -> Numbers:
        q, twist = servoing(robot, count)
        rng = np.random.default_rng(2)
        some = rng.random(count) < share
        away = 10.0 ** rng.uniform(least, -1, (count, 1)) if least > -16 else np.zeros((count, 1))
        lost = np.array([0.3, 0.0, np.pi / 2, -1.6, 0.0, 1.6, 0.2])
        there = np.where([0, 1, 1, 0, 1, 0, 0], lost + away * rng.normal(size=q.shape), q)
        return np.where(some[:, None], there, q), twist

    return made


KINDS: dict[str, Callable[[sp.Robot, int], Numbers]] = {
    "servoing": servoing,
    "a fifth near a singularity": near(0.2, -4.0),
    "all of them singular": near(1.0, -16.0),
}


@cache
def most(kind: str, robot: str, count: int) -> Numbers:
    """Return `count` configurations and twists of a kind, cached."""
    return KINDS[kind](sp.load(robot), count)


def data(kind: str, robot: str, count: int) -> Numbers:
    """Return the data of a batch; for a servoing Panda, the first rows of the largest batch."""
    large = (kind, robot) == ("servoing", "panda")
    q, twist = most(kind, robot, COUNTS[-1] if large else count)
    return q[:count], twist[:count]


def device_time(gpu: GpuVelocityIk, given: Numbers, dtype: Any) -> float:
    """Return the device time of a call [ms]."""
    machine, stream = gpu.device, gpu.device.stream()
    numbers = [np.ascontiguousarray(one, dtype) for one in given]
    kept = [machine.allocate(one.nbytes, stream) for one in (*numbers, numbers[0])]
    for one, memory in zip(numbers, kept, strict=False):
        machine.upload(memory.pointer, one, stream)
    count, watch = len(numbers[0]), Stopwatch(stream)
    q, twist, out = (memory.pointer for memory in kept)

    def call() -> None:
        gpu.launch(np.dtype(dtype), q, twist, 0, out, count, stream)

    call()  # compiles the CUDA code
    calls, driver = max(2, min(50, 2_000_000 // count)), runtime.packages()[1]
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL
    runtime.check(driver.cuStreamBeginCapture(stream, mode))
    for _ in range(calls):
        call()
    graph = runtime.check(driver.cuStreamEndCapture(stream))
    ready = runtime.check(driver.cuGraphInstantiate(graph, 0))
    times = []
    for _ in range(ROUNDS):
        runtime.check(driver.cuGraphLaunch(ready, stream))  # the device stays busy
        watch.mark(0)
        runtime.check(driver.cuGraphLaunch(ready, stream))
        watch.mark(1)
        times.append(watch.time() / calls)
    machine.wait(stream)
    return statistics.median(times)


def row(what: str, kind: str, robot: str, count: int, dtype: Any, **options: Any) -> str:
    """Return a line of the table."""
    arm = sp.load(robot)
    follower = velocity_ik(arm, None, options.get("step", optimal(arm)), *_limits(arm, options))
    took = device_time(on_device(follower, "cuda"), data(kind, robot, count), dtype)
    name = np.dtype(dtype).name
    rate = f"{count / took / 1e6:.2f}"
    return f"| {robot} | {what} | {kind} | {name} | {count:,} | {1e3 * took:.1f} µs | {rate} |"


def optimal(robot: sp.Robot) -> sp.DLS:
    """Return the step with optimal damping, which keeps every joint's speed limit."""
    return sp.DLS(sp.damping.Optimal.for_robot(robot))


def _limits(arm: sp.Robot, options: dict[str, Any]) -> tuple[sp.Limits | None, float | None]:
    if "mode" not in options:
        return None, None
    norm = sp.damping.Optimal.for_robot(arm).max_speed
    return sp.Limits.for_robot(arm, max_norm=norm, mode=options["mode"]), DT


def bound(rate: float) -> str:
    """Describe the chip's limits, and the fraction of them reached at `rate` steps per second."""
    properties = runtime.packages()[0].Device(0).properties
    peak = 2e3 * 128 * properties.multiprocessor_count * properties.clock_rate
    memory = 2e3 * properties.memory_clock_rate * properties.global_memory_bus_width / 8
    flops, moved = 2 * FUSED + OTHER, 4 * (7 + 6 + 7)
    return (
        f"One float32 step of a servoing Panda with optimal damping takes {flops:,} floating-point "
        f"operations ({FUSED} fused multiply-adds, {OTHER} others; {INSTRUCTIONS:,} instructions "
        f"in all, counted by Nsight Compute) and moves {moved} bytes. The chip has "
        f"{properties.multiprocessor_count} × 128 lanes at {properties.clock_rate / 1e6:.2f} GHz: "
        f"{peak / 1e12:.1f} TFLOP/s, so at most {peak / flops / 1e9:.1f} billion steps a second by "
        f"operations, {peak / 2 / INSTRUCTIONS / 1e9:.1f} by instructions, and, at "
        f"{memory / 1e12:.2f} TB/s, {memory / moved / 1e9:.0f} by memory. Measured: "
        f"{rate / 1e9:.1f} billion, {100 * rate * flops / peak:.0f} % of the operations' bound, "
        f"{100 * rate * INSTRUCTIONS / (peak / 2):.0f} % of the instructions', "
        f"{100 * rate * moved / memory:.0f} % of the memory's."
    )


def main() -> None:
    """Measure all cases; print the tables and write them to bench/results/."""
    if not devices():
        sys.exit("this benchmark needs an NVIDIA GPU and supple[cuda]")
    device, driver = devices()[0], runtime.packages()[1]
    million, f32, rules = 1_000_000, np.float32, sp.damping
    panda = sp.load("panda")
    lines = [
        row("Optimal", "servoing", "panda", count, dtype)
        for dtype in (np.float32, np.float64)
        for count in COUNTS
    ]
    for kind in list(KINDS)[1:]:
        lines.append(row("Optimal", kind, "panda", million, f32))
    lines.append(row("Optimal", "servoing", "ur5e", million, f32))
    for mode in ("exact", "scale"):
        lines.append(row(f'Optimal, limits "{mode}"', "servoing", "panda", million, f32, mode=mode))
    steps: dict[str, Any] = {
        "Curvature": sp.DLS(rules.Curvature.for_robot(panda, dt=DT)),
        "Constant": sp.DLS(rules.Constant(0.01)),
        "Region": sp.DLS(rules.Region.for_robot(panda)),
        "Manipulability": sp.DLS(rules.Manipulability.for_robot(panda)),
        "ConditionBound": sp.DLS(rules.ConditionBound(100.0)),
        "SDLS": sp.steps.SDLS(),
        "Transpose": sp.steps.Transpose(),
    }
    for name, step in steps.items():
        lines.append(row(name, "servoing", "panda", million, f32, step=step))
    follower = on_device(velocity_ik(panda, None, optimal(panda), None, None), "cuda")
    best = 10 * million / device_time(follower, data("servoing", "panda", 10 * million), f32) * 1e3
    version = runtime.check(driver.cuDriverGetVersion())
    text = "\n".join(
        [
            "# Velocity steps on a GPU",
            "",
            f"{device}. `step(robot, q, twist)`, arrays in the GPU's memory. Servoing: q anywhere "
            "inside the limits, twists of 0.2 m/s and 0.5 rad/s along each axis (standard "
            "deviations). A fifth near a singularity: 1e-4 to 0.1 rad away from where the shoulder "
            f"of the Panda is singular. Limits: the robot's own, dt = {DT} s.",
            "",
            "| robot | step | poses | numbers | robots | device time | billion a second |",
            "|---|---|---|---|---:|---:|---:|",
            *lines,
            "",
            bound(best),
            "",
            f"CUDA driver {version}. "
            + measure.provenance(["numpy", "cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc"]),
            "",
        ]
    )
    print(text)
    print("written:", measure.write("gpu_step", text))


if __name__ == "__main__":
    main()
