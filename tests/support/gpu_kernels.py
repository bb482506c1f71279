"""Robots, tasks and rules of the GPU tests, compiled together on all cores."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np

import supple
from supple import AxisTask, PoseTask, PositionTask, PostureTask
from supple.damping import RULES
from supple.describe import Description, Joint, Mimic
from supple.gpu.runtime import compile_source
from supple.ik.gpu.position import texts
from supple.ik.problem import compile_problem
from targets import PANDA

PLANAR = PositionTask(rows=("x", "y"))
ARMS = ("panda", "ur5e", "iiwa14", "puma560", "stanford")


@lru_cache(maxsize=1)
def tree() -> supple.Robot:
    """Return two arms on a sliding column; one joint of each arm mimics another."""

    def joint(name: str, kind: Any, parent: str, axis: Any, **more: Any) -> Joint:
        origin = np.eye(4)
        origin[:3, 3] = 0.3, 0.0, 0.1
        limits = {"lower": -0.4, "upper": 0.4} if kind == "prismatic" else {}
        limits = {"lower": -2.5, "upper": 2.5} if kind == "revolute" else limits
        return Joint(name, kind, parent, f"{name}_link", origin, np.array(axis), **limits, **more)

    x, y, z = np.eye(3)
    joints = [joint("column", "prismatic", "base", z)]
    for side in ("left", "right"):
        parent = "column_link"
        for i, (kind, axis) in enumerate((("revolute", z), ("revolute", y), ("revolute", x))):
            joints.append(joint(f"{side}{i}", kind, parent, axis))
            parent = f"{side}{i}_link"
        joints.append(joint(f"{side}_follower", "continuous", parent, y, mimic=Mimic(f"{side}1")))
        joints.append(joint(f"{side}_slide", "prismatic", f"{side}_follower_link", x))
    return supple.Robot(Description("tree", tuple(joints)))


@lru_cache(maxsize=1)
def screw() -> supple.Robot:
    """Return a SCARA arm that lifts its tool by a screw of 0.2 m per turn."""
    table = [(0.3, 0.0, 0.4, 0.0), (0.25, 0.0, 0.0, 0.0), (0.05, 0.3, -0.1, 0.0)]
    limits = [(-2.5, 2.5), (-2.6, 2.6), (-6.0, 6.0)]
    return supple.dh(table, kinds="RRH", pitch=0.2 / (2 * np.pi), limits=limits)


LEFT, RIGHT = "left_slide_link", "right_slide_link"
TREE = {
    "two arms": (PositionTask(LEFT), PositionTask(RIGHT)),
    "one in the other's hand": (PositionTask(LEFT, base=RIGHT), AxisTask(RIGHT)),
    "a mimic that turns": (PoseTask(LEFT, rows=("x", "y", "z", "ry")),),
}


def cases() -> dict[str, tuple[supple.Robot, tuple[Any, ...], Any]]:
    """Return test cases by name, each a robot, its tasks and a damping rule."""
    planar, panda = supple.load("planar3"), supple.load("panda")
    rules = {
        rule.__name__: (planar, (PLANAR,), rule.for_robot(planar, rows=("x", "y")))
        for rule in RULES
    }
    tasks = {f"panda: {name}": (panda, each, None) for name, each in PANDA.items()}
    trees = {name: (tree(), each, None) for name, each in TREE.items()}
    return rules | tasks | trees | {"a screw": (screw(), (PositionTask(),), None)}


CASES = cases()


def compile_all(architecture: str) -> None:
    """Compile the code that most tests need, into the folder named by SUPPLE_CACHE_DIR.

    This is the search for all cases and arms, and the search for several solutions of the arms.
    """
    every = [*CASES.values(), *((supple.load(name), None, None) for name in ARMS)]
    posture = (PoseTask(), PostureTask())
    made = [texts(compile_problem(*case)) for case in every]
    for name, tasks in [*((name, None) for name in ARMS[:4]), ("panda", posture)]:
        made.append(texts(compile_problem(supple.load(name), tasks), several=True))
    linked = {text: len(files) > 1 for one in made for files in one.values() for text in files}

    def compile_one(text: str) -> bytes:
        return compile_source(text, architecture, relocatable=linked[text])

    with ThreadPoolExecutor() as pool:
        list(pool.map(compile_one, linked))
