"""`retarget`: standing feet rest, limits hold, and streams give the result of whole motions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import supple as sp
from humanoids import humanoid, humanoid_text, poses_by_pinocchio
from sizes import nightly
from supple.collision import Box, Sphere
from supple.motion.linearization import Array
from supple.retargeting import (
    HumanMotion,
    Humanoid,
    PointMapping,
    Retargeted,
    Retargeter,
    default_limits,
    walking,
)

SEEDS = range(nightly(20, 2))

FRAX = "frax"


@pytest.fixture(scope="module")
def walks() -> list[tuple[HumanMotion, Retargeted]]:
    """Return human walks, each with the retargeted motion of the small humanoid."""
    robot = humanoid()
    made = []
    for seed in SEEDS:
        motion = walking(1.6, fps=[30.0, 100.0, 60.0][seed % 3], seed=seed)
        made.append((motion, sp.retarget(robot, motion)))
    return made


def stances(stands: Array) -> list[tuple[int, int]]:
    """Return the first frame of each stance and the frame after its last one."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], stands.astype(int), [0]])))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def test_standing_feet_neither_slide_nor_sink(
    walks: list[tuple[HumanMotion, Retargeted]],
) -> None:
    text = humanoid_text()
    corners = np.array([[x, y, -0.06] for x in (-0.07, 0.13) for y in (-0.04, 0.04)])
    for motion, found in walks:
        assert motion.contacts is not None
        np.testing.assert_array_equal(found.contacts, motion.contacts)
        for k, side in enumerate(("left", "right")):
            T = poses_by_pinocchio(text, found.q, f"{side}_foot")
            points = corners @ T[:, :3, :3].swapaxes(1, 2) + T[:, None, :3, 3]
            assert points[..., 2].min() > -1e-3
            for begin, end in stances(motion.contacts[:, k]):
                assert np.abs(points[begin:end] - points[begin]).max() < 1e-4
                assert np.abs(points[begin:end, :, 2]).max() < 1e-4  # soles are flat on the ground


def test_joints_keep_their_limits_on_position_speed_and_acceleration(
    walks: list[tuple[HumanMotion, Retargeted]],
) -> None:
    for _, found in walks:
        limits = default_limits(found.robot)
        qd = found.qd[:, 6:]
        assert (found.q[:, 7:] >= limits.lower[6:] - 1e-9).all()
        assert (found.q[:, 7:] <= limits.upper[6:] + 1e-9).all()
        assert (np.abs(qd) <= limits.max_speed[6:] * (1 + 1e-9)).all()
        accelerations = np.abs(np.diff(qd, axis=0)) * found.fps
        assert (accelerations <= limits.max_acceleration[6:] * (1 + 1e-6)).all()
        np.testing.assert_allclose(np.linalg.norm(found.q[:, 3:7], axis=1), 1, atol=1e-12)


def test_the_median_distance_of_followed_frames_from_their_targets_is_below_5_cm(
    walks: list[tuple[HumanMotion, Retargeted]],
) -> None:
    for motion, found in walks:
        mapping = PointMapping.guess(found.humanoid, motion)
        at = mapping.targets(motion)
        for k, follow in enumerate(mapping.follows):
            if not follow.position:
                continue
            away = found.robot.fk(found.q, follow.frame)[:, :3, 3] - at[:, k, :3, 3]
            assert np.median(np.linalg.norm(away, axis=1)) < 0.05


@pytest.mark.parametrize(("labels", "size"), [(True, 7), (False, 1)])
def test_a_stream_gives_the_bits_of_the_whole_motion_within_its_latency(
    labels: bool, size: int
) -> None:
    motion = walking(1.0, fps=90, seed=5)
    if not labels:
        motion = HumanMotion(motion.names, motion.positions, motion.fps)
    mapping = PointMapping.guess(humanoid(), motion)
    whole = sp.retarget(mapping.humanoid.robot, motion, mapping=mapping)
    stream = Retargeter(mapping, 90.0)
    made, late = [], []
    for k in range(0, len(motion), size):
        made.append(stream.push(motion[k : k + size]))
        late.append(min(k + size, len(motion)) - sum(map(len, made)))
    made.append(stream.finish())
    np.testing.assert_array_equal(np.concatenate(made), whole.q)
    assert max(late) <= stream.latency + size - 1
    np.testing.assert_array_equal(stream.contacts, whole.contacts)


