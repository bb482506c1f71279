"""`Limits`: the box of speeds, and optimal steps inside it and inside the norm bound."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import supple
from sizes import nightly
from spectra import orthonormal
from supple import _core, damping
from supple.motion.limits import Limits
from supple.motion.linearization import Linearization
from supple.steps.basic import DLS

Array = NDArray[np.float64]
LEAST = (1.0, 0.1, 1e-3, 1e-6, 0.0)


def free(n: int, **more: object) -> Limits:
    """Return limits that are infinite, except for those given by name."""
    both = ("max_speed", "max_acceleration")
    numbers: dict[str, object] = dict.fromkeys(both, np.full(n, np.inf))
    numbers |= {"lower": np.full(n, -np.inf), "upper": np.full(n, np.inf)}
    return Limits(**(numbers | more))  # type: ignore[arg-type]


def problem(rng: np.random.Generator, m: int, n: int, least: float) -> tuple[Array, Array]:
    """Return J (m, n) with a chosen smallest singular value, and e (m,)."""
    k = min(m, n)
    sigma = np.append(np.linspace(2, 1, k - 1), least) if k > 1 else np.array([least])
    return orthonormal(rng, m, k) * sigma @ orthonormal(rng, n, k).T, rng.normal(size=m)


def random_box(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Return a random box, which may be narrow, without interior, unbounded or exclude zero."""
    low, high = -rng.exponential(0.3, n), rng.exponential(0.3, n)
    kind = rng.integers(0, 8, n)
    low[kind == 1], high[kind == 2] = -np.inf, np.inf
    shift = rng.normal(size=n)
    low[kind == 3] += shift[kind == 3]
    high[kind == 3] += shift[kind == 3]
    high[kind == 4] = low[kind == 4]
    return low, high


def cost(J: Array, e: Array, lambda2: float, x: Array) -> float:
    return float(np.sum((J @ x - e) ** 2) + lambda2 * (x @ x))


def best_by_trial(J: Array, e: Array, lambda2: float, low: Array, high: Array) -> Array:
    """Return the minimizer inside the box by trying all combinations of active bounds.

    There are 3ⁿ combinations.
    """
    n = J.shape[1]
    best, least = np.clip(np.zeros(n), low, high), np.inf
    for sides in itertools.product((-1, 0, 1), repeat=n):
        side = np.array(sides)
        x = np.where(side < 0, low, np.where(side > 0, high, 0.0))
        if not np.isfinite(x).all():
            continue
        inner = side == 0
        if inner.any():
            A = np.vstack([J[:, inner], math.sqrt(lambda2) * np.eye(inner.sum())])
            b = np.concatenate([e - J[:, ~inner] @ x[~inner], np.zeros(inner.sum())])
            x[inner] = np.linalg.lstsq(A, b, rcond=None)[0]
        if (x >= low - 1e-12).all() and (x <= high + 1e-12).all():
            found = cost(J, e, lambda2, x)
            if found < least:
                best, least = x, found
    return best


def check_kkt(J: Array, e: Array, lambda2: float, low: Array, high: Array, x: Array) -> None:
    """Check that the cost falls in no direction that the box allows."""
    assert (x >= low).all()
    assert (x <= high).all()
    gradient = J.T @ (J @ x - e) + lambda2 * x
    size = np.linalg.norm(J)
    noise = 1e-9 * (size * (size * np.linalg.norm(x) + np.linalg.norm(e)) + lambda2)
    at_low, at_high = x == low, x == high
    assert (np.abs(gradient[~at_low & ~at_high]) <= noise).all()
    assert (gradient[at_low & ~at_high] >= -noise).all()
    assert (gradient[at_high & ~at_low] <= noise).all()


