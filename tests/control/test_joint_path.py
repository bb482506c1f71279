"""Joint paths stay inside the position limits everywhere, and so do their motions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.interpolate import CubicSpline, PPoly

import supple as sp
from supple import errors
from supple.paths import JointPath
from supple.paths.spline import Spline

Array = np.ndarray

PANDA = sp.load("panda")


def range_of(spline: Spline) -> tuple[Array, Array]:
    """Return the smallest and largest coordinates (n,), from SciPy's roots of the derivative."""
    low, high = [], []
    for each in np.moveaxis(spline.coefficients, 2, 0):
        curve = PPoly(each[::-1], spline.s)
        at = curve.derivative().roots(extrapolate=False)
        values = np.append(curve(at[np.isfinite(at)]), curve(spline.s))
        low.append(values.min())
        high.append(values.max())
    return np.array(low), np.array(high)


def touching(rng: np.random.Generator, count: int) -> tuple[Array, Array, Array, Array]:
    """Return parameters (count,), points (count, n) and limits (n,); some points are at them."""
    n, size = int(rng.integers(1, 5)), 10 ** rng.uniform(-6, 4)
    s = np.cumsum(10 ** rng.uniform(-1, 1) * rng.uniform(0.1, 1, count))
    q = rng.uniform(-1.5, 1.5, (count, n))
    q = size * (np.cumsum(0.4 * q, axis=0) if rng.random() < 0.5 else q)
    lower, upper = size * rng.uniform(-1, 0, n), size * rng.uniform(0, 1, n)
    if rng.random() < 0.2:
        lower[0] = -np.inf
    if rng.random() < 0.1:
        lower[-1] = upper[-1]
    return s, np.clip(q, lower, upper), lower, upper


@pytest.mark.parametrize("seed", range(100))
def test_a_spline_between_limits_stays_inside_them_everywhere(seed: int) -> None:
    rng = np.random.default_rng(seed)
    s, q, lower, upper = touching(rng, int(rng.choice([2, 3, 4, 5, 8, 30])))
    made = Spline.inside(s, q, lower, upper)
    size = np.abs(q).max()
    low, high = range_of(made)
    assert (low >= lower - 1e-12 * size).all()
    assert (high <= upper + 1e-12 * size).all()
    np.testing.assert_allclose(made(s), q, atol=1e-12 * size)
    # value, slope and second derivative are continuous
    inner = np.arange(len(made.s) - 2)
    before, after = (made.derivatives(made.s[1:-1], inner + k) for k in (0, 1))
    for order in range(3):
        unit = size / np.diff(s).min() ** order
        np.testing.assert_allclose(before[order], after[order], atol=1e-9 * unit)
    # where the usual spline of a coordinate stays inside its limits, it is returned unchanged
    if len(s) > 3:
        usual = Spline.through(s, q)
        at = rng.uniform(s[0], s[-1], 100)
        np.testing.assert_allclose(usual(at), CubicSpline(s, q)(at), atol=1e-9 * size)
        least, most = range_of(usual)
        kept = (least >= lower) & (most <= upper)
        np.testing.assert_allclose(made(at)[:, kept], usual(at)[:, kept], atol=1e-12 * size)


def at_limits(seed: int) -> Array:
    """Return configurations of a Panda (K, 7), many of them with joints at their limits."""
    rng = np.random.default_rng(seed)
    share = np.clip(rng.uniform(-0.5, 1.5, (int(rng.integers(3, 9)), 7)), 0, 1)
    return PANDA.lower + share * (PANDA.upper - PANDA.lower)


@pytest.mark.parametrize("jerk", [np.inf, 200.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_motion_stays_inside_the_position_limits(seed: int, jerk: float) -> None:
    q = at_limits(seed)
    path = JointPath(PANDA, q)
    low, high = range_of(path.spline)
    assert (low >= PANDA.lower - 1e-12).all()
    assert (high <= PANDA.upper + 1e-12).all()
    np.testing.assert_allclose(path.extremes, (low, high), atol=1e-12)
    dense = path.at(np.linspace(path.s[0], path.s[-1], 2000))
    assert ((PANDA.lower <= dense) & (dense <= PANDA.upper)).all()
    limits = sp.Limits.for_robot(PANDA, max_speed=2.0, max_acceleration=10.0, max_jerk=jerk)
    motion = path.timed(limits, dt=1e-3)
    assert ((PANDA.lower <= motion.q) & (motion.q <= PANDA.upper)).all()
    for order, most in enumerate((2.0, 10.0, jerk), 1):
        assert np.abs(np.diff(motion.q, order, axis=0) / 1e-3**order).max() <= most * (1 + 1e-6)


def test_a_path_configuration_outside_the_limits_is_named_by_index() -> None:
    q = np.stack([PANDA.neutral(), PANDA.neutral()])
    q[1, 3] = PANDA.upper[3] + 0.1
    with pytest.raises(errors.InputError, match=r"panda_joint4 of configuration 1"):
        JointPath(PANDA, q)


def test_timing_a_path_outside_narrower_limits_raises_an_error_that_names_the_joint() -> None:
    q = np.stack([PANDA.neutral(), PANDA.neutral() + 0.5 * np.eye(7)[0]])
    limits = sp.Limits.for_robot(PANDA, upper={"panda_joint1": 0.4})
    with pytest.raises(errors.InputError, match=r"position limits; given: a path of panda_joint1"):
        JointPath(PANDA, q).timed(limits)
    assert JointPath(PANDA, q).timed(sp.Limits.for_robot(PANDA, upper=9.0)).q[-1, 0] == 0.5
