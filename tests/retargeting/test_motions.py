"""Files of human motions: what is written is read again, BVH agrees with formulas, errors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import supple as sp
from cases import each
from humanoids import humanoid
from supple.errors import InputError
from supple.motion.linearization import Array
from supple.retargeting import TableMapping, walking


def turned(motion: sp.retargeting.HumanMotion, seed: int) -> sp.retargeting.HumanMotion:
    """Return a motion with random rotations."""
    T, J, _ = motion.positions.shape
    R = Rotation.random(T * J, rng=np.random.default_rng(seed)).as_matrix().reshape(T, J, 3, 3)
    return sp.retargeting.HumanMotion(
        motion.names, motion.positions, motion.fps, R, motion.contacts
    )


def test_motions_written_to_npz_files_are_read_again(tmp_path: Path) -> None:
    motion = turned(walking(0.5, seed=1), 2)
    motion.save(tmp_path / "walk.npz")
    read = sp.retargeting.HumanMotion.load(tmp_path / "walk.npz")
    for name in ("positions", "rotations", "contacts"):
        np.testing.assert_array_equal(getattr(read, name), getattr(motion, name))
    assert (read.names, read.fps) == (motion.names, motion.fps)


def test_motions_converted_to_frames_of_gmr_and_back_are_equal(tmp_path: Path) -> None:
    motion = turned(walking(0.3, seed=1), 3)
    frames = motion.to_frames()
    read = sp.retargeting.HumanMotion.from_frames(frames, motion.fps)
    np.testing.assert_allclose(read.positions, motion.positions, atol=1e-12)
    assert read.rotations is not None
    assert motion.rotations is not None
    np.testing.assert_allclose(read.rotations, motion.rotations, atol=1e-12)
    xyzw = np.roll([frames[0][name][1] for name in motion.names], -1, axis=-1)
    np.testing.assert_allclose(
        Rotation.from_quat(xyzw).as_matrix(), motion.rotations[0], atol=1e-12
    )
    file = tmp_path / "frames.json"
    file.write_text(json.dumps({"fps": 50, "frames": frames}))
    assert sp.retargeting.HumanMotion.load(file).fps == 50


def test_csv_and_qpos_have_the_same_motion(tmp_path: Path) -> None:
    found = sp.retarget(humanoid(), walking(0.5))
    found.save_csv(tmp_path / "motion.csv", header=True)
    found.save_qpos(tmp_path / "motion.npz")
    rows = np.loadtxt(tmp_path / "motion.csv", delimiter=",", skiprows=1)
    qpos = np.load(tmp_path / "motion.npz")["qpos"]
    np.testing.assert_array_equal(qpos, found.q)
    np.testing.assert_allclose(rows[:, [0, 1, 2, 6, 3, 4, 5]], qpos[:, :7], atol=1e-8)
    np.testing.assert_allclose(rows[:, 7:], qpos[:, 7:], atol=1e-8)
    motion = found.trajectory()
    np.testing.assert_array_equal(motion.q, found.q)
    assert motion.t[-1] == pytest.approx((len(found) - 1) / found.fps)


ORDERS = ("ZXY", "XYZ", "ZYX")


def drawn_bvh(seed: int) -> tuple[str, Array, Array]:
    """Return a BVH file of a random tree, and positions and rotations with z up, by SciPy."""
    rng = np.random.default_rng(seed)
    count, frames = int(rng.integers(3, 9)), int(rng.integers(1, 5))
    parent = [-1, *(int(rng.integers(0, k)) for k in range(1, count))]
    offset, order = rng.normal(size=(count, 3)) * 0.3, rng.choice(ORDERS, count)
    angle, root = rng.uniform(-180, 180, (frames, count, 3)), rng.normal(size=(frames, 3)) * 0.2

    def lines(k: int) -> list[str]:
        kind = f"ROOT j{k}" if k == 0 else f"JOINT j{k}"
        rotation = " ".join(f"{axis}rotation" for axis in order[k])
        channels = f"6 Xposition Yposition Zposition {rotation}" if k == 0 else f"3 {rotation}"
        inner = [f"OFFSET {' '.join(map(str, offset[k]))}", f"CHANNELS {channels}"]
        written.append(k)
        for child in range(count):
            inner += lines(child) if parent[child] == k else []
        if k not in parent:
            inner += ["End Site", "{", "OFFSET 0 0.1 0", "}"]
        return [kind, "{", *inner, "}"]

    written: list[int] = []
    head = lines(0)
    rows = []
    positions, rotations = np.empty((frames, count, 3)), np.empty((frames, count, 3, 3))
    for t in range(frames):
        row = list(root[t])
        for i, k in enumerate(written):
            row += list(angle[t, k])
            R = Rotation.from_euler(order[k], angle[t, k], degrees=True).as_matrix()
            above = np.eye(3) if k == 0 else rotations[t, written.index(parent[k])]
            at = root[t] if k == 0 else positions[t, written.index(parent[k])] + above @ offset[k]
            positions[t, i], rotations[t, i] = at, above @ R
        rows.append(" ".join(map(repr, map(float, row))))
    up = np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0.0]])
    motion = ["MOTION", f"Frames: {frames}", "Frame Time: 0.02", *rows]
    return "\n".join(["HIERARCHY", *head, *motion]), positions @ up.T, up @ rotations


@each("seed", range(6))
def test_positions_and_rotations_read_from_bvh_files_agree_with_formulas(
    seed: int, tmp_path: Path
) -> None:
    text, positions, rotations = drawn_bvh(seed)
    (tmp_path / "a.bvh").write_text(text)
    read = sp.retargeting.HumanMotion.load(tmp_path / "a.bvh")
    assert read.fps == pytest.approx(50)
    np.testing.assert_allclose(read.positions, positions, atol=1e-12)
    np.testing.assert_allclose(read.rotations, rotations, atol=1e-12)


@each(
    ("change", "words"),
    [
        (("MOTION", "MOVES"), "needs HIERARCHY and MOTION"),
        (("Frames: ", "Frames: 9"), "values"),
        (("Xposition", "Wposition"), "unknown channel"),
        (("OFFSET", "OFFSETS"), "unexpected"),
        (("0.02", "0"), "positive time"),
        (("ROOT j0\n{", "ROOT j0\n{ {"), "cannot be read"),
        (("CHANNELS 6", "CHANNELS -2"), "-2 channels"),
    ],
)
def test_errors_about_bad_bvh_files_say_what_is_wrong(
    change: tuple[str, str], words: str, tmp_path: Path
) -> None:
    text = drawn_bvh(1)[0].replace(*change, 1)
    (tmp_path / "a.bvh").write_text(text)
    with pytest.raises(InputError, match=words):
        sp.retargeting.HumanMotion.load(tmp_path / "a.bvh")


def test_errors_about_bad_motions_say_what_is_wrong(tmp_path: Path) -> None:
    points = walking(0.2).positions.copy()
    points[3, 2, 1] = np.nan
    np.savez(tmp_path / "nan.npz", global_joint_positions=points, names=list(walking(0.2).names))
    with pytest.raises(InputError, match="frame 3 is not"):
        sp.retargeting.HumanMotion.load(tmp_path / "nan.npz")
    np.savez(tmp_path / "other.npz", poses=points)
    with pytest.raises(InputError, match="available: 'poses'"):
        sp.retargeting.HumanMotion.load(tmp_path / "other.npz")
    np.save(tmp_path / "unnamed.npy", np.zeros((4, 7, 3)))
    with pytest.raises(InputError, match="no names of its 7 points"):
        sp.retargeting.HumanMotion.load(tmp_path / "unnamed.npy")
    for changed, words in (
        ({"fps": [1.0, 2.0]}, "one 'fps'"),
        ({"fps": "fast"}, "fps must be"),
        ({"fps": 0}, "fps must be"),
        ({"names": "hip"}, "a name of its own"),
    ):
        parts = {"names": list(walking(0.2).names), "fps": 30} | changed
        np.savez(tmp_path / "odd.npz", global_joint_positions=walking(0.2).positions, **parts)
        with pytest.raises(InputError, match=words):
            sp.retargeting.HumanMotion.load(tmp_path / "odd.npz")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "nan.npz").read_bytes()[:200])
    with pytest.raises(InputError, match="cannot be read"):
        sp.retargeting.HumanMotion.load(tmp_path / "cut.npz")
    with pytest.raises(InputError, match="from_frames"):
        sp.retargeting.HumanMotion.load(tmp_path / "motion.pkl")
    for text in ("[1, 2]", "[null]", '{"frames": [3.5, {}]}'):
        (tmp_path / "odd.json").write_text(text)
        with pytest.raises(InputError, match="frame 0 must be a mapping"):
            sp.retargeting.HumanMotion.load(tmp_path / "odd.json")
    (tmp_path / "a.bvh").write_text(drawn_bvh(1)[0])
    with pytest.raises(InputError, match="fps must be"):
        sp.retargeting.HumanMotion.load(tmp_path / "a.bvh", fps=0)
    with pytest.raises(InputError, match="there is no file"):
        sp.retargeting.HumanMotion.load(tmp_path / "none.npz")


def table(robot: sp.Robot) -> dict[str, object]:
    """Return a GMR table of frames, scales and offsets for the small humanoid."""
    follow = {"pelvis": "pelvis", "waist": "spine"}
    for side in ("left", "right"):
        follow |= {f"{side}_foot": f"{side}_ankle", f"{side}_knee": f"{side}_knee"}
        follow |= {f"{side}_hand": f"{side}_wrist", f"{side}_elbow": f"{side}_elbow"}
    rows = {
        frame: [body, 100 if frame.endswith("foot") else 50, 10, [0, 0, 0], [1, 0, 0, 0]]
        for frame, body in follow.items()
    }
    scales = dict.fromkeys([*follow.values(), "pelvis"], 0.8)
    return {"human_root_name": "pelvis", "human_scale_table": scales, "ik_match_table2": rows}


def test_tables_of_gmr_give_scaled_targets(tmp_path: Path) -> None:
    robot = humanoid()
    motion = walking(0.5, seed=4)
    T, J, _ = motion.positions.shape
    motion = sp.retargeting.HumanMotion(
        motion.names, motion.positions, 60, np.tile(np.eye(3), (T, J, 1, 1)), motion.contacts
    )
    file = tmp_path / "table.json"
    file.write_text(json.dumps(table(robot)))
    mapping = TableMapping.load(robot, file)
    at = mapping.targets(motion)
    for k, follow in enumerate(mapping.follows):
        body = motion.positions[:, motion.names.index(follow.body)]
        np.testing.assert_allclose(at[:, k, :3, 3], 0.8 * body, atol=1e-12)
    found = sp.retarget(robot, motion, mapping=mapping)
    assert np.isfinite(found.q).all()
    assert found.slide.max() < 1e-4
    with pytest.raises(InputError, match="with rotations"):
        sp.retarget(robot, walking(0.5), mapping=mapping)
    wrong = table(robot)
    wrong["ik_match_table2"] = {"toes": ["left_toe", 1, 1, [0, 0, 0], [1, 0, 0, 0]]}
    file.write_text(json.dumps(wrong))
    with pytest.raises(InputError, match="'toes' that small does not have"):
        TableMapping.load(robot, file)