@pytest.mark.parametrize("least", LEAST)
@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (3, 3), (3, 5), (6, 4)], ids=str)
def test_a_step_in_a_box_is_the_best_of_all_combinations_of_active_bounds(
    shape: tuple[int, int], least: float
) -> None:
    rng = np.random.default_rng((*shape, int(1e6 * least)))
    for _ in range(nightly(12, 4)):
        J, e = problem(rng, *shape, least)
        low, high = random_box(rng, shape[1])
        for lambda2 in (1e-4, 0.3):
            dq = DLS(damping.Constant(lambda2))(Linearization(J, e))
            x, _, used = free(shape[1]).applied(dq, J, lambda2, low, high)
            assert used == lambda2
            check_kkt(J, e, lambda2, low, high, x)
            best = best_by_trial(J, e, lambda2, low, high)
            np.testing.assert_allclose(x, best, atol=1e-7)


@settings(max_examples=nightly(150, 50), deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([(2, 2), (3, 7), (6, 6), (6, 7), (12, 25), (6, 30), (9, 5)]),
    st.sampled_from(LEAST),
    st.sampled_from([0.0, 1e-12, 1e-6, 1e-2, 1.0]),
)
def test_limited_steps_satisfy_the_kkt_conditions(
    seed: int, shape: tuple[int, int], least: float, lambda2: float
) -> None:
    """The λ² applied is that of the step, or 1e-12 ‖J‖² if that is larger."""
    rng = np.random.default_rng(seed)
    J, e = problem(rng, *shape, least)
    low, high = random_box(rng, shape[1])
    limits = free(shape[1])
    dq = DLS(damping.Constant(lambda2))(Linearization(J, e))
    x, side, used = limits.applied(dq, J, lambda2, low, high)
    assert lambda2 <= used <= max(lambda2, 1.001e-12 * np.sum(J * J))
    # If λ² is larger than that of the step, x minimizes ‖J (x - dq)‖² + λ²‖x - dq‖².
    if used == lambda2:
        check_kkt(J, e, used, low, high, x)
    else:
        check_kkt(J, np.zeros(len(e)), used, low - dq, high - dq, x - dq)
    assert (x[side < 0] == low[side < 0]).all()
    assert (x[side > 0] == high[side > 0]).all()


@pytest.mark.parametrize("isa", _core.isas())
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_limited_steps_of_a_batch_equal_steps_limited_one_by_one(isa: str, dtype: type) -> None:
    rng = np.random.default_rng(3)
    count, m, n = 203, 6, 7
    J = np.array([problem(rng, m, n, LEAST[i % 5])[0] for i in range(count)]).astype(dtype)
    dq = rng.normal(size=(count, n)).astype(dtype)
    boxes = np.array([random_box(rng, n) for _ in range(count)]).astype(dtype)
    lambda2 = np.where(np.arange(count) % 3, 1e-3, 0.0).astype(dtype)[:, None]
    low, high = boxes[:, 0].copy(), boxes[:, 1].copy()
    J = J.reshape(count, -1)
    chosen = _core.isa()
    _core.use_isa(isa)
    try:
        given = {"J": J, "dq": dq, "lambda2": lambda2, "low": low, "high": high}
        how = {"max_norm": 0.8, "keep_direction": False, "rows": m, "columns": n, "threads": 1}
        x, side, used = _core.limited(**given, **how)
        for i in range(0, count, 7):
            one = _core.limited(**{name: array[i] for name, array in given.items()}, **how)
            for mine, theirs in zip(one, (x[i], side[i], used[i]), strict=True):
                assert mine.tobytes() == theirs.tobytes()
    finally:
        _core.use_isa(chosen)
    assert ((x >= low) & (x <= high)).all()
    nearest = np.clip(0.0, low, high)
    bound = np.maximum(0.8, np.linalg.norm(nearest, axis=1)) * (1 + 4 * np.finfo(dtype).eps)
    assert (np.linalg.norm(x, axis=1) <= bound).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(2, 3), (6, 4), (6, 6), (6, 7), (12, 25)], ids=str)
