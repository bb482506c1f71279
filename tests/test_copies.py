"""Every public object and error can be copied, and pickled for this or another process."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from inspect import isclass
from typing import Any

import numpy as np
import pytest

import supple as sp
from cases import each
from supple import collision, criteria, damping, errors, redundancy, steps, tasks
from supple.damping.scale import Scale
from supple.gpu.runtime import DeviceInfo

PANDA = sp.load("panda")
Q = PANDA.neutral()
T = PANDA.fk(Q + 0.1)
J = PANDA.jacobian(Q)
RULE = damping.Constant(0.1)
LINEAR = sp.Linearization(J, np.ones(6), before=sp.Linearization(J, np.ones(6)), q=Q)
DLS = sp.DLS(RULE)
REST = criteria.RestPosture(Q)
BOX = collision.Box((0.1, 0.2, 0.3), (0.0, 0.0, 1.0))

# Instances of each public class; several if the fields of a class may have different types.
EXAMPLES: tuple[object, ...] = (
    DLS,
    sp.DLS(damping.Optimal(0.5), method="svd"),
    sp.steps.SDLS(),
    sp.steps.AdaptiveErrorClamp(DLS),
    sp.redundancy.Augmented(RULE, [1.0, np.arange(1.0, 4.0)]),
    sp.AxisTask("panda_hand", (0, 1, 0)),
    sp.tasks.PointsRows.of(PANDA, {"panda_hand": 0.5, "panda_link4": 0.5}),
    sp.tasks.CenterOfMassTask(("x", "y"), weight=2.0),
    sp.redundancy.SupportPolygon([(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)], margin=0.1),
    sp.poses.PoseFilter(lag=0.02),
    sp.steps.AngleClamp(DLS, 0.1),
    sp.steps.ErrorClamp(DLS, 0.1),
    PANDA.description,
    sp.errors.DescriptionError("a file"),
    sp.errors.DeviceError("a GPU"),
    DeviceInfo("cuda:0", "H200", "sm_90", 2**37),
    sp.redundancy.GradientProjection(RULE, REST),
    sp.errors.InputError("a number"),
    sp.steps.SingularDirection(np.eye(6)[0], 0.5),
    sp.steps.SingularSubspace.exact(LINEAR, 3),
    sp.steps.ExtremeValues.exact(LINEAR),
    sp.steps.Estimates(0.1, 0.2, 0.3, 0.4, 0.5),
    sp.steps.EstimatedDLS(damping.SpeedBound(3.0)),
    sp.Limits.for_robot(PANDA, max_acceleration=5.0, max_norm=2.0),
    sp.Linearization(J, np.ones(6)),
    LINEAR,
    sp.errors.MissingExtraError("papers", "drawing figures"),
    sp.redundancy.NullSpace(DLS, REST),
    sp.steps.NumericalFilter(10.0),
    sp.OrientationTask(rows=("rx", "rz"), weight=(1.0, 2.0)),
    sp.PoseTask("panda_hand", axes="body", length=0.5),
    sp.PositionTask(),
    sp.PostureTask(("panda_joint1",)),
    sp.tasks.OpenTask(np.sin, rows=7, unit="rad"),
    sp.PoseTask("panda_hand", about="x").on(PANDA),
    sp.redundancy.Priority((DLS, sp.steps.Pseudoinverse())),
    sp.steps.Pseudoinverse(),
    sp.steps.StatefulStep(sp.steps.AdaptiveErrorClamp(DLS)),
    sp.explain(LINEAR, DLS),
    PANDA,
    PANDA.freeze(["panda_joint1"]),
    sp.solve(PANDA, T),
    sp.Solver(PANDA),
    sp.Solver(PANDA, sp.PositionTask(), damping=RULE, max_move=0.5),
    sp.Solver(PANDA).several(T, 3),
    sp.Solver(PANDA).all(np.array([T, T])),
    sp.Solver(PANDA).batch(np.array([T, T])),
    sp.steps.SphericalWrist(RULE, RULE),
    sp.SolveStatus.CONVERGED,
    sp.StepStatus.DAMPED,
    sp.solve(PANDA, T, explain=True).report,
    sp.errors.SuppleError("something"),
    sp.redundancy.TotalSpeed(1.0, REST),
    sp.simulate(PANDA, Q, target=T, dt=0.01, duration=0.03),
    sp.steps.Transpose(),
    sp.steps.TruncatedSVD(0.1),
    sp.errors.UnknownNameError("a name"),
    sp.redundancy.WeightedCriterion(0.1, 0.1, REST),
    sp.steps.WeightedDLS(RULE, np.ones(6), np.arange(1.0, 8.0)),
    sp.steps.Yielding(),
    DLS.velocities(PANDA, Q, np.ones(6), explain=True),
    damping.ConditionBound(1.5),
    RULE,
    damping.Curvature(0.5),
    damping.ErrorDamped(2.0),
    damping.ErrorNorm(0.3),
    damping.Manipulability(0.04, 0.3),
    damping.ManipulabilityRate(0.04, 0.99, 0.01, 0.1),
    damping.MayorgaCondition(0.01, 100.0, 0.04),
    damping.MayorgaRank(0.01, 0.04),
    damping.Optimal(0.5),
    damping.Region(0.04, 0.3, direction=(1, 0, 0, 0, 0, 0), min_weight=0.5),
    damping.SpeedBound(0.7),
    damping.ResidualOptimal(0.1),
    damping.trade_off(LINEAR, [0.1, 0.2]),
    damping.newton_iterates(LINEAR, 0.5),
    damping.VaryingWeights(1e-4, 0.1),
    damping.AugmentedWeights((1.0, 0.1), 0.01),
    damping.TrackingBound(0.5),
    Scale.for_robot(PANDA),
    sp.Linearization(np.ones((4, 6, 7)), np.ones((4, 6)), q=np.ones((4, 7))),
    BOX,
    collision.Sphere(0.1, (0.0, 0.0, 1.0)),
    collision.Capsule(0.1, 0.2),
    collision.Cylinder(0.1, 0.2),
    collision.HalfSpace(),
    collision.ConvexHull(np.eye(3), 0.1),
    collision.Mesh("a.stl", (1.0, 2.0, 3.0)),
    collision.SphereCover((collision.Sphere(0.1),), 0.01),
    collision.Certificate(0.01, 0.005, (0.0, 1.0), ("a", "b")),
    collision.Contact(0.1, "a", "b", np.zeros((2, 3)), np.zeros(3)),
    collision.UncheckedPair("a", "b", "never"),
    collision.ClosePair("a", "b", 0.005, "neutral"),
    sp.World({"box": BOX}, attached={"panda_hand": [BOX]}, speeds={"box": 0.1}),
    criteria.Clearance(PANDA, sp.World({"ball": BOX}, attached={"panda_hand": [BOX]}), 0.1),
    criteria.GravityTorque(PANDA.with_inertia("panda_hand", 1.0), np.ones(7)),
    criteria.LimitDistance(PANDA.lower, PANDA.upper),
    criteria.Manipulability(PANDA),
    REST,
    redundancy.self_motion(PANDA, [0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8], step=0.5),
)

# Abstract classes, which have no instances. ELSEWHERE: tests/control/test_servo_copies.py.
ABSTRACT = {
    criteria.Criterion,
    damping.DampingRule,
    redundancy.Constraint,
    steps.Step,
    steps.StepWithMemory,
    tasks.Task,
}
MODULES = (sp, collision, criteria, damping, errors, redundancy, steps, tasks)
ELSEWHERE = {sp.Servo}


def public_classes() -> set[type]:
    found = [getattr(module, name) for module in MODULES for name in module.__all__]
    return {
        each
        for each in found
        if isclass(each) and each.__module__.startswith("supple") and each not in ABSTRACT
    }


def test_every_public_class_has_an_example_in_this_file() -> None:
    here = {type(each) for each in EXAMPLES} | ELSEWHERE
    assert public_classes() <= here


def same(one: Any, other: Any) -> bool:
    """Return whether two objects have equal contents, and their arrays equal writable flags."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        writable = one.flags.writeable == other.flags.writeable
        return writable and one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, BaseException):
        return same(one.args, other.args) and same(vars(one), vars(other))
    if isinstance(one, sp.World | sp.poses.PoseFilter):
        return same(vars(one), vars(other))
    if isinstance(one, sp.Solver):
        return same(one.robot, other.robot) and repr(one) == repr(other)
    if isinstance(one, sp.Robot):
        return same(one.description, other.description) and same(one.base, other.base)
    if is_dataclass(one):
        return all(same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    if isinstance(one, sp.steps.StatefulStep):
        return same(one.inner, other.inner) and same(one.memory, other.memory)
    return bool(one == other)


WAYS: dict[str, Callable[[Any], Any]] = {
    **{
        f"pickle {protocol}": lambda x, p=protocol: pickle.loads(pickle.dumps(x, protocol=p))
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
    },
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@each("way", WAYS)
@each("one", EXAMPLES, ids=lambda one: type(one).__name__)
def test_a_copy_of_every_public_object_equals_the_original(one: object, way: str) -> None:
    other = WAYS[way](one)
    assert same(one, other)
    if isinstance(one, BaseException) or type(one).__str__ is not object.__str__:
        assert str(one) == str(other)


def test_the_memory_of_a_stateful_step_survives_pickling() -> None:
    step = sp.steps.StatefulStep(sp.steps.AdaptiveErrorClamp(DLS))
    step(LINEAR)
    other = pickle.loads(pickle.dumps(step))
    assert np.array_equal(step(LINEAR), other(LINEAR))


@each(("module", "name"), [(module, name) for module in MODULES for name in module.__all__])
def test_public_names_are_pickled_by_name(module: Any, name: str) -> None:
    public = getattr(module, name)
    if callable(public):
        assert pickle.loads(pickle.dumps(public)) is public
        assert copy.deepcopy(public) is public


ERRORS = tuple(each for each in EXAMPLES if isinstance(each, sp.errors.SuppleError))


def fail(which: int) -> None:
    raise ERRORS[which]


def test_errors_keep_their_contents_when_another_process_raises_them() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for i, error in enumerate(ERRORS):
            with pytest.raises(type(error), match=re.escape(str(error))) as raised:
                pool.apply_async(fail, (i,)).get(timeout=60)
            assert type(raised.value) is type(error)
            assert str(raised.value) == str(error)
