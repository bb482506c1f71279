"""Kinematics and gradients of CUDA tensors: a Panda in PyTorch on a GPU.

    python bench/gpu_gradients.py        # writes results/gpu_gradients.MACHINE.md

It needs PyTorch with CUDA.

The time of a call is that of several calls and one synchronization, divided by the number of calls.
The time of a backward pass is that of `torch.autograd.grad` alone. `device` is the device time of
the CUDA kernel of the call, between events, without Python.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

import measure
import supple as sp
import supple.torch as st
from gpu import Stopwatch
from supple.gpu import runtime

COUNTS = (1_000, 100_000, 1_000_000)
ROUNDS, CALLS = 7, 20
GATES = {"1e-4 m, 1e-3 rad": (1e-4, 1e-3), "1e-6 m, 1e-6 rad": (1e-6, 1e-6)}


def took(run: Callable[[], Any]) -> tuple[float, float]:
    """Return the time of a call [ms], and its time on the device [ms], medians of `ROUNDS`."""
    run()
    watch = Stopwatch(torch.cuda.current_stream().cuda_stream)
    whole, device = [], []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(CALLS):
            run()
        torch.cuda.synchronize()
        whole.append(1e3 * (time.perf_counter() - begin) / CALLS)
        torch.cuda._sleep(60_000_000)  # the calls are queued while the device waits
        watch.mark(0)
        for _ in range(CALLS):
            run()
        watch.mark(1)
        device.append(watch.time() / CALLS)
    return statistics.median(whole), statistics.median(device)


def both(forward: Callable[..., Any], *given: torch.Tensor) -> tuple[tuple[float, float], ...]:
    """Return the times of a function, and of its backward pass."""
    with torch.no_grad():
        ahead = took(lambda: forward(*given))
    inputs = [one.clone().requires_grad_() for one in given]
    result = forward(*inputs)
    bar = torch.ones_like(result)
    back = took(lambda: torch.autograd.grad(result, inputs, bar, retain_graph=True))
    return ahead, back


def main() -> None:
    """Measure and write the table."""
    if not torch.cuda.is_available():
        sys.exit("bench/gpu_gradients.py needs an NVIDIA GPU and PyTorch with CUDA")
    robot = sp.load("panda")
    rows = []
    for dtype in (torch.float64, torch.float32):
        for count in COUNTS:
            q = torch.as_tensor(robot.random(count, seed=1), dtype=dtype, device="cuda")
            x = torch.randn(count, 6, dtype=dtype, device="cuda")
            T = st.fk(robot, q)
            functions: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
                "fk": (lambda at: st.fk(robot, at), (q,)),
                "jacobian": (lambda at: st.jacobian(robot, at), (q,)),
                "step": (lambda at, v: st.step(robot, at, v, lambda2=0.01), (q, x)),
            }
            for gate, (position, rotation) in GATES.items():
                solver = sp.Solver(robot, position_tolerance=position, rotation_tolerance=rotation)
                name = f"solve, {gate}"
                functions[name] = (lambda t, solver=solver: st.solve(solver, t)[0], (T,))
                met = float(st.solve(solver, T)[1].double().mean())
                print(f"{name}, {dtype}, {count:,}: {met:.4%} met", flush=True)
            for name, (function, given) in functions.items():
                ahead, back = both(function, *given)
                times = " | ".join(f"{one:.3f}" for one in (*ahead, *back))
                kind = str(dtype).removeprefix("torch.")
                share = f"{back[1] / ahead[1]:.0%}"
                rows.append(f"| {name} | {kind} | {count:,} | {times} | {share} |")
                print(rows[-1], flush=True)
    text = "\n".join(
        [
            "# Gradients on a GPU",
            "",
            f"{runtime.devices()[0]}; PyTorch {torch.__version__}. A Panda, tensors in GPU memory;",
            "random configurations inside the limits. Times in ms for the whole batch: of a call",
            "with synchronization, and on the device alone.",
            "",
            "| function | numbers | rows | forward | device | backward | device | share |",
            "|---|---|---:|---:|---:|---:|---:|---:|",
            *rows,
            "",
        ]
    )
    print(text)
    measure.write("gpu_gradients", text)


if __name__ == "__main__":
    main()
