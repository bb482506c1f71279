"""Robot files inside other projects' wheels, and the end effectors of the robots in them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import supple
from supple.errors import SuppleError
from supple.kinematics.frames import ancestors, placed

Array = np.ndarray
FOLDERS = tuple(Path(sys.prefix) / name for name in ("robot-files", "many-robots"))
_ROOT = re.compile(
    rb"\s*(?:<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*>|\s)*<([A-Za-z_][\w.:-]*)", re.DOTALL
)
_WELD = re.compile(r"weld it with fixed=\[(['\"])(.+?)\1\]")


def folders(given: Sequence[str | Path] = ()) -> list[Path]:
    """Return the folders with robot files: those given, or those that the Makefile fills."""
    named = os.environ.get("SUPPLE_MANY_ROBOTS", "").split(os.pathsep)
    chosen = [Path(name) for name in given or named if name]
    return chosen or [folder for folder in FOLDERS if folder.is_dir()]


def robot_files(given: Sequence[str | Path] = ()) -> list[tuple[str, Path]]:
    """Return (name, path) of every URDF and MJCF file, sorted by name.

    Files ending in .xml are included only if their root element is that of a robot format; other
    .xml files are package manifests and settings.
    """
    found = {}
    for folder in folders(given):
        for path in folder.rglob("*"):
            if path.suffix == ".urdf" or (path.suffix == ".xml" and root_of(path) in ROOTS):
                found[path.relative_to(folder).as_posix()] = path
    return sorted(found.items())


ROOTS = ("robot", "mujoco", "mujocoinclude", "")


def root_of(path: Path) -> str:
    """Return the name of a file's root element, "" if there is none."""
    match = _ROOT.match(path.read_bytes())
    return match[1].decode() if match else ""


@dataclass(frozen=True)
class Loaded:
    """A robot, and the joints that were welded so that supple could read the file."""

    robot: supple.Robot
    welded: tuple[str, ...]


def load(path: Path) -> Loaded:
    """Read a file; joints with several coordinates are welded, as the error message proposes.

    Raises:
        SuppleError: The file is rejected for another reason.
    """
    read = supple.urdf if path.suffix == ".urdf" or root_of(path) == "robot" else supple.mjcf
    welded: list[str] = []
    while True:
        try:
            return Loaded(read(path, fixed=welded), tuple(welded))
        except SuppleError as error:
            proposed = _WELD.search(str(error))
            if proposed is None or proposed[2] in welded:
                raise
            welded.append(proposed[2])


# ---- end effectors -------------------------------------------------------------------------------


@dataclass(frozen=True)
class End:
    """A frame at the end of a chain of joints, and the tasks that its joints can perform."""

    robot: supple.Robot
    frame: str
    joints: int
    tasks: tuple[supple.PoseTask | supple.PositionTask | supple.AxisTask, ...]
    key: tuple  # equal if chains differ only in their mounting pose

    @property
    def moved(self) -> Array:
        """Mask (n,) of the coordinates that move the frame."""
        return np.isin(np.arange(self.robot.dof), list(ancestors(self.robot, self.frame).values()))

    @property
    def kind(self) -> str:
        """The controlled quantities in words, such as "position + axis"."""
        names = {"PoseTask": "pose", "PositionTask": "position", "AxisTask": "axis"}
        return " + ".join(names[type(task).__name__] for task in self.tasks)

    def targets(self, T: Array) -> Array | list[Array]:
        """Return the targets of `solve` for poses T (..., 4, 4) of the frame."""
        if isinstance(self.tasks[0], supple.PoseTask):
            return T
        each = [T[..., :3, 3]] + [T[..., :3, 2]] * (len(self.tasks) - 1)
        return each if len(each) > 1 else each[0]


def ends(robot: supple.Robot) -> Iterator[End]:
    """Yield one end effector per distinct chain: a leaf link, or a link that carries fingers.

    The task is the pose if the joints span all six directions, else the position and the direction
    of the z axis, else the position. Frames whose joints span fewer directions are omitted, and so
    are sensors half-way along a chain. If the joints that move a palm span all six directions,
    only the first of its fingers is included.
    """
    joints = robot._tree.joints
    onward = {joint.parent for joint in joints}
    palms = {}
    for name in _palms(robot):
        tasks = _tasks(robot, name)
        if tasks and isinstance(tasks[0], supple.PoseTask):
            palms[placed(robot, name).joint] = name
    seen: set[int] = set()
    for frame in (*robot.description.leaves, *palms.values()):
        chain = list(ancestors(robot, frame))[::-1]
        if not chain or chain[-1] in seen:
            continue
        if chain[-1] in palms:
            frame = palms[chain[-1]]
        seen.add(chain[-1])
        hands = [j for j in chain[:-1] if j in palms]
        if hands:
            finger = -1 - hands[-1]  # a key that no joint has, because indices are not negative
            if finger in seen:
                continue
            seen.add(finger)
        tasks = _tasks(robot, frame)
        if not tasks or (chain[-1] in onward and frame not in palms.values()):
            continue
        moved = {joints[j].coordinate for j in chain}
        yield End(robot, frame, len(moved), tasks, _key(robot, chain))


