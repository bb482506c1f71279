"""A step of a Servo with `out=` allocates nothing on the heap."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# Counts calls of malloc while a flag is set. Python allocates small objects without malloc.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
static volatile long calls;

long heap_calls(void) { return calls; }
void *malloc(size_t n) { ++calls; return __libc_malloc(n); }
void *calloc(size_t n, size_t m) { ++calls; return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { ++calls; return __libc_realloc(p, n); }
void *memalign(size_t a, size_t n) { ++calls; return __libc_memalign(a, n); }
void *aligned_alloc(size_t a, size_t n) { ++calls; return __libc_memalign(a, n); }
int posix_memalign(void **p, size_t a, size_t n) {
  ++calls;
  *p = __libc_memalign(a, n);
  return *p ? 0 : 12;
}
"""

# Allocations by operator new are counted too, because it calls malloc.
LOOP = r"""
import ctypes, json
import numpy as np
import supple
from supple import DLS, Limits, PoseTask, PositionTask, PostureTask, Servo, damping
from supple.steps import EstimatedDLS, NumericalFilter
from supple.redundancy import Priority
from supple.steps import SDLS, WeightedDLS

count = ctypes.CDLL(None).heap_calls
count.restype = ctypes.c_long
panda, ur5e = supple.load("panda"), supple.load("ur5e")
q_panda = np.array([0.2, 0.1, -0.1, -1.9, 0.1, 2.0, 0.6])
q_ur5e = np.array([0.3, -1.2, 1.4, -0.5, 0.0, 0.2])  # its wrist is singular
twist = np.array([0.1, 0.0, -0.1, 0.2, 0.1, 0.0])
T = np.asarray(panda.fk(q_panda + 0.3))
out = np.empty(7)


def loops():
    narrow = Limits.for_robot(panda, speed_factor=0.02, max_acceleration=5.0, max_norm=0.05)
    scaled = Limits.for_robot(panda, speed_factor=0.02, mode="scale")
    optimal, region = DLS(damping.Optimal(0.5)), DLS(damping.Region(0.1, 0.5), "svd")
    weighted = WeightedDLS(damping.Constant(0.01), None, np.arange(1.0, 8.0))
    both = (twist, T)

    def on_panda(name, wish, tasks=None, **more):
        return name, Servo(panda, tasks, dt=0.001, **more), q_panda, wish

    def on_ur5e(name, wish, **more):
        return name, Servo(ur5e, dt=0.001, **more), q_ur5e, wish

    yield on_panda("twist", (twist,))
    yield on_panda("target", (None, T))
    yield on_panda("both", both)
    yield on_panda("optimal", (10 * twist, T), step=optimal)
    yield on_ur5e("singular", (twist,))
    yield on_ur5e("singular, optimal", (10 * twist,), step=optimal)
    yield on_ur5e("singular, svd", (twist,), step=region)
    yield on_ur5e("selective", (twist,), step=SDLS(0.2))
    yield on_ur5e("filtered", (twist,), step=NumericalFilter(5.0))
    yield on_ur5e("estimated", (twist,), step=EstimatedDLS(damping.SpeedBound(5.0)))
    yield on_panda("limits", both, limits=narrow)
    yield on_panda("limits, scaled", both, limits=scaled)
    yield on_panda("limits, weighted", both, limits=narrow, step=weighted)
    yield on_panda("acceleration", (twist, T, twist), order=2)
    yield on_panda("remembering", (twist,), step=DLS(damping.MayorgaRank(0.1, 0.1)))
    yield on_panda("posture", (None, q_panda + 0.1), PostureTask())
    v, p = twist[:3].copy(), T[:3, 3].copy()
    yield on_panda("position", (v, p), PositionTask())
    pair, wish = (PositionTask(), PostureTask()), ([v, None], [p, q_panda + 0.1])
    ranged = PoseTask(about="z", cone=0.1, tolerance={"x": 0.05, "z": 0.01})
    yield on_panda("ranged", both, ranged, limits=narrow)
    yield on_panda("two", wish, pair)
    yield on_panda("two in order", wish, pair, step=Priority(DLS(damping.Constant(1e-3))))


def idle(*given, out):
    return out


def run(step, q, wish, out, times):
    for _ in range(times):
        step(q, *wish, out=out)


def counted(step, q, wish, out):
    run(step, q, wish, out, 100)
    before = count()
    run(step, q, wish, out, 1000)
    return count() - before


def aware():
    before = count()
    for _ in range(100):
        np.empty(1000)
    return count() - before


found = {"aware": aware()}
for name, servo, q, wish in loops():
    at = q.copy()
    found[name] = [counted(idle, q, wish, at), counted(servo, q, wish, at)]
    at[:] = q
    found[name + ", going"] = [0, counted(servo, at, wish, at)]
print(json.dumps(found))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts by LD_PRELOAD and glibc")
def test_a_servo_step_allocates_no_heap_memory(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    source, shim = tmp_path / "shim.c", tmp_path / "shim.so"
    source.write_text(SHIM)
    build = [compiler, "-O1", "-fno-builtin", "-shared", "-fPIC", str(source), "-o", str(shim)]
    subprocess.run(build, check=True, capture_output=True)
    environment = os.environ | {"LD_PRELOAD": str(shim)}
    ran = subprocess.run(
        [sys.executable, "-c", LOOP], env=environment, capture_output=True, text=True, check=False
    )
    if "undefined symbol: __libc_" in ran.stderr:
        pytest.skip("another C library")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found.pop("aware") >= 100  # the counter works
    assert len(found) > 20
    for name, (idle, servo) in found.items():
        assert servo == idle == 0, (name, idle, servo)