def test_contacts_that_a_motion_does_not_state_are_detected() -> None:
    for seed in SEEDS:
        motion = walking(1.8, fps=100, seed=seed)
        found = sp.retarget(humanoid(), HumanMotion(motion.names, motion.positions, motion.fps))
        assert motion.contacts is not None
        assert (found.contacts == motion.contacts).mean() > 0.85
        assert found.slide.max() < 1e-4
        assert found.penetration.max() < 1e-3


def test_a_scaled_robot_makes_the_scaled_motion() -> None:
    motion = walking(0.6, fps=90, seed=2)
    small, large = (sp.retarget(humanoid(size), motion) for size in (1.0, 1.25))
    np.testing.assert_allclose(large.q[:, :3], 1.25 * small.q[:, :3], atol=2e-3)
    np.testing.assert_allclose(large.q[:, 7:], small.q[:, 7:], atol=0.02)


def test_the_size_of_the_human_does_not_change_the_robot_motion() -> None:
    one, other = (sp.retarget(humanoid(), walking(0.6, seed=3, size=size)) for size in (1.0, 1.1))
    # Where limits act, rounding errors may grow.
    np.testing.assert_allclose(one.q, other.q, atol=1e-3)


def test_a_walk_on_a_box_is_the_walk_on_the_ground_raised_by_the_height_of_the_box() -> None:
    motion = walking(0.8, fps=90, seed=1)
    height = 0.1
    raised = HumanMotion(
        motion.names, np.add(motion.positions, [0, 0, height]), motion.fps, contacts=motion.contacts
    )
    mapping = PointMapping.guess(humanoid(), motion)
    top = height * mapping.scale
    world = sp.World({"box": Box([20, 20, 0.2], [0, 0, top - 0.1])})
    robot = mapping.humanoid.robot
    flat = sp.retarget(robot, motion, mapping=mapping)
    found = sp.retarget(robot, raised, mapping=mapping, world=world)
    np.testing.assert_allclose(found.q[:, 2] - top, flat.q[:, 2], atol=1e-3)
    assert found.penetration.max() < 1e-3


def test_the_limbs_of_a_unitree_g1_are_found(
    robot_files: Callable[[str, str], Path],
) -> None:
    found = Humanoid.of(sp.urdf(robot_files(FRAX, "assets/unitree_g1/g1_29dof_rev_1_0.urdf")))
    assert (found.pelvis, found.torso) == ("pelvis", "torso_link")
    for k, side in enumerate(("left", "right")):
        assert found.legs[k][1:] == (
            f"{side}_knee_link",
            f"{side}_ankle_roll_link",
            f"{side}_ankle_roll_link",
        )
        assert found.arms[k].middle == f"{side}_elbow_link"
        assert found.soles[k][:, 2].max() < -0.02


def test_errors_about_bad_arguments_say_what_is_wrong() -> None:
    robot, motion = humanoid(), walking(0.5)
    with pytest.raises(sp.errors.InputError, match="two legs and two arms"):
        sp.retarget(sp.load("panda"), motion)
    with pytest.raises(sp.errors.InputError, match="no planar"):
        sp.retarget(robot.with_base("planar"), motion)
    with pytest.raises(sp.errors.InputError, match="motion must be a HumanMotion"):
        sp.retarget(robot, motion.positions)  # type: ignore[arg-type]
    part = HumanMotion(motion.names[:3], motion.positions[:, :3], 60)
    with pytest.raises(sp.errors.InputError, match="has no 'left_hip'"):
        sp.retarget(robot, part)
    with pytest.raises(sp.errors.InputError, match="mapping must be a mapping"):
        Retargeter(robot, 60)  # type: ignore[arg-type]
    for unit in (100, 1e-3):
        wrong = HumanMotion(motion.names, motion.positions * unit, 60)
        with pytest.raises(sp.errors.InputError, match="must be in meters"):
            sp.retarget(robot, wrong)
    mapping = PointMapping.guess(robot, motion)
    same = HumanMotion(motion.names, np.zeros_like(motion.positions), 60)
    with pytest.raises(sp.errors.InputError, match="no direction"):
        sp.retarget(robot, same, mapping=mapping)
    with pytest.raises(sp.errors.InputError, match="60 frames per second"):
        Retargeter(PointMapping.guess(robot, motion), 60).push(walking(0.5, fps=30))


