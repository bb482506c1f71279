"""Laws of clamps: adaptive limits, end effectors, and limits from a robot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import supple
from supple import Linearization, PoseTask, PositionTask
from supple.describe.dh import dh
from supple.steps import (
    AdaptiveErrorClamp,
    ErrorClamp,
    NumericalFilter,
    Pseudoinverse,
    StatefulStep,
)
from supple.steps.clamp import typical_link

# ---- targets that jump -------------------------------------------------------------------------


def follower(**options: Any) -> Callable[..., list[float]]:
    """Return a function that clamps the errors of two end effectors and returns both lengths."""
    step = StatefulStep(AdaptiveErrorClamp(Pseudoinverse(), 0.4, **options))

    def moved(*errors: tuple[float, float, float]) -> list[float]:
        if not errors:
            step.reset()
            return []
        dq = step(Linearization(np.eye(6), np.ravel(errors)))  # J = I: the step is the error
        return [float(np.linalg.norm(dq[:3])), float(np.linalg.norm(dq[3:]))]

    return moved


def test_an_adaptive_clamp_allows_d_max_plus_the_progress_of_the_last_step() -> None:
    """As in Buss's paper, the first step has no limit. Progress is the decrease of an error."""
    moved = follower()
    assert moved((10.0, 0, 0), (0, 0.2, 0)) == pytest.approx([10.0, 0.2])
    # The second end effector made no progress.
    assert moved((7.0, 0, 0), (0, 0.9, 0)) == pytest.approx([3.4, 0.4])
    assert moved((6.9, 0, 0), (0, 0.8, 0)) == pytest.approx([0.5, 0.5])
    moved()
    assert moved((6.9, 0, 0), (0, 0.8, 0)) == pytest.approx([6.9, 0.8])


def test_an_adaptive_clamp_is_lifted_only_where_the_target_jumps() -> None:
    moved = follower(jump=2.0)
    moved((1.0, 0, 0), (0, 1.0, 0))
    assert moved((3.5, 0, 0), (0, 2.9, 0)) == pytest.approx([3.5, 0.4])


def test_the_clamp_of_the_program_of_buss_grows_as_an_error_grows() -> None:
    """The limit of an end effector is 0.4 plus the increase of its error since the last step."""
    moved = follower(variant="program")
    # No limit in the first step.
    assert moved((1.0, 0, 0), (0, 0.2, 0)) == pytest.approx([1.0, 0.2])
    # The error of the second end effector grew by 0.7.
    assert moved((0.7, 0, 0), (0, 0.9, 0)) == pytest.approx([0.4, 0.9])
    # The error of the first end effector grew by 4.3.
    assert moved((3.0, 0, 4.0), (0, 0.9, 0)) == pytest.approx([4.7, 0.4])
    assert moved((3.0, 0, 4.0), (0, 0.5, 0)) == pytest.approx([0.4, 0.4])


@pytest.mark.parametrize("variant", ["text", "program"])
def test_an_adaptive_clamp_after_a_step_without_progress_is_the_plain_clamp(variant: Any) -> None:
    rng = np.random.default_rng(2)
    lin = Linearization(rng.normal(size=(6, 7)), rng.normal(size=6))
    how = AdaptiveErrorClamp(Pseudoinverse(), 0.3, variant=variant)
    first, memory = how.step(lin, how.start(lin))
    np.testing.assert_array_equal(first, Pseudoinverse()(lin))
    np.testing.assert_array_equal(first, how(lin))
    np.testing.assert_array_equal(how.step(lin, memory)[0], ErrorClamp(Pseudoinverse(), 0.3)(lin))


def test_an_adaptive_clamp_keeps_the_memory_of_the_step_inside() -> None:
    """While no error exceeds the limit, a clamped filter steps as the filter alone."""
    rng = np.random.default_rng(3)
    U, V = np.linalg.qr(rng.normal(size=(6, 6)))[0], np.linalg.qr(rng.normal(size=(7, 6)))[0]
    alone, inside = NumericalFilter(2.0), AdaptiveErrorClamp(NumericalFilter(2.0), 1e3)
    plain, clamped = StatefulStep(alone), StatefulStep(inside)
    for k in range(5):
        lin = Linearization(U * np.geomspace(1, 1e-3, 6) @ V.T + 0.01 * k, rng.normal(size=6))
        np.testing.assert_array_equal(clamped(lin), plain(lin))


# ---- end effectors -----------------------------------------------------------------------------


def test_linearizations_number_the_rows_of_each_end_effector() -> None:
    planar, arm = supple.load("planar2"), supple.load("panda")
    q = np.array([0.3, 0.4])
    for rows, expected in {("x", "y"): (0, 0), ("x", "rz", "y"): (0, 1, 0), ("rz",): (0,)}.items():
        assert PoseTask(rows=rows).linearize(planar, q).effectors == expected
    tasks = (PositionTask("panda_link4", rows=("x", "y")), PoseTask("panda_hand_tcp"))
    many = supple.linearize(arm, tasks, arm.random(3, seed=0), (np.zeros(3), np.eye(4)))
    assert many.effectors == (0, 0, 1, 1, 1, 2, 2, 2)
    assert many[1].effectors == many.effectors
    assert supple.PostureTask().linearize(planar, q).effectors == (0, 1)


def test_planar_effectors_are_clamped_separately() -> None:
    """The two rows of each end effector form a group, in Python, in a batch and in a Servo."""
    e, J = np.array([3.0, 4.0, 0.3, 0.4]), np.eye(4)
    clamp, expected = ErrorClamp(Pseudoinverse(), 1.0), [0.6, 0.8, 0.3, 0.4]
    pair = Linearization(J, e, effectors=(0, 0, 1, 1))
    np.testing.assert_allclose(clamp(pair), expected, rtol=1e-15)
    batch = Linearization(J[None], e[None], effectors=(0, 0, 1, 1))
    np.testing.assert_allclose(clamp(batch)[0], expected, rtol=1e-15)
    np.testing.assert_allclose(ErrorClamp(Pseudoinverse(), 1.0, 2)(Linearization(J, e)), expected)
    arm = supple.load("panda")
    tasks = [PositionTask(name, rows=("x", "y")) for name in ("panda_link4", "panda_hand_tcp")]
    servo = supple.Servo(arm, tasks, dt=0.01, step=clamp, limits=supple.Limits.none(arm))
    q = arm.random(seed=1)
    servo(q, [np.array([3.0, 4.0, 0.0]), np.array([0.3, 0.4, 0.0])])
    np.testing.assert_allclose(servo.linearization.J @ servo.qd, expected, atol=1e-12)


def test_the_default_clamp_is_half_the_length_of_a_typical_link() -> None:
    for name, link in {"double_y": 0.5, "planar2": 1.05}.items():
        robot = supple.load(name)
        clamp = ErrorClamp.for_robot(robot, Pseudoinverse())
        assert clamp.max_error == pytest.approx(link / 2, rel=1e-12), name
        at_speed = ErrorClamp.for_robot(robot, Pseudoinverse(), dt=0.01)
        assert at_speed.max_error == pytest.approx(100 * clamp.max_error)
    table = [(s * 0.3, 0.0, 0.0, 0.0) for s in (1, 2, 4)]
    for scale in (1.0, 100.0):
        robot = supple.Robot(dh([(scale * a, *rest) for a, *rest in table]))
        assert typical_link(robot) == pytest.approx(0.6 * scale)
