"""Redundancy in the kernel agrees with Python and obeys the same laws; lanes are independent."""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np
import pytest

from cases import each
from harness import LANES, STEP, Lane, compiled, instruction_sets, same_bits
from matrices import from_spectrum, orthonormal
from names import without_addresses
from sizes import nightly
from supple import DLS, Linearization, damping
from supple.redundancy import GradientProjection, NullSpace, Priority, TotalSpeed, WeightedCriterion
from supple.steps import SDLS, AngleClamp, Pseudoinverse, Transpose
from supple.steps.step import Step

Array = np.ndarray
SHAPES = ((1, 1), (2, 2), (2, 3), (6, 7), (6, 5), (3, 7), (12, 25))
SMALLEST = (1.0, 0.3, 1e-2, 1e-5, 0.0)
ROWS = ((2, 3), (1, 1, 1), (3, 6, 2), (1, 2, 3, 4), (4,))
# Only one test runs packs, which must have the bits of single numbers; the other tests run single
# numbers.
alone = pytest.mark.parametrize("lane", [x for x in LANES if x.width == 1], ids=str)


def nothing(q: Array) -> Array:
    # The gradient of h = ½‖q‖²: at q = -v, the Python step has the same vector v as the kernel.
    return q


STEPS = [
    NullSpace(Pseudoinverse(), nothing),
    NullSpace(DLS(damping.Constant(0.04), "cholesky"), nothing),
    NullSpace(AngleClamp(SDLS(), 0.3), nothing),
    GradientProjection(damping.Constant(0.04), nothing),
    GradientProjection(damping.Constant(0.0), nothing),
    GradientProjection(damping.SpeedBound(3.0), nothing),
    GradientProjection(damping.Optimal(0.7), nothing, 1.0, 0.2),
    GradientProjection(damping.Constant(0.04), nothing, 1.0, 0.3),
    WeightedCriterion(0.1, 0.2, nothing),
    WeightedCriterion(0.0, 0.2, nothing),
    TotalSpeed(0.5, nothing),
    TotalSpeed(5.0, nothing, alpha1=0.5),
    TotalSpeed(0.5, nothing, switch=True),
    TotalSpeed(2.0, nothing, alpha1=0.5, switch=True),
]
ORDERED: list[Step] = [
    DLS(damping.Constant(0.01)),
    DLS(damping.Constant(0.01), "qr"),
    DLS(damping.SpeedBound(5.0)),
    DLS(damping.Optimal(1.0)),
    Transpose(),
]


@cache
def batch(shape: tuple[int, int]) -> tuple[Array, Array, Array]:
    """Return J (c, m, n), e (c, m) and v (c, n); some of the problems are nearly singular."""
    m, n = shape
    rng = np.random.default_rng(shape)
    J, e, v = [], [], []
    for smallest in SMALLEST:
        sigma = np.append(np.linspace(2, 1.2, min(m, n) - 1), smallest)
        for kind in range(4):
            J.append(from_spectrum(rng, m, n, sigma).astype(np.float32))
            if smallest == 0:  # J is exactly singular in both precisions
                J[-1][-1], J[-1][:, -1] = 2 * J[-1][0], J[-1][:, 0]
            e.append(rng.normal(size=m) * (kind != 1))
            v.append(rng.normal(size=n) * (kind != 2))
    J += [np.zeros((m, n))] * 3
    e += [np.zeros(m), np.ones(m), np.zeros(m)]
    v += [np.ones(n), np.zeros(n), np.zeros(n)]
    return tuple(np.array(x).astype(np.float32).astype(float) for x in (J, e, v))  # type: ignore[return-value]


def python(step: Step, J: Array, e: Array, v: Array) -> Array:
    cases = (Linearization(*x[:2], q=-x[2]) for x in zip(J, e, v, strict=True))
    return np.array([step(lin) for lin in cases])


@cache
def expected(index: int, shape: tuple[int, int]) -> Array:
    return python(STEPS[index], *batch(shape))


def condition(J: Array) -> Array:
    """Return the factors (c,) by which q̇ amplifies errors of J, without the zero
    singular values.
    """
    sigma = np.linalg.svd(J, compute_uv=False)
    least = np.where(sigma > 1e-15 * sigma[:, :1], sigma, np.inf).min(axis=1)
    return 1 + sigma[:, 0] / least + sigma[:, 0] / least**2


