"""Laws of damping by estimated singular values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from cases import each
from filtering_paper import Estimated, eq14
from harness import LANES, Lane, same_bits
from loops import robot
from sizes import nightly
from spectra import SHAPES, samples
from supple import DLS, Limits, Linearization, PoseTask, Servo, damping, simulate
from supple.damping import ConditionBound, Curvature, MayorgaCondition, Region, SpeedBound
from supple.errors import InputError
from supple.steps import EstimatedDLS, Estimates, ExtremeValues, NumericalFilter, StatefulStep

Array = np.ndarray
DIRECTED = Region(0.04, 0.5, direction=(1.0, 2.0, 0.0, 0.0, 1.0, 0.0), min_weight=0.2)
RULES: dict[str, Any] = {
    "speed": SpeedBound(3.0),
    "region": Region(0.04, 0.5),
    "condition": ConditionBound(50.0),
    "mayorga": MayorgaCondition(1e-4, 50.0, 0.04),
    "curvature": Curvature(0.1),
}
rules = pytest.mark.parametrize("name", RULES)


def passage(m: int, n: int, count: int = 60) -> Iterator[Linearization]:
    """Yield the linearizations of a smooth motion through σ_min = 0."""
    rng = np.random.default_rng((m, n))
    A, B, e = rng.normal(size=(m, m)), rng.normal(size=(n, n)), rng.normal(size=m)
    for t in np.linspace(-0.6, 0.6, count + 1):
        U, V = (np.linalg.qr(np.eye(len(M)) + 0.2 * t * M)[0] for M in (A, B))
        yield Linearization(U * np.append(np.linspace(2, 1, m - 1), t) @ V[:, :m].T, e)


def transcribed(rule: Any) -> Callable[[float, float], float]:
    """Return the formula for λ² that is printed in the paper of `rule`.

    It is a function (σ_min, σ_max) -> λ², for m = n.
    """
    if isinstance(rule, SpeedBound):
        return lambda least, _: eq14(least, rule.max_gain)
    if isinstance(rule, Region):
        return lambda least, _: rule.lambda2_max * max(0.0, 1 - (least / rule.size) ** 2)
    assert isinstance(rule, ConditionBound)
    k = rule.max_condition
    return lambda least, largest: max(0.0, (largest**2 - k * least**2) / (k - 1))


@pytest.mark.parametrize("name", ["speed", "region", "condition"])
@pytest.mark.parametrize("m", [2, 6])
def test_a_motion_with_estimated_damping_is_that_of_the_paper(name: str, m: int) -> None:
    """q̇ agrees to 1e-12 far from the singularity, and to 1e-9 near it."""
    rule = RULES[name]
    step, there = StatefulStep(EstimatedDLS(rule)), None
    for lin in passage(m, m):
        there = there or Estimated.start(lin.J, transcribed(rule))
        expected = there(lin.J, lin.e)
        size = np.linalg.norm(expected)
        off = np.linalg.norm(step(lin) - expected)
        assert off <= (1e-12 if lin.sigma_min > 0.1 else 1e-9) * size
        assert isinstance(step.memory, ExtremeValues)
        assert step.memory.sigma_min == pytest.approx(there.sigma, abs=1e-9)
        if name == "condition":
            assert step.memory.sigma_max == pytest.approx(there.largest, rel=1e-12)


@rules
def test_estimated_damping_lags_the_exact_rule_by_one_step(name: str) -> None:
    """Halving the steps therefore halves the difference from `DLS` with the exact rule."""
    rule = RULES[name]
    off = []
    for count in nightly((60, 120, 240), (60, 120)):
        step, exact, most = StatefulStep(EstimatedDLS(rule)), DLS(rule), 0.0
        for lin in passage(6, 6, count):
            most = max(most, float(np.linalg.norm(step(lin) - exact(lin))))
        off.append(most)
    assert (np.divide(off[1:], off[:-1]) < 0.75).all(), off


@rules
@each("shape", SHAPES)
def test_the_first_step_of_estimated_damping_has_the_exact_damping_of_its_rule(
    name: str, shape: tuple[int, int]
) -> None:
    rule = RULES[name]
    for sample in samples(shape):
        lin = sample.linearization
        dq = EstimatedDLS(rule)(lin)
        assert np.isfinite(dq).all()
        lambda2 = rule(lin)
        if lambda2 > 1e-6 * lin.sigma[0] ** 2 or lin.sigma_min > 1e-3 * lin.sigma[0]:
            size = np.linalg.norm(lin.e) / max(lin.sigma_min, np.sqrt(lambda2), 1e-300)
            np.testing.assert_allclose(dq, DLS(rule)(lin), rtol=0, atol=1e-9 * size)


@each("shape", SHAPES)
def test_estimated_damping_recovers_from_a_wrong_memory(shape: tuple[int, int]) -> None:
    """With a memory orthogonal to the true direction, the step is that without a memory."""
    rule, k = SpeedBound(3.0), min(shape)
    if k == 1:
        return
    for sample in samples(shape):
        lin = sample.linearization
        if lin.sigma[-2] < 2.1 * max(lin.sigma_min, 1 / 6) or shape[0] > shape[1]:
            continue
        wrong = ExtremeValues(lin.U[:, 0].copy(), 5.0, lin.U[:, -1].copy(), 0.1)
        there = EstimatedDLS(rule).step(lin, wrong)
        here = EstimatedDLS(rule).step(lin, EstimatedDLS(rule).start(lin))
        np.testing.assert_allclose(there[0], here[0], atol=1e-9 * np.linalg.norm(lin.e))
        assert there[1].sigma_min == pytest.approx(here[1].sigma_min, abs=1e-6)


def test_estimated_damping_of_a_region_reduces_the_weight_of_its_direction() -> None:
    """Like λ², this weight depends on the σ_min estimated in the previous step."""
    step = StatefulStep(EstimatedDLS(DIRECTED))
    before = None
    for lin in passage(6, 7):
        sigma = lin.sigma_min if before is None else before
        depth = max(0.0, 1 - (sigma / 0.5) ** 2)
        d = np.array(DIRECTED.direction)
        W = np.eye(6) + (1 - 0.8 * np.sqrt(depth) - 1) * np.outer(d, d)
        J, e = W @ lin.J, W @ lin.e
        expected = J.T @ np.linalg.solve(J @ J.T + 0.04 * depth * np.eye(6), e)
        np.testing.assert_allclose(step(lin), expected, rtol=0, atol=1e-9)
        before = step.memory.sigma_min  # type: ignore[union-attr]


def test_zero_jacobians_give_zero_speeds_and_keep_the_memory() -> None:
    u, w = np.eye(3)[0], np.eye(3)[1]
    for J in (np.zeros((3, 4)), np.zeros((3, 2))):
        dq, memory = EstimatedDLS(SpeedBound(2.0)).step(
            Linearization(J, np.ones(3)), ExtremeValues(u, 0.3, w, 1.0)
        )
        assert not dq.any()
        assert memory.sigma_min == 0
        np.testing.assert_array_equal(memory.u, u)


def test_estimated_dls_refuses_rules_that_need_all_singular_values() -> None:
    for rule in (damping.Constant(0.1), damping.Optimal(1.0), lambda lin: 0.1):
        with pytest.raises(InputError, match=r"given: .*Available: 'SpeedBound'"):
            EstimatedDLS(rule)  # type: ignore[arg-type]


# ---- the kernel --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*RULES, "directed"])
@each("shape", SHAPES)
@pytest.mark.parametrize("lane", LANES, ids=str)
def test_estimated_damping_on_every_lane_agrees_with_python(
    lane: Lane, shape: tuple[int, int], name: str
) -> None:
    if name == "directed" and shape[0] != 6:
        return
    rule = DIRECTED if name == "directed" else RULES[name]
    step = EstimatedDLS(rule)
    chosen = [s for s in samples(shape) if np.abs(s.e).max() < 1e3]
    lins = [
        Linearization(s.J.astype(lane.dtype).astype(float), s.e.astype(lane.dtype).astype(float))
        for s in chosen
    ]
    rng = np.random.default_rng(0)
    near = [(1 + 0.1 * rng.uniform(-1, 1, 2)) * (x.sigma_min, x.sigma_max) for x in lins]
    values = np.array(near, lane.dtype).astype(float)
    ends = np.array([turned(x, rng) for x in lins], lane.dtype).astype(float)
    J, e = np.array([x.J for x in lins]), np.array([x.e for x in lins])
    out = lane.estimated_step(step.kernel, J, e, ends, values)
    for x in out:
        assert np.isfinite(x).all()
    alone = lane.scalar.estimated_step(step.kernel, J, e, ends, values)
    for ours, lone in zip(out, alone, strict=True):
        assert same_bits(ours, lone)
    if lane.width > 1 or lane.eps > 1e-9:
        return
    dq, _, found, lambda2 = out
    for i, lin in enumerate(lins):
        memory = ExtremeValues(ends[i, 0], values[i, 0], ends[i, 1], values[i, 1])
        here, after = step.step(lin, memory)
        chosen2 = float(step.estimates(lin, memory).lambda2)
        if lin.sigma_min <= 1e-6 * max(lin.sigma[0], 1e-300) and shape[0] > shape[1]:
            continue  # rounding errors decide the range of J
        assert lambda2[i] == pytest.approx(chosen2, rel=1e-9, abs=1e-12)
        scale = lin.sigma[0] ** 2 / max(
            lin.sigma_min**2 + chosen2, 1e-13 * lin.sigma[0] ** 2, 1e-300
        )
        most = 1e-14 * scale * max(np.linalg.norm(here), np.linalg.norm(lin.e))
        assert np.linalg.norm(dq[i] - here) <= most + 1e-12 * np.linalg.norm(here)
        assert found[i, 0] ** 2 == pytest.approx(
            after.sigma_min**2, rel=1e-6, abs=1e-12 * float((lin.sigma**2).sum() + chosen2)
        )
        if name in ("condition", "mayorga"):
            assert found[i, 1] == pytest.approx(after.sigma_max, rel=1e-9)


def turned(lin: Linearization, rng: np.random.Generator) -> Array:
    """Return singular directions (2, m) of σ_min and σ_max, turned by a few degrees."""
    ends = lin.U[:, [-1, 0]].T + 0.03 * rng.normal(size=(2, len(lin.e)))
    return ends / np.linalg.norm(ends, axis=1, keepdims=True)


@pytest.mark.parametrize("name", [*RULES, "directed"])
def test_a_servo_with_estimated_damping_in_the_kernel_has_the_estimates_of_python(
    name: str,
) -> None:
    arm, task = robot("ur5e"), PoseTask()
    step = EstimatedDLS(DIRECTED if name == "directed" else RULES[name])
    servo = Servo(arm, dt=0.01, step=step, limits=Limits.none(arm))
    assert servo.estimates is None
    twin = StatefulStep(step)
    q = np.array([0.3, -1.2, 1.4, -0.5, 0.25, 0.2])
    velocity = np.array([0.3, -0.2, 0.1, 0.4, -0.1, 0.2])
    for again in range(2):
        for _ in range(25):
            lin = task.linearize(arm, q, velocity=velocity)
            expected = q + 0.01 * twin(lin)
            q = servo(q, velocity)
            np.testing.assert_allclose(q, expected, rtol=0, atol=1e-10)
            assert servo.estimates is not None
            memory = twin.memory
            assert servo.estimates.sigma == pytest.approx(memory.sigma_min, rel=1e-6)  # type: ignore[union-attr]
            assert servo.estimates.lambda2 == servo.lambda2
        if not again:
            servo.reset()
            twin.reset()
            assert servo.estimates is None


@pytest.mark.parametrize(
    "step", [NumericalFilter(4.0), NumericalFilter(4.0, printed=True), EstimatedDLS(RULES["speed"])]
)
def test_a_trajectory_has_the_estimates_of_each_step(step: Any) -> None:
    """The estimates of `simulate` equal those of a Servo and those of the step in Python."""
    arm, task = robot("panda"), PoseTask()
    q = np.array([0.3, -0.5, 0.2, -0.4, 0.1, 0.6, 0.8])
    velocity = np.array([0.3, 0.1, 0.2, 0.0, 0.1, 0.0])
    moved = simulate(
        arm, q, velocity=velocity, dt=0.02, duration=0.6, step=step, limits=Limits.none(arm)
    )
    servo = Servo(arm, dt=0.02, step=step, limits=Limits.none(arm))
    assert isinstance(moved.estimates, Estimates)
    memory = None
    for k, q in enumerate(moved.q[:-1]):
        lin = task.linearize(arm, q, velocity=velocity)
        memory = step.start(lin) if memory is None else memory
        expected = step.estimates(lin, memory)
        memory = step.step(lin, memory)[1]
        servo(q, velocity)
        for name in ("sigma", "sigma_eff", "sigma_o", "alpha2", "lambda2"):
            found = getattr(moved.estimates, name)[k]
            assert found == getattr(servo.estimates, name)
            assert found == pytest.approx(getattr(expected, name), rel=1e-8, abs=1e-10)
    assert simulate(arm, q, velocity=velocity, dt=0.02, duration=0.1).estimates is None
