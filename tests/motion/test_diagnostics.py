"""Texts of directions, reports on steps, reasons of damping rules, and null-space leakage."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import rules
import supple
from spectra import SHAPES, samples
from supple import DLS, Linearization, PoseTask, damping, explain
from supple.criteria import RestPosture
from supple.damping.rule import KernelRule
from supple.errors import InputError
from supple.motion.direction_text import direction_text, row_name
from supple.motion.linearization import stacked
from supple.redundancy import GradientProjection, NullSpace, null_space_leakage
from supple.steps import AngleClamp, ErrorClamp, Pseudoinverse

TWIST = tuple(row_name(c, "hand") for c in ("x", "y", "z", "rx", "ry", "rz"))
HALF = math.sqrt(0.5)


# ---- words -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("direction", "said"),
    [
        ([1, 0, 0, 0, 0, 0], "translation along world x"),
        ([-1, 0, 0, 0, 0, 0], "translation along world x"),
        ([0, 0, 0, 0, 0, 5], "rotation about world z"),
        ([1, 1, 0, 0, 0, 0], "translation along (0.71, 0.71, 0) of world"),
        ([1, -1, 1e-9, 0, 0, 0], "translation along (0.71, -0.71, 0) of world"),
        ([0, 0.6, 0, 0.8, 0, 0], "rotation about world x with translation along y"),
        ([0, -0.6, 0, 0.8, 0, 0], "rotation about world x with translation along -y"),
        ([1e-3, 0, 1, 0, 0.01, 0], "translation along world z"),
    ],
)
def test_directions_of_a_twist_are_described_in_words(direction: list[float], said: str) -> None:
    assert direction_text(np.array(direction, float), TWIST) == said


def test_directions_of_rows_that_are_no_twist_are_described_by_row_names() -> None:
    assert direction_text(np.array([0.8, 0, 0.6])) == "0.8 row 0 + 0.6 row 2"
    assert direction_text(np.array([-0.6, 0, 0.8])) == "-0.6 row 0 + 0.8 row 2"
    assert direction_text(np.array([0.0, 1.0]), ("elbow", "wrist")) == "wrist"
    assert direction_text(np.zeros(2), ("elbow", "wrist")) == ""
    mixed = direction_text(np.array([0.8, 0.6]), ("x of hand", "elbow"))
    assert mixed == "translation along world x with 0.6 elbow"


def test_a_direction_names_its_axes_and_its_frame_among_several_or_relative_to_a_base() -> None:
    two = ("x of left", "rz of left", "x of right")
    assert direction_text(np.array([1.0, 0, 0]), two) == "translation of left along world x"
    both = direction_text(np.array([0.8, 0, -0.6]), two)
    assert both == "translation of left along world x with translation of right along -x"
    own = (row_name("x", "hand", None, "hand"), row_name("y", "hand", None, "hand"))
    assert direction_text(np.array([0.0, 1.0]), own) == "translation along y of hand"
    relative = (row_name("rx", "left", "right", "right"), row_name("x", "left", "right", "right"))
    said = direction_text(np.array([0.8, 0.6]), relative)
    assert said == "rotation of left relative to right about x of right with translation along x"


def test_the_singular_direction_of_a_stretched_arm_is_along_the_arm() -> None:
    robot = supple.load("planar3")
    lin = PoseTask(rows=("x", "y")).linearize(robot, np.zeros(3))
    assert lin.singular_direction == "translation along world x"
    turned = PoseTask(rows=("x", "y")).linearize(robot, [math.pi / 4, 0, 0])
    assert turned.singular_direction == "translation along (0.71, 0.71, 0) of world"
    own = PoseTask(rows=("x", "y"), axes="body").linearize(robot, [math.pi / 4, 0, 0])
    assert own.singular_direction == f"translation along x of {robot.tips[0]}"


def test_a_report_distinguishes_several_lost_directions() -> None:
    # J of a planar arm has three zero rows; each is a direction of its own.
    robot = supple.load("planar3")
    report = explain(PoseTask().linearize(robot, [0.3, 0.4, 0.5]))
    # With three joints, none of the three singular values is zero; there are three more rows.
    assert report.lost == ()
    assert "3 more rows than joints" in str(report)
    rng = np.random.default_rng(3)
    J = np.zeros((6, 7))
    J[[0, 1, 5]] = rng.normal(size=(3, 7))
    lost = explain(Linearization(J, np.ones(6), rows=TWIST)).lost
    assert sorted(lost) == [
        "rotation about world x",
        "rotation about world y",
        "translation along world z",
    ]


# ---- reports -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_report_has_the_numbers_of_the_linearization_and_of_the_step(
    shape: tuple[int, int],
) -> None:
    # With other tasks, rounding of J decides the motion along tiny singular values.
    for sample in (each for each in samples(shape) if each.name.endswith(("along", "none"))):
        lin = sample.linearization
        for rule in (damping.Constant(0.04), damping.Optimal(0.5), damping.SpeedBound(5.0)):
            step = DLS(rule)
            report = explain(lin, step)
            assert [d.sigma for d in report.directions] == lin.sigma.tolist()
            assert (report.rank, report.condition) == (lin.rank, lin.condition)
            assert report.manipulability == lin.manipulability
            assert len(report.lost) == min(shape) - lin.rank
            assert report.lambda2 == rule(lin)
            assert report.speed == pytest.approx(np.linalg.norm(step(lin)))
            lambda2 = rule(lin)
            for d in report.directions[: lin.rank]:
                assert d.gain == pytest.approx(d.sigma / (d.sigma**2 + lambda2), rel=1e-6)
                assert d.missed == pytest.approx(lambda2 / (d.sigma**2 + lambda2), abs=1e-6)
            assert all((d.gain, d.missed) == (0, 1) for d in report.directions[lin.rank :])
            assert "nan" not in str(report)


def test_the_report_of_a_clamp_is_that_of_the_step_inside() -> None:
    lin = Linearization(np.diag([1.0, 0.1]), np.array([3.0, 4.0]))
    rule = damping.ErrorDamped(1.0)
    assert explain(lin, AngleClamp(DLS(rule), 0.1)).lambda2 == 25
    # The rule inside the clamp is given the clamped error.
    report = explain(lin, ErrorClamp(DLS(rule), 2.0))
    assert report.lambda2 == pytest.approx(4)
    assert "length 2, so lambda2 = 4" in report.reason
    # The part of the error that the clamp removes is missed, too.
    assert report.directions[0].missed == pytest.approx(1 - 0.4 / 5)


def test_reports_have_no_lambda2_for_undamped_steps_and_the_returned_one_for_user_rules() -> None:
    lin = Linearization(np.diag([2.0, 0.5]), np.array([1.0, 0.0]))
    report = explain(lin, Pseudoinverse())
    assert (report.lambda2, report.reason, report.step) == (None, "", "Pseudoinverse")
    assert report.directions[0].gain == pytest.approx(0.5)
    assert report.directions[0].missed == pytest.approx(0, abs=1e-15)
    assert report.directions[1].gain is None
    mine = explain(lin, DLS(lambda _: 0.25))
    assert mine.lambda2 == 0.25
    assert mine.reason.endswith("lambda2 = 0.25")
    assert explain(lin).step == ""
    assert explain(lin).speed is None


def test_a_printed_report_names_rank_weakest_direction_damping_reason_speed_and_leakage() -> None:
    lin = Linearization(np.diag([2.0, 0.003]), np.array([1.0, 1.0]), rows=TWIST[:2])
    lines = str(explain(lin, DLS(damping.SpeedBound(5.0)), null=[0.0, 2.0])).splitlines()
    assert lines[0] == "2 rows, 2 joints, rank 2; manipulability 0.006, condition 667"
    assert lines[1] == "weakest: translation along world y (sigma 0.003, 0.0015 of the largest)"
    assert lines[2] == (
        "speed bound: sigma_min 0.003 is below 1/(2 max_gain) = 0.1, so lambda2 = 0.01"
    )
    assert lines[3] == "DLS: joint speed 0.582"
    assert lines[6].split() == ["0.003", "1", "0.3", "99.9%", "translation", "along", "world", "y"]
    assert lines[7] == "null-space motion leaks 0.003 into the task"


# ---- reasons -----------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", rules.EVERY, ids=rules.key)
def test_the_reason_of_every_damping_rule_states_lambda2_and_is_true(rule: KernelRule) -> None:
    for shape in ((2, 3), (6, 6), (6, 5)):
        for sample in samples(shape)[::2]:
            lin = sample.linearization
            said = rule.reason(lin)
            assert "nan" not in said
            assert f"lambda2 = {rule(lin):.3g}" in said
            # A rule damps if and only if its reason says that a threshold is crossed.
            if " is not below " in said or " is within " in said:
                assert rule(lin) == 0
            if " is below " in said and not said.startswith("manipulability"):
                assert rule(lin) > 0


# ---- leaks -------------------------------------------------------------------------------------


def test_null_space_leakage_is_the_task_velocity_per_unit_of_joint_motion() -> None:
    rng = np.random.default_rng(4)
    J = rng.normal(size=(3, 6))
    lin = Linearization(J, np.ones(3))
    null = np.linalg.svd(J)[2][-1]
    assert null_space_leakage(lin, null) <= 1e-14
    assert null_space_leakage(lin, np.zeros(6)) == 0
    assert null_space_leakage(lin, lin.V[:, 0]) == pytest.approx(lin.sigma[0])
    for size in (1e-300, 1.0, 1e300):
        assert null_space_leakage(lin, size * np.ones(6)) == pytest.approx(
            np.linalg.norm(J.sum(axis=1)) / math.sqrt(6)
        )
    assert explain(lin, null=null).null_space_leakage == null_space_leakage(lin, null)
    with pytest.raises(InputError, match=r"null must have shape \(6,\)"):
        null_space_leakage(lin, np.ones(3))


# ---- q -----------------------------------------------------------------------------------------


def test_a_linearization_keeps_its_configuration() -> None:
    J = np.ones((2, 3))
    assert Linearization(J, np.ones(2)).q is None
    lin = Linearization(J, np.ones(2), q=[1, 2, 3])  # type: ignore[arg-type]
    assert lin.q is not None
    assert lin.q.tolist() == [1, 2, 3]
    both = stacked([Linearization(J, np.ones(2)), lin])
    assert both.q is not None
    assert both.q.tolist() == [1, 2, 3]
    for bad in (np.ones(2), np.ones((3, 1)), [1, 2, np.nan], "abc"):
        with pytest.raises(InputError, match=r"^q must (have shape|be) "):
            Linearization(J, np.ones(2), q=bad)  # type: ignore[arg-type]


def test_the_reported_command_has_the_sign_of_the_named_direction() -> None:
    """`commanded` is positive along the named direction, for either sign of the singular vector."""
    for sign in (1.0, -1.0):
        lin = Linearization(np.diag([2.0, sign]), np.array([0.3, -0.7]))
        commanded = {d.words: d.commanded for d in explain(lin).directions}
        assert commanded == pytest.approx({"row 0": 0.3, "row 1": -0.7})


def test_the_report_states_the_null_space_leakage_of_a_criterion() -> None:
    rng = np.random.default_rng(4)
    lin = Linearization(rng.normal(size=(3, 5)), rng.normal(size=3), q=rng.normal(size=5))
    rest = RestPosture(np.zeros(5))
    assert explain(lin, NullSpace(Pseudoinverse(), rest)).null_space_leakage <= 1e-12
    damped = GradientProjection(damping.Constant(0.1), rest)
    moved = damped(lin) - replace(damped, gain=0.0)(lin)
    assert explain(lin, damped).null_space_leakage == pytest.approx(null_space_leakage(lin, moved))
    assert explain(lin, damped).null_space_leakage > 1e-3


def steady(linearization: Linearization) -> float:
    return 0.25


class Steady:
    def __call__(self, linearization: Linearization) -> float:
        return 0.25


@pytest.mark.parametrize(
    ("rule", "name"), [(steady, "steady"), (Steady(), "Steady"), (lambda lin: 0.25, "lambda")]
)
def test_a_damping_rule_of_a_user_is_reported_by_its_name(rule: object, name: str) -> None:
    lin = Linearization(np.eye(3), np.ones(3))
    report = explain(lin, DLS(rule))  # type: ignore[arg-type]
    assert report.reason == f"{name}: lambda2 = 0.25"
    assert explain(lin, lambda each: each.e).step == "lambda"
    assert "0x" not in str(report)
    with pytest.raises(InputError, match=f"given: {name}. CONTRIBUTING"):
        DLS(rule)(Linearization(np.ones((2, 3, 3)), np.ones((2, 3))))  # type: ignore[arg-type]


def test_explain_refuses_a_batch_of_linearizations() -> None:
    many = Linearization(np.ones((2, 3, 3)), np.ones((2, 3)))
    with pytest.raises(InputError, match="one linearization is needed"):
        explain(many)
    assert explain(many[0]).rank == 1