@alone
@each("shape", SHAPES)
@pytest.mark.parametrize("index", range(len(STEPS)), ids=lambda i: without_addresses(STEPS[i])[:60])
def test_steps_in_the_kernel_agree_with_those_in_python(
    lane: Lane, index: int, shape: tuple[int, int]
) -> None:
    J, e, v = batch(shape)
    dq, lambda2 = lane.secondary(STEPS[index].kernel, J, e, v)
    assert np.isfinite(dq).all()
    assert (lambda2 >= 0).all()
    # Problems with a singular value that is zero only in float32 are excluded, because rounding
    # changes their solution.
    sigma = np.linalg.svd(J, compute_uv=False)
    ratio = sigma / np.maximum(sigma[:, :1], 1e-30)
    clear = ((ratio > 2e3 * lane.eps) | (ratio < 1e-15)).all(axis=1)
    assert clear.mean() > 0.5
    here = expected(index, shape)
    size = np.linalg.norm(e, axis=1) + np.linalg.norm(v, axis=1)
    room = 32 * max(shape) * lane.eps * condition(J) * size
    room += 64 * lane.eps * np.linalg.norm(here, axis=1)  # the step may be slightly below its bound
    off = np.abs(dq - here).max(axis=1)
    near = switching(STEPS[index], J, e, v, here, room)
    assert (off <= room + 1e-30)[clear & ~near].all()


def switching(step: Step, J: Array, e: Array, v: Array, here: Array, room: Array) -> Array:
    """Return a mask (c,) of the problems in which rounding errors decide whether `TotalSpeed`
    switches to its other formula.
    """
    if not isinstance(step, TotalSpeed) or not step.switch:
        return np.zeros(len(J), bool)
    plain = python(NullSpace(Pseudoinverse(), nothing), J, e, v)
    return np.abs(np.linalg.norm(plain, axis=1) - step.max_speed) <= 1e-6 + room


@each("shape", [(2, 3), (6, 7)])
def test_redundancy_steps_in_a_pack_have_the_bits_of_single_ones(
    lane: Lane, shape: tuple[int, int]
) -> None:
    J, e, v = batch(shape)
    for step in STEPS:
        packed, alone = (x.secondary(step.kernel, J, e, v)[0] for x in (lane, lane.scalar))
        assert same_bits(packed, alone)


# ---- the total speed -----------------------------------------------------------------------------


@alone
@pytest.mark.parametrize("switch", [False, True])
def test_the_bound_on_the_total_speed_is_never_exceeded(lane: Lane, switch: bool) -> None:
    """Each precision has random problems, with numbers of many orders of magnitude."""
    rng = np.random.default_rng(7)
    small, large = (-6, 6) if lane.dtype == np.float64 else (-3, 3)
    for m, n in ((2, 2), (2, 3), (6, 7), (3, 7), (7, 5)):
        for _ in range(nightly(20, 7)):
            count, k = 500, min(m, n)
            U = np.linalg.qr(rng.normal(size=(count, m, k)))[0]
            V = np.linalg.qr(rng.normal(size=(count, n, k)))[0]
            sigma = 10 ** rng.uniform(2 * small, 0.5, (count, 1, k))
            sigma[::7, :, -1] = 0
            J = U * sigma @ V.transpose(0, 2, 1)
            e = rng.normal(size=(count, m)) * 10 ** rng.uniform(-3, 1, (count, 1))
            v = rng.normal(size=(count, n)) * 10 ** rng.uniform(small, large, (count, 1))
            J[::20], e[::13], v[::11] = 0, 0, 0
            bound, alpha1 = (10 ** rng.uniform(-3, 3), 10 ** rng.uniform(-3, 1))
            bound = float(np.float32(bound))
            step = TotalSpeed(bound, nothing, 1.0, alpha1, switch)
            dq = lane.secondary(step.kernel, J, e, v)[0].astype(float)
            assert np.isfinite(dq).all()
            assert (np.linalg.norm(dq, axis=1) <= bound).all()


@alone
def test_null_space_motion_does_not_change_the_rate_of_the_task(lane: Lane) -> None:
    for shape in SHAPES:
        J, e, v = batch(shape)
        kernel = NullSpace(Pseudoinverse(), nothing).kernel
        free = lane.secondary(kernel, J, np.zeros_like(e), v)[0].astype(float)
        felt = np.linalg.norm(np.einsum("cij,cj->ci", J, free), axis=1)
        size = np.linalg.norm(J, axis=(1, 2)) * np.linalg.norm(v, axis=1)
        assert (felt <= 32 * lane.eps * size).all()


