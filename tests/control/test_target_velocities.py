"""Steps of a batch of whole bodies toward targets equal those of a Servo for each body."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import supple as sp
from generated import case, seeds
from sizes import nightly
from supple.damping import Constant
from supple.errors import InputError
from supple.tasks.layout import compile_tasks
from whole_bodies import BASES, drawn_batch, slow_limits

Array = np.ndarray
DT = 0.005


def by_servos(
    robot: sp.Robot,
    tasks: Any,
    step: Any,
    q: Array,
    targets: list[Array],
    limits: sp.Limits,
    gain: float,
) -> Array:
    """Return q̇ (count, nv) of the first steps of Servos."""
    made = np.empty((len(q), robot.nv))
    servo = sp.Servo(robot, tasks, dt=DT, step=step, limits=limits, gain=gain)
    for i, row in enumerate(q):
        servo.reset()
        servo(
            row, target=[one if one.ndim < 2 or one.shape == (4, 4) else one[i] for one in targets]
        )
        made[i] = servo.qd
    return made


def any_body(seed: int, size: float) -> tuple[Any, ...]:
    """Return a `drawn_batch` with any base; some robots have mimic joints."""
    return drawn_batch(seed, size, base=BASES[seed % 3], followers=seed // 3 % 2 * (seed % 5))


@pytest.mark.parametrize("size", [1e-4, 0.3])
def test_steps_of_a_batch_toward_targets_are_those_of_a_servo(size: float) -> None:
    for seed in seeds(nightly(100, 20)):
        robot, tasks, q, targets, rng = any_body(seed, size)
        step = sp.DLS(Constant(float(10 ** rng.uniform(-8, -1))))
        none, gain = sp.Limits.none(robot), float(rng.uniform(1, 1 / DT))
        expected = by_servos(robot, tasks, step, q, targets, none, gain)
        found = step.velocities(robot, q, tasks=tasks, target=targets, gain=gain)
        tolerance = 1e-7 * np.abs(expected).max(axis=1, keepdims=True)
        assert (np.abs(found - expected) <= tolerance).all()


def test_steps_of_a_batch_toward_targets_inside_limits_are_those_of_a_servo() -> None:
    active = 0
    for seed in seeds(nightly(200, 30)):
        robot, tasks, q, targets, rng = any_body(seed, 0.3)
        step = sp.DLS(Constant(float(10 ** rng.uniform(-6, -1))))
        limits = slow_limits(robot, rng)
        options: dict[str, Any] = {"limits": limits, "dt": DT}
        expected = by_servos(robot, tasks, step, q, targets, limits, 20.0)
        found = step.velocities(robot, q, tasks=tasks, target=targets, **options)
        free = step.velocities(robot, q, tasks=tasks, target=targets)
        active += int((np.abs(found - free) > 1e-6).any(axis=1).sum())
        tolerance = 1e-6 * np.abs(expected).max(axis=1, keepdims=True)
        assert (np.abs(found - expected) <= tolerance).all()
    assert active > nightly(200, 30)


def moves_several(robot: sp.Robot, tasks: Any) -> bool:
    """Return whether some coordinate moves several joints that move the frames of tasks."""
    return compile_tasks(robot, tasks).kernel.followers > 0


def test_steps_of_random_trees_are_the_damped_least_squares_solution() -> None:
    solved = coupled = 0
    for seed in seeds(nightly(600, 150)):
        one, rng = case(seed, 4), np.random.default_rng([seed, 3])
        robot, damping = one.robot, float(10 ** rng.uniform(-6, 0))
        tasks, targets = (*one.tasks, sp.PostureTask(weight=0.01)), one.targets
        step, gain = sp.DLS(Constant(damping)), 5.0
        there = [one[::-1] for one in targets]
        posture = robot.neutral()
        options: dict[str, Any] = {"tasks": tasks, "target": [*there, posture], "gain": gain}
        if any(task.on(robot).base for task in tasks):
            with pytest.raises(InputError, match="targets need"):
                step.velocities(robot, one.q, **options)
            continue
        servo = sp.Servo(robot, tasks, dt=1e-3, limits=sp.Limits.none(robot), gain=gain)
        each = []
        for i, q in enumerate(one.q):
            servo.reset()
            servo(q, target=[*(goals[i] for goals in there), posture])
            each.append(servo.linearization)
        rows = [np.vstack([at.J, np.sqrt(damping) * np.eye(robot.nv)]) for at in each]
        shares = moves_several(robot, one.tasks)
        # Joints that share a coordinate, with ratios up to 10⁵, cause larger rounding errors in J.
        condition = max(map(np.linalg.cond, rows)) if shares else 0.0
        if condition > 1e8:  # the normal equations are singular to rounding
            continue
        found = step.velocities(robot, one.q, **options)
        solved, coupled = solved + 1, coupled + shares
        for i, at in enumerate(each):
            wanted = np.concatenate([at.e, np.zeros(robot.nv)])
            best = np.linalg.lstsq(rows[i], wanted, rcond=None)[0]
            rounding = 1e-13 * np.linalg.norm(at.e) / np.sqrt(damping)
            relative = 1e-8 + 1e-13 * condition
            assert np.abs(found[i] - best).max() <= relative * np.abs(best).max() + rounding
    assert min(solved / 3, coupled) > nightly(600, 150) / 9


def test_steps_of_a_batch_keep_its_type_and_axes_and_are_written_to_out() -> None:
    robot, tasks, q, targets, _ = drawn_batch(seeds(1)[0], 0.1, count=6)
    step = sp.DLS(Constant(1e-6))
    options: dict[str, Any] = {"tasks": tasks, "gain": 20.0}
    expected = step.velocities(robot, q, target=targets, **options)
    wide = [one.reshape(2, 3, *one.shape[1:]) for one in targets]
    found = step.velocities(robot, q.reshape(2, 3, -1), target=wide, **options)
    assert (found == expected.reshape(2, 3, -1)).all()
    out = np.empty_like(expected)
    assert step.velocities(robot, q, target=targets, out=out, threads=2, **options) is out
    assert (out == expected).all()
    single = step.velocities(robot, q.astype("f4"), target=targets, **options)
    assert single.dtype == np.float32
    one = step.velocities(robot, q[0], target=[each[0] for each in targets], **options)
    np.testing.assert_allclose(one, expected[0], rtol=1e-9, atol=1e-12)
    shared = [None, *(each[0] for each in targets[1:])]
    repeated = [None, *(np.repeat(each[:1], 6, axis=0) for each in targets[1:])]
    np.testing.assert_array_equal(
        step.velocities(robot, q, target=shared, **options),
        step.velocities(robot, q, target=repeated, **options),
    )


def test_steps_of_a_batch_toward_targets_keep_acceleration_limits() -> None:
    robot, tasks, q, targets, rng = drawn_batch(seeds(1)[0], 0.3, count=20)
    limits = sp.Limits.for_robot(robot, max_acceleration=50.0)
    qd = 0.1 * rng.normal(size=(20, robot.nv))
    options: dict[str, Any] = {"tasks": tasks, "target": targets, "limits": limits, "dt": DT}
    found = sp.DLS(Constant(1e-6)).velocities(robot, q, qd=qd, **options)
    low, high = limits.boxes(q, qd, DT) if robot.nq == robot.nv else (found, found)
    slack = 1e-9 * (1 + np.abs(found))
    assert (low - slack <= found).all()
    assert (found <= high + slack).all()
    brakes = np.abs(found[:, 6:] - qd[:, 6:]) <= 50.0 * DT * (1 + 1e-9)
    inside = (np.abs(q[:, 7:] - robot.lower[6:]) > 1e-2) & (
        np.abs(q[:, 7:] - robot.upper[6:]) > 1e-2
    )
    assert brakes[inside].all()
    with pytest.raises(InputError, match="acceleration limits need qd"):
        sp.DLS(Constant(1e-6)).velocities(robot, q, **options)


def test_unsupported_steps_toward_targets_are_refused_with_the_reason() -> None:
    robot, tasks, q, targets, _ = drawn_batch(seeds(1)[0], 0.1, count=3)
    step = sp.DLS(Constant(1e-6))
    options: dict[str, Any] = {"tasks": tasks, "target": targets}
    with pytest.raises(InputError, match="a velocity or a target; given: neither"):
        step.velocities(robot, q, tasks=tasks)
    with pytest.raises(InputError, match="a velocity or a target; given: both"):
        step.velocities(robot, q, targets, **options)
    with pytest.raises(InputError, match="DLS with Constant damping; given: Pseudoinverse"):
        sp.steps.Pseudoinverse().velocities(robot, q, **options)
    bounds = sp.Limits.for_robot(robot, max_norm=1.0)
    with pytest.raises(InputError, match="mode='exact' and no max_norm"):
        step.velocities(robot, q, **options, limits=bounds, dt=DT)
    with pytest.raises(InputError, match="limits need dt"):
        step.velocities(robot, q, **options, limits=sp.Limits.for_robot(robot))
    with pytest.raises(InputError, match="gain is for targets"):
        step.velocities(robot, q, np.zeros(6), robot.tips[0], gain=1.0)
    relative = sp.PoseTask(robot.tips[0], base=robot.tips[1])
    with pytest.raises(InputError, match="relative to a base"):
        step.velocities(robot, q, tasks=relative, target=targets[0])
    ranged = sp.PoseTask(robot.tips[0], tolerance={"x": 0.1})
    with pytest.raises(InputError, match="with an allowed range"):
        step.velocities(robot, q, tasks=ranged, target=targets[0])
    with pytest.raises(InputError, match="explain is for velocities"):
        step.velocities(robot, q, **options, explain=True)
    bad = q.copy()
    bad[1, 3:7] = np.nan
    with pytest.raises(InputError, match=r"must be finite.*given: q\[1\] = "):
        step.velocities(robot, bad, **options)
