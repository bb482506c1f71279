"""Call the kernel's lanes on arrays: kernel/harness*.cpp, compiled for each instruction set."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import supple._core
from numpy.typing import NDArray
from supple._core import SecondarySpec, StepSpec

from compile_once import only_one

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent / "kernel"
# Compiling takes most of the time of these tests, hence -Og and no inlining of small functions. At
# this level, g++ wrongly reports some variables as uninitialized.
FLAGS = shlex.split(
    "-std=c++20 -Og -ftree-sra -DSUPPLE_INLINE=inline -ffp-contract=off -fno-math-errno "
    "-Wall -Wextra -Werror -Wno-maybe-uninitialized -fPIC -shared"
)
# Whether a lane computes fma with one rounding, by instruction set.
FUSED = {"baseline": False, "avx2": True, "avx512": True, "neon": True}

Array = NDArray[np.floating]


def instruction_sets() -> dict[str, list[str]]:
    """Return the compiler flags of each instruction set of this build that this machine can run."""
    machine = platform.machine().lower()
    names = {"amd64": "x86_64", "x86_64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}
    flags = {}
    for line in (ROOT / "src/core/kernels/isa.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            architecture, isa, *words = line.split()
            if architecture == names.get(machine, "other"):
                flags[isa] = words
    return {isa: flags[isa] for isa in supple._core.isas()}


def widths(isa: str, dtype: np.dtype) -> list[int]:
    """Return the widths of the lanes that the library uses with an instruction set.

    Width 1 is one problem. The lanes of a batch fill SUPPLE_REGISTERS registers, and eight lanes
    hold the joints of a single configuration (`Unrolled`).
    """
    flags = instruction_sets()[isa]
    register = 64 if "-mavx512f" in flags else 32 if "-mavx2" in flags else 16  # bytes
    registers = next(int(flag[-1]) for flag in flags if flag.startswith("-DSUPPLE_REGISTERS="))
    return sorted({1, 8, registers * register // dtype.itemsize})


def exported(isa: str) -> str:
    """Return a macro that calls EXPORT(name, number type, lane type) for every lane type."""
    calls = []
    for lane in LANES:
        if lane.isa == isa:
            bits, number = 8 * lane.dtype.itemsize, "double" if lane.dtype == float else "float"
            pack = number if lane.width == 1 else f"Pack<{number}, {lane.width}>"
            calls.append(f"EXPORT(f{bits}x{lane.width}, {number}, {pack})")
    return f"-DLAB_LANES(EXPORT)={' '.join(calls)}"


@cache
def compiled(isa: str, source: str = "harness.cpp") -> ctypes.CDLL:
    """Return the library of one instruction set, cached by a hash of its sources."""
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    command = [*compiler, *FLAGS, *instruction_sets()[isa], f"-DSUPPLE_ISA={isa}", exported(isa)]
    digest = hashlib.sha256(shlex.join(command).encode())
    digest.update(subprocess.check_output([*compiler, "--version"]))
    headers = [*HERE.glob("*.hpp"), *(ROOT / "include/supple").rglob("*.hpp")]
    for path in (HERE / source, *sorted(headers)):
        digest.update(path.read_bytes())
    library = ROOT / "build/harness" / f"{isa}-{digest.hexdigest()[:16]}.so"
    with only_one(library):
        if not library.exists():
            # The library has a temporary name until it is complete, in case g++ is interrupted.
            partial = library.with_suffix(f".{os.getpid()}")
            subprocess.run(
                [*command, "-I", str(ROOT / "include"), str(HERE / source), "-o", str(partial)],
                check=True,
            )
            partial.replace(library)
    return ctypes.CDLL(str(library))


@dataclass(frozen=True)
class Lane:
    """One lane type of one instruction set; its methods run the kernel on arrays."""

    isa: str
    dtype: np.dtype
    width: int

    def __str__(self) -> str:
        return f"{self.isa}-f{8 * self.dtype.itemsize}x{self.width}"

    @property
    def eps(self) -> float:
        """The distance from 1 to the next number."""
        return float(np.finfo(self.dtype).eps)

    @property
    def scalar(self) -> Lane:
        """The lane type of width 1 with the same precision and instruction set."""
        return Lane(self.isa, self.dtype, 1)

    def map(self, function: str, *rows: object) -> Array:
        """Call a function of harness.cpp on numbers: rows of equal length in, rows out."""
        x = np.ascontiguousarray(np.stack(np.broadcast_arrays(*rows)), self.dtype)
        y = np.empty((OUT_ROWS[function], x.shape[1]), self.dtype)
        self._call(function, x.shape[1], x, y)
        return y

    def cholesky(self, a: Array, b: Array) -> tuple[Array, Array, Array]:
        """Return the factors (c, n, n), the x (c, n) with A x = b, and a mask (c,) of full rank."""
        count, n, _ = a.shape
        out = self._empty((count, n, n), (count, n), (count,))
        self._call("cholesky", count, n, self._in(a), self._in(b), *out)
        return out[0], out[1], out[2] == 1

    def qr(self, a: Array, b: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Return packed R (c, m, n), Q (c, m, m), Q^T b (c, m), x (c, n), full-rank mask (c,)."""
        count, m, n = a.shape
        out = self._empty((count, m, n), (count, m, m), (count, m), (count, n), (count,))
        self._call("qr", count, m, n, self._in(a), self._in(b), *out)
        return out[0], out[1], out[2], out[3], out[4] == 1

    def svd(self, a: Array, *, six_rows: bool = False) -> tuple[Array, Array, Array]:
        """Return U (c, m, k), sigma (c, k), V (c, n, k); with `six_rows`, m = 6 at compile time."""
        count, m, n = a.shape
        k = min(m, n)
        out = self._empty((count, m, k), (count, k), (count, n, k))
        if six_rows:
            self._call("svd_of_six_rows", count, n, self._in(a), *out)
        else:
            self._call("svd", count, m, n, self._in(a), *out)
        return out[0], out[1], out[2]

    def gram_svd(self, a: Array, small: float) -> tuple[Array, Array, Array, Array]:
        """Return Uᵀ (c, k, m), ascending sigma (c, k), Vᵀ (c, k, n), and accuracy masks (c,)."""
        count, m, n = a.shape
        k = min(m, n)
        out = self._empty((count, k, m), (count, k), (count, k, n), (count,))
        self._call("gram_svd", count, m, n, self._in(np.array([small])), self._in(a), *out)
        return out[0], out[1], out[2], out[3] == 1

    def singular_values(self, a: Array) -> Array:
        """Return sigma (c, k), computed without U and V."""
        count, m, n = a.shape
        (sigma,) = self._empty((count, min(m, n)))
        self._call("singular_values", count, m, n, self._in(a), sigma)
        return sigma

    def secondary(self, how: SecondarySpec, J: Array, e: Array, v: Array) -> tuple[Array, Array]:
        """Return q̇ (c, n) and λ² (c,) of a step with a secondary velocity v (c, n) = -gain ∇h."""
        count, m, n = J.shape
        bounds = np.array([how.alpha1, how.max_speed], float)
        out = self._empty((count, n), (count,))
        arrays = (_packed([how.step]), bounds, *map(self._in, (J, e, v)), *out)
        form = int(how.form.value)
        self._call("secondary", count, m, n, form, *arrays, source="harness_redundancy.cpp")
        return out[0], out[1]

    def priority(self, how: Sequence[StepSpec], rows: Sequence[int], J: Array, e: Array) -> Array:
        """Return q̇ (c, n) for tasks with the given numbers of rows in J (c, m, n) and e (c, m)."""
        count, m, n = J.shape
        (dq,) = self._empty((count, n))
        arrays = (np.array(rows, np.intc), _packed(how), self._in(J), self._in(e), dq)
        self._call("priority", count, m, n, len(rows), *arrays, source="harness_redundancy.cpp")
        return dq

    def limited(
        self, J: Array, x0: Array, low: Array, high: Array, lambda2: Array, bound: Array
    ) -> tuple[Array, ...]:
        """Return x (c, n), active sets (c, n), damping (c,) of steps in boxes with ‖x‖ <= bound."""
        count, m, n = J.shape
        numbers = np.stack([lambda2, bound], axis=-1)
        out = self._empty((count, n), (count, n), (count,))
        arrays = (*map(self._in, (J, x0, low, high, numbers)), *out)
        self._call("limited", count, m, n, *arrays, source="harness_limits.cpp")
        return tuple(out)

    def bounded(
        self, J: Array, e: Array, low: Array, high: Array, lambda2: Array, bound: Array
    ) -> tuple[Array, ...]:
        """Return the results of `limited`, computed by the fast path, which takes e (c, m), not x0.

        The last result is a mask (c,) of the cases in which the fast path is valid; x = 0 in all
        other cases.
        """
        count, m, n = J.shape
        numbers = np.stack([lambda2, bound], axis=-1)
        out = self._empty((count, n), (count, n), (count,), (count,))
        arrays = (*map(self._in, (J, e, low, high, numbers)), *out)
        self._call("bounded", count, m, n, *arrays, source="harness_limits.cpp")
        return tuple(out)

    def limb_step(
        self,
        limbs: Sequence[tuple[int, Sequence[int]]],
        base: Sequence[int],
        J: Array,
        e: Array,
        lambda2: Array,
        unit: Array,
    ) -> Array:
        """Return dq (c, n); a limb is given by its number of rows and its columns of J (c, m, n).

        `unit` (n,) are the units of the columns.
        """
        count, m, n = J.shape
        columns = [*(columns for _, columns in limbs), base]
        rows = np.cumsum([0, *(rows for rows, _ in limbs)])
        ends = np.cumsum([0, *map(len, columns)])
        numbers = np.concatenate([[len(limbs)], rows, ends, *columns]).astype(np.intc)
        (dq,) = self._empty((count, n))
        arrays = (*map(self._in, (J, e, lambda2, unit)), dq)
        self._call("limb_step", count, m, n, numbers, *arrays, source="harness_limbs.cpp")
        return dq

    def constrained(
        self,
        J: Array,
        x0: Array,
        low: Array,
        high: Array,
        lambda2: Array,
        bound: Array,
        G: Array,
        h: Array,
    ) -> tuple[Array, ...]:
        """Return x (c, n), active sets (c, n), states of rows (c, k) and damping (c,) of steps
        within boxes and norms, and with rows G x >= h.
        """
        (count, m, n), rows = J.shape, h.shape[1]
        numbers = np.stack([lambda2, bound], axis=-1)
        out = self._empty((count, n), (count, n), (count, rows), (count,))
        arrays = (*map(self._in, (J, x0, low, high, numbers, G, h)), *out)
        self._call("constrained", count, m, n, rows, *arrays, source="harness_constrained.cpp")
        return tuple(out)

    def least_direction(self, J: Array) -> tuple[Array, Array]:
        """Return û (c, m) and σ̂ (c,), computed exactly from an SVD."""
        count, m, n = J.shape
        u, sigma = self._empty((count, m), (count,))
        self._call("least_direction", count, m, n, self._in(J), u, sigma)
        return u, sigma

    def filtered_step(
        self, J: Array, e: Array, U: Array, max_gain: float, printed: bool
    ) -> tuple[Array, ...]:
        """Return q̇ (c, n), directions (c, p, m), σ̂ (c,), [σ_eff, σ_o, α²] (c, 3), λ² (c,)."""
        count, m, n = J.shape
        turned = self._in(U).copy()
        sigma, found, dq, lambda2 = self._empty((count,), (count, 3), (count, n), (count,))
        how = self._in(np.array([max_gain, printed, U.shape[1]]))
        arrays = (how, self._in(J), self._in(e), turned, sigma, found, dq, lambda2)
        self._call("filtered_step", count, m, n, *arrays)
        return dq, turned, sigma, found, lambda2

    def estimated_step(
        self, how: StepSpec, J: Array, e: Array, ends: Array, values: Array
    ) -> tuple[Array, ...]:
        """Return q̇ (c, n), the directions (c, 2, m) and values (c, 2) of the smallest and the
        largest σ, and λ² (c,).
        """
        count, m, n = J.shape
        ends, values = self._in(ends).copy(), self._in(values).copy()
        dq, lambda2 = self._empty((count, n), (count,))
        numbers = [how.damping.rule.value, *how.damping.parameters, *[0.0] * 4][:5]
        direction = [*how.direction, how.min_weight] if how.direction else np.zeros(m + 1)
        given = (self._in(np.array(x, float)) for x in (numbers, direction))
        arrays = (*given, self._in(J), self._in(e), ends, values, dq, lambda2)
        self._call("estimated_step", count, m, n, *arrays)
        return dq, ends, values, lambda2

    def optimal(
        self, J: Array, e: Array, bound: float, start: object = 0.0, *, sized: bool = False
    ) -> tuple[Array, Array, Array, Array]:
        """Return q̇ (c, n), λ² (c,), validity (c,), Newton iterations (c,) for ‖q̇‖ <= bound.

        With `sized`, (m, n) = (6, 7) are compile-time sizes.
        """
        count, m, n = J.shape
        numbers = [self._in(np.broadcast_to(x, (count,))) for x in (bound, start)]
        out = self._empty((count, n), (count,), (count,), (count,))
        name, sizes = ("optimal_of_6x7", ()) if sized else ("optimal", (m, n))
        self._call(name, count, *sizes, self._in(J), self._in(e), *numbers, *out)
        return out[0], out[1], out[2] == 1, out[3]

    def residual(
        self, J: Array, e: Array, share: float, start: object = 0.0
    ) -> tuple[Array, Array, Array, Array]:
        """Return the results of `optimal` for steps with ‖e - J q̇‖ <= share ‖e‖."""
        count, m, n = J.shape
        numbers = [self._in(np.broadcast_to(x, (count,))) for x in (share, start)]
        out = self._empty((count, n), (count,), (count,), (count,))
        self._call("residual", count, m, n, self._in(J), self._in(e), *numbers, *out)
        return out[0], out[1], out[2] == 1, out[3]

    def _in(self, a: Array) -> Array:
        return np.ascontiguousarray(a, self.dtype)

    def _empty(self, *shapes: tuple[int, ...]) -> list[Array]:
        return [np.zeros(shape, self.dtype) for shape in shapes]

    def _call(
        self, function: str, count: int, *arguments: int | Array, source: str = "harness.cpp"
    ) -> None:
        name = f"{function}_f{8 * self.dtype.itemsize}x{self.width}"
        converted = [
            ctypes.c_int(a) if isinstance(a, int) else ctypes.c_void_p(a.ctypes.data)
            for a in arguments
        ]
        getattr(compiled(self.isa, source), name)(ctypes.c_long(count), *converted)