def _palms(robot: supple.Robot) -> list[str]:
    """Return the links from which two or more moving branches start."""
    branches: dict[int, int] = {}
    for joint in robot._tree.joints:
        branches[joint.parent] = branches.get(joint.parent, 0) + 1
    carried: dict[int, str] = {}
    for name in robot.frames:
        carried.setdefault(placed(robot, name).joint, name)
    return [carried[j] for j, count in branches.items() if count > 1 and j in carried]


def _tasks(robot: supple.Robot, frame: str) -> tuple:
    J = robot.jacobian(robot.random(8, seed=0), frame)
    R = robot.fk(robot.random(8, seed=0), frame)[:, :3, :3]
    z = R[:, :, 2]
    turning = np.cross(J[:, 3:].swapaxes(1, 2), z[:, None]).swapaxes(1, 2)

    def rank(A: Array) -> int:
        return int(np.linalg.matrix_rank(A, tol=1e-6).max())

    if rank(J) == 6:
        return (supple.PoseTask(frame),)
    if rank(J[:, :3]) < 3:
        return ()
    if rank(np.concatenate([J[:, :3], turning], axis=1)) == 5:
        return (supple.PositionTask(frame), supple.AxisTask(frame, (0, 0, 1)))
    return (supple.PositionTask(frame),)


def _key(robot: supple.Robot, chain: list[int]) -> tuple:
    numbers: list[float] = []
    number_of: dict[int, int] = {}
    for i, j in enumerate(chain):
        joint = robot._tree.joints[j]
        c = joint.coordinate
        number_of.setdefault(c, len(number_of))
        numbers += [number_of[c], joint.prismatic, joint.scale, joint.offset]
        numbers += [*joint.axis, robot.lower[c], robot.upper[c]]
        numbers += [] if i == 0 else [*joint.placement[:3].ravel()]
    return tuple(np.round(numbers, 5) + 0.0)


# ---- arms on long sliders ------------------------------------------------------------------------


def bases() -> Iterator[tuple[str, str, End, float]]:
    """Yield (name, URDF text, end effector, spread [m]) of an arm on two long sliders."""
    for limit in (100.0, 1000.0, 10_000.0, None):
        (end,) = ends(supple.urdf(_base(limit)))
        text = _base(limit or 1e6)  # Pinocchio requires limits for sliders
        spread = 1000.0 if limit is None else limit
        name = "base without limits" if limit is None else f"base of ±{limit:.0f} m"
        yield name, text, end, spread


def _base(limit: float | None) -> str:
    within = (
        ""
        if limit is None
        else f'<limit lower="{-limit}" upper="{limit}" effort="1" velocity="1"/>'
    )
    turns = '<limit lower="-2.5" upper="2.5" effort="1" velocity="1"/>'
    joints = [
        ("prismatic", "1 0 0", "0 0 0", within),
        ("prismatic", "0 1 0", "0 0 0", within),
        ("continuous", "0 0 1", "0 0 0", ""),
        ("revolute", "0 0 1", "0 0 0.3", turns),
        ("revolute", "0 1 0", "0 0 0.2", turns),
        ("revolute", "0 1 0", "0 0 0.4", turns),
        ("revolute", "1 0 0", "0.4 0 0", turns),
        ("revolute", "0 1 0", "0.1 0 0", turns),
        ("revolute", "1 0 0", "0.1 0 0", turns),
    ]
    text = "".join(f'<link name="l{i}"/>' for i in range(len(joints) + 1))
    for i, (kind, axis, place, limits) in enumerate(joints):
        text += (
            f'<joint name="j{i}" type="{kind}"><parent link="l{i}"/><child link="l{i + 1}"/>'
            f'<origin xyz="{place}"/><axis xyz="{axis}"/>{limits}</joint>'
        )
    return f'<robot name="base">{text}</robot>'
