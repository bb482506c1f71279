"""Branches are named by signs, which differ among solutions and change only at singularities."""

from __future__ import annotations

import numpy as np
import pytest

import supple as sp
from cases import each
from solving import solve
from supple.errors import InputError
from supple.kinematics.branch import branch_legend, branch_signs, branch_words, has_branches

ARMS = ("ur5e", "puma560")


@pytest.mark.parametrize("name", ARMS)
def test_solutions_of_a_pose_have_different_branch_signs(name: str) -> None:
    robot = sp.load(name)
    free = robot.with_limits(lower=-np.pi, upper=np.pi)
    counts = []
    for T in free.fk(free.random(30, seed=0)):
        found = solve(free, T, solutions="all")
        signs = found.branch
        assert signs.shape == (len(found), 3)
        assert (signs != 0).all()
        assert len(np.unique(signs, axis=0)) == len(found)
        counts.append(len(found))
    assert max(counts) == 8


@each("name", ARMS)
def test_the_product_of_branch_signs_is_the_sign_of_det_j(name: str) -> None:
    robot = sp.load(name)
    q = robot.random(200, seed=1)
    signs = branch_signs(robot, q, robot.tips[0])
    np.testing.assert_array_equal(
        signs.prod(axis=1), np.sign(np.linalg.det(robot.jacobian(q, robot.tips[0])))
    )


@pytest.mark.parametrize(("joint", "which"), [(2, 1), (4, 2)])
def test_elbow_and_wrist_signs_change_where_the_joint_is_straight(joint: int, which: int) -> None:
    ur5e = sp.load("ur5e")
    q = np.tile([0.1, -1.0, 0.0, 0.3, 0.0, 0.2], (2, 1))
    q[:, [2, 4]] = 0.7
    q[:, joint] = 0.4, -0.4
    elbow_up, elbow_down = branch_signs(ur5e, q, ur5e.tips[0])
    changed = np.nonzero(elbow_up != elbow_down)[0]
    assert which in changed
    assert 3 - which not in changed


def test_arms_without_named_branches_are_refused() -> None:
    panda = sp.load("panda")
    with pytest.raises(InputError, match="names of branches need"):
        branch_signs(panda, panda.neutral(), panda.tips[0])


# ---- words ---------------------------------------------------------------------------------------

Vectors = np.ndarray


def any_arm(random: np.random.Generator) -> tuple[sp.Robot, str]:
    """Return a random arm with named branches on a random base, and its kind: "wrist" or
    "parallel".
    """
    kind = str(random.choice(["wrist", "parallel"]))
    turns = random.choice([-1, 1], 6) * np.pi / 2
    turns[1], turns[2 if kind == "parallel" else 1] = random.choice([0, np.pi], 2)
    turns[5] = 0
    a, d = random.choice([-1, 1], (2, 6)) * random.uniform(0.1, 1.0, (2, 6))
    a[3:] = 0
    if kind == "wrist":
        d[4] = 0
        d[1:3] *= random.choice([0, 1])  # the arm's plane is beside axis 1, or not
        a[0] *= random.choice([0, 1])  # the shoulder is in front of axis 1, or not
    else:
        a[0] = 0
    table = [(a[k], turns[k], d[k], 0.0) for k in range(6)]
    over = np.pi * random.choice([0, 1])
    base = sp.pose(random.normal(size=3), rpy=[over + random.uniform(-1, 1), 0.3, 1.0])
    return sp.dh(table).with_base(base), kind


def named_by_eye(robot: sp.Robot, kind: str, q: Vectors) -> tuple[str, str | None]:
    """Return words for shoulder and elbow from the positions of points of the arm at q (n,).

    The word for the elbow is None where the second bone does not end outward of the shoulder.
    """
    T = robot.fk(q, robot.description.links)
    o, z = T[:, :3, 3], T[:, :3, 2]  # the axis of joint k + 1 is z of frame k
    wrist = o[5] if kind == "parallel" else o[4]
    end = o[3] if kind == "parallel" else o[4]  # the end of the second bone
    up = z[0] * np.sign(z[0, 2])
    away = (wrist - o[0]) - (wrist - o[0]) @ up * up
    beside = (away @ z[1]) * z[1]  # from axis 1 to the plane in which the bones move
    ahead = (o[1] - o[0]) - (o[1] - o[0]) @ up * up
    ahead = ahead - ahead @ z[1] * z[1]
    out = away - beside
    if np.linalg.norm(beside) > 1e-9:
        shoulder = "left" if np.cross(up, away) @ beside > 0 else "right"
    elif np.linalg.norm(ahead) > 1e-9:
        shoulder = "front" if away @ ahead > 0 else "back"
    else:
        shoulder = "forward" if out @ np.cross(z[1], z[0]) > 0 else "backward"
    out /= np.linalg.norm(out)
    bone, line = o[2] - o[1], end - o[1]
    if line @ out < 0:
        return shoulder, None
    above = bone @ up - (bone @ out) * (line @ up) / (line @ out)
    return shoulder, "up" if above > 0 else "down"


@each("seed", range(40))
def test_names_of_branches_agree_with_the_geometry_of_the_arm(seed: int) -> None:
    random = np.random.default_rng(seed)
    robot, kind = any_arm(random)
    frame = robot.tips[0]
    assert has_branches(robot, frame)
    q = robot.random(40, seed=seed)
    signs = branch_signs(robot, q, frame)
    words = branch_words(robot, signs, frame)
    # Each name belongs to one combination of signs.
    assert len(set(words)) == len(np.unique(signs, axis=0))
    for one, (shoulder, elbow, _) in zip(q, words, strict=True):
        seen, bent = named_by_eye(robot, kind, one)
        assert shoulder == seen
        assert bent in (None, elbow)
    legend = "\n".join(branch_legend(robot, frame))
    assert all(word in legend for one in words for word in one)


def test_the_printed_text_of_solutions_has_joint_angles_and_names_of_branches() -> None:
    ur5e = sp.load("ur5e")
    found = solve(ur5e, ur5e.fk([0.3, -1.2, 1.5, -0.7, 0.9, 0.4]), solutions="all")
    lines = str(found).splitlines()
    assert "joints [rad]" in lines[0]
    for k, name in enumerate(found.branch_names):
        assert [float(word) for word in lines[1 + k].split()[1:7]] == pytest.approx(
            found.q[k], abs=1e-4
        )
        assert lines[1 + k].endswith(name)
    assert lines[-3].strip().startswith("shoulder left, right: ")


def test_a_singular_branch_is_called_singular() -> None:
    ur5e = sp.load("ur5e")
    signs = branch_signs(ur5e, np.array([[0.3, -1.2, 1.5, -0.7, 0.0, 0.4]]), ur5e.tips[0])
    assert branch_words(ur5e, signs, ur5e.tips[0])[0][2] == "singular"
