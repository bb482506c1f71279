"""Any value of any argument is accepted, or rejected by an error of supple."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import supple as sp
from cases import each
from supple import criteria, damping

PANDA = sp.load("panda")
Q = PANDA.neutral()
T = PANDA.fk(Q + 0.1)
J = PANDA.jacobian(Q)
TWIST = np.linspace(0.1, 0.2, 6)
RULE = damping.Constant(0.1)
DLS = sp.DLS(RULE)
LINEAR = sp.Linearization(J, TWIST, q=Q)
LIMITS = sp.Limits.for_robot(PANDA, max_acceleration=5.0)
TABLE = np.array([[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8]])
PATH = np.array([T, T, T])
WITH_POSTURE = [sp.PoseTask(), sp.PostureTask()]
LOW, HIGH, FAST = PANDA.lower, PANDA.upper, PANDA.max_speed
SHORT = {"dt": 0.01, "duration": 0.02}
Call = Callable[[Any], object]


class Unsized:
    """A sequence whose length raises an error."""

    def __len__(self) -> int:
        raise ValueError("no length")

    def __getitem__(self, i: int) -> float:
        raise IndexError


class Unconvertible:
    """An object whose conversion to an array and whose repr raise errors."""

    def __array__(self, *args: object, **kwargs: object) -> np.ndarray:
        raise RuntimeError("requires grad")

    def __repr__(self) -> str:
        raise RuntimeError("no words")


def with_task(kind: Any, **fields: object) -> object:
    """Create a task and apply it to a Panda, which looks up the names of frames in the task."""
    return kind(**fields).on(PANDA)


# Array arguments: a call that takes the argument, and a valid array.
ARRAYS: dict[str, tuple[Call, np.ndarray]] = {
    "Robot base": (lambda x: sp.Robot(PANDA.description, base=x), T),
    "with_base": (PANDA.with_base, T),
    "with_tool": (PANDA.with_tool, T),
    "with_frame": (lambda x: PANDA.with_frame("extra", "panda_hand", x), T),
    "fk q": (PANDA.fk, Q),
    "jacobian q": (PANDA.jacobian, Q),
    "bias_acceleration qd": (lambda x: PANDA.bias_acceleration(Q, x), Q),
    "singular_values q": (PANDA.singular_values, Q),
    "pose position": (sp.pose, T[:3, 3]),
    "pose rotation": (lambda x: sp.pose(rotation=x), T[:3, :3]),
    "pose wxyz": (lambda x: sp.pose(wxyz=x), np.ones(4)),
    "pose xyzw": (lambda x: sp.pose(xyzw=x), np.ones(4)),
    "pose rpy": (lambda x: sp.pose(rpy=x), np.ones(3)),
    "pose rotation_vector": (lambda x: sp.pose(rotation_vector=x), np.ones(3)),
    "orthonormalize": (sp.poses.orthonormalize, T),
    "correction": (sp.poses.correction, T),
    "poses wxyz": (sp.poses.wxyz, T),
    "poses rpy": (sp.poses.rpy, T[:3, :3]),
    "interpolate end": (lambda x: sp.poses.interpolate(T, x, 0.5), T),
    "interpolate times": (lambda x: sp.poses.interpolate(T, T, x), np.linspace(0, 1, 7)),
    "dh table": (sp.dh, TABLE),
    "dh limits": (lambda x: sp.dh(TABLE, limits=x), np.array([[-1.0, 1.0], [-2.0, 2.0]])),
    "dh max_speed": (lambda x: sp.dh(TABLE, max_speed=x), np.ones(2)),
    "dh base": (lambda x: sp.dh(TABLE, base=x), T),
    "dh tool": (lambda x: sp.dh(TABLE, tool=x), T),
    "alternate_jacobian q": (lambda x: sp.steps.alternate_jacobian(PANDA, x, None, T[:3, 3]), Q),
    "alternate_jacobian target": (
        lambda x: sp.steps.alternate_jacobian(PANDA, Q, None, x), T[:3, 3],
    ),
    "solve pose": (lambda x: sp.solve(PANDA, x), T),
    "solve batch": (lambda x: sp.Solver(PANDA).batch(x), PATH),
    "solve position": (lambda x: sp.solve(PANDA, x, tasks=sp.PositionTask()), T[:3, 3]),
    "solve orientation": (lambda x: sp.solve(PANDA, x, tasks=sp.OrientationTask()), T[:3, :3]),
    "solve axis": (lambda x: sp.solve(PANDA, x, tasks=sp.AxisTask()), T[:3, 2]),
    "solve posture": (lambda x: sp.solve(PANDA, [T, x], tasks=WITH_POSTURE), Q),
    "solve targets": (lambda x: sp.solve(PANDA, [x], tasks=[sp.PoseTask()]), T),
    "solve q0": (lambda x: sp.solve(PANDA, T, q0=x), Q),
    "solve batch q0": (lambda x: sp.Solver(PANDA).batch(PATH, q0=x), np.array([Q, Q, Q])),
    "linearize q": (lambda x: sp.linearize(PANDA, sp.PoseTask(), x, T), Q),
    "linearize targets": (lambda x: sp.linearize(PANDA, sp.PoseTask(), Q, x), T),
    "task q": (lambda x: sp.PoseTask().linearize(PANDA, x, T), Q),
    "task target": (lambda x: sp.PoseTask().linearize(PANDA, Q, x), T),
    "task velocity": (lambda x: sp.PoseTask().linearize(PANDA, Q, velocity=x), TWIST),
    "task weight": (lambda x: with_task(sp.PoseTask, weight=x), np.ones(6)),
    "AxisTask axis": (lambda x: with_task(sp.AxisTask, axis=x), T[:3, 2]),
    "PostureTask weights": (lambda x: with_task(sp.PostureTask, weight=x), np.ones(7)),
    "batch J": (lambda x: DLS(sp.Linearization(x, TWIST[None])), J[None]),
    "batch e": (lambda x: DLS(sp.Linearization(J[None], x)), TWIST[None]),
    "velocities q": (lambda x: DLS.velocities(PANDA, x, TWIST), Q),
    "velocities twist": (lambda x: DLS.velocities(PANDA, Q, x), TWIST),
    "velocities qd": (lambda x: DLS.velocities(PANDA, Q, TWIST, limits=LIMITS, dt=0.01, qd=x), Q),
    "simulate q0": (lambda x: sp.simulate(PANDA, x, target=T, dt=0.01, duration=0.02), Q),
    "simulate qd0": (lambda x: sp.simulate(PANDA, Q, target=T, qd0=x, **SHORT), 0 * Q),
    "simulate constant target": (lambda x: sp.simulate(PANDA, Q, target=x, **SHORT), T),
    "simulate targets": (lambda x: sp.simulate(PANDA, Q, target=x, dt=0.01), PATH),
    "simulate constant velocity": (lambda x: sp.simulate(PANDA, Q, velocity=x, **SHORT), TWIST),
    "simulate times": (lambda x: sp.simulate(PANDA, Q, target=T, times=x), np.arange(3) / 10),
    "Servo q": (lambda x: sp.Servo(PANDA, dt=0.01)(x, TWIST), Q),
    "Servo velocity": (lambda x: sp.Servo(PANDA, dt=0.01)(Q, x), TWIST),
    "Servo target": (lambda x: sp.Servo(PANDA, dt=0.01)(Q, target=x), T),
    "Servo acceleration": (lambda x: sp.Servo(PANDA, dt=0.01, order=2)(Q, None, T, x), TWIST),
    "Servo reset": (lambda x: sp.Servo(PANDA, dt=0.01).reset(x), Q),
    "Limits lower": (lambda x: sp.Limits(x, HIGH, FAST, FAST), LOW),
    "Limits max_speed": (lambda x: sp.Limits(LOW, HIGH, x, FAST), FAST),
    "Limits.for_robot acceleration": (
        lambda x: sp.Limits.for_robot(PANDA, max_acceleration=x), FAST,
    ),
    "Limits.box q": (lambda x: LIMITS.box(x, 0 * Q, 0.01), Q),
    "Limits.box qd": (lambda x: LIMITS.box(Q, x, 0.01), 0 * Q),
    "Limits.applied dq": (lambda x: LIMITS.applied(x, J, 0.1, -1 - 0 * Q, 1 + 0 * Q), Q),
    "Limits.applied J": (lambda x: LIMITS.applied(Q, x, 0.1, -1 - 0 * Q, 1 + 0 * Q), J),
    "Limits.applied low": (lambda x: LIMITS.applied(Q, J, 0.1, x, 9 + 0 * Q), 0 * Q),
    "Linearization J": (lambda x: sp.Linearization(x, TWIST), J),
    "Linearization e": (lambda x: sp.Linearization(J, x), TWIST),
    "Linearization q": (lambda x: sp.Linearization(J, TWIST, q=x), Q),
    "explain null": (lambda x: sp.explain(LINEAR, null=x), Q),
    "leak null": (lambda x: sp.redundancy.null_space_leakage(LINEAR, x), Q),
    "Augmented weight": (lambda x: sp.redundancy.Augmented(RULE, [x]), np.ones(6)),
    "WeightedDLS task": (lambda x: sp.steps.WeightedDLS(RULE, task_weight=x), np.ones(6)),
    "WeightedDLS joint": (lambda x: sp.steps.WeightedDLS(RULE, joint_weight=x), np.ones(7)),
    "WeightedCriterion A": (
        lambda x: sp.redundancy.WeightedCriterion(0.1, 0.1, criteria.RestPosture(Q), A=x),
        np.eye(7),
    ),
    "SingularDirection u": (sp.steps.SingularDirection, TWIST),
    "Region direction": (lambda x: damping.Region(0.04, 0.3, direction=x), TWIST),
    "RestPosture q_rest": (criteria.RestPosture, Q),
    "RestPosture weight": (lambda x: criteria.RestPosture(Q, x), 1 + 0 * Q),
    "RestPosture q": (criteria.RestPosture(Q), Q),
    "LimitDistance lower": (lambda x: criteria.LimitDistance(x, HIGH), LOW),
    "LimitDistance q": (criteria.LimitDistance(PANDA.lower, PANDA.upper), Q),
    "Manipulability q": (criteria.Manipulability(PANDA), Q),
    "Clearance q": (criteria.Clearance(PANDA, sp.World(), 0.1), Q),
}  # fmt: skip


def kwarg(function: Call, *args: object, name: str, **more: object) -> Call:
    return lambda x: function(*args, **{**more, name: x})


# Arguments that are not arrays (numbers, names, tasks, steps, objects): a call that takes one.
OTHERS: dict[str, Call] = {
    "load": sp.load,
    "urdf": sp.urdf,
    "mjcf": sp.mjcf,
    "urdf fixed": lambda x: sp.urdf("<robot/>", fixed=x),
    "Robot": sp.Robot,
    "freeze": PANDA.freeze,
    "fk frame": lambda x: PANDA.fk(Q, x),
    "jacobian axes": lambda x: PANDA.jacobian(Q, axes=x),
    "singular_values rows": lambda x: PANDA.singular_values(Q, rows=x),
    "fk threads": lambda x: PANDA.fk(Q, threads=x),
    "with_frame name": lambda x: PANDA.with_frame(x, "panda_hand", T),
    "with_frame parent": lambda x: PANDA.with_frame("extra", x, T),
    "with_tool parent": lambda x: PANDA.with_tool(T, parent=x),
    "with_tips": PANDA.with_tips,
    "full_q": PANDA.freeze("panda_joint1").full_q,
    "reduced_q": PANDA.freeze("panda_joint1").reduced_q,
    "load tips": lambda x: sp.load("panda", tips=x),
    "urdf tips": lambda x: sp.urdf("<robot/>", tips=x),
    "dh tips": lambda x: sp.dh(TABLE, tips=x),
    **{
        f"with_limits {name}": kwarg(PANDA.with_limits, name=name)
        for name in ("lower", "upper", "max_speed", "margin")
    },
    "random count": PANDA.random,
    "random seed": lambda x: PANDA.random(seed=x),
    "pose tolerance": lambda x: sp.pose(tolerance=x),
    "dh convention": lambda x: sp.dh(TABLE, convention=x),
    "dh kinds": lambda x: sp.dh(TABLE, kinds=x),
    "dh joint_names": lambda x: sp.dh(TABLE, joint_names=x),
    "dh name": lambda x: sp.dh(TABLE, name=x),
    "solve robot": lambda x: sp.solve(x, T),
    **{
        f"solve {name}": kwarg(sp.solve, PANDA, T, name=name)
        for name in ("tasks", "prefer", "position_tolerance", "rotation_tolerance")
    },
    "Solver robot": lambda x: sp.Solver(x)(T),
    **{
        f"Solver {name}": lambda x, name=name: sp.Solver(PANDA, **{name: x})(T)
        for name in ("damping", "max_step", "max_seeds", "threads", "device", "precision")
    },
    "Solver timeout": lambda x: sp.Solver(PANDA, timeout=x)(T),
    "several count": lambda x: sp.Solver(PANDA).several(T, x),
    **{
        f"batch {name}": kwarg(sp.Solver(PANDA).batch, PATH, name=name)
        for name in ("progress", "stream")
    },
    "linearize robot": lambda x: sp.linearize(x, sp.PoseTask(), Q, T),
    "linearize tasks": lambda x: sp.linearize(PANDA, x, Q, T),
    "linearize threads": lambda x: sp.linearize(PANDA, sp.PoseTask(), Q, T, threads=x),
    "task robot": lambda x: sp.PoseTask().linearize(x, Q, T),
    **{
        f"{kind.__name__} {name}": kwarg(with_task, kind, name=name)
        for kind, names in {
            sp.PoseTask: ("frame", "rows", "weight", "axes", "base", "length"),
            sp.PositionTask: ("frame", "rows", "length"),
            sp.OrientationTask: ("frame", "rows"),
            sp.AxisTask: ("frame", "weight", "base"),
            sp.PostureTask: ("joints", "weight"),
        }.items()
        for name in names
    },
    "velocities robot": lambda x: DLS.velocities(x, Q, TWIST),
    **{
        f"velocities {name}": kwarg(DLS.velocities, PANDA, Q, TWIST, name=name)
        for name in ("tasks", "limits", "dt", "threads", "device", "stream", "out")
    },
    "velocities dt of limits": lambda x: DLS.velocities(
        PANDA, Q, TWIST, limits=LIMITS, qd=Q, dt=x
    ),
    "simulate robot": lambda x: sp.simulate(x, Q, target=T, dt=0.01, duration=0.02),
    **{
        f"simulate {name}": kwarg(sp.simulate, PANDA, Q, target=T, **SHORT, name=name)
        for name in ("target", "velocity", "tasks", "step", "limits", "gain", "order",
                     "rate_gain", "rest_gain", "duration", "dt")
    },
    "simulate targets alone": lambda x: sp.simulate(PANDA, Q, target=x, dt=0.01),
    "simulate short steps": lambda x: sp.simulate(PANDA, Q, target=T, dt=1e-300, duration=x),
    "Servo robot": lambda x: sp.Servo(x, dt=0.01),
    **{
        f"Servo {name}": kwarg(sp.Servo, PANDA, dt=0.01, name=name)
        for name in ("tasks", "dt", "step", "limits", "gain", "order", "rate_gain", "rest_gain")
    },
    "Limits max_norm": lambda x: sp.Limits.for_robot(PANDA, max_norm=x),
    "Limits speed": lambda x: sp.Limits.for_robot(PANDA, speed_factor=x),
    "Limits mode": lambda x: sp.Limits.for_robot(PANDA, mode=x),
    "Limits robot": lambda x: sp.Limits.for_robot(x),
    "Limits none": lambda x: sp.Limits.none(x),
    "Limits dt": lambda x: LIMITS.box(Q, 0 * Q, x),
    "Linearization rows": lambda x: sp.Linearization(J, TWIST, rows=x),
    "Linearization before": lambda x: sp.Linearization(J, TWIST, before=x),
    "explain": sp.explain,
    "explain step": lambda x: sp.explain(LINEAR, x),
    "leak": lambda x: sp.redundancy.null_space_leakage(x, Q),
    "DLS": sp.DLS,
    "DLS method": lambda x: sp.DLS(RULE, method=x),
    "TruncatedSVD": sp.steps.TruncatedSVD,
    "SDLS": sp.steps.SDLS,
    "ErrorClamp": lambda x: sp.steps.ErrorClamp(DLS, x),
    "ErrorClamp step": lambda x: sp.steps.ErrorClamp(x, 0.1),
    "AngleClamp": lambda x: sp.steps.AngleClamp(DLS, x),
    "NullSpace step": lambda x: sp.redundancy.NullSpace(x, criteria.RestPosture(Q)),
    "NullSpace criterion": lambda x: sp.redundancy.NullSpace(DLS, x),
    "NullSpace gain": lambda x: sp.redundancy.NullSpace(DLS, criteria.RestPosture(Q), x),
    "Priority": sp.redundancy.Priority,
    "StatefulStep": sp.steps.StatefulStep,
    "NumericalFilter": sp.steps.NumericalFilter,
    "SingularDirection sigma": lambda x: sp.steps.SingularDirection(TWIST, x),
    "Augmented weights": lambda x: sp.redundancy.Augmented(RULE, x),
    "Clearance robot": lambda x: criteria.Clearance(x, sp.World(), 0.1),
    "Clearance world": lambda x: criteria.Clearance(PANDA, x, 0.1),
    "Manipulability robot": criteria.Manipulability,
    "Manipulability frame": lambda x: criteria.Manipulability(PANDA, x),
    **{
        f"{rule.__name__}": rule
        for rule in (damping.Constant, damping.ConditionBound, damping.Curvature,
                     damping.ErrorDamped, damping.ErrorNorm, damping.Optimal, damping.SpeedBound,
                     damping.TrackingBound)
    },
}  # fmt: skip

VALUES: dict[str, Callable[[], object]] = {
    "None": lambda: None,
    "True": lambda: True,
    "text": lambda: "panda_hand",
    "empty text": lambda: "",
    "bytes": lambda: b"panda",
    "an object": object,
    "a type": lambda: dict,
    "a function": lambda: lambda *args: None,
    "a dictionary": lambda: {"a": 1},
    "a set": lambda: {1, 2},
    "a list": lambda: [1, 2, 3],
    "names": lambda: ["panda_hand"],
    "ragged": lambda: [[1, 2], [3]],
    "an empty list": list,
    "a generator": lambda: (x for x in range(3)),
    "a range": lambda: range(7),
    "unsized": Unsized,
    "unconvertible": Unconvertible,
    "memory": lambda: memoryview(bytearray(3)),
    "a complex number": lambda: 1j,
    "a fraction": lambda: Fraction(1, 3),
    "a decimal": lambda: Decimal("0.5"),
    "zero": lambda: 0,
    "minus one": lambda: -1,
    "NaN": lambda: np.nan,
    "infinity": lambda: np.inf,
    "huge": lambda: 1e308,
    "minus huge": lambda: -1e308,
    "denormal": lambda: 5e-324,
    "a huge whole number": lambda: 10**400,
    "a 0-d array": lambda: np.array(1.0),
    "a 0-d NaN": lambda: np.array(np.nan),
    "a 0-d object": lambda: np.array(None),
    "zeros (3,)": lambda: np.zeros(3),
    "zeros (0,)": lambda: np.zeros(0),
    "zeros (1, 0)": lambda: np.zeros((1, 0)),
    "NaN (7, 7)": lambda: np.full((7, 7), np.nan),
    "huge (4, 4)": lambda: np.full((4, 4), 1e308),
    "denormal (4, 4)": lambda: np.full((4, 4), 5e-324),
    "(10, 3, 4)": lambda: np.zeros((10, 3, 4)),
    "(10, 2, 4, 3)": lambda: np.zeros((10, 2, 4, 3)),
    "many axes (7)": lambda: np.zeros((1,) * 40 + (7,)),
    "many axes (4, 4)": lambda: np.zeros((1,) * 40 + (4, 4)),
    "float128 (7,)": lambda: np.full(7, np.finfo(np.longdouble).max, np.longdouble),
    "objects (7,)": lambda: np.array([1.0] * 6 + ["x"], object),
    "complex (7,)": lambda: np.ones(7) * 1j,
    "dates (7,)": lambda: np.zeros(7, "M8[s]"),
    "records (7,)": lambda: np.zeros(7, [("a", float)]),
    "masked": lambda: np.ma.masked,
}


# Arguments that are functions of the user; an error that such a function raises propagates.
CALLED = ("simulate constant target", "simulate constant velocity", "simulate targets",
          "simulate target", "simulate velocity", "simulate targets alone", "simulate step",
          "explain step",
          "solve prefer", "batch progress")  # fmt: skip


def refused(call: Call, given: object) -> sp.errors.SuppleError | None:
    """Return the error of supple that a call raises, or None; other exceptions propagate."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            call(given)
        except sp.errors.SuppleError as error:
            return error
    return None