def test_structs_of_steps_have_the_same_memory_layout_in_python_and_in_the_kernel() -> None:
    sizes = np.zeros(1 + len(STEP.names), np.dtype("long"))
    for isa in instruction_sets():
        compiled(isa, "harness_redundancy.cpp").step_layout(ctypes.c_void_p(sizes.ctypes.data))
        offsets = [STEP.fields[name][1] for name in STEP.names]
        assert sizes.tolist() == [STEP.itemsize, *offsets]


# ---- priority ------------------------------------------------------------------------------------


@cache
def stacks(rows: tuple[int, ...], n: int) -> tuple[Array, Array]:
    """Return J (c, m, n) and e (c, m) of c problems, with the rows of all priority levels stacked.

    Some J are singular, and in some problems a level repeats a row of a level of higher priority.
    """
    rng = np.random.default_rng((*rows, n))
    J, e = [], []
    for smallest in SMALLEST:
        for mix in (False, True):
            parts: list[Array] = []
            for m in rows:
                k = min(m, n)
                sigma = np.append(np.ones(k - 1), smallest)
                part = orthonormal(rng, m, k) * sigma @ orthonormal(rng, n, k).T
                if mix and parts:  # the first row repeats a row of a higher level
                    above = np.concatenate(parts)
                    part[0] = rng.normal(size=len(above)) @ above
                parts.append(part)
            J.append(np.concatenate(parts))
            e.append(rng.normal(size=sum(rows)))
    J.append(np.zeros_like(J[0]))
    e.append(e[0])
    return np.array(J), np.array(e)


def split(rows: tuple[int, ...], J: Array, e: Array) -> list[Linearization]:
    ends = np.cumsum(rows)[:-1]
    return [Linearization(*x) for x in zip(np.split(J, ends), np.split(e, ends), strict=True)]


def test_priority_steps_in_a_pack_have_the_bits_of_single_ones(lane: Lane) -> None:
    for rows in ROWS:
        J, e = stacks(rows, 7)
        for step in ORDERED:
            kernels = Priority(step).kernels(len(rows))
            packed, alone = (x.priority(kernels, rows, J, e) for x in (lane, lane.scalar))
            assert same_bits(packed, alone)


@alone
@pytest.mark.parametrize("n", [3, 7])
@pytest.mark.parametrize("rows", ROWS, ids=str)
def test_priority_in_the_kernel_agrees_with_python(
    lane: Lane, rows: tuple[int, ...], n: int
) -> None:
    J, e = stacks(rows, n)
    for step in [*ORDERED, Pseudoinverse()]:
        priority = Priority(step)
        dq = lane.priority(priority.kernels(len(rows)), rows, J, e)
        assert np.isfinite(dq).all()
        if lane.dtype == np.float64 and step in ORDERED[:-1]:
            here = [priority(split(rows, *x)) for x in zip(J, e, strict=True)]
            np.testing.assert_allclose(dq, here, rtol=1e-9, atol=1e-9)


@alone
@pytest.mark.parametrize("n", [3, 7])
@pytest.mark.parametrize("rows", ROWS, ids=str)
def test_a_task_of_lower_priority_never_changes_the_rate_of_one_of_higher_priority(
    lane: Lane, rows: tuple[int, ...], n: int
) -> None:
    J, e = stacks(rows, n)
    J, e = (x.astype(lane.dtype).astype(float) for x in (J, e))
    for step in [*ORDERED, Pseudoinverse()]:
        kernels = Priority(step).kernels(len(rows))
        whole = lane.priority(kernels, rows, J, e).astype(float)
        for i, last in enumerate(np.cumsum(rows)):
            top = slice(last - rows[i], last)
            alone = lane.priority(kernels[: i + 1], rows[: i + 1], J[:, :last], e[:, :last])
            added = whole - alone.astype(float)
            change = np.linalg.norm(np.einsum("cij,cj->ci", J[:, top], added), axis=1)
            size = np.linalg.norm(J[:, top], axis=(1, 2))
            moved = np.linalg.norm(added, axis=1) + np.linalg.norm(alone, axis=1)
            assert (change <= 400 * lane.eps * size * moved).all()
