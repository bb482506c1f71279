"""Every kind of task and every damping rule on a GPU: what is found is as on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from targets import PANDA, reached

import supple
from supple import AxisTask, PoseTask, PositionTask, PostureTask, Status, solve
from supple.describe import Description, Joint, Mimic
from supple.motion.damping import RULES
from supple.motion.layout import lay_out
from supple.solve.cuda.position import KERNELS
from supple.solve.cuda.source import source
from supple.solve.cuda.toolkit import compile_source
from supple.solve.search import search_of

pytestmark = pytest.mark.cuda

COUNTS = [200, 11_000]  # a warp for each, and a thread for each
PLANAR = PositionTask(rows=("x", "y"))
Array = np.ndarray


@lru_cache(maxsize=1)
def tree() -> supple.Robot:
    """Two arms on a column that slides; a joint of each follows another."""

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


LEFT, RIGHT = "left_slide_link", "right_slide_link"
TREE = {
    "two arms": (PositionTask(LEFT), PositionTask(RIGHT)),
    "one in the other's hand": (PositionTask(LEFT, base=RIGHT), AxisTask(RIGHT)),
    "a mimic that turns": (PoseTask(LEFT, rows=("x", "y", "z", "ry")),),
}


def cases() -> dict[str, tuple[supple.Robot, tuple[Any, ...], Any]]:
    """A robot, its tasks and a damping rule, each by a name."""
    planar, panda = supple.load("planar3"), supple.load("panda")
    rules = {
        rule.__name__: (planar, (PLANAR,), rule.for_robot(planar, rows=("x", "y")))
        for rule in RULES
    }
    tasks = {f"panda: {name}": (panda, each, None) for name, each in PANDA.items()}
    return rules | tasks | {name: (tree(), each, None) for name, each in TREE.items()}


CASES = cases()


@pytest.fixture(scope="module", autouse=True)
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Compile everything at once, on all cores."""
    folder = tmp_path_factory.mktemp("kernels")
    (device, *_) = supple.devices()
    texts = [
        source(name, search_of(robot, tasks, rule).kernel.constants())
        for robot, tasks, rule in CASES.values()
        for name in KERNELS
        if name != "suit.cu"
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUPPLE_CACHE_DIR", str(folder))
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda text: compile_source(text, device.architecture), texts))
        yield folder


def errors(robot: supple.Robot, tasks: tuple[Any, ...], q: Array, targets: Any) -> Array:
    """The largest position and rotation errors of all tasks (2, B), by the CPU's kernel."""
    layout = lay_out(robot, tasks)
    e = layout.error(q, layout.targets(targets)) / layout.weights
    worst, first = np.zeros((2, len(q))), 0
    for task in tasks:
        kinds = np.array([c >= 3 for c in task.on(robot).picked])
        own = e[:, first : first + len(kinds)]
        first += len(kinds)
        for kind in range(2):
            worst[kind] = np.maximum(worst[kind], np.linalg.norm(own[:, kinds == kind], axis=1))
    return worst


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", CASES)
def test_as_on_the_cpu(name: str, count: int) -> None:
    robot, tasks, rule = CASES[name]
    targets = reached(robot, tasks, robot.random(3, count))
    found = solve(robot, targets, tasks=tasks, damping=rule, device="cuda")
    few = solve(robot, [one[:200] for one in targets], tasks=tasks, damping=rule)
    assert (found.status[:200] == few.status).mean() >= 0.995
    assert found.success.mean() >= few.success.mean() - 0.002
    assert ((robot.lower <= found.q) & (found.q <= robot.upper)).all()
    far, turned = errors(robot, tasks, found.q, targets)
    np.testing.assert_allclose(found.position_error, far, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(found.rotation_error, turned, rtol=1e-6, atol=1e-9)
    assert (np.maximum(far, turned)[found.success] <= 1e-6 + 1e-12).all()
    # the same bits again, in another order
    back = [one[::-1] for one in targets]
    again = solve(robot, back, tasks=tasks, damping=rule, device="cuda")
    assert (again.q[::-1] == found.q).all()
    assert (again.status[::-1] == found.status).all()


@pytest.mark.parametrize("count", COUNTS)
def test_a_posture_is_kept_near(count: int) -> None:
    robot = supple.load("panda")
    T, rest = robot.fk(robot.random(4, count)), robot.neutral()
    tasks = [PoseTask(), PostureTask()]
    found = solve(robot, [T, rest], tasks=tasks, device="cuda")
    few, plain = solve(robot, [T[:200], rest], tasks=tasks), solve(robot, T[:200])
    assert (found.status == Status.CONVERGED).all()
    far, near, free = (np.linalg.norm(x.q[:200] - rest, axis=1) for x in (found, few, plain))
    assert far.mean() <= 1.05 * near.mean() < free.mean()
    # on the same branch no small move brings it nearer, as on the CPU
    assert np.mean(far <= near + 1e-3) >= 0.6
    assert (errors(robot, (PoseTask(),), found.q, [T]) <= 1e-6 + 1e-12).all()