def test_limited_steps_of_a_batch_satisfy_the_kkt_conditions(
    shape: tuple[int, int], dtype: type
) -> None:
    """The cost is ‖J (x - dq)‖² + λ²‖x - dq‖²; the tolerance is for rounding of its gradient."""
    rng = np.random.default_rng(shape)
    (m, n), count = shape, nightly(500, 150)
    J = np.array([problem(rng, m, n, LEAST[i % 5])[0] for i in range(count)]).astype(dtype)
    dq = rng.normal(size=(count, n)).astype(dtype)
    boxes = np.array([random_box(rng, n) for _ in range(count)]).astype(dtype)
    low, high = boxes[:, 0].copy(), boxes[:, 1].copy()
    for lambda2 in (0.0, 1e-3, 0.1):
        damping = np.full((count, 1), lambda2, dtype)
        x, _, used = _core.limited(
            J=J.reshape(count, -1),
            dq=dq,
            lambda2=damping,
            low=low,
            high=high,
            max_norm=np.inf,
            keep_direction=False,
            rows=m,
            columns=n,
            threads=1,
        )
        assert ((low <= x) & (x <= high)).all()
        A, d, used = J.astype(float), x.astype(float) - dq, used.astype(float)[:, None]
        gradient = np.einsum("bij,bik,bk->bj", A, A, d) + used * d
        scale = np.sum(A * A, axis=(1, 2))[:, None] + used
        noise = 4e3 * np.finfo(dtype).eps * scale * np.linalg.norm(d, axis=1)[:, None]
        at_low, at_high = x == low, x == high
        assert (np.abs(gradient) <= noise)[~at_low & ~at_high].all()
        assert (gradient >= -noise)[at_low & ~at_high].all()
        assert (gradient <= noise)[at_high & ~at_low].all()


@settings(max_examples=nightly(100, 40), deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(LEAST), st.sampled_from([1e-6, 1e-3, 0.1]))
def test_limited_steps_keep_the_norm_bound_with_the_least_additional_damping(
    seed: int, least: float, lambda2: float
) -> None:
    """The result minimizes the cost inside the box with the least λ² that keeps the bound."""
    rng = np.random.default_rng(seed)
    m, n = 3, 4
    J, e = problem(rng, m, n, least)
    low, high = random_box(rng, n)
    bound = float(rng.uniform(0.05, 1.0))
    dq = DLS(damping.Constant(lambda2))(Linearization(J, e))
    x, _, used = free(n, max_norm=bound).applied(dq, J, lambda2, low, high)
    nearest = np.clip(0.0, low, high)
    if np.linalg.norm(nearest) >= bound:
        np.testing.assert_array_equal(x, nearest)
        return
    assert np.linalg.norm(x) <= bound
    assert used >= lambda2
    check_kkt(J, e, used, low, high, x)
    if used > lambda2 * (1 + 1e-9):
        assert np.linalg.norm(x) >= bound * (1 - 1e-8)


