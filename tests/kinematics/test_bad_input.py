"""Errors for invalid input state what was given, what was expected and what is available."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import numpy as np
import pytest

import supple
from calls import calls
from cases import each
from sizes import nightly
from supple.describe import Description, Joint, Mimic

PANDA = supple.load("panda")
Q = PANDA.neutral()
CALLS = calls(PANDA)


class Hostile:
    """An object that NumPy cannot convert to numbers."""

    def __repr__(self) -> str:
        return "Hostile"


# Name -> an invalid value of q and the words that its error must contain.
NOT_COORDINATES = {
    "too short": (np.zeros(6), r"shape \(6,\)"),
    "too long": (np.zeros((3, 8)), r"shape \(3, 8\)"),
    "transposed": (np.zeros((7, 3)), r"shape \(7, 3\)"),
    "a number": (0.5, r"shape \(\)"),
    "an empty list": ([], r"shape \(0,\)"),
    "an empty array": (np.zeros((7, 0)), r"shape \(7, 0\)"),
    "ragged": ([[0.0] * 7, [0.0] * 6], "inhomogeneous"),
    "complex": (np.zeros(7, complex), "complex128"),
    "complex list": ([1j] * 7, "complex128"),
    "text": ("0 0 0 0 0 0 0", "<U13"),
    "texts": (["0"] * 7, "<U1"),
    "bytes": (b"0000000", r"\|S7"),
    "truths": (np.zeros(7, bool), "bool"),
    "objects": (np.zeros(7, object), "object"),
    "fractions": ([None] * 7, "object"),
    "nothing": (None, "None"),
    "dates": (np.zeros(7, "M8[s]"), "datetime64"),
    "a record": (np.zeros(7, [("a", float)]), "'a'"),
    "a dictionary": ({"panda_joint1": 0.0}, "panda_joint1"),
    "a set": (set(range(7)), r"\{0, 1"),
    "another thing": (Hostile(), "Hostile"),
    "numbers too large for any type": ([10**400] * 7, "object"),
}


@each("case", NOT_COORDINATES)
def test_arguments_that_are_not_arrays_of_coordinates_are_refused(case: str) -> None:
    given, said = NOT_COORDINATES[case]
    expected = r"must be an array of real numbers of shape \(7,\) or \(\.\.\., 7\)"
    for what, call in CALLS.items():
        if what.startswith("bias_"):
            continue
        with pytest.raises(supple.errors.InputError, match=rf"^q {expected}; given: .*{said}"):
            call(given)
    with pytest.raises(supple.errors.InputError, match=rf"^q {expected}; given: .*{said}"):
        PANDA.bias_acceleration(given, Q)  # type: ignore[arg-type]
    with pytest.raises(supple.errors.InputError, match=rf"^qd {expected}; given: .*{said}"):
        PANDA.bias_acceleration(Q, given)  # type: ignore[arg-type]


@each(
    ("q", "qd"),
    [((7,), (2, 7)), ((3, 7), (4, 7)), ((3, 7), (3, 3, 7)), ((3, 4, 7), (3, 7)), ((0, 7), (2, 7))],
)
def test_joint_speeds_of_another_shape_are_refused(q: tuple[int, ...], qd: tuple[int, ...]) -> None:
    said = rf"qd must have the shape {re.escape(str(q))}.*given: {re.escape(str(qd))}"
    with pytest.raises(supple.errors.InputError, match=said):
        PANDA.bias_acceleration(np.zeros(q), np.zeros(qd))


@each("value", [np.nan, np.inf, -np.inf])
@each("dtype", [np.float64, np.float32])
@each(
    ("shape", "place"),
    [((), (4,)), ((1,), (0, 6)), ((3,), (2, 0)), ((5, 9), (3, 8, 1)), ((5000,), (4321, 3))],
)
def test_the_error_for_nonfinite_coordinates_names_the_first_of_them(
    shape: tuple[int, ...], place: tuple[int, ...], dtype: type, value: float
) -> None:
    q = np.zeros((*shape, 7), dtype)
    q[place] = value
    q.reshape(-1)[-1] = q.reshape(-1)[-1] if place[-1] == 6 else np.nan  # a second, later NaN
    where = ", ".join(map(str, place))
    for what, call in CALLS.items():
        if what.startswith("bias_"):
            continue
        with pytest.raises(supple.errors.InputError, match=rf"^q must .* q\[{where}\] = {value}"):
            call(q, threads=3)
    fine = np.zeros_like(q)
    with pytest.raises(
        supple.errors.InputError, match=rf"^q must be finite.* q\[{where}\] = {value}"
    ):
        PANDA.bias_acceleration(q, fine)
    with pytest.raises(
        supple.errors.InputError, match=rf"^qd must be finite.* qd\[{where}\] = {value}"
    ):
        PANDA.bias_acceleration(fine, q)


def test_a_number_that_becomes_infinite_in_single_precision_is_refused() -> None:
    with pytest.raises(supple.errors.InputError, match=r"qd\[0\] = inf"):
        PANDA.bias_acceleration(np.zeros(7, np.float32), np.full(7, 1e300))


@each("largest", [1e100, 1e300, np.finfo(np.float64).max])
def test_kinematics_of_any_finite_angle_are_finite(largest: float) -> None:
    for q in (np.full(7, largest), np.full((9, 7), -largest)):
        for what, call in CALLS.items():
            assert np.isfinite(call(q)).all(), what
    q = np.full((9, 7), 5e-324)
    assert all(np.isfinite(call(q)).all() for call in CALLS.values())


@each("threads", [0, -1, True, False, "2", 2.0, 1.5, [2], np.float64(2), b"2"])
def test_a_number_of_threads_that_is_not_a_whole_number_is_refused(threads: object) -> None:
    said = re.escape(repr(threads))
    for call in CALLS.values():
        with pytest.raises(
            supple.errors.InputError,
            match=rf"threads must be a positive whole number; given: {said}",
        ):
            call(Q, threads=threads)


@each("threads", [1, 3, np.int64(2), np.uint8(2), 10**6, 10**30])
def test_any_positive_whole_number_of_threads_is_accepted(threads: int) -> None:
    q = PANDA.random(3000, seed=0)
    assert (PANDA.fk(q, threads=threads) == PANDA.fk(q)).all()


# ---- names -------------------------------------------------------------------------------------


def test_an_unknown_frame_is_refused_with_the_nearest_name() -> None:
    for call in (
        lambda: PANDA.fk(Q, "panda_hnad"),
        lambda: PANDA.fk(Q, ["panda_link1", "panda_hnad"]),
        lambda: PANDA.jacobian(Q, "panda_hnad"),
        lambda: PANDA.bias_acceleration(Q, Q, "panda_hnad"),
        lambda: PANDA.singular_values(Q, "panda_hnad"),
        lambda: PANDA.with_frame("new", "panda_hnad", np.eye(4)),
        lambda: PANDA.with_tool(np.eye(4), parent="panda_hnad"),
    ):
        with pytest.raises(
            supple.errors.UnknownNameError, match=r"'panda_hnad'; did you mean 'panda_hand'"
        ):
            call()


def test_unknown_axes_are_refused_with_the_nearest_name() -> None:
    said = (
        "axes= 'wrold'; did you mean 'world'.*Available: 'world', 'body', 'spatial', 'panda_link0'"
    )
    with pytest.raises(supple.errors.UnknownNameError, match=said):
        PANDA.jacobian(Q, axes="wrold")
    with pytest.raises(supple.errors.UnknownNameError, match=said):
        PANDA.bias_acceleration(Q, Q, axes="wrold")
    with pytest.raises(supple.errors.UnknownNameError, match=said):
        PANDA.singular_values(Q, axes="wrold")


def test_an_unknown_row_name_is_refused() -> None:
    said = "unknown row 'rw'.*Available: 'x', 'y', 'z', 'rx', 'ry', 'rz'"
    for rows in (("x", "rw"), ["rw"], "rw"):
        with pytest.raises(supple.errors.UnknownNameError, match=said):
            PANDA.singular_values(Q, rows=rows)
        with pytest.raises(supple.errors.UnknownNameError, match=said):
            PANDA.manipulability(Q, rows=rows)


def test_an_unknown_joint_name_is_refused() -> None:
    said = "unknown joint 'panda_jonit1'; did you mean 'panda_joint1'"
    for joints in ("panda_jonit1", ["panda_jonit1"], {"panda_jonit1": 0.3}):
        with pytest.raises(supple.errors.UnknownNameError, match=said):
            PANDA.freeze(joints)


@each("given", [[], (), 5, True, [5], [None], [["panda_hand"]], b"ab", Hostile()])
def test_frames_and_rows_that_are_not_names_are_refused(given: object) -> None:
    shown = re.escape(repr(given))
    for what, call in {
        "frame": lambda: PANDA.fk(Q, given),
        "rows": lambda: PANDA.singular_values(Q, rows=given),
    }.items():
        with pytest.raises(
            supple.errors.InputError, match=rf"^{what} must be a name .*given: {shown}"
        ):
            call()
    with pytest.raises(supple.errors.InputError, match=rf"^axes must be the name .*given: {shown}"):
        PANDA.jacobian(Q, axes=given)  # type: ignore[arg-type]


def test_one_row_may_be_given_by_its_name() -> None:
    for row in ("x", "ry"):
        assert PANDA.singular_values(Q, rows=row) == PANDA.singular_values(Q, rows=[row])


# ---- out ---------------------------------------------------------------------------------------


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


NOT_OUT: dict[str, Callable[[tuple[int, ...]], object]] = {
    "another shape": lambda shape: np.zeros((*shape, 1)),
    "too small": lambda shape: np.zeros(shape[1:]),
    "too large": lambda shape: np.zeros((shape[0] + 1, *shape[1:])),
    "single precision": lambda shape: np.zeros(shape, np.float32),
    "whole numbers": lambda shape: np.zeros(shape, int),
    "Fortran order": lambda shape: np.zeros(shape, order="F"),
    "strided": lambda shape: np.zeros((2 * shape[0], *shape[1:]))[::2],
    "read-only": lambda shape: read_only(np.zeros(shape)),
    "a list": lambda shape: np.zeros(shape).tolist(),
    "a subclass": lambda shape: np.zeros(shape).view(np.recarray),
    "a number": lambda shape: 5,
}


@each("case", NOT_OUT)
def test_an_unsuitable_out_array_is_refused(case: str) -> None:
    q = PANDA.random(5, seed=0)
    for call, shape in ((PANDA.fk, (5, 4, 4)), (PANDA.jacobian, (5, 6, 7))):
        said = rf"out must be .* of shape {re.escape(str(shape))}, float64; given: "
        with pytest.raises(supple.errors.InputError, match=said):
            call(q, out=NOT_OUT[case](shape))  # type: ignore[operator]
    T, J = np.zeros((5, 4, 4)), np.zeros((5, 6, 7))
    with pytest.raises(supple.errors.InputError, match=r"out must be .*\(5, 6, 7\)"):
        PANDA.fk_jacobian(q, out=(T, NOT_OUT[case](J.shape)))  # type: ignore[arg-type]
    with pytest.raises(supple.errors.InputError, match=r"out must be .*\(5, 4, 4\)"):
        PANDA.fk_jacobian(q, out=(NOT_OUT[case](T.shape), J))  # type: ignore[arg-type]


@each("out", [5, (), np.zeros((5, 4, 4)), (None,)])
def test_the_out_argument_of_fk_jacobian_must_be_a_pair_of_arrays(out: object) -> None:
    with pytest.raises(supple.errors.InputError, match="out must be a pair of arrays"):
        PANDA.fk_jacobian(PANDA.random(5, seed=0), out=out)  # type: ignore[arg-type]


def test_batches_with_more_axes_than_numpy_allows_are_refused() -> None:
    most = 64 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 32
    deep = np.zeros((1,) * (most - 1) + (7,))
    with pytest.raises(ValueError, match=r"axes|dimension"):
        PANDA.fk(deep)
    assert PANDA.manipulability(deep).shape == (1,) * (most - 1)


@each(("dtype", "speed"), [(np.float64, 1e200), (np.float32, 1e30)])
def test_speeds_whose_squares_overflow_are_refused(dtype: type, speed: float) -> None:
    robot = supple.load("panda")
    q, qd = robot.random(5, seed=0).astype(dtype), np.zeros((5, 7), dtype)
    qd[3] = speed
    with pytest.raises(supple.errors.InputError, match=r"small enough .*given: q\[3\]"):
        robot.bias_acceleration(q, qd)


def sliding() -> supple.Robot:
    """Return a robot with prismatic joints; one of them mimics another."""
    joints = (
        Joint("turn", "revolute", "a", "b", axis=np.array([1.0, 0.0, 0.0])),
        Joint("slide", "prismatic", "b", "c"),
        Joint("follow", "prismatic", "c", "d", mimic=Mimic("slide", 1e6, 0.5)),
        Joint("twist", "continuous", "d", "e", mimic=Mimic("turn", -1e9)),
        Joint("last", "prismatic", "e", "f"),
    )
    return supple.Robot(Description("sliding", joints))


@pytest.mark.parametrize("what", [name for name in calls(sliding()) if name != "bias_acceleration"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_finite_coordinates_give_finite_results_or_an_error(what: str, dtype: type) -> None:
    robot = sliding()
    most = float(np.finfo(dtype).max)
    values = [0.0, 1.0, -1e14, 1e20, 1e37, 1e99, 1e200, most / 2, -most]
    every = list(itertools.product([v for v in values if abs(v) <= most], repeat=3))
    for q in every[:: nightly(1, 4)]:
        try:
            result = calls(robot)[what](np.array(q, dtype))
        except supple.errors.InputError:
            continue
        assert all(np.isfinite(part).all() for part in np.atleast_1d(result))


def test_results_are_right_in_an_out_array_that_overlaps_the_input() -> None:
    robot = supple.load("panda")
    memory = np.zeros(64 * 42)
    q = memory[: 64 * 7].reshape(64, 7)
    q[:] = robot.random(64, seed=1)
    expected = robot.jacobian(q.copy())
    assert (robot.jacobian(q, out=memory.reshape(64, 6, 7)) == expected).all()


def test_two_out_arrays_that_overlap_are_refused() -> None:
    robot, memory = supple.load("panda"), np.zeros(100 * 58)
    out = memory[: 64 * 16].reshape(64, 4, 4), memory[32 : 32 + 64 * 42].reshape(64, 6, 7)
    with pytest.raises(supple.errors.InputError, match="share memory"):
        robot.fk_jacobian(robot.random(64, seed=0), out=out)


@each(
    "make",
    [
        lambda robot: supple.Robot(None),
        lambda robot: supple.Robot("panda"),
        lambda robot: robot.with_frame("x", ["panda_hand"], np.eye(4)),
        lambda robot: robot.with_tool(np.eye(4), parent=["panda_hand"]),
        lambda robot: robot.random(-1, seed=0),
        lambda robot: robot.random(seed="seed"),
        lambda robot: robot.fk(np.zeros((1,) * 63 + (7,))),
        lambda robot: robot.fk(np.ma.masked_array(np.zeros(7), [True] + [False] * 6)),
        lambda robot: robot.with_base(np.diag([1.0, 1.0, 1.001, 1.0])),
    ],
)
def test_bad_arguments_of_methods_of_a_robot_raise_errors_of_supple(
    make: Callable[[supple.Robot], object],
) -> None:
    with pytest.raises(supple.errors.SuppleError):
        make(supple.load("panda"))


def test_strings_of_numpy_are_accepted_as_names() -> None:
    panda = supple.load("panda")
    hand, base, tool = map(np.str_, ("panda_hand", "panda_link0", "tool"))
    q = panda.random(seed=0)
    added = panda.with_frame(tool, hand, np.eye(4))
    assert (added.fk(q, tool) == panda.fk(q, "panda_hand")).all()
    assert added.with_loop(tool, base).loops[0].name == "tool-panda_link0"
