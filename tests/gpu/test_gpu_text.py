"""The CUDA source of steps, without the entry point of the kernel, is compiled and run on the CPU.

This tests its constants, fast path and slow path on machines without a GPU.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple
from batch_steps import hold_optimal, optimal, some, velocities
from loops import SINGULAR, robot
from supple import DLS, Limits, damping
from supple.control.gpu_velocities import Request, text_of
from supple.control.velocity_ik import velocity_ik

HEAD = """
#define __device__
#define __global__
#define __shared__ static
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
static struct { unsigned x; } gridDim, blockDim, blockIdx, threadIdx;
static void __syncthreads() {}
static int atomicAdd(int* counter, int more) { return (*counter += more) - more; }
"""
TAIL = """
extern "C" int on_cpu(const supple::Request* request, bool careful) {
  using namespace supple;
  int quick = 0;
  for (int row = 0; row < request->count; ++row) {
    Robot robot = read(*request, row);
    const bool right = !careful && robot.valid && fast_path(robot);
    quick += right;
    if (right || !robot.valid) {
      write(*request, row, robot.dq, robot.valid);
    } else {
      slow_path(*request, row);
    }
  }
  return quick;
}
"""


def on_cpu(folder: Path, arm: supple.Robot, dtype: Any, **options: Any) -> Any:
    """Return a function of (q, twist, qd, careful) that runs the source of a step on the CPU.

    The function returns the speeds and the number of configurations for which the fast path was
    valid.
    """
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None:
        pytest.skip("no C++ compiler here")
    step = options.get("step", optimal(arm))
    follower = velocity_ik(arm, None, step, options.get("limits"), options.get("dt"))
    (folder / "step.cpp").write_text(HEAD + text_of(follower, np.dtype(dtype)) + TAIL)
    library = folder / "step.so"
    # Each library has its own namespace: otherwise the loader would merge constants of the
    # libraries.
    own = f"-Dsupple=supple_{abs(hash(folder))}"
    command = [compiler, "-std=c++20", "-w", "-shared", "-fPIC", own, "-DSUPPLE_INLINE=inline"]
    command += ["-o", str(library)]
    subprocess.run([*command, str(folder / "step.cpp")], check=True)
    run = ctypes.CDLL(str(library)).on_cpu

    def call(q: Any, twist: Any, qd: Any = None, careful: bool = False) -> tuple[Any, int]:
        result = np.full_like(q, np.nan)
        speed = None if qd is None else qd.ctypes.data
        request = Request(q.ctypes.data, speed, twist.ctypes.data, result.ctypes.data, len(q))
        return result, int(run(ctypes.byref(request), ctypes.c_bool(careful)))

    return call


def test_the_cuda_source_of_optimal_damping_keeps_its_bound_in_float(tmp_path: Path) -> None:
    arm = robot("panda")
    bound = damping.Optimal.for_robot(arm).max_speed
    run = on_cpu(tmp_path, arm, np.float32)
    q, twist = (x.astype(np.float32) for x in some("panda", 3000))
    found, quick = run(q, twist)
    assert quick > 2990
    hold_optimal(arm, q, twist, found, bound)
    slow, none = run(q, twist, careful=True)
    assert none == 0
    hold_optimal(arm, q, twist, slow, bound)
    rng = np.random.default_rng(1)
    away = 10.0 ** rng.uniform(-12, 0, (2000, 1)) * rng.normal(size=(2000, 7))
    q = (SINGULAR["panda"][1] + away).astype(np.float32)
    twist = (rng.normal(size=(2000, 6)) * 10.0 ** rng.uniform(-6, 4, (2000, 1))).astype(np.float32)
    found, quick = run(q, twist)
    assert 200 < quick < 1900  # some configurations take the fast path, others the slow one
    hold_optimal(arm, q, twist, found, bound)
    q[0, 0], twist[1, 2] = np.nan, np.inf
    assert (run(q, twist)[0][:2] == 0).all()


def test_the_cuda_source_of_limited_steps_agrees_with_the_cpu(tmp_path: Path) -> None:
    arm = robot("ur5e")
    limits = Limits.for_robot(arm, max_norm=2.0, max_acceleration=20.0)
    step = DLS(damping.Curvature.for_robot(arm, dt=0.01))
    run = on_cpu(tmp_path, arm, np.float64, step=step, limits=limits, dt=0.01)
    q, twist = some("ur5e", 1000)
    twist *= 0.2
    qd = 0.1 * np.cos(q)
    expected = velocities(arm, q, twist, step=step, limits=limits, dt=0.01, qd=qd)
    found, quick = run(q, twist, qd)
    assert 100 < quick < 900
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