@settings(max_examples=nightly(200, 60), deadline=None)
@given(st.integers(0, 2**32))
def test_mode_scale_of_limits_keeps_the_direction_of_a_step(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 5
    low, high = -rng.exponential(0.5, n), rng.exponential(0.5, n)
    dq = rng.normal(size=n)
    limits = free(n, mode="scale", max_norm=1.2)
    x, side, _ = limits.applied(dq, np.eye(n), 0.1, low, high)
    assert (x >= low).all()
    assert (x <= high).all()
    assert np.linalg.norm(x) <= 1.2 * (1 + 1e-15)
    factor = x @ dq / (dq @ dq)
    np.testing.assert_allclose(x, factor * dq, atol=1e-15)
    if side.any():  # a joint is at its bound: the step is as long as possible
        j = int(np.flatnonzero(side)[0])
        assert x[j] == pytest.approx(high[j] if side[j] > 0 else low[j])
    low[0], high[0] = 0.2, 0.3  # this joint must move, so the direction cannot be kept
    x = limits.applied(dq, np.eye(n), 0.1, low, high)[0]
    assert 0.2 <= x[0] <= 0.3


# ---- boxes -------------------------------------------------------------------------------------


def arm(**more: object) -> Limits:
    """Return limits of one joint: ±1 rad, 2 rad/s, 10 rad/s²."""
    numbers: dict[str, object] = {"lower": [-1.0], "upper": [1.0]}
    numbers |= {"max_speed": [2.0], "max_acceleration": [10.0]}
    return Limits(**(numbers | more))  # type: ignore[arg-type]


@settings(max_examples=nightly(200, 60), deadline=None)
@given(
    st.floats(-1, 1),
    st.floats(0.3, 30),
    st.floats(1e-4, 0.05),
    st.lists(st.floats(-1, 1), min_size=60, max_size=60),
)
def test_a_joint_at_rest_inside_its_limits_stays_inside_for_any_command(
    start: float, acceleration: float, dt: float, wishes: list[float]
) -> None:
    """The joint also keeps its limits on speed and acceleration."""
    limits = arm(max_acceleration=[acceleration])
    q, speed = start, 0.0
    for wish in [*wishes, *[1.0] * 60, *[-1.0] * 60]:
        low, high = (float(end[0]) for end in limits.box([q], [speed], dt))
        assert low <= high
        assert low >= -2
        assert high <= 2
        assert low >= speed - acceleration * dt - 1e-12
        assert high <= speed + acceleration * dt + 1e-12
        speed = low + (wish + 1) / 2 * (high - low)
        q += speed * dt
        assert -1 - 1e-12 <= q <= 1 + 1e-12


def test_a_joint_reaches_its_limit_and_brakes_as_late_as_possible() -> None:
    limits, q, speed, dt = arm(), 0.0, 0.0, 1e-3
    fastest = 0.0
    for _ in range(nightly(2000, 900)):
        speed = float(limits.box([q], [speed], dt)[1][0])
        fastest = max(fastest, speed)
        q += speed * dt
    assert fastest == 2.0
    assert q == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("acceleration", [10.0, np.inf])
@pytest.mark.parametrize("start", [1.5, -3.0])
def test_a_joint_outside_its_range_returns_although_it_is_commanded_outside(
    start: float, acceleration: float
) -> None:
    limits, q, speed, dt = arm(max_acceleration=[acceleration]), start, 0.0, 1e-3
    away = abs(start) - 1
    for _ in range(nightly(3000, 1600)):
        low, high = (float(end[0]) for end in limits.box([q], [speed], dt))
        assert low <= high
        speed = float(np.clip(2.0 * np.sign(start), low, high))  # the command is further outside
        assert abs(speed) <= 2.0
        q += speed * dt
        # The joint never moves further outside after it has reversed its motion.
        assert abs(q) - 1 <= max(away, 0) + 1e-12
        away = min(away, abs(q) - 1) if speed * start < 0 else max(away, abs(q) - 1)
    assert abs(q) <= 1 + 1e-12


def test_infinite_limits_do_not_change_a_step() -> None:
    low, high = free(3).box(np.zeros(3), np.ones(3), 0.1)
    assert (low == -np.inf).all()
    assert (high == np.inf).all()
    dq = np.array([1e9, 0.0, -3.0])
    x, side, used = free(3).applied(dq, np.eye(3), 0.0, low, high)
    np.testing.assert_array_equal(x, dq)
    assert not side.any()
    assert used == 0.0


def test_limits_for_a_robot_are_the_limits_of_its_joints_times_the_given_factors() -> None:
    robot = supple.load("panda")
    limits = Limits.for_robot(robot, max_acceleration=10.0, speed_factor=0.5, max_norm=1.5)
    np.testing.assert_array_equal(limits.lower, robot.lower)
    np.testing.assert_array_equal(limits.max_speed, 0.5 * robot.max_speed)
    np.testing.assert_array_equal(limits.max_acceleration, np.full(7, 10.0))
    assert np.isinf(Limits.none(robot).upper).all()


def test_limits_for_a_robot_are_set_by_number_array_or_joint_name() -> None:
    robot = supple.load("panda")
    for name in ("lower", "upper", "max_speed", "max_acceleration"):
        own = getattr(Limits.for_robot(robot), name)
        expected = own.copy()
        expected[2] = -0.5 if name == "lower" else 0.5
        for form in (expected, expected.tolist(), {"panda_joint3": expected[2]}):
            limits = Limits.for_robot(robot, **{name: form})
            np.testing.assert_array_equal(getattr(limits, name), expected)
    np.testing.assert_array_equal(Limits.for_robot(robot, max_speed=0.5).max_speed, np.full(7, 0.5))
    half = Limits.for_robot(robot, max_speed={"panda_joint3": 1.0}, speed_factor=0.5)
    assert half.max_speed[2] == 0.5
    with pytest.raises(supple.errors.UnknownNameError, match="did you mean 'panda_joint3'"):
        Limits.for_robot(robot, max_speed={"panda_jiont3": 1.0})


def test_the_repr_of_limits_lists_each_joint_with_units() -> None:
    robot = supple.load("stanford")
    limits = Limits.for_robot(robot, max_acceleration={robot.joint_names[2]: 3.0}, max_norm=2.0)
    first, *rest = repr(limits).splitlines()
    assert first == 'Limits of 6 joints, mode "exact", norm of all speeds at most 2'
    for line, name, slides, low, high in zip(
        rest, robot.joint_names, robot.prismatic, robot.lower, robot.upper, strict=True
    ):
        unit = "m" if slides else "rad"
        assert line.split()[0] == name
        assert f"{low:.4g} to {high:.4g} {unit}" in line
        assert (f"3 {unit}/s²" in line) == (name == robot.joint_names[2])
    ones = dict.fromkeys(("upper", "max_speed", "max_acceleration"), np.ones(40))
    many = arm(lower=np.zeros(40), **ones)
    assert len(repr(many).splitlines()) == 14
    assert repr(many).splitlines()[1].split() == [
        "joint",
        "0",
        "0",
        "to",
        "1,",
        "1",
        "per",
        "s,",
        "1",
        "per",
        "s²",
    ]
    assert repr(many).endswith("and 28 more")


@pytest.mark.parametrize(
    "wrong",
    [
        {"lower": [2.0]},
        {"lower": ["a"]},
        {"upper": [np.nan]},
        {"upper": [1.0, 2.0]},
        {"max_speed": [0.0]},
        {"max_acceleration": [-1.0]},
        {"max_norm": 0.0},
        {"max_norm": "much"},
        {"mode": "clip"},
    ],
)
def test_bad_limits_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(supple.errors.InputError, match="given"):
        arm(**wrong)


@pytest.mark.parametrize(
    "call",
    [
        lambda arm: arm.box([np.nan], [0.0], 0.1),
        lambda arm: arm.box([0.0], [0.0, 0.0], 0.1),
        lambda arm: arm.box([0.0], [0.0], 0.0),
        lambda arm: arm.applied([np.nan], [[1.0]], 0.1, [-1.0], [1.0]),
        lambda arm: arm.applied([2.0], [[np.inf]], 0.1, [-1.0], [1.0]),
        lambda arm: arm.applied([2.0], [1.0], 0.1, [-1.0], [1.0]),
        lambda arm: arm.applied([2.0], [[1.0]], -0.1, [-1.0], [1.0]),
        lambda arm: arm.applied([2.0], [[1.0]], 0.1, [1.0], [-1.0]),
        lambda arm: arm.applied([2.0], [[1.0]], 0.1, "a", [1.0]),
        lambda arm: Limits.for_robot(supple.load("panda"), max_acceleration="much"),
        lambda arm: Limits.for_robot(supple.load("panda"), max_acceleration=[1.0, 2.0]),
    ],
)
def test_bad_arguments_of_the_methods_of_limits_are_refused(
    call: Callable[[Limits], object],
) -> None:
    with pytest.raises(supple.errors.InputError, match="given"):
        call(arm())


def test_the_norm_bound_scales_a_step_that_hardly_moves_the_task() -> None:
    """If ‖J‖ is much smaller than λ, the step is the multiple of dq with the norm of the bound."""
    dq = np.array([3.0, -1.0, 2.0])
    for J, lambda2 in itertools.product((0.0, 1e-12, 1e-6), (1e-3, 1.0, 1e3)):
        x, _, _ = free(3, max_norm=0.5).applied(
            dq, np.full((1, 3), J), lambda2, np.full(3, -np.inf), np.full(3, np.inf)
        )
        np.testing.assert_allclose(x, dq * 0.5 / np.linalg.norm(dq), rtol=1e-8)
        assert np.linalg.norm(x) <= 0.5