# Mirrors `StepData` of harness_redundancy.cpp; test_redundancy_lanes.py compares the layouts.
STEP = np.dtype(
    [
        ("method", np.intc),
        ("rule", np.intc),
        ("group", np.intc),
        ("error_group", np.intc),
        ("parameter", float),
        ("max_error", float),
        ("max_angle", float),
        ("parameters", float, 4),
    ],
    align=True,
)


def _packed(steps: Sequence[StepSpec]) -> Array:
    """Return steps without weights, in the form that harness_redundancy.cpp reads."""
    packed = np.zeros(len(steps), STEP)
    for row, step in zip(packed, steps, strict=True):
        assert not [*step.task_scale, *step.joint_scale, *step.direction], step
        assert len(step.error_clamps) <= 1, step
        for name in ("parameter", "max_angle"):
            row[name] = getattr(step, name)
        row["group"], row["error_group"], row["max_error"] = step.group or 3, 3, np.inf
        for clamp in step.error_clamps:
            row["error_group"], row["max_error"] = clamp.group or 3, clamp.max_error
        row["method"], row["rule"] = step.method.value, step.damping.rule.value
        row["parameters"][: len(step.damping.parameters)] = step.damping.parameters
    return packed


# Number of rows that a function of harness.cpp returns.
OUT_ROWS = {
    "arithmetic": 5,
    "fused": 1,
    "root": 1,
    "signs": 2,
    "extremes": 2,
    "exponent": 1,
    "comparisons": 6,
    "selection": 1,
    "masks": 5,
    "finiteness": 1,
    "circle": 2,
    "angle": 1,
    "angle_of_unit_vector": 1,
    "rotation_vector": 3,
    "rotation": 9,
}

PRECISIONS = (np.dtype(np.float64), np.dtype(np.float32))
LANES = [
    Lane(isa, dtype, width)
    for isa in instruction_sets()
    for dtype in PRECISIONS
    for width in widths(isa, dtype)
]


def same_bits(a: Array, b: Array) -> bool:
    """Return whether two arrays are equal bit for bit; any NaN equals any other."""
    a, b = np.asarray(a), np.asarray(b)
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    same = (a.view(unsigned) == b.view(unsigned)) | (np.isnan(a) & np.isnan(b))
    return a.dtype == b.dtype and a.shape == b.shape and bool(np.all(same))
