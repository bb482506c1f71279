"""The commands `check` and `pairs`, and --world of `solve`, `plan-path` and `simulate`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import supple as sp
from cases import each
from commands import found, run

DATA = Path(__file__).parents[1] / "collision/data"
PANDA = str(DATA / "panda.urdf")


def scene(folder: Path, radius: float) -> str:
    path = folder / "scene.json"
    ball = {"id": "ball", "type": "sphere", "radius": radius, "position": [0.5, 0, 0.5]}
    path.write_text(json.dumps([ball]))
    return str(path)


def test_the_command_pairs_writes_unchecked_pairs_with_their_reasons(tmp_path: Path) -> None:
    path = tmp_path / "panda.srdf"
    made = found("pairs", PANDA, "--samples", "100", "--out", str(path))
    robot = sp.urdf(PANDA)
    read = sp.collision.srdf_pairs(path, robot)
    assert [tuple(each["links"]) for each in made["unchecked"]] == list(read)
    assert {each["reason"] for each in made["unchecked"]} == {"adjacent", "never"}
    assert 'reason="Adjacent"' in path.read_text()
    assert run("pairs", "panda").exit_code == 2  # the built-in robot has no shapes


def test_the_command_check_lists_the_nearest_pairs_and_fails_on_a_collision(tmp_path: Path) -> None:
    robot = sp.urdf(PANDA)
    q = robot.random(seed=4)
    words = ("check", PANDA, scene(tmp_path, 0.05), "--q", ",".join(map(str, q)))
    made = found(*words)
    near = made["contacts"][0]
    world = sp.World.load(tmp_path / "scene.json")
    assert near["distance"] == pytest.approx(sp.collision.contacts(robot, world, q)[0].distance)
    assert not made["collides"]
    assert found("check", PANDA, scene(tmp_path, 5.0), code=1)["collides"]
    text = run("check", PANDA, scene(tmp_path, 0.05), "--srdf", str(DATA / "panda.srdf"))
    assert "59 shapes on 11 links, 1 obstacles" in text.output
    # Obstacles must keep the whole clearance; links that are close by construction need not.
    ball = next(each for each in made["contacts"] if "ball" in each["pair"])
    assert found(*words, "--clearance", str(ball["distance"] + 1e-3), code=1)["collides"]


def test_commands_for_paths_and_motions_avoid_obstacles(tmp_path: Path) -> None:
    robot = sp.urdf(PANDA)
    start = np.append([0, -0.8, 0, -2.4, 0, 1.6, 0.8], robot.neutral()[7:])
    T = np.repeat(robot.fk(start)[None], 20, axis=0)
    T[:, 1, 3] += np.linspace(0, 0.2, 20)
    np.savez(tmp_path / "path.npz", T=T)
    q0 = ",".join(map(str, start))
    words = (PANDA, str(tmp_path / "path.npz"), "--srdf", str(DATA / "panda.srdf"), "--q0", q0)
    clear = (*words, "--world", scene(tmp_path, 0.01))
    for command in ("plan-path", "simulate"):
        made = found(command, *clear, "--clearance", "0.002")
        assert made["certified"]
        assert made["min_clearance"] >= 0.002
        assert "certified" in run(command, *clear).output
        said = run(command, *words[:2], "--q0", q0, "--clearance", "1")
        assert "--world" in said.output
    at = T[-1, :3, 3].tolist()
    (tmp_path / "wall.json").write_text(
        json.dumps([{"id": "ball", "type": "sphere", "radius": 0.05, "position": at}])
    )
    blocked = (*words, "--world", str(tmp_path / "wall.json"))
    made = found("plan-path", *blocked, code=1)
    assert "ball" in made["obstacle"]
    made = found("simulate", *blocked, "--clearance", "0.002")
    assert made["certified"]
    assert made["status"]["COLLISION_LIMIT"]


def test_the_command_solve_avoids_obstacles(tmp_path: Path) -> None:
    goal = ("--position", "0.5", "0.35", "0.3", "--rpy", "3.1", "0", "0")
    made = found("solve", PANDA, *goal, "--world", scene(tmp_path, 0.1), "--clearance", "0.01")
    assert made["status"] == "CONVERGED"
    assert made["clearance"] >= 0.01
    blocked = found("solve", PANDA, *goal, "--world", scene(tmp_path, 0.4), code=1)
    assert blocked["status"] == "BLOCKED"
    assert any("ball" in pair for pair in blocked["pairs"])
    poses = np.repeat(sp.pose([0.5, 0.35, 0.3], rpy=[3.1, 0, 0])[None], 3, axis=0)
    np.savez(tmp_path / "poses.npz", T=poses)
    batch = found("solve", PANDA, str(tmp_path / "poses.npz"), "--world", scene(tmp_path, 0.1))
    assert batch["converged"] == 3


@each(
    ("words", "said"),
    [
        (("check", PANDA, "missing.json"), "missing.json"),
        (("check", PANDA, "--srdf", str(DATA / "ur5.srdf")), "names no two links"),
        (("check", PANDA, "--q", "1,2"), "7 numbers"),
        (("solve", PANDA, "--position", "0", "0", "1", "--clearance", "1"), "--world"),
    ],
)
def test_commands_state_the_reason_of_a_mistake_and_exit_with_code_2(
    words: tuple[str, ...], said: str
) -> None:
    done = run(*words)
    assert done.exit_code == 2
    assert said in done.output