def test_no_argument_is_listed_in_both_arrays_and_others() -> None:
    assert not ARRAYS.keys() & OTHERS.keys()


@each("argument", [*ARRAYS, *OTHERS])
def test_any_value_of_an_argument_is_accepted_or_gets_an_error_of_supple(argument: str) -> None:
    call = ARRAYS[argument][0] if argument in ARRAYS else OTHERS[argument]
    wrong = {}
    for name, value in VALUES.items():
        if argument in CALLED and callable(value()):
            continue
        try:
            error = refused(call, value())
        except Exception as other:
            wrong[name] = f"{type(other).__name__}: {other}"
            continue
        if error is not None and len(str(error)) < 20:
            wrong[name] = f"says too little: {error}"
    assert not wrong


def ragged(good: np.ndarray) -> list[Any]:
    """Return the numbers as nested lists, one number replaced by a list."""
    numbers: list[Any] = good.tolist()
    row = numbers
    while isinstance(row[0], list):
        row = row[0]
    row[0] = [row[0], row[0]]
    return numbers


def masked(good: np.ndarray) -> np.ma.MaskedArray:
    made = np.ma.array(good, mask=False)
    made[(0,) * good.ndim] = np.ma.masked
    return made


SPOILT: dict[str, Callable[[np.ndarray], object]] = {
    "masked": masked,
    "a list of masked arrays": lambda good: [masked(good)] if good.ndim == 1 else [*masked(good)],
    "complex": lambda good: good + 0j,
    "objects": lambda good: good.astype(object),
    "texts": lambda good: good.astype(str),
    "truths": lambda good: good.astype(bool),
    "ragged": ragged,
    "NaN": lambda good: np.full_like(good, np.nan),
}


