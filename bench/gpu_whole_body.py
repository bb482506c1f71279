"""Whole-body steps of humanoids on a GPU: device time of batches of all sizes.

python bench/gpu_whole_body.py prints a table and writes it to bench/results/. The tasks are those
of `whole_body.py`, for random configurations about a stance. Device times are those between events
on a stream; other times are from the call to the end of a synchronization, with CuPy arrays.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import measure
import supple as sp
from gpu import Stopwatch
from supple.gpu import devices, runtime
from whole_body import FEET, HANDS, files, first
from whole_body_peers import CENTER, DT, FOOT, HAND, POSTURE

COUNTS = (1_000, 10_000, 100_000, 1_000_000)
ROUNDS = 5
GAIN = 20.0  # [1/s]
CHECKED = 1_000  # robots that are compared with the CPU
# Standard deviations [rad] of configurations about the stance and of targets about configurations.
KINDS = {
    "near": (0.1, 0.01),
    "limits act on 12 %": (0.3, 0.15),
    "limits act on 78 %": (0.6, 0.3),
}
STEP = sp.DLS(sp.damping.Constant(1e-9))

Array = np.ndarray


def tasks() -> tuple[sp.tasks.Task, ...]:
    """Return the tasks of `whole_body.py`."""
    return (
        *(sp.PoseTask(frame, weight=HAND) for frame in HANDS),
        *(sp.PoseTask(frame, weight=FOOT) for frame in FEET),
        sp.tasks.CenterOfMassTask(("x", "y"), weight=CENTER),
        sp.PostureTask(weight=POSTURE),
    )


def drawn(robot: sp.Robot, stance: Array, count: int, kind: str) -> tuple[Array, list[Array]]:
    """Return configurations and the targets of all tasks."""
    rng, (spread, move) = np.random.default_rng(0), KINDS[kind]
    q = robot.integrate(stance, spread * rng.normal(size=(count, robot.nv)))
    q[:, 7:] = np.clip(q[:, 7:], robot.lower[6:] + 0.02, robot.upper[6:] - 0.02)
    there = robot.integrate(q, move * rng.normal(size=(count, robot.nv)))
    poses = robot.fk(there, (*HANDS, *FEET))
    return q, [*np.moveaxis(poses, 1, 0), robot.center_of_mass(there), q[:, 7:]]


def times(call: Callable[[], object], watch: Stopwatch, wait: Callable[[], None]) -> list[float]:
    """Return the median device time and the median time of a call [µs]."""
    call()
    wait()
    device, wall = [], []
    for _ in range(ROUNDS):
        call()  # the device stays busy
        watch.mark(0)
        call()
        watch.mark(1)
        device.append(1e3 * watch.time())
        wait()
        start = time.perf_counter()
        call()
        wait()
        wall.append(1e6 * (time.perf_counter() - start))
    return [statistics.median(device), statistics.median(wall)]


def main() -> None:
    """Measure all cases; print the table and write it to bench/results/."""
    if not devices():
        sys.exit("this benchmark needs an NVIDIA GPU and supple[cuda]")
    import cupy

    with tempfile.TemporaryDirectory() as name:
        robot = sp.urdf(files(Path(name))[1])
    stance = first(robot)
    options: dict[str, Any] = {"tasks": tasks(), "gain": GAIN, "dt": DT}
    options["limits"] = sp.Limits.for_robot(robot)
    stream = cupy.cuda.Stream(non_blocking=True)
    watch, lines = Stopwatch(stream.ptr), []
    for kind in KINDS:
        for dtype in (np.float64, np.float32):
            part, goals = drawn(robot, stance, COUNTS[-1] // 10, kind)
            q, targets = part.astype(dtype), [one.astype(dtype) for one in goals]
            few = [one[:CHECKED] for one in targets]
            expected = STEP.velocities(robot, q[:CHECKED], target=few, **options)
            for count in COUNTS:
                with stream:
                    repeated = -(-count // len(q))

                    def there(one: Array, times: int = repeated, count: int = count) -> Any:
                        copied = cupy.asarray(np.ascontiguousarray(one[:count]))
                        return cupy.tile(copied, (times, *[1] * (one.ndim - 1)))[:count]

                    at, asked = there(q), [there(one) for one in targets]
                    out = cupy.empty((count, robot.nv), dtype)

                    def call(at: Any = at, asked: Any = asked, out: Any = out) -> None:
                        STEP.velocities(robot, at, target=asked, out=out, stream=stream, **options)

                    device, wall = times(call, watch, stream.synchronize)
                    found = out[:CHECKED].get()
                size = np.abs(expected).max(axis=1)
                worst = (np.abs(found - expected[:count]).max(axis=1) / size).max()
                lines.append(
                    f"| {kind} | {np.dtype(dtype).name} | {count:,} | {device:.1f} | {wall:.1f} | "
                    f"{count / device:.1f} | {worst:.0e} |"
                )
                print(lines[-1], flush=True)
    version = runtime.check(runtime.packages()[1].cuDriverGetVersion())
    text = "\n".join(
        [
            "# Whole-body steps on a GPU",
            "",
            f"{devices()[0]}. A Unitree G1 with a floating base, {robot.dof} degrees of "
            f"freedom: poses of both hands (weight {HAND:g}) and both feet ({FOOT:g}), center of "
            f"mass in x and y ({CENTER:g}), posture ({POSTURE:g}), limits of positions and speeds; "
            "all arrays in the GPU's memory. The last column is the largest difference from the "
            f"CPU, relative to the largest speed of the robot, of {CHECKED:,} robots.",
            "",
            "| targets | numbers | robots | device time [µs] | call [µs] | million a second | "
            "difference |",
            "|---|---|---:|---:|---:|---:|---:|",
            *lines,
            "",
            f"CUDA driver {version}. "
            + measure.provenance(["numpy", "cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc"]),
            "",
        ]
    )
    print(text)
    print("written:", measure.write("gpu_whole_body", text))


if __name__ == "__main__":
    main()