@pytest.mark.parametrize("seed", SEEDS)
def test_feet_and_hands_keep_out_of_boxes(seed: int) -> None:
    motion = walking(1.2, fps=100, seed=seed)
    robot = Humanoid.of(humanoid()).robot
    free = sp.retarget(robot, motion, clearance=None)
    rng = np.random.default_rng(seed)
    hands = ("left_hand", "right_hand")
    # A small box is in the way of a hand; both hands have balls as shapes.
    k = int(rng.integers(len(free) // 3, len(free)))
    at = robot.fk(free.q[k], hands[int(rng.integers(2))])[:3, 3]
    box = Box([0.1, 0.1, 0.1], at + rng.uniform(-0.04, 0.04, 3))
    links = dict(robot.shapes) | {hand: (Sphere(0.04),) for hand in hands}
    world = sp.World({"box": box}, links=links)
    before = sp.retarget(robot, motion, world=world, clearance=None)
    found = sp.retarget(robot, motion, world=world)
    assert before.penetration.max() > 0.01
    assert found.penetration.max() < 2e-4
    assert found.slide.max() < 2e-4
    limits = default_limits(found.robot)
    assert (np.abs(found.qd[:, 6:]) <= limits.max_speed[6:] * (1 + 1e-9)).all()
    changes = np.abs(np.diff(found.qd[:, 6:], axis=0)) * found.fps
    assert (changes <= limits.max_acceleration[6:] * (1 + 1e-6)).all()


def test_limits_that_retargeting_cannot_keep_are_refused() -> None:
    robot = Humanoid.of(humanoid()).robot
    with pytest.raises(sp.errors.InputError, match="no bound on the norm"):
        sp.retarget(robot, walking(0.5), limits=sp.Limits.for_robot(robot, max_norm=1.0))
    limits = default_limits(robot)
    jerks = sp.Limits.for_robot(robot, max_jerk=5000.0)
    for wrong, said in (
        (jerks, "no jerk"),
        ("slow", "limits must be Limits"),
        (sp.Limits.for_robot(robot.freeze(robot.joint_names[-1:])), f"with {robot.nv} coordinates"),
    ):
        with pytest.raises(sp.errors.InputError, match=said):
            sp.retarget(robot, walking(0.5), limits=wrong)  # type: ignore[arg-type]
    assert np.isinf(limits.max_jerk).all()


def test_a_period_given_as_frames_per_second_is_refused() -> None:
    human = walking(0.5)
    slow = HumanMotion(human.names, human.positions, 0.0083)
    with pytest.raises(sp.errors.InputError, match="fps must be a finite number at least 1"):
        sp.retarget(humanoid(), slow)


@pytest.mark.parametrize("fps", [1.0, 3.7, 25.0])
def test_motions_with_few_frames_per_second_keep_limits_between_frames(fps: float) -> None:
    """There are several steps from frame to frame, computed in blocks."""
    found = sp.retarget(humanoid(), walking(60 / fps, fps=fps))
    assert len(found) == 60
    limits = default_limits(found.robot)
    assert (np.abs(found.qd[:, 6:]) <= limits.max_speed[6:] * (1 + 1e-9)).all()


def test_a_finished_stream_can_be_used_again_with_the_same_results() -> None:
    human = walking(1.0, fps=60)
    stream = Retargeter(PointMapping.guess(humanoid(), human), human.fps)
    first = np.concatenate([stream.push(human), stream.finish()])
    stands = stream.contacts
    again = np.concatenate([stream.push(human[:30]), stream.push(human[30:]), stream.finish()])
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(stands, stream.contacts)


def test_without_collision_meshes_the_reported_penetration_is_that_of_the_soles() -> None:
    shape = '<collision><geometry><mesh filename="nowhere.stl"/></geometry></collision>'
    pelvis = f'<link name="pelvis">{shape}</link>'
    robot = sp.urdf(humanoid_text().replace('<link name="pelvis"/>', pelvis))
    human = walking(0.5, fps=60)
    with pytest.raises(sp.errors.InputError, match="clearance=None"):
        sp.retarget(robot, human)
    found = sp.retarget(robot, human, clearance=None)
    lowest = np.concatenate(found.soles, axis=1)[..., 2].min(axis=1)
    np.testing.assert_allclose(found.penetration, np.maximum(0.0, -lowest), atol=1e-12)
    assert "largest depth of a sole" in str(found)
    assert not found.collision.any()