@each("argument", ARRAYS)
def test_valid_arrays_lists_and_masked_arrays_are_accepted(argument: str) -> None:
    call, good = ARRAYS[argument]
    assert refused(call, good) is None
    assert refused(call, good.tolist()) is None
    assert refused(call, np.ma.array(good)) is None, "nothing is masked"


@each("spoilt", SPOILT)
@each("argument", ARRAYS)
def test_arrays_with_invalid_numbers_are_refused(argument: str, spoilt: str) -> None:
    call, good = ARRAYS[argument]
    given = SPOILT[spoilt](good)
    if spoilt == "NaN" and argument in ("solve batch", "solve batch q0"):
        assert (call(given).status == sp.SolveStatus.NONFINITE_INPUT).all()
        return
    assert refused(call, given) is not None


@each("shape", [(3, 4), (2, 4, 3), (4,), (3,)])
def test_the_error_about_misshaped_targets_names_the_right_shape(shape: tuple[int, ...]) -> None:
    with pytest.raises(
        sp.errors.InputError, match=r"shape \(\.\.\., 4, 4\); given: an array of shape"
    ):
        sp.Solver(PANDA).batch(np.zeros((10, *shape)))


@each("huge", [1e13, 1e308, np.finfo(np.float64).max])
def test_joint_limits_of_1e13_and_more_become_infinite(huge: float) -> None:
    robot = sp.dh(TABLE, limits=[[-huge, huge], [-1.0, 1.0]])
    assert np.array_equal(robot.lower, [-np.inf, -1.0])
    assert np.array_equal(robot.upper, [np.inf, 1.0])
    assert sp.solve(robot, robot.fk([0.1, 0.2])).success
