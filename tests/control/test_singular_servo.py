"""At singularities, speeds are bounded and never NaN, and arms leave where possible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loops import SINGULAR, Array, moved, pose_of, robot, run, turned
from supple import DLS, Limits, PoseTask, PositionTask, Servo, damping, simulate
from supple.steps import SDLS, NumericalFilter

STEPS: dict[str, Any] = {
    "default": None,
    "optimal": DLS(damping.Optimal(1.0)),
    "constant": DLS(damping.Constant(1e-3)),
    "selective": SDLS(0.2),
    "filtered": NumericalFilter(10.0),
}


def jacobian(name: str, q: Array) -> Array:
    """Return J of the end effector; for a planar arm, only its rows in the plane."""
    J = np.asarray(robot(name).jacobian(q))
    return J[:2] if name == "planar2" else J


def lost(name: str, q: Array) -> Array:
    """Return the unit twist along the singular direction at q."""
    u = np.linalg.svd(jacobian(name, q))[0][:, -1]
    return np.concatenate([u, np.zeros(6 - len(u))])


def sigma(name: str, q: Array) -> float:
    return float(np.linalg.svd(jacobian(name, q), compute_uv=False)[-1])


def task(name: str) -> Any:
    return PositionTask(rows=("x", "y")) if name == "planar2" else PoseTask()


def wish(name: str, twist: Array) -> Array:
    return twist[:3] if name == "planar2" else twist


@pytest.mark.parametrize("place", SINGULAR)
@pytest.mark.parametrize("way", STEPS)
def test_speeds_from_an_exactly_singular_start_are_finite_and_bounded(place: str, way: str) -> None:
    """Twists are along, across and oblique to the singular direction."""
    name, q0 = SINGULAR[place]
    assert sigma(name, q0) < 1e-12
    arm, least = robot(name), lost(name, q0)
    across = np.linspace(1, 2, 6)
    across -= across @ least * least
    limits = Limits.for_robot(arm, max_norm=0.8)
    for twist in (least, -least, 0.3 * across, least + across, 1e-9 * least, 1e3 * least):
        servo = Servo(arm, task(name), dt=0.01, step=STEPS[way], limits=limits)
        q, qd = run(servo, q0, 60, velocity=wish(name, twist))
        assert np.isfinite(q).all()
        assert (np.linalg.norm(qd, axis=1) <= 0.8).all()


@pytest.mark.parametrize("place", [p for p in SINGULAR if "planar2" not in p and "all" not in p])
@pytest.mark.parametrize("way", ["default", "optimal"])
@pytest.mark.parametrize("side", [1, -1])
def test_an_arm_that_starts_at_a_singularity_reaches_a_regular_pose(
    place: str, way: str, side: int
) -> None:
    """All joint angles of the target differ from those at the start."""
    name, q0 = SINGULAR[place]
    arm = robot(name)
    away = 0.25 * np.sin(np.arange(arm.dof) + 1.0)
    if "elbow" in place:
        away[2] = 0.5
    target = pose_of(name, q0 + side * away)
    servo = Servo(arm, dt=0.01, step=STEPS[way], limits=Limits.for_robot(arm, max_norm=1.0))
    q, qd = run(servo, q0, 800, target=target)
    assert (np.linalg.norm(qd, axis=1) <= 1.0).all()
    assert sigma(name, q[-1]) > 5e-3
    assert np.abs(pose_of(name, q[-1]) - target).max() < 1e-9


def test_a_stretched_arm_bends_and_reaches_a_target_inside_its_reach() -> None:
    """The target is beside the line of the arm; for one on the line, it may stay stretched."""
    arm = robot("planar2")
    reach = float(pose_of("planar2", np.zeros(2))[0, 3])
    servo = Servo(arm, PositionTask(rows=("x", "y")), dt=0.01, limits=Limits.none(arm))
    q, qd = run(servo, np.zeros(2), 2000, target=np.array([0.7 * reach, 0.1 * reach, 0.0]))
    at = pose_of("planar2", q[-1])[:2, 3]
    np.testing.assert_allclose(at, [0.7 * reach, 0.1 * reach], atol=1e-6)
    assert np.isfinite(qd).all()
    q, qd = run(servo, np.zeros(2), 200, target=np.array([0.7 * reach, 0.0, 0.0]))
    assert np.isfinite(q).all()


@pytest.mark.parametrize("name", ["ur5e", "puma560", "stanford"])
@pytest.mark.parametrize("way", ["default", "optimal", "constant", "filtered"])
@pytest.mark.parametrize("order", [1, 2])
def test_speeds_stay_bounded_on_a_line_through_the_wrist_singularity(
    name: str, way: str, order: int
) -> None:
    """The target passes exactly through the singular pose, rotating about a regular axis.

    Speeds stay below Δ, and the error becomes small again.
    """
    q0 = SINGULAR[f"{name} wrist"][1]
    arm, T = robot(name), pose_of(name, q0)
    across = np.cross(lost(name, q0)[3:], [0.3, 0.5, 0.8])
    start = q0 + np.array([0, 0, 0, 0, 0.5, 0.0])

    def target(t: float) -> Array:
        s = min(t / 3.0, 1.0) - 0.5
        return moved(turned(T, across, s), np.array([0.0, 0.1, -0.1]) * s)

    delta, step = 3.0, STEPS[way]
    if order == 2 and way == "optimal":
        step = DLS(damping.Optimal(100.0))  # with order 2 it bounds accelerations
    limits = Limits.for_robot(arm, max_norm=delta)
    result = simulate(
        arm, start, target=target, dt=0.01, duration=7.0, step=step, limits=limits, order=order
    )
    assert np.isfinite(result.q).all()
    assert (np.linalg.norm(result.qd, axis=1) <= delta).all()
    assert np.linalg.norm(result.error[-1]) < 1e-3
    assert result.sigma_min.min() < 0.05


def test_the_undamped_step_is_bounded_by_the_limits_alone() -> None:
    """With σ_min from 1e-3 to 1e-15, steps of the pseudoinverse keep limits on speed and norm."""
    arm = robot("ur5e")
    limits = Limits.for_robot(arm, max_norm=1.0)
    for power in range(3, 16):
        q0 = SINGULAR["ur5e wrist"][1].copy()
        q0[4] = 10.0**-power
        servo = Servo(arm, dt=0.01, step=DLS(damping.Constant(0.0)), limits=limits)
        q, qd = run(servo, q0, 40, velocity=lost("ur5e", q0))
        assert np.isfinite(q).all()
        assert (np.linalg.norm(qd, axis=1) <= 1.0).all()


@pytest.mark.parametrize("order", [1, 2])
def test_an_arm_rests_if_no_joint_moves_the_frame_of_its_task(order: int) -> None:
    """No error is raised."""
    arm = robot("panda")
    base = PoseTask("panda_link0")
    for step in STEPS.values():
        servo = Servo(arm, base, dt=0.01, step=step, order=order)
        q0 = np.array([0, 0, 0, -1.5, 0, 1.5, 0])
        target = moved(np.eye(4), np.array([0.1, 0, 0]))
        q, _ = run(servo, q0, 5, velocity=np.ones(6), target=target)
        np.testing.assert_array_equal(q, np.broadcast_to(q0, q.shape))


@pytest.mark.parametrize("place", ["ur5e wrist", "puma560 wrist", "stanford wrist", "panda"])
def test_a_twist_slightly_off_the_singular_direction_leads_out_of_a_singularity(place: str) -> None:
    """The twist has a small component across the singular direction; σ_min grows."""
    name, q0 = SINGULAR[place]
    arm = robot(name)
    across = np.linspace(1, 2, 6)
    across -= across @ lost(name, q0) * lost(name, q0)
    servo = Servo(arm, dt=0.01, limits=Limits.for_robot(arm, max_norm=1.0))
    q, qd = run(servo, q0, 100, velocity=0.2 * lost(name, q0) + 0.1 * across)
    assert (np.linalg.norm(qd, axis=1) <= 1.0).all()
    assert sigma(name, q[-1]) > 1e-2
