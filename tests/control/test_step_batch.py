"""Laws of `step.velocities`: each row of the result is the first step of a Servo."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from batch_steps import STEPS, hold_optimal, in_kernel, optimal, some, velocities
from loops import SINGULAR, robot
from rules import EVERY
from supple import (
    DLS,
    Limits,
    Linearization,
    PoseTask,
    PositionTask,
    PostureTask,
    Servo,
    StepStatus,
    damping,
)
from supple.criteria import RestPosture
from supple.errors import InputError
from supple.redundancy import Augmented, NullSpace, Priority
from supple.steps import AngleClamp, Pseudoinverse

CURVED = DLS(damping.Curvature(0.01))


@pytest.mark.parametrize("rule", EVERY, ids=str)
def test_without_limits_velocities_with_any_damping_rule_are_those_of_the_step(rule: Any) -> None:
    q, twist = some("panda", 40)
    for dtype in (np.float64, np.float32):
        at, asked = q.astype(dtype), twist.astype(dtype)
        found = velocities(robot("panda"), at, asked, step=DLS(rule))
        expected = DLS(rule)(Linearization(robot("panda").jacobian(at), asked))
        assert found.dtype == dtype
        assert (found == expected).all()


@pytest.mark.parametrize("name", STEPS)
def test_velocities_with_any_kind_of_step_are_those_of_the_step(name: str) -> None:
    q, twist = some("panda", 40)
    found = velocities(robot("panda"), q, twist, step=STEPS[name])
    expected = STEPS[name](Linearization(robot("panda").jacobian(q), twist))
    assert (found == expected).all()


@pytest.mark.parametrize("mode", ["exact", "scale"])
@pytest.mark.parametrize("acceleration", [math.inf, 8.0])
@pytest.mark.parametrize("step", [None, CURVED, STEPS["weighted"]], ids=["default", "c", "w"])
def test_with_limits_velocities_are_the_first_step_of_a_servo(
    step: Any, acceleration: float, mode: Any
) -> None:
    arm = robot("panda")
    q, twist = some("panda", 60, seed=1)
    q[::3] = np.where(np.arange(7) % 2, arm.lower, arm.upper) + 1e-3 * np.sin(q[::3])
    limits = Limits.for_robot(arm, max_norm=3.0, max_acceleration=acceleration, mode=mode)
    qd = 0.1 * np.cos(np.arange(420)).reshape(60, 7)
    found = velocities(arm, q, twist, step=step, limits=limits, dt=0.01, qd=qd)
    own = optimal(arm) if step is None else step
    servo = Servo(arm, dt=0.01, step=own, limits=limits)
    for i in range(60):
        servo.reset(qd[i])
        servo(q[i], twist[i])
        np.testing.assert_allclose(found[i], servo.qd, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("where", SINGULAR)
def test_velocities_with_optimal_damping_keep_the_bound_with_the_least_error(
    where: str, dtype: type
) -> None:
    name, at = SINGULAR[where]
    arm, rng = robot(name), np.random.default_rng(3)
    away = 10.0 ** rng.uniform(-12, 0, (200, 1)) * rng.normal(size=(200, arm.dof))
    away[:20] = 0
    twist = rng.normal(size=(200, 6)) * 10.0 ** rng.uniform(-3, 3, (200, 1))
    q, asked = (at + away).astype(dtype), twist.astype(dtype)
    bound = damping.Optimal.for_robot(arm).max_speed
    hold_optimal(arm, q, asked, velocities(arm, q, asked), bound)


def test_velocities_for_a_frame_that_no_joint_moves_are_zero() -> None:
    arm = robot("panda")
    for dtype in (np.float64, np.float32):
        found = velocities(
            arm, arm.random(5, seed=0).astype(dtype), np.ones((5, 6), dtype), "panda_link0"
        )
        assert (found == 0).all()


def test_velocities_broadcast_and_do_not_depend_on_threads() -> None:
    arm = robot("panda")
    q, twist = some("panda", 3000)
    found = velocities(arm, q, twist)
    assert (velocities(arm, q, twist, threads=1) == found).all()
    assert (velocities(arm, q[7], twist[7]) == found[7]).all()
    wide = velocities(arm, q[:12].reshape(4, 1, 3, 7), twist[:3])
    assert wide.shape == (4, 1, 3, 7)
    assert (wide[2, 0, 1] == velocities(arm, q[7], twist[1])).all()
    assert velocities(arm, q[:0], twist[:0]).shape == (0, 7)
    mixed = velocities(arm, q.astype(np.float32), twist)
    assert mixed.dtype == np.float64


def test_velocities_are_those_of_the_selected_frames_and_rows() -> None:
    two = robot("y")
    q = two.random(30, seed=0)
    twist = np.random.default_rng(0).normal(size=(30, len(two.tips), 6))
    J = two.jacobian(q).reshape(30, -1, two.dof)
    rule = DLS(damping.Constant(0.02))
    expected = rule(Linearization(J, twist.reshape(30, -1)))
    np.testing.assert_allclose(velocities(two, q, twist, step=rule), expected, atol=1e-12)
    arm = robot("panda")
    q, one = some("panda", 20)
    v = rule(Linearization(arm.jacobian(q)[:, :3], one[:, :3]))
    np.testing.assert_allclose(velocities(arm, q, one, PositionTask(), step=rule), v, atol=1e-12)
    body = rule(Linearization(arm.jacobian(q, axes="body"), one))
    found = velocities(arm, q, one[:, None], [PoseTask(axes="body")], step=rule)
    np.testing.assert_allclose(found, body, atol=1e-12)


def test_velocities_are_written_to_out() -> None:
    arm = robot("panda")
    q, twist = some("panda", 700)
    limits = Limits.for_robot(arm, max_acceleration=5.0)
    qd = 0.1 * np.sin(q)
    expected = velocities(arm, q, twist, limits=limits, dt=0.01, qd=qd)
    out = np.empty_like(q)
    assert velocities(arm, q, twist, limits=limits, dt=0.01, qd=qd, out=out) is out
    assert (out == expected).all()
    assert velocities(arm, q, twist, limits=limits, dt=0.01, qd=qd, out=qd) is qd
    assert (qd == expected).all()
    with pytest.raises(InputError, match=r"out must be a writable .* \(700, 7\)"):
        velocities(arm, q, twist, out=out[1:])


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a robot that is none": ({"robot": "panda"}, "robot must be a Robot"),
    "a q of others": ({"q": np.zeros((5, 6))}, r"q must be .*\(\.\.\., 7\)"),
    "a twist of three": ({"velocity": np.zeros((5, 3))}, r"velocity must be .*\(\.\.\., 6\)"),
    "batches that do not match": ({"velocity": np.zeros((4, 6))}, "batch axes must broadcast"),
    "a q that is not a number": ({"q": np.full((5, 7), np.nan)}, r"must be finite.*q\[0\] = \[nan"),
    "no task for each": ({"tasks": ["panda_hand"]}, r"velocity must be \(\.\.\., 1, 6\)"),
    "a posture": ({"tasks": PostureTask()}, "takes tasks of frames"),
    "a function": ({"step": AngleClamp(lambda lin: lin.e, 1.0)}, "steps of supple.steps"),
    "a rule of one's own": ({"step": DLS(lambda lin: 0.1)}, "rules of supple.damping"),
    "a criterion": (
        {"step": AngleClamp(NullSpace(CURVED, RestPosture(np.zeros(7))), 1.0)},
        "steps of supple.steps",
    ),
    "priorities": ({"step": AngleClamp(Priority(CURVED), 1.0)}, "steps of supple.steps"),
    "weights of others": ({"step": Augmented(damping.Constant(0.1), (1.0, 2.0))}, "one per task"),
    "limits without dt": ({"limits": True}, "limits need dt"),
    "dt without limits": ({"dt": 0.1}, "dt needs limits"),
    "a dt of zero": ({"limits": True, "dt": 0.0}, "dt must be"),
    "limits of others": ({"limits": robot("ur5e"), "dt": 0.1}, "limits must be Limits of 7"),
    "no qd": ({"limits": 3.0, "dt": 0.1}, "need qd"),
    "a stream": ({"stream": 1}, "stream is for arrays in GPU memory"),
    "a device": ({"device": "tpu"}, "device must be"),
    "threads on a GPU": ({"device": "cuda", "threads": 2}, "threads is for device='cpu'"),
}


@pytest.mark.parametrize("what", BAD)
def test_errors_about_velocities_name_the_bad_argument(what: str) -> None:
    given, said = BAD[what]
    arm = robot("panda")
    all_given: dict[str, Any] = {
        "robot": arm,
        "step": optimal(arm),
        "q": np.zeros((5, 7)),
        "velocity": np.zeros((5, 6)),
    }
    all_given |= given
    limits = all_given.get("limits")
    if limits is True:
        all_given["limits"] = Limits.for_robot(arm)
    elif isinstance(limits, float):
        all_given["limits"] = Limits.for_robot(arm, max_acceleration=limits)
    with pytest.raises(InputError, match=said):
        all_given.pop("step").velocities(**all_given)


def test_errors_about_velocities_name_the_batch_row_that_is_not_finite() -> None:
    arm = robot("panda")
    q, twist = some("panda", 600)
    twist[402, 3] = np.inf
    with pytest.raises(InputError, match=r"q\[402\] = .*velocity\[402\] = .*inf"):
        velocities(arm, q, twist)
    with pytest.raises(InputError, match=r"resulting step must be finite; given: q = "):
        velocities(arm, q[0], 1e308 * np.ones(6), step=Pseudoinverse())


@pytest.mark.parametrize("mode", ["exact", "scale"])
@pytest.mark.parametrize("acceleration", [np.inf, 20.0])
@pytest.mark.parametrize("name", ["constant", "curved", "optimal", "undamped"])
def test_velocities_with_explain_report_the_same_as_a_servo(
    name: str, acceleration: float, mode: Any
) -> None:
    """Speeds, damping before limits, active limits and status equal those of its first step."""
    arm, dt = robot("panda"), 0.01
    step = {
        "constant": DLS(damping.Constant(0.01)),
        "curved": CURVED,
        "optimal": DLS(damping.Optimal(0.7)),
        "undamped": Pseudoinverse(),
    }[name]
    limits = Limits.for_robot(
        arm, speed_factor=0.3, max_acceleration=acceleration, max_norm=0.6, mode=mode
    )
    q, twist = some("panda", 150, seed=5)
    qd = 0.1 * np.sin(np.arange(7))
    found = step.velocities(arm, q, twist, limits=limits, dt=dt, qd=qd, explain=True)
    plain = step.velocities(arm, q, twist, limits=limits, dt=dt, qd=qd)
    assert (found.qd == plain).all()
    np.testing.assert_allclose(
        found.lambda2, in_kernel(step, arm.jacobian(q), twist)[1], rtol=1e-6, atol=1e-14
    )
    # Where limits make the damping of `Optimal` unnecessary, a Servo does not report DAMPED.
    ignored = StepStatus.DAMPED if name == "optimal" else StepStatus.FOLLOWING
    servo = Servo(arm, dt=dt, step=step, limits=limits)
    for i in range(len(q)):
        servo.reset(qd)
        servo(q[i], twist[i])
        assert found.status[i] | ignored == servo.status | ignored, i
        assert (found.active[i] == servo.active).all(), i
    causes = {cause for status in found.status for cause in status}
    assert causes >= {StepStatus.NORM_LIMIT if acceleration == np.inf else StepStatus(4)}


def test_without_limits_velocities_report_damped_only_where_damping_acts() -> None:
    arm = robot("panda")
    q, twist = some("panda", 50)
    found = DLS(damping.Optimal(0.5)).velocities(arm, q, twist, explain=True)
    assert not found.active.any()
    damped = np.linalg.norm(Pseudoinverse().velocities(arm, q, twist), axis=1) > 0.5
    assert ((found.status == StepStatus.DAMPED) == damped).all()
    one = DLS(damping.Optimal(0.5)).velocities(arm, q[0], twist[0], explain=True)
    assert one.status[()] == found.status[0]
    assert str(found.status[0]) in repr(one)
    with pytest.raises(InputError, match="explain is for device='cpu'"):
        CURVED.velocities(arm, q, twist, explain=True, device="cuda")


def test_velocities_of_named_frames_are_those_of_their_pose_tasks() -> None:
    arm = robot("panda")
    q, twist = some("panda", 20)
    by_task = CURVED.velocities(arm, q, twist, PoseTask("panda_link5"))
    by_frame = CURVED.velocities(arm, q, twist, frame="panda_link5")
    assert (by_frame == by_task).all()
    frames = ["panda_link5", "panda_hand"]
    several = np.stack([twist, twist], axis=1)
    by_tasks = CURVED.velocities(arm, q, several, [PoseTask(name) for name in frames])
    assert (CURVED.velocities(arm, q, several, frame=frames) == by_tasks).all()
    with pytest.raises(InputError, match="frame and tasks must not be given together"):
        CURVED.velocities(arm, q, twist, PoseTask(), frame="panda_link5")
