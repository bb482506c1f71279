"""Methods of the benchmark: Servos keep limits, and all libraries get the same input."""

from __future__ import annotations

import numpy as np
import pytest

import passages
import supple as sp
from singularities import KINDS, METHODS, ROBOTS, measured, passage, run, tables
from singularities.methods import HALTS, SLOWS, asked
from singularities.others import placements
from singularities.passages import DT
from singularities.peers import asked as asked_of_peers
from singularities.peers import next_pose
from singularities.singular import moved
from sizes import nightly

NAMED = {method.name: method for method in METHODS}
ALL = [(name, kind) for name in ROBOTS for kind in KINDS]
# Each kind of passage for at least one robot, two kinds for each robot, and one with self-motion.
SOME = nightly(ALL, [pair for k, pair in enumerate(ALL) if (k // len(KINDS) + k) % 3 == 1])
SEVERAL = pytest.mark.parametrize(("name", "kind"), SOME)


@SEVERAL
def test_a_default_servo_keeps_every_limit_at_singularities(name: str, kind: str) -> None:
    here = passage(name, kind)
    q = run(NAMED["Servo"], here)
    m = measured(here, q)
    assert m.finite
    assert m.violations == 0
    assert m.halted == 0


@pytest.mark.parametrize("name", ["panda", "iiwa14"])
def test_past_an_avoidable_singularity_a_servo_errs_less_than_the_pseudoinverse(name: str) -> None:
    """The rms error of the Servo is below 0.02 mm."""
    here = passage(name, "shoulder")
    assert here.avoidable
    m = measured(here, run(NAMED["Servo"], here))
    assert m.position_rms < 2e-5
    assert m.position_rms < measured(here, run(NAMED["Pseudoinverse"], here)).position_rms


@pytest.mark.parametrize("speed", [0.2, 0.4])
@pytest.mark.parametrize("past", [0.001, 0.003, 0.006])
def test_an_arm_passes_the_end_of_its_reach_if_the_command_returns_soon(
    speed: float, past: float
) -> None:
    """The command leaves the reach of a UR5e by a few millimeters; the arm does not stop.

    If it stopped, it would be 4 to 17 mm behind the command while its joints accelerate again.
    """
    arm, dt, half = sp.load("ur5e"), 0.004, 0.15
    stretched = np.array([0.3, -0.8, 0.0, 0.4, -1.0, 0.5])
    pose, u = arm.fk(stretched), np.linalg.svd(arm.jacobian(stretched))[0][:, -1]
    out, side, bend = passages.unit(u), passages.reachable_side(arm, stretched), 0.15 * speed
    span = 2 * (half + past)
    times = np.arange(0, span / speed + passages.RAMP + passages.REST, dt)
    s = passages.progress(times, speed, span) - span / 2
    inside = side * (np.hypot(s, bend) - bend - past)
    poses = np.array([passages.moved(pose, out, distance) for distance in inside])
    turned = np.tile(np.eye(4), (len(poses) - 1, 1, 1))
    turned[:, :3, :3] = poses[1:, :3, :3] @ poses[:-1, :3, :3].swapaxes(1, 2)
    moved_by = np.diff(poses[:, :3, 3], axis=0)
    twists = np.concatenate([moved_by, sp.poses.rotation_vector(turned)], axis=1) / dt
    limits = sp.Limits.for_robot(arm, max_acceleration=5 * arm.max_speed)
    start = sp.solve(arm, poses[0], q0=stretched + 0.1).q
    here = passages.Passage(arm, "beyond", dt, limits, start, poses, twists, poses)
    rms, _, arrived = passages.followed(here, None)
    assert rms < 3.5  # [mm]
    assert arrived


@pytest.mark.parametrize("name", ["puma560", "ur5e"])
def test_a_servo_cuts_the_corner_of_a_path_close_to_a_singularity(name: str) -> None:
    """The path misses the shoulder singularity by 0.1 mm; the first joint turns less than half
    as far as for exact tracking.
    """
    here = passage(name, "shoulder")
    q = run(NAMED["Servo"], here)
    assert measured(here, q).position_rms < 1.5e-4
    assert np.ptp(q[:, 0]) < 0.5 * np.ptp(here.nominal[:, 0])  # the nominal motion is exact


@SEVERAL
def test_a_servo_keeps_the_bound_on_the_norm_at_singularities(name: str, kind: str) -> None:
    here = passage(name, kind)
    bound = here.robot.max_speed.min()
    speeds = np.diff(run(NAMED["Servo, bounded"], here), axis=0) / DT
    assert np.linalg.norm(speeds, axis=1).max() <= bound * (1 + 1e-9)


@pytest.mark.parametrize("method", [m for m in METHODS if m.ours], ids=lambda m: m.name)
def test_every_method_of_supple_keeps_limits_while_the_target_is_out_of_reach(method) -> None:
    here = passage("iiwa14", "reach")
    m = measured(here, run(method, here))
    assert m.finite
    assert m.violations == 0


@SEVERAL
def test_optimal_damping_keeps_its_bound_at_singularities(name: str, kind: str) -> None:
    here = passage(name, kind)
    bound = sp.damping.Optimal.for_robot(here.robot).max_speed
    speeds = np.diff(run(NAMED["DLS Optimal"], here), axis=0) / DT
    assert np.linalg.norm(speeds, axis=1).max() <= bound * (1 + 1e-9)


def test_the_benchmark_has_all_damping_rules() -> None:
    assert {f"DLS {rule.__name__}" for rule in sp.damping.RULES} <= set(NAMED)
    assert len(NAMED) == len(METHODS)


def test_a_plain_pseudoinverse_exceeds_speed_limits_and_a_clipped_one_does_not() -> None:
    here = passage("ur5e", "wrist")
    plain, clipped = (measured(here, run(NAMED[f"plain pinv{x}"], here)) for x in ("", ", clipped"))
    assert plain.speed_share > 10
    assert plain.too_fast > 0
    assert clipped.too_fast == 0
    assert clipped.position_max > plain.position_max


def test_the_halting_method_slows_down_linearly_in_the_condition_number() -> None:
    here = passage("ur5e", "shoulder")
    halting, plain = (NAMED[name].make(here.robot, DT) for name in ("halting", "plain pinv"))
    shares = []
    for k in range(0, 330, 3):  # on the nominal motion toward the singularity
        q, twist, pose = here.nominal[k], here.twists[k], here.poses[k]
        sigma = here.robot.singular_values(q)
        asked_for, done = plain(q, twist, pose) - q, halting(q, twist, pose) - q
        share = done @ asked_for / (asked_for @ asked_for)
        assert np.allclose(done, share * asked_for, atol=1e-12)
        shares.append((sigma[0] / sigma[-1], share))
    for condition, share in shares[1:]:  # the condition number only grows on this part
        expected = np.clip((HALTS - condition) / (HALTS - SLOWS), 0, 1)
        assert share == pytest.approx(expected, abs=1e-9)
    assert {0.0, 1.0} <= {round(share, 12) for _, share in shares}
    stuck = passage("ur5e", "start")
    assert measured(stuck, run(NAMED["halting"], stuck)).halted > 3


@pytest.mark.parametrize("name", ROBOTS)
def test_other_libraries_get_the_same_robot_and_commands(name: str) -> None:
    robot = passage(name, "elbow").robot
    rng = np.random.default_rng(1)
    for q in robot.random(5, seed=rng):
        turns = [moved(np.eye(4), np.array([0, 0, 0, 0, 0, angle])) for angle in [*q, 0.0]]
        parts = [part for pair in zip(placements(robot), turns, strict=True) for part in pair]
        assert np.allclose(np.linalg.multi_dot(parts), robot.fk(q), atol=1e-12)
        twist = rng.normal(size=6)
        pose = moved(robot.fk(q), rng.normal(size=6) * 0.3)
        assert np.allclose(
            asked_of_peers(robot.fk(q), twist, pose), asked(robot, q, twist, pose), atol=1e-12
        )
        assert np.allclose(next_pose(twist, pose, DT), moved(pose, DT * twist), atol=1e-12)


def test_tables_have_a_row_for_each_method_and_equal_numbers_of_columns() -> None:
    here = passage("puma560", "start")
    runs = {name: measured(here, run(NAMED[name], here)) for name in ("Servo", "plain pinv")}
    rows = tables.of_passage(here, runs)
    assert [row.split("|")[1].strip() for row in rows if row.startswith("| ")][1:] == list(runs)
    assert len({row.count("|") for row in rows if row.startswith("|")}) == 1
    summary = tables.summary([runs], runs)
    assert len({row.count("|") for row in summary if row}) == 1
