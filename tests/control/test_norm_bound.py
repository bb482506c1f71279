"""The norm of all joint speeds never exceeds its bound, not even by rounding errors.

The tests compute the norm in several ways, as users might.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from batch_steps import velocities
from loops import Array, robot
from sizes import nightly
from supple import DLS, Limits, Servo, _core, damping

MODES = ["exact", "scale"]
NORMS: dict[str, Callable[[Array], float]] = {
    "numpy": lambda x: float(np.linalg.norm(x)),
    "sum of squares": lambda x: math.sqrt(sum(float(v) * float(v) for v in x)),
    "backward": lambda x: math.sqrt(sum(float(v) * float(v) for v in x[::-1])),
    "NumPy's sum": lambda x: float(np.sqrt((x * x).sum())),
    "hypot": lambda x: math.hypot(*map(float, x)),
}


@pytest.fixture(autouse=True, params=_core.isas())
def isa(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run each test with every compiled instruction set."""
    chosen = _core.isa()
    _core.use_isa(request.param)
    yield
    _core.use_isa(chosen)


def hold(qd: Array, bound: float) -> None:
    """Check the bound on the norm of speeds (n,), also with exact arithmetic."""
    assert {name: norm(qd) for name, norm in NORMS.items() if norm(qd) > bound} == {}
    assert sum(Fraction(float(x)) ** 2 for x in qd) <= Fraction(bound) ** 2


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["panda", "planar2", "youbot"])
def test_rounding_errors_of_a_servo_never_exceed_the_norm_bound(name: str, mode: str) -> None:
    """Bounds and commands are random; some joints return from outside their limits."""
    arm, rng, reached = robot(name), np.random.default_rng(11), 0
    for k in range(nightly(60, 6)):
        bound = float(10 ** rng.uniform(-2, 1))
        limits = replace(
            Limits.none(arm), max_norm=bound, mode=mode,  # type: ignore[arg-type]
            max_acceleration=np.full(arm.dof, [np.inf, 4.0][k % 2]),
        )  # fmt: skip
        q = arm.random(seed=rng)
        if k % 3:
            limits = replace(limits, lower=q + 0.1 * rng.normal(size=arm.dof) - 0.1)
            limits = replace(limits, upper=limits.lower + 0.2)
        step = [None, DLS(damping.Optimal(bound))][k // 2 % 2]
        servo = Servo(arm, dt=0.01, limits=limits, step=step)
        for _ in range(100):
            q = servo(q, rng.normal(size=6) * 10 ** rng.uniform(-1, 2))
            hold(servo.qd, bound)
            reached += np.linalg.norm(servo.qd) > 0.9999 * bound
    assert reached > 50


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rounding_errors_of_velocities_of_a_batch_never_exceed_the_norm_bound(
    mode: str, dtype: type
) -> None:
    arm, rng = robot("panda"), np.random.default_rng(12)
    for _ in range(nightly(30, 5)):
        bound = float(10 ** rng.uniform(-2, 0))
        limits = Limits.for_robot(arm, max_norm=bound, mode=mode)  # type: ignore[arg-type]
        q = arm.random(200, seed=rng).astype(dtype)
        speeds = velocities(arm, q, rng.normal(size=(200, 6)).astype(dtype), limits=limits, dt=0.01)
        assert speeds.dtype == dtype
        for qd in speeds:
            hold(qd, bound)
        assert np.linalg.norm(speeds.astype(float), axis=1).max() > 0.9999 * bound


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n", [1, 3, 7, 30])
def test_rounding_errors_of_limited_steps_never_exceed_the_norm_bound(mode: str, n: int) -> None:
    rng = np.random.default_rng(n)
    for _ in range(nightly(300, 30)):
        bound = float(10 ** rng.uniform(-3, 3))
        free = np.full(n, np.inf)
        limits = Limits(-free, free, free, free, max_norm=bound, mode=mode)  # type: ignore[arg-type]
        J, size = rng.normal(size=(4, n)), bound * rng.uniform(0.1, 1, n)
        dq = 10 * bound * rng.normal(size=n)
        x, _, _ = limits.applied(dq, J, np.float64(10 ** rng.uniform(-6, 0)), -size, size)
        hold(x, bound)
