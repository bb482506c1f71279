"""A batch gives the same bits as its rows, for every shape, lane width, number of threads and
layout.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

import supple
from calls import Call, calls, mimicking
from cases import each
from oracles import in_axes
from sizes import NIGHTLY, a_third, nightly
from slow_fk import fk as slow_fk
from supple import _core

Array = np.ndarray
ROBOTS = ("planar3", "panda", "double_y", "mimicking")
TYPES = (np.float64, np.float32)
SHAPES = ((), (0,), (1,), (5,), (3, 4), (2, 0, 3), (1, 1, 1), (2, 3, 2, 2))
MANY = 2600  # more than five chunks, the unit of work of a thread


@cache
def robot(name: str) -> supple.Robot:
    return mimicking() if name == "mimicking" else supple.load(name)


@cache
def configurations(name: str, dtype: type) -> Array:
    """Return configurations (MANY, n), some with angles beyond the range of the SIMD sine."""
    rng = np.random.default_rng(3)
    q = robot(name).random(MANY, seed=rng)
    q[7::101] *= 1e6
    q[60::997] *= 1e13
    return q.astype(dtype)


# Indices of the rows that are also computed one by one: those of small batches, those with large
# angles, and others.
CHECKED = np.unique(np.r_[0:80, 7:MANY:101, 60:MANY:997, 80 : MANY : nightly(1, 48)])


def row_by_row(call: Call, q: Array) -> Array:
    """Return the expected results, from one call per row."""
    rows = q.reshape(-1, q.shape[-1])
    one = call(rows[0])
    return np.array([call(row) for row in rows], one.dtype).reshape(q.shape[:-1] + one.shape)


def same_bits(a: Array, b: Array) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    bits = f"i{a.dtype.itemsize}"
    return bool((np.asarray(a).view(bits) == np.asarray(b).view(bits)).all())


@pytest.mark.usefixtures("isa")
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", ROBOTS)
def test_batches_of_any_size_and_threads_have_the_bits_of_their_rows(
    name: str, dtype: type
) -> None:
    q = configurations(name, dtype)
    for what, call in calls(robot(name)).items():
        whole = call(q, threads=1)
        assert np.isfinite(whole).all(), what
        assert same_bits(whole[CHECKED], row_by_row(call, q[CHECKED])), what
        sizes = (
            range(1, 71) if NIGHTLY else a_third(a_third(range(1, 71), name), dtype.__name__, what)
        )
        large = [(size, threads) for size in (1237, MANY) for threads in (1, 2, 5)]
        for size, threads in (
            *((size, 1 + size % 2) for size in sizes),
            *nightly(large, [(1237, 2), (MANY, 5)]),
        ):
            start = size % 5  # so that the data of a batch may begin at any alignment
            some = slice(start, start + size)
            assert same_bits(call(q[some], threads=threads), whole[some]), (what, size, threads)


@pytest.mark.usefixtures("isa")
@pytest.mark.parametrize("dtype", TYPES)
@each("shape", SHAPES)
@pytest.mark.parametrize("name", ROBOTS)
def test_batches_of_any_leading_shape_have_the_bits_of_their_rows(
    name: str, shape: tuple[int, ...], dtype: type
) -> None:
    q = configurations(name, dtype)[: math.prod(shape)].reshape(*shape, robot(name).dof)
    for what, call in calls(robot(name)).items():
        result = call(q)
        assert result.dtype == dtype
        if q.size:
            assert same_bits(result, row_by_row(call, q)), what
        else:
            assert result.shape == (*shape, *call(robot(name).neutral()).shape), what


@each("dtype", TYPES)
@each("name", ROBOTS)
def test_batches_of_any_memory_layout_have_the_bits_of_their_rows(name: str, dtype: type) -> None:
    q = configurations(name, dtype)[:40].reshape(5, 8, -1)
    unaligned = np.zeros(q.nbytes + 1, np.uint8)[1:].view(dtype).reshape(q.shape)
    unaligned[...] = q
    read_only = q.copy()
    read_only.flags.writeable = False
    layouts = {
        "Fortran": np.asfortranarray(q),
        "strided": np.repeat(np.repeat(q, 2, axis=0), 3, axis=2)[::2, :, ::3],
        "reversed": np.ascontiguousarray(q[::-1, :, ::-1])[::-1, :, ::-1],
        "transposed": np.ascontiguousarray(q.transpose(2, 0, 1)).transpose(1, 2, 0),
        "other byte order": q.astype(q.dtype.newbyteorder()),
        "unaligned": unaligned,
        "read-only": read_only,
        "subclass": q.view(np.recarray),
    }
    for what, call in calls(robot(name)).items():
        expected = call(q)
        for layout, same in layouts.items():
            assert same_bits(call(same), expected), (what, layout)


CONVERSIONS = {
    "float16": lambda whole: whole.astype(np.float16),
    "longdouble": lambda whole: whole.astype(np.longdouble),
    "int64": lambda whole: whole.astype(np.int64),
    "uint8": lambda whole: whole.astype(np.uint8),
    "list": lambda whole: whole.tolist(),
    "tuple": lambda whole: tuple(map(tuple, whole)),
}


@each("conversion", CONVERSIONS)
def test_integers_and_other_numbers_are_converted_to_double(
    conversion: str, rng: np.random.Generator
) -> None:
    panda = robot("panda")
    whole = rng.integers(0, 3, (4, 7))
    q = CONVERSIONS[conversion](whole)
    for what, call in calls(panda).items():
        if what.startswith("bias_"):
            continue
        assert same_bits(call(q), call(whole.astype(np.float64))), what
    bias = panda.bias_acceleration(q, q)
    assert same_bits(
        bias,
        panda.bias_acceleration(whole.astype(np.float64), whole.astype(np.float64)),
    )


def test_float16_and_lists_are_computed_in_double_precision(rng: np.random.Generator) -> None:
    panda = robot("panda")
    q = rng.uniform(-2, 2, 7).astype(np.float16)
    assert same_bits(panda.fk(q), panda.fk(q.astype(np.float64)))
    assert same_bits(panda.fk(q.astype(np.longdouble)), panda.fk(q.astype(np.float64)))
    assert same_bits(panda.fk(q.tolist()), panda.fk(q.astype(np.float64)))


@each("dtype", TYPES)
@each("shape", [(7,), (4, 7), (3, 4, 7), (1, 7), (3, 1, 7), (1, 1, 7)])
def test_speeds_are_broadcast_to_the_coordinates(shape: tuple[int, ...], dtype: type) -> None:
    panda = robot("panda")
    q = configurations("panda", dtype)[:12].reshape(3, 4, 7)
    qd = np.random.default_rng(0).normal(size=shape)
    wide = np.ascontiguousarray(np.broadcast_to(qd, q.shape)).astype(dtype)
    expected = panda.bias_acceleration(q, wide)
    for speeds in (qd, qd.astype(dtype), qd.astype(dtype).astype(np.float64), qd.tolist()):
        assert same_bits(panda.bias_acceleration(q, speeds), expected)


@pytest.mark.usefixtures("isa")
@each("dtype", TYPES)
@each("size", [1e3, 1e6, 1e15])
@each("name", ["planar3", "panda", "stanford", "double_y"])
def test_poses_at_a_huge_angle_are_those_at_the_angle_modulo_a_turn(
    name: str, size: float, dtype: type
) -> None:
    # slow_fk is given the angle modulo 2π, computed with 60 digits.
    arm = robot(name)
    rng = np.random.default_rng(11)
    turns = np.where(arm.prismatic, 1.0, size)
    q = (rng.uniform(-1, 1, (6, arm.dof)) * turns).astype(dtype)
    exact = np.array([[wrapped(x) for x in row] for row in q])
    exact = np.where(arm.prismatic, q, exact)
    tolerance = 20 * (arm.dof + 1) * np.finfo(dtype).eps
    for row, wrapped_row, poses in zip(q, exact, arm.fk(q, arm.frames), strict=True):
        expected = slow_fk(arm.description, wrapped_row)
        for k, frame in enumerate(arm.frames):
            assert abs(poses[k] - expected[frame]).max() <= tolerance, frame
        assert same_bits(arm.fk(row, arm.frames), poses)


def wrapped(x: float) -> float:
    """Return x modulo 2π in [-π, π], computed with 60 digits."""
    from decimal import Decimal, getcontext

    getcontext().prec = 60
    tau = Decimal("6.28318530717958647692528676655900576839433879875021164194988918461563")
    return float(Decimal(float(x)) - tau * (Decimal(float(x)) / tau).to_integral_value())


@each("dtype", TYPES)
@each("shape", [(), (0,), (3,), (50,), (5, 9)])
@each("name", ROBOTS)
def test_results_are_written_to_out_arrays(name: str, shape: tuple[int, ...], dtype: type) -> None:
    arm = robot(name)
    q = configurations(name, dtype)[: math.prod(shape)].reshape(*shape, arm.dof)
    T, J = arm.fk(q), arm.jacobian(q)
    out_T, out_J = np.full_like(T, 7), np.full_like(J, 7)
    assert arm.fk(q, out=out_T) is out_T
    assert arm.jacobian(q, out=out_J) is out_J
    assert same_bits(out_T, T)
    assert same_bits(out_J, J)
    both = (np.full_like(T, 7), np.full_like(J, 7))
    poses, jacobian = arm.fk_jacobian(q, out=both)
    assert poses is both[0]
    assert jacobian is both[1]
    assert same_bits(poses, T)
    assert same_bits(jacobian, J)


def test_out_may_be_a_part_of_a_larger_array(rng: np.random.Generator) -> None:
    panda = robot("panda")
    q = panda.random(10, seed=rng)
    large = np.zeros((30, 4, 4))
    panda.fk(q, out=large[10:20])
    assert same_bits(large[10:20], panda.fk(q))
    assert not large[:10].any()
    assert not large[20:].any()


@each("dtype", TYPES)
def test_results_of_all_instruction_sets_are_equal_up_to_rounding(dtype: type) -> None:
    # Some instruction sets round a product and a sum together, others separately.
    before = _core.isa()
    try:
        for name in ROBOTS:
            q = configurations(name, dtype)[:6]
            results = []
            for isa in _core.isas():
                _core.use_isa(isa)
                assert _core.isa() == isa
                results.append(robot(name).jacobian(q))
            scale = max(1.0, abs(results[0]).max())
            few = 20 * (robot(name).dof + 1) * np.finfo(dtype).eps * scale
            assert all(abs(J - results[0]).max() <= few for J in results)
    finally:
        _core.use_isa(before)


def test_each_jacobian_of_a_batch_in_body_axes_is_rotated_by_its_own_pose(
    rng: np.random.Generator,
) -> None:
    panda = robot("panda")
    q = panda.random(70, seed=rng)
    T, J = panda.fk_jacobian(q)
    body = panda.jacobian(q, axes="body")
    for k in range(70):
        assert abs(body[k] - in_axes(T[k, :3, :3], J[k])).max() < 1e-14
